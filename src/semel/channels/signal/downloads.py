"""Store the files of messages, which signal-cli has downloaded into its directory (`attachments/ID`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from semel.channels.downloads import FileFetcher, FileNotGiven
from semel.channels.signal.parse import SignalFile
from semel.gateway.ports import Inbox, Kept

PIECE_BYTES = 1_000_000


class SignalFetcher(FileFetcher[SignalFile]):
    """Copies files from signal-cli's directory. A file that is not there will not come any more."""

    def __init__(self, folder: Path, is_enabled: bool, limit: int) -> None:
        """`folder`: signal-cli's directory of files. `limit`: the largest file, in bytes."""
        super().__init__(is_enabled, limit)
        self._folder = folder

    async def _download(self, file: SignalFile, inbox: Inbox) -> Kept:
        if not file.id or Path(file.id).name != file.id or file.id in (".", ".."):
            raise FileNotGiven("signal-cli could not fetch it")
        path = self._folder / file.id
        if not await asyncio.to_thread(path.is_file):
            raise FileNotGiven("signal-cli could not fetch it")
        return await self._keep(file, _read_file(path), inbox, 0)


async def _read_file(path: Path) -> AsyncGenerator[bytes, None]:
    """Read a file in pieces. Raises FileNotGiven."""
    try:
        with path.open("rb") as content:
            while piece := await asyncio.to_thread(content.read, PIECE_BYTES):
                yield piece
    except OSError as error:
        raise FileNotGiven(f"it cannot be read: {error.strerror}") from None
