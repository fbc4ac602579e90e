"""Tool output as it is shown: head, stated gap and tail of the whole; and whose a tool call is (Laws 8, 10, 11)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from semel.acp_stream import Began, Changed, Ended, Grew, render_terminal
from semel.gateway.outbound.destinations import Destinations
from semel.gateway.turns import stream_view
from semel.gateway.turns.block_claims import BlockClaims
from semel.gateway.turns.stream_view import HEAD_CHARS, MAX_LATE_ITEMS, TAIL_CHARS, StreamView
from semel.ledger.turns import turn_ops

Json = dict[str, Any]


def a_viewing(turn: int = 1) -> StreamView:
    one = StreamView()
    one.begin_turn(speech(), turn)
    return one


def speech() -> BlockClaims:
    return BlockClaims("s", "web:s", Destinations({}, {}, {}), ())


class Screen:
    """What a watcher holds of one tool call, and the whole that the ledger keeps."""

    def __init__(self) -> None:
        self.text = ""
        self.whole = ""
        self.body: Json = {}

    def take(self, ops: list[turn_ops.Op]) -> None:
        for op in ops:
            if isinstance(op, turn_ops.ItemGrow):
                self.text += op.text
                self.whole += op.output
            elif isinstance(op, turn_ops.ItemSet):
                self.body.update(op.body)
                self.text = self.text if op.text is None else op.text
                self.whole = self.whole if op.output is None else op.output

    def check(self) -> None:
        tail, gap = self.body.get("tail") or "", self.body.get("gap") or 0
        displayed = render_terminal(self.whole)
        assert displayed.startswith(self.text)
        assert displayed.endswith(tail)
        assert len(self.text) + gap + len(tail) == len(displayed)


LETTERS = ("a", "b", "\u05d0", "\U0001f600", "\n")
TERMINAL = (*LETTERS, "10%", "\r", "\r", "\x1b[K", "\x1b[31m", "\x1b[2", "\x08", "\r\n")


@pytest.mark.parametrize("signs", [LETTERS, TERMINAL], ids=["letters", "terminal"])
@pytest.mark.parametrize("seed", range(5))
def test_output_is_head_stated_gap_and_tail_of_the_whole_after_every_batch(
    seed: int, signs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_view, "HEAD_CHARS", 30)
    monkeypatch.setattr(stream_view, "TAIL_CHARS", 10)
    dice, one, screen = random.Random(seed), a_viewing(), Screen()
    one.take([Began(1, "tool", {"call": "T", "status": "running", "text": "begins "})])
    for n in range(60):
        piece = "".join(dice.choice(signs) for _ in range(dice.randrange(0, 9)))
        one.take([Changed(1, {"text": piece * 9})] if dice.random() < 0.05 else [Grew(1, piece)])
        if n == 40:
            one.take([Ended(1, {"status": "done"})])
        if dice.random() < 0.5:
            screen.take(one.take_batch())
            screen.check()
    screen.take(one.take_batch())
    screen.check()


def test_two_megabytes_of_output_are_shown_in_bounded_pieces() -> None:
    one, screen = a_viewing(), Screen()
    one.take([Began(1, "tool", {"call": "T"})])
    for n in range(200):
        one.take([Grew(1, f"{n:04}" * 2500)])
        ops = one.take_batch()
        assert sum(len(op.text) for op in ops if isinstance(op, turn_ops.ItemGrow)) <= HEAD_CHARS
        screen.take(ops)
    screen.check()
    assert (len(screen.text), len(screen.body["tail"])) == (HEAD_CHARS, TAIL_CHARS)
    assert len(screen.whole) == 2_000_000


def test_behind_a_gap_the_end_begins_with_a_line() -> None:
    one, screen = a_viewing(), Screen()
    one.take([Began(1, "tool", {"call": "T"})])
    for n in range(5_000):
        one.take([Grew(1, f"test_{n} passed\n")])
        if n % 700 == 0 or n == 4_999:
            screen.take(one.take_batch())
            screen.check()
            assert not screen.body.get("gap") or screen.body["tail"].startswith("test_")
    assert TAIL_CHARS - 20 < len(screen.body["tail"]) <= TAIL_CHARS


def test_a_progress_bar_is_shown_as_its_last_step_and_stored_as_it_came() -> None:
    one, screen = a_viewing(), Screen()
    one.take([Began(1, "tool", {"call": "T"})])
    for percent in range(101):
        one.take([Grew(1, f"\r\x1b[32m{percent}%\x1b[0m"), *([Grew(1, "\ndone\n")] if percent == 100 else [])])
        if percent % 7 == 0:
            ops = one.take_batch()
            assert len([op for op in ops if isinstance(op, turn_ops.ItemSet)]) <= 1, "a line is sent once a batch"
            screen.take(ops)
            assert screen.text.strip() == f"{percent}%"
    screen.take(one.take_batch())
    assert screen.text == "100%\ndone\n"
    assert screen.whole.count("\r") == 101 and "\x1b[32m" in screen.whole


def test_a_tool_call_belongs_to_the_turn_that_announced_it() -> None:
    one = a_viewing(turn=1)
    one.take([Began(1, "tool", {"call": "T1", "status": "running"})])
    one.begin_turn(speech(), 2)
    one.take([Began(2, "tool", {"call": "T2", "status": "running"})])
    assert one.turns == {"T1": 1, "T2": 2}


def test_an_item_of_an_earlier_turn_may_still_be_told_of() -> None:
    one = a_viewing(turn=1)
    one.take([Began(1, "tool", {"call": "T1"})])
    one.take_batch()
    one.begin_turn(speech(), 2)
    one.take([Grew(1, "late"), Ended(1, {"status": "done"})])
    assert [type(op) for op in one.take_batch()] == [turn_ops.ItemGrow, turn_ops.ItemSet]


def test_a_long_life_of_an_agent_makes_no_batch_dearer() -> None:
    """Only the newest items of earlier turns are kept at hand, and only what grew is looked at."""
    one = a_viewing()
    for n in range(3 * MAX_LATE_ITEMS):
        one.take([Began(n, "tool", {"call": f"T{n}"}), Grew(n, "x" * (HEAD_CHARS + 1))])
    assert len([op for op in one.take_batch() if isinstance(op, turn_ops.ItemSet)]) == 3 * MAX_LATE_ITEMS
    one.begin_turn(speech(), 2)
    for held in (one.kinds, one.outputs, one.call_fields, one.calls, one.turns):
        assert len(held) == MAX_LATE_ITEMS
    one.take([Grew(3 * MAX_LATE_ITEMS - 1, "late"), Grew(0, "too late")])
    assert len(one.take_batch()) == 2
    assert one.take_batch() == []


def test_a_call_id_of_an_earlier_turn_is_a_row_of_its_own_and_is_bound_again() -> None:
    one = a_viewing(turn=1)
    given = {"text": "hi"}
    for slot in (1, 2):
        one.begin_turn(speech(), turn=slot)
        fields = {"call": "call_1", "title": "send_message", "status": "pending", "input": given}
        one.take([Began(slot, "tool", fields)])
        assert one.match("send_message", given) == "call_1"
        assert one.match("send_message", given) is None
        assert one.turns["call_1"] == slot
        one.take([Changed(slot, {"status": "no result"}), Ended(slot, {})])
        assert not one.is_tool_running()
    opened = [op.slot for op in one.take_batch() if isinstance(op, turn_ops.ItemOpen)]
    assert opened == [1, 2]


def test_an_output_says_that_it_has_colours_which_are_not_shown() -> None:
    one, screen = a_viewing(), Screen()
    one.take([Began(1, "tool", {"call": "T", "text": "plain\n"})])
    screen.take(one.take_batch())
    assert not screen.body.get("coloured")
    one.take([Grew(1, "\x1b"), Grew(1, "[31mred\x1b[0m\n")])  # the sequence comes in two pieces
    screen.take(one.take_batch())
    assert (screen.text, screen.body["coloured"]) == ("plain\nred\n", True)
    one.take([Changed(1, {"text": "plain again"})])
    screen.take(one.take_batch())
    assert (screen.text, screen.body["coloured"]) == ("plain again", None)
