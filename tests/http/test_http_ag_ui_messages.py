"""What AG-UI reads and writes besides a run's own words: transcripts, context, and files in messages."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from ag_ui_front import OPTIONS, PIXEL, SESSION, Front, Json, events, front, types, user
from gateway_house import until

from semel.faces.http.ag_ui_messages import describe_request, write_transcript
from semel.gateway import Gateway

__all__ = ["front"]


async def test_a_run_without_a_message_shows_the_session(front: Front) -> None:
    running = front.run(user("hello"))
    agent = await front.agent()
    agent.say("Hi!")
    agent.end()
    await events(running)
    shown = await events(front.run(run="r2"))
    assert types(shown) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert [(each["role"], each["content"]) for each in shown[1]["messages"]] == [
        ("user", "hello"), ("assistant", "Hi!"),
    ]  # fmt: skip
    assert types(await events(front.run(thread="new", run="r3"))) == ["RUN_STARTED", "RUN_FINISHED"]


async def test_a_run_without_a_message_joins_the_turn_that_runs(front: Front, client: httpx2.AsyncClient) -> None:
    """A page that is loaded again in the middle of an answer gets all of it, each text once."""
    running = front.run(user("hello"))
    agent = await front.agent()
    agent.say("Before.")
    agent.update("tool_call", toolCallId="c1", title="ls", status="in_progress", rawInput={"path": "/"})
    agent.say("One ")

    async def is_shown() -> bool:
        return [each["text"] for each in await front.world.entries(SESSION)][1:] == ["Before.", "One "]

    await until(is_shown)

    async def is_joined() -> bool:
        return (await client.get("/v1/status")).json()["watchers"] == 2

    joining = front.run(run="r2")
    await until(is_joined)
    agent.say("two.")
    agent.end()
    shown = await events(joining)
    assert types(shown)[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"] and types(shown)[-1] == "RUN_FINISHED"
    assert [(each["role"], each["content"]) for each in shown[1]["messages"]] == [("user", "hello")]
    assert "".join(each["delta"] for each in shown if each["type"] == "TEXT_MESSAGE_CONTENT") == "Before.One two."
    assert "TOOL_CALL_START" in types(shown) and "TOOL_CALL_RESULT" in types(shown)
    await events(running)


async def test_a_run_without_a_message_while_a_request_waits_ends_with_its_interrupt(front: Front) -> None:
    running = front.run(user("clean up"))
    agent = await front.agent()
    agent.update("tool_call", toolCallId="t1", title="rm", status="pending")
    agent.ask("rm -rf build", OPTIONS)
    interrupted = (await events(running))[-1]["outcome"]
    shown = await events(front.run(run="r2"))
    assert shown[-1]["outcome"] == interrupted
    (call,) = [each["toolCallId"] for each in shown if each["type"] == "TOOL_CALL_START"]
    assert interrupted["interrupts"][0]["toolCallId"] == call


async def test_the_transcript_has_tool_calls_and_leaves_the_clients_messages_as_they_are(front: Front) -> None:
    mine = user("hello")
    running = front.run(mine)
    agent = await front.agent()
    agent.update("tool_call", toolCallId="c1", title="ls /", name="Bash", status="in_progress", rawInput={"path": "/"})
    output = [{"type": "content", "content": {"type": "text", "text": "etc"}}]
    agent.update("tool_call_update", toolCallId="c1", status="completed", content=output)
    agent.say("See above.")
    agent.end()
    streamed = await events(running)
    answer = {"id": "entry-2", "role": "assistant", "content": "See above."}
    (snapshot,) = [
        each for each in await events(front.run(mine, answer, run="r2")) if each["type"] == "MESSAGES_SNAPSHOT"
    ]
    call = {"id": "tool-1", "type": "function", "function": {"name": "Bash", "arguments": '{"path":"/"}'}}
    assert snapshot["messages"] == [
        mine,
        {"id": "tool-1", "role": "assistant", "toolCalls": [call]},
        {"id": "result-1", "role": "tool", "toolCallId": "tool-1", "content": "etc"},
        answer,
    ]
    (start,) = [each for each in streamed if each["type"] == "TOOL_CALL_START"]
    assert (start["toolCallId"], start["toolCallName"]) == ("tool-1", "Bash")


def test_the_transcript_keeps_the_clients_instructions_in_their_places() -> None:
    entries = [
        {"seq": 2, "born": 2, "role": "user", "text": "hello"},
        {"seq": 3, "born": 3, "role": "agent", "text": "Hi!"},
        {"seq": 4, "born": 4, "role": "agent", "text": "Said later."},
    ]
    brief, later = {"id": "s1", "role": "system", "content": "Be brief."}, {"id": "d1", "role": "developer"}
    answer = {"id": "entry-3", "role": "assistant", "content": "Hi!"}
    mine = [brief, user("hello"), answer, later]
    shown = write_transcript({"entries": entries, "items": []}, mine, "http://gateway")
    assert shown[:-1] == mine and shown[-1]["id"] == "entry-4"
    assert write_transcript({"entries": entries[:2], "items": []}, mine, "http://gateway") == mine


def test_the_transcript_links_the_files_of_an_entry() -> None:
    entry = {"seq": 2, "born": 1, "role": "agent", "text": "See:", "files": [{"id": "f1", "name": "a.txt"}]}
    (message,) = write_transcript({"entries": [entry], "items": []}, [], "http://gateway")
    assert message["content"] == "See:\n\n[a.txt](http://gateway/v1/blobs/f1)"


async def test_context_is_told_once(front: Front) -> None:
    running = front.run(user("look"), context=[{"description": "Time zone", "value": "UTC"}])
    (await front.agent()).end()
    await events(running)
    texts = [(each["role"], each["text"]) for each in await front.world.entries(SESSION)]
    assert texts[:2] == [("event", "Time zone: UTC"), ("user", "look")]


async def test_context_that_changes_back_is_told_again_and_a_repeated_run_tells_nothing(front: Front) -> None:
    said: list[Json] = []
    bodies = []
    for number, page in enumerate(("/cart", "/checkout", "/cart", "/cart"), start=1):
        said.append(user(f"at {number}", f"u{number}"))
        bodies.append({"run": f"r{number}", "context": [{"description": "page", "value": page}]})
        running = front.run(*said, **bodies[-1])
        (await front.agent(number)).end()
        await events(running)
        said.append({"id": f"a{number}", "role": "assistant", "content": ""})
    await events(front.run(*said[:3], **bodies[1]))
    told = [each["text"] for each in await front.world.entries(SESSION) if each["role"] == "event"]
    assert told == ["page: /cart", "page: /checkout", "page: /cart"]


async def test_a_new_chapter_is_told_the_context_once_though_it_did_not_change(front: Front) -> None:
    said: list[Json] = []
    played = front.world.agents["main"].conversations
    for number, text in enumerate(("look", "/new", "/new", "again", "and again"), start=1):
        said.append(user(text, f"u{number}"))
        running = front.run(*said, run=f"r{number}", context=[{"description": "Time zone", "value": "UTC"}])
        if not text.startswith("/"):
            (await front.agent(2 if text == "and again" else 1)).end()
        await events(running)
        if text == "/new":
            played.pop(SESSION, None)  # the agent begins anew
        said.append({"id": f"a{number}", "role": "assistant", "content": ""})
    told = [each["text"] for each in await front.world.entries(SESSION) if each["role"] in ("event", "user")]
    assert told == ["Time zone: UTC", "look", "/new", "Time zone: UTC", "/new", "again", "and again"]


async def test_a_thread_that_was_deleted_is_told_context_and_history_again(front: Front, gateway: Gateway) -> None:
    said = [user("earlier", "u0"), {"id": "a0", "role": "assistant", "content": "Yes."}, user("look")]
    for run in ("r1", "r2"):
        running = front.run(*said, run=run, context=[{"description": "Time zone", "value": "UTC"}])
        (await front.agent()).end()
        await events(running)
        told = [each["text"] for each in await front.world.entries(SESSION) if each["role"] == "event"]
        assert told[0] == "Time zone: UTC" and "Assistant: Yes." in told[1] and len(told) == 2
        await gateway.delete(SESSION)
        front.world.agents["main"].conversations.pop(SESSION)


def data_part(kind: str, mime: str, **more: Any) -> Json:
    return {"type": kind, "source": {"type": "data", "value": PIXEL, "mimeType": mime}, **more}


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (data_part("image", "image/png"), {"type": "image", "data": PIXEL, "mimeType": "image/png"}),
        (data_part("audio", "audio/wav"), {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"}),
        (
            data_part("document", "application/pdf"),
            {
                "type": "resource",
                "resource": {"uri": "attachment:///document-2.pdf", "mimeType": "application/pdf", "blob": PIXEL},
            },
        ),
        (
            data_part("video", "video/mp4", metadata={"filename": "cat.mp4"}),
            {"type": "resource", "resource": {"uri": "attachment:///cat.mp4", "mimeType": "video/mp4", "blob": PIXEL}},
        ),
        (
            {"type": "image", "source": {"type": "url", "value": f"data:image/png;base64,{PIXEL}"}},
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        ),
        (
            {"type": "image", "source": {"type": "url", "value": "https://a.example/b.png"}},
            {"type": "resource_link", "uri": "https://a.example/b.png", "name": "b.png"},
        ),
        (
            {"type": "binary", "mimeType": "image/png", "data": PIXEL},
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        ),
    ],
)
async def test_a_file_in_a_message_reaches_the_agent(front: Front, part: Json, block: Json) -> None:
    first = front.run(user("hello"))
    agent = await front.agent()
    agent.images = agent.audio = agent.resources = True
    agent.say("Hi!")
    agent.end()
    await events(first)
    parts = [{"type": "text", "text": "look"}, part, {"type": "hologram"}]
    answer = {"id": "entry-2", "role": "assistant", "content": "Hi!"}
    running = front.run(user("hello"), answer, user(parts, "u2"), run="r2")
    await front.agent(2)
    agent.end()
    await events(running)
    assert agent.contents[-1] == [{"type": "text", "text": "look"}, block]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"type": "file", "value": "file-7"}, "no file that Semel can take"),
        ({"type": "data", "value": "=broken", "mimeType": "image/png"}, "blocks[0].data"),
    ],
)
async def test_a_message_of_which_nothing_can_be_taken_is_refused_and_the_thread_goes_on(
    front: Front, source: Json, reason: str
) -> None:
    lost = user([{"type": "image", "source": source}])
    refused = await front.run(lost)
    assert refused.status_code == 400 and reason in refused.json()["detail"]
    running = front.run(lost, user("hello", "u2"), run="r2")
    (await front.agent()).end()
    assert types(await events(running))[-1] == "RUN_FINISHED"
    assert [each["text"] for each in await front.world.entries(SESSION) if each["role"] == "user"] == ["hello"]


def test_a_request_without_a_tool_call_is_a_confirmation() -> None:
    interrupt = describe_request({"id": 3, "title": "Go on?", "options": OPTIONS}, None, with_expiry=True)
    assert interrupt["reason"] == "confirmation"
    assert interrupt.keys().isdisjoint({"toolCallId", "expiresAt"})
