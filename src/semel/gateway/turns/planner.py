"""Plan an attempt: start, restart or resume the prompt, or finish the turn from the agent's history.

A new process may remember nothing, or something other than the text that people saw. The plan contains the notes that
its prompt must add (Laws 6, 8, 9).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from semel.acp_stream.folding import REPLAYED
from semel.gateway.outbound.destinations import Destinations
from semel.gateway.ports import RECORD, Died, Update
from semel.gateway.record import LedgerAccess
from semel.gateway.turns import prompt
from semel.gateway.turns.live_agent import LiveAgent, QueuedSignal, read_offers
from semel.gateway.turns.recovered_text import LostAttempts
from semel.law import interrupted_turn, memory_diff
from semel.law import turn as law
from semel.ledger.turns import history, turns, utterances
from semel.ledger.turns.turns import BegunTurn, EntryToTell, TurnFence
from semel.ledger.turns.utterances import Utterance

REPLAY_QUIET_S = 0.05  # seconds without a signal after which a replay counts as over
QUIET_PERIODS = 5  # into how many waits that time is split, because a stall of the event loop may use up one of them


@dataclass(frozen=True)
class Plan:
    """The plan for running an attempt.

    `how`: the way of prompting that is recorded in the turn's row, or "give up" for the `reason`. `utterances`: those
    of the lost attempts. `notes`, `entries_to_tell`: the notes and entries that the prompt adds for the agent.
    """

    how: law.How | Literal["give up"]
    utterances: tuple[Utterance, ...] = ()
    notes: tuple[str, ...] = ()
    entries_to_tell: tuple[EntryToTell, ...] = ()
    reason: str = ""


Recollect = Callable[[law.How, LostAttempts], Awaitable[None]]
"""Records and shows text that only the agent remembers of its lost attempts."""


@dataclass(eq=False, repr=False)
class AttemptPlanner:
    """The planner of attempts. It uses the record, and the history that the agent replayed when it was started."""

    record: LedgerAccess
    places: Destinations
    quiet: Collection[str]

    async def plan(self, begun: BegunTurn, fence: TurnFence, live: LiveAgent, recollect: Recollect) -> Plan:
        """Decide how to prompt the agent in this attempt, record the decision, and return the plan. Raises Fenced.

        `recollect`: records what the agent remembers of the interrupted turn; called only if it remembers the turn.
        """
        how: law.How = "start"
        lost_attempts = LostAttempts()
        if begun.attempt > 1:
            lost_attempts = await self._read_lost_attempts(begun, live)
            choice = law.decide_after_loss(
                attempt=begun.attempt,
                tools_started=begun.has_started_tools or bool(lost_attempts.remembered_calls),
                restored=live.primed or live.conversation.restored != "new",
                history_complete=lost_attempts.is_complete,
                history_begun=lost_attempts.remembered is not None,
                calls_hidden=begun.was_prompted and live.fold.profile.hides_calls,
            )
            if choice.how == "give up":
                return Plan("give up", reason=choice.reason)
            how = choice.how
        if not live.primed or begun.attempt > 1:
            agent = live.conversation
            about = {**read_offers(agent), "tools": live.has_tools}
            await self.record.write(turns.record_prompting, fence, how, live.spawn, agent.memory, about)
        if lost_attempts.remembered is not None and how in ("resume", "recall"):
            await recollect(how, lost_attempts)
            lost_attempts = replace(lost_attempts, utterances=await self._list_utterances(begun))
        resumes = how == "resume"
        utterances = lost_attempts.utterances if resumes else ()
        notes = await self._make_notes(begun, live, utterances) if how != "recall" else []
        if resumes and live.conversation.memory != RECORD:  # otherwise it reads them in the transcript
            notes += prompt.format_tool_calls(lost_attempts.forgotten_calls)
        live.primed = live.primed or how != "recall"
        entries = begun.entries_to_tell
        if live.conversation.memory == RECORD:  # it reads all others in the transcript
            entries = tuple(entry for entry in entries if entry.root == begun.root)
        return Plan(how, lost_attempts.utterances, tuple(notes), entries)

    async def _read_lost_attempts(self, begun: BegunTurn, live: LiveAgent) -> LostAttempts:
        deeds = tuple(await self.record.read(history.list_started_calls, begun.root))
        blocks = tuple(await self.record.read(utterances.list_blocks, begun.root, begun.home))
        return LostAttempts(
            await self._list_utterances(begun), deeds, blocks, await self._find_remembered_turn(begun, live)
        )

    async def _list_utterances(self, begun: BegunTurn) -> tuple[Utterance, ...]:
        return tuple(await self.record.read(utterances.list_utterances, begun.root, begun.home))

    async def _find_remembered_turn(self, begun: BegunTurn, live: LiveAgent) -> interrupted_turn.Remembered | None:
        """Return the interrupted turn as a newly started process remembers it; None if the process replays no history.

        Return None also if the earlier attempt reported a failure: it had streamed everything by then, so its history
        adds nothing.
        """
        if live.primed or begun.has_failed or live.conversation.restored != "loaded":
            return None
        await read_replay(live, with_files=True)
        spoken = await self.record.read(history.read_conversation, begun.session, begun.chapter, begun.turn)
        before = [(entry.role, entry.text) for entry in spoken]
        questions = [event.typed_text for event in begun.events]
        return interrupted_turn.find_turn(list(live.fold.items()), questions, before, ended=live.history_ended)

    async def _make_notes(self, begun: BegunTurn, live: LiveAgent, utterances: Sequence[Utterance]) -> list[str]:
        """Return the notes that a process gets once: destination names, and how its memory differs from the record.

        `utterances`: texts to leave out of the notes, because the prompt of a resumed turn lists them.
        """
        notes = []
        names = self.places.names(begun.key)
        if names and live.announced_names != names:
            notes.append(prompt.format_names_note(names))
        live.announced_names = names
        if live.primed:
            return notes
        if live.conversation.restored == "new":
            spoken = await self.record.read(history.read_conversation, begun.session, begun.chapter, begun.turn)
            instructions = await self.record.read(history.find_instructions, begun.session, begun.root)
            notes += prompt.format_lost_conversation(spoken, instructions)
        elif live.conversation.restored == "loaded":
            differs = await self.compare_memory(live, begun.turn)
            known_seqs = {entry.seq for entry in begun.entries_to_tell if not entry.left_for_home} | {
                entry.seq for entry in utterances
            }  # the prompt already lists these elsewhere
            lacks = tuple(entry for entry in differs.lacks if entry.seq not in known_seqs)
            notes += prompt.format_memory_differences(replace(differs, lacks=lacks))
        return notes

    async def compare_memory(self, live: LiveAgent, turn: int | None = None) -> memory_diff.Difference:
        """Compare the history that a loaded agent replayed with the record before `turn` (None: the whole record)."""
        await read_replay(live)
        recorded, is_whole = await self.record.read(history.list_recorded, live.session, turn)
        names = self.places.names(live.key)
        items = list(live.fold.items())
        return await asyncio.to_thread(
            memory_diff.find_difference, recorded, items, names, is_whole_chapter=is_whole, quiet=self.quiet
        )


async def read_replay(live: LiveAgent, *, with_files: bool = False) -> None:
    """Read the replay of a restored agent to its end. Call this before prompting the agent.

    `with_files`: store the files in the replay, too. Those that no entry uses are released at the end of the turn.
    """
    others: list[QueuedSignal] = []
    quiet = 0
    while quiet < QUIET_PERIODS:
        try:
            async with asyncio.timeout(REPLAY_QUIET_S / QUIET_PERIODS):
                signal = await live.signals.get()
        except TimeoutError:
            quiet += 1
            continue
        quiet = 0
        if isinstance(signal, Update):
            data = signal.data if live.files is None or not with_files else await live.files.take(signal.data)
            live.fold.update(data, replay=signal.replay)
            live.history_ended = _marks_turn_end(signal.data, live.fold.profile.history_end, live.history_ended)
        else:
            others.append(signal)
            if isinstance(signal, Died):
                break
    live.fold.end_replay()
    live.put_back(others)


def _marks_turn_end(update: Mapping[str, Any], mark: str, before: bool) -> bool:
    """Return whether the replay, up to and including `update`, ends with a completed turn.

    `mark`: the `_meta` key with which the agent marks the end of a turn. `before`: the result for the previous update.
    """
    meta = update.get("_meta")
    if mark and isinstance(meta, dict) and mark in meta:
        return bool(meta[mark] == "end_turn")
    return before and update.get("sessionUpdate") not in REPLAYED
