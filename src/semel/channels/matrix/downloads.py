"""Download received files into our store, before their message is put into the inbox.

Since version 1.11 of the API, downloads need the access token. Older homeservers only have the older path, which is
tried if the new one is unknown.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import httpx2

from semel.channels.matrix.account import MatrixReader
from semel.channels.matrix.parse import Media
from semel.channels.matrix.transport import describe_error, parse_json, quote, retry_after
from semel.gateway.ports import Inbox, Kept, Missing, Offline, TooLarge

_MXC = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_-]{1,255})")
NEW, OLD = "/_matrix/client/v1/media/download", "/_matrix/media/v3/download"
MAX_DOWNLOAD_ATTEMPTS = 3
"""Attempts per file. After them the file is missing; a dead remote server must not block all later messages."""
DOWNLOAD_TIMEOUT_S = 300.0
"""Time limit of one download in seconds."""
_RETRY_DELAY_S = 2.0


class _Unavailable(Exception):
    """The file is not available. The message says why, for people."""


class _FailedForNow(Exception):
    """The download failed for now. `wait`: seconds to wait, if the server named a time."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait_s


class MatrixFetcher:
    """Downloads received files into the inbox's store."""

    def __init__(
        self, reader: MatrixReader, limit: int, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._reader = reader
        self._limit = limit
        self._sleep = sleep

    async def fetch(self, media: Media, inbox: Inbox, sender_known: bool) -> Kept | Missing:
        """Download one file. Returns the stored file, or a `Missing` that says why there is none.

        `sender_known`: whether the sender may speak here; if not, the file is not downloaded. Raises Offline if our own
        homeserver cannot be reached, and passes on the inbox's exceptions.
        """
        address = _MXC.fullmatch(media.mxc)
        if media.encrypted or address is None:
            reason = "it is encrypted" if media.encrypted else "its address does not begin with mxc://"
            return Missing(media.name, reason, media.mime)
        if not sender_known:
            return Missing(media.name, "its sender is not known here", media.mime)
        if media.size is not None and media.size > self._limit:
            return Missing(media.name, f"it is larger than {self._limit:,} bytes", media.mime)
        try:
            kept = await self._download_with_retries(media, inbox, f"/{quote(address[1])}/{quote(address[2])}")
            return replace(kept, voice=True) if media.is_voice else kept
        except _Unavailable as error:
            return Missing(media.name, str(error), media.mime)
        except TooLarge:
            return Missing(media.name, f"it is larger than {self._limit:,} bytes", media.mime)

    async def _download_with_retries(self, media: Media, inbox: Inbox, path: str) -> Kept:
        for is_last in (*[False] * (MAX_DOWNLOAD_ATTEMPTS - 1), True):
            try:
                return await self._download_once(media, inbox, path)
            except _FailedForNow as later:
                if is_last:
                    raise _Unavailable(f"it could not be fetched: {later}") from None
                await self._sleep(min(30.0, later.wait or _RETRY_DELAY_S))
        raise AssertionError

    async def _download_once(self, media: Media, inbox: Inbox, path: str) -> Kept:
        try:
            return await self._stream(NEW + path, self._reader.me.token, media, inbox)
        except _UnknownPath:
            return await self._stream(OLD + path, None, media, inbox)

    async def _stream(self, path: str, token: str | None, media: Media, inbox: Inbox) -> Kept:
        began = False
        try:
            async with asyncio.timeout(DOWNLOAD_TIMEOUT_S), self._reader.link.stream(path, token) as answer:
                began = True
                await _check_status(answer, is_new_api=token is not None)
                return await inbox.keep(media.name, media.mime, _chunks(answer), self._limit)
        except httpx2.ConnectError as error:
            raise Offline(describe_error(error, self._reader.link.base)) from None
        except (httpx2.HTTPError, TimeoutError) as error:
            raise _FailedForNow(
                describe_error(error, self._reader.link.base) if began else "the homeserver did not answer"
            ) from None


class _UnknownPath(Exception):
    """The homeserver does not know this path."""


async def _chunks(answer: httpx2.Response) -> AsyncIterator[bytes]:
    async for piece in answer.aiter_bytes():
        yield piece


async def _check_status(answer: httpx2.Response, is_new_api: bool) -> None:
    """Check a download's status. Raises an exception unless the body is the file.

    `is_new_api`: whether the path is the one of version 1.11.
    """
    status = answer.status_code
    if 200 <= status < 300:
        return
    data = parse_json(await answer.aread())
    code = str(data.get("errcode") or "")
    if is_new_api and status in (404, 405) and code in ("M_UNRECOGNIZED", ""):
        raise _UnknownPath
    if status == 401:
        raise Offline(f"the homeserver does not take the access token for a download ({code})")
    if status in (408, 429) or status >= 500:
        raise _FailedForNow(f"HTTP {status} {code}".rstrip(), retry_after(answer.headers, data))
    raise _Unavailable(
        "it is not there any more" if status == 404 else f"the homeserver refuses it (HTTP {status} {code})"
    )
