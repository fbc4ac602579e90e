"""The archive half of the gateway's facade: find, export, import."""

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
from semel.ledger.admin.import_file import LINE_MOST, Any_, Checked, check, read
from semel.ledger.inbound.hear import To
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import views

Json = dict[str, Any]
Page = Callable[[Tx, export.Scope, int], tuple[list[Json], int | None]]

STEP_LINES = 100  # of an import, in one transaction: what others write waits no longer for it than for a turn's end
STEP_BYTES = 256 << 10


class Archive:
    """What was said before, found again and carried elsewhere."""

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
        """A page of what is found: {"hits", "next", "index"}. Raises BadRequest, Busy."""
        where = Filters(session, role, since, until)
        return await self.searches.find(text, where, order=order, limit=limit, after=after)

    async def export(self, session: str) -> AsyncIterator[list[Json]]:
        """A session as records, a page at a time: header, turns, entries, claims without an entry (docs/export.md).

        Entries that come meanwhile are not in it. Raises NoSuchSession.
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
        """A new session from an export, under its own key or another: {"session", "status", "entries"}.

        `status` is "imported", or "known" where this very session is there already: imported before, or the one that
        was exported. The whole file is checked before anything is written. An import that was cut off goes on where it
        ended. Raises BadRequest (the message names the line), Conflict.
        """
        try:
            checked = await asyncio.to_thread(_check, file)
            target = self._import_to(key or checked.header.key, checked.header.agent)
        except ValueError as bad:
            raise BadRequest(str(bad)) from None
        async with self._importing:
            try:
                status = await self._import(file, checked, target)
            except (import_session.NotNew, import_session.Disturbed) as no:
                raise Conflict(str(no)) from None
        return {"session": target.key, "status": status, "entries": checked.header.entries}

    def _import_to(self, key: str, agent: str) -> To:
        """Home by the key, as for any new session; the agent that it had, where there is one of that name."""
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
        """Whether the session of this key is, line by line, what the file holds."""
        if await self._number_of(key) is None:
            return False
        writer = export.Writer()
        async for records in self.export(key):
            if records[0].get("entries", entries) != entries:  # the header: it has another length
                return False
            await asyncio.to_thread(lambda records=records: [writer.line(r) for r in records])  # type: ignore[misc]
        return writer.digest == digest


def _check(file: IO[bytes]) -> Checked:
    file.seek(0)
    return check(_lines(file))


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Its lines; of one that is too long, as much as shows that."""
    while line := file.readline(LINE_MOST + 1):
        yield line


def _steps(file: IO[bytes], done: int) -> Iterator[list[Any_]]:
    """The records that are still to be taken, as many at a time as one transaction takes."""
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
