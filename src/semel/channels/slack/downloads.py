"""Download the files of messages into the store, before the messages are put into the inbox."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

from semel.channels.slack.parse import SlackDraft, SlackFile, parse_file
from semel.channels.slack.transport import FileRefused, SlackApi
from semel.gateway.ports import Inbox, Incoming, Kept, Missing, NotSent, Offline, Person, TooLarge, Unknown
from semel.text.json_types import object_at

MAX_CONCURRENT_DOWNLOADS = 4
MAX_DOWNLOAD_ATTEMPTS = 3
"""Number of failed downloads of a file after which its message is put into the inbox without it."""
FILE_TIMEOUT_S = 120.0
"""Time limit for the download of one file, in seconds."""


class SlackFetcher:
    """Downloads files. A transient failure raises Offline, which ends the run; the history then has the message again.

    After MAX_DOWNLOAD_ATTEMPTS failures the file is reported as missing.
    """

    def __init__(self, api: SlackApi, fetch: bool, limit: int) -> None:
        self._api = api
        self._enabled = fetch
        self._limit = limit
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_DOWNLOADS)
        self._failures: Counter[str] = Counter()  # by file id

    async def complete(self, drafts: Sequence[SlackDraft], inbox: Inbox) -> list[Incoming]:
        """Download the drafts' files and return the events in order. Raises Offline, and what the inbox raises."""

        async def fetch(file: SlackFile, incoming: Incoming) -> Kept | Missing:
            async with self._slots:
                return await self._fetch_if_allowed(file, incoming, inbox)

        wanted = [fetch(file, draft.incoming) for draft in drafts for file in draft.files]
        results = await asyncio.gather(*wanted, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        files = iter([result for result in results if not isinstance(result, BaseException)])
        return [replace(draft.incoming, files=tuple(next(files) for _ in draft.files)) for draft in drafts]

    async def _fetch_if_allowed(self, file: SlackFile, incoming: Incoming, inbox: Inbox) -> Kept | Missing:
        if file.why:
            return _make_missing(file, file.why)
        if not self._enabled:
            return _make_missing(file, "files are not fetched here: the setting `fetch` is off")
        if file.size > self._limit:
            return _make_missing(file, f"it is larger than {self._limit:,} bytes")
        sender: Person | None = incoming.sender
        if sender is None or not await inbox.known(sender, incoming.address if incoming.group else ""):
            return _make_missing(file, "it was not fetched: its sender is not known here")
        try:
            async with asyncio.timeout(FILE_TIMEOUT_S):
                return await self._download(file, inbox)
        except TooLarge:
            return _make_missing(file, f"it is larger than {self._limit:,} bytes")
        except FileRefused as error:
            return _make_missing(file, str(error))
        except (Offline, NotSent, Unknown, TimeoutError) as error:
            return self._count_failure(file, error)

    async def _download(self, file: SlackFile, inbox: Inbox) -> Kept | Missing:
        if file.url is None:
            file = await self._ask(file)
        if file.url is None or file.why:
            return _make_missing(file, file.why or "Slack does not say where it is")
        async with aclosing(self._api.download(file.url)) as content:
            kept = await inbox.keep(file.name, file.mime, content, self._limit)
        if file.size and kept.size != file.size:
            raise Offline(f"a file broke off: {kept.size} of {file.size} bytes came")
        self._failures.pop(file.id, None)
        return kept

    async def _ask(self, file: SlackFile) -> SlackFile:
        """Return a file of which the message has only the id, as those of other workspaces (Slack Connect)."""
        reply = await self._api.call("files.info", file=file.id)
        if not reply.ok and (reply.status != 200 or not reply.error):
            raise Offline(f"Slack does not tell where a file is: {reply.describe()}", reply.retry_after)
        if not reply.ok:
            raise FileRefused(f"Slack does not give it: {reply.describe()}")
        return parse_file({"id": file.id, **object_at(reply.data, "file")})

    def _count_failure(self, file: SlackFile, error: Exception) -> Missing:
        """Count a transient failure. Raises Offline, or returns the file as missing after the last attempt."""
        self._failures[file.id] += 1
        if self._failures[file.id] < MAX_DOWNLOAD_ATTEMPTS:
            raise error if isinstance(error, Offline) else Offline(str(error) or "a file took too long to fetch")
        del self._failures[file.id]
        return _make_missing(file, f"it could not be fetched: {str(error) or 'it took too long'}")


def _make_missing(file: SlackFile, reason: str) -> Missing:
    return Missing(file.name, reason, file.mime)
