"""Wakes become turns: one at a time per session, many sessions at once (Laws 2, 3, 9).

A session with work has one task that serves it until nothing is due. A wake during that time makes the task check once
more. No wake is lost between "finished" and "idle", because the last check and the end of the task happen without an
await in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import structlog

from semel.gateway.errors import Conflict
from semel.gateway.ports import AgentError, Died
from semel.gateway.turns.agent_pool import AgentPool, LiveAgent
from semel.gateway.turns.planner import AttemptPlanner
from semel.gateway.turns.run import Run
from semel.gateway.turns.run_context import AgentLost, RunDependencies
from semel.gateway.turns.turn_end import retry_notice
from semel.law import turn as law
from semel.law.access import may_hold_agent
from semel.ledger.delivery.claims import Caller
from semel.ledger.inbound.hear import Addressed
from semel.ledger.storage.errors import LedgerError
from semel.ledger.turns import show, turns
from semel.ledger.turns.turns import Begun, Fence, Fenced, GivenUp, Later, Stop

log = structlog.get_logger("semel.turns")

T = TypeVar("T")

RETRY_S = 2.0  # after the ledger or an agent could not be used
POLL_INTERVAL_S = 0.05  # interval at which `alone` checks whether the served session runs a turn


class Turns:
    """Serves sessions that have something to do. `done` is called after each turn that ended."""

    def __init__(self, deps: RunDependencies, spawns: AgentPool, lease: str, done: Callable[[], None]) -> None:
        self.deps = deps
        self.spawns = spawns
        self.lease = lease
        self.done = done
        self.runs: dict[int, Run] = {}
        self.tasks: dict[int, asyncio.Task[Any]] = {}
        self._again: set[int] = set()
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._stopped: dict[int, Stop] = {}  # sessions stopped before their agent could be asked, and by whom
        self._overtaken: dict[
            int, tuple[int, Stop]
        ] = {}  # session: root interrupted before its agent is asked, by whom
        self._deeds: set[asyncio.Task[None]] = set()  # steering and interrupting
        self._starting: dict[int, tuple[int, asyncio.Task[LiveAgent]]] = {}  # session: root, and the start of its agent
        self._lost: dict[int, str] = {}  # why a session's agent died last
        self._orphans: dict[int, Fence] = {}  # turns whose run broke off without a word in the ledger
        self.asking = AttemptPlanner(deps.record, deps.places, deps.quiet)
        self.attempts = {name: agent.attempts for name, agent in deps.agents.items()}
        self.stopping = False

    def __repr__(self) -> str:
        return f"<Turns {len(self.runs)} running, {len(self.tasks)} served>"

    def wake(self, session: int) -> None:
        """Serve this session: it has something to do."""
        if self.stopping:
            return
        if session in self.tasks:
            self._again.add(session)
            return
        task = asyncio.get_running_loop().create_task(self._serve(session), name=f"session {session}")
        self.tasks[session] = task

    def heed(self, heard: Addressed) -> None:
        """Act on an accepted event: wake its session, or steer or interrupt its turn."""
        if heard.act == "wake":
            self.wake(heard.session)
        elif heard.act is not None and not self.stopping:
            deed = self._steer(heard.session) if heard.act == "steer" else self._interrupt(heard)
            task = asyncio.get_running_loop().create_task(deed, name=f"{heard.act} session {heard.session}")
            self._deeds.add(task)
            task.add_done_callback(self._deeds.discard)

    def steers(self, key: str) -> bool:
        """Whether the session's running turn is one that a message can join now."""
        return any(run.begun.key == key and run.steers for run in self.runs.values())

    async def _steer(self, session: int) -> None:
        run = self.runs.get(session)
        if run is None or not await run.steer():
            self.wake(session)  # it was over: the next turn takes what waits

    async def _interrupt(self, heard: Addressed) -> None:
        """A newer message, or a new chapter, stops the turn that ran when it was recorded, and no later one."""
        run, root = self.runs.get(heard.session), heard.root
        by = Stop(law.STOPPED_BY_NEW_CHAPTER if heard.command else law.STOPPED_BY_NEWER_MESSAGE, heard.seq)
        if run is not None and run.begun.root == root:
            await run.cancel(by)
        elif root is not None and not await self._stop_waiting(heard.session, by, root):
            if heard.session in self.tasks:
                self._overtaken[heard.session] = root, by
            self._stop_start(heard.session, root)
        self.wake(heard.session)

    def _stop_start(self, session: int, root: int | None = None) -> None:
        """Do not wait for the agent that is being started for a turn (`root`: of that one only)."""
        if session in self._starting and root in (None, self._starting[session][0]):
            self._starting[session][1].cancel()

    async def _stop_waiting(self, session: int, by: Stop, only: int | None = None) -> bool:
        """Stop a turn that waits to be tried again; False: none does."""
        stopped = await self.deps.record.write(turns.cancel_put_off, session, by, only)
        if stopped:
            self.wake(session)
            self.done()  # what was reserved for it is removed
        return bool(stopped)

    async def cancel(self, session: int, by: Stop, only: int | None = None) -> bool:
        """A person stops the session's turn (`only` that one); False if none runs."""
        run = self.runs.get(session)
        if run is not None and only not in (None, run.begun.turn):
            return False
        if run is not None:
            await run.cancel(by)
        elif session in self.tasks:
            self._stopped[session] = by
            self._stop_start(session)
            await self._note_stop(session, by)
            return True
        else:
            return await self._stop_waiting(session, by)
        await self._note_stop(session, by, run.begun.turn)
        return True

    async def _note_stop(self, session: int, by: Stop, turn: int | None = None) -> None:
        """Who stopped a turn is kept: it is not tried again, by this gateway or a later one (Law 9)."""
        try:
            await self.deps.record.write(turns.stop, session, by, turn)
        except LedgerError as fault:
            log.warning("a stop could not be recorded", session=session, why=str(fault))
        self.wake(session)  # it may have failed meanwhile, and wait

    async def abandon(self, session: int, why: str, patience: float = 30.0) -> None:
        """The ledger ended the session's turn: its run is told so, and its agent ended. Waits until both are gone."""
        run = self.runs.get(session)
        if run is not None:
            run.live.signals.put_nowait(Died(why))
        elif session in self.tasks:
            self._stopped[session] = Stop(why)
            self._stop_start(session)
        if (task := self.tasks.get(session)) is not None:
            await asyncio.wait({task}, timeout=patience)
        await self.spawns.end(session, why)

    async def alone(self, session: int, deed: Callable[[int], Awaitable[T]]) -> T:
        """Do something in a session while no turn runs there; one that falls due meanwhile comes after it."""
        while (task := self.tasks.get(session)) is not None:
            if session in self.runs or session in self._starting:
                raise Conflict("a turn runs in this session; ask again when it is over, or stop it")
            await asyncio.wait({task}, timeout=POLL_INTERVAL_S)  # it may only be looking whether something is due
        doing = asyncio.get_running_loop().create_task(self._alone(session, deed), name=f"alone in session {session}")
        self.tasks[session] = doing
        return await asyncio.shield(doing)

    async def _alone(self, session: int, deed: Callable[[int], Awaitable[T]]) -> T:
        try:
            return await deed(session)
        finally:
            self._left(session)

    def wake_in(self, session: int, seconds: float) -> None:
        """Look again later; the earliest time wins."""
        loop = asyncio.get_running_loop()
        old = self._timers.get(session)
        if self.stopping or (old is not None and old.when() <= loop.time() + seconds):
            return
        if old is not None:
            old.cancel()
        self._timers[session] = loop.call_later(seconds, self._rung, session)

    def _rung(self, session: int) -> None:
        self._timers.pop(session, None)
        self.wake(session)

    async def _serve(self, session: int) -> None:
        try:
            while True:
                self._again.discard(session)
                try:
                    more = await self._turn(session)
                except Fenced as fault:
                    self._orphans.pop(session, None)
                    log.warning("turn fenced off", session=session, why=str(fault))
                    more = True
                except LedgerError as fault:
                    log.warning("turn put off", session=session, why=str(fault))
                    self.wake_in(session, RETRY_S)
                    more = False
                if self.stopping or not (more or session in self._again):
                    return
        except Exception:
            log.exception("turn failed inside the gateway", session=session)
            self.wake_in(session, RETRY_S)
        finally:
            self._left(session)

    def _left(self, session: int) -> None:
        """Clean up after the session's task; start it again if a wake came meanwhile."""
        del self.tasks[session]
        self._stopped.pop(session, None)
        self._overtaken.pop(session, None)
        if session in self._again and not self.stopping:
            self.wake(session)

    async def _turn(self, session: int) -> bool:
        """One turn, if one is due. True: look again at once."""
        if session in self._orphans:
            await self.deps.record.write(turns.release, self._orphans[session])
            del self._orphans[session]
        begun = await self.deps.record.write(
            turns.begin, session, self.lease, self.spawns.idle_spawn(session), self._lost.pop(session, None),
            self.attempts,
        )  # fmt: skip
        if begun is None:
            return False
        if isinstance(begun, Later):
            self.wake_in(session, begun.ms / 1000)
            return False
        if isinstance(begun, GivenUp):
            self.done()
            return True
        fence = Fence(begun.session, begun.turn, begun.epoch)
        if self.deps.typing is not None:
            self.deps.typing.begin(begun, lambda: self._waits(session))
        try:
            return await self._attempt(begun, fence)
        except Exception:
            self._orphans[session] = fence
            raise
        finally:
            if self.deps.typing is not None:
                self.deps.typing.end(begun)
            if self._overtaken_by(begun) is not None:
                del self._overtaken[session]

    def _waits(self, session: int) -> bool:
        """Whether the running turn waits for a person."""
        run = self.runs.get(session)
        return run is not None and bool(run.permissions.open)

    async def _attempt(self, begun: Begun, fence: Fence) -> bool:
        try:
            live = await self._start(begun)
        except AgentError as fault:
            await self._not_started(fence, begun, fault)
            return True
        if live is None:
            end = show.End("cancelled", "cancelled", stopped=self._stop_of(begun))
            await self._ended(fence, begun, end)
            return True
        return await self._with(live, begun, fence)

    async def _start(self, begun: Begun) -> LiveAgent | None:
        """The session's process; None: a person stopped the turn before it could be asked. Raises AgentError."""
        taking = self.spawns.take(begun.session, begun.key, begun.agent, begun.memory)
        start = asyncio.create_task(taking, name=f"start {begun.key}")
        self._starting[begun.session] = begun.root, start
        try:
            return await start
        except asyncio.CancelledError:
            stopped = begun.session in self._stopped or self._overtaken_by(begun) is not None
            if start.cancelled() and stopped and not self.stopping:
                return None
            raise
        finally:
            del self._starting[begun.session]

    def _may_wait(self, run: Run) -> bool:
        """Whether a run may hold its agent until a person answers: guests do not take every agent from the others."""
        if not run.guests or not run.live.process:
            return True
        others = [one for one in self.runs.values() if one is not run and one.permissions.open and one.live.process]
        return may_hold_agent(run.guests, [one.guests for one in others if one.guests], self.spawns.most)

    async def _with(self, live: LiveAgent, begun: Begun, fence: Fence) -> bool:
        run = self.runs[begun.session] = Run(self.deps, begun, live, self._may_wait)
        keep = False
        try:
            due = await self._ask(run, begun, fence, live)
            keep = True
            return due
        except AgentLost as lost:
            log.warning("agent lost", session=begun.key, turn=begun.turn, why=str(lost))
            self._lost[begun.session] = str(lost)
            await self._let_go(run, fence)
            return True
        finally:
            self.runs.pop(begun.session, None)
            run.drain_marks()
            live.afterwards = run.afterwards
            if keep and not self.stopping:
                await self.spawns.give_back(live)
            else:
                await self.spawns.drop(live, "the gateway stopped" if self.stopping else "its turn was lost")
            self.done()

    async def _ask(self, run: Run, begun: Begun, fence: Fence, live: LiveAgent) -> bool:
        """Ask the agent and follow it to the end; True: another turn is due. Raises Lost, Fenced, LedgerError."""
        plan = await self.asking.plan(begun, fence, live, run.recollect)
        if plan.how == "give up":
            await self._failed(fence, begun, plan.why)
        elif plan.how == "recall":
            await run.recall()
        elif (by := self._stop_of(begun)) is not None:
            run.stopped = by
            await run.end_cancelled()
        else:
            return await run.go(plan.how, plan.said, plan.notes, plan.told)
        return True

    async def _let_go(self, run: Run, fence: Fence) -> None:
        """The agent died: what it streamed is shown, then the turn may be settled (Law 6)."""
        if run.stopped is not None:
            await run.end_cancelled()
            return
        await run.show_now()
        await self.deps.record.write(turns.release, fence)

    def _stop_of(self, begun: Begun) -> Stop | None:
        """Who stopped this turn before its agent was asked."""
        by = self._stopped.pop(begun.session, None)
        return self._overtaken_by(begun) if by is None else by

    def _overtaken_by(self, begun: Begun) -> Stop | None:
        root, by = self._overtaken.get(begun.session, (None, None))
        return by if root == begun.root else None

    async def _not_started(self, fence: Fence, begun: Begun, fault: AgentError) -> None:
        why = f"the agent could not be started: {fault}"
        wait = law.after_failure(
            attempt=begun.attempt, passing=fault.passing, retry_after=None, most=self.attempts[begun.agent]
        )
        if wait is None:
            await self._failed(fence, begun, why)
            return
        caller = Caller(session=begun.session, key=begun.key, turn=begun.turn, root=begun.root)
        again = [retry_notice(why, wait, begun.attempt + 1)]
        await self.deps.record.write(show.put_off, fence, caller, again, show.Slots(), why, round(wait * 1000))

    async def _failed(self, fence: Fence, begun: Begun, why: str) -> None:
        told = show.Notice(f"The agent's turn failed: {why}", "turn.failed", tell=True)
        await self._ended(fence, begun, show.End("errored", "error", why, notices=(told,)))

    async def _ended(self, fence: Fence, begun: Begun, end: show.End) -> None:
        """The turn ends here, and its agent was not asked."""
        caller = Caller(session=begun.session, key=begun.key, turn=begun.turn, root=begun.root)
        await self.deps.record.write(show.finish, fence, caller, [], show.Slots(), end)
        self.done()

    # ------------------------------------------------------------ the end

    async def stop(self, grace: float) -> None:
        """No new turn; running ones get `grace` seconds, then are left to be resumed by the next gateway."""
        self.stopping = True
        for timer in self._timers.values():
            timer.cancel()
        tasks = list(self.tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
