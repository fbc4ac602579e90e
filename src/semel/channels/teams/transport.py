"""A thin client of the Bot Connector: one call makes one request and returns its answer uninterpreted.

The bot's access token is fetched by client credentials and kept until shortly before its end
(https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-authentication). It goes only to
the URL that Microsoft's own signed token named. No error, log line or repr contains a request.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

import httpx2

from semel.channels.http import USER_AGENT, HttpAnswer, request, retry_after
from semel.channels.problems import is_loopback
from semel.channels.teams.settings import TeamsSettings
from semel.gateway.ports import NotSent, Unknown
from semel.text.json_types import Json, object_at, text_at
from semel.text.wellformed import scrub

SCOPE = "https://api.botframework.com/.default"
TOKEN_SPARE_S = 300.0
"""Seconds before its end from which an access token is replaced."""
TOKEN_REFUSED = (
    "Microsoft does not accept app_id, tenant and client_secret: correct them, or make a new client secret if this one "
    "has expired"
)
TOKEN_RETRY_DELAY_S = 60.0
"""Seconds after which a refused token is tried again."""
_REFUSALS = frozenset({"invalid_client", "unauthorized_client", "invalid_request", "invalid_grant", "invalid_scope"})
"""Errors of the login service that a person corrects
(https://learn.microsoft.com/entra/identity-platform/reference-error-codes)."""


CREDENTIALS = ("app_id", "tenant", "client_secret")


class TokenRefused(NotSent):
    """Microsoft does not accept the bot's credentials; nothing was sent. `settings`: those that are wrong."""

    def __init__(self, words: str, settings: tuple[str, ...] = CREDENTIALS) -> None:
        super().__init__(f"{TOKEN_REFUSED} ({words})", TOKEN_RETRY_DELAY_S)
        self.settings = settings


@dataclass(frozen=True)
class TeamsReply:
    """An answer. `data`: its JSON object. `is_object`: whether it is one. `is_empty`: whether it has no body."""

    status: int
    data: Json = field(default_factory=dict)
    is_object: bool = True
    is_empty: bool = False
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300 and (self.is_object or self.is_empty) and not self.is_error

    @property
    def is_error(self) -> bool:
        """Whether it is an error in the Bot Connector's own words."""
        return isinstance(object_at(self.data, "error").get("code"), str)

    @property
    def code(self) -> str:
        return text_at(self.data, "error", "code") or ""

    def describe(self) -> str:
        """Return the error in words for people."""
        if not self.is_error:
            return f"HTTP {self.status}, and not an answer of Teams"
        words = text_at(self.data, "error", "message") or ""
        return f"{words} ({self.code})"[:300] if words and self.code else (words or self.code)[:300]


class TeamsApi:
    """The Bot Connector for one bot. `clock`: seconds, monotonic."""

    def __init__(self, settings: TeamsSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._token = ""
        self._token_end = 0.0
        self._fetching = asyncio.Lock()
        self._allow_private = is_loopback(httpx2.URL(settings.service_url).host)
        self.host = httpx2.URL(settings.service_url).host

    def __repr__(self) -> str:
        return f"<TeamsApi at {self.host}>"

    async def call(self, method: str, url: str, path: str, body: Json | None = None) -> TeamsReply:
        """Make one call. `url`: where the conversation is served; "" for the setting. Raises NotSent or Unknown."""
        headers = {"authorization": f"Bearer {await self.fetch_token()}"}
        content = None
        if body is not None:
            content = json.dumps(scrub(body), ensure_ascii=False).encode()
            headers["content-type"] = "application/json; charset=utf-8"
        target = f"{url or self._settings.service_url}/v3/conversations{path}"
        reply = parse_reply(await self._request(method, target, content, headers))
        if reply.status == 401:
            self.drop_token()
        return reply

    def drop_token(self) -> None:
        """Fetch a new access token before the next call."""
        self._token_end = 0.0

    async def fetch_token(self) -> str:
        """Return an access token. Raises NotSent, or TokenRefused if Microsoft refuses the credentials."""
        async with self._fetching:
            if self._clock() < self._token_end:
                return self._token
            form = {
                "grant_type": "client_credentials", "client_id": self._settings.app_id,
                "client_secret": self._settings.client_secret, "scope": SCOPE,
            }  # fmt: skip
            address = f"{self._settings.login}/{quote(self._settings.tenant)}/oauth2/v2.0/token"
            headers = {"content-type": "application/x-www-form-urlencoded"}
            try:
                answer = await self._request("POST", address, urlencode(form).encode("ascii"), headers)
            except Unknown as error:  # nobody sees a token
                raise NotSent(str(error)) from None
            reply = parse_reply(answer)
            token, life = text_at(reply.data, "access_token"), reply.data.get("expires_in")
            if not reply.ok or not token or not token.isprintable() or not isinstance(life, int | str):
                raise _classify_refusal(reply)
            self._token = token
            self._token_end = self._clock() + max(30.0, float(life) - TOKEN_SPARE_S)
            return token

    async def reach(self) -> int:
        """Return the HTTP status with which the Bot Connector answers a harmless request. Raises NotSent or Unknown."""
        return (await self.call("GET", "", "")).status

    async def _request(self, method: str, address: str, body: bytes | None, headers: Mapping[str, str]) -> HttpAnswer:
        return await request(
            method, address, body, {"accept-encoding": "identity", "user-agent": USER_AGENT, **headers},
            timeout=self._settings.timeout, allow_private=self._allow_private,
        )  # fmt: skip


def _classify_refusal(reply: TeamsReply) -> NotSent:
    """Return the error that an answer of the login service means, which is no token."""
    error = text_at(reply.data, "error")
    if error in _REFUSALS:
        words = (text_at(reply.data, "error_description") or error).splitlines()[0][:200]
        return TokenRefused(scrub(words), CREDENTIALS[2:] if error == "invalid_client" else CREDENTIALS[:2])
    return NotSent(f"Microsoft's login service gives no token now: HTTP {reply.status}", reply.retry_after)


def parse_reply(answer: HttpAnswer) -> TeamsReply:
    """Parse an answer. `is_object` is False for a proxy's page and a truncated body."""
    wait = retry_after(answer.headers)
    try:
        data = scrub(json.loads(answer.body))
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        is_empty = not answer.body and answer.headers.get("content-length", "0") == "0"
        return TeamsReply(answer.status, is_object=False, is_empty=is_empty, retry_after=wait)
    return TeamsReply(answer.status, _read_error(data) or data, retry_after=wait)


def _read_error(data: Json) -> Json | None:
    """Return an error in another form than the reference's "ErrorResponse object" in that form; None if it is none.

    `{"message": "..."}` answers a path or method that there is not. For `{"message": "{\"subCode\": ...}"}` see
    https://learn.microsoft.com/microsoftteams/platform/bots/how-to/conversations/send-proactive-messages, "Understand
    who blocked, muted, or uninstalled a bot".
    """
    text = text_at(data, "message")
    if text is None or "error" in data or "id" in data:
        return None
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        inner = None
    code, words = text_at(inner, "subCode") or "", text_at(inner, "details") or text
    return {"error": {"code": code, "message": scrub(words)}}
