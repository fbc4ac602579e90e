"""A webhook channel that takes a service's own form, such as GitHub's: who is heard, and what is told of an event."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from test_webhook_in import NOW, TOKEN, Recorder

from semel.channels import signature
from semel.channels.webhook import WebhookChannel, WebhookSettings

SECRET = "It's a Secret to Everybody"
GITHUB = {
    "secret": SECRET,
    "session": "main:web:builds",
    "id_header": "X-GitHub-Delivery",
    "signature_header": "X-Hub-Signature-256",
    "kind_header": "X-GitHub-Event",
}
RUN = {"action": "completed", "workflow_run": {"name": "CI", "conclusion": "failure", "id": 7}, "tags": [{"n": "a"}]}


class Door:
    def __init__(self, **settings: Any) -> None:
        self.inbox = Recorder()
        self.channel = WebhookChannel("github", WebhookSettings(**{**GITHUB, **settings}), clock=lambda: float(NOW))

    async def post(self, body: Any = None, id: str = "72d3162e", **headers: str) -> tuple[int, dict[str, Any]]:
        raw = body if isinstance(body, bytes) else json.dumps(body or RUN).encode()
        signed = "sha256=" + hmac.new(SECRET.encode(), raw, hashlib.sha256).hexdigest()
        fields = {"X-GitHub-Delivery": id, "X-Hub-Signature-256": signed, "X-GitHub-Event": "workflow_run"}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.channel.receive(self.inbox, {**fields, **named}, raw)


def test_the_signature_is_that_of_githubs_documentation() -> None:
    made = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert signature.verify_body(SECRET.encode(), made, b"Hello, World!")
    assert signature.verify_body(SECRET.encode(), made.removeprefix("sha256="), b"Hello, World!")
    in_base64 = base64.b64encode(bytes.fromhex(made.removeprefix("sha256="))).decode()
    assert signature.verify_body(SECRET.encode(), in_base64, b"Hello, World!")
    for wrong in ("", "sha256=", made.upper(), made[:-1], "ключ", in_base64[:-1]):
        assert not signature.verify_body(SECRET.encode(), wrong, b"Hello, World!")


async def test_a_delivery_is_heard_once_under_its_own_id() -> None:
    door = Door()
    assert await door.post() == (202, {"event": 1, "status": "accepted"})
    assert await door.post() == (202, {"event": 1, "status": "duplicate"})
    assert (await door.post({"action": "requested"}))[0] == 409
    [event] = door.inbox.heard
    assert json.loads(event.pop("text")) == RUN
    assert event == {
        "key": "72d3162e",
        "session": "main:web:builds",
        "kind": "github.workflow_run",
        "stable": ("text", "kind"),
        "scope": ("main:web:builds",),
    }


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{workflow_run.name}: {workflow_run.conclusion}", "CI: failure"),
        ("{workflow_run.id} {tags.0.n} {tags}  {}", '7 a [{"n": "a"}]  {}'),
        ("{workflow_run.id}: {none} {tags.9.n} {action.x}", "7: (github.workflow_run)"),
        ("{none}", json.dumps(RUN, indent=1)),
    ],
)
async def test_a_template_says_what_is_told_of_an_event(template: str, text: str) -> None:
    door = Door(text=template)
    await door.post()
    assert door.inbox.heard[0]["text"] == text


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("push", "github.push"),
        ("Push Hook", "github.push-hook"),
        ("", "github.event"),
        ("x" * 99, "github." + "x" * 57),
    ],
)
async def test_the_kind_names_the_channel_and_the_event(kind: str, told: str) -> None:
    door = Door()
    await door.post(X_GitHub_Event=kind)
    assert door.inbox.heard[0]["kind"] == told


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        ({"X_Hub_Signature_256": "sha256=00"}, 401, "the signature in x-hub-signature-256 does not fit"),
        ({"id": ""}, 400, "set x-github-delivery, the same on every retry"),
        ({"body": b"[1]"}, 400, "the body should be a JSON object"),
        ({"body": b"payload=%7B%7D", "Content_Type": "application/x-www-form-urlencoded"}, 400, "application/json"),
    ],
)
async def test_what_is_wrong_is_refused_with_what_to_do(change: dict[str, Any], status: int, says: str) -> None:
    door = Door()
    got, answer = await door.post(**change)
    assert (got, says in answer["detail"], door.inbox.heard) == (status, True, []), answer


async def test_without_a_signature_only_the_token_lets_in() -> None:
    body, id = json.dumps(RUN).encode(), {"x-github-delivery": "1"}
    bare, both = Door(), Door(token=TOKEN)
    assert (await bare.channel.receive(bare.inbox, id, body))[0] == 401
    bearer = {"authorization": f"Bearer {TOKEN}", **id}
    assert (await bare.channel.receive(bare.inbox, bearer, body))[0] == 401
    assert (await both.channel.receive(both.inbox, bearer, body))[0] == 202
    wrong = {**bearer, "x-hub-signature-256": "sha256=00"}
    assert (await both.channel.receive(both.inbox, wrong, body))[0] == 401, "a token makes no wrong signature good"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id_header": None}, "signature_header needs id_header"),
        ({"secret": "short"}, "16 or more characters"),
        ({"secret": None}, "signature_header needs secret"),
        ({"signature_header": None}, "secret needs signature_header"),
        ({"session": None}, "id_header needs session"),
        ({"sessions": ["a:*"]}, "no sessions"),
        ({"url": "https://example.com"}, "url cannot be set with id_header"),
        ({"kind_header": "X Event"}, "kind_header is 'X Event'"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        WebhookSettings(**{**GITHUB, **change})
