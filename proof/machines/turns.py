"""Laws 2, 3 and 9 as pure code: wakes, one turn at a time, attempts after loss, and tools that run once.

One session. The world keeps its own account: which events wait, which turn took them, and how often each tool call of
a root really ran. What a restart does again, it does from the prompt on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from proof.machines.counted import Counted
from proof.machines.house import refused
from semel.law import busy, wake
from semel.law import turn as law

PAUSES = (wake.AT_ONCE, busy.COLLECT, wake.Pause(1_000, 3_000), wake.Pause(500, 0))


@dataclass
class Root:
    """The attempts at one turn. `tools`: how often each tool call ran."""

    events: list[int]
    attempt: int = 1
    prompts: int = 1
    state: law.State = "running"
    tools: list[int] = field(default_factory=list)
    answers: int = 0
    again_at: int | None = None  # put off until then


class TurnMachine(Counted):
    """One session's turns."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000
        self.heard = 0
        self.waiting: list[int] = []
        self.wakers: set[int] = set()  # those of them that wake
        self.pending: wake.Wake | None = None
        self.latest = 0  # when the pending wake must be due at the latest
        self.roots: list[Root] = []
        self.running: Root | None = None

    # ------------------------------------------------------------ people

    @rule(
        kind=st.sampled_from(["message", "message", "webhook", "reaction"]), automatic=st.booleans(),
        mode=st.sampled_from(busy.MODES), pause=st.sampled_from(PAUSES),
    )  # fmt: skip
    def something_is_heard(self, kind: str, automatic: bool, mode: busy.Busy, pause: wake.Pause) -> None:
        self.heard += 1
        self.waiting.append(self.heard)
        if not wake.wakes(kind, automatic=automatic):
            assert automatic or kind == "reaction"
            return
        mode = mode if kind == "message" else busy.for_event(mode)
        act = busy.act(mode, running=self.running is not None)
        assert act == "wake" or self.running is not None, "nothing runs there"
        assert not (act == "interrupt" and kind != "message"), "what happened stopped a person's turn"
        if mode == "collect" and not pause.debounce:
            pause = busy.COLLECT
        elif mode in ("steer", "interrupt"):
            pause = wake.AT_ONCE
        self._wake(pause)
        self.wakers.add(self.heard)
        if act == "steer" and self.running is not None:
            self.running.events.append(self.waiting.pop())
            self.wakers.discard(self.heard)
            if not self.wakers:
                self.pending = None
        elif act == "interrupt":
            self._end("cancelled")

    def _wake(self, pause: wake.Pause) -> None:
        was = self.pending
        limit = self.now + max(pause.debounce, pause.max_wait)
        self.latest = limit if was is None else max(self.latest, limit)
        self.pending = wake.woken(self.now, was, pause)
        assert self.pending.since == (self.now if was is None else was.since), "the first event sets it"
        assert self.pending.due <= self.latest, "it waits longer than it may"
        assert was is None or was.due > self.now or self.pending.due <= self.now, "what was due is put off"
        if not pause.debounce:
            assert self.pending.due <= self.now

    @rule(ms=st.sampled_from([0, 1, 400, 1_000, 5_000, 16_000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @precondition(lambda self: self.running is None)
    @rule()
    def it_is_served(self) -> None:
        if self.pending is None:
            assert not self.wakers, "a wake was lost"
            return
        left = wake.wait(self.now, self.pending)
        assert (left == 0) == (self.pending.due <= self.now)
        if left == 0:
            self.running = Root(self.waiting)
            self.roots.append(self.running)
            self.waiting, self.wakers, self.pending = [], set(), None

    # ------------------------------------------------------------ the agent

    def _end(self, event: law.Event) -> None:
        assert self.running is not None
        self.running.state = law.step(self.running.state, event)
        self.running = None

    @precondition(lambda self: self.running is not None and self.running.again_at is None)
    @rule()
    def a_tool_runs(self) -> None:
        assert self.running is not None
        self.running.tools.append(1)

    @precondition(lambda self: self.running is not None and self.running.again_at is None)
    @rule()
    def it_answers(self) -> None:
        assert self.running is not None
        self.running.answers += 1
        self._end("answered")

    @precondition(lambda self: self.running is not None)
    @rule()
    def a_person_stops_it(self) -> None:
        self._end("cancelled")

    @precondition(lambda self: self.running is not None and self.running.again_at is None)
    @rule(passing=st.booleans(), asks=st.sampled_from([None, 1.0, 900.0]))
    def it_fails(self, passing: bool, asks: float | None) -> None:
        assert self.running is not None
        wait = law.after_failure(attempt=self.running.attempt, passing=passing, retry_after=asks)
        if wait is None:
            assert not passing or self.running.attempt >= law.MAX_ATTEMPTS, "given up too soon"
            self._end("errored")
        else:
            assert wait >= max(asks or 0, law.BACK_OFF[0]), "sooner than was asked for"
            self.running.again_at = self.now + int(wait * 1000)

    @precondition(lambda self: self.running is not None)
    @rule(restored=st.booleans(), complete=st.sampled_from([False, False, True]))
    def it_is_lost(self, restored: bool, complete: bool) -> None:
        """Its agent or its gateway died, or it was put off and its time came."""
        root = self.running
        assert root is not None
        if root.again_at is not None and root.again_at > self.now:
            return
        root.again_at = None
        nxt = law.after_loss(
            attempt=root.attempt + 1, tools_started=bool(root.tools), restored=restored, history_complete=complete
        )
        if nxt.how == "give up":
            assert nxt.why, "given up without a word"
            assert root.attempt >= law.MAX_ATTEMPTS or (root.tools and not restored), "given up too soon"
            self._end("given up")
            return
        assert law.step("running", "lost") == "lost"
        root.attempt += 1
        if nxt.how == "recall":
            assert complete, "an answer that is nowhere"
            return
        root.prompts += 1
        if nxt.how == "restart":  # from the prompt on: whatever ran, runs again
            root.tools = [n + 1 for n in root.tools]
        else:
            assert restored, "it goes on, and knows of nothing"

    @precondition(lambda self: any(root is not self.running for root in self.roots))
    @rule(data=st.data(), event=st.sampled_from(sorted(law.TABLE["running"])))
    def nothing_leaves_a_finished_turn(self, data: st.DataObject, event: law.Event) -> None:
        over = data.draw(st.sampled_from([root for root in self.roots if root is not self.running]))
        with refused(law.NotAllowed):
            law.step(over.state, event)

    # ------------------------------------------------------------ what must hold

    @invariant()
    def every_event_waits_or_is_bound_once(self) -> None:
        bound = [event for root in self.roots for event in root.events]
        assert sorted([*self.waiting, *bound]) == list(range(1, self.heard + 1))

    @invariant()
    def a_wake_is_pending_exactly_while_something_that_wakes_waits(self) -> None:
        assert (self.pending is not None) == bool(self.wakers)

    @invariant()
    def nothing_runs_twice_by_itself(self) -> None:
        for root in self.roots:
            assert all(n == 1 for n in root.tools), "a tool ran again"
            assert root.prompts <= law.MAX_ATTEMPTS, "asked too often"
            assert (root.state == "running") == (root is self.running)
            assert root.answers <= 1
