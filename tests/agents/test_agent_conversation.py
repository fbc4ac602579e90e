"""A conversation with an agent: what comes, in what order, and what the agent is answered."""

from __future__ import annotations

import json

import pytest
from agents_house import Heard, House, hear, script, turn, until

from semel.acp_stream import Fold
from semel.gateway.ports import AgentError, Answered, Asked, Died, Update


async def test_a_prompt_ends_after_all_its_updates(house: House) -> None:
    talk = await house.scripted()
    text = "".join(f"<{n}>" for n in range(20_000))
    heard = await turn(talk, script({"text": text, "chunks": 10_000}))
    assert heard.text() == text
    assert heard.end == Answered("end_turn")
    assert all(isinstance(one, Update) and not one.replay for one in heard.signals[:-1])


async def test_an_agent_faster_than_its_reader_waits_and_loses_nothing(house: House) -> None:
    talk = await house.scripted()
    text, done = "x" * 20_000, house.tmp / "done"
    await talk.prompt([{"type": "text", "text": script({"text": text, "chunks": 20_000}, {"touch": str(done)})}])
    await until(lambda: talk._wire.reader._paused, "reading has stopped")
    assert len(talk._signals) < 8_192 and not done.exists()
    assert (await hear(talk)).text() == text


async def test_a_loaded_session_is_told_again_as_replay_before_it_is_open(house: House) -> None:
    first = await house.scripted()
    await turn(first, script({"think": "hm"}, "hello ", {"tool": "t", "id": "t1", "output": ["out"]}, "bye"))
    await first.close(2.0)

    second = await house.scripted(memory=first.memory)
    assert (second.restored, second.memory) == ("loaded", first.memory)
    told = Heard(list(second._signals))
    assert [one["sessionUpdate"] for one in told.updates()] == [
        "user_message_chunk", "agent_thought_chunk", "agent_message_chunk", "tool_call", "agent_message_chunk",
        "session_info_update",  # that the turn ended, and how
    ]  # fmt: skip
    assert all(isinstance(one, Update) and one.replay for one in told.signals)
    heard = await turn(second, script("live"))
    live = [one for one in heard.signals if isinstance(one, Update) and not one.replay]
    assert Heard(live).text() == "live"


async def test_a_memory_the_agent_does_not_have_gives_a_new_session(house: House) -> None:
    talk = await house.scripted(memory="scripted-gone")
    assert talk.restored == "new"
    assert talk.memory.startswith("scripted-") and talk.memory != "scripted-gone"
    assert (await turn(talk, script("hi"))).text() == "hi"


async def test_an_agent_that_can_only_resume_is_resumed(house: House) -> None:
    talk = await house.opened(
        """
        m = expect("initialize")
        out(id=m["id"], result={"agentCapabilities": {"sessionCapabilities": {"resume": {}}}})
        m = expect("session/resume")
        assert m["params"]["sessionId"] == "old" and m["params"]["mcpServers"][0]["name"] == "semel"
        out(id=m["id"], result={})
        m = expect("session/prompt")
        out(id=m["id"], result={"stopReason": "end_turn"})
        read()
        """,
        memory="old",
    )
    assert (talk.restored, talk.memory) == ("resumed", "old")
    assert (await turn(talk, "x")).end == Answered("end_turn")


async def test_where_loading_fails_resuming_is_tried_and_what_was_half_told_is_forgotten(
    house: House,
) -> None:
    talk = await house.opened(
        """
        m = expect("initialize")
        out(id=m["id"], result={"agentCapabilities": {"loadSession": True, "sessionCapabilities": {"resume": {}}}})
        m = expect("session/load")
        say("half of the history", messageId="a")
        update(session="old", sessionUpdate="agent_message_chunk", content={"type": "text", "text": "half"})
        out(id=m["id"], error={"code": -32603, "message": "corrupt"})
        m = expect("session/resume")
        out(id=m["id"], result={})
        read()
        """,
        memory="old",
    )
    assert talk.restored == "resumed"
    assert not talk._signals


async def test_a_mode_is_set_where_the_agent_does_not_list_its_modes_again_after_a_load(house: House) -> None:
    talk = await house.opened(
        """
        m = expect("initialize"); out(id=m["id"], result={"agentCapabilities": {"loadSession": True}})
        m = expect("session/load"); out(id=m["id"], result={})
        m = expect("session/set_mode")
        assert m["params"] == {"sessionId": "old", "modeId": "plan"}, m
        out(id=m["id"], result={})
        m = expect("session/set_mode"); out(id=m["id"], error={"code": -32602, "message": "no such mode"})
        m = expect("session/set_model"); out(id=m["id"], result={})
        read()
        """,
        memory="old",
    )
    await talk.set_mode("plan")
    with pytest.raises(AgentError, match="no such mode"):
        await talk.set_mode("fly")
    await talk.set_model("large")


async def test_modes_that_are_not_listed_again_after_a_load_are_those_of_before(house: House) -> None:
    """agentao 0.5.17 would take any name of a mode, and go on as before."""
    modes = {"currentModeId": "plan", "availableModes": [{"id": "plan"}, {"id": "write"}]}
    talk = await house.opened(
        """
        m = expect("initialize"); out(id=m["id"], result={"agentCapabilities": {"loadSession": True}})
        m = expect("session/load"); out(id=m["id"], result={})
        m = expect("session/set_mode"); out(id=m["id"], result={})
        read()
        """,
        memory="old",
        modes=modes,
    )
    assert talk.modes == {**modes, "currentModeId": None}, "which one is on is unknown"
    with pytest.raises(AgentError, match=r"there is no mode 'fly'\. There are: plan, write"):
        await talk.set_mode("fly")
    await talk.set_mode("write")
    assert talk.modes["currentModeId"] == "write"


async def test_an_agent_that_tells_the_history_after_its_answer_is_heard_out_before_it_is_open(
    house: House,
) -> None:
    talk = await house.opened(
        """
        m = expect("initialize")
        out(id=m["id"], result={"agentInfo": {"name": "gemini-cli"}, "agentCapabilities": {"loadSession": True}})
        m = expect("session/load")
        out(id=m["id"], result={})
        for n in range(5):
            update(session="old", sessionUpdate="agent_message_chunk", content={"type": "text", "text": str(n)})
            time.sleep(0.1)
        m = expect("session/prompt")
        update(session="old", sessionUpdate="agent_message_chunk", content={"type": "text", "text": "live"})
        out(id=m["id"], result={"stopReason": "end_turn"})
        read()
        """,
        memory="old",
    )
    assert talk.profile == "gemini"
    heard = await turn(talk, "x")
    told = [one for one in heard.signals if isinstance(one, Update)]
    assert [(one.data["content"]["text"], one.replay) for one in told] == [
        *((str(n), True) for n in range(5)),
        ("live", False),
    ]


async def test_what_follows_the_answer_to_a_load_in_the_same_chunk_is_live(house: House) -> None:
    talk = await house.opened(
        """
        m = expect("initialize")
        out(id=m["id"], result={"agentCapabilities": {"loadSession": True}})
        m = expect("session/load")
        u = {"sessionId": "old", "update": {"sessionUpdate": "usage_update"}}
        lines = [{"method": "session/update", "params": u}, {"id": m["id"], "result": {}}]
        sys.stdout.write("".join(json.dumps({"jsonrpc": "2.0", **x}) + "\\n" for x in [*lines, lines[0]]))
        sys.stdout.flush()
        read()
        """,
        memory="old",
    )
    first, second = await talk.next(), await talk.next()
    assert isinstance(first, Update) and isinstance(second, Update)
    assert (first.replay, second.replay) == (True, False)


# ---------------------------------------------------------------- permissions and cancelling


@pytest.mark.parametrize(("option", "said"), [("allow", "yes"), ("reject", "no"), (None, "no")])
async def test_a_permission_request_waits_for_its_answer(house: House, option: str | None, said: str) -> None:
    talk = await house.scripted()
    heard = await turn(talk, script({"permission": "rm x", "allowed": ["yes"], "denied": ["no"]}), option)
    (asked,) = heard.asked()
    assert asked.tool_call["title"] == "rm x"
    assert {one["optionId"] for one in asked.options} == {"allow", "always", "reject"}
    assert heard.text() == said


async def test_cancelling_answers_open_permission_requests_so_the_prompt_ends(house: House) -> None:
    talk = await house.scripted()
    await talk.prompt([{"type": "text", "text": script({"permission": "rm x", "allowed": ["yes"]}, "after")}])
    asked = (await hear(talk, lambda s: isinstance(s, Asked))).end
    assert isinstance(asked, Asked)
    await talk.cancel()
    heard = await hear(talk)
    assert heard.end == Answered("cancelled")
    assert heard.text() == ""
    await talk.answer(asked.id, "allow")  # too late: ignored
    assert (await turn(talk, script("next"))).text() == "next"


async def test_a_cancelled_text_ends_and_the_next_prompt_is_answered(house: House) -> None:
    talk = await house.scripted()
    await talk.prompt([{"type": "text", "text": script("begun", {"hang": True})}])
    await hear(talk, lambda s: isinstance(s, Update))
    await talk.cancel()
    assert (await hear(talk)).end == Answered("cancelled")
    assert (await turn(talk, script("next"))).text() == "next"


async def test_a_request_that_was_on_its_way_when_we_cancelled_is_answered_and_not_shown(
    house: House,
) -> None:
    talk = await house.opened(
        """
        hello()
        m = expect("session/prompt")
        expect("session/cancel")
        out(id=0, method="session/request_permission", params={"sessionId": "s1", "options": []})
        say(read()["result"]["outcome"]["outcome"])
        out(id=m["id"], result={"stopReason": "cancelled"})
        m = expect("session/prompt")
        out(id=1, method="session/request_permission", params={"sessionId": "s1", "options": []})
        say(read()["result"]["outcome"]["optionId"])
        out(id=m["id"], result={"stopReason": "end_turn"})
        read()
        """
    )
    await talk.prompt([])
    await talk.cancel()
    heard = await hear(talk)
    assert heard.text() == "cancelled" and not heard.asked()
    heard = await turn(talk, "next", allow="yes")
    assert heard.text() == "yes" and len(heard.asked()) == 1


async def test_a_request_the_agent_takes_back_is_closed(house: House) -> None:
    talk = await house.opened(
        """
        hello()
        m = expect("session/prompt")
        out(id="9f-uuid", method="session/request_permission", params={"sessionId": "s1", "options": None})
        out(method="$/cancel_request", params={"requestId": "9f-uuid"})
        a = read()
        say(json.dumps([a["id"], a["error"]["code"]]))
        out(id=m["id"], result={"stopReason": "end_turn"})
        read()
        """
    )
    await talk.prompt([])
    heard = await hear(talk)
    (asked,) = heard.asked()
    assert json.loads(heard.text()) == ["9f-uuid", -32800]
    await talk.answer(asked.id, "allow")
    assert not talk._open_questions


# ---------------------------------------------------------------- odd agents


async def test_odd_lines_between_updates_disturb_nothing(house: House) -> None:
    talk = await house.scripted()
    odd = [
        "Loading models...", "42", "null", '"text"', "[]", "{}", "[1, {\"jsonrpc\": \"2.0\"}]", "{broken",
        '{"jsonrpc":"2.0","method":"_vendor/thing","params":[1]}', '{"jsonrpc":"2.0","id":777,"result":null}',
        '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}', '{"id":{"a":1},"result":1}',
        '{"jsonrpc":"2.0","method":"session/update","params":{"update":"no object"}}',
        '{"jsonrpc":"2.0","method":"session/update"}', "[" * 100_000,
    ]  # fmt: skip
    steps = [step for n, line in enumerate(odd) for step in ({"raw": line}, {"text": f"{n},", "chunks": 1})]
    batch = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "batched"}}
    message = {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": talk.memory, "update": batch},
    }
    heard = await turn(talk, script(*steps, {"raw": json.dumps([message, message])}))
    assert heard.text() == "".join(f"{n}," for n in range(len(odd))) + "batchedbatched"
    assert heard.end == Answered("end_turn")


async def test_an_update_of_an_unknown_kind_passes_as_it_came(house: House) -> None:
    talk = await house.scripted()
    strange = {"sessionUpdate": "hologram", "depth": [1, {"x": None}], "_meta": {"self": 1}}
    heard = await turn(talk, script({"update": strange}))
    assert heard.updates() == [strange]


async def test_an_update_of_another_session_is_not_ours(house: House) -> None:
    talk = await house.scripted()
    foreign = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "foreign"}}
    line = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "other", "update": foreign}}
    assert (await turn(talk, script({"raw": json.dumps(line)}, "mine"))).text() == "mine"


@pytest.mark.parametrize("method", ["fs/read_text_file", "terminal/create", "craft/drainMidTurnQueue"])
async def test_a_request_we_do_not_serve_is_refused_so_no_agent_hangs(house: House, method: str) -> None:
    talk = await house.scripted()
    assert (await turn(talk, script({"ask": method}))).text() == f"Semel does not offer {method}"


async def test_ids_answered_as_text_and_as_floats_are_understood(house: House) -> None:
    talk = await house.opened(
        """
        m = expect("initialize")
        out(id=str(m["id"]), result={})
        m = expect("session/new")
        out(id=float(m["id"]), result={"sessionId": "s1"})
        m = expect("session/prompt")
        out(id=str(m["id"]), result={"stopReason": "odd_reason", "_meta": {"a": 1}, "usage": {"totalTokens": 3}})
        m = expect("session/prompt")
        out(id=m["id"], result=None)
        read()
        """
    )
    assert (await turn(talk, "x")).end == Answered("odd_reason", None, {"a": 1, "usage": {"totalTokens": 3}})
    assert (await turn(talk, "y")).end == Answered("end_turn")


async def test_an_error_on_a_prompt_is_its_end_and_says_why(house: House) -> None:
    talk = await house.scripted()
    error = {"code": -32603, "message": "Internal error", "data": {"details": "no such model"}}
    heard = await turn(talk, script("so far", {"error": error}))
    assert heard.text() == "so far"
    assert heard.end == Answered(
        "error", "Internal error: no such model", {"code": -32603, "data": {"details": "no such model"}}
    )


async def test_half_an_emoji_is_storable_text(house: House) -> None:
    talk = await house.scripted()
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a\ud83d"}}
    message = {"method": "session/update", "params": {"sessionId": talk.memory, "update": update}}
    line = json.dumps(message)
    assert "\\ud83d" in line
    heard = await turn(talk, script({"raw": line}))
    fold = Fold()
    for half in heard.updates():
        fold.update(half)
    fold.end("end_turn")
    assert "a\ufffd" in [item.text for item in fold.items()]


# ---------------------------------------------------------------- agents that do not open


async def refused(house: House, code: str, **more: float) -> str:
    with pytest.raises(AgentError) as caught:
        await house.opened(code, **more)
    return str(caught.value)


async def test_a_command_that_is_not_there_is_named(house: House) -> None:
    with pytest.raises(AgentError, match=r"command not found: 'no-such-agent'.*\[agents.test\]"):
        await house.open(house.agent(["no-such-agent", "--acp"]))
    nowhere = {"PATH": str(house.work)}
    with pytest.raises(AgentError, match=r"Install it with `npm install -g @agentclientprotocol/claude-agent-acp@"):
        await house.open(house.agent(["claude-agent-acp"], env=nowhere))
    with pytest.raises(AgentError, match=r"of agent 'test'\. Install it, or correct"):
        await house.open(house.agent(["no-such-agent"], env=nowhere))
    assert not house.spawned


async def test_an_agent_that_exits_at_once_is_quoted(house: House) -> None:
    said = await refused(house, "sys.stderr.write('a\\nno API key: set X_KEY\\n'); sys.exit(3)")
    assert "exited with code 3" in said and "no API key: set X_KEY" in said


@pytest.mark.parametrize(
    "line", ["SyntaxError: Unexpected token 'with'", "ReferenceError: WritableStream is not defined"]
)
async def test_an_agent_that_needs_a_newer_node_says_so(house: House, line: str) -> None:
    """Claude Code's adapter and Codex's say the first and the second with Node.js 16."""
    said = await refused(house, f"sys.stderr.write({line!r} + '\\n'); sys.exit(1)")
    assert f"it said: {line}. If it runs on Node.js, that may be too old: `node --version` should be 22" in said


async def test_a_command_that_prints_help_instead_of_json_is_quoted(house: House) -> None:
    said = await refused(house, "print('usage: fake [--acp]')")
    assert "usage: fake [--acp]" in said and "check its command" in said


async def test_an_agent_that_never_answers_is_given_up(house: House) -> None:
    said = await refused(house, "read(); time.sleep(100)", timeout=0.5)
    assert "did not answer `initialize` within 0.5 s" in said


async def test_an_agent_that_wants_a_login_says_which(house: House) -> None:
    said = await refused(
        house,
        """
        m = expect("initialize")
        ways = [{"id": "x", "name": "Login with X", "description": "Run `x login`"}]
        out(id=m["id"], result={"authMethods": ways})
        m = expect("session/new")
        out(id=m["id"], error={"code": -32000, "message": "Authentication required"})
        read()
        """,
    )
    assert "is not logged in (Authentication required)" in said and "Run `x login`" in said


async def test_an_agent_of_another_protocol_version_is_refused(house: House) -> None:
    said = await refused(house, 'm = read(); out(id=m["id"], result={"protocolVersion": 2}); read()')
    assert "speaks ACP version 2" in said


async def test_an_agent_that_takes_no_tools_is_opened_without(house: House) -> None:
    talk = await house.opened(
        """
        m = expect("initialize"); out(id=m["id"], result={})
        m = expect("session/new")
        out(id=m["id"], error={"code": -32602, "message": "per-session mcpServers are not supported"})
        m = expect("session/new")
        assert m["params"]["mcpServers"] == []
        out(id=m["id"], result={"sessionId": "s1"})
        read()
        """
    )
    assert talk.memory == "s1"


async def test_an_agent_that_refuses_a_server_over_stdio_is_offered_it_over_http(house: House) -> None:
    house.tools_url = "http://127.0.0.1:1/v1/tools/mcp"
    talk = await house.opened(
        """
        m = expect("initialize")
        out(id=m["id"], result={"agentCapabilities": {"mcpCapabilities": {"http": True}}})
        m = expect("session/new")
        assert "command" in m["params"]["mcpServers"][0]
        out(id=m["id"], error={"code": -32602, "message": "MCP servers over stdio are not supported"})
        m = expect("session/new")
        assert [server["type"] for server in m["params"]["mcpServers"]] == ["http"]
        out(id=m["id"], result={"sessionId": "s1"})
        read()
        """,
    )
    assert (talk.memory, talk.tools_problem, talk.tools_advice) == ("s1", "", "")


async def test_an_agent_that_takes_no_tools_is_loaded_without(house: House) -> None:
    talk = await house.opened(
        """
        m = expect("initialize"); out(id=m["id"], result={"agentCapabilities": {"loadSession": True}})
        m = expect("session/load")
        out(id=m["id"], error={"code": -32602, "message": "per-session MCP servers are not supported"})
        m = expect("session/load")
        assert m["params"]["mcpServers"] == []
        content = {"type": "text", "text": "said long ago"}
        update(session="old", sessionUpdate="agent_message_chunk", content=content)
        out(id=m["id"], result={})
        read()
        """,
        memory="old",
    )
    assert (talk.restored, talk.memory) == ("loaded", "old")
    told = await talk.next()
    assert isinstance(told, Update) and told.replay
    assert talk.tools_problem == "it refuses MCP servers (per-session MCP servers are not supported)"


async def test_what_is_told_by_a_load_behind_a_login_is_history(house: House) -> None:
    talk = await house.opened(
        """
        m = expect("initialize")
        methods = [{"id": "key", "name": "Key", "vars": [{"name": "MY_KEY"}]}]
        out(id=m["id"], result={"agentCapabilities": {"loadSession": True}, "authMethods": methods})
        m = expect("session/load"); out(id=m["id"], error={"code": -32000, "message": "log in first"})
        m = expect("authenticate"); out(id=m["id"], result={})
        m = expect("session/load")
        content = {"type": "text", "text": "said long ago"}
        update(session="old", sessionUpdate="agent_message_chunk", content=content)
        out(id=m["id"], result={})
        read()
        """,
        memory="old",
        env={"MY_KEY": "x"},
    )
    assert talk.restored == "loaded"
    told = await talk.next()
    assert isinstance(told, Update) and told.replay


async def test_after_death_only_death_is_heard(house: House) -> None:
    talk = await house.scripted()
    heard = await turn(talk, script({"stderr": "out of memory"}, "before", {"exit": 5}))
    assert heard.text() == "before"
    assert heard.end == Died("exited with code 5; its last words: out of memory")
    assert await talk.next() == heard.end
    with pytest.raises(AgentError, match="exited with code 5"):
        await talk.set_mode("ask")
    await talk.prompt([{"type": "text", "text": "hello?"}])
    assert await talk.next() == heard.end
