"""An in-memory inbox to test a channel with. It keeps all events, drops repeats, and can fail like a full disk.

inbox = KeptInbox(tmp_path)
task = asyncio.create_task(channel.run(inbox))
[hello] = await inbox.wait(1)
assert hello.text == "hello" and inbox.at == "cursor-7"
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from semel.gateway.ports import Heard, Incoming, Kept, Person, TooLarge


class KeptInbox:
    """An `Inbox` in memory.

    `puts`: each batch with its cursor. `events`: all events in order, without repeats. `at`: the last cursor.
    `onlines`: how often the channel reported that it is online. `store`: the directory of received files.
    """

    def __init__(self, store: Path, cursor: str | None = None) -> None:
        """`store`: a directory for received files. `cursor`: the cursor that the channel starts from."""
        self.at = cursor
        self.puts: list[tuple[tuple[Incoming, ...], str | None]] = []
        self.events: list[Incoming] = []
        self.repeats: Counter[str] = Counter()  # by key
        self.strangers: set[str] = set()  # ids of people who may not speak
        self.fail: Exception | None = None  # if set, the next `put` raises it and keeps nothing
        self.onlines = 0
        self.sent_files: dict[tuple[str, str], Path | None] = {}  # by `Op.key` and address; None if erased
        self.store = store
        self._keys: set[str] = set()
        self._more = asyncio.Event()

    def __repr__(self) -> str:
        return f"<KeptInbox {len(self.events)} events, at {self.at!r}>"

    async def cursor(self) -> str | None:
        return self.at

    async def put(self, events: Sequence[Incoming], cursor: str | None = None) -> None:
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error
        self.puts.append((tuple(events), cursor))
        for event in events:
            if event.key in self._keys:
                self.repeats[event.key] += 1
                continue
            self._keys.add(event.key)
            self.events.append(event)
        self.at = cursor if cursor is not None else self.at
        self._more.set()

    async def known(self, sender: Person, group: str = "") -> bool:
        return sender.id not in self.strangers

    async def may_invite(self, sender: Person) -> bool:
        return await self.known(sender)

    async def has_heard(self, key: str) -> bool:
        return key in self._keys

    async def keep(self, name: str, mime: str, content: AsyncIterable[bytes], limit: int = 50_000_000) -> Kept:
        data = bytearray()
        async for piece in content:
            data += piece
            if len(data) > limit:
                raise TooLarge(f"{name} is larger than {limit} bytes")
        id = hashlib.blake2b(data, digest_size=32).hexdigest()
        self.store.mkdir(parents=True, exist_ok=True)
        (self.store / id).write_bytes(data)
        return Kept(id, len(data), name, mime)

    @asynccontextmanager
    async def lend_file(self, key: str, address: str) -> AsyncGenerator[Path | None]:
        yield self.sent_files[key, address]

    def online(self) -> None:
        self.onlines += 1
        self._more.set()

    async def hear(self, **event: Any) -> Heard:
        await self.put([Incoming("message", event["key"], text=event["text"])], event.get("cursor"))
        return Heard(len(self.events), "accepted")

    async def wait(self, events: int, seconds: float = 20.0) -> list[Incoming]:
        """Wait until there are at least `events` events, and return all. Raises TimeoutError after `seconds`."""
        await self._until(lambda: len(self.events) >= events, seconds)
        return self.events

    async def wait_online(self, times: int = 1, seconds: float = 20.0) -> None:
        """Wait until the channel has called `online` at least `times` times. Raises TimeoutError after `seconds`."""
        await self._until(lambda: self.onlines >= times, seconds)

    async def _until(self, holds: Any, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while not holds():
                self._more.clear()
                await self._more.wait()
