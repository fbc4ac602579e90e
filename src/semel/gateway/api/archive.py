"""The part of the gateway's API that exports and imports whole sessions."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import IO

from semel.gateway.api.composition import Components
from semel.gateway.errors import BadRequest, Conflict
from semel.law.identity import check_session_key, escape_address
from semel.ledger.admin import export, import_growth, import_session
from semel.ledger.admin.import_file import (
    MAX_LINE_BYTES,
    AnyLine,
    CheckedFile,
    EntryLine,
    TurnLine,
    begin_entries_digest,
    check_file,
    digest_entries,
    entry_identity,
    read_lines,
)
from semel.ledger.admin.import_session import HeldConversation
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
        """Create a session from an exported file. Return {"session", "status", "entries", "added"}.

        `key`: the key of the new session; None takes the key of the exported session. The status is "imported", or
        "known" if a session with this key and the same content exists already. The whole file is checked before
        anything is written. An interrupted import continues where it stopped.

        A file of another system's conversation (its header has an `origin`) that has grown since it was imported adds
        what is new: the status is "grown". If another session has its key, it gets a key on the page.

        Raises BadRequest (the message names the line), Conflict.
        """
        try:
            checked = await asyncio.to_thread(lambda: check_file(_read_lines(file)))
            target = self._import_to(key or checked.header.key, checked.header.agent)
        except ValueError as error:
            raise BadRequest(str(error)) from None
        async with self._importing:
            try:
                if checked.header.origin is not None:
                    return await self._import_conversation(file, checked, checked.header.origin, target)
                status = await self._import(file, checked, target)
            except (import_session.SessionExists, import_session.ImportDisturbed) as error:
                raise Conflict(str(error)) from None
        return _make_outcome(target, checked, status, checked.header.entries if status == "imported" else 0)

    def _import_to(self, key: str, agent: str) -> Addressee:
        """Return the new session's key, home and agent.

        The home follows from the key, as for any new session. `agent`: the exported session's agent, used if it is
        configured.
        """
        to = self.inbox.make_addressee(check_session_key(key))
        return Addressee(key, agent, to.home) if agent in self.settings.agents else to

    async def _import(self, file: IO[bytes], checked: CheckedFile, target: Addressee) -> str:
        if checked.header.origin is None and await self._exists_already(
            target.key, checked.digest, checked.header.entries
        ):
            return "known"
        progress = await self.record.write(import_session.begin_import, target, checked)
        if progress.done:
            return "known"
        steps = _read_steps(file, progress.lines)
        with self.file_store:  # no file that an imported entry is about to name is removed
            while batch := await asyncio.to_thread(next, steps, None):
                progress = await self.record.write(import_session.import_lines, progress, target, checked, batch)
        await self.record.write(import_session.finish_import, progress, target, checked)
        return "imported"

    async def _import_conversation(self, file: IO[bytes], checked: CheckedFile, origin: str, target: Addressee) -> Json:
        """Import another system's conversation, or add what it has gained since."""
        found = await self.record.read(import_session.find_held, origin)
        if found is not None:
            key, held = found
            return await self._grow(file, checked, self._import_to(key, checked.header.agent), held)
        if await self.record.read(views.find_session, target.key) is not None:
            target = self._import_to(page_key(target.key, origin), checked.header.agent)
        status = await self._import(file, checked, target)
        return _make_outcome(target, checked, status, checked.header.entries if status == "imported" else 0)

    async def _grow(self, file: IO[bytes], checked: CheckedFile, target: Addressee, held: HeldConversation) -> Json:
        digest = await asyncio.to_thread(lambda: digest_entries(_read_lines(file), held.entries))
        if checked.header.entries < held.entries or digest != held.digest:
            raise Conflict(
                f"{held.origin} does not begin with the {held.entries} entries that {target.key!r} holds of it: they "
                "were changed there since they were imported; nothing was added. To import all of it again, delete "
                "that session first"
            )
        if checked.header.entries == held.entries:
            return _make_outcome(target, checked, "known", 0)
        before, steps = held.entries, _growth_steps(file, held)
        while step := await asyncio.to_thread(next, steps, None):
            held = await self.record.write(import_growth.add_lines, held, target, checked, *step)
        return _make_outcome(target, checked, "grown", held.entries - before)

    async def _exists_already(self, key: str, digest: str, entries: int) -> bool:
        """Return whether the session `key` exists and its export has the file's `digest` and number of `entries`."""
        if await self.record.read(views.find_session, key) is None:
            return False
        writer = export.ExportWriter()
        async for records in self.export(key):
            if records[0].get("entries", entries) != entries:  # the header, which comes first
                return False
            await asyncio.to_thread(lambda records=records: [writer.format_line(r) for r in records])  # type: ignore[misc]
        return writer.digest == digest


def _read_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of the file.

    A line above MAX_LINE_BYTES is split; its first piece is too long to pass the check.
    """
    file.seek(0)
    while line := file.readline(MAX_LINE_BYTES + 1):
        yield line


def _read_steps(file: IO[bytes], done_lines: int) -> Iterator[list[AnyLine]]:
    """Yield the records after the first `done_lines` lines, in batches, each for one transaction."""
    batch: list[AnyLine] = []
    size = 0
    for raw in itertools.islice(_read_lines(file), done_lines, None):
        batch += [record for _, record in read_lines((raw,))]
        size += len(raw)
        if len(batch) >= STEP_LINES or size >= STEP_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _growth_steps(file: IO[bytes], held: HeldConversation) -> Iterator[tuple[list[AnyLine], str]]:
    """Yield the turns and entries that are not held, in batches, each with the digest of all entries up to its last."""
    batch: list[AnyLine] = []
    digest, size = begin_entries_digest(), 0
    for raw in _read_lines(file):
        ((_, record),) = read_lines((raw,))
        if isinstance(record, EntryLine):
            digest.update(entry_identity(record))
        is_new_turn = isinstance(record, TurnLine) and record.turn > held.turns
        if is_new_turn or (isinstance(record, EntryLine) and record.seq > held.entries):
            batch.append(record)
            size += len(raw)
        if len(batch) >= STEP_LINES or size >= STEP_BYTES:
            yield batch, _digest_after(digest, batch, held)
            batch, size = [], 0
    if batch:
        yield batch, _digest_after(digest, batch, held)


def _digest_after(digest: hashlib.blake2b, batch: list[AnyLine], held: HeldConversation) -> str:
    """Return the digest of the entries held after a batch. While it has turns alone, no entry was read yet."""
    return digest.hexdigest() if isinstance(batch[-1], EntryLine) else held.digest


def page_key(key: str, origin: str) -> str:
    """Return the key, on the page, of a conversation whose own key another session has."""
    digest = hashlib.blake2b(origin.encode(), digest_size=4).hexdigest()
    agent = key.partition(":")[0]
    return f"{agent}:web:{escape_address(origin)}"[:191] + f":{digest}"


def _make_outcome(target: Addressee, checked: CheckedFile, status: str, added: int) -> Json:
    return {"session": target.key, "status": status, "entries": checked.header.entries, "added": added}
