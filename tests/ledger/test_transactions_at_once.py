"""An event that finds its session idle is heard, and its turn begun, in one transaction (Laws 1, 2, 3)."""

from __future__ import annotations

from typing import Any

import pytest
from transaction_desk import HOMES, Desk, block, fence

from each_case import for_each
from semel.law.limits import Limits
from semel.law.wake import WakeDelay
from semel.ledger.inbound import hear
from semel.ledger.inbound.references import Reference
from semel.ledger.turns import limits, turns
from semel.ledger.turns.session_agent import ANY_AGENT, ConfiguredAgents
from semel.ledger.turns.turn_events import list_bound


class Starter:
    """Offers to begin turns, as the gateway does. `begun`: what was handed over after the commit."""

    def __init__(
        self, idle: bool = True, spawn: int | None = None, policy: limits.LimitPolicy | None = None,
        agents: ConfiguredAgents = ANY_AGENT,
    ) -> None:  # fmt: skip
        self.begun: list[turns.BegunTurn] = []
        self.offer = hear.IdleStart(
            "g0", lambda session: idle, lambda session: spawn, self.begun.append, policy, agents
        )


def tell(desk: Desk, starter: Starter, *keys: str, text: str = "hi", pause: Any = None, **more: Any) -> Any:
    event = hear.Event("api", more.pop("key", None), "message", text, text.encode(), **more)
    to = [
        hear.Addressee(k, "main", HOMES.get(k, f"web:{k}"), **({"pause": pause} if pause else {})) for k in keys or "s"
    ]
    return desk.do(hear.hear, event, to, None, starter.offer)


def test_an_idle_session_begins_its_turn_with_the_event_and_no_wake_stays(desk: Desk) -> None:
    starter = Starter()
    (addressed,) = tell(desk, starter).addressed
    (begun,) = starter.begun
    assert addressed.begun == begun and addressed.act is None
    assert [event.text for event in begun.events] == ["hi"]
    row = desk.session()
    assert (row.turn, row.lease, row.wake_at, row.wake_since) == (begun.turn, "g0", None, None)
    desk.finish(begun, block(1, "hello"))
    assert [(entry["role"], entry["text"]) for entry in desk.entries()] == [("user", "hi"), ("agent", "hello")]


def test_it_is_the_same_turn_that_begin_would_have_begun(desk: Desk) -> None:
    starter = Starter()
    tell(desk, starter, "a", text="same")
    desk.hear("same", "b")
    (at_once,), later = starter.begun, desk.begin("b")
    fields = ("attempt", "chapter", "epoch", "memory", "entries_to_tell", "lost_turn", "last_number")
    assert [getattr(at_once, name) for name in fields] == [getattr(later, name) for name in fields]
    assert [(e.text, e.kind, e.seq, e.wakes) for e in at_once.events] == [
        (e.text, e.kind, e.seq, e.wakes) for e in later.events
    ]


@for_each(
    "fields",
    [
        {"sender": "Ann", "key": "k"},
        {"more": {"data": {"from": {"id": "7", "person": "ann"}, "at": 1 << 60}}},
        {"more": {"mentions": ({"start": 0, "end": 2, "name": "a"},)}},
        {"automatic": True, "blocks": ({"type": "text", "text": "hi"},)},
        {"more": {"files": [{"name": "a", "size": 1, "missing": "too large"}]}, "reference": Reference(None, "chat")},
    ],
)
def test_the_event_is_given_to_the_turn_as_the_ledger_has_it(desk: Desk, fields: dict[str, Any]) -> None:
    starter = Starter()
    tell(desk, starter, "-".join([*fields, *fields.get("more", ())]), text="h\u00e9 \u2028 <there>", **fields)
    (begun,) = starter.begun
    assert begun.events == desk.look(list_bound, begun.turn)


def test_it_takes_what_waited_before_with_it(desk: Desk) -> None:
    starter = Starter()
    desk.hear("by the way", wakes=False)
    tell(desk, starter, text="now")
    assert [event.text for event in starter.begun[0].events] == ["by the way", "now"]


def test_a_second_message_waits_for_the_turn_after_it(desk: Desk) -> None:
    starter = Starter()
    tell(desk, starter, text="one")
    (second,) = tell(desk, starter, text="two").addressed
    assert len(starter.begun) == 1 and second.begun is None
    assert (second.act, second.waiting, second.position) == ("wake", "queue", 1)
    assert desk.finish(starter.begun[0], block(1, "answer"))  # another turn is due
    assert [event.text for event in desk.begin().events] == ["two"]


def test_each_idle_session_of_a_fan_out_begins_its_turn(desk: Desk) -> None:
    starter = Starter()
    desk.hear("busy", "job")
    running = desk.begin("job")
    outcome = tell(desk, starter, "s", "job", "chat")
    assert [begun.key for begun in starter.begun] == ["s", "chat"]
    assert outcome.woken_sessions == (running.session,)


def test_a_wake_that_is_put_off_begins_nothing(desk: Desk) -> None:
    starter = Starter()
    tell(desk, starter, "s", pause=WakeDelay(500, 2_000))
    tell(desk, starter, "collects", busy="collect")
    assert starter.begun == []
    assert desk.session().wake_at == desk.now + 500
    desk.now += 500
    tell(desk, starter, "s", text="no pause")
    assert [event.text for event in starter.begun[0].events] == ["hi", "no pause"]


def test_a_session_that_the_gateway_works_on_is_left_to_it(desk: Desk) -> None:
    starter = Starter(idle=False)
    outcome = tell(desk, starter)
    assert starter.begun == [] and outcome.woken_sessions == (desk.session().id,)
    assert [event.text for event in desk.begin().events] == ["hi"]


def test_a_repeat_and_what_does_not_wake_begin_nothing(desk: Desk) -> None:
    starter = Starter()
    tell(desk, starter, key="k", wakes=False)
    tell(desk, starter, key="k")
    assert starter.begun == []


def test_an_idle_process_counts_as_prompted_at_once(desk: Desk) -> None:
    desk.hear("first")
    spawn = desk.spawn()
    starter = Starter(spawn=spawn)
    tell(desk, starter)
    assert desk.look(lambda tx: tx.get(turns.TurnRow, "turn_get", id=starter.begun[0].turn)).spawn == spawn
    assert [event.text for event in starter.begun[0].events] == ["first", "hi"]


def test_a_transaction_that_fails_hands_nothing_over(desk: Desk) -> None:
    starter = Starter()
    no_session = hear.Addressee("missing", "main", None, creates_session=False)
    with pytest.raises(hear.SessionMissing):
        desk.do(
            hear.hear, hear.Event("api", None, "message", "hi", b"hi"), [hear.Addressee("s", "main", None), no_session],
            None, starter.offer,
        )  # fmt: skip
    assert starter.begun == [] and desk.session() is None


def test_a_limit_that_is_used_up_is_told_by_begin(desk: Desk) -> None:
    starter = Starter(policy=limits.LimitPolicy(session=Limits(turns=1)))
    tell(desk, starter, text="one")
    desk.finish(starter.begun[0], block(1, "answer"))
    outcome = tell(desk, starter, text="two")
    assert len(starter.begun) == 1 and outcome.woken_sessions == (desk.session().id,)
    put_off = desk.do(turns.begin, desk.session().id, "g0", policy=starter.offer.policy)
    assert isinstance(put_off, turns.NotYetDue)
    assert [entry["kind"] for entry in desk.entries() if entry["role"] == "notice"][-1] == "limit.waits"


def test_a_session_whose_agent_is_gone_goes_on_with_another_one_and_says_so_once(desk: Desk) -> None:
    before = Starter(agents=ConfiguredAgents({"main": 3}, "main"))
    tell(desk, before, text="old")
    desk.do(turns.record_prompting, fence(before.begun[0]), "start", desk.spawn(), "conversation", {})
    desk.finish(before.begun[0], block(1, "by main"))
    starter = Starter(agents=ConfiguredAgents({"other": 3}, "other"))
    for slot, text in ((2, "new"), (3, "newer")):
        tell(desk, starter, text=text)
        desk.finish(starter.begun[-1], block(slot, f"by other: {text}"))
    assert [(begun.agent, begun.memory) for begun in (*before.begun, *starter.begun)] == [
        ("main", None), ("other", None), ("other", None),
    ]  # fmt: skip
    assert desk.session().agent == "other"
    told = "The agent 'main' is not configured any more. 'other' answers here from now on"
    assert [(entry["role"], entry["text"]) for entry in desk.entries()] == [
        ("user", "old"), ("agent", "by main"),
        ("user", "new"), ("notice", f"{told}, and is given the conversation so far."), ("agent", "by other: new"),
        ("user", "newer"), ("agent", "by other: newer"),
    ]  # fmt: skip


def test_a_session_whose_agent_is_gone_keeps_it_if_nobody_succeeds(desk: Desk) -> None:
    starter = Starter(agents=ConfiguredAgents({"other": 3}))
    tell(desk, starter)
    assert starter.begun[0].agent == "main" and [entry["role"] for entry in desk.entries()] == ["user"]


def test_a_gateway_that_dies_behind_the_commit_leaves_a_turn_that_was_never_prompted(desk: Desk) -> None:
    starter = Starter()
    tell(desk, starter)
    again = desk.begin(lease="g1")
    assert (again.turn, again.attempt) == (starter.begun[0].turn, 1)
    with pytest.raises(turns.Fenced):
        desk.do(turns.check_fence, fence(starter.begun[0]))
