"""A thin client of the Graph API: one call makes one request and returns its answer uninterpreted.

The token goes into a header, and for `debug_token` into the query, so no error, log line or repr may contain a request.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

import httpx2

from semel.channels.downloads import FileNotGiven
from semel.channels.http import USER_AGENT, request, retry_after, stream_file
from semel.channels.uploads import encode_form, limit_upload_time
from semel.channels.whatsapp.settings import DEFAULT_API, WhatsAppSettings
from semel.gateway.ports import Offline
from semel.text.json_types import Json, object_at, text_at, value_at
from semel.text.wellformed import scrub

FILE_HOSTS = ("lookaside.fbsbx.com",)
"""The hosts of received files (https://developers.facebook.com/documentation/business-messaging/whatsapp, "Media")."""


@dataclass(frozen=True)
class GraphReply:
    """An answer of the Graph API.

    `data`: its JSON object. `is_graph`: whether it is one: a success is an object, an error has a `code` in `error`.
    `is_complete`: whether the body is not truncated.
    """

    status: int
    data: Json = field(default_factory=dict)
    is_graph: bool = True
    is_complete: bool = True
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        return self.status == 200 and self.is_graph and not self.code

    @property
    def code(self) -> int:
        """Meta's code of the error; 0 if there is none (or if it is 0, which means a refused token)."""
        return read_code(object_at(self.data, "error"))

    @property
    def has_error(self) -> bool:
        return "error" in self.data

    @property
    def subcode(self) -> int:
        code = value_at(self.data, "error", "error_subcode")
        return code if isinstance(code, int) else 0

    def describe(self) -> str:
        """Return the error in words for people."""
        if not self.is_graph:
            return f"HTTP {self.status}, and not an answer of Meta"
        return describe_error(object_at(self.data, "error")) or f"HTTP {self.status}"


def read_code(error: Json) -> int:
    """Return the code of an error object; 0 if it has none."""
    code = error.get("code")
    return code if isinstance(code, int) and not isinstance(code, bool) else 0


def describe_error(error: Json) -> str:
    """Return an error object in words: its message or title, and its details if they say more."""
    message = text_at(error, "message") or text_at(error, "title") or ""
    details = text_at(error, "error_data", "details") or ""
    words = f"{message}: {details}" if details and details not in message else message
    return scrub(words)[:300]


class GraphApi:
    """The Graph API for one business phone number."""

    def __init__(self, settings: WhatsAppSettings) -> None:
        self._settings = settings
        self._allow_private = settings.api != DEFAULT_API
        self._number = quote(settings.phone_number_id)
        self.host = httpx2.URL(settings.api).host

    def __repr__(self) -> str:
        return f"<GraphApi at {self.host}>"

    async def read(self, path: str, **query: str) -> GraphReply:
        """Read a node, with the proof that the app's secret fits to the token. Raises NotSent or Unknown."""
        proof = hmac.new(self._settings.app_secret.encode(), self._settings.token.encode(), hashlib.sha256)
        query = {**query, "appsecret_proof": proof.hexdigest()}
        return await self._call("GET", f"{quote(path)}?{urlencode(query)}", None, {})

    async def read_number(self) -> GraphReply:
        """Read the business phone number. Raises NotSent or Unknown."""
        return await self.read(self._number, fields="id,display_phone_number,verified_name")

    async def read_token(self) -> GraphReply:
        """Read what the token is good for. Raises NotSent or Unknown."""
        return await self.read("debug_token", input_token=self._settings.token)

    async def read_media(self, id: str) -> GraphReply:
        """Read where a received file is. Raises NotSent or Unknown."""
        return await self.read(id, phone_number_id=self._settings.phone_number_id)

    async def post_message(self, message: Json) -> GraphReply:
        """Send a message, or mark one as read. Raises NotSent or Unknown."""
        body = json.dumps({"messaging_product": "whatsapp", **message}).encode("ascii")
        return await self._call("POST", f"{self._number}/messages", body, {"content-type": "application/json"})

    async def upload(self, name: str, mime: str, content: bytes) -> GraphReply:
        """Upload a file, which nobody sees yet. Raises NotSent or Unknown."""
        fields = {"messaging_product": "whatsapp", "type": mime}
        body, kind = encode_form(fields, "file", name, mime, content)
        patience = limit_upload_time(len(content))
        return await self._call("POST", f"{self._number}/media", body, {"content-type": kind}, patience)

    async def _call(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], patience: float = 0.0
    ) -> GraphReply:
        fields = {
            "authorization": f"Bearer {self._settings.token}", "accept-encoding": "identity", "user-agent": USER_AGENT,
            **headers,
        }  # fmt: skip
        answer = await request(
            method, f"{self._settings.api}/{path}", body, fields, timeout=self._settings.timeout + patience,
            allow_private=self._allow_private,
        )  # fmt: skip
        return parse_reply(answer.status, answer.body, answer.is_complete, retry_after(answer.headers))

    def download(self, address: str) -> AsyncGenerator[bytes, None]:
        """Stream a received file. Raises Offline if that fails, FileNotGiven if Meta does not give it.

        The token is sent to Meta's own hosts alone, whatever host the address names.
        """
        if not self._is_trusted(address):
            raise FileNotGiven("its address is not one of Meta's")
        headers = {"authorization": f"Bearer {self._settings.token}", "user-agent": USER_AGENT}
        return stream_file(address, headers, self._settings.timeout, _check_download)

    def _is_trusted(self, address: str) -> bool:
        try:
            url = httpx2.URL(address)
        except httpx2.InvalidURL:
            return False
        if self._allow_private:  # an API of one's own serves its files itself
            return url.host == self.host
        return url.scheme == "https" and url.host in FILE_HOSTS


def _check_download(response: httpx2.Response) -> None:
    if response.status_code in (400, 403, 404, 410):
        raise FileNotGiven(f"Meta does not give it (any more): HTTP {response.status_code}")
    if response.status_code != 200:
        raise Offline(f"Meta does not give a file now: HTTP {response.status_code}", retry_after(response.headers))


def parse_reply(status: int, body: bytes, is_complete: bool = True, wait: float | None = None) -> GraphReply:
    """Parse an answer. `is_graph` is False for a proxy's page, a truncated body and an error that is not Meta's."""
    try:
        data = scrub(json.loads(body))
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or (status >= 400 and not isinstance(value_at(data, "error", "code"), int)):
        return GraphReply(status, is_graph=False, is_complete=is_complete, retry_after=wait)
    return GraphReply(status, data, retry_after=wait)
