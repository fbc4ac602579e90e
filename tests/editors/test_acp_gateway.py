"""`semel acp` through a gateway, as an editor sees it: sessions, prompts, permissions, and what others say."""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path

import pytest
from gateway_editor import Desk, opened_desk
from system_house import script

from semel.faces.acp.setup_lines import EDITORS
from semel.testing import scripted_agent

ALLOW = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def test_a_prompt_is_answered_when_its_turn_has_ended_and_is_not_echoed(desk: Desk) -> None:
    editor = desk.editor()
    session = editor.new()
    steps = script(
        {"think": "hm", "chunks": 2},
        {"text": "One two three.", "chunks": 5},
        {"tool": "ls", "output": ["a\n", "b\n"]},
        "Done.",
    )
    assert editor.prompt(steps) == "end_turn"
    assert (editor.texts(), editor.texts("thought"), editor.texts("user")) == (["One two three.", "Done."], ["hm"], [])
    (call,) = editor.shown.calls.values()
    assert (call.fields["status"], call.fields["title"], call.text) == ("completed", "ls", "a\nb\n")
    assert desk.house.texts(session) == editor.texts()
    assert editor.messages[-1]["result"] == {"stopReason": "end_turn"}, "all that was said came before"


def test_what_others_say_is_shown_at_once_in_a_direct_editor_and_their_turn_too(desk: Desk) -> None:
    editor = desk.editor()
    session = editor.new()
    editor.prompt("say: first")
    desk.house.say(session, "say: from the phone")
    editor.sees("from the phone")
    assert editor.texts("user") == ["say: from the phone"]
    assert editor.prompt("say: again") == "end_turn"
    assert editor.texts() == ["first", "from the phone", "again"]


def test_what_others_say_waits_for_the_next_prompt_of_an_unmeasured_editor(desk: Desk) -> None:
    editor = desk.editor(client="unheard-of")
    session = editor.new()
    editor.prompt("say: first")
    for number in range(3):
        desk.house.say(session, f"say: phone {number}")
        desk.house.idle(session)
    shown = len(editor.messages)
    assert editor.texts() == ["first"]
    editor.prompt("say: second")
    assert editor.texts() == ["first", "phone 0", "phone 1", "phone 2", "second"]
    assert editor.texts("user") == [f"say: phone {number}" for number in range(3)]
    assert len(editor.messages) > shown


def test_an_editor_that_draws_pushed_turns_gets_another_persons_turn_as_one(desk: Desk) -> None:
    editor = desk.editor(client="agent-shell")
    session = editor.new()
    desk.house.say(session, "say: pushed")
    push = editor.until(lambda: [m for m in editor.messages if m.get("method") == "session/push"], "the push")[0]
    assert push["params"]["prompt"] == [{"type": "text", "text": "say: pushed"}]
    editor.sees("say: pushed", "user")  # agent-shell draws what the person said from this alone
    editor.sees("pushed")
    editor.until(lambda: any("session_push_end" in str(m) for m in editor.messages), "its end")
    editor.send(id=push["id"], result={})
    editor.prompt("say: own")
    assert [text.strip() for text in editor.texts()] == ["pushed", "own"]
    assert editor.texts("user") == ["say: pushed"]


def test_a_message_that_waited_is_not_pushed_after_it_was_quoted_and_a_command_is_no_turn(
    desk: Desk, tmp_path: Path
) -> None:
    """agent-shell takes no further turn before the end of the one that it draws."""
    editor = desk.editor(client="agent-shell")
    session = editor.new()
    gate = tmp_path / "go on"
    desk.house.say(session, script("First.", {"tool": "ls"}, {"wait": str(gate)}, "Over."))
    editor.sees("First.")
    desk.house.say(session, "say: second")
    editor.until(lambda: any("say: second" in text for text in editor.texts()), "the quotation")
    gate.touch()
    editor.until(lambda: any(text.strip() == "second" for text in editor.texts()), "its answer")
    desk.house.say(session, "/help")
    editor.until(lambda: any("/stop" in text for text in editor.texts()), "the answer to the command")
    desk.house.say(session, "say: third")
    editor.until(lambda: any(text.strip() == "third" for text in editor.texts()), "the last answer")
    pushed = [str(m["params"]["prompt"]) for m in editor.messages if m.get("method") == "session/push"]
    assert len(pushed) == 2 and "First." in pushed[0] and "say: third" in pushed[1]
    assert len([text for text in editor.texts() if "say: second" in text]) == 1
    assert len([text for text in editor.texts() if text.endswith(":** /help")]) == 1


@pytest.mark.parametrize("client", ["agent-shell", "CodeCompanion.nvim"])
def test_what_a_person_says_does_not_break_a_message_that_the_editor_joins_it_to(
    desk: Desk, tmp_path: Path, client: str
) -> None:
    editor = desk.editor(client=client)
    session = editor.new()
    gate = tmp_path / "go on"
    prompt = editor.begin(script("The an", {"wait": str(gate)}, "swer."))
    editor.sees("The an")
    desk.house.say(session, "say: on the way")
    desk.house.say(session, "/help")
    editor.until(lambda: len(desk.house.texts(session, "user")) == 3, "both messages")
    gate.touch()
    editor.answer_to(prompt)
    shown = "".join(editor.texts())
    assert shown.startswith("The answer.\n\n> **user:** say: on the way\n\n> **command:** /help\n\n/new ")
    assert shown.count("> **") == 2


def test_an_editor_that_refuses_pushed_turns_gets_them_as_a_quotation(desk: Desk) -> None:
    editor = desk.editor(client="agent-shell")
    session = editor.new()
    editor.prompt("say: First.")
    desk.house.say(session, "say: pushed")
    push = editor.until(lambda: [m for m in editor.messages if m.get("method") == "session/push"], "the push")[0]
    editor.send(id=push["id"], error={"code": -32000, "message": "Busy"})
    editor.until(lambda: "say: pushed" in "".join(editor.texts()), "the quotation")
    editor.until(lambda: "pushed" in [text.strip() for text in editor.texts()], "the answer")
    assert len([text for text in editor.texts() if "say: pushed" in text]) == 1
    assert "\n\n> **user:** say: pushed" in "".join(editor.texts()), "it is not joined to the message before"


def test_a_permission_is_answered_in_the_editor(desk: Desk) -> None:
    editor = desk.editor()
    session = editor.new()
    prompt = editor.begin(script({"permission": "rm", "options": ALLOW, "allowed": ["gone"], "denied": ["kept"]}))
    (request,) = editor.until(lambda: editor.asked, "the question")
    editor.choose(request, "yes")
    editor.answer_to(prompt)
    assert editor.texts() == ["gone"]
    (item,) = [
        item for item in desk.house.get(f"/v1/sessions/{session}/history")["items"] if item["kind"] == "permission"
    ]
    assert (item["answer"], item["by"], item["seen"]) == ("yes", "zed", item["seen"])
    dialog = editor.shown.calls[request["params"]["toolCall"]["toolCallId"]]
    assert list(editor.shown.calls.values()) == [dialog], "the dialog is about the call itself"
    assert dialog.fields["title"] == "rm"


def test_a_dialog_has_a_call_of_its_own_where_only_a_calls_end_closes_it(desk: Desk) -> None:
    editor = desk.editor(client="agent-shell")
    editor.new()
    prompt = editor.begin(script({"permission": "rm", "options": ALLOW, "allowed": ["gone"], "denied": ["kept"]}))
    (request,) = editor.until(lambda: editor.asked, "the question")
    editor.choose(request, "yes")
    editor.answer_to(prompt)
    dialog = editor.shown.calls[request["params"]["toolCall"]["toolCallId"]]
    assert (dialog.fields["status"], dialog.fields["title"]) == ("completed", "rm (allowed by agent-shell)")
    assert len(editor.shown.calls) == 2


def test_a_permission_that_the_phone_answers_closes_in_the_editor_and_a_late_answer_changes_nothing(desk: Desk) -> None:
    editor = desk.editor()
    session = editor.new()
    prompt = editor.begin(script({"permission": "rm", "options": ALLOW, "allowed": ["gone"], "denied": ["kept"]}))
    (request,) = editor.until(lambda: editor.asked, "the question")
    (item,) = [
        item for item in desk.house.get(f"/v1/sessions/{session}/history")["items"] if item["kind"] == "permission"
    ]
    answer = desk.house.post(f"/v1/sessions/{session}/answers", {"item": item["id"], "option": "no", "by": "phone"})
    assert answer.json()["outcome"] == "answered"
    editor.answer_to(prompt)
    assert editor.closed == [request["id"]] and editor.texts() == ["kept"]
    editor.choose(request, "yes")
    late = "Your answer to “rm” came too late: it was rejected by phone before. What you chose changed nothing."
    editor.sees(late)
    assert editor.prompt("say: on") == "end_turn" and editor.texts() == ["kept", late, "on"]
    dialog = editor.shown.calls[request["params"]["toolCall"]["toolCallId"]]
    assert dialog.fields["title"] == "rm (rejected by phone)"
    nothing = "No permission request is open here. None is open in another session, either."
    gone = f"That request is gone: No, by phone: rm. {nothing}"
    wrong = f"There is no option 9 here. {nothing}"
    for words, reply in (("/approve", gone), ("/approve 1", gone), ("/approve 9", wrong)):
        assert editor.prompt(words) == "end_turn" and editor.texts()[-1] == reply
    assert len(editor.texts()) == 6
    prompt = editor.begin(script({"permission": "rm", "options": ALLOW, "allowed": ["gone"], "denied": ["kept"]}))
    editor.until(lambda: editor.asked[1:], "the second question")
    assert editor.prompt("/approve") == "end_turn", "it counts for what the editor has shown"
    editor.answer_to(prompt)
    assert sorted(editor.texts()[-2:]) == ["Yes: rm", "gone"]


def test_a_failed_turn_is_an_error_in_the_words_that_people_see(desk: Desk) -> None:
    editor = desk.editor()
    editor.new()
    error = editor.prompt(script({"error": {"code": -32000, "message": "no credit"}}))
    assert error == desk.house.texts(editor.session, "notice")[-1] and "no credit" in error
    assert not any("no credit" in text for text in editor.texts())


def test_semels_commands_are_answered_at_once_and_listed(desk: Desk) -> None:
    editor = desk.editor()
    editor.new()
    kind = "available_commands_update"  # it comes after the answer
    (commands,) = editor.until(lambda: [one for one in editor.shown.others if one["sessionUpdate"] == kind], kind)
    assert {"stop", "help"} <= {one["name"] for one in commands["availableCommands"]}
    assert editor.prompt("/help") == "end_turn"
    assert "/stop" in editor.texts()[-1]


def test_modes_and_options_are_offered_set_and_told_to_other_editors(desk: Desk) -> None:
    editor, other = desk.editor(), desk.editor()
    opened = editor.call("session/new", cwd=str(desk.house.home), mcpServers=[])
    session = editor.session = opened["sessionId"]
    other.load(session)
    assert [option["id"] for option in opened["configOptions"]] == ["mode", "model", "effort", "search"]
    assert opened["modes"]["currentModeId"] == "auto"
    editor.call("session/set_mode", sessionId=session, modeId="ask")
    set_up = editor.call("session/set_config_option", sessionId=session, configId="effort", value="high")
    assert {one["id"]: one["currentValue"] for one in set_up["configOptions"]} == {
        "mode": "ask", "model": "brisk", "effort": "high", "search": False,
    }  # fmt: skip
    other.until(
        lambda: any(o.get("currentModeId") == "ask" for o in other.shown.others), "the mode in the other editor"
    )
    answer = editor.answer_to(editor.request("session/set_config_option", sessionId=session, configId="x", value="y"))
    assert "there is no option 'x'" in answer["error"]["message"]


def test_a_loaded_session_shows_what_was_said_once_and_goes_on_in_the_same_messages(desk: Desk, tmp_path: Path) -> None:
    editor = desk.editor()
    session = editor.new()
    gate = tmp_path / "go on"
    editor.prompt(script({"tool": "ls", "output": ["a\n"]}, "Listed."))
    prompt = editor.begin(script("Begun, ", {"wait": str(gate)}, {"text": "and ended.", "chunks": 3}))
    editor.until(lambda: "Begun, " in "".join(editor.texts()), "its begin")
    other = desk.editor(client="CodeCompanion.nvim")
    other.load(session)
    assert "".join(other.texts()).replace("\n", "").startswith("Listed.Begun, ")
    assert len(other.texts("user")) == 2
    gate.touch()
    editor.answer_to(prompt)
    third = desk.editor()
    third.load(session)
    assert third.texts() == editor.texts() == desk.house.texts(session)
    assert {name: call.text for name, call in third.shown.calls.items()} == {
        name: call.text for name, call in editor.shown.calls.items()
    }
    assert third.shown.order[-1] == editor.shown.order[-1], "messages keep their ids"


def test_an_editor_with_terminals_shows_a_commands_output_in_one(desk: Desk) -> None:
    editor = desk.editor(capabilities={"_meta": {"terminal_output": True}})
    editor.new()
    output = [f"line {number}\n" for number in range(2_000)]
    assert editor.prompt(script({"tool": "make", "output": output, "exit": 2}, "Failed.")) == "end_turn"
    (call,) = editor.shown.calls.values()
    kinds = [part["type"] for part in call.fields["content"]]
    assert kinds == ["terminal"] and call.fields["status"] == "failed"
    assert call.terminal.startswith("".join(output[:500])) and call.terminal.endswith("".join(output[-500:]))
    exits = [
        one["params"]["update"].get("_meta", {}).get("terminal_exit")
        for one in editor.messages
        if "params" in one and "update" in one["params"]
    ]
    assert [one["exit_code"] for one in exits if one] == [2]


def test_a_resumed_session_shows_nothing_of_what_was_said(desk: Desk) -> None:
    editor = desk.editor()
    session = editor.new()
    editor.prompt("say: before")
    other = desk.editor()
    other.load(session, "session/resume")
    assert other.texts() == []
    other.prompt("say: after")
    assert other.texts() == ["after"]
    editor.sees("after")
    assert editor.texts("user") == ["say: after"], "the first editor sees what the second one said"


def test_an_editor_may_go_on_in_a_session_that_it_never_opened_here(desk: Desk) -> None:
    """agent-shell does so when its agent was killed: no `session/load` comes before the prompt."""
    editor = desk.editor()
    session = editor.new()
    editor.prompt("say: before")
    editor.kill()
    other = desk.editor()
    other.session = session
    prompts = [other.begin(f"say: {number}") for number in range(3)]
    assert [other.answer_to(prompt)["result"]["stopReason"] for prompt in prompts] == ["end_turn"] * 3
    assert desk.house.texts(session, "user") == ["say: before", "say: 0", "say: 1", "say: 2"]
    said = desk.house.texts(session, "agent")
    assert said in (["before", "0", "1", "2"], ["before", "0", "2"]), "the agent answers the last of those that wait"
    assert other.texts() == said[1:]


def test_sessions_are_listed_by_folder_with_title_and_folder(desk: Desk, tmp_path: Path) -> None:
    editor = desk.editor()
    session = editor.new(tmp_path)
    editor.prompt("say: hello")
    listed = editor.call("session/list", cwd=str(tmp_path))["sessions"]
    assert [(one["sessionId"], one["cwd"]) for one in listed] == [(session, str(tmp_path))]
    assert session in [one["sessionId"] for one in editor.call("session/list")["sessions"]]
    refused = editor.answer_to(editor.request("session/load", sessionId=session, cwd="/", mcpServers=[]))
    assert refused["error"]["code"] == -32602 and str(tmp_path) in refused["error"]["message"]
    unknown = editor.answer_to(editor.request("session/load", sessionId="demo:no", cwd="/", mcpServers=[]))
    assert unknown["error"]["code"] == -32602


def test_an_agents_workspace_lists_the_sessions_without_a_folder(desk: Desk, tmp_path: Path) -> None:
    """The session of a chat works there, and is loaded from there."""
    desk.house.say("demo:phone:9", "say: hello")
    desk.house.idle("demo:phone:9")
    editor = desk.editor()
    own = editor.new(desk.house.data / "workspaces" / "demo")
    editor.new(tmp_path)
    listed = editor.call("session/list", cwd=f"{desk.house.data}/workspaces/../workspaces/demo")["sessions"]
    keys = [one["sessionId"] for one in listed]
    assert keys[0] == own and "demo:phone:9" in keys and editor.session not in keys
    (chat,) = [one for one in listed if one["sessionId"] == "demo:phone:9"]
    editor.load("demo:phone:9", folder=Path(chat["cwd"]))
    assert editor.texts()[-1] == "hello"


def test_a_named_session_is_opened_and_what_was_said_there_is_shown(desk: Desk) -> None:
    desk.house.say("demo:phone", "say: from the phone")
    desk.house.idle("demo:phone")
    editor = desk.editor("--session", "demo:phone")
    assert editor.new() == "demo:phone"
    editor.sees("from the phone")


def test_a_command_names_the_configured_agent_that_it_starts(desk: Desk) -> None:
    """As agent-shell's prefix puts it; a path does not count."""
    command = scripted_agent.command()
    editor = desk.editor("--", *command)
    assert editor.new().startswith("demo:editor:")


@pytest.mark.parametrize(("command", "words"), [
    (["/opt/bin/claude-agent-acp"], "command not found: '/opt/bin/claude-agent-acp'"),
    (["sh", "-c", "echo no key >&2; exit 3"], "exited with code 3; it said: no key. Nothing is kept"),
    (["echo", "hello"], "it printed 'hello' where ACP was expected"),
    (["yes"], "printed line after line that is not ACP; it printed 'y / y / y / y / y' where ACP was expected"),
    (["cat"], "refused `initialize`"),
])  # fmt: skip
def test_nothing_is_left_of_a_command_that_does_not_start_as_an_agent(
    desk: Desk, command: list[str], words: str
) -> None:
    before = desk.house.get("/v1/status")["configured"], desk.house.get("/v1/sessions")["sessions"]
    editor = desk.editor("--", *command)
    answer = editor.answer_to(editor.request("session/new", cwd=str(desk.house.home), mcpServers=[]))
    assert words in answer["error"]["message"]
    assert (desk.house.get("/v1/status")["configured"], desk.house.get("/v1/sessions")["sessions"]) == before
    assert not (desk.house.data / "editor-agents").exists()
    assert [folder.name for folder in (desk.house.data / "workspaces").iterdir()] == ["demo"]


def test_no_session_is_left_of_a_configured_agent_that_does_not_start(tmp_path: Path) -> None:
    with opened_desk(tmp_path, '[agents.broken]\ncommand = ["sh", "-c", "exit 4"]\n') as desk:
        editor = desk.editor("--agent", "broken")
        answer = editor.answer_to(editor.request("session/new", cwd=str(desk.house.home), mcpServers=[]))
        assert "exited with code 4" in answer["error"]["message"]
        assert desk.house.get("/v1/sessions")["sessions"] == []


def test_only_the_gateways_own_user_adds_a_command_and_everybody_else_finds_the_configured_ones(desk: Desk) -> None:
    bodies = [{"command": command, "path": os.defpath} for command in (scripted_agent.command(), ["env", "true"])]
    answers = [desk.house.post("/v1/agents", body) for body in bodies]
    assert [answer.status_code for answer in answers] == [200, 400]
    assert answers[0].json() == {"agent": "demo"} and "unix socket" in answers[1].json()["detail"]
    assert desk.house.get("/v1/status")["configured"] == ["demo"]


@pytest.mark.parametrize("editor", EDITORS)
def test_the_lines_for_an_editors_settings_start_semel_as_it_is_asked_for(desk: Desk, editor: str) -> None:
    home, behind = desk.house.home, ["--"] if editor == "emacs" else []
    agent = [] if editor == "emacs" else ["--agent", "demo"]  # agent-shell adds the command of an agent
    (home / "c.toml").write_text('[agents.demo]\nkind = "demo"\n')
    command = [] if editor == "emacs" else ["--", "claude-agent-acp"]
    for given, expected in (
        (
            [*agent, "--no-start", "--config", "c.toml"],
            [*agent, "--config", str(home / "c.toml"), "--no-start", *behind],
        ),
        (["--alone", *command], ["--alone", *command, *behind]),
    ):
        printed = desk.house.cli_alone("acp", "--print", editor, *given).stdout
        words = re.findall(r'"([^"]+)"', printed)
        start = words.index("acp")
        assert words[start - 1].endswith("semel") or editor == "zed"
        assert words[start + 1 : start + 1 + len(expected)] == expected


def test_a_resumed_session_asks_what_is_still_open_and_shows_no_old_tool_calls(desk: Desk) -> None:
    editor = desk.editor()
    session = editor.new()
    editor.prompt(script({"think": "hm"}, {"tool": "ls", "output": ["a\n"]}, "Listed."))
    prompt = editor.begin(script({"permission": "rm", "options": ALLOW, "allowed": ["gone"], "denied": ["kept"]}))
    editor.until(lambda: editor.asked, "the question")
    other, third = desk.editor(), desk.editor()
    other.load(session, "session/resume")
    third.load(session)
    for one in (other, third):
        one.until(lambda one=one: one.asked, "the question in another editor")
    assert [call.fields["title"] for call in other.shown.calls.values()] == ["rm"]
    assert other.texts("thought") == [] and third.texts("thought") == ["hm"]
    third.choose(third.asked[0], "yes")
    editor.answer_to(prompt)
    assert len(editor.closed) == 1
    other.until(lambda: other.closed, "it is closed there, too")


def test_what_was_missed_is_told_once_and_in_a_bounded_size(desk: Desk) -> None:
    editor = desk.editor(client="acpx")
    session = editor.new()
    for number in range(4):
        desk.house.say(session, script({"text": f"{number} " * 2000, "chunks": 1}))
        desk.house.idle(session)
    editor.prompt("say: now")
    texts = [text.strip() for text in editor.texts()]
    assert "earlier messages are not shown here" in texts[0]
    assert texts[1:] == [("2 " * 2000).strip(), ("3 " * 2000).strip(), "now"]
    editor.prompt("say: then")
    assert editor.texts()[-1].strip() == "then" and len(editor.texts()) == len(texts) + 1


def test_an_editors_mcp_servers_are_given_to_the_agent(desk: Desk) -> None:
    editor = desk.editor()
    server = {"name": "garden", "command": "garden-mcp", "args": [], "env": [{"name": "KEY", "value": "sesame"}]}
    result = editor.call("session/new", cwd=str(desk.house.home), mcpServers=[server])
    kept = [json.loads(path.read_text()) for path in (desk.house.data / "mcp-servers").iterdir()]
    assert kept == [[server]]
    desk.house.request("DELETE", f"/v1/sessions/{result['sessionId']}")


def test_an_editor_is_told_which_of_its_mcp_servers_the_agent_does_not_take(desk: Desk) -> None:
    editor = desk.editor()
    assert editor.initialized["agentCapabilities"]["mcpCapabilities"] == {"http": True, "sse": True}
    remote = {"type": "sse", "name": "far", "url": "https://example.org/mcp", "headers": []}
    folder = str(desk.house.home)
    editor.session = editor.call("session/new", cwd=folder, mcpServers=[remote])["sessionId"]
    editor.sees("The agent demo does not take these MCP servers of your editor: far.")
    second = editor.call("session/new", cwd=folder, mcpServers=[])
    editor.session = second["sessionId"]
    assert editor.prompt("say: none") == "end_turn" and editor.texts() == ["none"]
    desk.house.request("DELETE", f"/v1/sessions/{second['sessionId']}")


def test_an_editor_may_send_whatever_content_the_gateway_stores(desk: Desk) -> None:
    """An agent that does not take it gets a link to a copy."""
    editor = desk.editor()
    session = editor.new()
    assert editor.initialized["agentCapabilities"]["promptCapabilities"] == {
        "image": True, "audio": True, "embeddedContext": True
    }  # fmt: skip
    data = base64.b64encode(b"RIFF....WAVE").decode()
    sent = [{"type": "text", "text": "say: heard"}, {"type": "audio", "mimeType": "audio/wav", "data": data}]
    prompt = editor.request("session/prompt", sessionId=session, prompt=sent)
    assert editor.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
    (file,) = desk.house.entries(session)[0]["files"]
    assert file["mime"] == "audio/wav"


def test_prompts_that_are_sent_at_once_are_heard_in_order_and_each_answered(desk: Desk) -> None:
    """Toad sends a second prompt while the first one runs."""
    editor = desk.editor(client="toad")
    session = editor.new()
    prompts = [editor.begin(f"say: {number}") for number in range(8)]
    answers = [editor.answer_to(prompt) for prompt in prompts]
    assert all(answer["result"] == {"stopReason": "end_turn"} for answer in answers)
    assert desk.house.texts(session, "user") == [f"say: {number}" for number in range(8)]
    assert not editor.texts("user")
