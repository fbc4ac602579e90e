"""Download the files of WhatsApp's messages: Meta tells where a file is for five minutes, by its id."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing

from semel.channels.downloads import FileFetcher, FileNotGiven
from semel.channels.whatsapp.message_content import WhatsAppFile
from semel.channels.whatsapp.transport import GraphApi
from semel.gateway.ports import Inbox, Kept, Offline, TooLarge
from semel.text.json_types import text_at, value_at


class WhatsAppFetcher(FileFetcher[WhatsAppFile]):
    """Downloads files by their ids. `limit`: the largest one, in bytes."""

    def __init__(self, api: GraphApi, is_enabled: bool, limit: int) -> None:
        super().__init__(is_enabled, limit)
        self._api = api

    async def _download(self, file: WhatsAppFile, inbox: Inbox) -> Kept:
        reply = await self._api.read_media(file.id)
        if not reply.ok and reply.is_graph and reply.status in (400, 403, 404):
            raise FileNotGiven(f"Meta does not give it: {reply.describe()}")
        url = text_at(reply.data, "url")
        if not reply.ok or url is None:
            raise Offline(f"Meta does not tell where a file is: {reply.describe()}", reply.retry_after)
        size = _read_size(value_at(reply.data, "file_size"))
        if size > self._limit:
            raise TooLarge
        digest = text_at(reply.data, "sha256") or file.sha256
        return await self._keep(file, _check_digest(self._api.download(url), digest), inbox, size)


def _read_size(value: object) -> int:
    """Return a size, which Meta writes as a number or in digits; 0 if there is none."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


async def _check_digest(content: AsyncGenerator[bytes, None], digest: str) -> AsyncGenerator[bytes, None]:
    """Pass the content on. Raises Offline at its end if it is not what Meta has."""
    sha256 = hashlib.sha256()
    async with aclosing(content):
        async for piece in content:
            sha256.update(piece)
            yield piece
    if digest and sha256.digest() not in _decode_digest(digest):
        raise Offline("a file came damaged: its SHA-256 is not the one that Meta names")


def _decode_digest(digest: str) -> list[bytes]:
    """Return what a digest may stand for: Meta writes it in hex or in base64."""
    decoded = []
    for decode in (bytes.fromhex, base64.b64decode):
        try:
            decoded.append(decode(digest))
        except (ValueError, binascii.Error):
            continue
    return decoded
