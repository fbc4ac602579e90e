"""Make the files of a turn's events ready for its agent: voice notes written down, copies in the workspace.

A voice note is written down between the beginning of the turn and its prompt (docs/decisions/voice-notes.md). By then
its message is recorded, and the platform has its acknowledgement. What becomes of the note is recorded before the agent
gets it, so that another attempt of the turn gives it the same words (Law 4). A note that cannot be written down does
not stop the turn: agent and people read why (Law 12).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from semel.gateway.activity import log_activity
from semel.gateway.files import StoredFiles
from semel.gateway.ports import Conversation
from semel.gateway.record import LedgerAccess
from semel.gateway.settings import AgentSettings
from semel.gateway.transcription import NotTranscribed, Transcriber
from semel.gateway.turns import prompt_blocks
from semel.gateway.turns.prompt_files import WorkspaceFiles
from semel.ledger.storage.errors import LedgerError
from semel.ledger.turns.turn_events import TurnEvent
from semel.ledger.turns.turns import BegunTurn, TurnFence
from semel.ledger.turns.voice_notes import NoteOutcome, list_open_notes, record_outcomes
from semel.text.json_types import Json

log = structlog.get_logger("semel.received")

STOPPED = "the turn was stopped before"


class EventFiles:
    """The files of the events of one turn, for the agent of one attempt."""

    def __init__(
        self, record: LedgerAccess, store: StoredFiles, transcriber: Transcriber,
        begun: BegunTurn, agent: AgentSettings, conversation: Conversation,
    ) -> None:  # fmt: skip
        self._record = record
        self._store = store
        self._transcriber = transcriber
        self._begun = begun
        self._workspace = agent.cwd if begun.folder is None else Path(begun.folder)
        self._conversation = conversation
        self._tasks: set[asyncio.Task[NoteOutcome]] = set()
        self._is_stopped = False

    async def prepare(self, fence: TurnFence, events: Sequence[TurnEvent]) -> tuple[list[TurnEvent], WorkspaceFiles]:
        """Return the events with the words of their voice notes, and the copies of their files. Raises Fenced."""
        written = await self._write_down(fence, events)
        return written, await prompt_blocks.copy_files(self._store, self._workspace, written, self._conversation)

    def stop(self) -> None:
        """Write no voice note down any more, because the turn was stopped or has ended: `prepare` returns soon."""
        self._is_stopped = True
        for task in self._tasks:
            task.cancel()

    async def _write_down(self, fence: TurnFence, events: Sequence[TurnEvent]) -> list[TurnEvent]:
        """Write down the voice notes for which nothing is recorded yet, and record what becomes of them.

        Events that came as content blocks stay as they are: their agent gets the sound.
        """
        notes = [
            (event.seq, file) for event in events if not event.blocks for file in list_open_notes(event.entry_fields)
        ]
        if not notes or not self._transcriber.is_configured:
            return list(events)
        outcomes = await self._transcribe_notes(notes)
        try:
            fields = await self._record.write(record_outcomes, fence, outcomes)
        except LedgerError as error:  # the next attempt writes them down again
            log.warning("the words of voice notes were not recorded", session=self._begun.key, why=str(error))
            return list(events)
        return [replace(event, entry_fields=fields.get(event.seq, event.entry_fields)) for event in events]

    async def _transcribe_notes(self, notes: Sequence[tuple[int, Json]]) -> list[NoteOutcome]:
        tasks = [asyncio.create_task(self._transcribe_note(seq, file)) for seq, file in notes]
        self._tasks.update(tasks)
        try:
            results = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
            self._tasks.difference_update(tasks)
        return [_to_outcome(seq, file, result) for (seq, file), result in zip(notes, results, strict=True)]

    async def _transcribe_note(self, seq: int, file: Json) -> NoteOutcome:
        if self._is_stopped:
            raise NotTranscribed(STOPPED)
        transcript = await self._transcriber.transcribe(file)
        log_activity("voice note written down", session=self._begun.key, turn=self._begun.turn, chars=len(transcript))
        return NoteOutcome(seq, str(file["id"]), transcript=transcript)


MakeEventFiles = Callable[[BegunTurn, AgentSettings, Conversation], EventFiles]


def _to_outcome(seq: int, file: Json, result: NoteOutcome | BaseException) -> NoteOutcome:
    """Return what became of a note. `result`: what `_transcribe_note` returned or raised."""
    if isinstance(result, NoteOutcome):
        return result
    why = STOPPED if isinstance(result, asyncio.CancelledError) else str(result)
    if not isinstance(result, NotTranscribed | asyncio.CancelledError):
        log.error("writing down a voice note failed inside the gateway", exc_info=result)
        why = f"the gateway failed at it ({type(result).__name__}); its log says more"
    log.warning("a voice note was not written down", file=file["id"], why=why)
    return NoteOutcome(seq, str(file["id"]), untranscribed=why)
