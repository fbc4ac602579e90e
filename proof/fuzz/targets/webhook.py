"""Webhooks in: headers and a body at a channel's door.

Only who holds the secret or the token is heard; what is signed is accepted and what is changed is not; whatever else
comes is refused with a status, and nothing of it is heard.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
from collections.abc import Mapping
from typing import Any

from proof.fuzz.source import Source, given
from semel.channels import signature
from semel.channels.webhook_in import WebhookReceiver
from semel.channels.webhook_service import ServiceForm
from semel.gateway.ports import Heard
from semel.law import identity
from semel.text.wellformed import scrub

KEY = bytes(range(32))
SECRET = signature.PREFIX + base64.b64encode(KEY).decode()
TOKEN = "a-token-of-the-door"
NOW = 1_800_000_000.0
BODIES: list[Any] = [
    {"text": "hello"},
    {"text": "build failed", "session": "ci:main", "sender": "ci", "kind": "build.failed", "data": {"n": 1, "text": 2}},
]  # fmt: skip
SERVICE = ServiceForm("x-delivery", "x-signature", "x-event", "{text} {data.n} {data.text.0}")
DOORS = [
    WebhookReceiver("ci", key=KEY, token=TOKEN, session="s", sessions=("ci:*",), clock=lambda: NOW),
    WebhookReceiver("ci", key=KEY, token=None, session=None, sessions=("*",), clock=lambda: NOW),
    WebhookReceiver("ci", key=None, token=TOKEN, session="s", sessions=(), clock=lambda: NOW),
    WebhookReceiver("ci", key=None, token=None, session="s", sessions=(), clock=lambda: NOW),
    WebhookReceiver("ci", key=KEY, token=TOKEN, session="s", sessions=(), clock=lambda: NOW, service=SERVICE),
]
_loop = asyncio.new_event_loop()


class _Inbox:
    """Takes what the gateway's own inbox can take."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    async def hear(self, *, key: str, text: str, stable: Any, data: Any = None, **event: Any) -> Heard:
        identity.check_event_key(key)
        fields = {**(data or {}), **event, "text": text}
        try:
            identity.digest_fields({name: scrub(fields).get(name) for name in stable})
        except identity.BadFields:  # the gateway's own no, a 400
            return Heard(0, "conflict")
        self.heard.append({"key": key, "text": text, **event})
        return Heard(1, "accepted")


def one(data: bytes) -> None:
    source = Source(data)
    _secrets(source)
    door, how = source.pick(DOORS), source.number(6)
    stamp = source.pick([NOW, NOW - 299, NOW + 400, 0, 10**11, 10**13])
    id, body = source.words(3) or "msg_1", given(source, BODIES)
    headers = _headers(source, how, id, int(stamp), body)
    inbox: Any = _Inbox()
    status, answer = _loop.run_until_complete(door.receive(inbox, headers, body))
    assert status in (202, 400, 401, 403, 409, 413), status
    assert (status == 202) == bool(inbox.heard)
    if inbox.heard:
        assert _proved(door, {name.lower(): value for name, value in headers.items()}, body), "a stranger was heard"
        assert isinstance(inbox.heard[0]["text"], str)
    else:
        assert answer["status"] == status and answer["detail"]


def _headers(source: Source, how: int, id: str, stamp: int, body: bytes) -> dict[str, str]:
    if how == 0:
        return signature.headers(KEY, scrub(id), stamp, body)
    if how == 1:
        changed = signature.headers(KEY, scrub(id), stamp, body + b" ")
        return changed | {"Webhook-Signature": changed["webhook-signature"] + " v1,AAAA"}
    if how == 2:
        return {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": id}
    if how == 3:
        signed = hmac.new(KEY, body, "sha256").hexdigest()
        return {"X-Delivery": scrub(id), "X-Signature": f"sha256={signed}", "X-Event": _latin(source)}
    names = [
        "x-delivery",
        "x-signature",
        "x-event",
        "content-type",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "Authorization",
        "Idempotency-Key",
        "X",
    ]
    return {source.pick(names): _latin(source) for _ in range(source.number(6))}


def _latin(source: Source) -> str:
    """What a header can hold, as ASGI tells it."""
    odd = ["", "1800000000", "٣", "v1,", "v1,AAAA v2,x", f"Bearer {TOKEN}", f"bearer  {TOKEN} ", "Bearer", "9" * 40]
    return source.take(source.number(40)).decode("latin-1") if source.number(2) else str(source.pick(odd))


def _proved(door: WebhookReceiver, headers: Mapping[str, str], body: bytes) -> bool:
    """By a second reading of the rules."""
    if door._token and headers.get("authorization", "").partition(" ")[2].strip() == TOKEN:
        return True
    if door._key is None:
        return False
    if door._service is not None:
        return hmac.new(KEY, body, "sha256").hexdigest() in headers.get("x-signature", "")
    wanted = f"{headers.get('webhook-id', '')}.{int(headers.get('webhook-timestamp', '0'))}.".encode() + body
    right = base64.b64encode(hmac.new(KEY, wanted, "sha256").digest()).decode()
    near = abs(NOW - int(headers.get("webhook-timestamp", "0"))) <= signature.MAX_CLOCK_DIFFERENCE_S
    return near and f"v1,{right}" in headers.get("webhook-signature", "").split(" ")


def _secrets(source: Source) -> None:
    """A secret is a key or refused; a refusal does not repeat it."""
    told = source.pick([SECRET, "whsec_", "", signature.PREFIX + source.words(4), source.words(3)])
    try:
        assert 24 <= len(signature.decode_secret(told)) <= 64
    except signature.BadSecret as bad:
        assert len(told) < 12 or told not in str(bad)


SEEDS = [bytes([0, 0, how, 0, 0, 0]) + bytes([n, 1, 3, 2]) * 6 for how in range(4) for n in range(2)] + [
    b"\x00\x00\x00\x00\x00\x04" + b'{"text": "x", "data": {"n": 1e999, "m": NaN}}',
    b"\x00\x01\x02\x00\x00\x04[[[[",
]
