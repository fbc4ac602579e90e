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
from semel.acp_stream import ViewItem
from semel.law import interrupted_turn, wake
from semel.law import turn as law

PAUSES = (wake.NO_PAUSE, wake.COLLECT, wake.WakeDelay(1_000, 3_000), wake.WakeDelay(500, 0))


@dataclass
class Root:
    """The attempts at one turn. `tools`: how often each tool call ran."""

    events: list[int]
    attempt: int = 1
    prompts: int = 1
    state: law.State = "running"
    tools: list[int] = field(default_factory=list)
    done: list[str] = field(default_factory=list)  # what its agent did so far: "text" or "tool"
    ended: bool = False  # its agent was done, and nobody heard of it
    answers: int = 0
    again_at: int | None = None  # put off until then


QUIET = ("reaction", "edit", "exec.progress")


class TurnMachine(Counted):
    """One session's turns."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000
        self.heard = 0
        self.waiting: list[int] = []
        self.wakers: set[int] = set()  # those of them that wake
        self.pending: wake.Wake | None = None
        self.since = 0  # when the first event set it
        self.most = 0  # how long any of its pauses lets it wait
        self.roots: list[Root] = []
        self.running: Root | None = None

    # ------------------------------------------------------------ people

    @rule(
        kind=st.sampled_from(["message", "message", "webhook", *QUIET]), automatic=st.booleans(),
        allowed=st.sampled_from([False, False, True]), mode=st.sampled_from(wake.MODES), pause=st.sampled_from(PAUSES),
    )  # fmt: skip
    def something_is_heard(
        self, kind: str, automatic: bool, allowed: bool, mode: wake.Busy, pause: wake.WakeDelay
    ) -> None:
        self.heard += 1
        self.waiting.append(self.heard)
        due = kind not in QUIET and (allowed or not automatic)
        by = f"a program, {'allowed' if allowed else 'not allowed'} to wake" if automatic else "a person"
        wakes = wake.wakes(kind, automatic=automatic, allowed=allowed)
        assert wakes == due, f"Law 2: {kind} by {by} {'wakes' if wakes else 'does not wake'}"
        if not wakes:
            return
        mode = mode if kind == "message" else wake.mode_for_event(mode)
        act = wake.decide_action(mode, running=self.running is not None)
        assert act == "wake" or self.running is not None, f"Law 2: {act} where nothing runs"
        assert not (act == "interrupt" and kind != "message"), f"Law 2: {kind} stopped a person's turn"
        if mode == "collect" and not pause.debounce:
            pause = wake.COLLECT
        elif mode in ("steer", "interrupt"):
            pause = wake.NO_PAUSE
        self._wake(pause)
        self.wakers.add(self.heard)
        if act == "steer" and self.running is not None:
            self.running.events.append(self.waiting.pop())
            self.wakers.discard(self.heard)
            if not self.wakers:
                self.pending = None
        elif act == "interrupt":
            self._end("cancelled")

    @rule(pause=st.sampled_from([wake.COLLECT, *(pause for pause in PAUSES if pause.debounce)]), n=st.integers(2, 10))
    def somebody_writes_on_and_on(self, pause: wake.WakeDelay, n: int) -> None:
        """Each line comes before the pause after the one before it is over."""
        for _ in range(n):
            self.something_is_heard("message", False, False, "queue", pause)
            self.now += pause.debounce - 1

    def _wake(self, pause: wake.WakeDelay) -> None:
        was = self.pending
        if was is None:
            self.since, self.most = self.now, 0
        self.most = max(self.most, pause.debounce, pause.max_wait)
        self.pending = wake.next_wake(self.now, was, pause)
        assert self.pending.since == self.since, "Law 2: a later event says since when a wake is pending"
        more = self.pending.due - self.since - self.most
        assert more <= 0, f"Law 2: a wake waits {more} ms longer than it may, from the first event on"
        assert was is None or was.due > self.now or self.pending.due <= self.now, "Law 2: what was due is put off"
        assert pause.debounce or self.pending.due <= self.now, "Law 2: what is due at once waits"

    @rule(ms=st.sampled_from([0, 1, 400, 1_000, 5_000, 16_000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @precondition(lambda self: self.running is None)
    @rule()
    def it_is_served(self) -> None:
        if self.pending is None:
            assert not self.wakers, "Law 2: a wake was lost"
            return
        left = wake.time_until_due(self.now, self.pending)
        early = self.pending.due - self.now
        assert (left == 0) == (early <= 0), f"Law 2: a wake that is due in {early} ms is to wait for {left} ms"
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
        self.running.done.append("tool")

    @precondition(lambda self: self.running is not None and self.running.again_at is None)
    @rule(ended=st.sampled_from([False, False, True]))
    def it_says_something(self, ended: bool) -> None:
        assert self.running is not None
        self.running.done.append("text")
        self.running.ended = ended

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
        wait = law.delay_after_failure(attempt=self.running.attempt, is_transient=passing, retry_after=asks)
        if wait is None:
            assert not passing or self.running.attempt >= law.MAX_ATTEMPTS, "Law 9: given up too soon"
            self._end("errored")
        else:
            assert wait >= max(asks or 0, law.RETRY_DELAYS_S[0]), "Law 9: sooner than was asked for"
            self.running.again_at = self.now + int(wait * 1000)

    @precondition(lambda self: self.running is not None)
    @rule(memory=st.sampled_from(["none", "whole", "without calls", "without the last", "ends before"]))
    def it_is_lost(self, memory: str) -> None:
        """Its agent or its gateway died, or it was put off and its time came. `memory`: what its agent has of it."""
        root = self.running
        assert root is not None
        if root.again_at is not None and root.again_at > self.now:
            return
        root.again_at = None
        restored = memory != "none"
        found = interrupted_turn.find_turn(_history(root, memory), ["go on"], ended=root.ended and memory == "whole")
        calls = [interrupted_turn.RecordedCall(f"c{n}") for n, one in enumerate(root.done) if one == "tool"]
        complete = found is not None and found.is_complete(calls)
        told = f"Law 9: taken for complete, of {root.done} (ended: {root.ended}) with a history {memory}"
        assert not complete or (root.ended and memory == "whole"), told
        nxt = law.decide_after_loss(
            attempt=root.attempt + 1, tools_started=bool(root.tools), restored=restored, history_complete=complete,
            history_begun=found is not None,
        )  # fmt: skip
        if nxt.how == "give up":
            assert nxt.reason, "Law 9: given up without a word"
            soon = root.attempt < law.MAX_ATTEMPTS and not (root.tools and not restored)
            assert not soon, f"Law 9: given up in attempt {root.attempt}, and it may be tried again"
            self._end("given up")
            return
        state = law.step("running", "lost")
        assert state == "lost", f"Law 9: a running turn that was lost is {state}"
        root.attempt += 1
        if nxt.how == "recall":
            assert complete, "Law 9: recalled, an answer that is nowhere"
            return
        root.prompts += 1
        root.ended = False
        if nxt.how == "restart":  # from the prompt on: whatever ran, runs again
            assert found is None, f"Law 9: asked from the start, and its agent remembers {root.done}"
            root.tools = [n + 1 for n in root.tools]
            root.done = []
        else:
            assert restored, "Law 9: it goes on, and knows of nothing"

    @precondition(lambda self: any(root is not self.running for root in self.roots))
    @rule(data=st.data(), event=st.sampled_from(sorted(law.TABLE["running"])))
    def nothing_leaves_a_finished_turn(self, data: st.DataObject, event: law.Event) -> None:
        over = data.draw(st.sampled_from([root for root in self.roots if root is not self.running]))
        with refused(law.TurnStepNotAllowed):
            law.step(over.state, event)

    # ------------------------------------------------------------ what must hold

    @invariant()
    def every_event_waits_or_is_bound_once(self) -> None:
        bound = [event for root in self.roots for event in root.events]
        told = f"Law 3: {self.heard} events were heard; {self.waiting} wait, and {bound} are bound"
        assert sorted([*self.waiting, *bound]) == list(range(1, self.heard + 1)), told

    @invariant()
    def a_wake_is_pending_exactly_while_something_that_wakes_waits(self) -> None:
        told = f"Law 2: events that wake and wait: {sorted(self.wakers)}; pending: {self.pending}"
        assert (self.pending is not None) == bool(self.wakers), told

    @invariant()
    def nothing_runs_twice_by_itself(self) -> None:
        for root in self.roots:
            assert all(n == 1 for n in root.tools), "Law 9: a tool ran again"
            assert root.prompts <= law.MAX_ATTEMPTS, f"Law 9: asked {root.prompts} times"
            runs = root is self.running
            assert (root.state == "running") == runs, (
                f"Law 3: a turn that {'runs' if runs else 'ended'} is {root.state}"
            )
            assert root.answers <= 1, f"Law 9: one turn was answered {root.answers} times"


def _history(root: Root, memory: str) -> list[ViewItem]:
    """What an agent tells of the turn when its session is loaded."""
    told = {"none": [], "ends before": [], "without the last": root.done[:-1]}.get(memory, root.done)
    items = (
        [ViewItem(0, "message", {"role": "user", "text": "go on", "history": True})] if memory != "ends before" else []
    )
    for n, one in enumerate(told):
        if one == "text":
            items.append(ViewItem(n + 1, "message", {"role": "agent", "text": f"Text {n}.", "history": True}))
        elif memory != "without calls":
            items.append(ViewItem(n + 1, "tool", {"call": f"c{n}", "status": "done", "history": True}))
    return items if memory != "none" else []
