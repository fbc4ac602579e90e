"""A client finds its own messages in the stream by the key that it chose before it spoke."""

from __future__ import annotations

from gateway_house import GatewayHouse
from http_house import House

OWN_KEY = "laptop:connection-7:3"


async def test_the_stream_names_source_and_key_before_the_answer_to_the_request_is_needed(
    world: GatewayHouse, house: House
) -> None:
    """Two clients say the same words. Each finds its own message, whichever comes first."""
    await world.script()
    frames = house.frames("/v1/sessions/s/stream")
    await anext(frames)
    for key in (OWN_KEY, "phone:1"):
        await house.client.post("/v1/sessions/s/messages", json={"text": "hello", "id": key})
    entries = []
    async for frame in frames:
        entries += [change for change in frame["data"]["changes"] if change["op"] == "entry"]
        if len({entry["seq"] for entry in entries}) == 2:
            break
    assert {(entry["source"], entry["key"]) for entry in entries} == {("api:s", OWN_KEY), ("api:s", "phone:1")}
    assert next(entry["seq"] for entry in entries if entry["key"] == OWN_KEY) == 1
    await frames.aclose()


async def test_an_entry_names_the_channel_that_reported_it_and_a_message_without_a_key_has_none(
    world: GatewayHouse,
) -> None:
    await world.gateway.inbox.hear(source="channel:chat", session="main:chat:room", key="m-17", text="hi", wakes=False)
    await world.gateway.say("s", "hello", wakes=False)
    (heard,) = await world.entries("main:chat:room")
    assert (heard["source"], heard["key"]) == ("channel:chat", "m-17")
    (said,) = await world.entries("s")
    assert said["source"] == "api:s"
    assert "key" not in said


async def test_what_no_event_brought_has_no_source(world: GatewayHouse) -> None:
    conversation = await world.begin()
    conversation.say("Hi.")
    conversation.end()
    await world.idle()
    (answer,) = [entry for entry in await world.entries() if entry["role"] == "agent"]
    assert "source" not in answer and "key" not in answer
