"""The part of the gateway's API that exports and imports whole sessions."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import IO

from semel.gateway.api.composition import Components
from semel.gateway.errors import BadRequest, Conflict
from semel.law.identity import check_session_key
from semel.ledger.admin import export, import_session
from semel.ledger.admin.import_file import MAX_LINE_BYTES, AnyLine, CheckedFile, check_file, read_lines
from semel.ledger.inbound.hear import Addressee
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import views
from semel.text.json_types import Json

Page = Callable[[Tx, export.ExportScope, int], tuple[list[Json], int | None]]

STEP_LINES = 100  # lines per import transaction, which delays other writers no longer than the end of a turn does
STEP_BYTES = 256 << 10


class ArchiveApi(Components):
    """The part of the gateway's API that exports and imports sessions."""

    async def export(self, session: str, with_items: bool = False) -> AsyncIterator[list[Json]]:
        """Yield a session as pages of records: header, turns, entries, claims without an entry (docs/export.md).

        `with_items`: include the tool calls and permission requests between the entries, for documents. Entries that
        are added during the export are left out. Raises NoSuchSession.
        """
        number = await self.record.find_session(session)
        scope = await self.record.read(export.read_scope, number)
        yield [scope.header]
        read_entries = export.read_entries_with_items if with_items else export.read_entries
        pages: tuple[Page, ...] = (export.read_turns, read_entries, export.read_unsaid_claims)
        for page in pages:
            after: int | None = 0
            while after is not None:
                records, after = await self.record.read(page, scope, after)
                if records:
                    yield records

    async def import_session(self, file: IO[bytes], key: str | None = None) -> Json:
        """Create a session from an exported file. Return {"session", "status", "entries"}.

        `key`: the key of the new session; None takes the key of the exported session. The status is "imported", or
        "known" if a session with this key and the same content exists already. The whole file is checked before
        anything is written. An interrupted import continues where it stopped. Raises BadRequest (the message names the
        line), Conflict.
        """
        try:
            checked = await asyncio.to_thread(lambda: check_file(_lines(file)))
            target = self._import_to(key or checked.header.key, checked.header.agent)
        except ValueError as error:
            raise BadRequest(str(error)) from None
        async with self._importing:
            try:
                status = await self._import(file, checked, target)
            except (import_session.SessionExists, import_session.ImportDisturbed) as error:
                raise Conflict(str(error)) from None
        return {"session": target.key, "status": status, "entries": checked.header.entries}

    def _import_to(self, key: str, agent: str) -> Addressee:
        """Return the new session's key, home and agent.

        The home follows from the key, as for any new session. `agent`: the exported session's agent, used if it is
        configured.
        """
        to = self.inbox.target(check_session_key(key))
        return Addressee(key, agent, to.home) if agent in self.settings.agents else to

    async def _import(self, file: IO[bytes], checked: CheckedFile, target: Addressee) -> str:
        if await self._exists_already(target.key, checked.digest, checked.header.entries):
            return "known"
        progress = await self.record.write(import_session.begin_import, target, checked)
        if progress.done:
            return "known"
        steps = _steps(file, progress.lines)
        with self.file_store:  # no file that an imported entry is about to name is removed
            while batch := await asyncio.to_thread(next, steps, None):
                progress = await self.record.write(import_session.import_lines, progress, target, checked, batch)
        await self.record.write(import_session.finish_import, progress, target, checked)
        return "imported"

    async def _exists_already(self, key: str, digest: str, entries: int) -> bool:
        """Return whether the session `key` exists and its export has the file's `digest` and number of `entries`."""
        if await self.record.read(views.find_session, key) is None:
            return False
        writer = export.ExportWriter()
        async for records in self.export(key):
            if records[0].get("entries", entries) != entries:  # the header, which comes first
                return False
            await asyncio.to_thread(lambda records=records: [writer.line(r) for r in records])  # type: ignore[misc]
        return writer.digest == digest


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of the file.

    A line above MAX_LINE_BYTES is split; its first piece is too long to pass the check.
    """
    file.seek(0)
    while line := file.readline(MAX_LINE_BYTES + 1):
        yield line


def _steps(file: IO[bytes], done_lines: int) -> Iterator[list[AnyLine]]:
    """Yield the records after the first `done_lines` lines, in batches, each for one transaction."""
    batch: list[AnyLine] = []
    size = 0
    for raw in itertools.islice(_lines(file), done_lines, None):
        batch += [record for _, record in read_lines((raw,))]
        size += len(raw)
        if len(batch) >= STEP_LINES or size >= STEP_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
