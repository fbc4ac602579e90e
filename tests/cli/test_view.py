"""A watcher's copy of a session: what it holds after snapshots and changes is what the gateway holds."""

from __future__ import annotations

from typing import Any

from semel.faces.view import SessionView
from semel.text.visible import visible


def entry(seq: int, rev: int, text: str = "", **more: Any) -> dict[str, Any]:
    return {"seq": seq, "born": more.pop("born", rev), "rev": rev, "at": 0, "role": "agent", "text": text, **more}


def snapshot(rev: int, *entries: dict[str, Any], items: Any = (), more: bool = False) -> dict[str, Any]:
    session = {"state": "idle", "waiting": 0}
    return {
        "type": "snapshot",
        "rev": rev,
        "session": session,
        "entries": list(entries),
        "items": list(items),
        "more": more,
    }


def change(rev: int, *changes: dict[str, Any]) -> dict[str, Any]:
    return {"type": "change", "rev": rev, "changes": list(changes)}


def test_text_that_streams_joins_the_end_of_its_entry() -> None:
    view = SessionView()
    view.apply(snapshot(3, entry(1, 3, "ha", live=True)))
    view.apply(
        change(
            5, {"op": "append", "rev": 4, "seq": 1, "text": ", "}, {"op": "append", "rev": 5, "seq": 1, "text": "ha"}
        )
    )
    assert view.entries[1]["text"] == "ha, ha"
    assert view.rev == 5


def test_a_change_that_was_seen_already_changes_nothing() -> None:
    view = SessionView()
    view.apply(snapshot(3, entry(1, 3, "ha", live=True)))
    again = change(4, {"op": "append", "rev": 4, "seq": 1, "text": "!"})
    assert view.apply(again)
    assert view.apply(again) == []
    assert view.entries[1]["text"] == "ha!"


def test_entries_and_items_stand_in_the_order_they_were_born() -> None:
    view = SessionView()
    tool = {"id": 7, "born": 2, "rev": 9, "kind": "tool", "text": ""}
    view.apply(snapshot(9, entry(2, 3), entry(1, 1), items=[tool]))
    assert [row["born"] for row in view.ordered()] == [1, 2, 3]


def test_a_new_snapshot_replaces_its_stretch_and_keeps_what_is_older() -> None:
    view = SessionView()
    view.apply(snapshot(9, entry(1, 1, "old"), entry(2, 5, "kept"), entry(3, 9, "withdrawn")))
    gone = view.apply(snapshot(20, entry(2, 5, "kept"), entry(4, 20, "new"), more=True))
    assert [row["text"] for row in view.ordered()] == ["old", "kept", "new"]
    assert [row["text"] for row in gone if row.get("gone")] == ["withdrawn"]


def test_the_snapshot_of_another_ledger_replaces_everything() -> None:
    view = SessionView()
    view.apply(snapshot(50, entry(1, 1, "old"), entry(9, 50, "old too")))
    view.apply(snapshot(3, entry(1, 3, "new"), more=True))
    assert [row["text"] for row in view.ordered()] == ["new"]
    assert view.rev == 3


def test_a_session_is_busy_while_a_turn_runs_or_an_event_waits() -> None:
    view = SessionView()
    view.apply(snapshot(1))
    assert not view.is_busy
    view.apply(change(2, {"op": "session", "rev": 2, "state": "running", "waiting": 0, "turn": 4}))
    assert view.is_busy
    view.apply(change(3, {"op": "session", "rev": 3, "state": "waiting", "waiting": 1}))
    assert view.is_busy
    assert "turn" not in view.session
    view.apply(change(4, {"op": "session", "rev": 4, "state": "idle", "waiting": 0}))
    assert not view.is_busy


def test_what_a_session_does_not_tell_any_more_is_forgotten() -> None:
    view = SessionView()
    view.apply(snapshot(1))
    view.apply(change(2, {"op": "session", "rev": 2, "state": "running", "waiting": 0, "retry_at": 9, "busy": "steer"}))
    view.apply(change(3, {"op": "session", "rev": 3, "state": "running", "waiting": 0}))
    assert view.session == {"state": "running", "waiting": 0}


def test_questions_are_those_that_are_open_oldest_first() -> None:
    view = SessionView()
    asked = [{"id": n, "born": 10 - n, "rev": 9, "kind": "permission", "text": "", "state": "open"} for n in (1, 2)]
    view.apply(snapshot(9, items=[*asked, {**asked[0], "id": 3, "state": "answered"}]))
    assert [item["id"] for item in view.open_questions()] == [2, 1]


def test_a_question_is_open_until_the_next_message_of_a_person_and_a_permission_until_its_answer() -> None:
    question = {"id": 1, "born": 5, "rev": 5, "kind": "ask", "text": "Tea?", "state": "open", "options": []}
    permission = {**question, "id": 2, "kind": "permission", "title": "rm"}
    view = SessionView()
    view.apply(snapshot(5, entry(1, 4, "go", role="user"), items=[question, permission]))
    view.apply(change(6, {"op": "entry", **entry(2, 6, "/status", role="user", kind="command")}))
    assert [item["kind"] for item in view.open_questions()] == ["ask", "permission"]
    view.apply(change(7, {"op": "entry", **entry(3, 7, "tea, please", role="user")}))
    assert [item["kind"] for item in view.open_questions()] == ["permission"]


def test_an_agents_text_cannot_command_the_terminal() -> None:
    assert visible("a\x1b]0;owned\x07b\r\nc\td\x9b") == "a␛]0;owned␇b\nc\td<U+009B>"
    assert visible("safe ✓ naïve 👍🏽") == "safe ✓ naïve 👍🏽"
    assert "\u202e" not in visible("abc\u202etxt.exe")
