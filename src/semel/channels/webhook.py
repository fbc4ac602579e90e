"""The webhook channel: it POSTs outgoing messages to a URL, and accepts incoming ones by POST.

Outgoing requests carry Standard Webhooks headers, with the same `webhook-id` on every retry. The receiver has to
discard repeated ids; this contract makes the channel idempotent. Body (`?` marks optional fields):

    {"type": "message.post", "timestamp": "2026-11-21T22:38:01.250Z",
     "data": {"session": "...", "to": "...", "kind": "post", "key": "...", "text": "...", "target"?,
     "repeat"?}}

`target` is the id of the message to edit or react to; `repeat` is true if a person asked to send the message again.

Incoming requests: see `semel.channels.webhook_in`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx2

from semel.channels import signature
from semel.channels.http import CONNECT_TIMEOUT_S, USER_AGENT, HttpAnswer, is_public, request, retry_after
from semel.channels.problems import explain, raise_problems
from semel.channels.webhook_in import SESSION, WebhookReceiver
from semel.gateway.ports import Caps, Denied, Inbox, NotSent, Op, Receipt, Rejected, Safety, Unknown
from semel.text.json_types import Json


@dataclass(frozen=True)
class WebhookSettings:
    """`[channels.NAME]` with `kind = "webhook"`. Times are seconds.

    Sending needs `url`. Receiving needs `secret` or `token`, and `session` or `sessions`.
    """

    url: str | None = None
    """The URL to which messages are POSTed. Without one, the channel only receives."""
    secret: str | None = field(default=None, repr=False)
    """A Standard Webhooks secret, `whsec_...`: signs outgoing requests and verifies incoming ones."""
    token: str | None = field(default=None, repr=False)
    """A bearer token of 16 or more characters, which senders may use instead of a signature."""
    session: str | None = None
    """The session of incoming messages that name none."""
    sessions: list[str] = field(default_factory=list)
    """The sessions that incoming messages may name, as patterns."""
    allow_private: bool = False
    """Whether `url` may point to this machine or its network."""
    key_life: float = 86400.0
    """How long the receiver remembers a `webhook-id`. Until then, sending a message again is harmless."""
    timeout: float = 30.0
    """How long to wait for an answer, once connected."""
    pace: float = 0.0
    """The minimum time between two messages to one address."""

    @property
    def warning(self) -> str:
        """Why the channel can neither send nor receive, and what to set; "" if it can do one of them."""
        can_receive = (self.secret or self.token) and (self.session or self.sessions)
        if self.url is not None or can_receive:
            return ""
        missing = "session or sessions" if self.secret or self.token else "secret or token, and session or sessions"
        return f"can neither send nor receive. To send, set url; to receive, set {missing}"

    def __post_init__(self) -> None:
        raise_problems(self._find_problems())

    def _find_problems(self) -> Iterator[str]:
        if self.url is not None:
            yield from explain(_check_url, self.url, self.allow_private)
        if self.secret is not None:
            try:
                signature.decode_secret(self.secret)
            except signature.BadSecret as error:
                yield f"secret should be {error}"
        if self.token is not None and len(self.token) < 16:
            yield "token should have 16 or more characters"
        if self.session is not None and not SESSION.fullmatch(self.session):
            yield f"session is {self.session!r}; a session key is 1 to 200 of A-Z a-z 0-9 . _ : @ ! + = ~ -"
        for name in ("key_life", "timeout", "pace"):
            if not 0 <= getattr(self, name) < 10**8 or (name == "timeout" and self.timeout == 0):
                yield f"{name} should be a number of seconds"


def _check_url(url: str, allow_private: bool) -> None:
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise ValueError(f"url is not a URL: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError("url should begin with https:// or http:// and name a host")
    if parsed.username or parsed.password:
        raise ValueError("url should hold no user name or password")
    if allow_private:
        return
    try:
        private = not is_public(parsed.host)
    except ValueError:  # a host name: its addresses are checked before each attempt
        private = parsed.host == "localhost" or parsed.host.endswith(".localhost")
    if private:
        raise ValueError(f"url leads to {parsed.host}: set allow_private = true if that is meant")


class WebhookChannel:
    """One configured webhook: it sends to a URL, receives POSTs, or both."""

    def __init__(self, name: str, settings: WebhookSettings, *, clock: Callable[[], float] = time.time) -> None:
        self.name = name
        self.settings = settings
        self.caps = Caps(
            safety=Safety.IDEMPOTENT,
            key_life=settings.key_life,
            pace=settings.pace,
            timeout=2 * CONNECT_TIMEOUT_S + settings.timeout + 5,
            edits=True,
            reactions=True,
            dialect="markdown",
        )
        self._key = signature.decode_secret(settings.secret) if settings.secret else None
        self._clock = clock
        self._receiver = WebhookReceiver(
            name,
            key=self._key,
            token=settings.token,
            session=settings.session,
            sessions=tuple(settings.sessions),
            clock=clock,
        )

    def __repr__(self) -> str:
        return f"<WebhookChannel {self.name} to {self.settings.url or 'nowhere'}, {self._receiver!r}>"

    async def run(self, inbox: Inbox) -> None:
        """Report the channel as online, then do nothing: the HTTP server passes incoming POSTs to `receive`."""
        if self.settings.warning:
            raise Denied(f"it {self.settings.warning}")
        inbox.online()
        await asyncio.Event().wait()

    async def receive(self, inbox: Inbox, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]:
        """Handle one incoming POST. Returns (HTTP status, JSON body of the answer), after the commit."""
        return await self._receiver.receive(inbox, headers, body)

    async def send(self, op: Op) -> Receipt:
        """Make one POST. The receipt's id is the `id` in the JSON of the 2xx answer, else the webhook-id."""
        if self.settings.url is None:
            raise Rejected("this webhook has no url, so it can only receive")
        body = make_payload(op)
        headers = {
            "content-type": "application/json",
            "accept-encoding": "identity",
            "user-agent": USER_AGENT,
            **signature.headers(self._key, op.key, int(self._clock()), body),
        }
        answer = await request(
            "POST",
            self.settings.url,
            body,
            headers,
            timeout=self.settings.timeout,
            allow_private=self.settings.allow_private,
        )
        return read_outcome(answer, op.key, self._clock())

    async def find(self, op: Op, since: float) -> Receipt | None:
        raise NotImplementedError("a webhook cannot be asked what it has")


def make_payload(op: Op) -> bytes:
    """Return the request body. A retry of a part has the same bytes, unless a person asked to send the part again."""
    data: dict[str, Any] = {
        "session": op.session,
        "to": op.address,
        "kind": op.kind,
        "key": op.key,
        "text": op.text,
    }
    if op.target is not None:
        data["target"] = op.target
    if op.marked:
        data["repeat"] = True
    at = datetime.fromtimestamp(op.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    body = {"type": f"message.{op.kind}", "timestamp": at, "data": data}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def read_outcome(answer: HttpAnswer, key: str, now: float) -> Receipt:
    """Return the receipt of a 2xx answer. Raises NotSent, Rejected or Unknown for other answers.

    - NotSent (not accepted, retried later): 429, and 503 with a Retry-After.
    - Unknown (retried with the same id): 408, 409, 425 and the other 5xx.
    - Rejected: everything else. Redirects are not followed, because they could lead from a public to a private address.
    """
    status, wait = answer.status, retry_after(answer.headers, now)
    if 200 <= status < 300:
        return Receipt(_find_id(answer.body) or key)
    if status == 429 or (status == 503 and wait is not None):
        raise NotSent(f"HTTP {status}: not now", wait)
    if status in (408, 409, 425) or status >= 500:
        raise Unknown(f"HTTP {status}")
    if 300 <= status < 400:
        raise Rejected(f"HTTP {status}: redirects are not followed; set url to where it leads")
    raise Rejected(f"HTTP {status}{_excerpt(answer.body)}")


def _find_id(body: bytes) -> str | None:
    try:
        id = json.loads(body)["id"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return str(id) if isinstance(id, str | int) and not isinstance(id, bool) and id != "" else None


def _excerpt(body: bytes) -> str:
    text = " ".join(body[:400].decode("utf-8", "replace").split())
    return f": {text[:200]}" if text.isprintable() and text else ""
