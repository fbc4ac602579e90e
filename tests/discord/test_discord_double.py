"""The double answers as Discord's documentation says: a table of requests, answers and the pages that name them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from discord_house import ANN, DiscordHouse, discord
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from semel.channels.discord.transport import DiscordReply, Upload
from semel.testing.discord import BOT, TOKEN, DiscordDouble, DiscordUrls, serve
from semel.testing.discord.routes import THINKS

REFERENCE = "https://docs.discord.com/developers/"
MESSAGE, RATES, CODES = "resources/message", "topics/rate-limits", "topics/opcodes-and-status-codes"
GATEWAY, INTERACTIONS = "events/gateway", "interactions/receiving-and-responding"
POST = "POST /channels/{room}/messages"


@dataclass(frozen=True)
class Documented:
    """A request, its documented answer, and the page (below REFERENCE) that names it. `code`: Discord's error code."""

    page: str
    request: str
    body: Any
    status: int
    code: int = 0


def row(*buttons: Any) -> Any:
    return {"type": 1, "components": list(buttons)}


def button(id: str = "c", **changes: Any) -> Any:
    """A button that Discord takes, but for `changes`."""
    return {"type": 2, "style": 1, "label": "x", "custom_id": id} | changes


def with_buttons(*rows: Any) -> Any:
    return {"content": "a", "components": list(rows)}


BUTTON = "components/reference#button-button-structure"


CASES = [
    Documented(f"{MESSAGE}#create-message", POST, {"content": "x" * 2000}, 200),
    Documented(f"{MESSAGE}#create-message", POST, {"content": "x" * 2001}, 400, 50035),
    Documented(f"{MESSAGE}#create-message", POST, {"content": "😀" * 2000}, 200),
    Documented(f"{CODES}#json", POST, {"content": "  "}, 400, 50006),
    Documented(f"{MESSAGE}#create-message", POST, {"content": "a", "nonce": "n" * 26}, 400, 50035),
    Documented(f"{CODES}#json", "POST /channels/1/messages", {"content": "a"}, 404, 10003),
    Documented(f"{CODES}#json", "POST /channels/{hidden}/messages", {"content": "a"}, 403, 50001),
    Documented(f"{CODES}#json", "POST /channels/{closed}/messages", {"content": "a"}, 403, 50007),
    Documented(
        f"{MESSAGE}#message-reference-object", POST,
        {"content": "a", "message_reference": {"message_id": "5"}}, 400, 50035,
    ),
    Documented(
        f"{MESSAGE}#message-reference-object", POST,
        {"content": "a", "message_reference": {"message_id": "5", "fail_if_not_exists": False}}, 200,
    ),
    Documented(BUTTON, POST, with_buttons(row(button("c" * 100, label="x" * 80))), 200),
    Documented(BUTTON, POST, with_buttons(row(button("c" * 101))), 400, 50035),
    Documented(BUTTON, POST, with_buttons(row(button(label="x" * 81))), 400, 50035),
    Documented(BUTTON, POST, with_buttons(row(button(style=None))), 400, 50035),
    Documented("components/reference#action-row", POST, with_buttons(row(*map(button, "abcde"))), 200),
    Documented("components/reference#action-row", POST, with_buttons(row(*map(button, "abcdef"))), 400, 50035),
    Documented(
        "components/reference#anatomy-of-a-component-custom-id", POST, with_buttons(row(button(), button())), 400, 50035
    ),
    Documented(f"{MESSAGE}#get-channel-messages", "GET /channels/{room}/messages?limit=101", None, 400, 50035),
    Documented(f"{MESSAGE}#get-channel-message", "GET /channels/{room}/messages/{theirs}", None, 200),
    Documented(f"{MESSAGE}#edit-message", "PATCH /channels/{room}/messages/{ours}", {"content": "new"}, 200),
    Documented(
        f"{MESSAGE}#edit-message", "PATCH /channels/{room}/messages/{ours}", {"content": "x" * 2001}, 400, 50035
    ),
    Documented(f"{CODES}#json", "PATCH /channels/{room}/messages/{theirs}", {"content": "new"}, 403, 50005),
    Documented(f"{MESSAGE}#delete-message", "DELETE /channels/{room}/messages/{ours}", None, 204),
    Documented(f"{CODES}#json", "DELETE /channels/{room}/messages/5", None, 404, 10008),
    Documented(
        f"{MESSAGE}#create-reaction", "PUT /channels/{room}/messages/{theirs}/reactions/%F0%9F%91%8D/@me", None, 204
    ),
    Documented(f"{CODES}#json", "PUT /channels/{room}/messages/{theirs}/reactions/thumbs/@me", None, 400, 10014),
    Documented("resources/channel#trigger-typing-indicator", "POST /channels/{room}/typing", None, 204),
    Documented(
        "resources/channel#start-thread-from-message", "POST /channels/{room}/messages/{theirs}/threads",
        {"name": "t"}, 201,
    ),
    Documented(f"{CODES}#json", "POST /channels/{room}/messages/{threaded}/threads", {"name": "t"}, 400, 160004),
    Documented("resources/channel#get-channel", "GET /channels/{room}", None, 200),
    Documented("resources/user#create-dm", "POST /users/@me/channels", {"recipient_id": ANN}, 200),
    Documented("resources/user#get-current-user", "GET /users/@me", None, 200),
    Documented("resources/application#get-current-application", "GET /applications/@me", None, 200),
    Documented(f"{GATEWAY}#get-gateway-bot", "GET /gateway/bot", None, 200),
    Documented(
        "interactions/application-commands#bulk-overwrite-global-application-commands",
        f"PUT /applications/{BOT}/commands", [{"name": "has blank", "description": "d"}], 400, 50035,
    ),
    Documented(f"{INTERACTIONS}#interaction-callback", "POST /interactions/{fresh}/callback", {"type": 5}, 204),
    Documented(
        f"{INTERACTIONS}#delete-original-interaction-response", "DELETE /webhooks/{original}/messages/@original",
        None, 204,
    ),
    Documented(f"{INTERACTIONS}#interaction-callback", "POST /interactions/{late}/callback", {"type": 5}, 404, 10062),
    Documented(f"{CODES}#json", "POST /interactions/{answered}/callback", {"type": 5}, 400, 40060),
    Documented(f"{CODES}#http", "GET /nothing", None, 404, 0),
]  # fmt: skip


@pytest.fixture
async def prepared(tmp_path: Path) -> AsyncIterator[tuple[DiscordHouse, dict[str, str]]]:
    async with discord(tmp_path) as house:
        double = house.double
        double.closed_to_us.add("7000000000000000009")
        ids = {
            "room": house.room, "hidden": double.channel(house.guild, "secret", hidden=True),
            "closed": double.direct("7000000000000000009"), "theirs": double.write(house.room, ANN, "hello"),
            "threaded": double.write(house.room, ANN, "thread here"),
            "ours": (await house.channel.send(house.op("ours"))).id.partition("/")[2],
        }  # fmt: skip
        double.thread(house.room, "t", id=ids["threaded"])
        for name in ("late", "answered", "fresh"):
            interaction = double.interactions[double.command(house.room, ANN, "status")]
            ids[name] = f"{interaction.id}/{interaction.token}"
            interaction.at -= 4 if name == "late" else 0
            interaction.answer = {"type": 5} if name == "answered" else None
        deferred = double.interactions[double.command(house.room, ANN, "status")]
        deferred.answer, deferred.shown = {"type": 5}, THINKS
        ids["original"] = f"{double.me.id}/{deferred.token}"
        yield house, ids


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.request[:50]}-{case.code or case.status}")
async def test_the_double_answers_as_documented(
    case: Documented, prepared: tuple[DiscordHouse, dict[str, str]]
) -> None:
    house, ids = prepared
    method, _, path = case.request.format_map(ids).partition(" ")
    reply = await house.channel._api.call(method, path, case.body)
    assert (reply.status, reply.code) == (case.status, case.code), reply
    assert reply.is_error == (case.status >= 400)


async def test_a_repeated_nonce_gives_the_first_message_for_the_past_few_minutes(there: DiscordHouse) -> None:
    """resources/message#create-message: nonce, enforce_nonce; api-docs issue 6647: also if the message was deleted."""
    path, body = f"/channels/{there.room}/messages", {"content": "once", "nonce": "n1", "enforce_nonce": True}

    async def post() -> DiscordReply:
        return await there.channel._api.call("POST", path, body)

    first, second = await post(), await post()
    assert first.data["id"] == second.data["id"]
    there.double.delete(there.room, first.data["id"])
    assert (await post()).data["id"] == first.data["id"] and there.double.texts(there.room) == []
    there.double.advance(130)
    assert (await post()).data["id"] != first.data["id"]
    body["enforce_nonce"] = False
    await post()
    assert there.double.texts(there.room) == ["once", "once"]


async def test_history_is_the_newest_first_and_shows_no_nonce(there: DiscordHouse) -> None:
    """resources/message#get-channel-messages; discord.py issue 2451: a nonce is not kept."""
    await there.channel.send(there.op("a"))
    ids = [there.double.write(there.room, ANN, str(n)) for n in range(4)]
    page = await there.channel._api.call("GET", f"/channels/{there.room}/messages?after={ids[0]}&limit=2")
    assert [message["id"] for message in page.data] == [ids[2], ids[1]]
    whole = await there.channel._api.call("GET", f"/channels/{there.room}/messages?limit=100")
    assert all("nonce" not in message for message in whole.data) and len(whole.data) == 5


async def test_a_file_over_ten_mebibytes_is_refused(there: DiscordHouse) -> None:
    """reference#uploading-files; topics/opcodes-and-status-codes#json: 40005."""
    for size, status in ((10 * 1024 * 1024, 200), (10 * 1024 * 1024 + 1, 413)):
        upload = Upload("a.bin", "application/octet-stream", bytes(size))
        reply = await there.channel._api.call(
            "POST", f"/channels/{there.room}/messages", {"content": ""}, upload=upload
        )
        assert reply.status == status


async def test_a_limit_is_told_before_it_is_reached_and_by_429_after(tmp_path: Path) -> None:
    """topics/rate-limits#header-format, #exceeding-a-rate-limit."""
    async with discord(tmp_path, DiscordDouble(rate=(2, 5.0))) as house:
        answers = [
            house.double.call("POST", f"/channels/{house.room}/messages", {}, {"content": str(n)}, []) for n in range(3)
        ]
        assert [answer.status for answer in answers] == [200, 200, 429]
        assert [answer.headers["x-ratelimit-remaining"] for answer in answers[:2]] == ["1", "0"]
        assert answers[2].body["retry_after"] > 4 and answers[2].body["global"] is False
        assert answers[2].headers["x-ratelimit-scope"] == "user"


# ---------------------------------------------------------------- the gateway


async def receive(socket: ClientConnection) -> Any:
    return json.loads(await socket.recv())


async def identify(urls: DiscordUrls, **changes: Any) -> ClientConnection:
    socket = await connect(urls.gateway, proxy=None)
    assert (await receive(socket))["op"] == 10
    data = {"token": TOKEN, "intents": 1 << 9 | 1, "properties": {}} | changes
    await socket.send(json.dumps({"op": 2, "d": data}))
    return socket


@pytest.mark.parametrize(
    ("payload", "code", "why"),
    [
        ('{"op": 2, "d": {"token": "x", "intents": 1}}', 4004, "a wrong token"),
        (json.dumps({"op": 2, "d": {"token": TOKEN, "intents": 1 << 15}}), 4014, "an intent that is not switched on"),
        (json.dumps({"op": 2, "d": {"token": TOKEN, "intents": 1 << 40}}), 4013, "no known intent"),
        (json.dumps({"op": 3, "d": {}}), 4003, "a payload before Identify"),
        ("hello", 4002, "no JSON"),
        (json.dumps({"op": 1, "d": "x" * 4096}), 4002, "more than 4096 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 40 and "{" not in value else "",
)
async def test_the_gateway_closes_with_the_documented_code(payload: str, code: int, why: str) -> None:
    """topics/opcodes-and-status-codes#gateway-gateway-close-event-codes."""
    async with serve(DiscordDouble(content_switch=False)) as urls, connect(urls.gateway, proxy=None) as socket:
        await receive(socket)
        await socket.send(payload)
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == code, why


async def test_a_session_is_resumed_from_any_number_and_not_after_1000_or_its_end() -> None:
    """events/gateway#resuming, #initiating-a-disconnect."""
    double = DiscordDouble()
    room = double.channel(double.guild(), "roses")
    async with serve(double) as urls:
        socket = await identify(urls)
        ready, guild = await receive(socket), await receive(socket)
        assert (ready["t"], guild["t"]) == ("READY", "GUILD_CREATE")
        assert ready["d"]["resume_gateway_url"] == urls.gateway
        await socket.close(4000)
        double.write(room, ANN, "meanwhile")
        for seq, told in (
            (2, ["MESSAGE_CREATE", "RESUMED"]),
            (1, ["GUILD_CREATE", "MESSAGE_CREATE", "RESUMED", "RESUMED"]),
        ):
            async with connect(urls.gateway, proxy=None) as again:
                await receive(again)
                resume = {"token": TOKEN, "session_id": ready["d"]["session_id"], "seq": seq}
                await again.send(json.dumps({"op": 6, "d": resume}))
                assert [(await receive(again))["t"] for _ in told] == told
                await again.close(4000)
        async with connect(urls.gateway, proxy=None) as again:
            await receive(again)
            double.advance(300)
            await again.send(json.dumps({"op": 6, "d": resume}))
            assert await receive(again) == {"op": 9, "d": False}


async def test_without_the_intent_content_is_told_only_of_what_concerns_the_bot() -> None:
    """events/gateway#message-content-intent."""
    double = DiscordDouble()
    room = double.channel(double.guild(), "roses")
    async with serve(double) as urls:
        socket = await identify(urls, intents=1 << 9 | 1 | 1 << 12)
        await receive(socket), await receive(socket)
        double.write(room, ANN, "among us")
        double.write(room, ANN, f"<@{BOT}> hello")
        double.write(double.direct(ANN), ANN, "just you")
        told = [(await receive(socket))["d"]["content"] for _ in range(3)]
        assert told == ["", f"<@{BOT}> hello", "just you"]
        await socket.close()
