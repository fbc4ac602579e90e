"""A thin client of the Bot API: one call makes one request and returns its answer uninterpreted.

Every URL contains the token, so no error, log line or repr may contain a URL.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import httpx2

from semel.channels.http import AGENT, CONNECT_TIMEOUT_S, Answer, request, retry_after, trust
from semel.channels.telegram.settings import API, TelegramSettings
from semel.gateway.ports import Offline

Json = dict[str, Any]
ANSWER = 64 * 1024
"""Maximum bytes that are read of an ordinary answer."""
MAX_UPDATES_BYTES = 16 * 1024 * 1024
"""Maximum bytes of an answer with updates. Telegram's own server sends at most 4 MiB, or a single larger update."""
MAX_RETRY_AFTER_S = 10.0**9
"""Maximum seconds of a `retry_after`; larger values (even 1e999 is valid JSON) are ignored."""


@dataclass(frozen=True)
class Upload:
    """A file to upload with a call; `param` is the name of its parameter."""

    param: str
    name: str
    mime: str
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Reply:
    """An answer: `result` on success, else Telegram's description of the error in `said`."""

    status: int
    result: Any = None
    said: str = ""  # Telegram's description of the error
    parameters: Mapping[str, Any] = field(default_factory=dict)
    read: bool = True  # the body is an answer of the Bot API
    whole: bool = True  # the body is complete
    raw: bytes = field(default=b"", repr=False)
    header: float | None = None  # seconds of a Retry-After header (of a proxy: Telegram's own are in the body)

    @property
    def ok(self) -> bool:
        """Whether the call succeeded and its result was read."""
        return self.status == 200 and self.read and not self.said

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait as Telegram or a proxy before it asks for, or None."""
        value = self.parameters.get("retry_after")
        if not isinstance(value, int | float) or isinstance(value, bool):
            return self.header
        return float(value) if 0 <= value < MAX_RETRY_AFTER_S else self.header


class Api:
    """The Bot API for one bot."""

    def __init__(self, settings: TelegramSettings) -> None:
        self._url = f"{settings.api}/bot{settings.token}"
        self._files = f"{settings.api}/file/bot{settings.token}"
        self._private = settings.api != API
        self._timeout = settings.timeout
        self.host = httpx2.URL(settings.api).host

    def __repr__(self) -> str:
        return f"<Api at {self.host}>"

    async def call(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        upload: Upload | None = None,
        patience: float = 0.0,
        most: int = ANSWER,
    ) -> Reply:
        """Make one call. Raises NotSent or Unknown.

        `patience`: seconds to wait for the answer in addition to the time-out. `most`: bytes of the answer to read.
        """
        body, kind = _json(params) if upload is None else _form(params, upload)
        answer = await request(
            "POST",
            f"{self._url}/{method}",
            body,
            {"content-type": kind, "accept-encoding": "identity", "user-agent": AGENT},
            timeout=self._timeout + patience,
            allow_private=self._private,
            most=most,
        )
        reply = replace(reply_of(answer.status, answer.body), header=retry_after(answer.headers))
        return reply if reply.read else replace(reply, whole=_whole(answer))

    async def download(self, path: str) -> AsyncGenerator[bytes, None]:
        """Stream a file by its path from getFile. Raises Offline if the download fails."""
        url = httpx2.URL(f"{self._files}/{quote(path)}")
        wait = {"connect": CONNECT_TIMEOUT_S, "read": self._timeout, "write": self._timeout, "pool": CONNECT_TIMEOUT_S}
        asked = httpx2.Request("GET", url, headers={"connection": "close"}, extensions={"timeout": wait})
        verify = await asyncio.to_thread(trust) if url.scheme == "https" else False
        try:
            async with httpx2.AsyncHTTPTransport(verify=verify, trust_env=False, retries=0) as transport:
                response = await transport.handle_async_request(asked)
                try:
                    if response.status_code != 200:
                        raise Offline(f"{self.host} does not give the file: HTTP {response.status_code}")
                    async for piece in response.aiter_raw():
                        yield piece
                finally:
                    await response.aclose()
        except (httpx2.HTTPError, OSError) as lost:
            raise Offline(f"{self.host} broke off while a file was fetched ({type(lost).__name__})") from None


def reply_of(status: int, body: bytes) -> Reply:
    """Parse an answer. `read` is False for a body that is not of the Bot API (a proxy's page, a truncated one)."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        return Reply(status, read=False, raw=body)
    if not isinstance(given, dict) or not isinstance(given.get("ok"), bool):
        return Reply(status, read=False, raw=body)
    if given["ok"]:
        return Reply(status, given.get("result"), read="result" in given, raw=body)
    parameters = given.get("parameters")
    said = str(given.get("description") or "no reason given")
    return Reply(status, None, said[:300], parameters if isinstance(parameters, dict) else {})


def _whole(answer: Answer) -> bool:
    """Whether a body is complete: by its Content-Length, or else by its closing brace."""
    told = answer.headers.get("content-length", "")
    if told.isascii() and told.isdigit():
        return len(answer.body) == int(told)
    return answer.body.rstrip().endswith(b"}")


def _json(params: Mapping[str, Any]) -> tuple[bytes, str]:
    return json.dumps(params, ensure_ascii=True).encode("ascii"), "application/json"


def _form(params: Mapping[str, Any], upload: Upload) -> tuple[bytes, str]:
    """The parameters and the file as multipart/form-data (RFC 7578); values other than strings are JSON-encoded."""
    border = f"semel-{secrets.token_hex(16)}"
    parts = []
    for name, value in params.items():
        told = value if isinstance(value, str) else json.dumps(value)
        parts.append(f'--{border}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{told}\r\n')
    file = upload.name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    mime = upload.mime if upload.mime.isascii() and upload.mime.isprintable() else "application/octet-stream"
    parts.append(
        f'--{border}\r\nContent-Disposition: form-data; name="{upload.param}"; filename="{file}"\r\n'
        f"Content-Type: {mime}\r\n\r\n"
    )
    head = "".join(parts).encode("utf-8", "replace")
    tail = f"\r\n--{border}--\r\n".encode("ascii")
    return head + upload.content + tail, f"multipart/form-data; boundary={border}"
