"""Law 7 against a platform with a truth of its own: what was not asked for is never there twice, and nothing lies.

One part on its way. The platform decides what really happens to each attempt (it arrives and says so, arrives in
silence, at once or late, does not arrive, refuses), the law decides what is done next, and the machine counts how often
people see the message there.
"""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from proof.machines.counted import Counted
from proof.machines.house import refused
from semel.law import delivery as law
from semel.law import retries

HOUR = 3_600_000
RULES = (
    law.Rules("idempotent", key_life=HOUR),
    law.Rules("idempotent", key_life=HOUR, can_look_up=True, absence_proven_after=5_000),
    law.Rules("reconcilable", absence_proven_after=5_000, can_look_up=True, horizon=10 * HOUR),
    law.Rules("at-most-once"),
    law.Rules("at-most-once", resend_unknown=True, horizon=HOUR),
)
ATTEMPT = 300_000  # ms that an attempt takes at most; the fifth of a key's life that is not used allows for it
WAYS = ("receipt", "lost", "late", "nothing", "not sent", "refused")
TOLD = ("rejected", "held")


class PartMachine(Counted):
    """Parts, one after the other, from `queued` to wherever each ends."""

    @initialize(rules=st.sampled_from(RULES), kind=st.sampled_from(["post", "post", "file", "edit"]))
    def a_part_is_made(self, rules: law.Rules, kind: str) -> None:
        self.channel, self.kind = rules, kind
        self.now = self.since = 1_000_000
        self.state: law.State = "queued"
        self.attempts = 0
        self.first: int | None = None  # when the first attempt left that may have arrived
        self.silent = 0  # when the last attempt ended without an answer
        self.doubt = False  # an attempt before the one under way may have arrived
        self.coming: list[int] = []  # when what is under way arrives
        self.taken: int | None = None  # when the platform took the key last
        self.copies = 0  # what people see
        self.allowed = 1  # what may be seen: one, and one for each repeat that somebody chose
        self.before = 0  # copies that were there when a person last said resend
        self.promised = False  # a person said that it arrived

    # ------------------------------------------------------------ the law

    def take(self, event: law.Event) -> None:
        was = self.state
        done = law.step(was, event)
        self.state = done.state
        leaves = was in law.IN_LINE and done.state not in law.IN_LINE
        what = f"Law 7: {event} made {was} {done.state}"
        assert ("advance" in done.effects) == leaves, f"{what}, and its line {'stays' if leaves else 'moves on'}"
        tells = done.state in TOLD
        assert ("tell" in done.effects) == tells, f"{what}, and people are {'not told' if tells else 'told'}"
        if "clear doubt" in done.effects:
            self.first = None
        if event == "silence":
            self.silent = self.now
        if event == "departs":
            self.attempts += 1
            self.doubt = self.first is not None
            self.first = self.now if self.first is None else self.first

    # ------------------------------------------------------------ the platform

    def arrive(self, at: int) -> None:
        folds = self.channel.safety == "idempotent" and self.taken is not None
        if not (folds and self.taken is not None and at - self.taken < self.channel.key_life):
            self.copies += 1
            self.taken = at

    def pass_time(self, ms: int) -> None:
        self.now += ms
        for at in [at for at in self.coming if at <= self.now]:
            self.coming.remove(at)
            self.arrive(at)

    # ------------------------------------------------------------ what happens

    @rule(
        ms=st.sampled_from([0, 0, 0, 100, 4_999, 5_000, HOUR // 2, 4 * HOUR // 5, HOUR, 80 * HOUR]),
        way=st.sampled_from(WAYS), wait=st.sampled_from([0, 0, 30_000, 100 * HOUR]), took=st.integers(0, 3_000),
        tells=st.sampled_from([True, True, False]), decision=st.sampled_from(["resend", "resend", "arrived", "drop"]),
    )  # fmt: skip
    def it_goes_on(self, ms: int, way: str, wait: int, took: int, tells: bool, decision: Any) -> None:
        """Time passes, and what its state calls for is done; a part that is over gives way to the next."""
        self.pass_time(ms if self.state != "sending" else min(ms, ATTEMPT))
        match self.state:
            case "queued":
                self.take("departs")
            case "sending":
                self.attempt_ends(way, wait, took)
            case "unknown":
                self.settle(tells)
            case "held":
                self.decided(decision)
            case "rejected" if decision != "arrived":
                self.decided(decision)
            case _:
                self.a_part_is_made(self.channel, self.kind)

    @precondition(lambda self: self.state == "queued")
    @rule(hours=st.sampled_from([1, 8, 80]))
    def the_platform_is_away(self, hours: int) -> None:
        """No attempt gets anywhere, so often and for so long that a part which may be given up is."""
        for _ in range(law.MIN_ATTEMPTS):
            self.pass_time(hours * HOUR)
            self.take("departs")
            self.not_sent(0)
            if self.state != "queued":
                return

    def attempt_ends(self, way: str, wait: int, took: int) -> None:
        if way in ("receipt", "lost"):
            self.arrive(self.now)
        if way == "late" and self.channel.absence_proven_after:  # whoever cannot say how late it may be is not asked
            self.coming.append(self.now + min(self.channel.absence_proven_after - 1, 4_000))
        self.pass_time(took)
        if way == "receipt":
            self.take("receipt")
        elif way == "refused":
            for event in law.events_of_refusal(may_have_arrived=self.doubt):
                self.take(event)
        elif way == "not sent":
            self.not_sent(wait)
        else:
            self.take("silence")

    def not_sent(self, wait: int) -> None:
        event = law.event_of_not_sent(
            self.channel, may_have_arrived=self.doubt, attempts=self.attempts, queued_at=self.since, now=self.now,
            retry_after=wait,
        )  # fmt: skip
        self.take(event)
        old = self.now - self.since >= self.channel.horizon and self.attempts >= law.MIN_ATTEMPTS
        due = not self.doubt and (old or wait >= self.channel.horizon)
        assert (event == "gave up") == due, "given up too soon, or not at all"
        later = retries.retry_delay_ms(self.attempts, age=self.now - self.since, jitter=0.5, retry_after=wait)
        assert later >= max(1, wait), "the platform's own wait was undercut"

    def settle(self, tells: bool) -> None:
        first = self.first if self.first is not None else self.silent
        match law.resolve_unknown(self.channel, first_attempt_at=first, now=self.now, kind=self.kind):
            case "hold":
                self.take("hold")
            case "look" if self.now - self.silent >= self.channel.absence_proven_after and tells:
                self.take("found" if self.copies else "absent")
            case "again":
                self.take("again")
                self.take("departs")
            case "repeat":
                assert self.channel.resend_unknown, "repeated, and nobody chose that"
                self.allowed += 1
                self.take("repeat")
                self.take("departs")

    def decided(self, decision: Any) -> None:
        may_be_there = self.state == "held"
        self.take(decision)
        if decision == "resend":
            self.allowed += may_be_there  # what was rejected is not there
            self.attempts, self.before = 0, self.copies + len(self.coming)
        self.promised = self.promised or decision == "arrived"

    @precondition(lambda self: self.copies and "found" in law.TABLE[self.state])
    @rule()
    def the_platform_shows_it(self) -> None:
        """Its own message is heard there, whatever became of the answer."""
        self.take("found")

    # ------------------------------------------------------------ what must hold

    @invariant()
    def what_does_not_fit_changes_nothing(self) -> None:
        for event in set(get_args(law.Event)) - set(law.TABLE[self.state]):
            with refused(law.PartStepNotAllowed):
                law.step(self.state, event)

    @invariant()
    def nothing_is_there_twice_unless_somebody_chose_so(self) -> None:
        if self.kind not in law.IDEMPOTENT_KINDS:
            assert self.copies <= self.allowed, f"{self.copies} copies, and {self.allowed} may be"

    @invariant()
    def what_is_sent_is_there(self) -> None:
        assert self.state != "sent" or self.copies or self.promised, "sent, and nobody has it"

    @invariant()
    def what_is_rejected_is_not_there(self) -> None:
        if self.state == "rejected":
            assert self.copies + len(self.coming) <= self.before, "rejected, and people see it"
