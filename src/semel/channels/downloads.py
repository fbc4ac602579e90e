"""Download the files of messages into the store, before the messages are put into the inbox."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from semel.gateway.ports import Inbox, Incoming, Kept, Missing, NotSent, Offline, TooLarge, Unknown
from semel.text.media_types import is_sound

MAX_CONCURRENT_DOWNLOADS = 4
MAX_DOWNLOAD_ATTEMPTS = 3
"""Number of failed downloads of a file after which its message is put into the inbox without it."""
RETRY_DELAY_S = 1.0
"""Seconds before a file that was not given is asked for again; doubled each time, unless the platform names a time."""
MAX_RETRY_DELAY_S = 10.0
FILE_TIMEOUT_S = 120.0
"""Time limit for the download of one file, in seconds."""


def mark_voice_note(text: str, files: Sequence[Kept | Missing]) -> tuple[Kept | Missing, ...]:
    """Return the files of a message, for platforms that do not mark voice notes: a sound without a word is one."""
    if text.strip() or len(files) != 1:
        return tuple(files)
    return tuple(replace(file, voice=is_sound(file.mime)) if isinstance(file, Kept) else file for file in files)


class FileNotGiven(Exception):
    """The platform does not give a file, and will not. The message says why, for people."""


class FileNotNow(Exception):
    """The platform was reached and did not give a file, but may if it is asked again. The message says why, for people.

    `retry_after`: the seconds to wait before that, if the platform says so.
    """

    def __init__(self, why: str, retry_after: float | None = None):
        super().__init__(why)
        self.retry_after = retry_after


class PlatformFile(Protocol):
    """A file of a message. `id`: the platform's. `size`: in bytes; 0: unknown. `is_voice`: it is a voice note."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def mime(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def is_voice(self) -> bool: ...


File = TypeVar("File", bound=PlatformFile)
File_co = TypeVar("File_co", bound=PlatformFile, covariant=True)


class Draft(Protocol[File_co]):
    """An inbox event whose files are still to be downloaded."""

    @property
    def incoming(self) -> Incoming: ...
    @property
    def files(self) -> Sequence[File_co]: ...


class FileFetcher(ABC, Generic[File]):
    """Downloads files. What concerns one file (`FileNotNow`) is tried again at once, and the channel stays online. A
    lost connection raises Offline, which ends the run; the platform then tells the message again. After
    MAX_DOWNLOAD_ATTEMPTS failures of either kind the file is reported as missing, and its message goes on.

    `limit`: the largest file, in bytes. `too_large`: what people read of a larger one.
    """

    def __init__(self, is_enabled: bool, limit: int, too_large: str | None = None) -> None:
        self._is_enabled = is_enabled
        self._limit = limit
        self._too_large = too_large or f"it is larger than {limit:,} bytes"
        self._failures: Counter[str] = Counter()  # by file id

    @abstractmethod
    async def _download(self, file: File, inbox: Inbox) -> Kept:
        """Store one file with `_keep`. Raises FileNotGiven, FileNotNow and TooLarge.

        If the connection is lost: Offline, NotSent or Unknown.
        """

    async def complete(self, drafts: Sequence[Draft[File]], inbox: Inbox) -> list[Incoming]:
        """Download the drafts' files and return the events in order. Raises Offline, and what the inbox raises."""
        slots = asyncio.Semaphore(MAX_CONCURRENT_DOWNLOADS)

        async def fetch(file: File, incoming: Incoming) -> Kept | Missing:
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

    async def _keep(self, file: File, content: AsyncGenerator[bytes, None], inbox: Inbox, size: int) -> Kept:
        """Store what comes. Raises FileNotNow if it is not `size` bytes, unless that is 0."""
        async with aclosing(content):
            kept = await inbox.keep(file.name, file.mime, content, self._limit)
        if size and kept.size != size:
            raise FileNotNow(f"it broke off: {kept.size} of {size} bytes came")
        return kept

    async def _fetch_if_allowed(self, file: File, incoming: Incoming, inbox: Inbox) -> Kept | Missing:
        if not self._is_enabled:
            return _make_missing(file, "files are not fetched here: the setting `fetch` is off")
        if file.size > self._limit:
            return _make_missing(file, self._too_large)
        if await inbox.has_heard(incoming.key):  # a repeat, of which the record keeps nothing
            return _make_missing(file, "its message is recorded already")
        group = incoming.address if incoming.group else ""
        if incoming.sender is None or not await inbox.known(incoming.sender, group):
            return _make_missing(file, "it was not fetched: its sender is not known here")
        try:
            kept = await self._download_with_retries(file, inbox)
        except TooLarge:
            return _make_missing(file, self._too_large)
        except FileNotGiven as error:
            return _make_missing(file, str(error))
        except (Offline, NotSent, Unknown) as error:
            return self._count_failure(file, error)
        self._failures.pop(file.id, None)
        return replace(kept, voice=True) if file.is_voice else kept

    async def _download_with_retries(self, file: File, inbox: Inbox) -> Kept:
        """Store one file, in up to MAX_DOWNLOAD_ATTEMPTS attempts. Raises FileNotGiven after the last one."""
        for attempt in range(1, MAX_DOWNLOAD_ATTEMPTS + 1):
            try:
                async with asyncio.timeout(FILE_TIMEOUT_S):
                    return await self._download(file, inbox)
            except (FileNotNow, TimeoutError) as error:
                if attempt == MAX_DOWNLOAD_ATTEMPTS:
                    raise FileNotGiven(f"it could not be fetched: {str(error) or 'it took too long'}") from None
                asked_delay = error.retry_after if isinstance(error, FileNotNow) else None
            delay = RETRY_DELAY_S * 2 ** (attempt - 1) if asked_delay is None else asked_delay
            await asyncio.sleep(min(delay, MAX_RETRY_DELAY_S))
        raise AssertionError

    def _count_failure(self, file: File, error: Exception) -> Missing:
        """Count a lost connection. Raises Offline, or returns the file as missing after the last attempt."""
        self._failures[file.id] += 1
        if self._failures[file.id] < MAX_DOWNLOAD_ATTEMPTS:
            raise error if isinstance(error, Offline) else Offline(str(error))
        del self._failures[file.id]
        return _make_missing(file, f"it could not be fetched: {error}")


def _make_missing(file: PlatformFile, reason: str) -> Missing:
    return Missing(file.name, reason, file.mime)
