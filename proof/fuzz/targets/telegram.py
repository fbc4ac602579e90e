"""Telegram updates: an answer of getUpdates -> what is told -> rows, and the offset behind them in one transaction.

Whatever an update holds, the channel does not stop at it: every update of a kind that was asked for is a row or known
to be nothing; what cannot be read is kept as it came.
"""

from __future__ import annotations

from typing import Any

from proof.fuzz.house import House
from proof.fuzz.source import Source, given
from semel.channels.telegram.address import TelegramCursor
from semel.channels.telegram.channel import TelegramChannel
from semel.channels.telegram.parse_entities import BotIdentity
from semel.channels.telegram.receive import _ID, _checked_updates
from semel.channels.telegram.settings import TelegramSettings
from semel.channels.telegram.transport import parse_reply
from semel.gateway.ports import Offline

US = BotIdentity(4242, "semel_bot")
ANN = {"id": 7, "is_bot": False, "first_name": "Ann", "last_name": "B", "username": "ann"}
CHAT, GROUP = {"id": 7, "type": "private", "first_name": "Ann"}, {"id": -100, "type": "supergroup", "title": "Garden"}
HEAD: dict[str, Any] = {"message_id": 5, "date": 1_790_000_000, "chat": GROUP, "from": ANN}


def _news(*updates: Any) -> Any:
    return {"ok": True, "result": [{"update_id": 900 + n, **update} for n, update in enumerate(updates)]}


TEMPLATES: list[Any] = [
    _news({"message": {**HEAD, "chat": CHAT, "text": "hello /new@semel_bot `x`", "entities": [
        {"type": "bot_command", "offset": 6, "length": 14}, {"type": "code", "offset": 21, "length": 3}]}}),
    _news({"message": {**HEAD, "text": "@semel_bot see this", "message_thread_id": 3, "is_topic_message": True,
        "entities": [{"type": "mention", "offset": 0, "length": 10},
                     {"type": "text_link", "offset": 11, "length": 3, "url": "https://x.y"}],
        "reply_to_message": {**HEAD, "message_id": 4, "text": "before", "from": {"id": 4242, "is_bot": True,
            "first_name": "S"}}, "quote": {"text": "bef"}, "forward_origin": {"type": "user", "sender_user": ANN}}}),
    _news({"edited_message": {**HEAD, "text": "new", "edit_date": 1_790_000_009}},
        {"channel_post": {"message_id": 6, "date": 1_790_000_001, "chat": {"id": -7, "type": "channel"}, "text": "x"}}),
    _news({"message_reaction": {"chat": GROUP, "message_id": 5, "date": 1_790_000_002, "user": ANN,
        "old_reaction": [{"type": "emoji", "emoji": "👍"}],
        "new_reaction": [{"type": "custom_emoji", "custom_emoji_id": "5"}, {"type": "paid"}]}}),
    _news({"message": {**HEAD, "caption": "look", "photo": [{"file_id": "a", "file_size": 9, "width": 1, "height": 1}],
        "media_group_id": "1"}}, {"message": {**HEAD, "document": {"file_id": "b", "file_name": "a/../b.pdf",
        "mime_type": "application/pdf", "file_size": 10}}}, {"message": {**HEAD, "voice": {"file_id": "c",
        "duration": 3}}}),
    _news({"message": {**HEAD, "migrate_to_chat_id": -100500}}, {"message": {**HEAD, "new_chat_members": [ANN]}},
        {"my_chat_member": {"chat": GROUP, "new_chat_member": {"status": "left"}}}, {"poll": {"id": "1"}},
        {"message": {**HEAD, "text": "after"}}),
    _news({"message": {**HEAD, "location": {"latitude": 1.5, "longitude": 2}}}, {"message": {**HEAD, "contact": {
        "phone_number": "+1", "first_name": "X"}}}, {"message": {**HEAD, "poll": {"question": "?", "options": [
        {"text": "a"}]}}}, {"message": {**HEAD, "dice": {"emoji": "🎲", "value": 3}}},
        {"message": {**HEAD, "sticker": {"file_id": "s", "emoji": "x"}, "via_bot": ANN, "sender_chat": GROUP}}),
]  # fmt: skip
_house = House()
_settings = TelegramSettings(token="4242:" + "A" * 35, fetch=False)


def one(data: bytes) -> None:
    source = Source(data)
    body = given(source, TEMPLATES)
    reply = parse_reply(200, body)
    channel = TelegramChannel("t", _settings)
    cursor = TelegramCursor(0, bot=US.id)
    if reply.is_bot_api and reply.ok:
        try:
            updates: list[Any] = list(_checked_updates(reply))
        except Offline:
            return
    elif _ID.search(body):
        updates = [body]  # as `_news` does with what is no JSON
    else:
        return
    inbox = _house.fresh()
    _house.run(channel._receiver._put(updates, US, inbox, cursor))
    heard = _house.check()
    assert len(inbox.puts) >= 1 and inbox.puts[-1][1] == cursor.dump(), "the offset is not behind what was put"
    assert TelegramCursor.load(cursor.dump()) == cursor, "the cursor is not read as it was written"
    for what in heard:
        assert what.kind != "unreadable" or (what.raw and what.why), "what cannot be read is not kept"
    if updates and isinstance(updates[-1], dict):
        assert cursor.offset == updates[-1]["update_id"] + 1


SEEDS = [
    *(bytes([0, n, 0]) for n in range(len(TEMPLATES))),
    *(bytes([0, n, 3, k, 0, 1, k + 4, k + 9, 2, k + 17, 5, k]) for n in range(len(TEMPLATES)) for k in (3, 11, 24)),
    b'\x04{"ok":true,"result":[{"update_id":9,"message":{"date":1e300,"chat":{"id":1,"type":"x"},"message_id":1}}]}',
    b'\x04{"ok":true,"result":[{"update_id":9,"message":',
]
