"""A thin client of the REST API: one call makes one request and returns its answer uninterpreted.

The server is the one that the setting `url` names, which may be in the gateway's own network; no request goes anywhere
else. Each request has a connection of its own (`semel.channels.http`).
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from semel.channels.downloads import FileNotGiven, FileNotNow
from semel.channels.http import USER_AGENT, read_date, request, retry_after, stream_file
from semel.channels.mattermost.settings import MattermostSettings
from semel.channels.uploads import encode_form, limit_upload_time
from semel.gateway.ports import NotSent
from semel.text.json_types import Json, text_at, value_at
from semel.text.wellformed import UNSTORABLE_ESCAPE, scrub

MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Maximum bytes of an answer: a page has up to 100 posts of 16,383 characters and their first posts."""
MAX_RESET_S = 3_600.0
"""Longest time in seconds that a header about the rate limit is believed."""


@dataclass(frozen=True)
class MattermostReply:
    """An answer. `data`: its JSON, None if it has none. `retry_after`: seconds that it asks to wait, if it says so."""

    status: int
    data: Any = None
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300 and isinstance(self.data, dict | list)

    @property
    def is_error(self) -> bool:
        """Whether it is an error in Mattermost's own words
        (https://docs.mattermost.com/api/reference/mattermost-api, "Errors")."""
        names = ("id", "message")
        return self.status >= 400 and all(isinstance(value_at(self.data, name), str) for name in names)

    @property
    def error_id(self) -> str:
        """Mattermost's id of the error, "" if there is none."""
        return text_at(self.data, "id") or "" if self.is_error else ""

    def describe(self) -> str:
        """Return the error in words for people."""
        if not self.is_error:
            return f"HTTP {self.status}, and not an answer of Mattermost"
        return (text_at(self.data, "message") or self.error_id or f"HTTP {self.status}")[:300]


class MattermostApi:
    """The REST API for one account.

    `skew_s`: by how many seconds the server's clock was ahead of ours at the last answer; None before one. It may be up
    to a second too small. `clock`: seconds, monotonic.
    """

    def __init__(self, settings: MattermostSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._free_at = 0.0  # when the rate limit allows the next request
        self.skew_s: float | None = None
        self.host = httpx2.URL(settings.url).host

    def __repr__(self) -> str:
        return f"<MattermostApi at {self.host}>"

    async def call(self, method: str, path: str, body: Json | list[str] | None = None) -> MattermostReply:
        """Make one call and return its answer, also an error. Raises NotSent or Unknown."""
        content = None if body is None else json.dumps(scrub(body)).encode("ascii")
        return await self._request(method, path, content, "application/json", 0.0)

    async def upload(self, channel: str, name: str, mime: str, content: bytes) -> MattermostReply:
        """Upload a file that a later post may show; nobody sees it yet. Raises NotSent or Unknown."""
        body, content_type = encode_form({"channel_id": channel}, "files", name, mime, content)
        return await self._request("POST", "/files", body, content_type, limit_upload_time(len(content)))

    async def _request(
        self, method: str, path: str, content: bytes | None, content_type: str, patience: float
    ) -> MattermostReply:
        if (wait := self._free_at - self._clock()) > 0:
            raise NotSent("Mattermost's rate limit is reached", wait)
        headers = {
            "authorization": f"Bearer {self._settings.token}", "accept-encoding": "identity", "user-agent": USER_AGENT,
        } | ({} if content is None else {"content-type": content_type})  # fmt: skip
        answer = await request(
            method, f"{self._settings.url}/api/v4{path}", content, headers, timeout=self._settings.timeout + patience,
            allow_private=True, most=MAX_ANSWER_BYTES,
        )  # fmt: skip
        if (now := read_date(answer.headers)) is not None:
            self.skew_s = now - time.time()
        status, data = parse_answer(answer.status, answer.body)
        reply = MattermostReply(status, data, _read_wait(status, answer.headers))
        if reply.status == 429 or answer.headers.get("x-ratelimit-remaining") == "0":
            reset = _read_seconds(answer.headers.get("x-ratelimit-reset"))
            delay = reply.retry_after if reply.status == 429 else reset
            self._free_at = self._clock() + min(delay or 0.0, MAX_RESET_S)
        return reply

    def download(self, file: str) -> AsyncGenerator[bytes, None]:
        """Stream a file by its id. Raises FileNotGiven if the server refuses it, FileNotNow or Offline."""
        headers = {"authorization": f"Bearer {self._settings.token}", "user-agent": USER_AGENT}
        address = f"{self._settings.url}/api/v4/files/{file}"
        return stream_file(address, headers, self._settings.timeout, _check_download)


def _check_download(response: httpx2.Response) -> None:
    status = response.status_code
    if status in (408, 429) or status >= 500:
        raise FileNotNow(f"Mattermost answers HTTP {status}", retry_after(response.headers))
    if status != 200:
        raise FileNotGiven(f"Mattermost does not give it to the bot (HTTP {status})")


def parse_answer(status: int, body: bytes) -> tuple[int, Any]:
    """Return the status and the JSON of an answer; if its body is "[" and an error, those of the error.

    The server may write "[" with status 200 before it knows that it fails (its source, api4/channel.go,
    getChannelsForUser).
    """
    data = parse_body(body)
    error = parse_body(body[1:]) if data is None and body.startswith(b"[{") else None
    code = value_at(error, "status_code")
    return (code, error) if isinstance(code, int) and 400 <= code < 600 else (status, data)


def parse_body(body: bytes) -> Any:
    """Return the JSON of a body; None if it has none: a proxy's page, or cut off."""
    try:
        data = json.loads(body)
        return scrub(data) if UNSTORABLE_ESCAPE.search(body) else data
    except (ValueError, RecursionError):
        return None


def _read_wait(status: int, headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer asks to wait: by Retry-After, or of a 429 by X-Ratelimit-Reset."""
    wait = retry_after(headers)
    return _read_seconds(headers.get("x-ratelimit-reset")) if wait is None and status == 429 else wait


def _read_seconds(text: str | None) -> float | None:
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds <= MAX_RESET_S else None
