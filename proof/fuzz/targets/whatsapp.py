"""WhatsApp: what Meta posts -> what is told -> rows, and the cursor behind them; and the answers to calls.

Whatever a signed request holds, it is answered with 200: each message is a row or known to be nothing, and what cannot
be read is kept as it came. An answer to a call means something, or is refused in words.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from proof.fuzz.house import House
from proof.fuzz.source import Source, given
from semel.channels.whatsapp.address import parse_address
from semel.channels.whatsapp.channel import WhatsAppChannel
from semel.channels.whatsapp.receipts import WindowClosed, receipt_of
from semel.channels.whatsapp.settings import WhatsAppSettings
from semel.channels.whatsapp.transport import parse_reply
from semel.channels.whatsapp.windows import ServiceWindows
from semel.gateway.ports import NotSent, Op, Person, Rejected, Unknown
from semel.text.json_types import Json

NUMBER, SECRET = "10000", "0" * 32
NOW = 1_790_000_000.0
POST = Op("k1", "post", "16505551234", "hello")


def _request(*messages: Json, statuses: list[Json] | None = None) -> Json:
    """The payload with these messages of Ann."""
    head = {"from": "16505551234", "from_user_id": "US.1", "timestamp": "1790000000"}
    value: Json = {
        "metadata": {"display_phone_number": "15550783881", "phone_number_id": NUMBER},
        "contacts": [{"profile": {"name": "Ann"}, "wa_id": "16505551234", "user_id": "US.1"}],
        "messages": [{**head, "id": f"wamid.{n}", **message} for n, message in enumerate(messages)],
        "statuses": statuses or [],
    }
    return {"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [
        {"field": "messages", "value": value}]}]}  # fmt: skip


TEMPLATES: list[Any] = [
    _request({"type": "text", "text": {"body": "hello"}, "context": {"from": "15550783881", "id": "wamid.x",
        "forwarded": True}}, {"type": "text", "text": {"body": "all"}, "group_id": "Y2Fw"}),
    _request({"type": "image", "image": {"id": "7", "mime_type": "image/jpeg; x", "sha256": "x", "caption": "look"}},
        {"type": "document", "document": {"id": "8", "filename": "../a.txt", "mime_type": "text/plain"}}),
    _request({"type": "interactive", "interactive": {"type": "button_reply", "button_reply": {"id": "k1|/approve 1",
        "title": "Yes"}}, "context": {"from": "15550783881", "id": "wamid.q"}}),
    _request({"type": "reaction", "reaction": {"message_id": "wamid.x", "emoji": "👍"}},
        {"type": "edit", "edit": {"original_message_id": "wamid.x",
            "message": {"type": "text", "text": {"body": "b"}}}},
        {"type": "revoke", "revoke": {"original_message_id": "wamid.x"}}),
    _request({"type": "location", "location": {"latitude": 1, "longitude": 2}},
        {"type": "contacts", "contacts": [{"name": {"formatted_name": "B"}, "phones": [{"phone": "1"}]}]},
        {"type": "order", "order": {"product_items": [{"quantity": 2}]}}, {"type": "unsupported", "errors": []},
        {"type": "system", "system": {"body": "x"}}, {"type": "request_welcome"}),
    _request(statuses=[{"id": "wamid.y", "status": "failed", "timestamp": "1790000000", "recipient_id": "16505551234",
        "biz_opaque_callback_data": "k1", "errors": [{"code": 131047, "title": "Re-engagement message",
        "error_data": {"details": "more than 24 hours"}}]}, {"id": "wamid.z", "status": "read",
        "biz_opaque_callback_data": "k2", "recipient_id": "Y2Fw", "recipient_type": "group"}]),
    {"messaging_product": "whatsapp", "messages": [{"id": "wamid.x"}]},
    {"error": {"message": "(#131056) pair rate limit hit", "code": 131056, "error_subcode": 33,
        "error_data": {"details": "x"}}},
]  # fmt: skip
_house = House()


def one(data: bytes) -> None:
    source = Source(data)
    status = source.pick([200, 400, 401, 429, 500, 302])
    body = given(source, TEMPLATES)
    _check_answer(status, body)
    settings = WhatsAppSettings(NUMBER, "t" * 20, SECRET, "v" * 16, fetch=False)
    channel = WhatsAppChannel("w", settings, clock=lambda: NOW)
    signature = f"sha256={hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}"
    inbox = _house.fresh()
    answer = _house.run(channel.receive(inbox, {"X-Hub-Signature-256": signature}, body))
    assert answer == (200, {}), "what is signed is not taken, so it comes again for days"
    for what in _house.check():
        assert what.kind != "unreadable" or (what.why and (what.raw or not body)), "what cannot be read is not kept"
        assert not what.address or str(parse_address(what.address)) == what.address, "an address is not read as written"
        assert what.sender is None or isinstance(what.sender, Person)
    if (cursor := _house.run(inbox.cursor())) is not None:
        assert ServiceWindows.load(cursor, NOW).dump(NOW) == cursor, "the cursor is not read as it was written"


def _check_answer(status: int, body: bytes) -> None:
    """An answer is a receipt, or an outcome in words; only a success is a receipt."""
    reply = parse_reply(status, body)
    try:
        assert receipt_of(POST, reply).id and status == 200
    except (NotSent, Rejected, Unknown, WindowClosed) as outcome:
        assert str(outcome)


SEEDS = [
    *(bytes([k, 0, n, 0]) for n in range(len(TEMPLATES)) for k in range(3)),
    *(
        bytes([k % 6, 0, n, 3, k, 0, 1, k + 4, k + 9, 2, k + 17, 5, k])
        for n in range(len(TEMPLATES))
        for k in (3, 11, 24)
    ),
    b'\x00\x04{"entry":[{"changes":[{"field":"messages","value":{"metadata":{"phone_number_id":"10000"},"messages":[{'
    b'"id":"wamid.1","from":"16505551234","timestamp":"1e999","type":"text","text":{"body":"x"}}]}}]}]}',
    b"\x00\x04[1]",
]
