"""Download the files of messages into the store, before the messages are put into the inbox."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

from semel.channels.telegram.message_content import MAX_FETCH_BYTES, TelegramFile
from semel.channels.telegram.parse import TelegramDraft
from semel.channels.telegram.transport import BotApi
from semel.gateway.ports import Inbox, Incoming, Kept, Missing, NotSent, Offline, Person, TooLarge, Unknown

MAX_CONCURRENT_DOWNLOADS = 4
MAX_DOWNLOAD_ATTEMPTS = 3
"""Number of failed downloads of a file after which its message is put into the inbox without it."""
FILE_TIMEOUT_S = 120.0
"""Time limit for the download of one file, in seconds."""


class TelegramFetcher:
    """Downloads files. A transient failure raises Offline, which ends the run; Telegram then sends the unconfirmed
    updates again. After MAX_DOWNLOAD_ATTEMPTS failures the file is reported as missing."""

    def __init__(self, api: BotApi, fetch: bool) -> None:
        self._api = api
        self._enabled = fetch
        self._failures: Counter[str] = Counter()  # by file id

    async def complete(self, drafts: Sequence[TelegramDraft], inbox: Inbox) -> list[Incoming]:
        """Download the drafts' files and return the events in order. Raises Offline, and what the inbox raises."""
        slots = asyncio.Semaphore(MAX_CONCURRENT_DOWNLOADS)

        async def one(file: TelegramFile, incoming: Incoming) -> Kept | Missing:
            async with slots:
                return await self._fetch_if_allowed(
                    file, incoming.sender, incoming.address if incoming.group else "", inbox
                )

        results = await asyncio.gather(
            *(one(file, draft.incoming) for draft in drafts for file in draft.files), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        files = iter([result for result in results if not isinstance(result, BaseException)])
        return [replace(draft.incoming, files=tuple(next(files) for _ in draft.files)) for draft in drafts]

    async def _fetch_if_allowed(
        self, file: TelegramFile, sender: Person | None, group: str, inbox: Inbox
    ) -> Kept | Missing:
        if not self._enabled:
            return _make_missing(file, "files are not fetched here: the setting `fetch` is off")
        if file.size > MAX_FETCH_BYTES:
            return _make_missing(file, "it is larger than the 20 MB that Telegram gives to bots")
        if sender is None or not await inbox.known(sender, group):
            return _make_missing(file, "it was not fetched: its sender is not known here")
        try:
            async with asyncio.timeout(FILE_TIMEOUT_S):
                return await self._download(file, inbox)
        except TooLarge:
            return _make_missing(file, "it is larger than what is kept")
        except (Offline, NotSent, Unknown, TimeoutError) as error:
            return self._count_failure(file, error)

    async def _download(self, file: TelegramFile, inbox: Inbox) -> Kept | Missing:
        reply = await self._api.call("getFile", {"file_id": file.id})
        if not reply.ok and 400 <= reply.status < 500 and reply.status != 429 and reply.is_bot_api:
            return _make_missing(file, f"Telegram does not give it: {reply.error_text}")
        if not reply.ok or not isinstance(reply.result, dict):
            raise Offline(f"Telegram does not tell where a file is: HTTP {reply.status}", reply.retry_after)
        path = str(reply.result.get("file_path") or "")
        if not path or path.startswith("/"):
            return _make_missing(file, "the Bot API server keeps it on its own disk (it runs with --local)")
        async with aclosing(self._api.download(path)) as content:
            kept = await inbox.keep(file.name, file.mime, content, MAX_FETCH_BYTES)
        size = int(reply.result.get("file_size") or kept.size)
        if kept.size != size:
            raise Offline(f"a file broke off: {kept.size} of {size} bytes came")
        self._failures.pop(file.id, None)
        return kept

    def _count_failure(self, file: TelegramFile, error: Exception) -> Missing:
        """Count a transient failure. Raises Offline, or returns the file as missing after the last attempt."""
        self._failures[file.id] += 1
        if self._failures[file.id] < MAX_DOWNLOAD_ATTEMPTS:
            offline = error if isinstance(error, Offline) else Offline(str(error) or "a file took too long to fetch")
            raise offline
        del self._failures[file.id]
        return _make_missing(file, f"it could not be fetched: {str(error) or 'it took too long'}")


def _make_missing(file: TelegramFile, reason: str) -> Missing:
    return Missing(file.name, reason, file.mime)
