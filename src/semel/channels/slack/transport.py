"""A thin client of the Web API: one call makes one request and returns its answer uninterpreted.

Arguments are sent as a form, which every method takes; lists and objects in it are JSON. Each request has a connection
of its own (`semel.channels.http`).
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx2

from semel.channels.downloads import FileNotGiven, FileNotNow
from semel.channels.http import USER_AGENT, HttpAnswer, request, retry_after, stream_file
from semel.channels.slack.settings import DEFAULT_API, SlackSettings
from semel.channels.uploads import limit_upload_time
from semel.gateway.ports import NotSent
from semel.text.json_types import Json
from semel.text.wellformed import scrub

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Maximum bytes of an answer: a page of history has up to 200 messages with their blocks."""


@dataclass(frozen=True)
class SlackReply:
    """An answer of the Web API.

    `data`: its JSON object. `is_web_api`: whether it is one: an object with a boolean `ok`. `error`: Slack's code of
    the error, "" if there is none.
    """

    status: int
    data: Json = field(default_factory=dict)
    is_web_api: bool = True
    retry_after: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def ok(self) -> bool:
        return self.status == 200 and self.is_web_api and self.data["ok"] is True

    @property
    def error(self) -> str:
        return str(self.data.get("error") or "") if self.is_web_api and not self.data["ok"] else ""

    @property
    def next_cursor(self) -> str:
        """The cursor of the next page, "" on the last one."""
        more = self.data.get("response_metadata")
        return str(more.get("next_cursor") or "") if isinstance(more, dict) else ""

    def describe(self) -> str:
        """Return the error in words for people."""
        if not self.is_web_api:
            return f"HTTP {self.status}, and not an answer of Slack"
        details = [str(self.data[name]) for name in ("needed", "detail") if isinstance(self.data.get(name), str)]
        return ": ".join([self.error or f"HTTP {self.status}", *details])[:300]


class SlackApi:
    """The Web API for one app."""

    def __init__(self, settings: SlackSettings) -> None:
        self._settings = settings
        self._allow_private = settings.api != DEFAULT_API
        self.host = httpx2.URL(settings.api).host

    def __repr__(self) -> str:
        return f"<SlackApi at {self.host}>"

    async def call(self, method: str, *, as_app: bool = False, **arguments: Any) -> SlackReply:
        """Make one call and return its answer, also an error. Raises NotSent or Unknown.

        An argument that is None is left out. `as_app`: with the app-level token instead of the bot's.
        """
        token = self._settings.app_token if as_app else self._settings.bot_token
        answer = await self._request(
            f"{self._settings.api}/{method}",
            urlencode({name: _encode(value) for name, value in arguments.items() if value is not None}).encode("ascii"),
            {"authorization": f"Bearer {token}", "content-type": "application/x-www-form-urlencoded; charset=utf-8"},
        )
        return parse_reply(answer)

    async def upload(self, url: str, content: bytes, mime: str) -> None:
        """Send a file to the address that files.getUploadURLExternal gave. Raises NotSent: nobody sees it yet."""
        if not self._is_trusted(url):
            raise NotSent("Slack named an address for the file that is not its own", 60.0)
        answer = await self._request(url, content, {"content-type": mime}, patience=limit_upload_time(len(content)))
        if answer.status != 200:
            raise NotSent(f"the file did not arrive: HTTP {answer.status}", retry_after(answer.headers))

    async def _request(self, url: str, body: bytes, headers: Mapping[str, str], patience: float = 0.0) -> HttpAnswer:
        fields = {"accept-encoding": "identity", "user-agent": USER_AGENT, **headers}
        return await request(
            "POST", url, body, fields, timeout=self._settings.timeout + patience, allow_private=self._allow_private,
            most=MAX_ANSWER_BYTES,
        )  # fmt: skip

    def download(self, address: str) -> AsyncGenerator[bytes, None]:
        """Stream a file by its `url_private_download`. Raises FileNotGiven if Slack refuses it, FileNotNow or Offline.

        The bot's token is sent to Slack alone, whatever host the address names.
        """
        if not self._is_trusted(address):
            raise FileNotGiven("its address is not at Slack")
        headers = {"authorization": f"Bearer {self._settings.bot_token}"}
        return stream_file(address, headers, self._settings.timeout, _check_download)

    def _is_trusted(self, address: str) -> bool:
        """Whether an address is at Slack, or at the host of the setting `api`."""
        try:
            url = httpx2.URL(address)
        except httpx2.InvalidURL:
            return False
        if self._settings.api != DEFAULT_API and url.host == self.host:
            return True
        return url.scheme == "https" and (url.host == "slack.com" or url.host.endswith(".slack.com"))


def _check_download(response: httpx2.Response) -> None:
    """Raise FileNotNow or FileNotGiven unless the body is the file. To a refused token Slack gives its login page."""
    status = response.status_code
    if status == 429 or status >= 500 or status == 408:
        raise FileNotNow(f"Slack answers HTTP {status}", retry_after(response.headers))
    if status != 200 or "x-slack-failure" in response.headers or _is_login_page(response):
        raise FileNotGiven("Slack does not give it to the bot: it needs the scope files:read")


def _is_login_page(response: httpx2.Response) -> bool:
    is_page = response.headers.get("content-type", "").startswith("text/html")
    return is_page and "content-disposition" not in response.headers


def parse_reply(answer: HttpAnswer) -> SlackReply:
    """Parse an answer. `is_web_api` is False unless it is a JSON object with a boolean `ok` (a proxy's page is not)."""
    wait = retry_after(answer.headers)
    try:
        data = json.loads(answer.body)
    except (ValueError, RecursionError):
        return SlackReply(answer.status, is_web_api=False, retry_after=wait)
    if not isinstance(data, dict) or not isinstance(data.get("ok"), bool):
        return SlackReply(answer.status, is_web_api=False, retry_after=wait)
    return SlackReply(answer.status, scrub(data), retry_after=wait, headers=answer.headers)


def _encode(value: Any) -> str:
    """Return an argument as a form holds it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return scrub(value)
    return json.dumps(scrub(value) if isinstance(value, dict | list) else value, ensure_ascii=False)
