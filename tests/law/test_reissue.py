"""Is a `tools/call` new, or the same call after a dead MCP server? (Two real agents issue it again, unmarked.)"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.law.echo import EarlierCall, find_reissued_call, tool_call_id


def call(id: int, conn: str, tool: str | None = None, answered: bool = False, of: int | None = None) -> EarlierCall:
    return EarlierCall(id, conn, tool, answered, of)


def test_equal_calls_of_one_connection_are_distinct() -> None:
    earlier = [call(1, "c1"), call(2, "c1")]
    assert find_reissued_call(conn="c1", tool=None, earlier=earlier) is None


def test_an_unanswered_call_that_comes_again_on_a_later_connection_is_the_same() -> None:
    assert find_reissued_call(conn="c2", tool=None, earlier=[call(1, "c1")]) == 1


def test_an_answered_call_that_comes_again_is_new() -> None:
    assert find_reissued_call(conn="c2", tool=None, earlier=[call(1, "c1", answered=True)]) is None


def test_two_unanswered_calls_are_repeated_copy_by_copy_and_a_third_is_new() -> None:
    earlier = [call(1, "c1"), call(2, "c1", answered=True), call(3, "c1")]
    for id, of in ((4, 1), (5, 3), (6, None)):
        assert find_reissued_call(conn="c2", tool=None, earlier=earlier) == of
        earlier.append(call(id, "c2", of=of))


def test_a_call_that_is_issued_a_third_time_is_still_the_first() -> None:
    earlier = [call(1, "c1"), call(2, "c2", of=1)]
    assert find_reissued_call(conn="c3", tool=None, earlier=earlier) == 1
    earlier[1] = call(2, "c2", answered=True, of=1)
    assert find_reissued_call(conn="c3", tool=None, earlier=earlier) is None


def test_the_agents_own_tool_call_id_decides_where_both_have_one() -> None:
    assert find_reissued_call(conn="c2", tool="t1", earlier=[call(1, "c1", "t1", answered=True)]) == 1
    assert find_reissued_call(conn="c2", tool="t2", earlier=[call(1, "c1", "t1")]) is None
    assert find_reissued_call(conn="c2", tool="t2", earlier=[call(1, "c1", None)]) == 1
    assert find_reissued_call(conn="c2", tool=None, earlier=[call(1, "c1", "t1")]) == 1


def test_equal_texts_sent_on_purpose_with_two_tool_call_ids_are_two_calls() -> None:
    earlier = [call(1, "c1", "t1", answered=True)]
    assert find_reissued_call(conn="c1", tool="t2", earlier=earlier) is None


@given(st.lists(st.booleans(), max_size=6), st.integers(0, 8))
def test_a_new_connection_repeats_exactly_the_unanswered_calls(answered: list[bool], again: int) -> None:
    earlier = [call(n, "c1", answered=a) for n, a in enumerate(answered)]
    repeated = []
    for n in range(again):
        of = find_reissued_call(conn="c2", tool=None, earlier=earlier)
        earlier.append(call(100 + n, "c2", of=of))
        repeated.append(of)
    open_calls: list[int | None] = [n for n, a in enumerate(answered) if not a]
    assert repeated == (open_calls + [None] * again)[:again]


@pytest.mark.parametrize(
    ("meta", "id"),
    [
        ({"claudecode/toolUseId": "toolu_01", "progressToken": 2}, "toolu_01"),
        ({"callId": "call_6ab0", "itemId": "fc_1", "x-codex-turn-metadata": {"turn_id": "x"}}, "call_6ab0"),
        ({"progressToken": 2}, None),
        ({"callId": ""}, None),
        ({"callId": 7}, None),
        ({}, None),
        (None, None),
        ("callId", None),
    ],
)
def test_the_tool_call_id_is_read_where_claude_and_codex_put_it(meta: object, id: str | None) -> None:
    assert tool_call_id(meta) == id
