"""A thin client of Discord's REST API: one call makes one request and returns its answer uninterpreted.

The bot's token goes into one header, and an interaction's token into the path, so no error, log line or repr may
contain a request. Before a request, its rate limit is waited for (`rate_limits`), for a few seconds at most.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2

from semel.channels.discord.rate_limits import MAX_RESET_S, RateLimits
from semel.channels.discord.settings import DEFAULT_API, DiscordSettings
from semel.channels.downloads import FileNotGiven, FileNotNow
from semel.channels.http import read_date, request, retry_after, stream_file
from semel.channels.uploads import encode_form
from semel.gateway.ports import NotSent
from semel.text.json_types import Json, text_at, value_at
from semel.text.wellformed import UNSTORABLE_ESCAPE, scrub

USER_AGENT = "DiscordBot (https://pypi.org/project/semel, 1)"
"""The form that Discord asks of bots (https://docs.discord.com/developers/reference#user-agent)."""
MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""Maximum bytes that are read of an answer: a page of 100 messages fits."""
MAX_WAIT_S = 5.0
"""Longest seconds for which a call waits for its rate limit."""
CDN_HOSTS = ("cdn.discordapp.com", "media.discordapp.net")
"""The hosts of files in messages (https://docs.discord.com/developers/reference#signed-attachment-cdn-urls)."""


@dataclass(frozen=True)
class Upload:
    """A file to upload with a call."""

    name: str
    mime: str
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class DiscordReply:
    """An answer. `data`: its JSON, None if it has no body. `is_discord`: whether the body can be Discord's own.

    `retry_after`: seconds to wait before a retry, if the answer says so.
    """

    status: int
    data: Any = None
    is_discord: bool = True
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300 and self.is_discord

    @property
    def code(self) -> int:
        """Discord's code of an error; 0 if there is none."""
        code = value_at(self.data, "code")
        return code if isinstance(code, int) and not isinstance(code, bool) else 0

    @property
    def is_error(self) -> bool:
        """Whether it is an error in Discord's own words: a code and a message."""
        return self.status >= 400 and isinstance(value_at(self.data, "message"), str) and "code" in self.data

    @property
    def error_text(self) -> str:
        """The error in words, for people."""
        message = text_at(self.data, "message") or f"HTTP {self.status}"
        details = _find_first_message(value_at(self.data, "errors"))
        return (f"{message}: {details}" if details and details != message else message)[:300]


class DiscordApi:
    """The REST API for one bot.

    `skew_s`: by how many seconds Discord's clock was ahead of ours at the last answer; None before one.
    """

    def __init__(self, settings: DiscordSettings, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._settings = settings
        self._sleep = sleep
        self._allow_private = settings.api != DEFAULT_API
        self.limits = RateLimits()
        self.skew_s: float | None = None
        self.host = httpx2.URL(settings.api).host

    def __repr__(self) -> str:
        return f"<DiscordApi at {self.host}, {self.limits!r}>"

    async def call(
        self, method: str, path: str, body: Json | list[Json] | None = None, *, upload: Upload | None = None,
        patience: float = 0.0, authorized: bool = True,
    ) -> DiscordReply:  # fmt: skip
        """Make one call and return its answer, also an error. Raises NotSent or Unknown.

        `patience`: seconds to wait for the answer in addition to the time-out. `authorized`: whether the path needs the
        bot's token; an interaction's own token in the path is enough.
        """
        wait = self.limits.wait_s(method, path)
        if wait > MAX_WAIT_S:
            raise NotSent("Discord's rate limit is reached", wait)
        if wait:
            await self._sleep(wait)
        headers = {"accept-encoding": "identity", "user-agent": USER_AGENT}
        headers |= {"authorization": f"Bot {self._settings.token}"} if authorized else {}
        content: bytes | None = None
        if upload is not None:
            fields = {"payload_json": json.dumps(body)}
            content, headers["content-type"] = encode_form(fields, "files[0]", upload.name, upload.mime, upload.content)
        elif body is not None:
            content, headers["content-type"] = json.dumps(body).encode("ascii"), "application/json"
        answer = await request(
            method, self._settings.api + path, content, headers, timeout=self._settings.timeout + patience,
            allow_private=self._allow_private, most=MAX_ANSWER_BYTES,
        )  # fmt: skip
        if (now := read_date(answer.headers)) is not None:
            self.skew_s = now - time.time()
        reply = parse_reply(answer.status, answer.body, retry_after(answer.headers))
        self.limits.learn(method, path, reply.status, answer.headers, reply.retry_after)
        return reply

    def download(self, address: str) -> AsyncGenerator[bytes, None]:
        """Stream a file of a message. Raises FileGone if the file is not there, FileNotNow or Offline."""
        url = httpx2.URL(address)
        if not self._is_file_host(url):
            raise FileGone("its address is not one of Discord's")
        return stream_file(url, {}, self._settings.timeout, _check_download)

    def _is_file_host(self, url: httpx2.URL) -> bool:
        if self._allow_private:  # an API of one's own serves its files itself
            return url.host == self.host
        return url.scheme == "https" and url.host in CDN_HOSTS


class FileGone(FileNotGiven):
    """A file is not at this address, or its address is not one of Discord's."""


def _check_download(response: httpx2.Response) -> None:
    if response.status_code in (403, 404, 410):
        raise FileGone("Discord does not give it any more")
    if response.status_code != 200:
        raise FileNotNow(f"Discord answers HTTP {response.status_code}", retry_after(response.headers))


def parse_reply(status: int, body: bytes, retry_after_header: float | None = None) -> DiscordReply:
    """Parse an answer. `is_discord` is False if the body is not JSON: a proxy's page, or cut off."""
    if not body and status == 204:
        return DiscordReply(status)
    try:
        data = json.loads(body)
        data = scrub(data) if UNSTORABLE_ESCAPE.search(body) else data
    except (ValueError, RecursionError):
        return DiscordReply(status, None, is_discord=False, retry_after=retry_after_header)
    wait = value_at(data, "retry_after")
    is_wait = isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait <= MAX_RESET_S
    return DiscordReply(status, data, retry_after=float(wait) if is_wait else retry_after_header)


def _find_first_message(errors: Any, depth: int = 8) -> str:
    """Return the first message in the tree of errors of an invalid form; "" if there is none."""
    if isinstance(errors, list):
        return next((text for each in errors if (text := _find_first_message(each, depth - 1))), "") if depth else ""
    if not isinstance(errors, dict) or not depth:
        return ""
    if isinstance(errors.get("message"), str):
        return str(errors["message"])
    return next((text for each in errors.values() if (text := _find_first_message(each, depth - 1))), "")
