"""The settings of a webhook: `[channels.NAME]` with `kind = "webhook"`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from semel.channels import signature
from semel.channels.problems import explain, find_seconds_problems, parse_url, raise_problems
from semel.channels.public_address import is_public
from semel.channels.webhook_in import SESSION
from semel.channels.webhook_service import ServiceForm

HEADER = re.compile(r"[A-Za-z0-9-]{1,100}", re.ASCII)


@dataclass(frozen=True)
class WebhookSettings:
    """`[channels.NAME]` with `kind = "webhook"`. Times are seconds.

    Sending needs `url`. Receiving needs `secret` or `token`, and `session` or `sessions`.
    """

    url: str | None = None
    """The URL to which messages are POSTed. Without one, the channel only receives."""
    secret: str | None = field(default=None, repr=False)
    """A Standard Webhooks secret, `whsec_...`: signs outgoing requests and verifies incoming ones. With
    `signature_header`, the secret that the service was given, of 16 or more characters."""
    token: str | None = field(default=None, repr=False)
    """A bearer token of 16 or more characters, which senders may use instead of a signature."""
    session: str | None = None
    """The session of incoming messages that name none."""
    sessions: list[str] = field(default_factory=list)
    """The sessions that incoming messages may name, as patterns."""
    id_header: str | None = None
    """Makes the channel take a service's own webhooks: the header with a delivery's id, such as "X-GitHub-Delivery"."""
    signature_header: str | None = None
    """The service's header with the HMAC-SHA256 of the body, such as "X-Hub-Signature-256"."""
    kind_header: str | None = None
    """The service's header that says what happened, such as "X-GitHub-Event": it becomes the event's kind."""
    text: str | None = None
    """The text of a service's event, in which `{a.b}` stands for a field of its JSON. Default: the whole JSON."""
    allow_private: bool = False
    """Whether `url` may point to this machine or its network."""
    key_life: float = 86400.0
    """How long the receiver remembers a `webhook-id`. Until then, sending a message again is harmless."""
    timeout: float = 30.0
    """How long to wait for an answer, once connected."""
    pace: float = 0.0
    """The minimum time between two messages to one address."""

    @property
    def service(self) -> ServiceForm | None:
        """How the service sends whose own webhooks the channel takes; None if it takes Semel's form."""
        if self.id_header is None:
            return None
        return ServiceForm(
            self.id_header.lower(), (self.signature_header or "").lower(), (self.kind_header or "").lower(), self.text
        )

    @property
    def signing_key(self) -> bytes | None:
        """The key with which requests are signed; None without a secret."""
        if not self.secret:
            return None
        return self.secret.encode() if self.signature_header is not None else signature.decode_secret(self.secret)

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
        yield from self._find_service_problems()
        if self.secret is not None and self.signature_header is None:
            try:
                signature.decode_secret(self.secret)
            except signature.BadSecret as error:
                yield f"secret should be {error}"
        if self.token is not None and len(self.token) < 16:
            yield "token should have 16 or more characters"
        if self.session is not None and not SESSION.fullmatch(self.session):
            yield f"session is {self.session!r}; a session key is 1 to 200 of A-Z a-z 0-9 . _ : @ ! + = ~ -"
        yield from find_seconds_problems(self, "key_life", "timeout", "pace")

    def _find_service_problems(self) -> Iterator[str]:
        """Yield what is wrong with the settings of a channel that takes a service's own webhooks."""
        for name in ("id_header", "signature_header", "kind_header"):
            header = getattr(self, name)
            if header is not None and not HEADER.fullmatch(header):
                yield f"{name} is {header!r}; the name of a header is letters, digits and -"
        if self.id_header is None:
            for name in ("signature_header", "kind_header", "text"):
                if getattr(self, name) is not None:
                    yield f"{name} needs id_header, the header that names each delivery of the service"
            return
        if self.signature_header is not None and len(self.secret or "") < 16:
            yield "signature_header needs secret: 16 or more characters, the same as at the service"
        if self.signature_header is None and self.secret is not None:
            yield "secret needs signature_header, in which the service sends its signature"
        if self.session is None or self.sessions:
            yield "id_header needs session, and no sessions: a service names none"
        if self.url is not None:
            yield "url cannot be set with id_header: to send, add a section of its own"


def _check_url(url: str, allow_private: bool) -> None:
    parsed = parse_url("url", url)
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
