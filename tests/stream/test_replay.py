"""Replay: known history is not shown again, unknown history is shown once and marked."""

from __future__ import annotations

from typing import Any

import pytest
from stream_help import Update, call, content, folded, messages, result, say, terminal, think, thoughts, tool, user

from semel.acp_stream import CAREFUL, PROFILES, ConnectionFolder, Fold, Profile, View

LOAD: Update = {"_load": True}
LIVE: list[Update] = [
    {"_prompt": "first"},
    think("Thought one. "),
    say("Let me check that. ", "m1"),
    call("c1", title="echo x", rawInput={"command": "echo x"}),
    result("c1", status="completed", content=content("x")),
    say("It said x.", "m2"),
    {"_end_turn": True},
]


def told_again(mids: dict[str, str | None], calls: dict[str, str]) -> list[Update]:
    return [
        user("first", "u1"),
        think("Thought one."),
        say("Let me check that.", mids["m1"]),
        call(calls["c1"], title="echo x", rawInput={"command": "echo x"}),
        result(calls["c1"], status="completed", content=content("x")),
        say("It said x.", mids["m2"]),
    ]


def unchanged(updates: list[Update], profile: Profile = CAREFUL) -> bool:
    return list(folded([*LIVE, LOAD, *updates], profile).json()) == list(folded(LIVE, profile).json())


SAME_IDS: dict[str, Any] = {"mids": {"m1": "m1", "m2": "m2"}, "calls": {"c1": "c1"}}
OTHER_IDS: dict[str, Any] = {"mids": {"m1": "x1", "m2": "x2"}, "calls": {"c1": "call_7"}}
NO_IDS: dict[str, Any] = {"mids": {"m1": None, "m2": None}, "calls": {"c1": "call_7"}}


@pytest.mark.parametrize("ids", [SAME_IDS, OTHER_IDS, NO_IDS], ids=["same ids", "other ids", "no ids"])
@pytest.mark.parametrize("name", PROFILES)
def test_known_history_is_not_shown_again(ids: dict[str, Any], name: str) -> None:
    assert unchanged(told_again(**ids), PROFILES[name])


def test_a_history_told_twice_is_known_twice() -> None:
    again = told_again(**OTHER_IDS)
    updates = [*LIVE, LOAD, *again, {"_prompt": "second"}, {"_end_turn": True}, LOAD, *again]
    assert messages(folded(updates)) == ["Let me check that. ", "It said x."]


def test_unknown_history_is_shown_once_and_marked() -> None:
    updates = [LOAD, *told_again(**SAME_IDS)]
    view = folded([*updates, {"_prompt": "go"}, {"_end_turn": True}, *updates])
    rows = [o for o in view.json() if o["item"] != "turn" and o.get("text") != "go"]
    assert [o["item"] for o in rows] == ["message", "thought", "message", "tool", "message"]
    assert all(o["history"] for o in rows)


def test_two_equal_messages_of_a_replay_are_two_where_one_is_known() -> None:
    updates = [*LIVE, LOAD, *told_again(**NO_IDS), user("again"), say("It said x.")]
    assert messages(folded(updates)) == ["Let me check that. ", "It said x.", "It said x."]


def test_a_replay_that_is_trimmed_shows_nothing() -> None:
    assert unchanged(told_again(**NO_IDS)[3:])


def test_a_doubled_text_of_the_history_is_the_failed_start_and_the_answer() -> None:
    a, b = ["Partial ", "text before ", "the drop. "], ["Partial text before the drop. ", "And the rest."]
    c = [f"Sentence {n} of a long attempt. " for n in range(150)]
    d = ["And the rest."]
    for first, second, shown in ((a, b, [*a, *b]), (c, [*c, *d], [*c, *d])):
        live = [{"_prompt": "go"}, *(say(chunk) for chunk in [*first, *second]), {"_end_turn": True}]
        for told in ([*first, *second], second):
            view = folded([*live, LOAD, user("go"), say("".join(told))], PROFILES["kimi"])
            assert messages(view) == ["".join(shown)], "a short failed start cannot be told from a text"
            assert not [o for o in view.json() if o.get("history")]


def test_one_live_text_may_be_several_in_the_history() -> None:
    live = [{"_prompt": "go"}, say("The first half. "), say("The second half."), {"_end_turn": True}]
    again = [
        user("go"),
        say("The first half."),
        user("[System: The previous response was cut off]"),
        say("The second half."),
    ]
    view = folded([*live, LOAD, *again], PROFILES["hermes"])
    assert messages(view) == ["The first half. The second half."]
    notices = [o for o in view.json() if o["item"] == "notice"]
    assert [(o["text"], o["history"]) for o in notices] == [("[System: The previous response was cut off]", True)]


def test_a_suffix_that_came_live_is_part_of_the_whole_in_the_history() -> None:
    live = [{"_prompt": "go"}, say("Partial text. ", "msg_1"), say("Finished.", "msg_2"), {"_end_turn": True}]
    view = folded([*live, LOAD, user("go"), say("Partial text. Finished.", "msg_2")], PROFILES["claude"])
    assert messages(view) == ["Partial text. ", "Finished."]


@pytest.mark.parametrize("mid", ["m9", None])
def test_what_was_cut_short_by_a_death_is_completed_from_the_history(mid: str | None) -> None:
    a_fold = Fold()
    a_fold.prompt("go")
    for chunk in ("The answer was going ", "to be lo"):
        a_fold.update(say(chunk, mid))
    a_fold.end("error", "died", died=True)
    a_fold.update(user("go"), replay=True)
    a_fold.update(say("The answer was going to be longer.", mid), replay=True)
    a_fold.settle()
    texts = [(i.text, i.fields.get("partial")) for i in a_fold.items() if i.fields.get("role") == "agent"]
    assert texts == [("The answer was going to be longer.", None)]


def test_what_was_shown_and_is_not_in_the_history_stays() -> None:
    assert messages(folded([*LIVE, LOAD, user("first")])) == ["Let me check that. ", "It said x."]


@pytest.mark.parametrize(
    "row",
    [
        "[Request interrupted by user]",
        "<system-reminder>x",
        "[System: x]",
        "<session_context>\nx",
        "[Function Response: x]",
    ],
)
def test_rows_that_no_person_wrote_are_notices(row: str) -> None:
    view = folded([*LIVE, LOAD, user(row), *told_again(**NO_IDS)], PROFILES["gemini"])
    assert [o["text"] for o in view.json() if o["item"] == "message" and o["role"] == "user"] == ["first"]
    assert [o["text"] for o in view.json() if o["item"] == "notice"] == [row]


def test_a_call_left_open_in_the_history_is_not_left_running() -> None:
    a_fold = Fold()
    a_fold.update(call("old", status="in_progress"), replay=True)
    ended = a_fold.settle()
    assert [type(op).__name__ for op in ended] == ["Changed", "Ended"]
    assert [item.fields["status"] for item in a_fold.items()] == ["no result"]


def test_what_the_record_has_from_before_is_not_shown() -> None:
    a_fold = Fold()
    a_fold.add_known_text("user", "first")
    a_fold.add_known_text("thought", "Thought one. ")
    a_fold.add_known_text("agent", "Let me check that. ", "m1")
    a_fold.add_known_text("agent", "It said x.")
    a_fold.add_known_call("c1", "echo x", {"command": "echo x"})
    ops = [op for update in told_again(**OTHER_IDS) for op in a_fold.update(update, replay=True)]
    assert ops + a_fold.settle() == []
    assert list(a_fold.items()) == []


def test_the_live_echo_of_a_prompt_is_not_shown() -> None:
    a_fold = Fold(PROFILES["vibe"])
    a_fold.prompt("fix  it\nplease")
    assert a_fold.update(user("fix it please")) == []
    (item,) = a_fold.items()
    assert (item.fields["role"], item.text) == ("user", "fix  it\nplease")


def test_a_user_row_that_is_no_echo_is_shown() -> None:
    a_fold = Fold()
    a_fold.prompt("fix it")
    a_fold.update(user("some"))
    a_fold.update(user("thing else"))
    a_fold.update(say("ok"))
    assert [i.text for i in a_fold.items()] == ["fix it", "something else", "ok"]


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": {"sessionId": "s", **params}}


def gemini(replay_before_the_response: bool) -> View:
    """`session/load` whose history comes before its response, or after."""
    wire = ConnectionFolder()
    wire.fold_sent({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
    wire.fold_received({"jsonrpc": "2.0", "id": 0, "result": {"agentInfo": {"name": "gemini-cli"}}})
    wire.fold_sent({"id": 1, **message("session/prompt", prompt=[{"type": "text", "text": "first"}])})
    wire.fold_received(message("session/update", update=say("The only answer.")))
    wire.fold_received({"id": 1, "result": {"stopReason": "end_turn"}})
    wire.fold_sent({"id": 2, **message("session/load")})
    history = [message("session/update", update=u) for u in (user("first"), say("The only answer."))]
    response: dict[str, Any] = {"id": 2, "result": {}}
    for each in [*history, response] if replay_before_the_response else [response, *history]:
        wire.fold_received(each)
    wire.fold_sent({"id": 3, **message("session/prompt", prompt=[{"type": "text", "text": "second"}])})
    wire.fold_received(message("session/update", update=say("The only answer.")))
    wire.fold_received({"id": 3, "result": {"stopReason": "end_turn"}})
    return View({"s": tuple(wire.fold("s").items())})


@pytest.mark.parametrize("before", [True, False])
def test_a_replay_may_come_before_or_after_the_response(before: bool) -> None:
    view = gemini(before)
    assert messages(view) == ["The only answer.", "The only answer."], "the second one is an answer of its own"
    assert view.texts(role="user") == ["first", "second"]


def test_live_text_after_a_replay_is_live() -> None:
    a_fold = Fold()
    a_fold.update(say("Old."), replay=True)
    a_fold.update(terminal("x", "old"), replay=True)
    a_fold.prompt("go")
    a_fold.update(say("New."))
    assert [(i.text, i.fields.get("history")) for i in a_fold.items() if i.fields.get("role") == "agent"] == [
        ("Old.", True),
        ("New.", None),
    ]


def test_thoughts_of_a_replay_are_known_by_their_text() -> None:
    assert thoughts(folded([*LIVE, LOAD, think("Thought one.")])) == ["Thought one. "]


def test_a_tool_of_a_replay_keeps_the_status_that_was_shown() -> None:
    view = folded([*LIVE, LOAD, call("c1", status="pending", rawInput={"command": "echo x"})])
    assert tool(view, "c1")["status"] == "done"


def test_a_replay_may_come_in_chunks_without_ids() -> None:
    chunked = [user("fi"), user("rst"), say("Let me "), say("check that."), call("c1"), say("It "), say("said x.")]
    assert unchanged(chunked)
    view = folded([LOAD, *chunked])
    assert [o["text"] for o in view.json() if o["item"] == "message"] == ["first", "Let me check that.", "It said x."]


def test_of_a_run_in_a_replay_only_the_unknown_part_is_shown() -> None:
    live = [{"_prompt": "go"}, say("The known answer."), {"_end_turn": True}]
    view = folded([*live, LOAD, user("go"), say("The known answer."), say("Something that nobody saw.")])
    assert messages(view) == ["The known answer.", "Something that nobody saw."]


def test_what_a_replay_told_last_is_complete_once_the_caller_says_that_it_is_over() -> None:
    fold = Fold()
    for update in (user("first", "u1"), say("The whole answer.", "m1")):
        fold.update(update, replay=True)
    assert "The whole answer." not in [item.text for item in fold.items()]
    fold.end_replay()
    assert "The whole answer." in [item.text for item in fold.items()]
    assert fold.end_replay() == []
