"""The webhook channel: it POSTs outgoing messages to a URL, and accepts incoming ones by POST.

Outgoing requests carry Standard Webhooks headers, with the same `webhook-id` on every retry. The receiver has to
discard repeated ids; this contract makes the channel idempotent. Body (`?` marks optional fields):

    {"type": "message.post", "timestamp": "2026-11-21T22:38:01.250Z",
     "data": {"session": "...", "to": "...", "kind": "post", "key": "...", "text": "...", "target"?,
     "repeat"?}}

`target` is the id of the message to edit or react to; `repeat` is true if a person asked to send the message again.

Nothing is connected between two messages, so only sending shows whether the receiver is there: after an attempt without
an answer, or with one of a broken server (5xx), the channel is offline until an attempt is answered. It goes on
receiving meanwhile.

Incoming requests: see `semel.channels.webhook_in`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from semel.channels import signature
from semel.channels.http import CONNECT_TIMEOUT_S, USER_AGENT, HttpAnswer, request, retry_after
from semel.channels.webhook_in import WebhookReceiver
from semel.channels.webhook_settings import WebhookSettings
from semel.gateway.ports import Caps, Denied, Inbox, NotSent, Offline, Op, Receipt, Rejected, Safety, Unknown
from semel.text.json_types import Json


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
        self._key = settings.signing_key
        self._clock = clock
        self._failure = ""  # why the last attempt to send brought no answer
        self._answers, self._fails = asyncio.Event(), asyncio.Event()  # one of them is set: how the last attempt ended
        self._answers.set()
        self._receiver = WebhookReceiver(
            name,
            key=self._key,
            token=settings.token,
            session=settings.session,
            sessions=tuple(settings.sessions),
            clock=clock,
            service=settings.service,
        )

    def __repr__(self) -> str:
        return f"<WebhookChannel {self.name} to {self.settings.url or 'nowhere'}, {self._receiver!r}>"

    async def run(self, inbox: Inbox) -> None:
        """Report the channel as online while attempts to send are answered. Raises Offline once one is not.

        Receiving needs no connection: the HTTP server passes incoming POSTs to `receive`.
        """
        if self.settings.warning:
            raise Denied(f"it {self.settings.warning}")
        await self._answers.wait()
        inbox.online()
        await self._fails.wait()
        raise Offline(f"the last attempt to send failed: {self._failure}")

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
        try:
            answer = await request(
                "POST",
                self.settings.url,
                body,
                headers,
                timeout=self.settings.timeout,
                allow_private=self.settings.allow_private,
            )
        except (NotSent, Unknown) as error:
            self._note_attempt(str(error))
            raise
        self._note_attempt(f"HTTP {answer.status}" if answer.status >= 500 else "")
        return read_outcome(answer, op.key, self._clock())

    def _note_attempt(self, failure: str) -> None:
        """Note whether an attempt to send was answered, for `run`. `failure`: why it was not; "" if it was."""
        self._failure = failure or self._failure
        ends, other = (self._fails, self._answers) if failure else (self._answers, self._fails)
        ends.set()
        other.clear()

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
