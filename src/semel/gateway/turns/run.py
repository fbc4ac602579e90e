"""Run one attempt of a turn, from the bound events to its end (Laws 2, 3, 6, 9, 10).

A run writes with its turn's fence. It prompts the agent, folds the signals in the order of the wire, commits them in
batches, and finishes the turn. Everything is committed before it is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import structlog

from semel.gateway.ports import Answered, Asked, Died, Signal, Update
from semel.gateway.turns import prompt, prompt_files, run_context
from semel.gateway.turns.agent_pool import LiveAgent
from semel.gateway.turns.corrections import Corrections
from semel.gateway.turns.heartbeats import is_heartbeat, quiet_words
from semel.gateway.turns.permissions import Permissions
from semel.gateway.turns.recovered_text import LostAttempts, recollect
from semel.gateway.turns.run_context import FlushBarrier, RunDependencies, SteerCancelled
from semel.gateway.turns.speech import Speech
from semel.gateway.turns.turn_end import as_told, notices, retry_delay_s, retry_notice, why
from semel.law import turn as law
from semel.ledger.delivery.claims import Caller
from semel.ledger.delivery.cutting import Leg, is_local
from semel.ledger.turns import show, turns, utterances
from semel.ledger.turns.turns import Begun, Bound, EntryToTell, Fence, Stop
from semel.ledger.turns.utterances import Utterance

log = structlog.get_logger("semel.turn")

SHOW_EVERY = 0.033  # seconds between two batches while text streams
CANCEL_PATIENCE = 15.0  # seconds an agent has to end a cancelled prompt, before its process is ended
TOOL_ANNOUNCEMENT_TIMEOUT_S = 3.0  # seconds to wait until the stream announces a tool call that came by socket
FIRST_ANNOUNCEMENT_TIMEOUT_S = 0.6  # the same in a process's first turn: only the order of texts depends on it
TRUNCATING_STOP_REASONS = ("max_tokens", "refusal")  # stop reasons of a model that was not done with its text
SILENT_AGENT_ANNOUNCEMENT_TIMEOUT_S = 0.1  # the same, for an agent known not to announce its calls

Json = dict[str, Any]


class Run:
    """A running turn."""

    def __init__(
        self,
        deps: RunDependencies,
        begun: Begun,
        live: LiveAgent,
        may_wait: run_context.MayWait = run_context.always_may_wait,
    ) -> None:
        self.deps = deps
        self.begun = begun
        self.live = live
        self.fence = Fence(begun.session, begun.turn, begun.epoch)
        self.how: law.How = "start"
        self.answer: int | None = None  # the claim of a lost attempt with which the agent's history ends
        self.remembered: frozenset[int] = frozenset()  # claims of lost attempts that the agent remembers in these words
        self.names = deps.places.names(begun.key)
        self.stopped: Stop | None = None  # a person stopped it
        self.patience: asyncio.TimerHandle | None = None
        self.corrections = Corrections(asked=begun.attempt > 1)
        self.last_show = 0.0
        self.news = asyncio.Event()  # the stream told something, or the run is over
        self.over = False
        self.gone = False  # the agent's process died
        self.prompted = False  # the agent was given the prompt, and with it what it had to be told
        self.open = 0  # prompts it has to answer
        self.said_of_end: list[show.Notice] = []  # of a prompt that ended before others of this turn
        self.ending = False  # the last answer is there: nothing joins this turn any more
        self.first = live.used == 0.0  # its process served no other turn: a call of it can be of no other
        self.unannounced: list[tuple[str, Json]] = []  # calls that the stream did not tell of in time
        self.streams = begun.home is not None and deps.places.streams(begun.home)
        self.previewed: int | None = None  # the part in which it is shown at home while it is written
        self.fold = live.fold
        quiet = quiet_words(begun.events)
        whole = bool(quiet) and all(is_heartbeat(e) for e in begun.events)
        self.speech = Speech(begun.key, begun.home, deps.places, self.names, quiet, whole)
        self.viewing = live.viewing
        self.viewing.begin(self.speech, begun.turn)
        self.slots = show.Slots(items={s: i for s, i in live.slots.items.items() if s in self.viewing.kinds})
        agent = self.agent = deps.agents[begun.agent]
        self.permissions = Permissions(
            live.conversation, agent.permissions, deps.permission_deadline, self._expired, self._seen, self._legs_home,
            agent.approvals, begun.numbers, lambda: may_wait(self),
        )  # fmt: skip

        self.guests = run_context.guests_of(begun.events)

    def __repr__(self) -> str:
        return f"<Run turn {self.begun.turn} of {self.begun.key}, attempt {self.begun.attempt}, {self.how}>"

    async def flush(self) -> None:
        """Wait (at most 5 s) until all that the agent streamed so far is committed."""
        if self.over:
            return
        mark = FlushBarrier(asyncio.get_running_loop().create_future())
        self.live.signals.put_nowait(mark)
        with contextlib.suppress(TimeoutError):  # it only settles the order of what is shown
            async with asyncio.timeout(5):
                await mark.done

    async def announced(self, tool: str | None, name: str, arguments: Json) -> tuple[str | None, int | None]:
        """(tool call id, turn) of the open tool call this is, if the stream announces it in time.

        A call comes by another pipe than the stream and may overtake it; what the agent said before it must be recorded
        first. The turn is in question only if the process served an earlier one (Law 10).
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + self._announcement_timeout()
        while True:
            self.news.clear()
            await self.flush()
            found = self.viewing.match(name, arguments) if tool is None else tool
            known = found in self.viewing.calls
            left = end - loop.time()
            if known or self.over or left <= 0:
                if known:
                    self.live.announces = True
                elif not self.over and self.live.announces is None:
                    self.unannounced.append((name, arguments))
                    if not self.first:
                        self.live.announces = False
                return found, (self.viewing.turns[str(found)] if known else None)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self.news.wait()

    def _announcement_timeout(self) -> float:
        if self.live.announces is False or (self.first and self.unannounced):
            return SILENT_AGENT_ANNOUNCEMENT_TIMEOUT_S
        if self.first and self.live.announces is None:
            return FIRST_ANNOUNCEMENT_TIMEOUT_S
        return TOOL_ANNOUNCEMENT_TIMEOUT_S

    def sends(self, text: str) -> None:
        """A tool says this to the home: a block that may repeat it is not previewed (Law 5)."""
        self.speech.hold_back([text])

    @property
    def steers(self) -> bool:
        """Whether a message can join this turn now, because its agent reads a second prompt."""
        able = self.prompted and not (self.ending or self.over or self.gone or self.stopped is not None)
        return able and self.fold.profile.second == "steers"

    async def steer(self) -> bool:
        """Bind waiting messages to this turn and prompt the agent with them. False if the turn was over."""
        if not self.steers:
            return False
        self.open += 1  # before the commit: the turn does not end between the binding and the prompt
        await self.flush()  # what came before is judged before
        self.viewing.pending += self.speech.join()
        await self.flush()
        try:
            events = await self.deps.record.write(turns.join, self.fence)
        except Exception as fault:
            self.live.signals.put_nowait(SteerCancelled())
            if not isinstance(fault, turns.Fenced):
                log.warning("a message could not join the turn", session=self.begun.key, why=str(fault))
            return False
        if not events:  # another one brought them in
            self.live.signals.put_nowait(SteerCancelled())
            return True
        content = prompt.events(events, await self._given(events))
        self.viewing.take(self.fold.prompt("\n".join(b["text"] for b in content if b["type"] == "text")))
        await self.live.conversation.prompt(content)
        return True

    async def _given(self, events: Sequence[Bound]) -> prompt_files.Given:
        """The files that came with these lie in the agent's workspace."""
        images = self.live.conversation.images
        return await prompt_files.give(self.deps.blobs, self.agent.cwd, events, images=images)

    @property
    def cancelled_by(self) -> str | None:
        """Who stopped it."""
        return None if self.stopped is None else self.stopped.by

    async def cancel(self, stop: Stop) -> None:
        """A person stops the turn. Its open permission requests are answered `cancelled`."""
        if self.stopped is not None:
            return
        self.stopped = stop
        self.viewing.take(self.fold.cancel())
        self.viewing.pending += self.permissions.stop()
        await self.live.conversation.cancel()
        died = Died("did not end a cancelled prompt")
        self.patience = asyncio.get_running_loop().call_later(CANCEL_PATIENCE, self.live.signals.put_nowait, died)

    def answered(self, item: int, option: str | None) -> bool:
        """A person answered a permission request of this turn; False: its agent has another answer already."""
        return self.permissions.answered(item, option)

    def _seen(self) -> bool:
        """Whether anyone can see a request: somebody is at home there, or watches now."""
        home = self.begun.home
        reaches = home is not None and (is_local(home) or self.deps.places.outgoing(home))
        return reaches or self.deps.record.hub.watched(self.begun.session) > 0

    def _legs_home(self, text: str) -> tuple[Leg, ...]:
        home = self.begun.home
        return self.deps.places.legs(home, self.begun.key, text) if home is not None else ()

    def _expired(self, op: show.Op) -> None:
        self.viewing.pending.append(op)
        self.live.signals.put_nowait(FlushBarrier(asyncio.get_running_loop().create_future()))

    async def go(
        self, how: law.How, said: Sequence[Utterance], notes: Sequence[str], told: Sequence[EntryToTell]
    ) -> bool:
        """Ask the agent and follow it to the end. True: another turn is due. Raises Lost, Fenced, LedgerError."""
        self.how = how
        self._hold_back(said)
        events = self.begun.events
        resumes = how == "resume"
        given = await self._given(events)
        known = [replace(one, cut=False) if one.claim in self.remembered else one for one in said]
        content = prompt.resume(events, known, told, notes) if resumes else prompt.content(events, told, notes, given)
        self._told_since()
        self.fold.let_go(slot for slot, kind in self.viewing.kinds.items() if kind == "tool")
        self.viewing.take(self.fold.prompt("\n".join(b["text"] for b in content if b["type"] == "text")))
        self.open = 1
        await self.live.conversation.prompt(content)
        self.prompted = True
        while True:
            end = as_told(await self._follow())
            self._check_answered(end)
            self._end_blocks(end)
            if self.cancelled_by is None and self.corrections.are_due(end, self.speech.problems):
                await self._correct(end)
            else:
                return await self._finish(end)

    def _told_since(self) -> None:
        """What the agent told after its last answer is a block of its own, not the beginning of this answer."""
        queue = self.live.signals
        waiting = [queue.get_nowait() for _ in range(queue.qsize())]
        if all(isinstance(one, Update) and not one.replay for one in waiting):
            for one in waiting:
                self._take(one)
        else:
            for one in waiting:
                queue.put_nowait(one)

    async def _follow(self) -> Answered:
        """Signals until every prompt is answered, shown as they come."""
        end: Answered | None = None
        while True:
            signals = await self._next()
            marks: list[FlushBarrier] = []
            try:
                for signal in signals:
                    if isinstance(signal, Answered | SteerCancelled):
                        end = self._closed(end, signal)
                        if end is not None and self.open <= 0:
                            self.ending = True
                            return end
                    elif isinstance(signal, FlushBarrier):
                        marks.append(signal)
                    else:
                        self._take(signal)
                if marks or self._due():
                    await self._show()
            finally:
                run_context.resolve(marks)

    def _closed(self, end: Answered | None, signal: Answered | SteerCancelled) -> Answered | None:
        """One prompt less is open; how the turn ends so far: the last answer counts, a failure before all."""
        self.open -= 1
        if isinstance(signal, SteerCancelled):
            return end
        worse = signal if end is None or end.stop != "error" else end
        if self.open > 0:  # answered together with it, or taken up next: what was told so far is told
            self.viewing.take(self.fold.end(signal.stop, signal.error))
            self.viewing.pending += self.speech.leave() if signal.stop not in ("error", "cancelled") else []
            self.said_of_end = notices("answered", signal, self.begun.attempt)
        elif end is not None and end.stop != signal.stop:
            self._tell_end()
        return worse

    def _tell_end(self) -> None:
        """How a prompt of this turn ended that was not the last one: people are told before the next answer."""
        self.viewing.pending += self.said_of_end
        self.said_of_end = []

    def _check_answered(self, end: Answered) -> None:
        """A prompt that was answered only by words about a queue is unanswered. Raises Lost."""
        only = self.viewing.seen & {"queued", "message", "tool"} == {"queued"}
        if only and end.stop == "end_turn" and self.stopped is None:
            raise run_context.AgentLost("put the message into a queue of its own and answered only that")

    async def _next(self) -> list[Signal | FlushBarrier | SteerCancelled]:
        """At least one signal, or none if a batch is due first. Raises Lost after too long a silence."""
        queue = self.live.signals
        wait = self.agent.silence
        if self.viewing.pending:
            wait = max(0.0, self.last_show + SHOW_EVERY - asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(wait):  # wait_for, before Python 3.12, may swallow that the gateway stops
                signals = [await queue.get()]
        except TimeoutError:
            if not self.viewing.pending and not self.permissions.open and not self.viewing.working():
                raise run_context.AgentLost(f"told nothing for {self.agent.silence:g} s") from None
            return []
        while not queue.empty() and not isinstance(signals[-1], Answered | Died | SteerCancelled):
            signals.append(queue.get_nowait())
        return signals

    def _due(self) -> bool:
        now = asyncio.get_running_loop().time()
        return bool(self.viewing.pending) and now - self.last_show >= SHOW_EVERY

    def _take(self, signal: Signal | FlushBarrier | SteerCancelled) -> None:
        match signal:
            case Update(data=data, replay=replay):
                self._tell_end()
                acted = self.viewing.acted
                self.viewing.take(self.fold.update(data, replay=replay))
                if self.viewing.acted != acted:  # Law 9: recorded at once, for from here on the turn is not begun anew
                    self.last_show = 0.0
                self.news.set()
            case Asked():
                self.viewing.take(self.fold.permission(signal.tool_call))
                known = self.viewing.known(signal.tool_call)
                self.viewing.pending += self.permissions.asked(signal, known)
                self.last_show = 0.0
            case Died(why=why):
                self.gone = True
                raise run_context.AgentLost(why)

    async def _show(self) -> None:
        ops = self.viewing.batch()
        if not ops:
            return
        self.last_show = asyncio.get_running_loop().time()
        if self.streams and self.speech.streaming:
            leg = self.deps.places.reserving(str(self.begun.home), self.begun.key)
            ops.append(show.Reserve(leg, self.speech.previewed()))
        text = self.speech.previewed()
        self.slots = await self.deps.record.write(show.show, self.fence, self.caller(), ops, self.slots)
        self.permissions.recorded(self.slots.items, self.slots.expired)
        if any(map(show.announces, ops)):
            self.deps.kick()
        if self.streams:
            self._preview(text)

    def _preview(self, text: Callable[[], str] | None) -> None:
        """What is recorded now may be seen at the chat home, in the message that is reserved there."""
        part, previews = self.slots.reserved, self.deps.previews
        if previews is None:
            return
        if self.previewed not in (None, part):
            previews.end(self.previewed)
        if part is not None and part != self.previewed:
            self.deps.kick()
        self.previewed = part
        if part is not None and text is not None:
            previews.show(str(self.begun.home), part, text)

    def caller(self) -> Caller:
        """Whose claims this run makes."""
        return Caller(
            session=self.begun.session, key=self.begun.key, turn=self.begun.turn, root=self.begun.root,
            turn_how=self.how, spawn=self.live.spawn,
        )  # fmt: skip

    def _hold_back(self, said: Sequence[Utterance]) -> None:
        self.speech.hold_back(one.text for one in said if one.home)

    async def recollect(self, how: law.How, lost: LostAttempts) -> None:
        """What the agent remembers of its lost attempts, and nobody was shown, is recorded and shown (Laws 6, 9)."""
        self.how = how
        found = recollect(lost, self.begun, self.deps.places, self.names, self.speech.quiet, ended=how == "recall")
        if found.ops:
            caller = replace(self.caller(), turn_how="recall")  # what the lost attempts said is not said again
            self.slots = await self.deps.record.write(show.show, self.fence, caller, found.ops, self.slots)
            self.deps.kick()
        fresh = {claim for slot, claim in self.slots.claims.items() if slot in found.slots}
        self.remembered = frozenset(found.whole | fresh)
        self.answer = found.answer

    async def recall(self) -> None:
        """Law 9: the agent's history holds the complete answer: the turn is finished from it, not asked again."""
        end = Answered("end_turn")
        self._end_blocks(end)
        await self._finish(end)

    async def show_now(self) -> None:
        """What was streamed before the agent died is shown: it is an entry, marked partial, from here on."""
        self.viewing.pending += self.speech.break_off()
        await self._show()

    async def end_cancelled(self) -> None:
        """The agent died, or did not answer, after a person stopped the turn."""
        end = Answered("cancelled")
        self._end_blocks(end)
        await self._finish(end)

    def _end_blocks(self, end: Answered) -> None:
        """The agent answered: what it was still saying ends here, and only now it is known what that says."""
        self.ending = self.viewing.ending = True
        self.viewing.cut = end.stop in TRUNCATING_STOP_REASONS
        self.viewing.take(self.fold.end(end.stop, end.error))

    async def _correct(self, end: Answered) -> None:
        """Tell the agent what was not delivered and what was, and ask once more for the former (Laws 5, 12)."""
        ops = [*self.viewing.batch(), *self.speech.leave(), *notices("answered", end, self.begun.attempt)]
        problems, self.speech.problems = self.speech.problems, []
        self.corrections.ask(problems)
        self.slots = await self.deps.record.write(show.correct, self.fence, self.caller(), ops, self.slots)
        self.permissions.recorded(self.slots.items, self.slots.expired)
        self.deps.kick()
        said = await self.deps.record.read(utterances.list_of_root, self.begun.root, self.begun.home)
        self._hold_back(said)
        content = prompt.correction(problems, said, self.deps.places.called(self.begun.key, self.begun.home))
        self.viewing.take(self.fold.prompt(content[0]["text"]))
        self.open, self.ending, self.viewing.ending, self.viewing.cut = 1, False, False, False
        if self.cancelled_by is None:
            await self.live.conversation.prompt(content)
        else:  # a person stopped the turn meanwhile
            self.live.signals.put_nowait(Answered("cancelled"))

    async def _finish(self, end: Answered) -> bool:
        ops = self.viewing.batch() + self.permissions.cancel()
        event = self._event(end)
        if event == "errored" and await self._tried_again(ops, end):
            return True
        closing, legs = self.speech.closing()
        ops += self.speech.leave(but_last=True)
        if event == "answered" and end.stop == "end_turn":
            ops += self.speech.silence()
        ending = tuple(notices(event, end, self.begun.attempt))
        reached = self.prompted and event != "errored"  # or it is told again
        upto = max((t.seq for t in self.begun.told), default=0) if reached else 0
        held = self.corrections.notice(self.speech.problems, self.begun.home) if event == "answered" else None
        last = show.End(
            event, end.stop, end.error, upto, closing, legs, ending, held, bool(self.speech.problems),
            stopped=self.stopped, remembered=self.remembered, answer=self.answer,
        )  # fmt: skip
        self.slots, due = await self.deps.record.write(show.finish, self.fence, self.caller(), ops, self.slots, last)
        return due

    async def _tried_again(self, ops: list[show.Op], end: Answered) -> bool:
        """Law 9: what failed for a passing reason is tried again a little later, under the same root."""
        wait = retry_delay_s(end, self.begun.attempt, self.agent.attempts)
        if wait is None:
            return False
        again = [*ops, retry_notice(why(end), wait, self.begun.attempt + 1)]
        self.slots = await self.deps.record.write(
            show.put_off, self.fence, self.caller(), again, self.slots, why(end), round(wait * 1000)
        )
        return True

    def _event(self, end: Answered) -> law.Event:
        if self.stopped is not None:  # whatever the agent calls it: the fence is what the person asked for
            return "cancelled"
        return "errored" if end.stop == "error" else "answered"

    async def afterwards(self, updates: Sequence[Update]) -> None:
        """What the agent told after its answer, while no turn runs: it is said, late, and shown now (Law 10)."""
        self.speech.last = []
        for one in updates:
            self.viewing.take(self.fold.update(one.data, replay=one.replay))
        self.viewing.take(self.fold.end("end_turn"))
        ops = [*self.viewing.batch(), *self.speech.leave(but_last=True)]
        if not ops:
            return
        closing, legs = self.speech.closing()
        caller = replace(self.caller(), late=True)
        self.slots = await self.deps.record.write(show.late, caller, ops, self.slots, closing, legs)
        self.live.slots = self.slots
        self.deps.kick()

    def drain_marks(self) -> None:
        """End the run: release everybody who waits for it, and leave other signals to the next turn."""
        if self.live.announces is None and self.unannounced:
            self.live.announces = any(self.viewing.told(name, arguments) for name, arguments in self.unannounced)
        self.over = True
        self.news.set()
        self.live.slots = self.slots
        if self.previewed is not None and self.deps.previews is not None:
            self.deps.previews.end(self.previewed)
        if self.patience is not None:
            self.patience.cancel()
        kept = []
        while not self.live.signals.empty():
            signal = self.live.signals.get_nowait()
            if isinstance(signal, FlushBarrier):
                run_context.resolve([signal])
            else:
                kept.append(signal)
        for signal in kept:
            self.live.signals.put_nowait(signal)
        self.permissions.close()
