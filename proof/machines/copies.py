"""Law 1 and Law 5 as pure code, against people who count: what each of them saw, how often, and what was meant.

`ClaimMachine`: an agent with a plan says the same things again whenever its turn is restarted, by tool or as a block;
the person must have seen exactly what the plan says so far, each as often as it says it. `CallMachine`: a tool server
that dies and is started anew makes the calls again whose answer was never seen; each call must happen once.
`IdentityMachine`: sources that tell the same again, or something else under the same key.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from proof.machines.counted import Counted
from semel.law import echo, identity
from semel.text.verbatim import verbatim_digest, verbatim_form

TEXTS = (
    "ha",
    "Report ready.",
    "Report  ready.\n",
    "Report",
    "e\u0301te\u0301",
    "\u00e9t\u00e9",
    "```\na  b\n```",
    "```\na b\n```",
)
EQUAL = (0, 1, 1, 2, 3, 3, 4, 5)  # which of them are the same words (Law 5); no function says that here
FORMS = dict(zip(TEXTS, EQUAL, strict=True))
DESTS = ("home", "room")


@dataclass
class Claim:
    """One claim, as a ledger keeps it."""

    dest: str
    form: int
    law: echo.PriorClaim


class ClaimMachine(Counted):
    """One root, its attempts, and what people saw in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: list[Claim] = []
        self.turn = 1
        self.attempt: echo.Attempt = "start"
        self.plan: list[tuple[echo.ClaimWay, str, str]] = []  # what an agent says that was never restarted
        self.at = 0  # how far this attempt is in it
        self.fell = False

    def say(self, how: echo.ClaimWay, text: str, dest: str) -> bool:
        """Judge one claim as a ledger does; whether it is said."""
        same = [claim.law for claim in self.claims if claim.dest == dest and claim.form == FORMS[text]]
        of = echo.find_original(how=how, turn=self.turn, attempt=self.attempt, earlier=same)
        if of is not None:
            first = self.claims[of]
            assert (first.dest, first.form) == (dest, FORMS[text]), "Law 5: an echo of something else"
            assert first.law.outcome == "said" and first.law.stands, "Law 5: an echo of what was not said"
        outcome: Any = "said" if of is None else "echo"
        self.claims.append(
            Claim(dest, FORMS[text], echo.PriorClaim(len(self.claims), how, self.turn, outcome, echo_of=of))
        )
        return of is None

    def seen(self) -> Counter[tuple[str, int]]:
        return Counter((c.dest, c.form) for c in self.claims if c.law.outcome == "said")

    def meant(self) -> Counter[tuple[str, int]]:
        """What the plan, up to where the farthest attempt came, means a person to see.

        A block that equals what a tool sent there before it is the same thing said twice, not two things.
        """
        out: Counter[tuple[str, int]] = Counter()
        tools: set[tuple[str, int]] = set()
        for how, text, dest in self.plan:
            what = (dest, FORMS[text])
            if how == "tool":
                tools.add(what)
            if how == "tool" or what not in tools:
                out[what] += 1
        return out

    @rule(how=st.sampled_from(["tool", "block"]), text=st.sampled_from(TEXTS), dest=st.sampled_from(DESTS))
    def it_says_something(self, how: echo.ClaimWay, text: str, dest: str) -> None:
        """The next of its plan; once that is told, something new."""
        if self.at < len(self.plan):
            how, text, dest = self.plan[self.at]
        else:
            self.plan.append((how, text, dest))
        self.at += 1
        self.say(how, text, dest)

    @rule(resumes=st.booleans())
    def its_agent_dies(self, resumes: bool) -> None:
        """Restarted, it begins its plan again; resumed, it knows what it said and goes on."""
        if self.at < len(self.plan) and self.attempt != "resume":
            resumes = False  # it had not caught up: there is nothing that it could go on from
        self.turn += 1
        self.attempt = "resume" if resumes else "restart"
        self.at = len(self.plan) if resumes else 0

    @precondition(lambda self: any(c.law.outcome == "said" and c.law.stands for c in self.claims))
    @rule(data=st.data())
    def what_was_said_is_rejected_later(self, data: st.DataObject) -> None:
        standing = [n for n, c in enumerate(self.claims) if c.law.outcome == "said" and c.law.stands]
        n = data.draw(st.sampled_from(standing))
        self.claims[n] = replace(self.claims[n], law=replace(self.claims[n].law, stands=False))
        self.fell = True

    @rule(text=st.sampled_from(TEXTS), pad=st.sampled_from(["", " ", "\n\n"]))
    def white_space_around_it_changes_nothing(self, text: str, pad: str) -> None:
        same = verbatim_digest(pad + text + pad) == verbatim_digest(text)
        assert same, f"Law 5: {text!r} is other words with {pad!r} around it"
        assert verbatim_form(verbatim_form(text)) == verbatim_form(text), (
            f"Law 5: the verbatim form of {text!r} has another one"
        )

    @rule(text=st.sampled_from(TEXTS), other=st.sampled_from(TEXTS))
    def two_texts_are_the_same_words_or_not(self, text: str, other: str) -> None:
        same, meant = verbatim_digest(text) == verbatim_digest(other), FORMS[text] == FORMS[other]
        told = f"{text!r} and {other!r} are {'the same' if meant else 'different'} words"
        assert same == meant, f"Law 5: {told}, and are taken for {'the same' if same else 'different'} ones"

    @rule(text=st.sampled_from(["NO_REPLY", " NO_REPLY\n"]), more=st.sampled_from(["", ".", " x"]))
    def only_the_quiet_word_alone_is_quiet(self, text: str, more: str) -> None:
        quiet = echo.is_quiet(text + more)
        assert quiet == (not more), f"Law 5: {text + more!r} is {'' if quiet else 'not '}taken for the quiet word"

    @invariant()
    def people_saw_what_was_meant_each_as_often_as_it_was(self) -> None:
        if not self.fell:
            assert self.seen() == self.meant(), f"Law 5: seen {self.seen()}, meant {self.meant()}"

    @invariant()
    def nothing_is_swallowed(self) -> None:
        """Whatever was rejected later: all that this attempt told was said at least once."""
        short = {(dest, FORMS[text]) for _, text, dest in self.plan[: self.at]} - self.seen().keys()
        assert not short, f"Law 5: never said: {short}"


@dataclass
class Made:
    """One tools/call as it came. `meant`: which call of the agent it is."""

    meant: int
    tool: str | None
    law: echo.EarlierCall


class CallMachine(Counted):
    """Equal calls of one turn, over connections that die."""

    def __init__(self) -> None:
        super().__init__()
        self.conn = 0
        self.calls: list[Made] = []
        self.meant = 0
        self.open: list[tuple[int, str | None]] = []  # calls whose answer the agent has not seen

    def _call(self, meant: int, tool: str | None) -> None:
        before = [made.law for made in self.calls]
        of = echo.find_reissued_call(conn=f"c{self.conn}", tool=tool, earlier=before)
        number = len(self.calls)
        self.calls.append(Made(meant, tool, echo.EarlierCall(number, f"c{self.conn}", tool, False, of)))
        first = next((made.law.id for made in self.calls if made.meant == meant), None)
        assert of == (None if first == number else first), f"Law 5: call {meant} was taken for {of}, and is {first}"

    @rule(named=st.booleans())
    def the_agent_calls(self, named: bool) -> None:
        """A call of its own, equal to all the others."""
        self.meant += 1
        tool = f"T{self.meant}" if named else None
        self.open.append((self.meant, tool))
        self._call(self.meant, tool)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def an_answer_is_seen(self, data: st.DataObject) -> None:
        meant, tool = data.draw(st.sampled_from(self.open))
        self.open.remove((meant, tool))
        firsts = {echo._root_call_id(made.law) for made in self.calls if made.meant == meant}
        self.calls = [
            replace(m, law=replace(m.law, answered=True)) if m.meant == meant or m.law.id in firsts else m
            for m in self.calls
        ]

    @rule()
    def the_tool_server_is_started_anew(self) -> None:
        """Its client makes each open call again, in order."""
        self.conn += 1
        for meant, tool in list(self.open):
            self._call(meant, tool)

    @invariant()
    def each_call_happens_once(self) -> None:
        happened = [made for made in self.calls if made.law.reissue_of is None]
        calls = sorted(made.meant for made in happened)
        assert calls == list(range(1, self.meant + 1)), f"Law 5: of {self.meant} calls happened {calls}"


FIELDS = (
    {"text": "a", "n": 1}, {"n": 1, "text": "a"}, {"text": "a", "n": 1.0}, {"text": "a"}, {"text": "a", "n": True},
    {"text": "a", "more": [1, {"b": None, "a": "\u00e9"}]}, {"text": "a", "more": (1, {"a": "\u00e9", "b": None})},
)  # fmt: skip
SAME = (0, 0, 2, 3, 4, 5, 5)  # which of them are one content


class IdentityMachine(Counted):
    """Sources, keys, contents: what the first one said stays, whoever comes after."""

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[tuple[str, str], int] = {}
        self.addresses: dict[str, str] = {}

    @rule(
        source=st.sampled_from(["a", "b"]), key=st.text(min_size=1, max_size=2), which=st.integers(0, len(FIELDS) - 1)
    )
    def it_is_told(self, source: str, key: str, which: int) -> None:
        try:
            identity.check_event_key(key)
        except identity.BadKey:
            bad = not key.isprintable() or any(ord(sign) < 0xA0 for sign in key)
            assert bad, f"Law 1: the key {key!r} is refused, and nothing is wrong with it"
            return
        known = self.first.setdefault((source, key), which)
        judged = identity.judge_repeat(identity.digest_fields(FIELDS[known]), identity.digest_fields(FIELDS[which]))
        meant = "duplicate" if SAME[known] == SAME[which] else "conflict"
        assert judged == meant, f"Law 1: {FIELDS[which]} after {FIELDS[known]} is a {meant}, not a {judged}"

    @rule(address=st.text(max_size=8))
    def an_address_becomes_a_key_of_its_own(self, address: str) -> None:
        key = identity.escape_address(address)
        back = identity.unescape_address(key)
        assert back == address, f"the address {address!r} became the key {key!r}, and that {back!r}"
        assert self.addresses.setdefault(key, address) == address, "two addresses, one key"
        if 0 < len(key) <= 190:
            route = identity.derive_route(f"main:chat:{key}", ["main"], ["chat"], "other")
            right = (route.agent, route.home) == ("main", f"chat:{address}")
            assert right, f"the session of {address!r} at chat is led to {route}"
            identity.check_session_key(f"main:chat:{key}")
