"""Run one attempt of a turn, from the bound events to its end (Laws 2, 3, 6, 9, 10).

A run prompts the agent, folds the signals in the order in which they come, commits them in batches, and finishes the
turn. Until then, each of its writes carries the turn's fence. Everything is committed before it is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Literal

import structlog

from semel.gateway.activity import log_activity
from semel.gateway.outbound.destinations import Destinations
from semel.gateway.outbound.previews import Previews
from semel.gateway.ports import Answered, Asked, Died, Update
from semel.gateway.record import LedgerAccess
from semel.gateway.settings import AgentSettings
from semel.gateway.turns import prompt
from semel.gateway.turns.announcements import Announcements
from semel.gateway.turns.block_claims import BlockClaims
from semel.gateway.turns.event_files import EventFiles
from semel.gateway.turns.home_preview import HomePreview
from semel.gateway.turns.live_agent import AgentLost, FlushBarrier, LiveAgent, QueuedSignal, SteerCancelled
from semel.gateway.turns.permissions import Permissions, find_guests, find_readers
from semel.gateway.turns.recovered_text import LostAttempts, recover_text
from semel.gateway.turns.turn_end import (
    Corrections,
    failure_reason,
    make_end_notices,
    make_retry_notice,
    normalize_end,
    retry_delay_s,
)
from semel.gateway.turns.usage import UsageCollector
from semel.law import turn as law
from semel.ledger.delivery.claims import Caller
from semel.ledger.turns import finish_turn, show, turn_events, turn_ops, turns, utterances
from semel.ledger.turns.turns import BegunTurn, EntryToTell, StopRequest, TurnFence
from semel.ledger.turns.utterances import Utterance
from semel.text.json_types import Json

log = structlog.get_logger("semel.turn")

SHOW_INTERVAL_S = 0.033  # seconds between two batches while text streams
CANCEL_TIMEOUT_S = 15.0  # seconds an agent has to end a cancelled prompt, before its process is ended
TRUNCATING_STOP_REASONS = ("max_tokens", "refusal")  # stop reasons of a model that was not done with its text


@dataclass(eq=False, repr=False)
class Run:
    """One attempt of a running turn. `live`: the agent that runs it. `agent`: the agent's settings."""

    begun: BegunTurn
    live: LiveAgent
    record: LedgerAccess
    places: Destinations
    agent: AgentSettings
    _: KW_ONLY
    previews: Previews
    kick: Callable[[], None]  # wakes the outbox
    files: EventFiles
    permission_deadline: float  # in seconds
    may_wait: Callable[[Run], bool]  # whether it may hold its agent while it waits for a permission
    note_end: Callable[[law.Event, str | None], None]  # called with how the turn ended, and the error
    usage: UsageCollector
    note_error: Callable[[], None]  # called if the agent answers with an error, also if the turn is retried

    def __post_init__(self) -> None:
        self.fence = TurnFence(self.begun.session, self.begun.turn, self.begun.epoch)
        self.how: law.How = "start"
        self.answer: int | None = None  # the claim of a lost attempt with which the agent's history ends
        self.remembered: frozenset[int] = frozenset()  # claims of lost attempts that the agent remembers word for word
        self.names = self.places.names(self.begun.key)
        self.stopped: StopRequest | None = None  # set when a person stopped the turn
        self.joined: list[turn_events.TurnEvent] = []  # events of messages that were steered into the turn
        self.cancel_timer: asyncio.TimerHandle | None = None
        self.corrections = Corrections(was_asked=self.begun.attempt > 1)
        self.last_shown_at = 0.0
        self.announcements = Announcements(self.live, self.flush)
        self.is_over = False
        self.end_event: law.Event | None = None  # how it ends, once that is decided
        self.agent_died = False  # the agent's process died
        self.was_prompted = False  # whether the agent got the prompt, with its notes and entries
        self.steering = asyncio.Lock()  # held while messages join the turn, so that they do it in their order
        self.open_prompts = 0  # prompts that the agent has not answered
        self.end_notices: list[turn_ops.Notice] = []  # about prompts that ended while others were still running
        self.is_ending = False  # whether the last answer came, so that no message can join the turn
        self.preview = HomePreview(self.begun.home, self.begun.key, self.places, self.previews, self.kick)
        self.fold = self.live.fold
        quiet = prompt.quiet_words(self.begun.events)
        is_heartbeat = bool(quiet) and all(prompt.is_heartbeat(event) for event in self.begun.events)
        self.speech = BlockClaims(self.begun.key, self.begun.home, self.places, self.names, quiet, is_heartbeat)
        self.view = self.live.view
        self.view.begin_turn(self.speech, self.begun.turn)
        self.slots = turn_ops.Slots(items={s: i for s, i in self.live.slots.items.items() if s in self.view.kinds})
        self.permissions = Permissions(
            self.live.conversation, self.agent.permissions, self.permission_deadline, self._on_expired, self._is_seen,
            partial(self.places.cut_with_buttons, self.begun.home, self.begun.key), self.agent.approvals,
            self.begun.last_number, lambda: self.may_wait(self), find_readers(self.begun, self.agent.approvals),
            self.places.is_answered_by_reactions(self.begun.home, self.begun.key),
        )  # fmt: skip
        self.guests = find_guests(self.begun.events)

    def __repr__(self) -> str:
        return f"<Run turn {self.begun.turn} of {self.begun.key}, attempt {self.begun.attempt}, {self.how}>"

    async def flush(self) -> None:
        """Wait, at most 5 s, until everything that the agent has streamed so far is committed."""
        if self.is_over:
            return
        barrier = self.live.put_barrier()
        with contextlib.suppress(TimeoutError):  # only the order of entries depends on it
            async with asyncio.timeout(5):
                await barrier.wait()

    async def match_call(self, tool: str | None, name: str, arguments: Json) -> tuple[str | None, int | None]:
        """Return (tool call id, turn) of a call that came over the socket (see `Announcements.match`)."""
        return await self.announcements.match(tool, name, arguments)

    def hold_back_text(self, text: str) -> None:
        """Do not preview a block that may repeat this text, because a tool is about to say the text at home (Law 5)."""
        self.speech.hold_back([text])

    @property
    def steers(self) -> bool:
        """Whether a message can join this turn now, because its agent accepts a second prompt while a turn runs."""
        able = self.was_prompted and not (self.is_ending or self.is_over or self.agent_died or self.stopped is not None)
        return able and self.fold.profile.second == "steers"

    async def steer(self) -> bool:
        """Bind waiting messages to this turn, and prompt the agent with them. Return False if they cannot join it."""
        async with self.steering:
            if not self.steers:
                return False
            self.open_prompts += 1  # before the commit, so that the turn does not end before the prompt
            await self.flush()  # take in all text from before this prompt first
            self.view.pending += self.speech.before_join()
            await self.flush()
            try:
                content = await self._join_waiting()
            except Exception as error:
                self.live.signals.put_nowait(SteerCancelled())
                if not isinstance(error, turns.Fenced):
                    log.warning("a message could not join the turn", session=self.begun.key, why=str(error))
                return False
            if content and self.stopped is None and not self.agent_died and not self.is_over:
                self.view.take(self.fold.prompt("\n".join(b["text"] for b in content if b["type"] == "text")))
                await self.live.conversation.prompt(content)
            else:
                self.live.signals.put_nowait(SteerCancelled())
            return True

    async def _join_waiting(self) -> list[Json]:
        """Bind the waiting messages to this turn. Return their prompt; [] if there are none, or a limit is used up."""
        events = await self.record.write(turns.bind_steered, self.fence, self.usage.policy)
        if not events:
            return []
        self.joined += events
        self.view.pending += self.speech.after_join()
        return prompt.build_event_blocks(*await self.files.prepare(self.fence, events))

    @property
    def cancelled_by(self) -> str | None:
        """Return who or what stopped the turn (`StopRequest.by`); None if it was not stopped."""
        return None if self.stopped is None else self.stopped.by

    async def cancel(self, stop: StopRequest) -> None:
        """Stop the turn for a person, and answer its open permission requests as cancelled."""
        if self.stopped is not None:
            return
        self.stopped = stop
        self.files.stop()
        self.view.take(self.fold.cancel())
        self.view.pending += self.permissions.stop()
        await self.live.conversation.cancel()
        died = Died("did not end a cancelled prompt")
        self.cancel_timer = asyncio.get_running_loop().call_later(CANCEL_TIMEOUT_S, self.live.signals.put_nowait, died)

    def pass_answer(self, item: int, option: str | None) -> bool:
        """Pass a person's answer to a request to the agent. Return False if the request is no longer open."""
        return self.permissions.pass_answer(item, option)

    def _is_seen(self) -> bool:
        """Return whether anyone can see a request: somebody watches, or the home is a place where people read later."""
        return self.places.is_read(self.begun.home) or self.record.hub.count_watchers(self.begun.session) > 0

    def _ask_permission(self, request: Asked) -> None:
        open_before = len(self.permissions.open)
        self.view.pending += self.permissions.ask(request, self.view.announced_call(request.tool_call))
        if len(self.permissions.open) > open_before:  # neither the policy nor the tool's own checks answered it
            log_activity("permission asked", session=self.begun.key, turn=self.begun.turn, agent=self.begun.agent)

    def _on_expired(self, op: turn_ops.Op) -> None:
        log_activity("permission expired", session=self.begun.key, turn=self.begun.turn, agent=self.begun.agent)
        self.view.pending.append(op)
        self.live.put_barrier()

    async def run_attempt(
        self, how: law.How, utterances: Sequence[Utterance], notes: Sequence[str], entries: Sequence[EntryToTell]
    ) -> bool:
        """Prompt the agent and follow the turn to its end. Return whether another turn is due.

        The arguments come from the `Plan`. Raises AgentLost, Fenced, LedgerError.
        """
        self.how = how
        self.speech.hold_back_said(utterances)
        events, files = await self.files.prepare(self.fence, self.begun.events)
        if self.stopped is not None:  # before the agent was prompted
            await self.end_unanswered("cancelled")
            return True
        known_utterances = [
            replace(utterance, cut=False) if utterance.claim in self.remembered else utterance
            for utterance in utterances
        ]
        content = (
            prompt.build_resume_prompt(events, known_utterances, entries, notes)
            if how == "resume"
            else prompt.build_prompt(events, entries, notes, files)
        )
        self._take_waiting_updates()
        self.fold.forget_all_but(slot for slot, kind in self.view.kinds.items() if kind == "tool")
        self.view.take(self.fold.prompt("\n".join(b["text"] for b in content if b["type"] == "text")))
        self.open_prompts = 1
        await self.live.conversation.prompt(content)
        self.was_prompted = self.live.was_prompted = True
        while True:
            end = normalize_end(await self._follow(), self.fold.failure)
            self._check_answered(end)
            self._end_blocks(end)
            if self.cancelled_by is None and self.corrections.are_due(end, self.speech.problems):
                await self._ask_for_correction(end)
            else:
                return await self._finish(end)

    def _take_waiting_updates(self) -> None:
        """Fold the updates that came after the agent's last answer, so that they are not taken for the next answer."""
        waiting = self.live.take_waiting()
        if all(isinstance(signal, Update) and not signal.replay for signal in waiting):
            for signal in waiting:
                if isinstance(signal, Update) and self.live.is_unprompted:
                    self.view.take(self.fold.update_before_prompt(signal.data))
                else:
                    self._take_signal(signal)
        else:
            self.live.put_back(waiting)

    async def _follow(self) -> Answered:
        """Show the signals as they come, until every prompt is answered. Return the answer that ends the turn."""
        end: Answered | None = None
        while True:
            signals = await self._next_signals()
            barriers: list[FlushBarrier] = []
            try:
                for signal in signals:
                    if isinstance(signal, Answered | SteerCancelled):
                        end = self._close_prompt(end, signal)
                        if end is not None and self.open_prompts <= 0:
                            self.is_ending = True
                            return end
                    elif isinstance(signal, FlushBarrier):
                        barriers.append(signal)
                    else:
                        self._take_signal(signal)
                if barriers or self._is_batch_due():
                    await self._show()
            finally:
                for barrier in barriers:
                    barrier.set()

    def _close_prompt(self, end: Answered | None, signal: Answered | SteerCancelled) -> Answered | None:
        """Count one prompt as answered.

        Return the answer that ends the turn so far: the first error, else the latest.
        """
        self.open_prompts -= 1
        if isinstance(signal, SteerCancelled):
            return end
        self.usage.add_answer(signal.meta)
        worse = signal if end is None or end.stop != "error" else end
        if self.open_prompts > 0:  # other prompts are still to be answered: deliver what this answer said
            self.view.take(self.fold.end(signal.stop, signal.error))
            self.view.pending += self.speech.leave() if signal.stop not in ("error", "cancelled") else []
            self.end_notices = make_end_notices("answered", signal, self.begun.attempt)
        elif end is not None and end.stop != signal.stop:
            self._show_end_notices()
        return worse

    def _show_end_notices(self) -> None:
        """Show the notices about the end of an earlier prompt of this turn, before the next answer."""
        self.view.pending += self.end_notices
        self.end_notices = []

    def _check_answered(self, end: Answered) -> None:
        """Raise AgentLost if the agent only said that it queued the message: then the prompt is not answered."""
        only = self.view.seen_kinds & {"queued", "message", "tool"} == {"queued"}
        if only and end.stop == "end_turn" and self.stopped is None:
            raise AgentLost("queued the message and answered only that")

    async def _next_signals(self) -> list[QueuedSignal]:
        """Wait for signals and return them; [] if a batch is due first. Raises AgentLost after a long silence."""
        queue = self.live.signals
        wait = self.agent.silence_s
        if self.view.pending:
            wait = max(0.0, self.last_shown_at + SHOW_INTERVAL_S - asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(wait):  # before Python 3.12, wait_for may swallow a cancellation
                signals = [await queue.get()]
        except TimeoutError:
            if not self.view.pending and not self.permissions.open and not self.view.is_tool_running():
                raise AgentLost(f"reported nothing for {self.agent.silence_s:g} s") from None
            return []
        while not queue.empty() and not isinstance(signals[-1], Answered | Died | SteerCancelled):
            signals.append(queue.get_nowait())
        return signals

    def _is_batch_due(self) -> bool:
        now = asyncio.get_running_loop().time()
        return bool(self.view.pending) and now - self.last_shown_at >= SHOW_INTERVAL_S

    def _take_signal(self, signal: QueuedSignal) -> None:
        match signal:
            case Update(data=data, replay=replay):
                self._show_end_notices()
                if not replay:
                    self.usage.add_update(data)
                acted = self.view.has_acted
                self.view.take(self.fold.update(data, replay=replay))
                if self.view.has_acted != acted:  # record it at once: from now on the turn is not restarted (Law 9)
                    self.last_shown_at = 0.0
                self.announcements.notify()
            case Asked():
                self.view.take(self.fold.apply_permission(signal.tool_call))
                self._ask_permission(signal)
                self.last_shown_at = 0.0
            case Died(why=reason):
                self.agent_died = True
                raise AgentLost(reason)

    async def _show(self) -> None:
        ops = self.view.take_batch()
        if not ops:
            return
        self.last_shown_at = asyncio.get_running_loop().time()
        ops = self.preview.withhold_for(ops) + self.preview.reserve(self.speech)
        self.slots = await self.record.write(show.show, self.fence, self.caller(), ops, self.slots)
        await self._note_requests()
        if any(map(turn_ops.may_announce, ops)):
            self.kick()
        self.preview.show(self.slots.reserved)

    async def _note_requests(self) -> None:
        self.permissions.note_recorded(self.slots.items, self.slots.expired)
        await self.permissions.notify_owners(self.record)

    def caller(self) -> Caller:
        """Return the identity under which this run makes claims."""
        return Caller(
            session=self.begun.session, key=self.begun.key, turn=self.begun.turn, root=self.begun.root,
            turn_how=self.how, spawn=self.live.spawn,
        )  # fmt: skip

    async def recollect(self, how: law.How, lost_attempts: LostAttempts) -> None:
        """Record and show the parts of lost attempts that the agent remembers and people have not seen (Laws 6, 9)."""
        self.how = how
        recollection = recover_text(
            lost_attempts, self.begun, self.places, self.names, self.speech.quiet, ended=how == "recall"
        )
        if recollection.ops:
            caller = replace(self.caller(), turn_how="recall")  # so that it consumes nothing that was said before
            self.slots = await self.record.write(show.show, self.fence, caller, recollection.ops, self.slots)
            self.kick()
        new_claims = {claim for slot, claim in self.slots.claims.items() if slot in recollection.slots}
        self.remembered = frozenset(recollection.remembered_claims | new_claims)
        self.answer = recollection.answer

    async def show_broken_off(self) -> None:
        """Show the text that the agent streamed before it died, as an entry marked partial."""
        self.view.pending += self.speech.break_off()
        await self._show()

    async def end_unanswered(self, stop: Literal["end_turn", "cancelled"]) -> None:
        """Finish the turn without an `Answered` signal from the agent.

        `stop`: "end_turn" if the agent's history has the complete answer, so that no signal is needed (Law 9);
        "cancelled" if a person stopped the turn, and the agent was not prompted, did not answer, or died.
        """
        end = Answered(stop)
        self._end_blocks(end)
        await self._finish(end)

    def _end_blocks(self, end: Answered) -> None:
        """End the open blocks. Their content is final now, because the agent has answered."""
        self.is_ending = self.view.is_ending = True
        self.view.is_cut = end.stop in TRUNCATING_STOP_REASONS
        self.view.take(self.fold.end(end.stop, end.error))

    async def _ask_for_correction(self, end: Answered) -> None:
        """Prompt the agent again in this turn, to correct the texts that were not delivered (Laws 5, 12).

        They were not delivered because of a `MarkupProblem`: for example, they name a destination that does not exist.
        The prompt also lists the texts that were delivered, so that the agent does not say them again.
        """
        ops = self.preview.withhold_for(self.view.take_batch()) + self.speech.leave()
        ops += make_end_notices("answered", end, self.begun.attempt)
        problems, self.speech.problems = self.speech.problems, []
        self.corrections.note_request(problems)
        self.slots = await self.record.write(show.show_before_correction, self.fence, self.caller(), ops, self.slots)
        await self._note_requests()
        self.kick()
        said = await self.record.read(utterances.list_utterances, self.begun.root, self.begun.home)
        self.speech.hold_back_said(said)
        content = prompt.build_correction_prompt(
            problems, said, self.places.names_by_destination(self.begun.key, self.begun.home)
        )
        self.view.take(self.fold.prompt(content[0]["text"]))
        self.open_prompts, self.is_ending, self.view.is_ending, self.view.is_cut = 1, False, False, False
        if self.cancelled_by is None:
            await self.live.conversation.prompt(content)
        else:  # a person has stopped the turn
            self.live.signals.put_nowait(Answered("cancelled"))

    async def _finish(self, end: Answered) -> bool:
        ops = self.preview.withhold_for(self.view.take_batch()) + self.permissions.cancel()
        event = self.end_event = self._end_event(end)
        self.live.is_logged_out = end.logged_out
        if event == "errored":
            self.note_error()
            if await self._put_off(ops, end):
                return True
        closing, legs = self.speech.closing()
        ops += self.speech.leave(but_last=True)
        if event == "answered" and end.stop == "end_turn":
            ops += self.speech.claim_silence()
        last_text = self.speech.last_spoken[-1].text if self.speech.last_spoken else ""
        end_notices = tuple(make_end_notices(event, end, self.begun.attempt, last_text))
        were_prompted = self.was_prompted and event != "errored"  # otherwise the next prompt includes the entries again
        last_prompted_seq = max((t.seq for t in self.begun.entries_to_tell), default=0) if were_prompted else 0
        problems = self.speech.problems
        held_notice = self.corrections.make_notice(problems, self.begun.home) if event == "answered" else None
        ended = finish_turn.End(
            event, end.stop, end.error, last_prompted_seq, closing, legs, end_notices, held_notice, bool(problems),
            stopped=self.stopped, remembered=self.remembered, answer=self.answer,
            usage=self.usage.report() if self.was_prompted else None,
        )  # fmt: skip
        self.slots, due = await self.record.write(finish_turn.finish, self.fence, self.caller(), ops, self.slots, ended)
        self.note_end(event, ended.error)
        return due

    async def _put_off(self, ops: list[turn_ops.Op], end: Answered) -> bool:
        """Put off a turn after a transient failure, so that its root is retried (Law 9).

        Return False, and change nothing, if the turn has failed for good.
        """
        delay_s = retry_delay_s(end, self.begun.attempt, self.agent.attempts)
        if delay_s is None:
            return False
        ops_with_notice = [*ops, make_retry_notice(failure_reason(end), delay_s, self.begun.attempt + 1)]
        self.slots = await self.record.write(
            finish_turn.schedule_retry, self.fence, self.caller(), ops_with_notice, self.slots, failure_reason(end),
            round(delay_s * 1000), self.usage.report(),
        )  # fmt: skip
        return True

    def _end_event(self, end: Answered) -> law.Event:
        if self.stopped is not None:  # whatever stop reason the agent gives
            return "cancelled"
        return "errored" if end.stop == "error" else "answered"

    async def record_afterwards(self, updates: Sequence[Update]) -> None:
        """Record and show, as late claims, text that the agent sent after its answer, while no turn runs (Law 10)."""
        self.speech.last_spoken = []
        for update in updates:
            self.view.take(self.fold.update(update.data, replay=update.replay))
        self.view.take(self.fold.end("end_turn"))
        ops = [*self.view.take_batch(), *self.speech.leave(but_last=True)]
        if not ops:
            return
        closing, legs = self.speech.closing()
        caller = replace(self.caller(), is_late=True)
        self.slots = await self.record.write(show.show_late, caller, ops, self.slots, closing, legs)
        self.live.slots = self.slots
        self.kick()

    def close(self) -> None:
        """End the run and its preview. No task waits for it any more; unhandled signals stay for the next turn."""
        self.is_over = True
        self.announcements.end()
        self.live.slots = self.slots
        self.preview.end()
        if self.cancel_timer is not None:
            self.cancel_timer.cancel()
        self.live.release_waiting()
        self.permissions.close()
