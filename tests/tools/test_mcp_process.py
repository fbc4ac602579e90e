"""The MCP process as an agent starts it: real pipes, a real socket, real kills."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import Agent, Recorder, Start

Json = dict[str, Any]


async def seen(so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not so():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_call_is_handed_over_with_its_token_connection_call_id_and_raw_meta(
    gateway: Recorder, start: Start
) -> None:
    agent = await start()
    await agent.initialize()
    meta = {"claudecode/toolUseId": "toolu_1", "progressToken": 2, "x": {"deep": [None, 1.5]}}
    told = await agent.call("send_message", {"text": "On it.", "to": "ops"}, _meta=meta)
    assert told == {"text": "sent", "isError": False}
    (hello,), (call,) = gateway.of("hello"), gateway.calls
    assert call["name"] == "send_message"
    assert call["arguments"] == {"text": "On it.", "to": "ops"}
    assert call["meta"] == meta
    assert call["token"] == hello["token"] == "secret"
    assert call["call"].startswith(call["conn"])
    await gateway.until(lambda: gateway.of("answered") == [{"token": "secret", "call": call["call"]}])
    assert await agent.leave() == 0


async def test_arguments_that_are_read_in_another_form_are_handed_over_as_written_too(
    gateway: Recorder, start: Start
) -> None:
    """The gateway finds the call in the agent's ACP stream by the arguments that stand there."""
    agent = await start()
    await agent.call("send_file", {"path": "a.txt", "caption": "Here.", "to": None})
    await agent.call("send_message", {"text": "plain"})
    odd, plain = gateway.calls
    assert odd["arguments"] == {"path": "a.txt", "text": "Here."}
    assert odd["given"] == {"path": "a.txt", "caption": "Here.", "to": None}
    assert "given" not in plain


async def test_answered_is_reported_only_when_the_agent_can_have_read_the_answer(
    gateway: Recorder, start: Start
) -> None:
    async def huge(params: Json) -> Json:
        return {"ok": True, "text": "x" * (1 << 20), "data": {}}

    gateway.on_call = huge
    agent = await start()
    await agent.initialize()
    # 48 answers of 1 MB: while nobody reads, the test's own buffer takes 32 MB of them.
    for n in range(48):
        await agent.request("tools/call", {"name": "send_message", "arguments": {"text": str(n)}})
    await gateway.until(lambda: len(gateway.calls) == 48)
    assert len(gateway.of("answered")) <= 34
    for _ in range(48):
        await agent.read()
    await gateway.until(lambda: len(gateway.of("answered")) == 48)
    assert {a["call"] for a in gateway.of("answered")} == {c["call"] for c in gateway.calls}


async def test_a_gateway_that_restarts_in_the_middle_is_asked_again_with_the_same_call_id(
    gateway: Recorder, start: Start
) -> None:
    gateway.hold()
    agent = await start()
    await agent.initialize()
    number = await agent.request("tools/call", {"name": "send_message", "arguments": {"text": "once"}})
    await gateway.until(lambda: len(gateway.calls) == 1)
    await gateway.stop()
    gateway.on_call = None
    await gateway.start()
    answer = await agent.read()
    assert answer["id"] == number
    assert answer["result"]["content"][0]["text"] == "sent"
    first, second = gateway.calls
    assert first == second


GATEWAY = """
import asyncio, json, sys
from pathlib import Path
from types import SimpleNamespace
from semel.faces.http import Settings, make_app
from semel.faces.http.server import serve_unix

async def handle(method, params):
    with open(sys.argv[2], "a") as log:
        print(json.dumps([method, params.get("call")]), file=log, flush=True)
    if method == "call" and sys.argv[3] == "hang":
        await asyncio.Event().wait()
    return {"ok": True, "text": "sent"}

async def main():
    await serve_unix(make_app(SimpleNamespace(tools=handle), Settings()), Path(sys.argv[1]))
    print("up", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def start_gateway(path: Path, log: Path, mode: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", GATEWAY, path, log, mode), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"up\n"
    return process


@pytest.mark.long
async def test_a_gateway_killed_with_kill_9_leaves_a_socket_that_its_successor_takes_over(
    gateway: Recorder, start: Start, tmp_path: Path
) -> None:
    await gateway.stop()
    log = tmp_path / "log"
    first = await start_gateway(gateway.path, log, "hang")
    agent = await start()
    await agent.initialize()
    await agent.request("tools/call", {"name": "send_message", "arguments": {"text": "once"}})
    await seen(lambda: '"call"' in log.read_text())
    first.kill()
    await first.communicate()
    assert gateway.path.is_socket()
    second = await start_gateway(gateway.path, log, "answer")
    assert (await agent.read())["result"]["isError"] is False
    second.kill()
    await second.communicate()
    calls = [call for method, call in map(json.loads, log.read_text().splitlines()) if method == "call"]
    assert len(calls) == 2
    assert calls[0] == calls[1]


async def test_an_mcp_process_killed_before_its_call_was_handed_over_says_nothing(
    gateway: Recorder, start: Start
) -> None:
    agent = await start()
    await agent.initialize()
    await gateway.stop()
    await agent.request("tools/call", {"name": "send_message", "arguments": {"text": "never"}})
    assert "result" in await agent.ask("ping")  # the call before it was taken up
    await agent.kill()
    await gateway.start()
    other = await start()
    await other.initialize()
    assert (await other.call("send_message", {"text": "after"}))["isError"] is False
    assert [call["arguments"]["text"] for call in gateway.calls] == ["after"]


async def test_a_process_killed_after_its_call_leaves_it_unanswered_and_its_successor_is_another_connection(
    gateway: Recorder, start: Start
) -> None:
    release = gateway.hold()
    agent = await start()
    await agent.initialize()
    await agent.request("tools/call", {"name": "send_message", "arguments": {"text": "same"}})
    await gateway.until(lambda: len(gateway.calls) == 1)
    await agent.kill()
    release.set()
    other = await start()
    await other.initialize()
    await other.call("send_message", {"text": "same"})
    lost, repeated = gateway.calls
    assert lost["conn"] != repeated["conn"]
    assert lost["call"] != repeated["call"]
    assert lost["arguments"] == repeated["arguments"]
    await gateway.until(lambda: bool(gateway.of("answered")))
    assert [a["call"] for a in gateway.of("answered")] == [repeated["call"]]


async def test_equal_calls_with_equal_request_ids_on_two_connections_are_two_calls(
    gateway: Recorder, start: Start
) -> None:
    agents = [await start(), await start()]
    for agent in agents:
        await agent.initialize()
        await agent.call("send_message", {"text": "same"})
    one, two = gateway.calls
    assert one["conn"] != two["conn"]
    assert one["call"] != two["call"]


async def test_equal_calls_on_one_connection_are_two_calls_even_with_one_request_id(
    gateway: Recorder, start: Start
) -> None:
    agent = await start()
    await agent.initialize()
    params = {"name": "send_message", "arguments": {"text": "same"}}
    for _ in range(2):
        await agent.send({"jsonrpc": "2.0", "id": "again", "method": "tools/call", "params": params})
        assert (await agent.read())["id"] == "again"
    one, two = gateway.calls
    assert one["call"] != two["call"]


async def test_fifty_calls_at_once_reach_the_gateway_in_order_and_each_gets_its_own_answer(
    gateway: Recorder, start: Start
) -> None:
    release = gateway.hold()
    agent = await start()
    await agent.initialize()
    numbers = {}
    for n in range(50):
        asked = {"name": "send_message", "arguments": {"text": f"message {n}"}}
        numbers[await agent.request("tools/call", asked)] = n
    await gateway.until(lambda: len(gateway.calls) == 1)  # the others wait for the answer of the one before
    release.set()
    for _ in range(50):
        answer = await agent.read()
        said = answer["result"]["content"][0]["text"]
        assert said == f"sent message {numbers.pop(answer['id'])}"
    assert [call["arguments"]["text"] for call in gateway.calls] == [f"message {n}" for n in range(50)]
    assert len({call["call"] for call in gateway.calls}) == 50
    assert not numbers


async def test_a_slow_silent_tool_delays_no_message(gateway: Recorder, start: Start) -> None:
    """`cancel_background` waits for the end of a command, and what is said meanwhile goes out."""
    release = asyncio.Event()

    async def cancel_slowly(params: Json) -> Json:
        if params["name"] == "cancel_background":
            await release.wait()
        return {"ok": True, "text": params["name"], "data": {}}

    gateway.on_call = cancel_slowly
    agent = await start()
    await agent.initialize()
    slow = await agent.request("tools/call", {"name": "cancel_background", "arguments": {"id": "j1"}})
    await gateway.until(lambda: len(gateway.calls) == 1)
    assert (await agent.call("send_message", {"text": "meanwhile"}))["text"] == "send_message"
    release.set()
    assert (await agent.read())["id"] == slow


async def test_calls_made_while_the_gateway_is_away_arrive_in_order_when_it_is_back(
    gateway: Recorder, start: Start
) -> None:
    agent = await start()
    await agent.initialize()
    await gateway.stop()
    for n in range(20):
        await agent.request("tools/call", {"name": "send_message", "arguments": {"text": str(n)}})
    assert "result" in await until_answer(agent, await agent.request("ping"))
    await gateway.start()
    for _ in range(20):
        assert (await agent.read())["result"]["isError"] is False
    assert [call["arguments"]["text"] for call in gateway.calls] == [str(n) for n in range(20)]


async def until_answer(agent: Agent, number: int) -> Json:
    while (answer := await agent.read())["id"] != number:
        pass
    return answer


async def test_a_text_of_a_megabyte_arrives_whole_and_one_beyond_the_bound_is_a_plain_no(
    gateway: Recorder, start: Start
) -> None:
    agent = await start()
    await agent.initialize()
    text = "Grüße 🌍 " * 80_000
    assert len(text.encode()) > 1_000_000
    assert (await agent.call("send_message", {"text": text}))["isError"] is False
    assert gateway.calls[0]["arguments"]["text"] == text
    # This one is a line the agent may write, and with what is added to it a line the gateway would not take.
    told = await agent.call("send_message", {"text": "x" * ((8 << 20) - 120)})
    assert told["isError"] is True
    assert told["text"].startswith("Nothing was sent")
    # These are no longer kept; their caller is told so by its id, wherever that is, and the process lives on.
    arguments = b'{"text":"\\"}]{[\\\\","id":7,"more":["' + b"x" * (9 << 20) + b'"]}'
    call = b'"method":"tools/call","params":{"name":"send_message","arguments":' + arguments + b"}"
    for line in (b'{"jsonrpc":"2.0","id":9,%s}', b'{%s,"jsonrpc":"2.0","id":9}', b'{"id" : 9 , %s}\r'):
        await agent.write(line % call + b"\n")
        answer = await agent.read()
        assert (answer["id"], answer["error"]["code"]) == (9, -32600)
        assert "larger than 8 MiB" in answer["error"]["message"]
    assert (await agent.call("send_message", {"text": "small"}))["isError"] is False
    assert len(gateway.calls) == 2


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (rb"\ud83d\ude00 pair", "😀 pair"),
        (rb"cut \ud83d", "cut \ufffd"),
        (rb"\udc00 alone \uD800\ud83d\ude00", "\ufffd alone \ufffd😀"),
        (b"broken \xff byte", "broken \ufffd byte"),
        (rb"\u0000\u2028", "\u2400\u2028"),
        ("né 日本語 🏳️‍🌈".encode(), "né 日本語 🏳️‍🌈"),
    ],
)
async def test_text_arrives_as_unicode_whatever_the_agent_wrote(
    gateway: Recorder, start: Start, raw: bytes, text: str
) -> None:
    agent = await start()
    head = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"send_message","arguments":{"text":"'
    await agent.write(head + raw + b'"}}}\n')
    assert (await agent.read())["result"]["isError"] is False
    assert gateway.calls[0]["arguments"]["text"] == text


async def test_a_cancelled_call_is_neither_answered_nor_asked_again(gateway: Recorder, start: Start) -> None:
    release = gateway.hold()
    agent = await start()
    await agent.initialize()
    number = await agent.request("tools/call", {"name": "send_message", "arguments": {"text": "stop"}})
    await gateway.until(lambda: len(gateway.calls) == 1)
    gone = {"requestId": number, "reason": "AbortError"}
    await agent.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone})
    assert "result" in await agent.ask("ping")
    await gateway.stop()
    release.set()
    await gateway.start()
    assert (await agent.call("send_message", {"text": "next"}))["text"] == "sent next"
    # Some agents cancel what was answered long ago: that is no matter.
    await agent.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    assert (await agent.call("send_message", {"text": "last"}))["text"] == "sent last"
    assert [call["arguments"]["text"] for call in gateway.calls] == ["stop", "next", "last"]
    await gateway.until(lambda: len(gateway.of("answered")) == 2)
    assert gateway.calls[0]["call"] not in [a["call"] for a in gateway.of("answered")]


async def test_without_a_gateway_the_agent_is_told_that_nothing_was_sent(gateway: Recorder, start: Start) -> None:
    await gateway.stop()
    agent = await start(SEMEL_PATIENCE="0.3")
    assert "send_message" in (await agent.initialize())["result"]["instructions"]
    told = await agent.call("send_message", {"text": "anyone?"})
    assert told["isError"] is True
    assert told["text"].startswith("Nothing was sent")
    assert await agent.leave() == 0


async def test_a_gateway_that_takes_a_call_and_never_answers_is_an_unknown_outcome(
    gateway: Recorder, start: Start
) -> None:
    gateway.hold()
    agent = await start(SEMEL_PATIENCE="1")
    await agent.initialize()
    told = await agent.call("send_message", {"text": "anyone?"})
    assert told["isError"] is True
    assert told["text"].startswith("Outcome unknown")
    assert "Do not call again" in told["text"]
    assert await agent.leave() == 0
    assert gateway.of("answered") == []


async def test_a_failure_inside_the_gateway_is_an_unknown_outcome_and_no_traceback(
    gateway: Recorder, start: Start
) -> None:
    async def broken(params: Json) -> Json:
        raise KeyError("secret path")

    gateway.on_call = broken
    agent = await start()
    told = await agent.call("send_message", {"text": "x"})
    assert told["isError"] is True
    assert told["text"].startswith("Outcome unknown")
    assert "secret" not in told["text"]


async def test_the_gateways_own_words_reach_the_model(gateway: Recorder, start: Start) -> None:
    async def refuse(params: Json) -> Json:
        return {"ok": False, "text": "refused: no destination 'opps'. There are: ops", "data": {}}

    gateway.on_call = refuse
    agent = await start()
    told = await agent.call("send_message", {"text": "x", "to": "opps"})
    assert told == {"text": "refused: no destination 'opps'. There are: ops", "isError": True}
    await gateway.until(lambda: len(gateway.of("answered")) == 1)
