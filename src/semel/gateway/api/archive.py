"""Search, export and import: the part of the gateway's facade for past conversations."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import IO, Any

from semel.gateway.api.search import Filters, Order, Search
from semel.gateway.errors import BadRequest, Conflict, NoSuchSession
from semel.gateway.inbound.inbox import Inbox
from semel.gateway.settings import GatewaySettings
from semel.gateway.transactions import Record
from semel.law.identity import check_session_key
from semel.ledger.admin import export, import_session
from semel.ledger.admin.import_file import MAX_LINE_BYTES, Any_, Checked, check, read
from semel.ledger.inbound.hear import To
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import views

Json = dict[str, Any]
Page = Callable[[Tx, export.Scope, int], tuple[list[Json], int | None]]

STEP_LINES = 100  # per import transaction: others wait for it no longer than for the end of a turn
STEP_BYTES = 256 << 10


class Archive:
    """The part of the gateway's facade that searches, exports and imports."""

    record: Record
    settings: GatewaySettings
    inbox: Inbox
    searches: Search
    _importing: asyncio.Lock

    async def search(
        self,
        text: str,
        *,
        session: str | None = None,
        role: str | None = None,
        since: int | None = None,
        until: int | None = None,
        order: Order = "newest",
        limit: int = 20,
        after: str | None = None,
    ) -> Json:
        """One page of search results: {"hits", "next", "index"}. Pass `next` as `after`. Raises BadRequest, Busy."""
        where = Filters(session, role, since, until)
        return await self.searches.find(text, where, order=order, limit=limit, after=after)

    async def export(self, session: str) -> AsyncIterator[list[Json]]:
        """Yield a session as pages of records: header, turns, entries, claims without an entry (docs/export.md).

        Entries that are added meanwhile are left out. Raises NoSuchSession.
        """
        number = await self._number_of(session)
        if number is None:
            raise NoSuchSession(session)
        scope = await self.record.read(export.scope, number)
        yield [scope.header]
        pages: tuple[Page, ...] = (export.turns, export.entries, export.unsaid)
        for page in pages:
            after: int | None = 0
            while after is not None:
                records, after = await self.record.read(page, scope, after)
                if records:
                    yield records

    async def import_session(self, file: IO[bytes], key: str | None = None) -> Json:
        """Create a session from an export, under its own key or `key`: {"session", "status", "entries"}.

        `status` is "imported", or "known" if this very session exists already: imported before, or the exported one
        itself. The whole file is checked before anything is written. An interrupted import continues where it stopped.
        Raises BadRequest (the message names the line), Conflict.
        """
        try:
            checked = await asyncio.to_thread(_check, file)
            target = self._import_to(key or checked.header.key, checked.header.agent)
        except ValueError as bad:
            raise BadRequest(str(bad)) from None
        async with self._importing:
            try:
                status = await self._import(file, checked, target)
            except (import_session.SessionExists, import_session.ImportDisturbed) as no:
                raise Conflict(str(no)) from None
        return {"session": target.key, "status": status, "entries": checked.header.entries}

    def _import_to(self, key: str, agent: str) -> To:
        """The home follows from the key, as for any new session; the agent is the exported one if it is configured."""
        to = self.inbox.target(check_session_key(key))
        return To(key, agent, to.home) if agent in self.settings.agents else to

    async def _import(self, file: IO[bytes], checked: Checked, target: To) -> str:
        if await self._is_there(target.key, checked.digest, checked.header.entries):
            return "known"
        stand = await self.record.write(import_session.begin, target, checked)
        if stand.done:
            return "known"
        steps = _steps(file, stand.lines)
        while batch := await asyncio.to_thread(next, steps, None):
            stand = await self.record.write(import_session.take, stand, target, checked, batch)
        await self.record.write(import_session.end, stand, target, checked)
        return "imported"

    async def _number_of(self, key: str) -> int | None:
        row = await self.record.read(views.find, key)
        return None if row is None or row.deleted is not None else int(row.id)

    async def _is_there(self, key: str, digest: str, entries: int) -> bool:
        """Whether the session with this key exists and exports to exactly the content of the file."""
        if await self._number_of(key) is None:
            return False
        writer = export.Writer()
        async for records in self.export(key):
            if records[0].get("entries", entries) != entries:  # the header differs in length
                return False
            await asyncio.to_thread(lambda records=records: [writer.line(r) for r in records])  # type: ignore[misc]
        return writer.digest == digest


def _check(file: IO[bytes]) -> Checked:
    file.seek(0)
    return check(_lines(file))


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of the file; of a line that is too long, just enough to show that."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        yield line


def _steps(file: IO[bytes], done: int) -> Iterator[list[Any_]]:
    """The records after the first `done` lines, in batches of one transaction each."""
    file.seek(0)
    batch: list[Any_] = []
    size = 0
    for raw in itertools.islice(_lines(file), done, None):
        batch += [record for _, record in read((raw,))]
        size += len(raw)
        if len(batch) >= STEP_LINES or size >= STEP_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
