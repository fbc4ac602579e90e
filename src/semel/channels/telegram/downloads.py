"""Download the files of messages into the store, before the messages are put into the inbox."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

from semel.channels.telegram.message_content import MAX_FETCH_BYTES, TelegramFile
from semel.channels.telegram.parse import Draft
from semel.channels.telegram.transport import Api
from semel.gateway.ports import Inbox, Incoming, Kept, Missing, NotSent, Offline, Person, TooLarge, Unknown

SIDE_BY_SIDE = 4
TRIES = 3
"""Failed attempts for a file, after which its message is put without it."""
FILE_TIMEOUT_S = 120.0
"""Time limit for the download of one file, in seconds."""


class Fetcher:
    """Downloads files. A transient failure ends the run with Offline, so that the unconfirmed updates come again; after
    a few such failures the file is reported as missing."""

    def __init__(self, api: Api, fetch: bool) -> None:
        self._api = api
        self._fetch = fetch
        self._failed: Counter[str] = Counter()  # by file id

    async def complete(self, drafts: Sequence[Draft], inbox: Inbox) -> list[Incoming]:
        """Download the drafts' files and return the events in order. Raises Offline, and what the inbox raises."""
        room = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(wanted: TelegramFile, what: Incoming) -> Kept | Missing:
            async with room:
                return await self._one(wanted, what.sender, what.address if what.group else "", inbox)

        got = await asyncio.gather(
            *(one(wanted, draft.what) for draft in drafts for wanted in draft.files), return_exceptions=True
        )
        for each in got:
            if isinstance(each, BaseException):
                raise each
        files = iter([each for each in got if not isinstance(each, BaseException)])
        return [replace(draft.what, files=tuple(next(files) for _ in draft.files)) for draft in drafts]

    async def _one(self, wanted: TelegramFile, sender: Person | None, group: str, inbox: Inbox) -> Kept | Missing:
        if not self._fetch:
            return _missing(wanted, "files are not fetched here: the setting `fetch` is off")
        if wanted.size > MAX_FETCH_BYTES:
            return _missing(wanted, "it is larger than the 20 MB that Telegram gives to bots")
        if sender is None or not await inbox.known(sender, group):
            return _missing(wanted, "it was not fetched: its sender is not known here")
        try:
            async with asyncio.timeout(FILE_TIMEOUT_S):
                return await self._got(wanted, inbox)
        except TooLarge:
            return _missing(wanted, "it is larger than what is kept")
        except (Offline, NotSent, Unknown, TimeoutError) as lost:
            return self._lost(wanted, lost)

    async def _got(self, wanted: TelegramFile, inbox: Inbox) -> Kept | Missing:
        reply = await self._api.call("getFile", {"file_id": wanted.id})
        if not reply.ok and 400 <= reply.status < 500 and reply.status != 429 and reply.read:
            return _missing(wanted, f"Telegram does not give it: {reply.said}")
        if not reply.ok or not isinstance(reply.result, dict):
            raise Offline(f"Telegram does not tell where a file is: HTTP {reply.status}", reply.retry_after)
        path = str(reply.result.get("file_path") or "")
        if not path or path.startswith("/"):
            return _missing(wanted, "the Bot API server keeps it on its own disk (it runs with --local)")
        async with aclosing(self._api.download(path)) as content:
            kept = await inbox.keep(wanted.name, wanted.mime, content, MAX_FETCH_BYTES)
        told = int(reply.result.get("file_size") or kept.size)
        if kept.size != told:
            raise Offline(f"a file broke off: {kept.size} of {told} bytes came")
        self._failed.pop(wanted.id, None)
        return kept

    def _lost(self, wanted: TelegramFile, lost: Exception) -> Missing:
        """Count a transient failure. Raises Offline, or returns the file as missing after the last attempt."""
        self._failed[wanted.id] += 1
        if self._failed[wanted.id] < TRIES:
            again = lost if isinstance(lost, Offline) else Offline(str(lost) or "a file took too long to fetch")
            raise again
        del self._failed[wanted.id]
        return _missing(wanted, f"it could not be fetched: {str(lost) or 'it took too long'}")


def _missing(wanted: TelegramFile, why: str) -> Missing:
    return Missing(wanted.name, why, wanted.mime)
