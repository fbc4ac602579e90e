"""Download the files of messages into the store, before the messages are put into the inbox."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

from semel.channels.discord.address import parse_message_id
from semel.channels.discord.parse import DiscordDraft, DiscordFile
from semel.channels.discord.transport import DiscordApi, FileGone
from semel.gateway.ports import Inbox, Incoming, Kept, Missing, NotSent, Offline, TooLarge, Unknown
from semel.text.json_types import list_at, objects_in

MAX_FETCH_BYTES = 50_000_000
MAX_CONCURRENT_DOWNLOADS = 4
MAX_DOWNLOAD_ATTEMPTS = 3
"""Number of failed downloads of a file after which its message is put into the inbox without it."""
FILE_TIMEOUT_S = 120.0


class DiscordFetcher:
    """Downloads files. A transient failure raises Offline, which ends the run; Discord then tells the message again.
    After MAX_DOWNLOAD_ATTEMPTS failures the file is reported as missing."""

    def __init__(self, api: DiscordApi, is_enabled: bool) -> None:
        self._api = api
        self._is_enabled = is_enabled
        self._failures: Counter[str] = Counter()  # by file id

    async def complete(self, drafts: Sequence[DiscordDraft], inbox: Inbox) -> list[Incoming]:
        """Download the drafts' files and return the events in order. Raises Offline, and what the inbox raises."""
        slots = asyncio.Semaphore(MAX_CONCURRENT_DOWNLOADS)

        async def fetch(file: DiscordFile, incoming: Incoming) -> Kept | Missing:
            async with slots:
                return await self._fetch_if_allowed(file, incoming, inbox)

        tasks = [fetch(file, draft.incoming) for draft in drafts for file in draft.files]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        files = iter([result for result in results if not isinstance(result, BaseException)])
        return [
            replace(draft.incoming, files=tuple(next(files) for _ in draft.files)) if draft.files else draft.incoming
            for draft in drafts
        ]

    async def _fetch_if_allowed(self, file: DiscordFile, incoming: Incoming, inbox: Inbox) -> Kept | Missing:
        group = incoming.address if incoming.group else ""
        if not self._is_enabled:
            return _make_missing(file, "files are not fetched here: the setting `fetch` is off")
        if file.size > MAX_FETCH_BYTES:
            return _make_missing(file, f"it is larger than {MAX_FETCH_BYTES:,} bytes")
        if incoming.sender is None or not await inbox.known(incoming.sender, group):
            return _make_missing(file, "it was not fetched: its sender is not known here")
        try:
            async with asyncio.timeout(FILE_TIMEOUT_S):
                return await self._download(file, inbox)
        except TooLarge:
            return _make_missing(file, f"it is larger than {MAX_FETCH_BYTES:,} bytes")
        except FileGone as error:
            return _make_missing(file, str(error))
        except (Offline, NotSent, Unknown, TimeoutError) as error:
            return self._count_failure(file, error)

    async def _download(self, file: DiscordFile, inbox: Inbox) -> Kept:
        try:
            return await self._keep(file, file.url, inbox)
        except FileGone:  # an address is valid for a day; the message has a new one
            address = await self._find_address(file)
            if address in ("", file.url):
                raise
            return await self._keep(file, address, inbox)

    async def _keep(self, file: DiscordFile, address: str, inbox: Inbox) -> Kept:
        async with aclosing(self._api.download(address)) as content:
            kept = await inbox.keep(file.name, file.mime, content, MAX_FETCH_BYTES)
        if file.size and kept.size != file.size:
            raise Offline(f"a file broke off: {kept.size} of {file.size} bytes came")
        self._failures.pop(file.id, None)
        return kept

    async def _find_address(self, file: DiscordFile) -> str:
        channel, message = parse_message_id(file.message)
        reply = await self._api.call("GET", f"/channels/{channel}/messages/{message}")
        attachments = objects_in(list_at(reply.data, "attachments")) if reply.ok else []
        return next((str(each.get("url") or "") for each in attachments if each.get("id") == file.id), "")

    def _count_failure(self, file: DiscordFile, error: Exception) -> Missing:
        """Count a transient failure. Raises Offline, or returns the file as missing after the last attempt."""
        self._failures[file.id] += 1
        if self._failures[file.id] < MAX_DOWNLOAD_ATTEMPTS:
            offline = error if isinstance(error, Offline) else Offline(str(error) or "a file took too long to fetch")
            raise offline
        del self._failures[file.id]
        return _make_missing(file, f"it could not be fetched: {str(error) or 'it took too long'}")


def _make_missing(file: DiscordFile, reason: str) -> Missing:
    return Missing(file.name, reason, file.mime)
