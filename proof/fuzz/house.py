"""The gateway's own inbox over a ledger in memory: what a channel puts is judged, read and recorded as in the product.

    house = House()
    house.run(channel.take(answer, house.inbox))
    house.check()          # everything that was put is a row; the cursor is the last one

Whoever writes is known here, and no file is fetched.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from semel.gateway.file_store import FileStore, ReceivedFiles
from semel.gateway.files import FolderFiles
from semel.gateway.inbound.admission import Verdict
from semel.gateway.inbound.channel_inbox import ChannelInbox
from semel.gateway.inbound.inbox import EventInbox
from semel.gateway.ports import Incoming, Kept, Person, TooLarge
from semel.gateway.record import Hub, LedgerAccess
from semel.gateway.settings import AgentSettings, ChannelSettings, GatewaySettings
from semel.law.commands import AgentMessage
from semel.ledger.admin.books import audit
from semel.ledger.inbound.hear import IdleStart
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.sql import Tx

T = TypeVar("T")
EXECUTIONS = 400
"""After so many a new ledger begins: none grows large."""


class _Record(LedgerAccess):
    """Transactions run where they are called."""

    async def write(self, body: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self.store.write_sync(self._run_and_publish, body, *args, **kwargs)

    async def read(self, body: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self.store.read_sync(body, *args, **kwargs)


class _Everyone:
    """Whoever speaks may."""

    async def judge(self, channel: str, what: Incoming) -> Verdict:
        return Verdict(role="owner", person="ann")

    async def may_speak(self, channel: str, sender: Person, group: str = "") -> bool:
        return True


class _Quiet:
    """A message that finds its session idle begins a turn, which nobody runs; no command is done."""

    idle_start = IdleStart("fuzz", lambda session: True, lambda session: None, lambda turn: None)

    def act_on(self, heard: Any) -> None: ...

    def wake(self, session: int) -> None: ...

    def can_steer(self, key: str) -> bool:
        return False

    async def read(self, text: str, *args: Any, **kwargs: Any) -> AgentMessage:
        return AgentMessage(text)


class _Seen:
    def online(self) -> None: ...

    def count(self, what: str) -> None: ...


class _Kept(ChannelInbox):
    """Remembers what was put."""

    puts: list[tuple[tuple[Any, ...], str | None]]

    async def put(self, events: Sequence[Incoming], cursor: str | None = None) -> None:
        await super().put(events, cursor)
        self.puts.append((tuple(events), cursor))

    async def keep(self, name: str, mime: str, content: AsyncIterable[bytes], limit: int = 0) -> Kept:
        raise TooLarge(f"{name} is not kept here")


class House:
    """One ledger for many inputs; `fresh` is called before each, and gives it an account of its own.

    What an input that fails leaves behind must not fail the next one: unless `holds` was set, the ledger is a new one.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._numbers = itertools.count()
        self._left = 0
        self.holds = False
        self.inbox: _Kept

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(doing)

    def fresh(self) -> _Kept:
        if self._left == 0 or not self.holds:
            if hasattr(self, "store"):
                self.store.close()
            self.store = Store.in_memory()
            self.record = _Record(self.store, Hub())
            self._left = EXECUTIONS
        self._left -= 1
        self.holds = False
        self.inbox = self._inbox(f"c{next(self._numbers)}")
        return self.inbox

    def _inbox(self, channel: str) -> _Kept:
        agent = AgentSettings(name="demo", command=("true",), cwd=Path("/nowhere"))
        settings = GatewaySettings(
            data_dir=Path("/nowhere"), ledger=Path("/nowhere/ledger.db"), agents={"demo": agent}, default_agent="demo",
            channels={channel: ChannelSettings(name=channel, kind="fake")},
        )  # fmt: skip
        quiet: Any = _Quiet()
        receiving = ReceivedFiles(self.record, FileStore(FolderFiles(Path("/nowhere"))))
        inbox = EventInbox(self.record, settings, quiet, quiet)
        kept = _Kept(inbox, channel, _Everyone(), receiving, _Seen(), lambda: None, (channel,))
        kept.puts = []
        return kept

    def check(self) -> list[Incoming]:
        """What was put, each a row (Law 1), the last cursor kept, the books in balance."""
        heard = [what for events, _ in self.inbox.puts for what in events]
        cursors = [cursor for _, cursor in self.inbox.puts if cursor is not None]
        source = self.inbox._source
        if cursors:
            assert self.run(self.inbox.cursor()) is not None, "the cursor was not kept"
        rows = self.store.read_sync(_rows, source)
        wanted = {what.key for what in heard if what.kind != "echo" and _is_key(what.key)}
        assert wanted <= rows.keys(), f"not recorded: {sorted(wanted - rows.keys())[:3]}"
        odd = sum(what.kind != "echo" for what in heard) > 0
        assert bool(rows) or not odd, "nothing of it was recorded"
        assert all(book.ok for book in self.store.read_sync(audit)), "the books do not balance"
        self.holds = True
        return heard


def _rows(tx: Tx, source: str) -> dict[str, str]:
    """The kind of each event of that source, by key."""
    return dict(tx._cursor.execute("SELECT key, kind FROM event WHERE source = ?", (source,)))


def _is_key(key: object) -> bool:
    plain = isinstance(key, str) and 0 < len(key) <= 512
    return plain and not any(
        sign < " " or "\x7f" <= sign <= "\x9f" or "\ud800" <= sign <= "\udfff" for sign in str(key)
    )
