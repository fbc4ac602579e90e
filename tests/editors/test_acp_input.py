"""`semel acp` and what editors send that is wrong: each request is answered, and nothing ends or is allowed by it."""

from __future__ import annotations

from editor_help import line_of
from gateway_editor import Desk
from system_house import script

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def test_unknown_requests_are_answered_and_noise_is_survived(desk: Desk) -> None:
    editor = desk.editor()
    answer = editor.answer_to(editor.request("session/levitate"))
    assert answer["error"]["code"] == -32601
    editor.methods["null"] = "initialize"
    nested = b"[" * 2000 + b"]" * 2000
    noise = (b"not json", nested, b"[]", b"3", b"null", b"{}", b'{"id": [], "method": "x"}', b'{"id": 1, "method": 5}')
    noise += tuple(b'{"id": %s, "method": "session/list"}' % id for id in (b"1e400", b"NaN", b"true"))
    editor.process.stdin.write(b"\n".join(noise) + b'\n{"jsonrpc":"2.0","method":"session/unknown"}\n\n')
    editor.process.stdin.flush()
    assert editor.new()
    errors = [message["error"] for message in editor.messages if message.get("id", 0) is None]
    assert [error["code"] for error in errors] == [-32700] * 2 + [-32600] * 6 + [-32700] * 2 + [-32600]
    assert errors[5]["message"].startswith("a message needs a method") and errors[7]["message"].startswith("method ")


def test_wrong_parameters_are_named_as_the_editor_named_them(desk: Desk) -> None:
    editor = desk.editor()
    session = editor.new()
    folder, server = str(desk.house.home), {"name": "x", "command": "/bin/x", "args": [], "env": []}
    for method, params, field in (
        ("session/prompt", {"sessionId": session, "prompt": "x"}, "prompt"),
        ("session/prompt", {"sessionId": session, "prompt": ["x"]}, "prompt"),
        ("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": 5}]}, "prompt"),
        ("session/list", {"cursor": "nowhere"}, "cursor"),
        ("session/list", {"cursor": 5}, "cursor"),
        ("session/list", {"cwd": "here"}, "cwd"),
        ("session/new", {"cwd": "/srv/a\0b", "mcpServers": []}, "cwd"),
        ("session/new", {"cwd": folder, "mcpServers": [{"name": 5}]}, "mcpServers"),
        ("session/new", {"cwd": folder, "mcpServers": [5]}, "mcpServers must be a list"),
        ("session/new", {"cwd": folder, "mcpServers": "x"}, "mcpServers must be a list"),
        ("session/new", {"cwd": folder, "mcpServers": [server, server]}, "mcpServers: two are named 'x'"),
        ("session/load", {"sessionId": "../../etc", "cwd": folder}, "sessionId: no session has this id"),
        (
            "session/load",
            {"sessionId": "demo:deleted", "cwd": folder},
            "the session was deleted, or there never was one",
        ),
    ):
        error = editor.answer_to(editor.request(method, **params))["error"]
        assert error["code"] == -32602 and error["message"].startswith(field), error


def test_half_of_a_surrogate_pair_is_read_as_the_replacement_character(desk: Desk) -> None:
    editor = desk.editor(client="ze\ud800d")
    editor.new()
    assert editor.prompt("say: cut \ud83d") == "end_turn"
    assert editor.texts() == ["cut \ufffd"]


def test_the_last_line_of_an_editor_needs_no_newline(desk: Desk) -> None:
    editor = desk.editor()
    session = editor.new()
    editor.methods["9"] = "session/prompt"
    blocks = [{"type": "text", "text": "say: last"}]
    last = {"id": 9, "method": "session/prompt", "params": {"sessionId": session, "prompt": blocks}}
    editor.process.stdin.write(line_of({"jsonrpc": "2.0", **last}).rstrip())
    assert editor.leave() == (0, b"")
    desk.house.idle(session)
    assert desk.house.texts(session)[-1] == "last"


def test_an_answer_to_a_permission_that_chooses_nothing_allows_nothing_and_is_told(desk: Desk) -> None:
    editor = desk.editor()
    session = editor.new()
    steps = [
        {"permission": f"rm {n}", "options": OPTIONS, "allowed": ["gone"], "denied": [f"kept {n}"]} for n in range(8)
    ]
    prompt = editor.begin(script(*steps))
    selected = [
        {"outcome": {"outcome": "selected", **more}} for more in ({}, {"optionId": 5}, {"optionId": "ye\ud800"})
    ]
    answers = [{"result": result} for result in ({"outcome": 5}, [], None, 7, *selected)]
    answers.append({"error": {"code": -32603, "message": "no dialogs"}})
    for number, answer in enumerate(answers):
        editor.until(lambda number=number: len(editor.asked) > number, "the question")
        editor.send(id=editor.asked[-1]["id"], **answer)
        editor.until(lambda number=number: f"to “rm {number}” chooses none" in "".join(editor.texts()), "the remark")
        items = desk.house.get(f"/v1/sessions/{session}/history")["items"]
        (item,) = [item for item in items if item["kind"] == "permission" and item["state"] == "open"]
        desk.house.post(f"/v1/sessions/{session}/answers", {"item": item["id"], "option": "no"})
    editor.answer_to(prompt)
    assert [text for text in editor.texts() if "allows nothing" not in text] == [f"kept {n}" for n in range(8)]


def test_a_session_is_not_opened_with_another_agent_or_by_a_mistyped_key(desk: Desk) -> None:
    desk.house.say("demo:chat", "say: hello")
    before = len(desk.house.get("/v1/sessions")["sessions"])
    for options, words in (
        (("--session", "demo:chat", "--agent", "nope"), "session demo:chat has the agent demo, not the agent nope"),
        (("--session", "demo:chat", "--", "/bin/cat"), "demo, not the agent of the command /bin/cat"),
        (("--session", "nope:abc"), "there is no session nope:abc, and no agent 'nope' for a new one"),
        (("--session", "../etc"), "--session: a session key holds '/'"),
        (("--session", "nope:abc", "--agent", "nope"), "no agent is named 'nope'"),
    ):
        editor = desk.editor(*options)
        error = editor.answer_to(editor.request("session/new", cwd=str(desk.house.home), mcpServers=[]))["error"]
        assert error["code"] == -32602 and words in error["message"], error
    assert len(desk.house.get("/v1/sessions")["sessions"]) == before
    for options in (("demo:chat", "--agent", "demo"), ("main:made",), ("made", "--agent", "demo")):
        assert desk.editor("--session", *options).new() == options[0]
