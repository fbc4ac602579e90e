"""Who allowed what, and had they seen it: permission requests in a chat of two sessions, and on a page (Law 13).

`RequestMachine` runs over a ledger: agents ask; parts of their questions leave, arrive, get lost, are held and sent
again; people write answers that are heard later, and served later still; meanwhile the page answers, turns end,
chapters begin and the gateway dies. The judge keeps for itself what the chat had, message by message, what each view
had shown, and which number was shown for which option; it never asks the ledger what somebody has seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from proof.machines.counted import Counted
from proof.machines.engines import rows
from proof.machines.ledger import Make
from proof.machines.stored import StoredLedger
from semel.law.delivery import PartStepNotAllowed, Rules
from semel.law.permission_questions import numbers_from
from semel.ledger.delivery import send_queue
from semel.ledger.delivery.claims import Caller
from semel.ledger.delivery.cutting import Leg
from semel.ledger.inbound import commands, hear
from semel.ledger.inbound.answers import AnswerContext
from semel.ledger.inbound.answers import record_answer as answer_tx
from semel.ledger.inbound.references import Reference
from semel.ledger.turns import finish_turn, turn_ops, turns

Json = dict[str, Any]
OPTIONS = st.one_of(
    st.just(["allow_once", "reject_once"]), st.just(["allow_once", "allow_always", "reject_once"]),
    st.lists(
        st.sampled_from(["allow_once", "allow_always", "reject_once", "reject_always", "other", None]), max_size=4
    ),
)  # fmt: skip
OUTCOMES = ("receipt", "receipt", "receipt", "receipt", "silence", "not sent", "refused")
CHAT = {"chat": send_queue.ChannelCapacity(Rules("at-most-once"), 9)}
OURS, OTHER = "main:chat:1", "helper:chat:1"
TEXT = "asks: " + "x" * 20


@dataclass
class Asked:
    """A request, and what the judge knows of it. `parts`: the ids of its notice's; `arrived`: when each of them came to
    the chat; `known`: those of which the gateway knows it."""

    item: int
    session: str
    options: tuple[Json, ...]
    first: int
    parts: list[int]
    arrived: dict[int, int] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)
    open: bool = True
    named: bool = False  # an answer that is not served yet means it

    @property
    def read(self) -> bool:
        """The chat has all of it, and the gateway knows that."""
        return self.known >= set(self.parts)

    def was_read(self, when: int) -> bool:
        """The chat had all of it at that time of its own."""
        return all(self.arrived.get(part, when) < when for part in self.parts)


@dataclass(frozen=True)
class Written:
    """An answer on its way. `at`: when it was written, by the order of the chat; `had`: the items that its view had."""

    words: str
    number: int | None
    at: int
    to: Asked | None = None  # it replies to this
    id: str | None = None  # what it replies to, as the platform calls it
    seen: int | None = None
    had: frozenset[int] = frozenset()
    api: bool = False


class RequestMachine(Counted):
    """One life of a chat in which agents ask for permission."""

    make: ClassVar[Make] = StoredLedger

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000
        self.ledger: Any = type(self).make(lambda: self.now)
        self.clock = 0  # the order of what comes to the chat
        self.asked: dict[int, Asked] = {}
        self.meant: dict[tuple[str, int], tuple[int, str | None]] = {}  # number -> (item, kind of the option), for ever
        self.begun: dict[str, turns.BegunTurn] = {}
        self.next: dict[str, int] = {}
        self.slots: dict[str, turn_ops.Slots] = {}
        self.ways: list[Written] = []
        self.waiting: list[tuple[int, str, commands.Choice]] = []  # heard, and not served
        self.views: list[tuple[int, frozenset[int]]] = []
        self.events = 0

    def teardown(self) -> None:
        self.ledger.close()

    # ------------------------------------------------------------ agents

    @initialize(numbered=st.booleans(), kinds=OPTIONS)
    def two_sessions_begin(self, numbered: bool, kinds: list[str | None]) -> None:
        self.numbered = numbered
        for key in (OURS, OTHER):
            self._begin(key)
        self._asks(OURS, kinds, ())

    def _begin(self, key: str) -> None:
        self.events += 1
        words = f"hello {self.events}"
        event = hear.Event("api", f"e{self.events}", "message", words, words.encode())
        self.ledger.hear(event, [hear.Addressee(key, "main", "chat:1")])
        begun = self.ledger.begin(self.ledger.find(key), "g")
        assert isinstance(begun, turns.BegunTurn)
        self.begun[key], self.slots[key], self.next[key] = begun, turn_ops.Slots(), begun.last_number + 1

    @rule(
        data=st.data(), key=st.sampled_from([OURS, OURS, OURS, OTHER]), kinds=OPTIONS,
        cuts=st.sampled_from([(), (), (9,)]), leaves=st.sampled_from([0, 1, 2, 2, 3]),
    )  # fmt: skip
    def the_agent_asks(
        self, data: st.DataObject, key: str, kinds: list[str | None], cuts: tuple[int, ...], leaves: int
    ) -> None:
        """`leaves`: so often something may leave at once."""
        self._asks(key, kinds, cuts)
        for _ in range(leaves):
            self._leaves(data)

    def _asks(self, key: str, kinds: list[str | None], cuts: tuple[int, ...]) -> None:
        begun, first = self.begun[key], self.next[key]
        options = tuple({"optionId": f"o{n}", "kind": kind, "name": f"N {n}"} for n, kind in enumerate(kinds))
        numbers = numbers_from(first, options)
        self.next[key] = numbers[-1] + 1
        edges = [0, *cuts, len(TEXT)]
        legs = [
            Leg(lo, hi, "chat", "chat:1", {"kind": "post", "address": "1", "text": TEXT[lo:hi]})
            for lo, hi in pairwise(edges)
        ]
        slot = len(self.asked)
        body = {"title": f"do {slot}", "options": list(options), "first": first, "state": "open"}
        opened = turn_ops.ItemOpen(
            slot, "permission", f"r{slot}", body=body, announcement=turn_ops.Announcement(TEXT, tuple(legs))
        )
        self._show(key, opened)
        item = self.slots[key].items[slot]
        claim = max(claim.id for claim in self.ledger.claims())
        parts = [part.id for part in self.ledger.parts() if part.claim == claim]
        self.asked[item] = Asked(item, key, options, first, parts)
        for n in numbers:
            assert (key, n) not in self.meant, f"Law 13: number {n} of {key} is used again"
            self.meant[key, n] = (item, kinds[n - first] if kinds else None)
        assert begun.last_number < first, "Law 13: a number that was shown is used again"

    def _show(self, key: str, *ops: turn_ops.Op) -> None:
        begun = self.begun[key]
        fence = turns.TurnFence(begun.session, begun.turn, begun.epoch)
        self.slots[key] = self.ledger.show(fence, self._caller(key), ops, self.slots[key])

    def _caller(self, key: str) -> Caller:
        begun = self.begun[key]
        return Caller(begun.session, key, begun.turn, begun.root)

    @rule(key=st.sampled_from([OURS, OTHER]), chapter=st.booleans(), sure=st.integers(0, 5))
    def a_turn_ends_and_the_next_begins(self, key: str, chapter: bool, sure: int) -> None:
        if sure:
            return
        begun = self.begun[key]
        ops = [
            turn_ops.ItemSet(slot, {"state": "cancelled"}, live=False)
            for slot, item in self.slots[key].items.items()
            if self.asked[item].open
        ]
        for one in self.asked.values():
            if one.session == key:
                one.open = False
        fence = turns.TurnFence(begun.session, begun.turn, begun.epoch)
        self.ledger.finish(fence, self._caller(key), ops, self.slots[key], finish_turn.End("answered", "end_turn"))
        if chapter:
            self.ledger.new_chapter(begun.session)
        self._begin(key)

    # ------------------------------------------------------------ what leaves

    @rule(data=st.data())
    def something_leaves(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(1, 4))):
            self._leaves(data)

    def _leaves(self, data: st.DataObject) -> None:
        self.now += 600_000  # what was not sent is due again
        for send in self.ledger.depart(CHAT).sends:
            outcome = data.draw(st.sampled_from(OUTCOMES))
            arrives = outcome == "receipt" or (outcome == "silence" and data.draw(st.booleans()))
            if arrives:
                self._arrives(send.part)
            receipt = f"1/{self.clock}" if outcome == "receipt" else None
            self.ledger.receipt(send.part, send_queue.AttemptOutcome(outcome, receipt), CHAT["chat"].rules)
            if outcome == "receipt":
                self._is_known(send.part)

    @rule()
    def something_is_on_its_way_when_the_gateway_dies(self) -> None:
        for send in self.ledger.depart(CHAT).sends:
            self._arrives(send.part)
        self.ledger.recover({"chat": CHAT["chat"].rules})
        self.ledger.depart(CHAT)

    def _arrives(self, part: int) -> None:
        self.clock += 1
        for one in self.asked.values():
            if part in one.parts:
                one.arrived[part] = self.clock

    def _is_known(self, part: int) -> None:
        for one in self.asked.values():
            if part in one.parts:
                one.known.add(part)

    @rule(data=st.data(), what=st.sampled_from(["resend", "arrived", "drop"]))
    def the_owner_settles_a_held_part(self, data: st.DataObject, what: Any) -> None:
        held = [part.id for part in self.ledger.parts() if part.state == "held"]
        if held:
            part = data.draw(st.sampled_from(held))
            is_over = any(part in one.parts and not one.open for one in self.asked.values())
            try:
                self.ledger.decide(part, what)
            except PartStepNotAllowed as refused:
                assert what == "resend" and is_over, refused
            else:
                assert what != "resend" or not is_over, "a request that is over is sent again"
            if what == "arrived":  # nobody can tell when; the owner's word counts
                self._is_known(part)
                for one in self.asked.values():
                    one.arrived.update({part: 0} if part in one.parts else {})

    # ------------------------------------------------------------ people

    @rule(
        data=st.data(), words=st.sampled_from(["approve", "approve", "deny"]),
        how=st.sampled_from(["bare", "bare", "bare", "number", "reply", "lost reply"]),
        later=st.sampled_from([False, False, True]),
    )  # fmt: skip
    def somebody_writes_an_answer(self, data: st.DataObject, words: str, how: str, later: bool) -> None:
        """`later`: it is on its way; when it is heard is another matter."""
        self.clock += 1
        number = data.draw(st.integers(1, self.next[OURS])) if how == "number" else None
        there = [one for one in self.asked.values() if one.arrived] if how == "reply" else []
        to = data.draw(st.sampled_from(there)) if there else None
        id = "lost" if how == "lost reply" else None
        if to is not None:
            id = f"1/{data.draw(st.sampled_from(sorted(to.arrived.values())))}"
        written = Written(words, number, self.clock, to, id)
        if later:
            self.ways.append(written)
        else:
            self._is_heard(written)

    @rule()
    def somebody_looks_at_the_page(self) -> None:
        snapshot = self.ledger.snapshot(self.begun[OURS].session)
        self.views.append((snapshot["rev"], frozenset(item["id"] for item in snapshot["items"])))

    @rule(data=st.data(), words=st.sampled_from(["approve", "deny"]), bare=st.booleans(), tells=st.booleans())
    def somebody_writes_an_answer_on_the_page(self, data: st.DataObject, words: str, bare: bool, tells: bool) -> None:
        seen, had = data.draw(st.sampled_from(self.views)) if tells and self.views else (None, frozenset[int]())
        number = None if bare else data.draw(st.integers(1, self.next[OURS]))
        self.ways.append(Written(words, number, self.clock, seen=seen, had=had, api=True))

    @precondition(lambda self: self.ways)
    @rule(data=st.data())
    def an_answer_is_heard(self, data: st.DataObject) -> None:
        """In the order of writing, most of the time."""
        self._is_heard(self.ways.pop(data.draw(st.sampled_from([0, 0, -1]))))

    def _is_heard(self, written: Written) -> None:
        self.events += 1
        key = f"1/{written.at}" if not written.api else f"e{self.events}"
        argument = "" if written.number is None else str(written.number)
        event = hear.Event(
            "api:page" if written.api else "channel:chat", key, commands.KIND, "/" + written.words,
            key.encode(), sender="ann", more={"data": {"address": "1"}}, command=(written.words, argument),
            reference=None if written.api else Reference(written.id, "chat", "ann"), shown_rev=written.seen,
            has_growing_ids=self.numbered,
        )  # fmt: skip
        done = self.ledger.hear(event, [hear.Addressee(OURS, "main", "chat:1")])
        if done.status != "accepted":
            return
        session = self.begun[OURS].session
        [(result,)] = self.ledger.read(rows, f"SELECT result FROM command WHERE event = {done.event}")
        choice = commands.decode_choice(result)
        assert choice.text, "nothing is said of it"
        self._judge(written, choice)
        self.waiting.append((done.event, str(session), choice))

    def _judge(self, written: Written, choice: commands.Choice) -> None:
        if choice.item is None:
            self._was_rightly_refused(written)
            return
        one = self.asked[choice.item]
        assert one.session == OURS, "Law 13: what another session asks is answered here"
        assert one.open and not one.named, "Law 13: a request is answered twice, or after it was withdrawn"
        if written.api:
            assert written.number is not None or written.seen is not None, "Law 13: nobody knows what was seen"
            assert written.seen is None or one.item in written.had, "Law 13: answered before the page had shown it"
        else:
            assert one.read, f"Law 13: answered before the chat had it: {one}, by {written}"
            late = written.to is None and self.numbered and not one.was_read(written.at)
            assert not late, f"Law 13: answered by what was written before it was there: {one}, by {written}"
        if written.id is not None and written.to is None:
            assert written.number is not None, "Law 13: a reply to what nobody knows answers something"
        if written.to is not None:
            assert written.to is one, "Law 13: a reply to one request answers another one"
        elif written.number is None:
            rivals = [other for other in self._readable(written) if other is not one]
            assert not rivals, f"Law 13: one of several, and nobody said which: {rivals}"
        self._is_the_option(one, written, choice)
        one.named = True

    def _readable(self, written: Written) -> list[Asked]:
        """The open requests that a bare answer could mean."""
        there = [one for one in self.asked.values() if one.open and not one.named]
        if written.api:
            return [one for one in there if one.item in written.had]
        return [one for one in there if one.read and (not self.numbered or one.was_read(written.at))]

    def _is_the_option(self, one: Asked, written: Written, choice: commands.Choice) -> None:
        kind = next((o["kind"] for o in one.options if o["optionId"] == choice.option), None)
        if written.words == "deny":
            assert not str(kind or "").startswith("allow"), "a no that allows"
        elif written.number is not None and one.options:
            assert (one.item, kind) == self.meant[OURS, written.number], "Law 13: another option than was read"
        else:
            first = "allow_once" if any(o["kind"] == "allow_once" for o in one.options) else "allow_always"
            assert kind == first, "more than was asked for"

    def _was_rightly_refused(self, written: Written) -> None:
        """An answer in the chat to the only request that it had read is taken."""
        could = self._readable(written)
        if written.api or written.id is not None or written.number is not None or len(could) != 1:
            return
        [one] = could
        kinds = [o["kind"] for o in one.options]
        is_clear = (kinds.count("allow_once") or kinds.count("allow_always")) == 1
        taken = one.session != OURS or (written.words == "approve" and not is_clear)
        assert taken, f"an answer was not taken: {written}, for {one}"

    @precondition(lambda self: self.waiting)
    @rule(dies=st.booleans())
    def an_answer_is_served(self, dies: bool) -> None:
        event, _, choice = self.waiting.pop(0)
        session = self.begun[OURS].session
        if choice.item is not None:
            one = self.asked[choice.item]
            given = AnswerContext(choice.face, event, choice.seen)
            for _ in range(2 if dies else 1):  # it was recorded, and then the gateway died, or asked once more
                done = self.ledger.write(answer_tx, session, one.item, choice.option, "ann", b"", True, given)
            was = "answered" if one.open else "not open"
            now = "answered" if done.status in ("answered", "repeat") else "not open"
            assert was == now, f"{done} of a request that is {'open' if one.open else 'over'}"
            one.open, one.named = False, False
        self.ledger.write(commands.answer, event, session, choice.text)

    @rule(data=st.data(), sure=st.integers(0, 2))
    def the_page_answers(self, data: st.DataObject, sure: int) -> None:
        """By its item: it names one, and it had it."""
        if sure:
            return
        one = data.draw(st.sampled_from(list(self.asked.values())))
        rev, had = data.draw(st.sampled_from(self.views)) if self.views else (None, frozenset({one.item}))
        session = self.begun[one.session].session
        option = one.options[0]["optionId"] if one.options else None
        seen = rev if one.session == OURS else None
        done = self.ledger.write(answer_tx, session, one.item, option, "page", b"", False, AnswerContext(seen=seen))
        if seen is not None and one.item not in had:
            assert done.status == "unseen", "Law 13: answered before the page had shown it"
            return
        assert (done.status == "answered") == one.open, f"{done.status}: of a request that is {one}"
        one.open = False

    @invariant()
    def the_books_hold(self) -> None:
        broken = self.ledger.broken()
        assert not broken, f"a book does not hold: {broken}"
