"""Download the files of people's messages.

Teams does not promise to post a message again. So a file that cannot be fetched now never keeps its message back: after
a few attempts the message is heard without it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from mimetypes import guess_type

from semel.channels.downloads import FileFetcher, FileNotGiven, FileNotNow
from semel.channels.teams.files import TeamsFile
from semel.channels.teams.transport import TeamsApi
from semel.gateway.ports import Inbox, Kept, NotSent, Offline, Unknown
from semel.text.media_types import HEAD_BYTES, detect_image


class TeamsFetcher(FileFetcher[TeamsFile]):
    """Downloads files of one bot. `limit`: the largest one, in bytes."""

    def __init__(self, api: TeamsApi, is_enabled: bool, limit: int) -> None:
        super().__init__(is_enabled, limit)
        self._api = api

    async def _download(self, file: TeamsFile, inbox: Inbox) -> Kept:
        if file.why:
            raise FileNotGiven(file.why)
        try:
            if not file.service_url:
                return await self._keep(file, self._api.download_file(file.url), inbox, file.size)
            async with aclosing(await self._api.download_picture(file.url, file.service_url)) as content:
                head = await _read_head(content)
                return await self._keep(_name_picture(file, head), _join(head, content), inbox, file.size)
        except (Offline, NotSent) as error:
            raise FileNotNow(str(error), error.retry_after) from None
        except Unknown as error:
            raise FileNotNow(str(error)) from None


async def _read_head(content: AsyncGenerator[bytes, None]) -> bytes:
    """Return what comes first: at least HEAD_BYTES, or all of it."""
    head = b""
    async for piece in content:
        head += piece
        if len(head) >= HEAD_BYTES:
            break
    return head


async def _join(head: bytes, content: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    yield head
    async for piece in content:
        yield piece


def _name_picture(file: TeamsFile, head: bytes) -> TeamsFile:
    """Return a picture with the media type and the ending of its content: Teams says "image/*", and no name."""
    mime = detect_image(head)
    if mime is None:
        return file
    ending = "" if guess_type(file.name)[0] else f".{mime.removeprefix('image/')}"
    return replace(file, name=file.name + ending, mime=mime)
