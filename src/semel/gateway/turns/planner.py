"""Plan an attempt: start, restart or resume the prompt, or finish from history; and what a new process must be told.

A new process may remember nothing, or something other than what people saw (Laws 6, 8, 9).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from semel.acp_stream.folding import REPLAYED
from semel.gateway.outbound.destinations import Places
from semel.gateway.ports import RECORD, Died, Update
from semel.gateway.transactions import Record
from semel.gateway.turns import prompt
from semel.gateway.turns.agent_pool import LiveAgent
from semel.gateway.turns.recovered_text import LostAttempts
from semel.law import interrupted_turn, memory_diff
from semel.law import turn as law
from semel.ledger.turns import history, turns, utterances
from semel.ledger.turns import recorded_texts as rows
from semel.ledger.turns.turns import Begun, EntryToTell, Fence
from semel.ledger.turns.utterances import Utterance

REPLAY_QUIET = 0.05  # seconds without a signal after which a replay counts as over
QUIET_PERIODS = 5  # in which they pass: a stall of the event loop uses up one, and what came meanwhile is still heard


@dataclass(frozen=True)
class Plan:
    """how: as the turn's row says; "give up" with `why`. said: by lost attempts. notes: for the agent.

    told: entries that it must be told of beside them.
    """

    how: law.How | Literal["give up"]
    said: tuple[Utterance, ...] = ()
    notes: tuple[str, ...] = ()
    told: tuple[EntryToTell, ...] = ()
    why: str = ""


Recollect = Callable[[law.How, LostAttempts], Awaitable[None]]
"""Records and shows what only the agent remembers of its lost attempts."""


class AttemptPlanner:
    """Decides, for each attempt, from the record and from what the agent's process told when it was started."""

    def __init__(self, record: Record, places: Places, quiet: Collection[str]) -> None:
        self.record = record
        self.places = places
        self.quiet = quiet

    async def plan(self, begun: Begun, fence: Fence, live: LiveAgent, recollect: Recollect) -> Plan:
        """Decide how this attempt prompts the agent, and record the decision before it does. Raises Fenced."""
        how: law.How = "start"
        lost = LostAttempts()
        if begun.attempt > 1:
            lost = await self._lost(begun, live)
            choice = self._choose(begun, live, lost)
            if choice.how == "give up":
                return Plan("give up", why=choice.why)
            how = choice.how
        if not live.primed or begun.attempt > 1:
            await self._make_durable(fence, how, live)
        if lost.remembered is not None and how in ("resume", "recall"):
            await recollect(how, lost)
            lost = replace(lost, said=await self._said(begun))
        goes_on = how == "resume"
        notes = await self._notes(begun, live, lost.said if goes_on else ()) if how != "recall" else []
        if goes_on and live.conversation.memory != RECORD:  # else it reads them in its past
            notes += prompt.deeds(lost.untold)
        live.primed = live.primed or how != "recall"
        told = begun.told
        if live.conversation.memory == RECORD:  # it reads all others in its past
            told = tuple(one for one in told if one.root == begun.root)
        return Plan(how, lost.said, tuple(notes), told)

    async def _lost(self, begun: Begun, live: LiveAgent) -> LostAttempts:
        deeds = tuple(await self.record.read(history.list_deeds, begun.root))
        blocks = tuple(await self.record.read(utterances.list_blocks, begun.root, begun.home))
        return LostAttempts(await self._said(begun), deeds, blocks, await self._remembered(begun, live))

    async def _said(self, begun: Begun) -> tuple[Utterance, ...]:
        return tuple(await self.record.read(utterances.list_of_root, begun.root, begun.home))

    async def _remembered(self, begun: Begun, live: LiveAgent) -> interrupted_turn.Remembered | None:
        """What a process that was just started told of the lost attempts.

        One that failed told everything live: what it left in the history is no answer, however whole it looks.
        """
        if live.primed or begun.failed or live.conversation.restored != "loaded":
            return None
        await replayed(live, with_files=True)
        told = await self.record.read(history.conversation, begun.session, begun.chapter, begun.turn)
        before = [(one.role, one.text) for one in told]
        asked = [e.text for e in begun.events]
        return interrupted_turn.find_turn(list(live.fold.items()), asked, before, ended=live.history_ended)

    async def _make_durable(self, fence: Fence, how: law.How, live: LiveAgent) -> None:
        agent = live.conversation
        about = {"modes": agent.modes, "models": agent.models}
        await self.record.write(turns.asked, fence, how, live.spawn, agent.memory, about)

    @staticmethod
    def _choose(begun: Begun, live: LiveAgent, lost: LostAttempts) -> law.Next:
        return law.after_loss(
            attempt=begun.attempt,
            tools_started=begun.tools or bool(lost.remembered_calls),
            restored=live.primed or live.conversation.restored != "new",
            history_complete=lost.is_complete,
            history_begun=lost.remembered is not None,
        )

    async def _notes(self, begun: Begun, live: LiveAgent, said: Sequence[Utterance]) -> list[str]:
        """What a process must be told once: where it can speak, and what it does not remember, or otherwise.

        `said`: it is told all of this anyway.
        """
        notes = []
        names = self.places.names(begun.key)
        if names and live.told_names != names:
            notes.append(prompt.names_note(names))
        live.told_names = names
        if live.primed:
            return notes
        if live.conversation.restored == "new":
            before = await self.record.read(history.conversation, begun.session, begun.chapter, begun.turn)
            if (text := prompt.history(before)) is not None:
                notes.append(text)
        elif live.conversation.restored == "loaded":
            differs = await self.difference(live, begun.turn)
            known = {one.seq for one in begun.told if not one.reached} | {one.seq for one in said}  # in other words
            lacks = tuple(one for one in differs.lacks if one.seq not in known)
            notes += prompt.memory_notes(replace(differs, lacks=lacks))
        return notes

    async def difference(self, live: LiveAgent, turn: int | None = None) -> memory_diff.Difference:
        """Where the history that a loaded agent told and the record before `turn` differ."""
        await replayed(live)
        recorded, whole = await self.record.read(rows.recorded, live.session, turn)
        names = self.places.names(live.key)
        told = list(live.fold.items())
        return await asyncio.to_thread(memory_diff.difference, recorded, told, names, whole=whole, quiet=self.quiet)


async def replayed(live: LiveAgent, *, with_files: bool = False) -> None:
    """Let a replay run out: what a restored agent tells of the past, before it is asked anything.

    `with_files`: what it hands over there is stored, too. What of it is not recorded is let go with the turn's end.
    """
    kept: list[Any] = []
    quiet = 0
    while quiet < QUIET_PERIODS:
        try:
            async with asyncio.timeout(REPLAY_QUIET / QUIET_PERIODS):
                signal = await live.signals.get()
        except TimeoutError:
            quiet += 1
            continue
        quiet = 0
        if isinstance(signal, Update):
            data = signal.data if live.files is None or not with_files else await live.files.take(signal.data)
            live.fold.update(data, replay=signal.replay)
            live.history_ended = _ends(signal.data, live.fold.profile.history_end, live.history_ended)
        else:
            kept.append(signal)
            if isinstance(signal, Died):
                break
    live.fold.replayed()
    for one in kept:
        live.signals.put_nowait(one)


def _ends(update: Mapping[str, Any], mark: str, before: bool) -> bool:
    """Whether what was told of the past so far ends with the end of a turn; only what a turn says goes on behind it."""
    meta = update.get("_meta")
    if mark and isinstance(meta, dict) and mark in meta:
        return bool(meta[mark] == "end_turn")
    return before and update.get("sessionUpdate") not in REPLAYED
