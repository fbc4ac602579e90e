"""Who writes, who watches and who stops, over every death of the gateway. Times are the monotonic clock's, in ns."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.house import Client, Refused
from proof.soak.plan import Message, Session
from proof.soak.platforms import Platform
from proof.soak.world import World
from proof.stream_view import View
from semel.channels import signature

LOST = (OSError, EOFError, TimeoutError)
"""What a request meets whose gateway dies."""
PATIENCE = 60.0
"""Seconds for one answer."""
STOPPING = 120.0
"""Seconds for which somebody tries to stop a turn."""
Json = dict[str, Any]


@dataclass
class Said:
    """One message as whoever said it knows it. `event`: the row that the first acknowledgement named; where a platform
    told it, nobody is acknowledged to, and both are None. `answers`: (status, body) of every request."""

    message: Message
    begun: int
    accepted: int | None = None
    event: int | None = None
    answers: list[tuple[int, Json]] = field(default_factory=list)


class Watched:
    """One session, as its watcher has it. `seen`: when an answer was there as a whole, by its text."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.view = View()
        self.connections = 0
        self.seen: dict[str, int] = {}

    async def watch(self, world: World) -> None:
        """Until cancelled."""
        while True:
            with contextlib.suppress(*LOST, Refused):
                client = await Client(world.port).open()
                with contextlib.closing(client):
                    await self._follow(client)
            await asyncio.sleep(0.2)

    async def _follow(self, client: Client) -> None:
        after = self.view.rev or None
        async for at, message in client.stream(self.session.key, after):
            self.connections += message["type"] == "snapshot" or after is not None
            after = None
            for seq in self.view.take(message):
                text = self.view.entries.get(seq, {}).get("text", "")
                if text.startswith("Seen: ") and text.endswith("."):
                    self.seen.setdefault(text, at)

    def shows(self, text: str) -> bool:
        """Whether something that still streams begins with this."""
        return any(one.get("live") and one["text"].startswith(text) for one in self.view.entries.values())


class People:
    """All who write. `said` holds every message."""

    def __init__(self, world: World, platforms: Mapping[str, Platform], watched: Sequence[Watched], seed: int) -> None:
        self._world, self._platforms = world, platforms
        self._watched = {one.session.key: one for one in watched}
        self._chance = random.Random(f"{seed} people")
        self._lines: deque[Client] = deque()
        self._busy: set[asyncio.Task[None]] = set()
        self.said: list[Said] = []
        self.stops = 0

    def __repr__(self) -> str:
        return f"<People {len(self.said)} messages, {len(self._busy)} under way>"

    def say(self, message: Message) -> None:
        """Have it said, until it is acknowledged."""
        said = Said(message, time.monotonic_ns())
        self.said.append(said)
        if message.route == "platform":
            assert message.session.channel is not None
            self._platforms[message.session.channel.name].write(message)
        else:
            self._soon(self._tell(said))
        if message.deed == "deaf":
            self._soon(self._stop(message))

    @property
    def busy(self) -> int:
        """How many have something left to say, or to stop."""
        return len(self._busy)

    def close(self) -> None:
        for task in self._busy:
            task.cancel()
        for line in self._lines:
            line.close()

    def _soon(self, what: Any) -> None:
        task = asyncio.get_running_loop().create_task(what)
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _tell(self, said: Said) -> None:
        await self._until_answered(said)
        if said.message.again:
            await asyncio.sleep(self._chance.random() * 5)
            await self._until_answered(said)

    async def _until_answered(self, said: Said) -> None:
        """The same request again and again, until the gateway says what became of it."""
        while True:
            path, body, headers = self._request(said.message)
            try:
                status, raw, at = await self._ask("POST", path, body, headers)
            except LOST:
                await asyncio.sleep(0.1 + self._chance.random() * 0.2)
                continue
            said.answers.append((status, json.loads(raw or b"{}")))
            if status == 202 and said.accepted is None:
                said.accepted, said.event = at, said.answers[-1][1]["event"]
            if status != 503:
                return
            await asyncio.sleep(0.2)

    def _request(self, message: Message) -> tuple[str, bytes, Mapping[str, str]]:
        session = message.session
        if message.route == "api":
            told = {"text": message.text, "id": message.mark}
            return f"/v1/sessions/{session.key}/messages", json.dumps(told).encode(), {}
        assert session.channel is not None
        body = json.dumps({"text": message.text, "session": session.key}).encode()
        key = signature.decode_secret(SECRET)
        return f"/v1/hooks/{session.channel.name}", body, signature.headers(key, message.mark, int(time.time()), body)

    async def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes, int]:
        """On a connection that is kept while it holds."""
        line = self._lines.popleft() if self._lines else None
        if line is None or line.port != self._world.port:
            if line is not None:
                line.close()
            line = await Client(self._world.port).open()
        try:
            answer = await asyncio.wait_for(line.request(method, path, body, headers), PATIENCE)
        except BaseException:
            line.close()
            raise
        self._lines.append(line)
        return answer

    async def _stop(self, message: Message) -> None:
        """Ann stops a turn that does nothing, whenever she sees it, until it is gone for a while."""
        text, quiet = f"Busy with {message.mark}", 0
        watched = self._watched[message.session.key]
        end = time.monotonic() + STOPPING
        while quiet < 10 and time.monotonic() < end:
            await asyncio.sleep(1)
            quiet = 0 if watched.shows(text) else quiet + 1
            if quiet == 0:
                with contextlib.suppress(*LOST):
                    path = f"/v1/sessions/{message.session.key}/stop"
                    status, raw, _ = await self._ask("POST", path, b'{"by": "ann"}', {})
                    self.stops += status == 200 and json.loads(raw)["stopped"]


SECRET = "whsec_YSBzZWNyZXQgb2YgdHdvIGRvemVuIGJ5"
"""Of all webhooks here: both sides sign with it."""
