"""Plans, usage, modes, commands, titles, notices, and a terminal's carriage returns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_help import folded, messages, run, say

from semel.acp_stream import CAREFUL, PROFILES, Changed, Fold, profile_for, render_terminal
from semel.acp_stream.state import percent


def plan(*entries: str) -> dict[str, Any]:
    return {
        "sessionUpdate": "plan",
        "entries": [{"content": e, "priority": "low", "status": "pending"} for e in entries],
    }


def test_a_plan_is_replaced_as_it_changes_and_belongs_to_its_turn() -> None:
    updates = [{"_prompt": "a"}, plan("x"), plan("x", "y"), {"_end_turn": True}, {"_prompt": "b"}, plan("z")]
    plans = [o["entries"] for o in folded(updates).json() if o["item"] == "plan"]
    assert [[e["content"] for e in entries] for entries in plans] == [["x", "y"], ["z"]]


def test_usage_keeps_what_an_update_leaves_out() -> None:
    updates = [
        {"sessionUpdate": "usage_update", "used": 500, "size": 1000},
        {"sessionUpdate": "usage_update", "used": 250},
    ]
    a_fold, _ = run(updates, CAREFUL)
    (item,) = a_fold.items()
    assert item.fields == {"used": 250, "size": 1000, "percent": 25.0}


@pytest.mark.parametrize(
    ("used", "size", "expected"),
    [(262548, 1000000, 26.3), (419574, 200000, None), (1, 0, None), (None, 10, None), (5, None, None), (0, 10, 0.0)],
)
def test_percent_is_unknown_where_the_numbers_are_of_two_models(used: Any, size: Any, expected: float | None) -> None:
    assert percent(used, size) == expected


def test_mode_commands_and_title_are_one_item_each() -> None:
    a_fold = Fold()
    for update in (
        {"sessionUpdate": "current_mode_update", "currentModeId": "plan"},
        {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "x"}]},
        {"sessionUpdate": "session_info_update", "title": "One"},
        {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
        {"sessionUpdate": "session_info_update", "title": "Two"},
    ):
        a_fold.update(update)
    assert {i.kind: i.fields for i in a_fold.items()} == {
        "mode": {"mode": "code"},
        "commands": {"commands": [{"name": "x"}]},
        "title": {"title": "Two"},
    }
    assert a_fold.update({"sessionUpdate": "session_info_update", "title": None}) == []
    assert a_fold.update({"sessionUpdate": "session_info_update", "title": "Three"}) == [Changed(3, {"title": "Three"})]


def codex(message: str, **more: object) -> dict[str, Any]:
    return {"sessionUpdate": "session_info_update", "_meta": {"codex": {"error": {"message": message, **more}}}}


def air(title: str, severity: str, **more: object) -> dict[str, Any]:
    failure = {"id": "x", "category": "connection", "severity": severity, "title": title, **more}
    return {
        "sessionUpdate": "session_info_update",
        "_meta": {"jetbrains": {"air": {"version": 1, "sessionFailure": failure}}},
    }


def test_a_typed_failure_is_a_notice() -> None:
    view = folded([air("Reconnecting", "warning"), say("Hi.", "msg_1"), air("Stopped", "error")], PROFILES["claude"])
    assert [o["text"] for o in view.json() if o["item"] == "notice"] == ["Reconnecting", "Stopped"]
    assert messages(view) == ["Hi."]


@pytest.mark.parametrize(
    ("meta", "notice"),
    [
        (air("Retrying Claude, attempt 1 of 10.", "warning", category="limit"),
         "Retrying Claude, attempt 1 of 10.\nThe model's server reports that a limit is used up."),
        (air("Retrying Claude, attempt 1 of 10.", "warning", category="service"),
         "Retrying Claude, attempt 1 of 10.\nThe model's server reports an error, or that it is busy."),
        (air("Retrying Claude, attempt 1 of 10.", "warning", category="limit", details="Too many requests."),
         "Retrying Claude, attempt 1 of 10.\nToo many requests."),
        (air("Stopped.", "error", category="limit"), "Stopped."),
        (codex("Reconnecting... 4/5", additionalDetails="We are busy.", willRetry=True),
         "Reconnecting... 4/5\nWe are busy."),
        (codex("Reconnecting... 4/5", additionalDetails=None, willRetry=True), "Reconnecting... 4/5"),
        (codex("No money left", additionalDetails="Pay.", willRetry=False), "No money left"),
    ],
)  # fmt: skip
def test_the_notice_of_a_retry_tells_its_cause(meta: dict[str, Any], notice: str) -> None:
    view = folded([meta], PROFILES["codex" if "codex" in meta["_meta"] else "claude"])
    assert [o["text"] for o in view.json() if o["item"] == "notice"] == [notice]


def test_wording_alone_is_never_a_notice() -> None:
    words = ["Warning: Model metadata for `x` not found.", "API Error: 400", "Queued for the next turn. (1 queued)"]
    for text in words:
        assert messages(folded([say(text)])) == [text]
        assert messages(folded([say(text, "msg_1")], PROFILES["claude"])) == [text]
        assert messages(folded([say(text, "msg_1")], PROFILES["codex"])) == [text]


@pytest.mark.parametrize("which", ["New", "Resumed"])
def test_what_gptme_says_when_it_opens_a_session_is_no_answer(which: str) -> None:
    greeting = f"ℹ️ {which} session\nUsing model: local/scripted\nUsing workspace: /home/ann"
    view = folded([say(greeting), say("An answer.")], profile_for("gptme"))
    assert messages(view) == ["An answer."]


def test_what_gemini_says_when_its_mode_changes_is_no_answer() -> None:
    view = folded([say("An answer."), say("[MODE_UPDATE] autoEdit"), say("[MODE_UPDATE] yolo")], PROFILES["gemini"])
    assert messages(view) == ["An answer."]


def test_what_an_agent_says_after_its_first_words_is_not_queue_prose() -> None:
    view = folded([say("It says: "), say("Queued for the next turn. (1 queued)")], PROFILES["hermes"])
    assert messages(view) == ["It says: Queued for the next turn. (1 queued)"]


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("@agentclientprotocol/claude-agent-acp", "claude"),
        ("@zed-industries/claude-code-acp", "claude"),
        ("@agentclientprotocol/codex-acp", "codex"),
        ("codex-acp", "codex-zed"),
        ("@zed-industries/codex-acp", "codex-zed"),
        ("gemini-cli", "gemini"),
        ("qwen-code", "qwen"),
        ("OpenCode", "opencode"),
        ("Kimi Code CLI", "kimi"),
        ("hermes-agent", "hermes"),
        ("@mistralai/mistral-vibe", "vibe"),
        ("fast-agent-acp", "fast-agent"),
        ("pi-acp", "pi"),
        ("openclaw-acp", "openclaw"),
        ("", "careful"),
        ("picasso", "careful"),
        ("somebody new", "careful"),
    ],
)
def test_a_profile_is_found_by_the_name_an_agent_gives(name: str, profile: str) -> None:
    assert profile_for(name).name == profile


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("10%\r20%\r100%\n", "100%\n"),
        ("abcdef\rxy\n", "xycdef\n"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("20%\r", "20%"),
        ("abc\r\x1b[Kd", "d"),
        ("abc\r\x1b[2Kd", "d"),
        ("\x1b[31mabc\rx\x1b[0m", "xbc"),
        ("\x1b[1mbold\x1b[0m and \x1b]8;;https://e.org\x07a link\x1b]8;;\x07", "bold and a link"),
        ("ab\x08c\n", "ac\n"),
        ("abcd\x1b[2D-\n", "ab-d\n"),
        ("abcd\x1b[1K\n", "    \n"),
        ("abcd\x1b[2Gx\x1b[99Cy\n", "axcdy\n"),
        ("one\ntwo\x1b[1A\x1b[2J\n", "one\ntwo\n"),
        ("cut\x1b[3", "cut"),
        ("\x1b[31", ""),
        ("", ""),
    ],
)
def test_output_is_displayed_as_a_terminal_would(text: str, seen: str) -> None:
    assert render_terminal(text) == seen


@given(st.text(st.characters(exclude_characters="\r\x08\x1b")))
def test_text_without_controls_of_the_line_is_displayed_as_it_is(text: str) -> None:
    assert render_terminal(text) == text


@given(st.text(st.sampled_from("ab\r\n\x1b[K2m")))
def test_display_never_makes_text_up(text: str) -> None:
    assert not set(render_terminal(text)) - set(text) - {" "}
    assert len(render_terminal(text)) <= len(text)


ODD: list[Any] = [None, 7, "x", [], {}, {"content": None}, {"content": {"text": "x"}}, {"status": "pending"}]


def test_a_plan_holds_only_steps_with_a_text() -> None:
    entries = [*ODD, {"content": "x", "status": None, "priority": 3}, {"content": "y", "status": "completed"}]
    (told,) = folded([{"sessionUpdate": "plan", "entries": entries}]).json()
    assert told["entries"] == [{"content": "x"}, {"content": "y", "status": "completed"}]


@pytest.mark.parametrize("entries", [ODD, [None], None, "x", {"content": "x"}])
def test_a_plan_that_cannot_be_read_changes_nothing(entries: Any) -> None:
    view = folded([plan("x"), {"sessionUpdate": "plan", "entries": entries}])
    assert [o["entries"] for o in view.json()] == [plan("x")["entries"]]
    assert list(folded([{"sessionUpdate": "plan", "entries": entries}]).json()) == []


def test_an_empty_plan_takes_the_steps_away() -> None:
    assert [o["entries"] for o in folded([plan("x"), plan()]).json()] == [[]]
