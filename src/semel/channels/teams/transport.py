"""A thin client of the Bot Connector: one call makes one request and returns its answer uninterpreted.

The bot's access token is fetched by client credentials and kept until shortly before its end
(https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-authentication). It goes only to
the URL that Microsoft's own signed token named. No error, log line or repr contains a request.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

import httpx2

from semel.channels.downloads import FileNotGiven, FileNotNow
from semel.channels.http import USER_AGENT, HttpAnswer, request, retry_after, stream_file
from semel.channels.problems import is_loopback
from semel.channels.teams.files import FileUpload
from semel.channels.teams.settings import TeamsSettings
from semel.channels.uploads import limit_upload_time
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
FILE_HOSTS_END = ".sharepoint.com"
"""How the hosts of OneDrive for Business and SharePoint end
(https://learn.microsoft.com/microsoft-365/enterprise/urls-and-ip-address-ranges, "SharePoint Online and OneDrive")."""
PICTURES_PATH = "/v3/attachments/"
UPLOAD_PIECE_BYTES = 32 * 320 * 1024
"""Bytes of a file that one request uploads: a multiple of 320 KiB, below 60 MiB
(https://learn.microsoft.com/graph/api/driveitem-createuploadsession, "Upload bytes to the upload session")."""
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

    async def call_conversations(self, method: str, url: str, path: str, body: Json | None = None) -> TeamsReply:
        """Make one call below `/v3/conversations`. Raises NotSent or Unknown.

        `url`: where the conversation is served; "" for the setting.
        """
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

    async def read_status(self) -> int:
        """Return the HTTP status with which the Bot Connector answers a harmless request. Raises NotSent or Unknown."""
        return (await self.call_conversations("GET", "", "")).status

    def is_file_address(self, address: str) -> bool:
        """Return whether an address is in OneDrive or SharePoint, over TLS; of a simulated service, at its own host."""
        url = _parse_address(address)
        if url is None:
            return False
        if self._allow_private:
            return url.host == self.host
        return url.scheme == "https" and url.port is None and url.host.endswith(FILE_HOSTS_END)

    def download_file(self, address: str) -> AsyncGenerator[bytes, None]:
        """Stream a file of a message, whose address is its key. Raises FileNotGiven, FileNotNow or Offline."""
        if not self.is_file_address(address):
            raise FileNotGiven("its address is not in OneDrive or SharePoint")
        return stream_file(address, {"user-agent": USER_AGENT}, self._settings.timeout, _check_download)

    async def download_picture(self, address: str, service_url: str) -> AsyncGenerator[bytes, None]:
        """Stream a picture of a message. Raises FileNotGiven, FileNotNow, Offline, NotSent or Unknown.

        `service_url`: where Teams is served, as its signed request says: the access token goes nowhere else.
        """
        url, service = _parse_address(address), httpx2.URL(service_url)
        if url is None or url.copy_with(path="/", query=None) != service.copy_with(path="/", query=None):
            raise FileNotGiven("its address is not where Teams is served")
        if PICTURES_PATH not in url.path:
            raise FileNotGiven("its address is not one of a picture")
        headers = {"authorization": f"Bearer {await self.fetch_token()}", "user-agent": USER_AGENT}
        return stream_file(url, headers, self._settings.timeout, _check_download)

    async def upload_file(self, upload: FileUpload, content: bytes) -> None:
        """Upload a file to where its person wants it. Raises NotSent or Unknown if it did not arrive whole.

        The address is the key: the access token is not sent along.
        """
        if not self.is_file_address(upload.url) or not self.is_file_address(upload.content_url):
            raise NotSent("the place for the file is not in OneDrive or SharePoint")
        for start in range(0, len(content), UPLOAD_PIECE_BYTES):
            piece = content[start : start + UPLOAD_PIECE_BYTES]
            end = start + len(piece)
            answer = await request(
                "PUT", upload.url, piece,
                {"user-agent": USER_AGENT, "content-range": f"bytes {start}-{end - 1}/{len(content)}"},
                timeout=self._settings.timeout + limit_upload_time(len(piece)), allow_private=self._allow_private,
            )  # fmt: skip
            if answer.status not in ((200, 201) if end == len(content) else (202,)):
                raise NotSent(f"the file did not arrive: HTTP {answer.status}", retry_after(answer.headers))

    async def _request(self, method: str, address: str, body: bytes | None, headers: Mapping[str, str]) -> HttpAnswer:
        return await request(
            method, address, body, {"accept-encoding": "identity", "user-agent": USER_AGENT, **headers},
            timeout=self._settings.timeout, allow_private=self._allow_private,
        )  # fmt: skip


def _parse_address(address: str) -> httpx2.URL | None:
    """Return an address of a file; None if it is none, or holds a name and a password."""
    try:
        url = httpx2.URL(address)
    except httpx2.InvalidURL:
        return None
    return None if not url.host or url.userinfo else url


def _check_download(response: httpx2.Response) -> None:
    """Raise FileNotNow or FileNotGiven unless the body is the file. Instead of some files, a page to log in comes."""
    status = response.status_code
    if status in (408, 429) or status >= 500:
        raise FileNotNow(f"Microsoft answers HTTP {status}", retry_after(response.headers))
    if status != 200:
        raise FileNotGiven(f"Microsoft does not give it: HTTP {status}")
    if response.headers.get("content-type", "").startswith("text/html") and (
        "content-disposition" not in response.headers
    ):
        raise FileNotGiven("Microsoft shows a page instead of it")


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
