"""The Events API over HTTP: check a request's signature, and answer it after the commit (Law 1).

Slack signs `v0:TIMESTAMP:BODY` with the app's signing secret
(https://docs.slack.dev/authentication/verifying-requests-from-slack). What is not answered with a 200 within three
seconds comes again (`X-Slack-Retry-Num`), under the same `event_id`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs

from semel.gateway.errors import PROBLEM_URN
from semel.text.json_types import Json, text_at

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_CLOCK_DIFFERENCE_S = 300
"""Seconds by which a signed timestamp may differ from this machine's clock, as Slack recommends."""


@dataclass(frozen=True)
class SlackRequest:
    """A request of Slack whose signature is right. `kind`: what its `payload` is."""

    kind: Literal["challenge", "event", "interaction", "command", "other"]
    payload: Json = field(default_factory=dict)


class RequestRefused(Exception):
    """A request was refused. `status`: the HTTP status. `code`: the problem's code. The message is for people."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code

    @property
    def answer(self) -> Json:
        """The problem details object (RFC 9457)."""
        return {"type": f"{PROBLEM_URN}{self.code}", "title": self.code, "status": self.status, "detail": str(self)}


def read_request(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> SlackRequest:
    """Check a request and return its content. `now`: seconds since the epoch. Raises RequestRefused."""
    fields = {name.lower(): value for name, value in headers.items()}
    if len(body) > MAX_BODY_BYTES:
        raise RequestRefused(413, "too-large", f"the body is longer than {MAX_BODY_BYTES} bytes")
    _check_signature(secret, fields, body, now)
    if fields.get("content-type", "").partition(";")[0].strip().lower() == "application/x-www-form-urlencoded":
        return _read_form(body)
    payload = _parse_json(body)
    match payload.get("type"):
        case "url_verification":
            return SlackRequest("challenge", payload)
        case "event_callback":
            return SlackRequest("event", payload)
    return SlackRequest("other", payload)


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a request, as the header `X-Slack-Signature` has it."""
    signed = b"v0:%s:%s" % (timestamp.encode(), body)
    return f"v0={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def _check_signature(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> None:
    stamp, signature = headers.get("x-slack-request-timestamp", ""), headers.get("x-slack-signature", "")
    if not (stamp and signature):
        raise RequestRefused(401, "bad-signature", "it needs X-Slack-Signature and X-Slack-Request-Timestamp")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        raise RequestRefused(401, "bad-signature", "X-Slack-Request-Timestamp should be seconds since 1970")
    if abs(now - int(stamp)) > MAX_CLOCK_DIFFERENCE_S:
        detail = f"X-Slack-Request-Timestamp is more than {MAX_CLOCK_DIFFERENCE_S} s away from this machine's clock"
        raise RequestRefused(401, "bad-signature", detail)
    if not hmac.compare_digest(sign(secret, stamp, body).encode(), signature.encode("utf-8", "replace")):
        raise RequestRefused(401, "bad-signature", "the signature is wrong: is signing_secret the one of this app?")


def _read_form(body: bytes) -> SlackRequest:
    """Read a form: an interaction has one field, `payload`, a slash command one for each of its own."""
    try:
        form = {name: values[0] for name, values in parse_qs(body.decode("utf-8"), keep_blank_values=True).items()}
    except ValueError:
        raise RequestRefused(400, "bad-json", "the body is no form") from None
    if "payload" in form:
        return SlackRequest("interaction", _parse_json(form["payload"].encode()))
    return SlackRequest("command" if "command" in form else "other", dict(form))


def _parse_json(body: bytes) -> Json:
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestRefused(400, "bad-json", "the body is not JSON") from None
    if not isinstance(payload, dict):
        raise RequestRefused(400, "bad-json", "the body should be a JSON object")
    return payload


def challenge_answer(payload: Json) -> Json:
    """Return the answer to url_verification."""
    return {"challenge": text_at(payload, "challenge") or ""}
