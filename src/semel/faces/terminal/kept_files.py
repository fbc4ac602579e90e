"""What the terminal keeps on this machine until it runs again: unsent messages, drafts, and where a person was reading.

A message has a file of its own, so that terminals which run side by side never write the same file. Without a place to
write, the terminal works; then only a crash of it loses what waits.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import msgspec
from msgspec import Struct

from semel.faces.terminal.attachments import Attachment
from semel.faces.terminal.outgoing import OutgoingMessage
from semel.tools import trusted_files
from semel.tools.address import running_dir

BOOKMARK = "bookmark"
PREFIX = "session-"  # in front of a session's key: no file is called ".."


class Bookmark(Struct, omit_defaults=True):
    """Where a person was in a session: the text in the prompt and, if they were reading older text, the id of the first
    row in sight (`row_key`) and how many of its lines were above the screen, counted from its end if negative (see
    `ConversationView.place`). `files`: those that go with the text.
    """

    draft: str = ""
    row: str | None = None
    lines: int = 0
    files: list[Attachment] = []


class KeptFiles:
    """The files of one session with the gateway of `data_dir`."""

    def __init__(self, data_dir: Path, session: str):
        self.directory = _root(data_dir) / f"{PREFIX}{session}"

    def load_messages(self) -> list[OutgoingMessage]:
        """Return the kept messages, oldest first, as waiting. A file that cannot be read stays and is left out."""
        messages = []
        for path in self._list_messages():
            with contextlib.suppress(OSError, msgspec.DecodeError):
                messages.append(msgspec.json.decode(trusted_files.read_file(path), type=OutgoingMessage))
        return [msgspec.structs.replace(message, state="waiting", reason="", adopted=None) for message in messages]

    def keep_message(self, message: OutgoingMessage) -> None:
        self._write(self._name_file(message), msgspec.json.encode(message))

    def drop_message(self, message: OutgoingMessage) -> None:
        self._delete(self._name_file(message))

    def load_bookmark(self) -> Bookmark:
        """Return where the person was when the terminal ended; an empty one if nothing is kept."""
        try:
            return msgspec.json.decode(trusted_files.read_file(self.directory / BOOKMARK), type=Bookmark)
        except (OSError, msgspec.DecodeError):
            return Bookmark()

    def keep_bookmark(self, bookmark: Bookmark) -> None:
        if bookmark == Bookmark():
            self._delete(BOOKMARK)
        else:
            self._write(BOOKMARK, msgspec.json.encode(bookmark))

    def _delete(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self.directory / name).unlink(missing_ok=True)
            self.directory.rmdir()  # fails while other files are in it

    def _list_messages(self) -> list[Path]:
        try:
            return sorted(path for path in self.directory.iterdir() if path.suffix == ".message")
        except OSError:
            return []

    def _name_file(self, message: OutgoingMessage) -> str:
        return f"{message.at:020d}-{message.id}.message"

    def _write(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all."""
        with contextlib.suppress(OSError):
            for directory in (self.directory.parent.parent, self.directory.parent, self.directory):
                trusted_files.make_directory(directory)
            draft = self.directory / f".{name}"
            draft.write_bytes(content)
            draft.replace(self.directory / name)


def list_unsent(data_dir: Path) -> list[str]:
    """Return the keys of the sessions for which messages are kept."""
    try:
        directories = sorted(_root(data_dir).iterdir())
    except OSError:
        return []
    return [path.name.removeprefix(PREFIX) for path in directories if any(path.glob("*.message"))]


def _root(data_dir: Path) -> Path:
    digest = hashlib.blake2b(os.fsencode(data_dir.absolute()), digest_size=8).hexdigest()
    return running_dir().parent / "terminal" / digest
