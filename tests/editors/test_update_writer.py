"""What the update writer writes for one editor, case by case."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from editor_help import StreamPlayer, answer, call, content, delta, line_of, prompt, request, result, say, start, update

from semel.faces.acp.alone.stream import MAX_WAITING_BYTES
from semel.faces.acp.editor_profiles import EDITOR_PROFILES, read_editor_profile
from semel.faces.acp.updates.call_writer import FREE_CHARS, SNAPSHOT_INTERVAL_S
from semel.faces.acp.updates.line_writer import BEGAN_AGAIN_REMARK

PAGE = Path(__file__).parent.parent.parent / "docs" / "editors.md"
LONG = "A sentence that is long enough to be told from chance, and then some more words. "
WHOLE = "".join(f"Sentence {n} differs from the others. " for n in range(200))  # longer than any honest repeat


def texts(player: StreamPlayer, role: str = "agent") -> list[str]:
    return player.editor.sessions["s"].texts(role) if "s" in player.editor.sessions else []


def ask(player: StreamPlayer, *messages: dict[str, object]) -> StreamPlayer:
    """Send a prompt, and what the agent says to it."""
    player.say(prompt())
    for message in messages:
        player.hear(message)
    return player


# ---- editor profiles


@pytest.mark.parametrize("name", EDITOR_PROFILES)
def test_the_page_says_of_each_editor_what_its_profile_says(name: str) -> None:
    known = PAGE.read_text().partition("## What is known of editors")[2].splitlines()
    row = next(line for line in known if re.match(rf"\| {name.split('.')[0]} ", line, re.I))
    _, _, outside, of_others, dialog, in_a_row, _ = (cell.strip() for cell in row.split("|"))
    profile = EDITOR_PROFILES[name]
    assert outside == ("comes with your next prompt" if profile.out_of_turn == "until_prompt" else "shown at once")
    assert of_others.startswith(
        "drawn" if profile.out_of_turn == "push" else "a quotation" if profile.drops_user_text else "a m"
    )
    words = {"on_cancel": "closes", "with_its_call": "closes", "never": "stays", "no_dialog": "it has none"}
    assert dialog == words[profile.dialog_closes]
    assert in_a_row.startswith("get an empty line" if profile.joins_messages else "told apart")


def test_an_unmeasured_editor_is_made_to_wait() -> None:
    assert read_editor_profile({"clientInfo": {"name": "something new"}}).out_of_turn == "until_prompt"
    assert (
        read_editor_profile({"clientInfo": {"name": "Zed"}})
        == read_editor_profile({"clientInfo": {"name": "zed"}})
        == EDITOR_PROFILES["zed"]
    )


# ---- messages


def test_a_line_that_says_what_the_view_says_passes_byte_for_byte() -> None:
    player = start()
    player.say(prompt())
    line = (
        b'{"params": {"update":{"content":{"text":"h\\u00e9","type":"text","annotations":null},"x":1,"messageId":"m",'
    )
    line += b'"sessionUpdate":"agent_message_chunk"},  "sessionId":"s"},"method":"session/update","jsonrpc":"2.0"}\r\n'
    assert player.stream.handle_agent_line(line, 1.0) == [line]
    assert player.stream.handle_agent_line(line, 1.0) == [line]


def test_messages_without_an_id_get_one_each() -> None:
    player = ask(start(), say("one"), call(), result(status="completed"), say("two "), say("more"))
    assert texts(player) == ["one", "two more"]
    assert len(set(player.editor.sessions["s"].order)) == 3


def test_an_id_that_is_used_again_after_a_tool_call_becomes_another() -> None:
    player = ask(start(), say("one", "m"), call(), result(status="completed"), say("two", "m"))
    assert texts(player) == ["one", "two"]


def test_a_copy_of_a_streamed_message_is_not_shown() -> None:
    pieces = [say(LONG[n : n + 5], "m") for n in range(0, len(LONG), 5)]
    assert texts(ask(start(), *pieces, say(LONG, "other"))) == [LONG]


def test_a_prompt_that_comes_back_is_not_shown() -> None:
    player = start()
    player.say(prompt("What is the time?"))
    player.hear(say("What is the time?", "u", "user_message_chunk"))
    assert texts(player, "user") == []


def test_a_repeated_start_inside_one_message_is_shown_once_while_it_streams() -> None:
    player = start(agent="codex-acp")
    player.say(prompt())
    seen = []
    for text in (WHOLE, WHOLE):
        for n in range(0, len(text), 50):
            player.hear(say(text[n : n + 50]))
            seen.append(sum(map(len, texts(player))))
    player.hear(say("The end."))
    player.hear(answer())
    assert texts(player) == [WHOLE + "The end."]
    assert max(seen) == len(WHOLE)


def test_a_text_that_only_begins_like_the_one_before_is_shown_whole() -> None:
    player = ask(start(agent="codex-acp"), say("ha"), say("ha"), say("ha"), say(" ho"), answer())
    assert texts(player) == ["hahaha ho"]
    player = ask(start(), say("Done. More", "a"), say("Done.", "b"), say(" Else", "b"), answer())
    assert texts(player) == ["Done. More", "Done. Else"]


def test_an_equal_message_is_shown_at_the_latest_before_the_answer() -> None:
    player = ask(start(), say("Yes.", "a"), say("Yes.", "b"), say("Yes.", "c"))
    player.hear(answer())
    assert texts(player) == ["Yes.", "Yes.", "Yes."]
    assert json.loads(player.out[-1])["id"] == 1


def test_no_text_waits_once_it_is_known_to_be_no_repeated_start() -> None:
    player = ask(start(), say("Yes", "a"), say("Yes", "b"))
    assert texts(player) == ["Yes"]
    player.hear(say(", but", "b"))
    assert texts(player) == ["Yes", "Yes, but"]


def test_after_a_tool_has_run_an_equal_message_does_not_wait() -> None:
    player = ask(start(), say("Yes.", "a"), call(), result(status="completed"), say("Yes.", "b"))
    assert texts(player) == ["Yes.", "Yes."]


def test_withheld_text_keeps_its_place_before_a_tool_call() -> None:
    player = ask(start(), say("Yes.", "a"), say("Yes.", "b"), call(), answer())
    assert player.editor.sessions["s"].order == ["a", "b", "t"]


def test_a_repeated_start_in_other_words_is_announced() -> None:
    failure = update("session_info_update", _meta={"jetbrains": {"air": {"sessionFailure": {
        "title": "Stream broke", "severity": "warning"}}}})  # fmt: skip
    player = ask(start(), say("First wording, which will vanish", "a"), failure, say("Second wording.", "b"), answer())
    assert texts(player) == ["First wording, which will vanish", "Stream broke", "Second wording."]
    signal = {"jsonrpc": "2.0", "method": "_session/retrying", "params": {"sessionId": "s", "category": "x"}}
    player = ask(start(agent="vibe"), say("First words", "a"), signal, say("First words and more", "b"), answer())
    assert [text for text in texts(player) if "trying again" not in text] == ["First words and more"]
    assert BEGAN_AGAIN_REMARK not in texts(player)


def test_editors_that_join_messages_get_an_empty_line_between_them() -> None:
    player = ask(start(client="CodeCompanion.nvim"), say("one", "a"), say("two", "b"), say("!", "b"), answer())
    assert "".join(texts(player)) == "one\n\ntwo!"
    player = ask(start(client="zed"), say("one", "a"), say("two", "b"), answer())
    assert texts(player) == ["one", "two"]


def test_a_message_that_was_withheld_is_not_joined_to_what_follows() -> None:
    asked_for = update("tool_call", toolCallId="t", title="Run", status="pending")
    said = (say("one", "a"), asked_for, say("one", "b"), say("two", "u", "user_message_chunk"))
    player = ask(start(client="CodeCompanion.nvim"), *said, answer())
    assert texts(player) == ["one", "one", "\n\n> two"]


def test_a_notice_is_one_where_the_editor_shows_notices() -> None:
    failure = update(
        "session_info_update", _meta={"codex": {"error": {"message": "No money\nleft", "willRetry": False}}}
    )
    player = ask(start({"session": {"notices": {}}}), failure)
    (notice,) = [other for other in player.editor.sessions["s"].others if other["sessionUpdate"] == "notice"]
    assert notice == {"sessionUpdate": "notice", "severity": "info", "title": "No money", "description": "left"}
    assert texts(ask(start(), failure)) == ["No money\nleft"]


def test_an_attachment_stays_in_its_message() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "aGk="}
    player = ask(start(), say("Look: "), update("agent_message_chunk", content=image), say("nice."))
    chunks = [json.loads(line)["params"]["update"] for line in player.out if b"_chunk" in line]
    assert [chunk["content"]["type"] for chunk in chunks] == ["text", "image", "text"]
    assert len({chunk["messageId"] for chunk in chunks}) == 1


def test_halves_of_a_surrogate_pair_are_joined() -> None:
    player = ask(start(), say("smile \ud83d", "m"), say("\ude00!", "m"), answer())
    assert texts(player) == ["smile \U0001f600!"]


# ---- tool calls

DIALECTS = ("terminal_output", "terminal_output_delta", "terminal-output")


@pytest.mark.parametrize("key", DIALECTS)
def test_output_in_meta_is_shown_as_content_while_the_tool_runs(key: str) -> None:
    player = ask(start(), call(content=[{"type": "terminal", "terminalId": "t"}]))
    shown = player.editor.sessions["s"].calls["t"]
    assert "content" not in shown.fields
    for n in range(5):
        player.now += 1.0
        player.hear(delta(f"tick {n}\n", key))
        assert shown.text.split("\n")[n] == f"tick {n}"
    player.hear(result(status="completed"))
    assert shown.text == "".join(f"tick {n}\n" for n in range(5))
    assert shown.fields["status"] == "completed"


def test_an_editor_with_terminals_gets_the_agents_lines() -> None:
    player = start({"_meta": {"terminal_output": True}})
    player.say(prompt())
    terminal = {"content": [{"type": "terminal", "terminalId": "t"}], "_meta": {"terminal_info": {"terminal_id": "t"}}}
    said = [call(**terminal), delta("one\n"), delta("two\n"), result(status="completed")]
    before = len(player.out)
    for message in said:
        player.hear(message)
    assert player.out[before:] == [line_of(message) for message in said]


def test_cumulative_terminal_output_becomes_deltas() -> None:
    player = start({"_meta": {"terminal_output": True}}, agent="claude-agent-acp")
    terminal = {"content": [{"type": "terminal", "terminalId": "t"}], "_meta": {"terminal_info": {"terminal_id": "t"}}}
    text = "".join(f"line {n}\n" for n in range(100))
    ask(player, call(**terminal), *(delta(text[: n * 7]) for n in range(1, 101)), delta(text), answer())
    shown = player.editor.sessions["s"].calls["t"]
    assert shown.terminal == text
    assert shown.sent < 40 * len(text)  # the deltas sent again and again are 50 times the text


def test_cumulative_content_is_sent_at_most_twice_a_second_and_at_the_end() -> None:
    text = "".join(f"line {n} of the output\n" for n in range(2_000))
    player = ask(start(), call())
    size = len(text) // 1_000
    for n in range(1, 1_001):
        player.hear(result(status="in_progress", content=content(text[: n * size])))
    player.hear(result(status="completed", content=content(text)))
    shown = player.editor.sessions["s"].calls["t"]
    assert shown.text == text
    assert shown.sent < 3 * len(text)
    sent = [line for line in player.out if b'"content":[' in line or b'"content": [' in line]
    assert len(sent) <= 10.0 / SNAPSHOT_INTERVAL_S + 2


@pytest.mark.parametrize("pause", [0.001, 0.05, 1.0])
def test_long_output_costs_at_most_three_times_its_bytes(pause: float) -> None:
    player = ask(start(), call())
    for n in range(5_000):
        player.now += pause
        player.hear(delta(f"line {n} of the long output abcdefghijklmnopqrstuvwxyz\n"))
    player.hear(result(status="completed"))
    shown = player.editor.sessions["s"].calls["t"]
    output = "".join(f"line {n} of the long output abcdefghijklmnopqrstuvwxyz\n" for n in range(5_000))
    assert shown.sent <= 3 * len(output)
    match = re.fullmatch(r"(.*)\n\[(\d+) characters not shown\]\n(.*)", shown.text, re.DOTALL)
    assert match is not None
    assert output.startswith(match[1]) and output.endswith(match[3])
    assert len(match[1]) + int(match[2]) + len(match[3]) == len(output)


def test_output_that_comes_too_fast_is_shown_within_half_a_second() -> None:
    player = ask(start(), call(), delta("one\n"), delta("two\n"))
    shown = player.editor.sessions["s"].calls["t"]
    assert shown.text == "one\n"
    due_at = player.stream.due_at
    assert due_at is not None and 0 < due_at - player.now <= SNAPSHOT_INTERVAL_S
    assert player.stream.flush(due_at - 0.01) == []
    player.take(player.stream.flush(due_at))
    assert shown.text == "one\ntwo\n"
    assert player.stream.due_at is None


def test_a_call_that_prints_a_line_a_second_shows_each_at_once() -> None:
    player = ask(start(), call())
    for n in range(100):
        player.now += 1.0
        player.hear(delta("tick\n"))
        assert player.editor.sessions["s"].calls["t"].text == "tick\n" * (n + 1)
    assert player.editor.sessions["s"].calls["t"].sent < 2 * FREE_CHARS + 100 * 300


def test_a_final_result_that_is_sent_again_is_sent_once() -> None:
    final = result(status="completed", content=content("the result\n" * 500))
    player = ask(start(), call(), final)
    before = len(player.out)
    player.hear(final)
    assert player.out[before:] == []


def test_the_end_of_a_call_brings_what_was_left_out_while_it_ran() -> None:
    output = "".join(f"line {n}\n" for n in range(1_000))
    player = ask(start(), call(), delta(output))
    shown = player.editor.sessions["s"].calls["t"]
    assert "characters not shown" in shown.text
    player.hear(result(status="completed"))
    assert shown.text == output


def test_tags_around_a_result_are_not_shown() -> None:
    wrapped = '<untrusted_tool_result source="x">\nthe result\n</untrusted_tool_result>'
    player = ask(start(), call(), result(status="completed", content=content(wrapped)))
    assert player.editor.sessions["s"].calls["t"].text == "the result"


def test_parallel_calls_keep_their_own_output() -> None:
    player = ask(start(), call("a"), call("b"))
    for n in range(10):
        player.now += 1.0
        player.hear(delta(f"a{n}\n", cid="a"))
        player.hear(delta(f"b{n}\n", cid="b"))
    player.hear(result("b", status="completed"))
    player.hear(result("a", status="failed"))
    calls = player.editor.sessions["s"].calls
    assert [calls[name].text for name in "ab"] == ["".join(f"{name}{n}\n" for n in range(10)) for name in "ab"]
    assert [calls[name].fields["status"] for name in "ab"] == ["failed", "completed"]


def test_the_first_word_about_a_call_is_tool_call() -> None:
    player = ask(start(), result("late", title="Read x", kind="read", status="completed", locations=[{"path": "/x"}]))
    fields = player.editor.sessions["s"].calls["late"].fields
    assert (fields["title"], fields["kind"], fields["locations"]) == ("Read x", "read", [{"path": "/x"}])


def test_diffs_and_locations_pass_and_are_kept_beside_output() -> None:
    diff = {"type": "diff", "path": "/x", "oldText": "a", "newText": "b"}
    edit = result(content=[diff], locations=[{"path": "/x", "line": 3}])
    player = ask(start(), call(), edit)
    assert line_of(edit) in player.out
    player.hear(delta("formatted\n"))
    player.hear(result(status="completed"))
    shown = player.editor.sessions["s"].calls["t"]
    assert diff in shown.fields["content"] and shown.text == "formatted\n"
    assert shown.fields["locations"] == [{"path": "/x", "line": 3}]


def test_a_terminal_that_the_editor_made_is_left_in_place() -> None:
    player = start({"terminal": True})
    player.say({"jsonrpc": "2.0", "id": 7, "result": {"terminalId": "term-1"}})
    shows = call(content=[{"type": "terminal", "terminalId": "term-1"}])
    ask(player, shows, call("u", content=[{"type": "terminal", "terminalId": "nobodys"}]))
    assert line_of(shows) in player.out
    assert "content" not in player.editor.sessions["s"].calls["u"].fields


def test_a_cancelled_turn_ends_its_calls_and_nothing_revives_them() -> None:
    player = ask(start(), call())
    player.say({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}})
    shown = player.editor.sessions["s"].calls["t"]
    assert shown.fields["status"] == "failed"
    player.hear(result(status="in_progress"))
    player.hear(answer(1, stopReason="cancelled"))
    assert shown.fields["status"] == "failed"


def test_output_in_raw_output_alone_is_shown_as_content() -> None:
    raw = {"result": {"content": [{"type": "text", "text": "delivered"}]}, "error": None}
    player = ask(start(), call(), result(status="completed", rawOutput=raw))
    shown = player.editor.sessions["s"].calls["t"]
    assert shown.text.strip() == "delivered" and shown.fields["rawOutput"] == raw


def test_colours_and_fences_in_output_do_not_break_the_fence() -> None:
    player = ask(start(), call(), delta("\x1b[31mred\x1b[0m\n```\n"), result(status="completed"))
    (part,) = player.editor.sessions["s"].calls["t"].fields["content"]
    assert part["content"]["text"] == "````console\nred\n```\n````"


# ---- sessions


def test_a_session_that_is_loaded_again_is_shown_whole() -> None:
    player = ask(start(), say("The answer.", "m"), answer())
    player.say(request(2, "session/load"))
    for message in (say("go", "u", "user_message_chunk"), say("The ", "m"), say("answer.", "m")):
        player.hear(message)
    player.hear(answer(2, modes=None))
    assert texts(player) == ["The answer."] and texts(player, "user") == ["go"]
    assert json.loads(player.out[-1])["id"] == 2
    ask(player, say("The answer.", "n"), answer())
    assert texts(player) == ["The answer.", "The answer."]


def test_a_session_that_is_resumed_shows_nothing_that_the_editor_has() -> None:
    player = start(agent="hermes-agent")
    player.say(request(2, "session/resume"))
    for message in (say("go", None, "user_message_chunk"), say("Old answer."), call("old"), answer(2, modes=None)):
        player.hear(message)
    assert "s" not in player.editor.sessions
    assert texts(ask(player, say("New answer."), answer())) == ["New answer."]


def test_a_replay_that_goes_on_after_its_answer_is_shown_when_it_pauses() -> None:
    player = start(agent="gemini-cli")
    player.say(request(2, "session/load"))
    player.hear(answer(2, modes=None))
    player.hear(say("Old ", "a"))
    player.hear(say("answer.", "a"))
    assert texts(player) == []
    due_at = player.stream.due_at
    assert due_at is not None
    player.take(player.stream.flush(due_at))
    assert texts(player) == ["Old answer."]


OUTSIDE = {"zed": True, "toad": True, "agent-shell": True, "CodeCompanion.nvim": False, "acpx": False, "unknown": False}


@pytest.mark.parametrize("client", OUTSIDE)
def test_what_comes_outside_of_a_turn_waits_for_editors_that_drop_it(client: str) -> None:
    player = ask(start(client=client), say("In the turn.", "a"), answer())
    later = [say("Later.", "b"), call("c"), update("current_mode_update", currentModeId="x")]
    for message in later:
        player.hear(message)
    assert (texts(player) == ["In the turn.", "Later."]) is OUTSIDE[client]
    assert len(player.editor.sessions["s"].others) == 1
    player.say(prompt("again", 2))
    assert texts(player) == ["In the turn.", "Later."]
    assert "c" in player.editor.sessions["s"].calls


def test_what_waits_is_bounded_and_never_dropped() -> None:
    player = start(client="unknown")
    sent = [say(f"{n} " + "x" * 100_000, f"m{n}") for n in range(2 * MAX_WAITING_BYTES // 100_000)]
    for message in sent:
        player.hear(message)
    assert 0 < len(texts(player)) < len(sent)
    player.say(prompt())
    assert len(texts(player)) == len(sent)


def test_a_persons_text_is_quoted_for_editors_that_drop_it() -> None:
    spoken = say("On my phone:\nstop", "u", "user_message_chunk")
    assert texts(ask(start(client="agent-shell"), spoken, say("Stopping.", "m"))) == [
        "> On my phone:\n> stop",
        "\n\nStopping.",
    ]
    assert texts(ask(start(client="zed"), spoken), "user") == ["On my phone:\nstop"]


def test_another_version_of_acp_passes_untouched() -> None:
    player = StreamPlayer(client="zed")
    player.say({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
    player.hear(answer(0, protocolVersion=2))
    player.say(prompt())
    again = [say("twice", None), say("twice", None)]
    out = [player.stream.handle_agent_line(line_of(message), 1.0) for message in again]
    assert out == [[line_of(message)] for message in again]


UNREADABLE = [
    b"\n",
    b"not json\n",
    b"\xff\xfe\n",
    b'"text"\n',
    b"[]\n",
    b"[" * 100_000 + b"\n",
    b'{"jsonrpc":"2.0"}\n',
    b'{"method":"session/update"}\n',
    b'{"method":"session/update","params":{"sessionId":7,"update":{"sessionUpdate":"agent_message_chunk"}}}\n',
    b'{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk"}}}\n',
    b'{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update"}}}\n',
    b'{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":["x"]}}}\n',
    b'{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"never_heard_of","x":1}}}\n',
    b'{"method":7,"params":[]}\n',
    b'{"id":null,"error":{"code":-32700,"message":"x"}}\n',
    b'{"id":[1],"result":3}\n',
]


@pytest.mark.parametrize("line", UNREADABLE, ids=range(len(UNREADABLE)))
def test_what_cannot_be_read_passes_byte_for_byte(line: bytes) -> None:
    player = start()
    player.say(prompt())
    assert player.stream.handle_editor_line(line, 0.0) == []
    assert player.stream.handle_agent_line(line, 0.0) == [line]


def test_sessions_do_not_mix() -> None:
    player = start()
    for session in ("s", "other"):
        player.say(request(session, "session/prompt", session, prompt=[]))
    for n in range(10):
        for session in ("s", "other"):
            player.hear(update("agent_message_chunk", session, content={"type": "text", "text": f"{session}{n} "}))
    for session in ("s", "other"):
        assert player.editor.sessions[session].texts() == ["".join(f"{session}{n} " for n in range(10))]
