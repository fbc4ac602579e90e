"""OpenAI's chat API over a real gateway: one message per request, recorded once, answered with what its turn says."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import msgspec
import pytest
from gateway_house import GatewayHouse, until
from http_house import TOKEN, House, client_of
from openai_help import CHAT, SESSION, Asker, Json, assistant, content, error, user

from semel.faces.http import Settings
from semel.faces.http.operations.openai_chat import IGNORED, ChatRequest
from semel.gateway import Gateway


async def test_the_history_that_a_client_repeats_is_not_said_again(asker: Asker) -> None:
    first = await asker.ask(user("hello"), answer="Hi!")
    session = first.headers["x-semel-session"]
    second = await asker.ask(user("hello"), assistant("Hi!"), user("and now?"), answer="Now.", prompts=2)

    assert (content(first), content(second)) == ("Hi!", "Now.")
    assert second.headers["x-semel-session"] == session
    assert await asker.texts(session) == [("user", "hello"), ("agent", "Hi!"), ("user", "and now?"), ("agent", "Now.")]


async def test_a_repeated_request_is_the_same_event_with_the_same_answer(asker: Asker) -> None:
    first = await asker.ask(user("hello"), answer="Hi!")
    again = await asker.post(user("hello"))

    assert first.content == again.content
    assert await asker.texts(first.headers["x-semel-session"]) == [("user", "hello"), ("agent", "Hi!")]


async def test_a_conversation_that_went_on_differently_becomes_a_session_that_is_told_its_history(
    asker: Asker,
) -> None:
    await asker.ask(user("hello"), answer="Hi!")
    one = await asker.ask(user("hello"), assistant("Hi!"), user("blue"), answer="Blue.", prompts=2)
    other = await asker.ask(user("hello"), assistant("Hi!"), user("red"), answer="Red.", prompts=3)

    assert one.headers["x-semel-session"] != other.headers["x-semel-session"]
    roles = await asker.texts(other.headers["x-semel-session"])
    assert [role for role, _ in roles] == ["event", "user", "agent"]
    assert "User: hello\n\nAssistant: Hi!" in roles[0][1]
    assert ("user", "red") not in await asker.texts(one.headers["x-semel-session"])


async def test_after_its_session_is_deleted_the_same_words_begin_a_new_one(asker: Asker, gateway: Gateway) -> None:
    first = await asker.ask(user("hello"), answer="Hi!")
    await gateway.delete(first.headers["x-semel-session"])
    second = await asker.ask(user("hello"), answer="Hi again!", prompts=2)
    assert content(second) == "Hi again!"
    assert content(await asker.post(user("hello"))) == "Hi again!"


async def test_a_key_is_asked_once_and_refuses_another_text(asker: Asker) -> None:
    named = {"X_Semel_Session": SESSION, "Idempotency_Key": "k1"}
    first = await asker.ask(user("hello"), answer="Hi!", **named)
    again = await asker.post(user("hello"), **named)
    other = await asker.post(user("goodbye"), **named)

    assert content(first) == content(again) == "Hi!"
    assert (other.status_code, error(other)["code"]) == (409, "conflict")
    assert other.headers["x-should-retry"] == "false"
    assert await asker.texts(SESSION) == [("user", "hello"), ("agent", "Hi!")]


async def test_a_key_without_a_session_continues_its_conversation_and_is_asked_once(asker: Asker) -> None:
    await asker.ask(user("hello"), answer="Hi!")
    talk = (user("hello"), assistant("Hi!"), user("more"))
    first = await asker.ask(*talk, answer="More.", prompts=2, Idempotency_Key="k1")
    again = await asker.post(*talk, Idempotency_Key="k1")

    assert content(first) == content(again) == "More."
    assert first.headers["x-semel-session"] == again.headers["x-semel-session"]
    assert len(await asker.texts(first.headers["x-semel-session"])) == 4


async def test_a_lone_message_to_a_named_session_is_new_each_time(asker: Asker) -> None:
    for prompts in (1, 2):
        body = {"metadata": {"session": SESSION}}
        await asker.ask(user("go on"), answer=f"Step {prompts}.", prompts=prompts, body=body)
    assert await asker.texts(SESSION) == [
        ("user", "go on"), ("agent", "Step 1."), ("user", "go on"), ("agent", "Step 2."),
    ]  # fmt: skip


async def test_a_message_whose_request_was_lost_arrives_with_the_next_one(asker: Asker) -> None:
    named = {"X_Semel_Session": SESSION}
    await asker.ask(user("one"), answer="1", Idempotency_Key="a", **named)
    talk = (user("one"), assistant("1"), user("lost"), user("two"))
    answered = await asker.ask(*talk, answer="2", prompts=2, Idempotency_Key="b", **named)
    again = await asker.post(*talk, Idempotency_Key="b", **named)

    assert content(answered) == content(again) == "2"
    assert [text for role, text in await asker.texts(SESSION) if role == "user"] == ["one", "lost", "two"]


async def test_a_message_that_failed_is_not_said_again_with_the_next_one(asker: Asker) -> None:
    named = {"X_Semel_Session": SESSION}
    waiting = asker.post(user("one"), Idempotency_Key="a", **named)
    _, agent = await asker.conversation()
    agent.end("error", "invalid api key")
    assert (await waiting).status_code == 502
    await asker.ask(user("one"), user("two"), answer="2", prompts=2, Idempotency_Key="b", **named)
    assert [text for role, text in await asker.texts(SESSION) if role == "user"] == ["one", "two"]


async def test_a_failed_turn_is_an_error_with_what_it_had_said(asker: Asker) -> None:
    waiting = asker.post(user("hello"))
    _, agent = await asker.conversation()
    agent.say("Half a w")
    agent.end("error", "invalid api key")
    failed = await waiting

    assert (failed.status_code, error(failed)["type"], error(failed)["code"]) == (502, "server_error", "turn-failed")
    assert "invalid api key" in error(failed)["message"] and "Half a w" in error(failed)["message"]
    assert failed.headers["x-should-retry"] == "false"
    assert error(await asker.post(user("hello"))) == error(failed)


async def test_a_request_for_permission_is_told_at_once_and_its_answer_continues_the_turn(asker: Asker) -> None:
    waiting = asker.post(user("clean up"), X_Semel_Session=SESSION)
    _, agent = await asker.conversation()
    agent.say("First, ")
    agent.ask("rm -rf build", [{"optionId": "y", "name": "Yes", "kind": "allow_once"}])
    told = content(await waiting)

    assert told.startswith("First,") and "rm -rf build (1: Yes)" in told and f"/#/s/{SESSION}" in told
    approving = asker.post(user("/approve 1"), X_Semel_Session=SESSION)

    async def allowed() -> bool:
        told = [text for _, text in await asker.texts(SESSION)]  # the command is answered when the agent has its answer
        return agent.answers == {"1": "y"} and "Yes: rm -rf build" in told

    await until(allowed)
    agent.say("Done.")
    agent.end()
    assert content(await approving).endswith("Yes: rm -rf build\n\nDone.")


async def test_a_command_is_answered_by_the_gateway(asker: Asker) -> None:
    assert "/status" in content(await asker.post(user("/help"), X_Semel_Session=SESSION))


async def test_a_deleted_session_ends_the_wait_with_an_error(asker: Asker, gateway: Gateway) -> None:
    waiting = asker.post(user("hello"), X_Semel_Session=SESSION)
    await asker.conversation()
    await gateway.delete(SESSION)
    assert "deleted" in error(await waiting)["message"]


async def test_a_conversation_goes_on_in_its_session_after_a_command(asker: Asker) -> None:
    first = await asker.ask(user("hello"), answer="Hi!")
    talk = [user("hello"), assistant("Hi!"), user("/help")]
    helped = await asker.post(*talk)
    again = await asker.ask(*talk, assistant(content(helped)), user("more"), answer="More.", prompts=2)
    assert len({each.headers["x-semel-session"] for each in (first, helped, again)}) == 1


async def test_a_turn_without_words_is_answered_by_its_notice(asker: Asker) -> None:
    waiting = asker.post(user("hello"))
    _, agent = await asker.conversation()
    agent.end()
    assert content(await waiting) == "The agent ended its turn without a word."


async def test_an_answer_that_was_cut_says_so(asker: Asker) -> None:
    waiting = asker.post(user("hello"))
    _, agent = await asker.conversation()
    agent.say("It is")
    agent.end("max_tokens")
    answer = (await waiting).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["message"]["content"] == "It is"


async def test_instructions_are_told_once_as_an_event(asker: Asker) -> None:
    brief = {"role": "system", "content": "Be brief."}
    first = await asker.ask(brief, user("hello"), answer="Hi!")
    await asker.ask(brief, user("hello"), assistant("Hi!"), user("more"), answer="More.", prompts=2)
    texts = await asker.texts(first.headers["x-semel-session"])
    assert [text for role, text in texts if role == "event"] == ["Be brief."]


async def test_thoughts_and_tools_are_reasoning_only_if_asked_for(asker: Asker) -> None:
    for number, headers in enumerate(({}, {"X_Semel_Progress": "1"})):
        waiting = asker.post(user("hello"), X_Semel_Session=f"{SESSION}{number}", **headers)
        _, agent = await asker.conversation(number + 1)
        agent.update("tool_call", toolCallId="t1", title="ls", status="completed")
        agent.say("Hi!")
        agent.end()
        message = (await waiting).json()["choices"][0]["message"]
        assert message["content"] == "Hi!"
        assert message.get("reasoning_content") == ("[ls]\n\n" if headers else None)


async def test_agents_are_models(client: httpx2.AsyncClient) -> None:
    listed = (await client.get("/openai/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == ["main", "codex"]
    assert (await client.get("/openai/v1/models/codex")).json() == listed["data"][1]


async def test_parameters_without_effect_are_named(asker: Asker) -> None:
    body = {"temperature": 0, "max_tokens": 9, "tools": [{"type": "function"}], "tool_choice": "auto"}
    answer = await asker.ask(user("hello"), answer="Hi!", body=body)
    assert answer.headers["x-semel-ignored"] == "temperature, max_tokens, tools"


def test_every_parameter_without_effect_is_a_field() -> None:
    assert set(IGNORED) <= {field.name for field in msgspec.structs.fields(ChatRequest)}


async def test_a_chat_of_open_webui_is_a_session_and_its_tasks_are_refused(asker: Asker) -> None:
    first = await asker.ask(user("hello"), answer="Hi!", X_OpenWebUI_Chat_Id="c-1")
    task = await asker.post(user("### Task:\nGenerate a title"), X_OpenWebUI_Chat_Id="c-1")
    other = await asker.ask(user("hello"), answer="Hello!", prompts=2, X_OpenWebUI_Chat_Id="c-2")

    assert first.headers["x-semel-session"] == "main:web:openwebui-c-1"
    assert task.status_code == 400 and "task model" in error(task)["message"]
    assert content(other) == "Hello!"
    assert len(await asker.texts("main:web:openwebui-c-1")) == 2


# ---------------------------------------------------------------- streams


def pieces(lines: list[str]) -> list[Json]:
    return [msgspec.json.decode(line[6:]) for line in lines if line.startswith("data: {")]


def joined(lines: list[str]) -> str:
    choices = [choice for piece in pieces(lines) for choice in piece.get("choices", ())]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


async def test_a_stream_shows_the_text_as_it_grows_and_again_from_its_beginning(
    world: GatewayHouse, house: House
) -> None:
    asker = Asker(world, house.client)
    request = {
        "model": "main", "messages": [user("hello")], "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip
    lines: list[str] = []
    async with house.client.stream("POST", CHAT, json=request) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        _, agent = await asker.conversation()
        agent.say("One ")
        async for line in stream.aiter_lines():
            lines.append(line)
            if joined(lines) == "One ":
                break
    agent.say("two.")
    agent.end()
    again = (await house.client.post(CHAT, json=request)).text.splitlines()

    assert joined(again) == "One two."
    assert pieces(again)[-2]["choices"][0]["finish_reason"] == "stop"
    assert pieces(again)[-1]["choices"] == [] and pieces(again)[-1]["usage"]["total_tokens"] == 0
    assert again[-2:] == ["data: [DONE]", ""] or again[-1] == "data: [DONE]"
    assert agent.prompts == 1


async def test_a_stream_tells_a_request_for_permission_and_goes_on_when_the_page_has_answered_it(
    world: GatewayHouse, house: House
) -> None:
    asker = Asker(world, house.client)
    waiting = asker.post(user("clean up"), body={"stream": True}, X_Semel_Session=SESSION)
    _, agent = await asker.conversation()
    agent.say("First, ")
    agent.ask("rm -rf build", [{"optionId": "y", "name": "Yes", "kind": "allow_once"}])
    item = await world.open_request(SESSION)
    await house.client.post(f"/v1/sessions/{SESSION}/answers", json={"item": item, "option": "y"})
    agent.say("Done.")
    agent.end()
    text = joined((await waiting).text.splitlines())
    assert text.startswith("First,") and "rm -rf build (1: Yes)" in text and text.endswith("Done.")


async def test_a_message_behind_an_open_request_is_told_what_it_waits_for(asker: Asker) -> None:
    first = asker.post(user("clean up"), X_Semel_Session=SESSION)
    _, agent = await asker.conversation()
    agent.ask("rm -rf build", [{"optionId": "y", "name": "Yes", "kind": "allow_once"}])
    await first
    assert "rm -rf build (1: Yes)" in content(await asker.post(user("hello?"), X_Semel_Session=SESSION))


async def test_a_message_that_waits_for_a_turn_gets_only_what_answers_it(asker: Asker) -> None:
    first = asker.post(user("one"), X_Semel_Session=SESSION)
    _, agent = await asker.conversation()
    agent.say("1")
    second = asker.post(user("two"), X_Semel_Session=SESSION)

    async def waits() -> bool:
        return (await asker.world.gateway.session(SESSION))["waiting"] == 1

    await until(waits)
    agent.end()
    assert content(await first) == "1"
    await asker.conversation(2)
    agent.say("2")
    agent.end()
    assert content(await second) == "2"


async def test_requests_that_wait_for_the_same_turn_get_the_whole_of_its_answer(asker: Asker) -> None:
    asks = [asker.post(user("one"), X_Semel_Session=SESSION)]
    _, agent = await asker.conversation()
    for number, text in enumerate(("two", "three"), 1):
        asks.append(asker.post(user(text), X_Semel_Session=SESSION))

        async def waits(number: int = number) -> bool:
            return (await asker.world.gateway.session(SESSION))["waiting"] == number

        await until(waits)
    elsewhere = asker.post(user("four"))  # its conversation has a session of its own, which waits for nobody
    _, other = await asker.conversation(2)
    other.say("4")
    other.end()
    assert content(await elsewhere) == "4"
    agent.say("1")
    agent.end()
    await asker.conversation(3)
    agent.say("2 and 3")
    agent.end()
    assert [content(await ask) for ask in asks] == ["1", "2 and 3", "2 and 3"]
    said = [text for role, text in await asker.texts(SESSION) if role == "user"]
    assert said == ["one", "two", "three"]


async def test_a_turn_that_is_over_before_it_is_watched_is_answered(asker: Asker, gateway: Gateway) -> None:
    """The whole turn happens between the first look at the reply and the first frame."""
    await asker.ask(user("one"), answer="1", X_Semel_Session=SESSION)
    agent, read = asker.world.agents["main"].conversations[SESSION], gateway.reply
    looks = 0

    async def read_and_linger(event: int) -> Any:
        nonlocal looks
        reply = await read(event)
        looks += 1
        if looks == 1:
            await asker.conversation(2)
            agent.say("2")
            agent.end()
            await asker.world.idle(SESSION)
        return reply

    gateway.reply = read_and_linger  # type: ignore[method-assign]
    assert content(await asker.post(user("two"), X_Semel_Session=SESSION)) == "2"


async def test_a_stream_ends_with_an_error_if_the_turn_fails(world: GatewayHouse, house: House) -> None:
    asker = Asker(world, house.client)
    waiting = asker.post(user("hello"), body={"stream": True})
    _, agent = await asker.conversation()
    agent.say("Half")
    agent.end("error", "invalid api key")
    lines = (await waiting).text.splitlines()
    assert joined(lines) == "Half"
    assert pieces(lines)[-1]["error"]["code"] == "turn-failed"
    assert "data: [DONE]" not in lines


async def test_a_stop_of_the_gateway_is_an_error_in_the_stream_and_nothing_is_asked_twice(
    world: GatewayHouse, house: House
) -> None:
    asker = Asker(world, house.client)
    streaming = asker.post(user("hello"), body={"stream": True}, Idempotency_Key="k1")
    plain = asker.post(user("hello"), Idempotency_Key="k1")
    _, agent = await asker.conversation()
    await asyncio.sleep(0)
    house.server._app.state.stopping.set()

    assert pieces((await streaming).text.splitlines())[-1]["error"]["code"] == "unavailable"
    assert (await plain).status_code == 503 and error(await plain)["code"] == "unavailable"
    assert "x-should-retry" not in (await plain).headers  # OpenAI's libraries repeat it with the same key
    assert agent.prompts == 1


async def test_a_stop_of_the_gateway_forbids_a_repeat_that_would_not_be_recognised(
    world: GatewayHouse, house: House
) -> None:
    asker = Asker(world, house.client)
    waiting = asker.post(user("hello"), X_Semel_Session=SESSION)
    await asker.conversation()
    house.server._app.state.stopping.set()
    answer = await waiting
    assert (answer.status_code, answer.headers["x-should-retry"]) == (503, "false")
    assert error(answer)["message"].startswith("The gateway is stopping. The message was accepted")


# ---------------------------------------------------------------- who may ask


async def test_a_wrong_token_is_refused_in_openais_words(client: httpx2.AsyncClient, gateway: Gateway) -> None:
    for token, status in (("wrong", 401), (TOKEN, 200)):
        answer = await client.get("/openai/v1/models", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == status
        if status == 401:
            assert error(answer)["code"] == "no-token"


async def test_beyond_loopback_the_token_is_the_api_key(gateway: Gateway) -> None:
    async with client_of(gateway, Settings(listen="0.0.0.0", token=TOKEN)) as client:
        refused = await client.post(CHAT, json={"model": "main", "messages": [user("hi")]})
        assert (refused.status_code, error(refused)["code"]) == (401, "no-token")
        allowed = await client.get("/openai/v1/models", headers={"Authorization": f"Bearer {TOKEN}"})
        assert allowed.status_code == 200
    assert await gateway.sessions() == []


@pytest.mark.parametrize(
    ("headers", "body", "code"),
    [
        ({"Host": "evil.example"}, b"{}", "foreign-host"),
        ({"Origin": "https://evil.example"}, b"{}", "foreign-origin"),
        ({"Content-Type": "text/plain"}, b"{}", "not-json"),
        ({}, b"x" * 34_000_000, "too-large"),
        ({}, b"{", "bad-json"),
        (
            {"Idempotency-Key": "k" * 256},
            b'{"model": "main", "messages": [{"role": "user", "content": "hi"}]}',
            "bad-field",
        ),
    ],
)
async def test_foreign_pages_and_wrong_bodies_are_refused(
    client: httpx2.AsyncClient, gateway: Gateway, headers: dict[str, str], body: bytes, code: str
) -> None:
    refused = await client.post(CHAT, content=body, headers={"Content-Type": "application/json", **headers})
    assert error(refused)["code"] == code
    assert await gateway.sessions() == []
