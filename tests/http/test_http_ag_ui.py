"""AG-UI over a real gateway: a thread is a session, a run is one message, and a repeated run is shown once."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx2
import pytest
from ag_ui_front import OPTIONS, SESSION, Front, Json, events, front, types, user
from gateway_house import PlayedConversation, until
from http_house import TOKEN, client_of

from semel.faces.http import Settings
from semel.faces.http.operations.messages import MAX_MESSAGE_BYTES
from semel.gateway import Gateway

__all__ = ["front"]


async def test_a_run_shows_what_the_agent_says_and_does(front: Front) -> None:
    running = front.run(user("hello"))
    agent = await front.agent()
    agent.update("agent_thought_chunk", content={"type": "text", "text": "Hm."})
    agent.say("One.")
    agent.update("tool_call", toolCallId="c1", title="ls", status="in_progress", rawInput={"path": "/"})
    output = [{"type": "content", "content": {"type": "text", "text": "etc"}}]
    agent.update("tool_call_update", toolCallId="c1", status="completed", content=output)
    agent.say("Two.")
    agent.end()
    shown = await events(running)

    assert shown[0] == {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1", "protocolVersion": "1.0"}
    assert [event["delta"] for event in shown if event["type"] == "TEXT_MESSAGE_CONTENT"] == ["One.", "Two."]
    assert [event["delta"] for event in shown if event["type"] == "REASONING_MESSAGE_CONTENT"] == ["Hm."]
    assert [event["delta"] for event in shown if event["type"] == "TOOL_CALL_ARGS"] == ['{"path":"/"}']
    assert [event["content"] for event in shown if event["type"] == "TOOL_CALL_RESULT"] == ["etc"]
    assert shown[-1] == {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1", "outcome": {"type": "success"}}


async def test_only_the_new_message_is_an_event(front: Front) -> None:
    first = front.run(user("hello"))
    agent = await front.agent()
    agent.say("Hi!")
    agent.end()
    answer = {"id": "entry-2", "role": "assistant", "content": "Hi!"}
    assert types(await events(first))[-1] == "RUN_FINISHED"
    second = front.run(user("hello"), answer, user("more", "u2"), run="r2")
    await front.agent(2)
    agent.say("More.")
    agent.end()
    await events(second)
    assert [(each["role"], each["text"]) for each in await front.world.entries(SESSION)] == [
        ("user", "hello"), ("agent", "Hi!"), ("user", "more"), ("agent", "More."),
    ]  # fmt: skip


async def test_a_repeated_run_takes_back_what_the_client_has_of_it_and_shows_it_whole(front: Front) -> None:
    first = front.run(user("hello"))
    agent = await front.agent()
    agent.say("One two")
    agent.end()
    await events(first)
    again = await events(front.run(user("hello"), {"id": "entry-2", "role": "assistant", "content": "One"}))

    assert types(again) == [
        "RUN_STARTED", "MESSAGES_SNAPSHOT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]  # fmt: skip
    assert again[1]["messages"] == [user("hello")]
    assert again[3]["delta"] == "One two"
    assert agent.prompts == 1


async def test_a_run_id_with_another_message_is_a_conflict(front: Front) -> None:
    first = front.run(user("hello"))
    (await front.agent()).end()
    await events(first)
    refused = await front.run(user("goodbye"))
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:semel:problem:conflict")
    assert refused.json()["detail"].endswith("Use a new runId for a new message.")


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ({"status": "resolved", "payload": "y"}, "y"),
        ({"status": "resolved", "payload": {"approved": True}}, "y"),
        ({"status": "resolved", "payload": {"option": "n"}}, "n"),
        ({"status": "resolved", "payload": False}, "n"),
        ({"status": "cancelled"}, None),
    ],
)
async def test_a_permission_interrupts_the_run_and_the_answer_continues_the_turn(
    front: Front, answer: Json, chosen: str | None
) -> None:
    running = front.run(user("clean up"))
    agent = await front.agent()
    agent.update("tool_call", toolCallId="t1", title="rm", status="pending")
    agent.ask("rm -rf build", OPTIONS)
    shown = await events(running)
    (interrupt,) = shown[-1]["outcome"]["interrupts"]
    call = next(event["toolCallId"] for event in shown if event["type"] == "TOOL_CALL_START")
    assert (interrupt["reason"], interrupt["toolCallId"]) == ("tool_call", call)
    assert interrupt["message"].startswith("rm -rf build") and interrupt["metadata"] == {"options": OPTIONS}
    assert "TOOL_CALL_RESULT" not in types(shown)

    resumed = front.run(user("clean up"), run="r2", resume=[{"interruptId": interrupt["id"], **answer}])

    async def answered() -> bool:
        return agent.answers == {"1": chosen}

    await until(answered)
    agent.update("tool_call_update", toolCallId="t1", status="completed")
    agent.say("Done.")
    agent.end()
    rest = await events(resumed)
    assert types(rest) == [
        "RUN_STARTED", "TOOL_CALL_RESULT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]  # fmt: skip
    assert rest[-1]["outcome"] == {"type": "success"}
    assert [each["text"] for each in await front.world.entries(SESSION) if each["role"] == "user"] == ["clean up"]


async def test_an_interrupt_says_which_answers_it_takes(front: Front) -> None:
    running = front.run(user("clean up"))
    (await front.agent()).ask("rm", OPTIONS)
    (interrupt,) = (await events(running))[-1]["outcome"]["interrupts"]
    assert interrupt["responseSchema"] == {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "option": {"type": "string", "enum": ["y", "n"]}},
    }


@pytest.mark.parametrize("version", ["1.0", None])
async def test_an_interrupt_says_when_it_expires_to_clients_that_can_go_on_then(
    front: Front, gateway: Gateway, version: str | None
) -> None:
    running = front.run(user("clean up"), protocolVersion=version)
    (await front.agent()).ask("rm", OPTIONS)
    (interrupt,) = (await events(running))[-1]["outcome"]["interrupts"]
    items = (await gateway.history(SESSION, 1 << 62))["items"]
    (request,) = [item for item in items if item["kind"] == "permission"]
    expiry = datetime.fromtimestamp(request["expires"] // 1000, UTC)
    shown = interrupt.get("expiresAt")
    assert (shown and datetime.fromisoformat(shown)) == (expiry if version else None)
    (message,) = await front.world.entries(SESSION)
    assert request["expires"] - message["at"] >= gateway.settings.permission_deadline_s * 1000


async def test_a_result_that_the_client_made_gives_way_to_that_of_the_agent(front: Front) -> None:
    running = front.run(user("clean up"))
    agent = await front.agent()
    agent.update("tool_call", toolCallId="t1", title="rm", status="pending")
    agent.ask("rm", OPTIONS)
    (interrupt,) = (await events(running))[-1]["outcome"]["interrupts"]
    made = {"id": "m1", "role": "tool", "toolCallId": interrupt["toolCallId"], "content": '{"approved":true}'}
    answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    resumed = front.run(user("clean up"), made, run="r2", resume=[answer])

    async def answered() -> bool:
        return agent.answers == {"1": "y"}

    await until(answered)
    output = [{"type": "content", "content": {"type": "text", "text": "removed"}}]
    agent.update("tool_call_update", toolCallId="t1", status="completed", content=output)
    agent.end()
    shown = await events(resumed)
    assert [event["messages"] for event in shown if event["type"] == "MESSAGES_SNAPSHOT"] == [[user("clean up")]]
    assert [event["content"] for event in shown if event["type"] == "TOOL_CALL_RESULT"] == ["removed"]


@pytest.mark.parametrize(("answer", "result"), [("n", "rejected"), ("y", "failed"), (None, "withdrawn")])
async def test_a_tool_call_that_did_not_succeed_has_a_result_that_says_so(
    front: Front, gateway: Gateway, answer: str | None, result: str
) -> None:
    running = front.run(user("clean up"))
    agent = await front.agent()
    agent.update("tool_call", toolCallId="t1", title="rm", status="pending")
    agent.ask("rm -rf build", OPTIONS)
    (interrupt,) = (await events(running))[-1]["outcome"]["interrupts"]
    if answer is None:
        await gateway.controls.stop_turn(SESSION, "Ann")
        await front.world.idle(SESSION)
        resumed = front.run(run="r2", resume=[{"interruptId": interrupt["id"], "status": "cancelled"}])
    else:
        payload = {"interruptId": interrupt["id"], "status": "resolved", "payload": answer}
        resumed = front.run(run="r2", resume=[payload])

        async def answered() -> bool:
            return agent.answers == {"1": answer}

        await until(answered)
        agent.update("tool_call_update", toolCallId="t1", status="failed")
        agent.end()
    shown = await events(resumed)
    assert [each["content"] for each in shown if each["type"] == "TOOL_CALL_RESULT"] == [result]
    snapshot = (await events(front.run(run="r3")))[1]
    assert [each["content"] for each in snapshot["messages"] if each["role"] == "tool"] == [result]


async def test_a_message_behind_an_open_request_ends_with_that_interrupt(front: Front) -> None:
    running = front.run(user("clean up"))
    (await front.agent()).ask("rm", OPTIONS)
    first = (await events(running))[-1]["outcome"]
    behind = (await events(front.run(user("clean up"), user("hello?", "u2"), run="r2")))[-1]["outcome"]
    assert behind == first


async def test_a_client_that_lacks_the_tool_call_of_a_request_gets_it_with_the_interrupt(front: Front) -> None:
    running = front.run(user("clean up"))
    agent = await front.agent()
    agent.update("tool_call", toolCallId="t1", title="rm", status="pending", rawInput={"path": "build"})
    agent.ask("rm -rf build", OPTIONS)
    (first,) = (await events(running))[-1]["outcome"]["interrupts"]
    shown = await events(front.run(user("hello?", "u2"), run="r2"))  # from a page that did not load the thread
    assert types(shown) == ["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "RUN_FINISHED"]
    assert shown[1]["toolCallId"] == first["toolCallId"] and shown[-1]["outcome"]["interrupts"] == [first]
    call = {"id": first["toolCallId"], "type": "function", "function": {"name": "rm", "arguments": "{}"}}
    told = {"id": call["id"], "role": "assistant", "toolCalls": [call]}
    assert types(await events(front.run(told, user("hello?", "u2"), run="r2"))) == ["RUN_STARTED", "RUN_FINISHED"]


async def test_an_unknown_interrupt_is_not_found_and_nothing_is_said(front: Front) -> None:
    running = front.run(user("hello"))
    (await front.agent()).end()
    await events(running)
    for id in ("request-x", "request-999", f"request-{1 << 59}"):
        for answer in ({"status": "cancelled"}, {"status": "resolved", "payload": "y"}):
            resume = [{"interruptId": id, **answer}]
            refused = await front.run(user("hello"), user("more", "u2"), run="r2", resume=resume)
            assert (refused.status_code, refused.json()["type"]) == (404, "urn:semel:problem:not-found"), id
    assert [each["text"] for each in await front.world.entries(SESSION) if each["role"] == "user"] == ["hello"]


async def interrupt_of(front: Front) -> tuple[PlayedConversation, str]:
    """Have the agent ask for a permission. Returns the agent and the interrupt's id."""
    running = front.run(user("clean up"))
    agent = await front.agent()
    agent.ask("rm -rf build", OPTIONS)
    return agent, (await events(running))[-1]["outcome"]["interrupts"][0]["id"]


@pytest.mark.parametrize("payload", ["y", "n"])
async def test_an_answer_after_another_persons_is_refused_with_the_first_one(
    front: Front, gateway: Gateway, payload: str
) -> None:
    agent, interrupt = await interrupt_of(front)
    await gateway.controls.answer(SESSION, int(interrupt.removeprefix("request-")), "n", "Ann")
    resume = [{"interruptId": interrupt, "status": "resolved", "payload": payload}]
    for is_over in (False, True):
        refused = await front.run(user("clean up"), run="r2", resume=resume)
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:semel:problem:wrong-state")
        assert refused.json()["detail"].endswith("to go on. No, by Ann: rm -rf build")
        if not is_over:
            agent.end()
            await front.world.idle(SESSION)
    assert agent.answers == {"1": "n"}


async def test_an_answer_after_the_turn_is_refused(front: Front, gateway: Gateway) -> None:
    _, interrupt = await interrupt_of(front)
    await gateway.controls.stop_turn(SESSION, "Ann")
    await front.world.idle(SESSION)
    resume = [{"interruptId": interrupt, "status": "resolved", "payload": "y"}]
    refused = await front.run(user("clean up"), run="r2", resume=resume)
    assert refused.status_code == 409
    assert refused.json()["detail"].endswith("to go on. Withdrawn: rm -rf build")


async def test_an_interrupt_that_is_over_can_be_cancelled_so_that_the_client_goes_on(
    front: Front, gateway: Gateway
) -> None:
    agent, interrupt = await interrupt_of(front)
    await gateway.controls.answer(SESSION, int(interrupt.removeprefix("request-")), "n", "Ann")
    agent.say("As it is.")
    agent.end()
    await front.world.idle(SESSION)
    shown = await events(
        front.run(user("clean up"), run="r2", resume=[{"interruptId": interrupt, "status": "cancelled"}])
    )
    assert [event["delta"] for event in shown if event["type"] == "TEXT_MESSAGE_CONTENT"] == ["As it is."]
    assert shown[-1]["outcome"] == {"type": "success"}
    assert agent.answers == {"1": "n"}


async def test_a_repeated_answer_of_one_run_shows_the_rest_again(front: Front) -> None:
    agent, interrupt = await interrupt_of(front)
    resume = [{"interruptId": interrupt, "status": "resolved", "payload": "y"}]
    first = front.run(user("clean up"), run="r2", resume=resume)

    async def answered() -> bool:
        return agent.answers == {"1": "y"}

    await until(answered)
    agent.say("Done.")
    agent.end()
    shown = await events(first)
    assert await events(front.run(user("clean up"), run="r2", resume=resume)) == shown
    assert (await front.run(user("clean up"), run="r3", resume=resume)).status_code == 409


async def test_a_payload_that_chooses_nothing_is_refused(front: Front) -> None:
    running = front.run(user("clean up"))
    (await front.agent()).ask("rm", OPTIONS)
    (interrupt,) = (await events(running))[-1]["outcome"]["interrupts"]
    for payload in ({}, "maybe", 7):
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": payload}]
        assert (await front.run(run="r2", resume=resume)).status_code == 400


async def test_a_failed_turn_is_a_run_error(front: Front) -> None:
    running = front.run(user("hello"))
    agent = await front.agent()
    agent.say("Half")
    agent.end("error", "invalid api key")
    shown = await events(running)
    assert types(shown)[-2:] == ["TEXT_MESSAGE_END", "RUN_ERROR"]
    assert "invalid api key" in shown[-1]["message"]


@pytest.mark.parametrize(("version", "outcome"), [("1.0", "cancelled"), (None, "success")])
async def test_a_stopped_turn_is_cancelled_for_clients_that_know_that_outcome(
    front: Front, gateway: Gateway, version: str | None, outcome: str
) -> None:
    running = front.run(user("hello"), protocolVersion=version)
    await front.agent()
    await gateway.controls.stop_turn(SESSION, "Ann")
    shown = await events(running)
    assert shown[-1]["outcome"] == {"type": outcome}
    assert shown[-2]["type"] == "TEXT_MESSAGE_END"  # of the notice that says so


async def test_a_thread_may_be_a_session_of_the_agent(front: Front) -> None:
    running = front.run(user("hello"), thread="main:web:kitchen")
    (await front.agent(session="main:web:kitchen")).end()
    assert types(await events(running))[-1] == "RUN_FINISHED"


@pytest.mark.parametrize("key", ["kitchen", "home:telegram:5"])
async def test_a_header_names_a_session_that_a_thread_cannot(front: Front, gateway: Gateway, key: str) -> None:
    """Such a session belongs to the default agent, although its key does not begin with that agent's name."""
    await gateway.report(key, "note", "It began elsewhere.", wakes=False)
    front.client.headers["X-Semel-Session"] = key
    running = front.run(user("hello"), thread="t9")
    agent = await front.agent(session=key)
    agent.say("Hi!")
    agent.end()
    answer = await running
    assert answer.headers["X-Semel-Session"] == key
    assert (await events(running))[0]["threadId"] == "t9"
    shown = (await events(front.run(thread="t9", run="r2")))[1]["messages"]
    assert [each["content"] for each in shown] == ["hello", "Hi!"]


async def test_a_header_with_the_session_of_another_agent_is_refused(front: Front, gateway: Gateway) -> None:
    front.client.headers["X-Semel-Session"] = "codex:web:x"
    refused = await front.run(user("hello"))
    assert (refused.status_code, refused.json()["field"]) == (400, "X-Semel-Session")
    assert await gateway.sessions() == []


async def test_what_is_no_run_is_refused(client: httpx2.AsyncClient, gateway: Gateway) -> None:
    run = {"threadId": "t1", "runId": "r1", "messages": []}
    assert (await client.post("/ag-ui/nobody", json=run)).status_code == 404
    assert (await client.post("/ag-ui/main", json={**run, "messages": 7})).status_code == 400
    assert (await client.post("/ag-ui/main", json={"runId": "r1", "messages": []})).status_code == 400
    for field in ("threadId", "runId"):
        empty = await client.post("/ag-ui/main", json={**run, field: ""})
        assert (empty.status_code, empty.json()["field"]) == (400, field)
    assert (await client.post("/ag-ui/main", content=b"x" * (MAX_MESSAGE_BYTES + 1))).status_code == 413
    assert (await client.post("/ag-ui/main", content=b"{}", headers={"Content-Type": "text/plain"})).status_code == 415
    for header in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        assert (await client.post("/ag-ui/main", json=run, headers=header)).status_code == 403
    assert await gateway.sessions() == []


async def test_beyond_loopback_a_run_needs_the_token(gateway: Gateway) -> None:
    run = {"threadId": "t1", "runId": "r1", "messages": []}
    async with client_of(gateway, Settings(listen="0.0.0.0", token=TOKEN)) as client:
        assert (await client.post("/ag-ui/main", json=run)).status_code == 401
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert (await client.post("/ag-ui/main", json=run, headers=bearer)).status_code == 200
