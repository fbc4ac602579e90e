"""Discord: a payload of the gateway -> what is told -> rows; an answer of the REST API -> what it means; Markdown ->
the content of a message.

Whatever a payload holds, the channel does not stop at it: a dispatch that cannot be read is kept as it came.
"""

from __future__ import annotations

import json
from typing import Any

from proof.fuzz.house import House
from proof.fuzz.source import Source, given
from semel.channels.discord.address import DiscordCursor
from semel.channels.discord.downloads import DiscordFetcher
from semel.channels.discord.gateway import parse_payload
from semel.channels.discord.missed import sort_page
from semel.channels.discord.parse import DispatchParser
from semel.channels.discord.places import Places
from semel.channels.discord.rate_limits import RateLimits
from semel.channels.discord.receipts import receipt_of
from semel.channels.discord.render import render
from semel.channels.discord.send import MAX_TEXT_UNITS, make_request
from semel.channels.discord.settings import DiscordSettings
from semel.channels.discord.transport import DiscordApi, DiscordReply, parse_reply
from semel.channels.discord.unopened_threads import UnopenedThreads
from semel.gateway.ports import NotSent, Op, Receipt, Rejected, Unknown
from semel.text.split import measure

ME, ANN = "1100000000000000001", {"id": "7000000000000000001", "username": "ann", "global_name": "Ann"}
HEAD: dict[str, Any] = {
    "id": "1450000000000000001", "channel_id": "1450000000000000000", "author": ANN, "type": 0, "content": "hello",
}  # fmt: skip


def _dispatch(kind: str, data: Any) -> Any:
    return {"op": 0, "t": kind, "s": 7, "d": data}


TEMPLATES: list[Any] = [
    _dispatch("MESSAGE_CREATE", {**HEAD, "guild_id": "9", "mentions": [{"id": ME}],
        "content": f"<@{ME}> hi <:a:1450000000000000009>"}),
    _dispatch("MESSAGE_CREATE", {**HEAD, "type": 19, "message_reference": {"message_id": "1450000000000000002"},
        "referenced_message": {**HEAD, "author": {"id": ME}}, "attachments": [{"id": "5", "filename": "a.txt",
        "size": 3, "url": "https://cdn.discordapp.com/a"}], "poll": {"question": {"text": "?"}, "answers": [{}]}}),
    _dispatch("MESSAGE_CREATE", {**HEAD, "author": {"id": ME}, "nonce": "k" * 24}),
    _dispatch("MESSAGE_UPDATE", {**HEAD, "edited_timestamp": "2026-11-27T10:00:00.000000+00:00"}),
    _dispatch("MESSAGE_DELETE_BULK", {"channel_id": HEAD["channel_id"], "ids": [HEAD["id"], "x"]}),
    _dispatch("MESSAGE_REACTION_ADD", {"user_id": ANN["id"], "channel_id": HEAD["channel_id"], "message_id": HEAD["id"],
        "emoji": {"name": "👍"}, "member": {"user": ANN, "nick": "A"}}),
    _dispatch("INTERACTION_CREATE", {"id": "1450000000000000003", "type": 2, "token": "t", "user": ANN,
        "channel_id": HEAD["channel_id"], "data": {"name": "history", "options": [{"value": 5}]}}),
    _dispatch("INTERACTION_CREATE", {"id": "1450000000000000004", "type": 3, "token": "t", "user": ANN,
        "channel_id": HEAD["channel_id"], "data": {"custom_id": "/approve 1"}, "message": HEAD}),
]  # fmt: skip
ANSWERS: list[Any] = [
    {"id": "1450000000000000001", "channel_id": "1450000000000000000"},
    {"message": "You are being rate limited.", "retry_after": 1.5, "global": True},
    {"message": "Invalid Form Body", "code": 50035, "errors": {"content": {"_errors": [{"message": "too long"}]}}},
    {"message": "Unknown Message", "code": 10008},
]
STATUSES = [200, 204, 301, 400, 401, 403, 404, 408, 429, 500, 503]


class _NoApi(DiscordApi):
    """Knows no channel: each is taken for one without a parent."""

    async def call(self, method: str, path: str, *args: Any, **more: Any) -> DiscordReply:
        return DiscordReply(404)


_house = House()
_settings = DiscordSettings(f"{'A' * 26}.{'B' * 6}.{'C' * 38}", fetch=False)


def one(data: bytes) -> None:
    source = Source(data)
    [_payload, _answer, _content][source.number(3)](source)


def _payload(source: Source) -> None:
    payload = parse_payload(given(source, TEMPLATES))
    if payload is None or not isinstance(payload.get("d"), dict):
        return
    api = _NoApi(_settings)
    parser = DispatchParser(Places(api), UnopenedThreads(), source.pick(["own", "room", "open"]))
    parser.me = ME
    drafts = _house.run(parser.parse(str(payload.get("t")), payload["d"], "session.7"))
    inbox = _house.fresh()
    events = _house.run(DiscordFetcher(api, False).complete(drafts, inbox))
    cursor = DiscordCursor(ME, "session", 7, "wss://x", 1, 2)
    _house.run(inbox.put(events, cursor.dump()))
    for what in _house.check():
        assert what.kind != "unreadable" or (what.raw and what.why), "what cannot be read is not kept"
    assert DiscordCursor.load(cursor.dump()) == cursor, "the cursor is not read as it was written"
    sort_page([payload["d"]])


def _answer(source: Source) -> None:
    status, kind = source.pick(STATUSES), source.pick(["post", "edit", "react", "file", "delete"])
    reply = parse_reply(status, given(source, ANSWERS))
    limits = RateLimits(lambda: 0.0)
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset-after": source.pick(["1", "1e999", "nan", "x", "-1"])}
    limits.learn("POST", "/channels/1450000000000000000/messages", status, headers, reply.retry_after)
    assert 0 <= limits.wait_s("POST", "/channels/1450000000000000000/messages") <= 86_400
    try:
        receipt = receipt_of(Op("k", kind, "5", "x", target="5/6"), reply)
        assert isinstance(receipt, Receipt) and receipt.id
    except (NotSent, Rejected, Unknown) as error:
        assert str(error)


def _content(source: Source) -> None:
    text = source.writing()[:MAX_TEXT_UNITS]
    shown = render(text, MAX_TEXT_UNITS)
    assert shown == render(text, MAX_TEXT_UNITS)
    letters = [char for char in text if char.isalnum() and char.isascii()]
    if not any(mark in text for mark in "`*_~[]()<>&\\!|#:@-+=."):
        assert [char for char in shown if char.isalnum() and char.isascii()][: len(letters)] or not letters
    try:
        request = make_request(Op("k", "post", "5", text), "5", previews=False)
    except Rejected:
        return
    assert request.body is not None and measure(request.body["content"], "utf16") <= MAX_TEXT_UNITS
    json.dumps(request.body).encode("ascii")


SEEDS = [
    *(bytes([0, 0, n, 0, n % 3]) for n in range(len(TEMPLATES))),
    *(bytes([0, 0, n, 3, k, 0, 1, k + 4, k + 9, 2, k + 17, 5, k]) for n in range(len(TEMPLATES)) for k in (3, 11, 24)),
    *(bytes([1, n, n % 5, 0, n % 4, n]) for n in range(len(STATUSES))),
    *(bytes([2, n, n * 7, n * 13, n * 21, 5]) for n in range(12)),
]
