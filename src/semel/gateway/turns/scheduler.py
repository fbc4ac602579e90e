"""Run a turn for each wake: one at a time per session, many sessions at once (Laws 2, 3, 9).

A session with work has one task that serves it until nothing is due. A wake during that time makes the task check once
more. No wake is lost between "finished" and "idle", because the last check and the end of the task happen without an
await in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, TypeVar

import structlog

from semel.gateway.activity import log_activity
from semel.gateway.errors import SessionBusy
from semel.gateway.outbound.destinations import Destinations
from semel.gateway.outbound.previews import Previews
from semel.gateway.outbound.typing import Typing
from semel.gateway.ports import AgentError, Died
from semel.gateway.record import LedgerAccess
from semel.gateway.seats import Seats
from semel.gateway.settings import AgentSettings
from semel.gateway.tracing import RecordSpan, TurnTrace
from semel.gateway.turns.agent_pool import AgentPool
from semel.gateway.turns.event_files import MakeEventFiles
from semel.gateway.turns.live_agent import AgentLost, LiveAgent
from semel.gateway.turns.pending_stops import PendingStops
from semel.gateway.turns.planner import AttemptPlanner
from semel.gateway.turns.run import Run
from semel.gateway.turns.turn_counts import TurnCounts
from semel.gateway.turns.turn_end import make_retry_notice
from semel.gateway.turns.usage import UsageCollector
from semel.law import turn as law
from semel.law.access import may_hold_agent
from semel.ledger.delivery.claims import Caller
from semel.ledger.inbound import hear
from semel.ledger.storage.errors import LedgerError
from semel.ledger.turns import finish_turn, interventions, turn_ops, turns
from semel.ledger.turns.limits import LimitPolicy
from semel.ledger.turns.seats import SeatedElsewhere
from semel.ledger.turns.session_agent import ConfiguredAgents
from semel.ledger.turns.turns import BegunTurn, Fenced, GivenUp, NotYetDue, StopRequest, TurnFence

log = structlog.get_logger("semel.turns")

T = TypeVar("T")

RETRY_S = 2.0  # delay after the ledger or an agent could not be used
ABANDON_TIMEOUT_S = 30.0  # how long `abandon` waits for the turn to end
POLL_INTERVAL_S = 0.05  # interval at which `run_alone` checks whether the served session runs a turn


@dataclass(eq=False, repr=False)
class TurnScheduler:
    """The runner of all sessions' turns. Call `wake` when a session has something to do."""

    record: LedgerAccess
    places: Destinations
    agents: Mapping[str, AgentSettings]
    spawns: AgentPool
    _: KW_ONLY
    lease: str  # names this run of the gateway
    previews: Previews
    typing: Typing
    kick: Callable[[], None]  # wakes the outbox
    make_event_files: MakeEventFiles
    permission_deadline: float  # in seconds
    quiet: tuple[str, ...]  # the replies by which an agent stays quiet
    limits: LimitPolicy
    configured: ConfiguredAgents
    record_span: RecordSpan | None = None
    seats: Seats | None = None  # in a cluster

    def __post_init__(self) -> None:
        self.runs: dict[int, Run] = {}
        self.traces: dict[int, TurnTrace] = {}  # session -> the spans of its running turn
        self.tasks: dict[int, asyncio.Task[Any]] = {}
        self._woken: set[int] = set()
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self.stops = PendingStops()
        self._interventions: set[asyncio.Task[None]] = set()  # tasks that steer or interrupt a turn
        self._starting: dict[int, tuple[int, asyncio.Task[LiveAgent]]] = {}  # session -> (root, start of its agent)
        self._loss_reasons: dict[int, str] = {}  # session -> why its agent died last
        self._unreleased: dict[int, TurnFence] = {}
        """Session -> the turn whose run broke off and was not recorded as lost."""
        self._begun: dict[int, BegunTurn] = {}  # session -> a turn that began when its event was heard
        self.idle_start = hear.IdleStart(
            self.lease, self._is_idle, self.spawns.idle_spawn, self._take_over, self.limits, self.configured,
            self.spawns.seat_rule,
        )  # fmt: skip
        self.planner = AttemptPlanner(self.record, self.places, self.quiet)
        self.counts = TurnCounts(self.agents)
        self.stopping = False

    def __repr__(self) -> str:
        return f"<Turns {len(self.runs)} running, {len(self.tasks)} served>"

    def wake(self, session: int) -> None:
        """Make sure that a task serves this session, because it has something to do."""
        if not self.stopping:
            self._serve_soon(session)

    def is_attended(self, session: int) -> bool:
        """Return whether a task serves the session, or a timer will wake it."""
        return session in self.tasks or session in self._timers

    def look_at(self, session: int) -> None:
        """Do what another gateway may have recorded for the session."""
        if session in self.tasks:
            self._start_intervention(self._obey_rows(session), f"look at session {session}")
        else:
            self.wake(session)

    async def _obey_rows(self, session: int) -> None:
        """Steer or stop the session's turn, if messages wait to join it, or somebody has stopped it."""
        found = await self.record.read(interventions.read_intervention, session)
        if found is not None and found.stop is not None:
            await self._pass_stop(session, found.stop, found.root)
        elif found is not None and found.steers:
            await self._steer(session)
        self.wake(session)

    def _serve_soon(self, session: int) -> None:
        if session in self.tasks:
            self._woken.add(session)
            return
        task = asyncio.get_running_loop().create_task(self._serve(session), name=f"session {session}")
        self.tasks[session] = task

    def _is_idle(self, session: int) -> bool:
        """Return whether no task serves the session, so that a turn may begin there. May be called from any thread."""
        return not self.stopping and session not in self.tasks

    def _take_over(self, begun: BegunTurn) -> None:
        """Serve a turn that began in the transaction that accepted its event, even if the gateway is now stopping."""
        self._begun[begun.session] = begun
        self._serve_soon(begun.session)

    def act_on(self, addressed: hear.Addressed) -> None:
        """Act on an accepted event: wake its session, steer the event into the running turn, or interrupt that turn."""
        if addressed.act == "wake":
            self.wake(addressed.session)
        elif addressed.act is not None and not self.stopping:
            work = self._steer(addressed.session) if addressed.act == "steer" else self._interrupt(addressed)
            self._start_intervention(work, f"{addressed.act} session {addressed.session}")

    def _start_intervention(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._interventions.add(task)
        task.add_done_callback(self._interventions.discard)

    def can_steer(self, key: str) -> bool:
        """Return whether a message can join the session's running turn now."""
        return any(run.begun.key == key and run.steers for run in self.runs.values())

    async def _steer(self, session: int) -> None:
        run = self.runs.get(session)
        if run is None or not await run.steer():
            self.wake(session)  # the turn was over: the next turn takes the messages

    async def _interrupt(self, addressed: hear.Addressed) -> None:
        """Stop the turn that ran when a newer message or a new chapter was recorded, but never a later turn."""
        session, root = addressed.session, addressed.root
        by = StopRequest(
            law.STOPPED_BY_NEW_CHAPTER if addressed.command else law.STOPPED_BY_NEWER_MESSAGE, addressed.seq
        )
        if root is None or (self._run_of(session, root) is None and await self._stop_waiting(session, by, root)):
            pass  # nothing runs
        elif (run := self._run_of(session, root)) is not None:  # it may have begun since
            await run.cancel(by)
        else:
            if session in self.tasks:
                self.stops.overtake_turn(session, by, root)
            self._stop_start(session, root)
        self.wake(session)

    def _run_of(self, session: int, root: int) -> Run | None:
        """Return the session's run, if it is of a turn of this root."""
        run = self.runs.get(session)
        return run if run is not None and run.begun.root == root else None

    def _stop_start(self, session: int, root: int | None = None) -> None:
        """Cancel the start of an agent for a turn of this session. `root`: only for a turn of this root."""
        if session in self._starting and root in (None, self._starting[session][0]):
            self._starting[session][1].cancel()

    async def _stop_waiting(self, session: int, by: StopRequest, only: int | None = None) -> bool:
        """Stop the turn, if it waits for its retry and is of the root `only` (None: any). Return whether one waited."""
        stopped = await self.record.write(turns.cancel_put_off, session, by, only)
        if stopped:
            self.wake(session)
            self.kick()  # its placeholder message is removed
        return bool(stopped)

    async def cancel(self, session: int, by: StopRequest, root: int) -> bool:
        """Stop the turn of this root for a person. Return whether it was stopped: False if it had ended."""
        if (run := self._run_of(session, root)) is not None:
            await run.cancel(by)
            return await self._record_stop(session, by, root) or run.end_event == "cancelled"
        if session not in self.tasks and await self._stop_waiting(session, by, root):
            return True
        if is_running := await self._record_stop(session, by, root):  # first, as it ends once it knows of the stop
            await self._pass_stop(session, by, root)
        return is_running

    async def _pass_stop(self, session: int, by: StopRequest, root: int) -> None:
        """Let the turn of this root end as stopped, whether it runs or its agent is only starting."""
        if (run := self._run_of(session, root)) is not None:
            await run.cancel(by)
        elif session in self.tasks:
            self.stops.stop_turn(session, by, root)
            self._stop_start(session, root)

    async def _record_stop(self, session: int, by: StopRequest, root: int) -> bool:
        """Record that a turn was stopped: no gateway retries it (Law 9). Return False if it had ended."""
        try:
            if not await self.record.write(interventions.request_stop, session, by, root):
                return False
        except LedgerError as error:
            log.warning("a stop could not be recorded", session_id=session, why=str(error))
        self.wake(session)  # the turn may have failed in between, and wait for its retry
        return True

    async def abandon(self, session: int, reason: str) -> None:
        """End the run and the agent of a session whose turn has already ended in the ledger. Wait for both."""
        run = self.runs.get(session)
        if run is not None:
            run.files.stop()
            run.live.signals.put_nowait(Died(reason))
        elif session in self.tasks:
            self.stops.stop_turn(session, StopRequest(reason))
            self._stop_start(session)
        if (task := self.tasks.get(session)) is not None:
            await asyncio.wait({task}, timeout=ABANDON_TIMEOUT_S)
        await self.spawns.end(session, reason)

    async def run_alone(self, session: int, body: Callable[[int], Awaitable[T]]) -> T:
        """Run `body` in a session while no turn runs there. Raises SessionBusy if one runs.

        A turn that becomes due in the meantime starts after it.
        """
        while (task := self.tasks.get(session)) is not None:
            if session in self.runs or session in self._starting:
                raise SessionBusy
            await asyncio.wait({task}, timeout=POLL_INTERVAL_S)  # the task may only be checking whether a turn is due
        task_alone = asyncio.create_task(self._run_alone(session, body), name=f"alone in session {session}")
        self.tasks[session] = task_alone
        return await asyncio.shield(task_alone)

    async def _run_alone(self, session: int, body: Callable[[int], Awaitable[T]]) -> T:
        try:
            return await body(session)
        finally:
            self._end_service(session)

    def wake_in(self, session: int, seconds: float) -> None:
        """Wake the session after this many seconds. A timer that is set for an earlier time stays."""
        loop = asyncio.get_running_loop()
        old = self._timers.get(session)
        if self.stopping or (old is not None and old.when() <= loop.time() + seconds):
            return
        if old is not None:
            old.cancel()
        self._timers[session] = loop.call_later(seconds, self._wake_by_timer, session)

    def _wake_by_timer(self, session: int) -> None:
        self._timers.pop(session, None)
        self.wake(session)

    async def _serve(self, session: int) -> None:
        try:
            while True:
                self._woken.discard(session)
                try:
                    more = await self._serve_turn(session)
                except Fenced as error:
                    self._unreleased.pop(session, None)
                    log.warning("turn fenced off", session_id=session, why=str(error))
                    more = True
                except LedgerError as error:
                    log.warning("turn put off", session_id=session, why=str(error))
                    self.wake_in(session, RETRY_S)
                    more = False
                if self.stopping or not (more or session in self._woken):
                    return
        except Exception:
            log.exception("turn failed inside the gateway", session_id=session)
            self.wake_in(session, RETRY_S)
        finally:
            self._end_service(session)

    def _end_service(self, session: int) -> None:
        """Clean up after the session's task. Start a new task if a wake came in the meantime."""
        del self.tasks[session]
        if session in self._woken and not self.stopping:
            self.wake(session)
        else:
            self.stops.forget_session(session)

    async def _serve_turn(self, session: int) -> bool:
        """Run one turn if one is due. Return whether the caller should check again at once."""
        if session in self._unreleased:
            await self.record.write(turns.release_lease, self._unreleased[session])
            del self._unreleased[session]
        begun: BegunTurn | GivenUp | NotYetDue | SeatedElsewhere | None = self._begun.pop(session, None)
        if begun is None:
            begun = await self.record.write(
                turns.begin, session, self.lease, self.spawns.idle_spawn(session),
                self._loss_reasons.pop(session, None), self.configured, self.limits, self.idle_start.seat_rule,
            )  # fmt: skip
        if begun is None:
            return False
        if isinstance(begun, SeatedElsewhere):
            assert self.seats is not None
            self.seats.pass_on(begun)
            return False
        if isinstance(begun, NotYetDue):
            if begun.hold is not None:
                log_activity("turn waits", session=begun.hold.key, why=f"{begun.hold.limit} is used up")
            self.kick()  # a notice may say why
            self.wake_in(session, begun.wait_ms / 1000)
            return False
        if isinstance(begun, GivenUp):
            self._note_end(begun, "cancelled" if begun.error is None else "given up", begun.error)
            self.kick()
            return True
        self.stops.note_begin(begun)
        log_activity("turn began", session=begun.key, turn=begun.turn, agent=begun.agent, attempt=begun.attempt)
        fence = TurnFence(begun.session, begun.turn, begun.epoch)
        self.typing.begin(begun, lambda: self._waits_for_person(session))
        self.traces[session] = TurnTrace(self.record_span, begun)
        try:
            return await self._attempt(begun, fence)
        except Exception:
            self._unreleased[session] = fence
            raise
        finally:
            self.typing.end(begun)
            self.traces.pop(session).end()
            self.stops.note_end(begun)

    def _waits_for_person(self, session: int) -> bool:
        """Return whether the running turn waits for a person's answer."""
        run = self.runs.get(session)
        return run is not None and bool(run.permissions.open)

    async def _attempt(self, begun: BegunTurn, fence: TurnFence) -> bool:
        with structlog.contextvars.bound_contextvars(session=begun.key):  # of the log lines of agents, too
            try:
                with self.traces[begun.session].span("agent start", **{"semel.agent": begun.agent}):
                    live = await self._start(begun)
            except AgentError as error:
                await self._handle_failed_start(fence, begun, error)
                return True
            if live is None:
                end = finish_turn.End("cancelled", "cancelled", stopped=self.stops.take_stop(begun))
                await self._finish_unasked(fence, begun, end)
                return True
            return await self._run_with(live, begun, fence)

    async def _start(self, begun: BegunTurn) -> LiveAgent | None:
        """Start or fetch the session's agent. Return None if the turn was stopped before the agent had started.

        Raises AgentError.
        """
        taking = self.spawns.take(begun.session, begun.key, begun.agent, begun.memory)
        start = asyncio.create_task(taking, name=f"start {begun.key}")
        self._starting[begun.session] = begun.root, start
        try:
            return await start
        except asyncio.CancelledError:
            if start.cancelled() and self.stops.find_stop(begun) is not None and not self.stopping:
                return None
            raise
        finally:
            del self._starting[begun.session]

    def _may_wait(self, run: Run) -> bool:
        """Return whether a run may keep its agent while a permission request waits for an answer.

        Only turns for guests are limited, so that guests cannot occupy all agents.
        """
        if not run.guests or not run.live.process:
            return True
        others = [
            other for other in self.runs.values() if other is not run and other.permissions.open and other.live.process
        ]
        return may_hold_agent(run.guests, [other.guests for other in others if other.guests], self.spawns.max_processes)

    async def _run_with(self, live: LiveAgent, begun: BegunTurn, fence: TurnFence) -> bool:
        run = self.runs[begun.session] = Run(
            begun, live, self.record, self.places, self.agents[begun.agent], previews=self.previews, kick=self.kick,
            files=self.make_event_files(begun, self.agents[begun.agent], live.conversation),
            permission_deadline=self.permission_deadline, may_wait=self._may_wait,
            note_end=partial(self._note_end, begun), usage=UsageCollector(self.limits),
            note_error=lambda: self.counts.note_error(begun.agent, "answer"),
        )  # fmt: skip
        may_keep = False
        try:
            due = await self._ask_agent(run, begun, fence, live)
            may_keep = True
            return due
        except AgentLost as error:
            log.warning("agent lost", session=begun.key, turn=begun.turn, why=str(error))
            self._loss_reasons[begun.session] = str(error)
            self.counts.note_error(begun.agent, "lost")
            await self._settle_lost(run, fence)
            return True
        finally:
            self.runs.pop(begun.session, None)
            self.traces[begun.session].joined = run.joined
            run.close()
            live.record_afterwards = run.record_afterwards
            if may_keep and not self.stopping:
                await self.spawns.give_back(live)
            else:
                await self.spawns.drop(live, "the gateway stopped" if self.stopping else "its turn was lost")
            self.kick()

    async def _ask_agent(self, run: Run, begun: BegunTurn, fence: TurnFence, live: LiveAgent) -> bool:
        """Prompt the agent and follow the turn to its end. Return whether another turn is due."""
        plan = await self.planner.plan(begun, fence, live, run.recollect)
        if plan.how == "give up":
            await self._fail(fence, begun, plan.reason)
        elif plan.how == "recall":
            await run.end_unanswered("end_turn")
        elif (by := run.stopped or self.stops.take_stop(begun)) is not None:
            run.stopped = by
            await run.end_unanswered("cancelled")
        else:
            with self.traces[begun.session].span("agent prompt", **{"semel.how": plan.how}):
                return await run.run_attempt(plan.how, plan.utterances, plan.notes, plan.entries_to_tell)
        return True

    async def _settle_lost(self, run: Run, fence: TurnFence) -> None:
        """Show what the agent streamed before it died (Law 6). The attempt is lost, or over if a person stopped it."""
        if run.stopped is not None:
            await run.end_unanswered("cancelled")
            return
        await run.show_broken_off()
        await self.record.write(turns.release_lease, fence)

    async def _handle_failed_start(self, fence: TurnFence, begun: BegunTurn, error: AgentError) -> None:
        reason = f"the agent could not be started: {error}"
        self.counts.note_error(begun.agent, "start")
        delay_s = law.delay_after_failure(
            attempt=begun.attempt, is_transient=error.passing, retry_after=None,
            max_attempts=self.configured.max_attempts(begun.agent),
        )  # fmt: skip
        if delay_s is None:
            await self._fail(fence, begun, reason)
            return
        caller = Caller(session=begun.session, key=begun.key, turn=begun.turn, root=begun.root)
        notices_retry = [make_retry_notice(reason, delay_s, begun.attempt + 1)]
        await self.record.write(
            finish_turn.schedule_retry, fence, caller, notices_retry, turn_ops.Slots(), reason, round(delay_s * 1000)
        )

    async def _fail(self, fence: TurnFence, begun: BegunTurn, reason: str) -> None:
        notice = turn_ops.Notice(f"The agent's turn failed: {reason}", "turn.failed", tell=True)
        await self._finish_unasked(fence, begun, finish_turn.End("errored", "error", reason, notices=(notice,)))

    async def _finish_unasked(self, fence: TurnFence, begun: BegunTurn, end: finish_turn.End) -> None:
        """End a turn whose agent was never prompted."""
        caller = Caller(session=begun.session, key=begun.key, turn=begun.turn, root=begun.root)
        await self.record.write(finish_turn.finish, fence, caller, [], turn_ops.Slots(), end)
        self._note_end(begun, end.event, end.error)
        self.kick()

    def _note_end(self, begun: BegunTurn | GivenUp, event: law.Event, error: str | None) -> None:
        """Count a turn that has ended. Log it if it failed."""
        outcome = law.step("running", event)
        self.counts.note_end(begun.agent, outcome)
        if (trace := self.traces.get(begun.session)) is not None:
            trace.outcome = outcome
        if outcome == "failed":
            log.warning("turn failed", session=begun.key, turn=begun.turn, agent=begun.agent, why=error)
        else:
            log_activity("turn ended", session=begun.key, turn=begun.turn, agent=begun.agent, outcome=outcome)

    async def stop(self, grace: float) -> None:
        """Start no more turns, wait up to `grace` seconds for running ones, and cancel the rest.

        The next gateway resumes the turns that were cancelled.
        """
        self.stopping = True
        for timer in self._timers.values():
            timer.cancel()
        await self.record.store.wait_for_writer()  # an event that is being recorded may begin a turn until then
        if tasks := list(self.tasks.values()):
            _, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
