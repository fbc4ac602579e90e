"""A thin client of the Bot API: one call makes one request and returns its answer uninterpreted.

Every URL contains the token, so no error, log line or repr may contain a URL.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import httpx2

from semel.channels.downloads import FileNotNow
from semel.channels.http import USER_AGENT, request, retry_after, stream_file
from semel.channels.telegram.settings import DEFAULT_API, TelegramSettings
from semel.channels.uploads import encode_form
from semel.text.json_types import object_at
from semel.text.wellformed import scrub

MAX_ANSWER_BYTES = 64 * 1024
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
class TelegramReply:
    """An answer: `result` on success, else Telegram's description of the error in `error_text`."""

    status: int
    result: Any = None
    error_text: str = ""  # Telegram's description of the error
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_bot_api: bool = True  # the body is an answer of the Bot API
    is_complete: bool = True  # the body is not truncated
    raw: bytes = field(default=b"", repr=False)
    retry_after_header: float | None = (
        None  # seconds, from a Retry-After header: proxies send one, Telegram uses the body
    )

    @property
    def ok(self) -> bool:
        """Whether the call succeeded and its result was read."""
        return self.status == 200 and self.is_bot_api and not self.error_text

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before a retry, as requested by Telegram or by a proxy in front of it; None if not stated."""
        value = self.parameters.get("retry_after")
        if not isinstance(value, int | float) or isinstance(value, bool):
            return self.retry_after_header
        return float(value) if 0 <= value < MAX_RETRY_AFTER_S else self.retry_after_header


class BotApi:
    """The Bot API for one bot."""

    def __init__(self, settings: TelegramSettings) -> None:
        self._url = f"{settings.api}/bot{settings.token}"
        self._files_url = f"{settings.api}/file/bot{settings.token}"
        self._allow_private = settings.api != DEFAULT_API
        self._timeout = settings.timeout
        self.host = httpx2.URL(settings.api).host

    def __repr__(self) -> str:
        return f"<BotApi at {self.host}>"

    async def call(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        upload: Upload | None = None,
        patience: float = 0.0,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> TelegramReply:
        """Make one call and return its answer, also an error. Raises NotSent or Unknown.

        `patience`: seconds to wait for the answer in addition to the time-out. `max_bytes`: limit of the answer's size.
        """
        body, content_type = json.dumps(params).encode("ascii"), "application/json"
        if upload is not None:
            fields = {name: scrub(v) if isinstance(v, str) else json.dumps(v) for name, v in params.items()}
            body, content_type = encode_form(fields, upload.param, upload.name, upload.mime, upload.content)
        answer = await request(
            "POST",
            f"{self._url}/{method}",
            body,
            {"content-type": content_type, "accept-encoding": "identity", "user-agent": USER_AGENT},
            timeout=self._timeout + patience,
            allow_private=self._allow_private,
            most=max_bytes,
        )
        reply = replace(parse_reply(answer.status, answer.body), retry_after_header=retry_after(answer.headers))
        return reply if reply.is_bot_api else replace(reply, is_complete=answer.is_complete)

    def download(self, path: str) -> AsyncGenerator[bytes, None]:
        """Stream a file by its path from getFile. Raises FileNotNow or Offline if the download fails."""
        return stream_file(f"{self._files_url}/{quote(path)}", {}, self._timeout, self._check_download)

    def _check_download(self, response: httpx2.Response) -> None:
        if response.status_code != 200:
            raise FileNotNow(f"{self.host} answers HTTP {response.status_code}", retry_after(response.headers))


def parse_reply(status: int, body: bytes) -> TelegramReply:
    """Parse an answer. `is_bot_api` is False if the body is not of the Bot API (a proxy's page, a truncated body)."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return TelegramReply(status, is_bot_api=False, raw=body)
    if not isinstance(data, dict) or not isinstance(data.get("ok"), bool):
        return TelegramReply(status, is_bot_api=False, raw=body)
    if data["ok"]:
        return TelegramReply(status, data.get("result"), is_bot_api="result" in data, raw=body)
    description = str(data.get("description") or "no reason given")
    return TelegramReply(status, None, description[:300], object_at(data, "parameters"))
