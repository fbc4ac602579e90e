"""ACP v2's own updates: whole messages are upserts by id, chunks append, terminals speak base64."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from stream_help import Update, call, folded, messages, result, run, say, think, thoughts, tool

from semel.acp_stream import CAREFUL, Changed, Fold, Grew


def whole(text: str | None, mid: str = "m", kind: str = "agent_message") -> Update:
    content = None if text is None else [{"type": "text", "text": text}]
    return {"sessionUpdate": kind, "messageId": mid, "content": content}


def output(data: bytes, terminal: str = "term") -> Update:
    encoded = base64.b64encode(data).decode()
    return {"sessionUpdate": "terminal_output_chunk", "terminalId": terminal, "data": encoded}


def refers(terminal: str = "term", **fields: Any) -> Update:
    return result("t", content=[{"type": "terminal", "terminalId": terminal}], **fields)


def test_a_whole_message_is_an_upsert_by_its_id() -> None:
    assert messages(folded([whole("One."), whole("Two.", "n"), whole("One and more.")])) == ["One and more.", "Two."]
    assert messages(folded([say("Strea", "m"), say("med.", "m"), whole("Streamed.")])) == ["Streamed."]
    assert thoughts(folded([whole("Hm.", kind="agent_thought")])) == ["Hm."]


def test_omitted_content_stays_and_null_clears_it() -> None:
    omitted = {"sessionUpdate": "agent_message", "messageId": "m"}
    assert messages(folded([whole("One."), omitted])) == ["One."]
    assert messages(folded([whole("One."), whole(None)])) == [""]


def test_an_upsert_says_only_what_is_new() -> None:
    a_fold = Fold()
    a_fold.update(whole("One"))
    assert a_fold.update(whole("One.")) == [Grew(1, ".")]
    assert a_fold.update(whole("Redacted")) == [Changed(1, {"text": "Redacted"})]
    assert a_fold.update(whole("Redacted")) == []


def test_chunks_after_a_whole_message_append() -> None:
    assert messages(folded([whole("One"), say(", two", "m"), say(".", "m")])) == ["One, two."]


def test_tool_call_content_chunks_append() -> None:
    def chunk(text: str) -> Update:
        content = {"type": "content", "content": {"type": "text", "text": text}}
        return {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": content}

    a_fold, _ = run([call(), chunk("a"), chunk("b\n"), chunk("b\n")], CAREFUL)
    assert [item.text for item in a_fold.items()] == ["ab\nb\n"]


@pytest.mark.parametrize("reference_first", [True, False])
def test_a_terminals_bytes_belong_to_the_call_that_refers_to_it(reference_first: bool) -> None:
    said = [output(b"caf"), output("é".encode()[:1]), output("é".encode()[1:] + b"\n")]
    updates = [call(), refers(), *said] if reference_first else [call(), *said, refers()]
    exited = {"sessionUpdate": "terminal_update", "terminalId": "term", "exitStatus": {"exitCode": 3, "signal": None}}
    shown = tool(folded([*updates, exited, result(status="failed")]))
    assert (shown["output"], shown["exit"], shown["status"]) == ("café\n", 3, "failed")


def test_a_terminals_snapshot_is_not_shown_beside_its_chunks() -> None:
    snapshot = {
        "sessionUpdate": "terminal_update",
        "terminalId": "term",
        "output": {"data": base64.b64encode(b"ab").decode()},
    }
    assert tool(folded([call(), refers(), output(b"a"), snapshot, output(b"b"), output(b"c")]))["output"] == "abc"


def test_what_is_no_base64_says_nothing() -> None:
    odd: Update = {"sessionUpdate": "terminal_output_chunk", "terminalId": "term", "data": "*"}
    assert tool(folded([call(), refers(), odd]))["output"] == ""


def test_a_replay_of_whole_messages_is_known_history() -> None:
    live = [{"_prompt": "go"}, whole("One."), {"_end_turn": True}]
    again = [{"_load": True}, whole("go", "u", "user_message"), whole("One."), whole("Else.", "x")]
    view = folded([*live, *again])
    assert [(o["text"], o.get("history")) for o in view.json() if o["item"] == "message"] == [
        ("go", None),
        ("One.", None),
        ("Else.", True),
    ]


def test_an_accepted_prompt_is_not_shown_twice() -> None:
    view = folded([{"_prompt": "go"}, whole("go", "u", "user_message"), say("ok", "m")])
    assert view.texts(role="user") == ["go"]


def test_a_notice_is_a_notice() -> None:
    view = folded([{"sessionUpdate": "notice", "message": "Careful."}])
    assert [o["text"] for o in view.json()] == ["Careful."]


def test_text_after_a_cleared_thought_is_shown() -> None:
    updates = [think("x", "m"), whole(None, kind="agent_thought"), think("y", "m"), think("z", "m")]
    assert thoughts(folded(updates)) == ["yz"]


def test_a_list_of_content_replaces_what_its_chunks_said() -> None:
    chunk = {
        "sessionUpdate": "tool_call_content_chunk",
        "toolCallId": "t",
        "content": {"type": "content", "content": {"type": "text", "text": "old"}},
    }
    new = result(content=[{"type": "content", "content": {"type": "text", "text": "new"}}])
    a_fold, _ = run([call(), chunk, chunk, new, chunk], CAREFUL)
    assert [item.text for item in a_fold.items()] == ["newold"]
