"""The webhook channel, inwards: who may speak, what is heard, and what is answered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from semel.channels import signature
from semel.channels.webhook import WebhookChannel, WebhookSettings
from semel.gateway.ports import Heard

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "A" * 32
TOKEN = "a-token-of-length"
NOW = 1_763_764_681


class Recorder:
    """An inbox that hears each key once."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    async def cursor(self) -> str | None:
        return None

    async def hear(self, *, key: str | None, stable: Sequence[str] = ("text",), **event: Any) -> Heard:
        for n, old in enumerate(self.heard, 1):
            if old["key"] == key:
                same = all(_field(old, name) == _field(event, name) for name in stable)
                return Heard(n, "duplicate") if same else Heard(n, "conflict", "first", "other")
        self.heard.append({"key": key, "stable": stable, **event})
        return Heard(len(self.heard), "accepted")


def _field(event: Mapping[str, Any], name: str) -> Any:
    return event[name] if name in event else (event["data"] or {}).get(name)


class Hook:
    """A running channel, and what to call it with."""

    def __init__(self, **settings: Any) -> None:
        self.inbox = Recorder()
        given = {"secret": SECRET, "session": "main:hook:room", **settings}
        self.channel = WebhookChannel("hook", WebhookSettings(**given), clock=lambda: float(NOW))

    async def signed(
        self, body: Any, id: str = "k-1", secret: str = SECRET, at: int = NOW, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        made = signature.headers(signature.decode_secret(secret), id, at, raw)
        return await self.channel.receive(self.inbox, {**made, **headers}, raw)

    async def bearer(self, body: Any, token: str = TOKEN, **headers: str) -> tuple[int, dict[str, Any]]:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        shown = {"Authorization": f"Bearer {token}", **names}
        return await self.channel.receive(self.inbox, shown, json.dumps(body).encode())


@pytest.fixture
def make() -> type[Hook]:
    return Hook


def test_the_signature_is_that_of_the_standard() -> None:
    """The example of the Standard Webhooks documentation."""
    key = signature.decode_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = signature.sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_a_signed_message_is_heard_under_its_webhook_id(make: Any) -> None:
    hook = make()
    status, answer = await hook.signed({"text": "hi", "sender": "ci", "kind": "build.done", "data": {"n": 1}})
    assert (status, answer) == (202, {"event": 1, "status": "accepted"})
    assert hook.inbox.heard == [
        {
            "key": "k-1",
            "session": "main:hook:room",
            "text": "hi",
            "kind": "build.done",
            "sender": "ci",
            "data": {"n": 1},
            "stable": ("text", "sender", "kind", "n"),
            "scope": ("main:hook:room",),
        }
    ]


@pytest.mark.parametrize(("header", "service"), [("X-Hub-Signature-256", "GitHub"), ("X-Gitlab-Token", "GitLab")])
@pytest.mark.parametrize("settings", [{}, {"token": TOKEN}, {"secret": None, "token": TOKEN}])
async def test_a_service_that_signs_in_its_own_way_is_told_what_to_do_instead(
    make: Any, header: str, service: str, settings: dict[str, Any]
) -> None:
    hook = make(**settings)
    body = json.dumps({"action": "completed"}).encode()
    status, answer = await hook.channel.receive(hook.inbox, {header: "sha256=00", "Content-Type": "x"}, body)
    assert (status, answer["type"], hook.inbox.heard) == (401, "urn:semel:problem:no-token", [])
    assert f"this channel does not take webhooks in {service}'s own form: give it id_header" in answer["detail"]
    assert "or POST from a step of a job" in answer["detail"]


async def test_a_repeat_is_answered_like_the_first_and_other_content_is_a_conflict(make: Any) -> None:
    hook = make()
    await hook.signed({"text": "hi"})
    assert await hook.signed({"text": "hi"}, at=NOW + 60) == (202, {"event": 1, "status": "duplicate"})
    status, answer = await hook.signed({"text": "other"})
    assert (status, answer["type"], answer["event"]) == (409, "urn:semel:problem:conflict", 1)
    assert (answer["kept"], answer["given"]) == ("first", "other"), "both digests"
    assert len(hook.inbox.heard) == 1


@pytest.mark.parametrize("other", [{"session": "main:ci:b"}, {"kind": "deploy"}])
async def test_the_same_key_for_another_session_or_kind_is_a_conflict_and_not_silently_dropped(
    make: Any, other: dict[str, str]
) -> None:
    hook = make(session=None, sessions=["main:ci:*"])
    first = {"text": "hi", "session": "main:ci:a", "kind": "build"}
    assert (await hook.signed(first))[0] == 202
    assert (await hook.signed({**first, **other}))[0] == 409
    assert (await hook.signed(first))[1]["status"] == "duplicate"


async def test_one_right_signature_among_several_is_enough(make: Any) -> None:
    hook = make()
    raw = b'{"text": "hi"}'
    right = signature.sign(signature.decode_secret(SECRET), "k", NOW, raw)
    wrong = signature.sign(signature.decode_secret(OTHER), "k", NOW, raw)
    headers = {"Webhook-Id": "k", "Webhook-Timestamp": str(NOW), "Webhook-Signature": f"{wrong} v1a,x {right}"}
    assert (await hook.channel.receive(hook.inbox, headers, raw))[0] == 202


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"webhook-signature": "v1,AAAA"}, "no signature in webhook-signature fits"),
        ({"webhook-signature": "v1,ключ"}, "no signature in webhook-signature fits"),
        ({"webhook-id": "other"}, "no signature in webhook-signature fits"),
        ({"webhook-timestamp": "yesterday"}, "webhook-timestamp should be seconds"),
        ({"webhook-timestamp": "9" * 30}, "webhook-timestamp should be seconds"),
        ({"webhook-signature": ""}, "it needs the headers"),
        ({"webhook-id": ""}, "it needs the headers"),
    ],
)
async def test_a_message_that_is_not_rightly_signed_is_refused(make: Any, change: dict[str, str], says: str) -> None:
    hook = make()
    status, answer = await hook.signed({"text": "hi"}, **change)
    assert status == 401
    assert says in answer["detail"]
    assert hook.inbox.heard == []


async def test_every_byte_of_the_body_is_signed(make: Any) -> None:
    hook = make()
    raw = b'{"text": "hi"}'
    headers = signature.headers(signature.decode_secret(SECRET), "k", NOW, raw)
    assert (await hook.channel.receive(hook.inbox, headers, raw + b" "))[0] == 401


@pytest.mark.parametrize(("age", "status"), [(0, 202), (300, 202), (-300, 202), (301, 401), (-301, 401)])
async def test_a_signature_is_good_for_five_minutes(make: Any, age: int, status: int) -> None:
    hook = make()
    assert (await hook.signed({"text": "hi"}, at=NOW - age))[0] == status


async def test_a_sender_with_the_token_gives_an_idempotency_key(make: Any) -> None:
    hook = make(token=TOKEN)
    assert (await hook.bearer({"text": "hi"}, idempotency_key="a"))[0] == 202
    assert (await hook.bearer({"text": "hi"}, webhook_id="b"))[0] == 202
    assert (await hook.signed({"text": "hi"}, id="c"))[0] == 202
    assert [event["key"] for event in hook.inbox.heard] == ["a", "b", "c"]
    status, answer = await hook.bearer({"text": "hi"})
    assert status == 400 and "a key is missing" in answer["detail"]
    status, answer = await hook.bearer({"text": "hi"}, token="not the token", idempotency_key="d")
    assert status == 401 and TOKEN not in answer["detail"]
    status, _ = await hook.channel.receive(hook.inbox, {"idempotency-key": "e"}, b'{"text": "hi"}')
    assert status == 401


async def test_a_wrong_signature_is_not_made_good_by_a_token(make: Any) -> None:
    hook = make(token=TOKEN)
    assert (await hook.signed({"text": "hi"}, secret=OTHER, Authorization=f"Bearer {TOKEN}"))[0] == 401


async def test_a_channel_without_secret_and_token_hears_nothing(make: Any) -> None:
    hook = make(secret=None)
    status, answer = await hook.bearer({"text": "hi"}, idempotency_key="a")
    assert (status, answer["title"]) == (403, "Forbidden")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"[" * 100_000, "the body is not JSON"),
        (b"\xff\xfe", "the body is not JSON"),
        (b'{"text": "\\ud800"}', "the body holds half of a surrogate pair"),
        (b'{"text": "hi", "data": {"n": NaN}}', "the body is not JSON: NaN is not a JSON number"),
        (b"[]", "the body should be a JSON object"),
        ({}, "'text' is missing"),
        ({"text": " "}, "'text' is blank, and there is no 'data'"),
        ({"text": None}, "'text' should be a string"),
        ({"text": 1}, "'text' should be a string"),
        ({"text": "hi", "sender": 1}, "'sender' should be a string"),
        ({"text": "hi", "data": []}, "'data' should be an object"),
        ({"text": "hi", "kind": "Not A Kind"}, "'kind' should be lower-case letters"),
        ({"text": "hi", "colour": "red"}, "'colour' is not a field; the fields are text"),
        ({"text": "hi", "session": "no blanks"}, "'session' should be 1 to 200 of"),
        ({"text": "hi", "session": "x" * 201}, "'session' should be 1 to 200 of"),
    ],
)
async def test_bad_input_is_a_clear_400(make: Any, body: Any, says: str) -> None:
    hook = make()
    status, answer = await hook.signed(body)
    assert status == 400
    assert says in answer["detail"]
    assert answer["title"] == "Bad Request"
    assert hook.inbox.heard == []


async def test_a_body_that_is_too_long_is_refused_before_it_is_read(make: Any) -> None:
    hook = make()
    assert (await hook.signed(b"x" * (1024 * 1024 + 1)))[0] == 413


@pytest.mark.parametrize("key", ["k" * 256, "a\nb", "\x00"])
async def test_a_key_is_short_and_printable(make: Any, key: str) -> None:
    hook = make(token=TOKEN)
    assert (await hook.bearer({"text": "hi"}, idempotency_key=key))[0] == 400


async def test_a_sender_speaks_only_in_the_sessions_it_was_given(make: Any) -> None:
    hook = make(session=None, sessions=["main:ci:*"])
    assert (await hook.signed({"text": "hi", "session": "main:ci:a"}, id="1"))[0] == 202
    assert (await hook.signed({"text": "hi", "session": "main:home"}, id="2"))[0] == 403
    status, answer = await hook.signed({"text": "hi"}, id="3")
    assert status == 400 and "'session' is missing" in answer["detail"]
    own = make()
    assert (await own.signed({"text": "hi", "session": "main:hook:room"}))[0] == 202
    assert (await own.signed({"text": "hi", "session": "main:other"}, id="4"))[0] == 403


async def test_nothing_is_answered_before_the_commit(make: Any) -> None:
    hook = make()

    async def fails(**event: Any) -> Heard:
        raise OSError("the disk is gone")

    hook.inbox.hear = fails
    with pytest.raises(OSError, match="the disk is gone"):
        await hook.signed({"text": "hi"})
