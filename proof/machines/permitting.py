"""The permission requests of a run, as the gateway holds them: whatever happens to one, its agent is answered once.

`PermissionMachine` drives `semel.gateway.turns.permissions.Permissions` on an event loop whose time it moves itself:
policies, people who answer in time, late, twice or not at all, deadlines, a turn that is stopped, a run that is over.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from proof.machines.counted import Counted
from semel.gateway.ports import Asked, Conversation
from semel.gateway.turns.permissions import Permissions
from semel.ledger.turns import turn_ops

DEADLINE = 60.0  # seconds
OPTIONS = (
    {"optionId": "once", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
)


class Loop(asyncio.SelectorEventLoop):
    """A loop with a time of its own."""

    now = 0.0

    def time(self) -> float:
        return self.now


class Agent:
    """A conversation that keeps what it was answered."""

    def __init__(self) -> None:
        self.answers: dict[str, list[str | None]] = {}

    async def answer(self, id: str, option: str | None) -> None:
        self.answers.setdefault(id, []).append(option)


class PermissionMachine(Counted):
    """One run, and what it asks. An item is the number of its request."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = Loop()
        self.agent = Agent()
        self.due: dict[str, str | None] = {}  # request -> the one answer that it is given
        self.until: dict[int, float] = {}  # requests that wait for a person -> their deadline
        self.answered: list[int] = []  # requests that a person answered in time
        self.expired: list[turn_ops.Op] = []
        self.slots: dict[int, int] = {}  # of what people were asked, by number
        self.over = False

    def teardown(self) -> None:
        self.loop.close()

    @initialize(
        policy=st.sampled_from(["ask", "ask", "ask", "allow", "deny"]), seen=st.booleans(), numbers=st.integers(0, 9)
    )
    def a_run_begins(self, policy: str, seen: bool, numbers: int) -> None:
        """`numbers`: the last one that people were shown in its session before."""
        self.policy, self.seen, self.numbers = policy, seen, numbers
        talk = cast(Conversation, self.agent)
        self.requests = Permissions(
            talk, policy, DEADLINE, self.expired.append, lambda: self.seen, last_number=numbers
        )  # fmt: skip

    def _does(self, what: Any, *args: Any) -> Any:
        """One thing happens in the loop, and whatever it made due is done."""

        async def all() -> Any:
            done = what(*args)
            for _ in range(3):
                await asyncio.sleep(0)
            return done

        return self.loop.run_until_complete(all())

    @rule(ours=st.integers(0, 5), offers=st.booleans())
    def the_agent_asks(self, ours: int, offers: bool) -> None:
        if self.over:
            return
        number = len(self.due) + 1
        tool = {"toolCallId": f"T{number}", "title": "mcp__semel__ask" if ours == 0 else "ls"}
        asked = Asked(f"p{number}", tool, OPTIONS if offers else ())
        ops = self._does(self.requests.ask, asked, {})
        [allow, deny] = ["once", "no"] if offers else [None, None]
        if self.requests.stopped:
            self.due[asked.id] = None
        elif ours == 0 or self.policy == "allow":
            self.due[asked.id] = allow
        elif self.policy == "deny" or not self.seen:
            self.due[asked.id] = deny
        else:
            self.due[asked.id] = "nobody answered yet"
            self.until[number] = self.loop.now + DEADLINE
            [opened] = ops
            self.slots[number] = opened.slot
            assert opened.body["first"] > self.numbers, "Law 13: a number that people were shown is used again"
            self.numbers = opened.body["first"] + max(1, len(opened.body["options"])) - 1
            self.requests.note_recorded(self._items(), ())

    @rule(seen=st.booleans())
    def a_watcher_comes_or_goes(self, seen: bool) -> None:
        self.seen = seen

    @rule(
        item=st.integers(1, 9),
        which=st.sampled_from(["open", "open", "answered", "any"]),
        option=st.sampled_from(["once", "no", None]),
    )
    def a_person_answers(self, item: int, which: str, option: str | None) -> None:
        """An open request, one that a person answered before, or any number, asked or not."""
        known = {"open": list(self.until), "answered": self.answered}.get(which)
        if known:
            item = known[item % len(known)]
        self._answered(item, option)

    def _answered(self, item: int, option: str | None) -> None:
        """Who answers is told whether the agent has it."""
        told, waited = self._does(self.requests.pass_answer, item, option), self.until.pop(item, None) is not None
        assert told is waited, f"an answer to request {item} that was {'' if waited else 'not '}open is told {told}"
        if waited:
            self.due[f"p{item}"] = option
            self.answered.append(item)

    @rule(seconds=st.sampled_from([1.0, 59.0, 60.0]), first=st.sampled_from([None, None, "once", "no"]))
    def time_passes(self, seconds: float, first: str | None) -> None:
        """Deadlines pass. `first`: the oldest of them is answered so, and that is recorded before the deadline is."""
        self.loop.now += seconds
        late = [item for item, until in self.until.items() if until <= self.loop.now]
        before = len(self.expired)
        self._does(lambda: None)
        told = len(self.expired) - before
        assert told == len(late), f"{len(late)} deadlines passed, and people are told of {told}"
        if late and first is not None:
            self._answered(late.pop(0), first)
        self._does(self.requests.note_recorded, self._items(), {self.slots[item] for item in late})
        self._withdrawn(late)

    @rule(sure=st.integers(0, 9))
    def a_person_stops_the_turn(self, sure: int) -> None:
        if sure == 9:
            self._stopped()

    def _stopped(self) -> None:
        told = len(self._does(self.requests.stop))
        assert told == len(self.until), f"{len(self.until)} requests were open, and {told} are withdrawn"
        self._withdrawn(list(self.until))

    @rule(sure=st.integers(0, 9))
    def the_run_is_over(self, sure: int) -> None:
        """Nobody is left to be answered: what is open then is cancelled before."""
        if sure == 9:
            self._stopped()
            self.requests.close()
            self.over = True

    def _items(self) -> dict[int, int]:
        return {slot: number for number, slot in self.slots.items()}

    def _withdrawn(self, items: list[int]) -> None:
        for item in items:
            del self.until[item]
            self.due[f"p{item}"] = None

    @invariant()
    def each_request_is_answered_once(self) -> None:
        for request, option in self.due.items():
            had = self.agent.answers.get(request, [])
            want = [] if int(request[1:]) in self.until else [option]
            assert had == want, f"request {request} was answered {had}, and {want} is due"
        assert self.agent.answers.keys() <= self.due.keys(), "an answer to what was never asked"
