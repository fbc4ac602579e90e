"""Accept events by webhook: one POST is one event.

A sender authenticates in one of two ways:

- Standard Webhooks headers, signed with the channel's secret. `webhook-id` is the event's key.
- `Authorization: Bearer <token>` with an `Idempotency-Key` (or `webhook-id`), which is the event's key.

Body: `{"text": "...", "session"?: "...", "sender"?: "...", "kind"?: "message", "data"?: {...}}`.
The request is answered after the commit (Law 1): 202 `{"event", "status": "accepted" | "duplicate"}`, or 409 if the key
was used for other content. Errors are RFC 9457 problem details. A request without a key is refused, because its sender
could not repeat it safely.

A channel with a `ServiceForm` takes a service's own webhooks instead: its headers, and any JSON object as the body.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import Any

from semel.channels import signature
from semel.channels.webhook_service import FORM_TYPE, ServiceForm
from semel.gateway.errors import PROBLEM_URN
from semel.gateway.ports import Inbox
from semel.text.json_types import Json

MAX_BODY_BYTES = 1024 * 1024
"""Maximum size of a request body in bytes."""
MAX_KEY_CHARS = 255

SESSION = re.compile(r"[A-Za-z0-9._:@!+=~-]{1,200}")
FOREIGN_SIGNATURES = {"x-hub-signature-256": "GitHub", "x-gitlab-token": "GitLab"}
"""Headers by which services authenticate webhooks of their own form, which a channel takes if it is told so."""
_KIND = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class WebhookRefused(Exception):
    """The request was not accepted. `status`: the HTTP status. `code`: the problem's code. `detail`: for people."""

    def __init__(self, status: int, detail: str, code: str = "bad-field") -> None:
        super().__init__(detail)
        self.status = status
        self.code = code


class WebhookReceiver:
    """Authenticates requests and passes their events to the inbox. `clock()` is in seconds since the Unix epoch."""

    def __init__(
        self,
        name: str,
        *,
        key: bytes | None,
        token: str | None,
        session: str | None,
        sessions: tuple[str, ...],
        clock: Callable[[], float],
        service: ServiceForm | None = None,
    ) -> None:
        self._name = name
        self._service = service
        self._key = key
        self._token = token
        self._session = session
        self._sessions = sessions
        self._clock = clock

    def __repr__(self) -> str:
        ways = [method for method, is_on in (("signed", self._key), ("bearer", self._token)) if is_on]
        return f"<WebhookReceiver {self._name} {' or '.join(ways) or 'shut'}>"

    async def receive(self, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]:
        """Handle one request. Returns (HTTP status, JSON body of the answer).

        If the inbox raises an exception, it propagates, and the event was not accepted.
        """
        try:
            fields = {name.lower(): value for name, value in headers.items()}
            key = self._authenticate(fields, body)
            event = self._parse_event(body) if self._service is None else self._parse_service_event(fields, body)
        except WebhookRefused as refusal:
            return refusal.status, make_problem(refusal.status, refusal.code, str(refusal))
        outcome = await inbox.hear(key=key, **event)
        if outcome.status == "conflict":
            what = f"for another session ({outcome.elsewhere})" if outcome.elsewhere else "with other content"
            detail = f"the key {key!r} was used before, {what}; the first content stays"
            digests = {"event": outcome.event, "kept": outcome.digest, "given": outcome.other}
            return 409, {**make_problem(409, "conflict", detail), **digests}
        return 202, {"event": outcome.event, "status": outcome.status}

    def _authenticate(self, headers: Mapping[str, str], body: bytes) -> str:
        """Authenticate the sender and return the event's key. Raises WebhookRefused."""
        if self._key is None and self._token is None:
            problem = f"the channel {self._name} receives nothing: it has no secret and no token"
            raise WebhookRefused(403, problem, "channel-scope")
        if len(body) > MAX_BODY_BYTES:
            raise WebhookRefused(413, f"the body is longer than {MAX_BODY_BYTES} bytes", "too-large")
        if self._service is not None:
            return self._authenticate_service(self._service, headers, body)
        if "webhook-signature" not in headers and "authorization" not in headers:
            _refuse_foreign_signature(headers)
        if self._key is not None and ("webhook-signature" in headers or self._token is None):
            try:
                return _check_key(signature.verify(self._key, headers, body, self._clock()))
            except signature.BadSignature as error:
                raise WebhookRefused(401, str(error), "bad-signature") from None
        self._check_token(headers)
        return _check_key(headers.get("idempotency-key") or headers.get("webhook-id") or "")

    def _authenticate_service(self, service: ServiceForm, headers: Mapping[str, str], body: bytes) -> str:
        """Authenticate a service by its own signature, or by the token. Return the event's key. Raises WebhookRefused.

        A wrong signature is not made good by a token.
        """
        if self._key is not None and service.signature_header in headers:
            if not signature.verify_body(self._key, headers[service.signature_header], body):
                detail = (
                    f"the signature in {service.signature_header} does not fit: is the secret the same on both sides?"
                )
                raise WebhookRefused(401, detail, "bad-signature")
        elif self._token is not None:
            self._check_token(headers)
        else:
            raise WebhookRefused(401, f"it needs the header {service.signature_header}", "bad-signature")
        return _check_key(headers.get(service.id_header, ""), service.id_header)

    def _check_token(self, headers: Mapping[str, str]) -> None:
        scheme, _, authorization = headers.get("authorization", "").partition(" ")
        if self._token is None or scheme.lower() != "bearer":
            raise WebhookRefused(401, "sign the request, or show the token as 'Authorization: Bearer ...'", "no-token")
        if not hmac.compare_digest(authorization.strip().encode(), self._token.encode()):
            raise WebhookRefused(401, "that is not this channel's token", "no-token")

    def _parse_service_event(self, headers: Mapping[str, str], body: bytes) -> Json:
        """Make a service's payload the arguments of `Inbox.hear`. Raises WebhookRefused."""
        assert self._service is not None
        if headers.get("content-type", "").partition(";")[0].strip().lower() == FORM_TYPE:
            raise WebhookRefused(400, "the body is a form: let the service send application/json", "bad-json")
        payload, session = _parse_object(body), self._address(None)
        kind = self._service.name_kind(self._name, headers)
        return {
            "session": session,
            "text": self._service.write_text(payload, kind),
            "kind": kind,
            "stable": ("text", "kind"),
            "scope": (session,),
        }

    def _parse_event(self, body: bytes) -> Json:
        """Parse a body into the arguments of `Inbox.hear`. Raises WebhookRefused."""
        event = _parse_object(body)
        if unknown := sorted(event.keys() - {"text", "session", "sender", "kind", "data"}):
            fields = "text, session, sender, kind, data"
            raise WebhookRefused(400, f"{unknown[0]!r} is not a field; the fields are {fields}")
        data = _read_field(event, "data", dict, {})
        kind = _read_field(event, "kind", str, "message")
        if not _KIND.fullmatch(kind):
            raise WebhookRefused(400, "'kind' should be lower-case letters, digits and ._-")
        if "text" not in event:
            raise WebhookRefused(400, "'text' is missing")
        text = _read_field(event, "text", str, "")
        if not text.strip() and not data:
            raise WebhookRefused(400, "'text' is blank, and there is no 'data': nothing would be said")
        session = self._address(_read_field(event, "session", str, None))
        return {
            "session": session,
            "text": text,
            "kind": kind,
            "sender": _read_field(event, "sender", str, None),
            "data": data or None,
            "stable": ("text", "sender", *sorted(event.keys() & {"session", "kind"}), *sorted(data)),
            "scope": (session,) if session == self._session else self._sessions,
        }

    def _address(self, requested: str | None) -> str:
        session = requested or self._session
        if session is None:
            raise WebhookRefused(400, "'session' is missing, and this channel has no session of its own")
        if not SESSION.fullmatch(session):
            raise WebhookRefused(400, "'session' should be 1 to 200 of A-Z a-z 0-9 . _ : @ ! + = ~ -")
        if session != self._session and not any(fnmatchcase(session, pattern) for pattern in self._sessions):
            problem = f"the channel {self._name} may not speak in the session {session!r}"
            raise WebhookRefused(403, problem, "channel-scope")
        return session


def make_problem(status: int, code: str, detail: str) -> Json:
    """Make a problem details object (RFC 9457). `code`: one of those in docs/api.md, "Problems"."""
    return {"type": f"{PROBLEM_URN}{code}", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}


def _parse_object(body: bytes) -> Json:
    """Parse a body that is a JSON object. Raises WebhookRefused."""
    try:
        parsed = json.loads(body, parse_constant=_no_number)
        json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        problem = "the body holds half of a surrogate pair (\\ud800 to \\udfff)"
        raise WebhookRefused(400, problem, "bad-json") from None
    except (ValueError, RecursionError) as error:
        raise WebhookRefused(400, f"the body is not JSON: {error}", "bad-json") from None
    if not isinstance(parsed, dict):
        raise WebhookRefused(400, "the body should be a JSON object")
    return parsed


def _refuse_foreign_signature(headers: Mapping[str, str]) -> None:
    """Raise WebhookRefused with what to do instead, if the request is authenticated in a service's own way."""
    for header, service in FOREIGN_SIGNATURES.items():
        if header in headers:
            detail = (
                f"this channel does not take webhooks in {service}'s own form: give it id_header and what belongs to "
                "it, or POST from a step of a job, with 'Authorization: Bearer ...' (semel docs channels)"
            )
            raise WebhookRefused(401, detail, "no-token")


def _check_key(key: str, header: str = "Idempotency-Key (or webhook-id)") -> str:
    if not key:
        raise WebhookRefused(400, f"a key is missing: set {header}, the same on every retry")
    if len(key) > MAX_KEY_CHARS or not key.isprintable():
        raise WebhookRefused(400, f"the key should be 1 to {MAX_KEY_CHARS} printable characters")
    return key


def _read_field(event: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    value = event.get(name)
    if value is None and name != "text":
        return default
    if not isinstance(value, kind):
        raise WebhookRefused(400, f"{name!r} should be {'a string' if kind is str else 'an object'}")
    return value


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")
