"""The webhook channel, outwards."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from http_server import answers, breaks_off, drops, serve

from semel.channels import signature
from semel.channels.http import HttpAnswer, retry_after
from semel.channels.webhook import WebhookChannel, WebhookSettings, make_payload, read_outcome
from semel.gateway.ports import NotSent, Offline, Op, Receipt, Rejected, Safety, Unknown
from semel.testing.inbox import KeptInbox

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OP = Op(key="k-1", kind="post", address="room", text="Grüße, 世界", session="main:hook:room", at=1763764681.25)


def channel(url: str | None, **settings: Any) -> WebhookChannel:
    return WebhookChannel("hook", WebhookSettings(url=url, allow_private=True, **settings))


async def test_a_message_leaves_signed_with_its_key_as_its_id() -> None:
    async with serve(answers(200, b'{"id": "m-7"}')) as server:
        assert await channel(server.url, secret=SECRET).send(OP) == Receipt("m-7")
    [request] = server.requests
    assert request.headers["webhook-id"] == "k-1"
    assert request.headers["content-type"] == "application/json"
    assert signature.verify(signature.decode_secret(SECRET), request.headers, request.body, time.time()) == "k-1"
    assert json.loads(request.body) == {
        "type": "message.post",
        "timestamp": "2025-11-21T22:38:01.250Z",
        "data": {"session": "main:hook:room", "to": "room", "kind": "post", "key": "k-1", "text": "Grüße, 世界"},
    }


async def test_a_retry_has_the_same_id_and_the_same_body() -> None:
    async with serve(drops) as server:
        hook = channel(server.url)
        for _ in range(2):
            with pytest.raises(Unknown):
                await hook.send(OP)
    first, second = server.requests
    assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)
    assert "webhook-signature" not in first.headers, "without a secret nothing is signed"


async def test_the_receipt_is_the_webhook_id_where_the_answer_names_none() -> None:
    for body in (b"", b"ok", b"[]", b'{"id": null}', b'{"id": true}', b'{"id": ""}', b"[" * 100_000):
        assert read_outcome(HttpAnswer(204, {}, body), "k-1", 0.0) == Receipt("k-1")
    assert read_outcome(HttpAnswer(200, {}, b'{"id": 12}'), "k-1", 0.0) == Receipt("12")
    async with serve(breaks_off) as server:
        assert await channel(server.url).send(OP) == Receipt("k-1")


@pytest.mark.parametrize(("status", "header"), [(429, None), (429, "7"), (503, "7")])
def test_not_now_is_not_sent(status: int, header: str | None) -> None:
    headers = {} if header is None else {"retry-after": header}
    with pytest.raises(NotSent) as caught:
        read_outcome(HttpAnswer(status, headers, b""), "k", 0.0)
    assert caught.value.retry_after == (None if header is None else 7.0)


@pytest.mark.parametrize("status", [408, 409, 425, 500, 502, 503, 504, 599])
def test_an_answer_that_settles_nothing_is_unknown(status: int) -> None:
    with pytest.raises(Unknown, match=f"HTTP {status}"):
        read_outcome(HttpAnswer(status, {}, b""), "k", 0.0)


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 403, 404, 410, 413, 422])
def test_any_other_answer_is_a_definite_no(status: int) -> None:
    with pytest.raises(Rejected, match=f"HTTP {status}"):
        read_outcome(HttpAnswer(status, {}, b"because"), "k", 0.0)


def test_a_retry_after_is_a_number_or_a_date() -> None:
    assert retry_after({"retry-after": "120"}, 0.0) == 120.0
    assert retry_after({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, 946684789.0) == 10.0
    assert retry_after({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, 946684999.0) == 0.0
    assert retry_after({}, 0.0) is None
    for nonsense in ("", "soon", "-5", "1.5", "٣"):
        assert retry_after({"retry-after": nonsense}, 0.0) is None


async def test_a_url_that_does_not_answer_makes_the_channel_offline_until_it_does(tmp_path: Path) -> None:
    ways = [drops, answers(502), answers(404)]  # the last one is an answer, though a refusal
    async with serve(lambda request, writer: ways[len(server.requests) - 1](request, writer)) as server:
        hook, inbox = channel(server.url), KeptInbox(tmp_path)
        running = asyncio.create_task(hook.run(inbox))
        await asyncio.sleep(0.01)
        assert inbox.onlines == 1
        with pytest.raises(Unknown):
            await hook.send(OP)
        with pytest.raises(Offline, match="the last attempt to send failed: "):
            await running
        running = asyncio.create_task(hook.run(inbox))  # the gateway calls it again
        with pytest.raises(Unknown):
            await hook.send(OP)
        await asyncio.sleep(0.01)
        assert inbox.onlines == 1, "an error of the server is no answer"
        with pytest.raises(Rejected):
            await hook.send(OP)
        await asyncio.sleep(0.01)
        assert inbox.onlines == 2 and not running.done()
        running.cancel()


async def test_a_channel_without_a_url_only_hears() -> None:
    with pytest.raises(Rejected, match="it can only receive"):
        await channel(None).send(OP)


def test_a_repeat_says_that_it_is_one() -> None:
    body = json.loads(make_payload(Op(key="k", kind="edit", address="a", text="t", target="m1", marked=True)))
    assert (body["type"], body["data"]["target"], body["data"]["repeat"]) == ("message.edit", "m1", True)


def test_a_webhook_is_idempotent_by_contract_and_cannot_be_asked() -> None:
    hook = channel("http://127.0.0.1/", key_life=3600.0)
    assert (hook.caps.safety, hook.caps.key_life, hook.caps.finds) == (Safety.IDEMPOTENT, 3600.0, False)
    assert hook.caps.timeout > 2 * 10 + 30.0, "the channel's own time-outs come first: they can tell more"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"url": "ftp://example.com/"}, "url should begin with https:// or http://"),
        ({"url": "example.com"}, "url should begin with https:// or http://"),
        ({"url": "https://me:secret@example.com/"}, "url should hold no user name or password"),
        ({"url": "http://127.0.0.1:80/"}, "set allow_private = true"),
        ({"url": "http://[::1]/"}, "set allow_private = true"),
        ({"url": "http://localhost/"}, "set allow_private = true"),
        ({"secret": "hunter2"}, "secret should be whsec_ followed by 24 to 64 random bytes"),
        ({"secret": "whsec_c2hvcnQ="}, "secret should be whsec_ followed by 24 to 64 random bytes"),
        ({"token": "short"}, "token should have 16 or more characters"),
        ({"timeout": 0}, "timeout should be a number of seconds above 0"),
        ({"pace": -1}, "pace should be a number of seconds"),
        ({"key_life": float("nan")}, "key_life should be a number of seconds"),
    ],
)
def test_settings_that_cannot_work_say_what_to_do(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as caught:
        WebhookSettings(**settings)
    assert says in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    settings = WebhookSettings(secret=SECRET, token="0123456789abcdef")
    assert SECRET not in repr(settings) and "0123456789abcdef" not in repr(settings)
