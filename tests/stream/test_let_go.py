"""What a fold forgets between turns: a conversation that lives for months holds what its last turns told (Law 11)."""

from __future__ import annotations

from semel.acp_stream import Fold


def turn(fold: Fold, n: int) -> set[int]:
    """A message and a tool call; the ids of what was told."""
    ops = fold.prompt(f"question {n}")
    ops += fold.update(
        {
            "sessionUpdate": "agent_message_chunk", "messageId": f"m{n}",
            "content": {"type": "text", "text": f"Answer {n}"},
        }
    )  # fmt: skip
    ops += fold.update({"sessionUpdate": "tool_call", "toolCallId": f"c{n}", "title": "look", "status": "in_progress"})
    ops += fold.update({"sessionUpdate": "tool_call_update", "toolCallId": f"c{n}", "status": "completed"})
    ops += fold.end("end_turn")
    return {op.id for op in ops}


def test_a_long_conversation_holds_no_more_than_what_is_kept() -> None:
    fold, last, seen = Fold(), set[int](), set[int]()
    for n in range(200):
        fold.forget_all_but(last)
        last = turn(fold, n)
        assert not last & seen, "an id is not used twice"
        seen |= last
    assert len(fold.view_items.nodes) < 20 and len(fold.calls.by_id) < 5
    assert "Answer 199" in [item.text for item in fold.items()]


def test_a_kept_call_is_recognised_late_and_a_running_one_without_being_kept() -> None:
    fold = Fold()
    turn(fold, 1)
    kept = fold.calls.by_id["c1"].id
    turn(fold, 2)
    running = {"sessionUpdate": "tool_call", "toolCallId": "running", "title": "wait", "status": "in_progress"}
    fold.update(running)
    fold.forget_all_but({kept})
    assert set(fold.calls.by_id) == {"c1", "running"}
    late = fold.update({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "title": "looked again"})
    assert {op.id for op in late} == {kept}
    told = fold.update({"sessionUpdate": "tool_call_update", "toolCallId": "running", "status": "completed"})
    assert told and {op.id for op in told} == {fold.calls.by_id["running"].id}


def test_a_message_that_streams_goes_on_over_it() -> None:
    fold = Fold()
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "one, "}}
    fold.update(chunk)
    fold.forget_all_but(())
    fold.update({**chunk, "content": {"type": "text", "text": "two"}})
    assert [item.text for item in fold.items()] == ["one, two"]
