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
FILE_TIMEOUT_S = 120.0
"""Time limit for the download of one file, in seconds."""


def mark_voice_note(text: str, files: Sequence[Kept | Missing]) -> tuple[Kept | Missing, ...]:
    """Return the files of a message, for platforms that do not mark voice notes: a sound without a word is one."""
    if text.strip() or len(files) != 1:
        return tuple(files)
    return tuple(replace(file, voice=is_sound(file.mime)) if isinstance(file, Kept) else file for file in files)


class FileNotGiven(Exception):
    """The platform does not give a file, and will not. The message says why, for people."""


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
    """Downloads files. A transient failure raises Offline, which ends the run; the platform then tells the message
    again. After MAX_DOWNLOAD_ATTEMPTS failures the file is reported as missing.

    `limit`: the largest file, in bytes. `too_large`: what people read of a larger one.
    """

    def __init__(self, is_enabled: bool, limit: int, too_large: str | None = None) -> None:
        self._is_enabled = is_enabled
        self._limit = limit
        self._too_large = too_large or f"it is larger than {limit:,} bytes"
        self._failures: Counter[str] = Counter()  # by file id

    @abstractmethod
    async def _download(self, file: File, inbox: Inbox) -> Kept:
        """Store one file with `_keep`. Raises FileNotGiven, TooLarge, and for now Offline, NotSent or Unknown."""

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
        """Store what comes. Raises Offline if it is not `size` bytes, unless that is 0."""
        async with aclosing(content):
            kept = await inbox.keep(file.name, file.mime, content, self._limit)
        if size and kept.size != size:
            raise Offline(f"a file broke off: {kept.size} of {size} bytes came")
        return kept

    async def _fetch_if_allowed(self, file: File, incoming: Incoming, inbox: Inbox) -> Kept | Missing:
        if not self._is_enabled:
            return _make_missing(file, "files are not fetched here: the setting `fetch` is off")
        if file.size > self._limit:
            return _make_missing(file, self._too_large)
        group = incoming.address if incoming.group else ""
        if incoming.sender is None or not await inbox.known(incoming.sender, group):
            return _make_missing(file, "it was not fetched: its sender is not known here")
        try:
            async with asyncio.timeout(FILE_TIMEOUT_S):
                kept = await self._download(file, inbox)
        except TooLarge:
            return _make_missing(file, self._too_large)
        except FileNotGiven as error:
            return _make_missing(file, str(error))
        except (Offline, NotSent, Unknown, TimeoutError) as error:
            return self._count_failure(file, error)
        self._failures.pop(file.id, None)
        return replace(kept, voice=True) if file.is_voice else kept

    def _count_failure(self, file: File, error: Exception) -> Missing:
        """Count a transient failure. Raises Offline, or returns the file as missing after the last attempt."""
        self._failures[file.id] += 1
        if self._failures[file.id] < MAX_DOWNLOAD_ATTEMPTS:
            raise error if isinstance(error, Offline) else Offline(str(error) or "a file took too long to fetch")
        del self._failures[file.id]
        return _make_missing(file, f"it could not be fetched: {str(error) or 'it took too long'}")


def _make_missing(file: PlatformFile, reason: str) -> Missing:
    return Missing(file.name, reason, file.mime)
