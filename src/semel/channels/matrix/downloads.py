"""Download received files into our store, before their message is put into the inbox.

Since version 1.11 of the API, downloads need the access token. Older homeservers only have the older path, which is
tried if the new one is unknown.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2

from semel.channels.matrix.parse import Media
from semel.channels.matrix.read_client import Reader
from semel.channels.matrix.transport import parse, quote, retry_after, why
from semel.gateway.ports import Inbox, Kept, Missing, Offline, TooLarge

_MXC = re.compile(r"mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_-]{1,255})")
NEW, OLD = "/_matrix/client/v1/media/download", "/_matrix/media/v3/download"
TRIES = 3
"""Attempts per file. After them the file is missing; a dead remote server must not block all later messages."""
DOWNLOAD_TIMEOUT_S = 300.0
"""Time limit of one download in seconds."""
_WAIT = 2.0


class _Gone(Exception):
    """The file is not available. The message says why, for people."""


class _NotNow(Exception):
    """The download failed for now. `wait`: seconds to wait, if the server named a time."""

    def __init__(self, said: str, wait: float | None = None) -> None:
        super().__init__(said)
        self.wait = wait


class Fetcher:
    """Downloads received files into the inbox's store."""

    def __init__(self, reader: Reader, limit: int, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._reader = reader
        self._limit = limit
        self._sleep = sleep

    async def fetch(self, media: Media, inbox: Inbox, known: bool) -> Kept | Missing:
        """Download one file, or say why it is missing. `known`: whether its sender may speak here, else it is skipped.

        Raises Offline if our own homeserver cannot be reached, and passes on the inbox's exceptions.
        """
        found = _MXC.fullmatch(media.mxc)
        if media.locked or found is None:
            told = "it is encrypted" if media.locked else "its address is no mxc:// address"
            return Missing(media.name, told, media.mime)
        if not known:
            return Missing(media.name, "its sender is not known here", media.mime)
        if media.size is not None and media.size > self._limit:
            return Missing(media.name, f"it is larger than {self._limit:,} bytes", media.mime)
        try:
            return await self._patiently(media, inbox, f"/{quote(found[1])}/{quote(found[2])}")
        except _Gone as gone:
            return Missing(media.name, str(gone), media.mime)
        except TooLarge:
            return Missing(media.name, f"it is larger than {self._limit:,} bytes", media.mime)

    async def _patiently(self, media: Media, inbox: Inbox, path: str) -> Kept:
        for last in (*[False] * (TRIES - 1), True):
            try:
                return await self._once(media, inbox, path)
            except _NotNow as later:
                if last:
                    raise _Gone(f"it could not be fetched: {later}") from None
                await self._sleep(min(30.0, later.wait or _WAIT))
        raise AssertionError

    async def _once(self, media: Media, inbox: Inbox, path: str) -> Kept:
        try:
            return await self._from(NEW + path, self._reader.me.token, media, inbox)
        except _Unknown:
            return await self._from(OLD + path, None, media, inbox)

    async def _from(self, path: str, token: str | None, media: Media, inbox: Inbox) -> Kept:
        began = False
        try:
            async with asyncio.timeout(DOWNLOAD_TIMEOUT_S), self._reader.link.stream(path, token) as answer:
                began = True
                await _judge(answer, new=token is not None)
                return await inbox.keep(media.name, media.mime, _pieces(answer), self._limit)
        except httpx2.ConnectError as error:
            raise Offline(why(error, self._reader.link.base)) from None
        except (httpx2.HTTPError, TimeoutError) as error:
            raise _NotNow(why(error, self._reader.link.base) if began else "the homeserver did not answer") from None


class _Unknown(Exception):
    """The homeserver does not know this path."""


async def _pieces(answer: httpx2.Response) -> AsyncIterator[bytes]:
    async for piece in answer.aiter_bytes():
        yield piece


async def _judge(answer: httpx2.Response, new: bool) -> None:
    """Check a download's status. Raises unless the body is the file. `new`: the path of version 1.11 was used."""
    status = answer.status_code
    if 200 <= status < 300:
        return
    data = parse(await answer.aread())
    code = str(data.get("errcode") or "")
    if new and status in (404, 405) and code in ("M_UNRECOGNIZED", ""):
        raise _Unknown
    if status == 401:
        raise Offline(f"the homeserver does not take the access token for a download ({code})")
    if status in (408, 429) or status >= 500:
        raise _NotNow(f"HTTP {status} {code}".rstrip(), retry_after(answer.headers, data))
    raise _Gone("it is not there any more" if status == 404 else f"the homeserver refuses it (HTTP {status} {code})")
