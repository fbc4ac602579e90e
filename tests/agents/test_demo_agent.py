"""The demo agent, as the gateway sees it: a real process over the real driver, with a real MCP server."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from agents_house import Heard, House, hear, script, turn, until

from semel.agents.acp import AcpConversation
from semel.agents.demo import command
from semel.gateway.ports import Answered, Asked, Died, Update

SERVER = Path(__file__).parent / "mcp_house.py"


async def with_tools(house: House, *arguments: str, memory: str | None = None, **more: Any) -> AcpConversation:
    tools = [sys.executable, str(SERVER), str(house.tmp / "calls")]
    return await house.demo(*arguments, memory=memory, tools=tools, **more)


def calls(house: House) -> list[dict[str, Any]]:
    path = house.tmp / "calls"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def tool(heard: Heard) -> dict[str, Any]:
    """The last tool call as its updates leave it."""
    merged: dict[str, Any] = {}
    for update in heard.updates("tool_call") + heard.updates("tool_call_update"):
        merged.update(update)
    return merged


async def test_help_names_every_word(house: House) -> None:
    talk = await house.demo()
    text = (await turn(talk, "help")).text()
    for word in ("send: TEXT", "think", "tool", "permission", "plan", "slow", "die", "long N", "file PATH"):
        assert f"`{word}`" in text


async def test_anything_else_is_answered(house: House) -> None:
    talk = await house.demo()
    assert "You said: good morning\n" in (await turn(talk, "good morning")).text()


async def test_send_speaks_through_the_tool_and_closes_with_an_echo(house: House) -> None:
    talk = await with_tools(house)
    heard = await turn(talk, "[semel: notes]\n- x\n[/semel]\nAlice: send: The report is ready.")
    (call,) = calls(house)
    assert (call["name"], call["arguments"]) == ("send_message", {"text": "The report is ready."})
    assert call["token"] == "tok-secret"
    assert call["_meta"]["claudecode/toolUseId"] == tool(heard)["toolCallId"]
    assert tool(heard)["rawInput"] == {"text": "The report is ready."}
    assert tool(heard)["status"] == "completed"
    assert heard.text() == "The report is ready."


@pytest.mark.parametrize(
    ("prompt", "name", "arguments"),
    [
        ("send and say: A b | C d", "send_message", {"text": "A b"}),
        ("file notes/a.txt", "send_file", {"path": "notes/a.txt"}),
        ("react 🎉", "add_reaction", {"emoji": "🎉"}),
        ("ask: Which? | one | two", "ask", {"question": "Which?", "options": ["one", "two"]}),
    ],
)
async def test_a_word_calls_its_tool(house: House, prompt: str, name: str, arguments: dict[str, Any]) -> None:
    talk = await with_tools(house)
    heard = await turn(talk, prompt)
    assert [(one["name"], one["arguments"]) for one in calls(house)] == [(name, arguments)]
    assert heard.end == Answered("end_turn") and heard.text()


async def test_a_tool_that_refuses_shows_as_failed(house: House) -> None:
    talk = await with_tools(house)
    assert tool(await turn(talk, "send: bad"))["status"] == "failed"
    assert tool(await turn(talk, script({"call": "no_such"})))["status"] == "failed"


async def test_think_plan_and_tool_show_what_they_name(house: House) -> None:
    talk = await house.demo()
    assert "I weigh" in (await turn(talk, "think")).text("agent_thought_chunk")
    plans = (await turn(talk, "plan")).updates("plan")
    assert [one["status"] for one in plans[-1]["entries"]] == ["completed"] * 3
    heard = await turn(talk, "tool")
    data = [one["_meta"]["terminal_output"]["data"] for one in heard.updates() if "terminal_output" in str(one)]
    assert data == [f"counting: {n}\n" for n in range(1, 6)]
    assert tool(heard)["_meta"]["terminal_exit"]["exit_code"] == 0
    assert (await turn(talk, "long 30")).text().count("\n") == 30


async def test_in_ask_mode_a_tool_asks_first(house: House) -> None:
    talk = await house.demo()
    await talk.set_mode("ask")
    heard = await turn(talk, "tool", allow=None)
    assert len(heard.asked()) == 1
    assert not heard.updates("tool_call")


async def test_slow_text_can_be_cancelled_and_its_beginning_stays_in_memory(house: House) -> None:
    talk = await house.demo()
    await talk.prompt([{"type": "text", "text": "slow"}])
    shown = (await hear(talk, lambda s: isinstance(s, Update))).text()
    await talk.cancel()
    heard = await hear(talk)
    assert heard.end == Answered("cancelled")
    shown += heard.text()
    await talk.close(2.0)
    again = await house.demo(memory=talk.memory)
    assert Heard(list(again._signals)).text() == shown


async def test_die_ends_the_process_in_mid_sentence_and_the_turn_is_not_remembered(house: House) -> None:
    talk = await house.demo()
    await turn(talk, script("kept"))
    heard = await turn(talk, "die")
    assert heard.text() == "I feel a little"
    assert isinstance(heard.end, Died)
    again = await house.demo(memory=talk.memory)
    assert again.restored == "loaded"
    assert Heard(list(again._signals)).text() == "kept"


# ---------------------------------------------------------------- scripts


async def test_attempts_take_their_steps_in_turn_across_restarts(house: House) -> None:
    prompt = script(attempts=[["one", {"die": 9}], ["two"]])
    assert (await turn(await house.demo(), prompt)).text() == "one"
    second = await house.demo()
    assert (await turn(second, prompt)).text() == "two"
    assert (await turn(second, prompt)).text() == "two"


async def test_resume_steps_answer_the_prompt_that_brings_no_script(house: House) -> None:
    prompt = script("half", {"save": True}, {"die": 9}, resume=["the rest"])
    first = await house.demo()
    await turn(first, prompt)
    second = await house.demo(memory=first.memory)
    assert Heard(list(second._signals)).text() == "half"
    retold = f"[semel: your turn goes on]\n- it was asked: {prompt!r}\n[/semel]"
    assert (await turn(second, retold)).text().endswith("the rest")
    assert "the rest" not in (await turn(second, "hello")).text()


async def test_a_script_file_answers_the_prompts_it_fits(house: House) -> None:
    path = house.tmp / "script.json"
    path.write_text(
        json.dumps([{"when": "alpha", "steps": ["A"]}, {"when": "beta", "steps": ["B"], "stop": "refusal"}])
    )
    talk = await house.demo("--script", str(path), "--log", str(house.tmp / "log"))
    assert (await turn(talk, "say alpha")).text() == "A"
    assert (await turn(talk, "say beta")).end == Answered("refusal")
    assert "gamma" in (await turn(talk, "gamma")).text()
    log = [json.loads(line)["text"] for line in (house.tmp / "log").read_text().splitlines()]
    assert log == ["say alpha", "say beta", "gamma"]


async def test_a_script_that_cannot_be_read_fails_its_prompt_with_the_reason(house: House) -> None:
    talk = await house.demo()
    for prompt, reason in (
        ("[[script {oops]]", "cannot be read"),
        (script({"fly": 1}), "knows no step 'fly'"),
    ):
        end = (await turn(talk, prompt)).end
        assert isinstance(end, Answered) and end.stop == "error" and reason in str(end.error)
    assert (await turn(talk, script("well"))).text() == "well"


async def test_a_dead_mcp_server_is_restarted_and_asked_again_only_where_the_script_says(
    house: House,
) -> None:
    talk = await with_tools(house)
    heard = await turn(talk, script({"call": "send_message", "arguments": {"text": "crash: x"}, "reissue": True}))
    first, second = calls(house)
    assert first["arguments"] == second["arguments"] and first["pid"] != second["pid"]
    assert tool(heard)["status"] == "completed"
    (house.tmp / "calls").unlink()
    heard = await turn(talk, script({"kill_mcp": True}, {"call": "send_message", "arguments": {"text": "crash: y"}}))
    assert len(calls(house)) == 1
    assert tool(heard)["status"] == "failed"


async def test_cancelling_during_a_tool_call_tells_the_mcp_server(house: House) -> None:
    talk = await with_tools(house)
    call = {"call": "send_message", "arguments": {"text": "hang: x"}}
    await talk.prompt([{"type": "text", "text": script(call)}])
    await until(lambda: calls(house), "the call has begun")
    await talk.cancel()
    heard = await hear(talk)
    assert heard.end == Answered("cancelled")
    assert tool(heard)["status"] == "failed"
    await until((house.tmp / "calls.cancelled").exists, "the server was told")


async def test_calls_made_together_all_happen(house: House) -> None:
    talk = await with_tools(house)
    a, b = ({"call": "send_message", "arguments": {"text": text}} for text in ("A", "B"))
    heard = await turn(talk, script({"together": [a, [b]]}, "both"))
    assert {one["arguments"]["text"] for one in calls(house)} == {"A", "B"}
    assert heard.text() == "both"


async def test_a_deaf_agent_goes_on_after_a_cancel(house: House) -> None:
    talk = await house.demo()
    go = house.tmp / "go"
    prompt = script({"deaf": True}, {"permission": "x", "allowed": [], "denied": []}, {"wait": str(go)}, "still here")
    await talk.prompt([{"type": "text", "text": prompt}])
    await hear(talk, lambda s: isinstance(s, Asked))
    await talk.cancel()
    go.touch()
    heard = await hear(talk)
    assert heard.text() == "still here" and heard.end == Answered("end_turn")


# ---------------------------------------------------------------- quickness


async def test_instant_answers_with_one_chunk_and_when_it_had_the_prompt(house: House) -> None:
    talk = await house.demo("--instant")
    before = time.monotonic_ns()
    heard = await turn(talk, "ping")
    word, at = heard.text().split()
    assert word == "pong" and before < int(at) < time.monotonic_ns()
    assert len(heard.signals) == 2


def test_it_starts_quickly_and_without_the_rest_of_semel() -> None:
    hello = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n'
    took = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command(), input=hello, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert '"semel-demo"' in done.stdout
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(took) < 0.15, "seconds of processor time for start, answer and end"
    code = "import sys, semel.agents.demo.__main__; print([m for m in sys.modules if 'msgspec' in m or 'gateway' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_wrong_usage_is_told() -> None:
    done = subprocess.run(command("--fast"), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
