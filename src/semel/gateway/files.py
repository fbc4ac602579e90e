"""The content-addressed store of files that agents send and people attach.

A file that an agent sends is copied into the store before its claim is recorded, so that the file which leaves is the
file which was claimed (Law 6). A received file is stored through a `Draft` before its message is put into the inbox. A
blob's id is the BLAKE2b-256 of its content, in hex; its file is `<store>/<id>`.

An agent may send only files inside its workspace. The path is opened one name at a time, starting from a descriptor of
the workspace, and no step follows a symlink. The file that was checked is therefore the file that is read, even if the
agent changes the tree meanwhile.

All functions block; call them in a thread.
"""

from __future__ import annotations

import errno
import hashlib
import mimetypes
import os
import re
import secrets
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from semel.text.invisible import JOINERS, seen
from semel.text.wellformed import scrub

CHUNK = 1 << 20
MAX_FILE_BYTES = 50 * 1024 * 1024  # bytes of a file that an agent sends
MAX_NAME_CHARS = 200  # characters of a name
DRAFT = ".draft-"
ID = re.compile(r"[0-9a-f]{64}")
_MIME = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}")


@dataclass(frozen=True)
class Blob:
    """A stored file. `size` is in bytes; `name` has no directory and no invisible characters; `mime` is guessed
    from the name."""

    id: str
    size: int
    name: str
    mime: str


class FileRefused(Exception):
    """The agent may not send this file. The message is written for the agent and says what to do."""


class StoreFailed(Exception):
    """The store cannot write or read the file; the caller did nothing wrong. The message says what to do."""


class Copies:
    """Counts the copies into the store that the ledger does not hold yet, so that no file is removed under a copy.

    Enter it around a copy and the transaction that records it. `begun` counts all copies since the start, `open` those
    not yet recorded. `kept` counts, by blob id, stored files that still wait for the message or entry they belong to.
    """

    def __init__(self) -> None:
        self.begun = 0
        self.open = 0
        self.kept: Counter[str] = Counter()

    def __enter__(self) -> None:
        self.begun += 1
        self.open += 1

    def __exit__(self, *_: object) -> None:
        self.open -= 1


def copy_promised(workspace: Path, wanted: str, store: Path, limit: int) -> Blob:
    """Copy the file `wanted`, a path inside `workspace` (relative to it, or absolute), into `store`.

    When this returns, the content is durable (fsync). `limit` is in bytes. Raises FileRefused or StoreFailed; then
    nothing is left in the store.
    """
    names = _names(workspace, wanted)
    source = _open_inside(workspace, names, wanted)
    try:
        _check(os.fstat(source), wanted, limit)
        id, size = _keep(source, wanted, store, limit)
    finally:
        os.close(source)
    mime = mimetypes.guess_type(names[-1])[0] or "application/octet-stream"
    return Blob(id, size, seen(scrub(names[-1]), JOINERS) or "file", mime)


def plain_name(name: str) -> str:
    """A file's name as it is recorded: no directory, no invisible characters, none that disguise its extension."""
    bare = seen(scrub(name)).replace("\\", "/").rstrip("/").rpartition("/")[2].strip()
    if len(bare) > MAX_NAME_CHARS:
        stem, dot, end = bare.rpartition(".")
        bare = f"{stem[: MAX_NAME_CHARS - 1 - len(end)]}{dot}{end}" if dot and len(end) <= 16 else bare[:MAX_NAME_CHARS]
    return bare if bare.strip(".") else "file"


def plain_mime(mime: str) -> str:
    """The media type without its parameters; "application/octet-stream" if it is malformed."""
    bare = mime.partition(";")[0].strip().lower()
    return bare if _MIME.fullmatch(bare) else "application/octet-stream"


def keep_bytes(store: Path, content: bytes) -> None:
    """Store content durably under its digest. Raises StoreFailed; then nothing is left behind."""
    if _is_there(blob_path(store, digest(content)), len(content)):
        return
    draft = Draft(store)
    try:
        draft.write(content)
        draft.finish()
        draft.name()
    finally:
        draft.discard()


def digest(content: bytes) -> str:
    """The blob id of this content: its BLAKE2b-256 in hex."""
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def open_blob(store: Path, id: str) -> BinaryIO:
    """Open a blob for reading. Raises StoreFailed if it is missing."""
    return open_stored(blob_path(store, id))


def open_stored(path: Path) -> BinaryIO:
    """Open a stored file for reading. Raises StoreFailed if it is missing or not a regular file (a link, a device)."""
    try:
        opened = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError as error:  # IsADirectoryError among them
        raise StoreFailed(f"the stored file {path} cannot be read: {error.strerror}") from error
    if stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        return opened
    opened.close()
    raise StoreFailed(f"the stored file {path} cannot be read: it is no regular file")


def blob_path(store: Path, id: str) -> Path:
    """The path of a blob. Raises ValueError if `id` is not a blob id."""
    if not ID.fullmatch(id):
        raise ValueError(f"not the id of a stored file: {id!r}")
    return store / id


def clear_drafts(store: Path) -> int:
    """Remove the unfinished copies of a killed gateway and return their number.

    Call it at the start only, while no copy runs.
    """
    drafts = list(store.glob(f"{DRAFT}*"))
    for draft in drafts:
        draft.unlink(missing_ok=True)
    return len(drafts)


# ---------------------------------------------------------------- reading


def _names(workspace: Path, wanted: str) -> list[str]:
    """Split `wanted` into the names to open, one by one, from the workspace. Does not touch the file system's files."""
    outside = FileRefused(f"{wanted!r} is outside the workspace {workspace}; copy the file into it first.")
    if not wanted or "\0" in wanted:
        raise FileRefused("The path is empty or holds a NUL character.")
    rest = wanted
    if wanted.startswith("/"):
        for root in {os.fspath(workspace), os.path.realpath(workspace)}:
            if wanted.startswith(root.rstrip("/") + "/"):
                rest = wanted[len(root.rstrip("/")) :]
                break
        else:
            raise outside
    names = [name for name in rest.split("/") if name not in ("", ".")]
    if ".." in names:
        raise FileRefused(f"{wanted!r} contains '..'; give the path without it.")
    if not names:
        raise FileRefused(f"{wanted!r} is a directory; send_file sends one file.")
    return names


def _open_inside(workspace: Path, names: list[str], wanted: str) -> int:
    """Open the file name by name with O_NOFOLLOW, so that nothing can change between check and use (TOCTOU)."""
    try:
        here = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise FileRefused(f"The workspace {workspace} cannot be opened: {error.strerror}.") from error
    try:
        for name in names[:-1]:
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
        # O_NONBLOCK: opening a pipe without a writer must not hang; it is refused below.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return os.open(names[-1], flags, dir_fd=here)
    except UnicodeEncodeError as error:
        raise FileRefused("The path is not valid text.") from error
    except OSError as error:
        raise FileRefused(_why(error, wanted, names, here)) from error
    finally:
        os.close(here)


def _why(error: OSError, wanted: str, names: list[str], here: int) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK) and _is_link(error.filename, here):
        return f"{wanted!r} goes through a symbolic link, {error.filename!r}; give the real path of the file."
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"There is no file {wanted!r} in the workspace; write it first, or check the path."
    return f"{wanted!r} cannot be read: {error.strerror}."


def _is_link(name: str, here: int) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode)
    return False


def _check(found: os.stat_result, wanted: str, limit: int) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise FileRefused(f"{wanted!r} is a directory; send_file sends one file (an archive, for instance).")
    if not stat.S_ISREG(found.st_mode):
        raise FileRefused(f"{wanted!r} is not a regular file.")
    if found.st_size > limit:
        raise FileRefused(_too_large(wanted, limit))


def _too_large(wanted: str, limit: int) -> str:
    return f"{wanted!r} is larger than {limit} bytes, the most that can be sent; send a smaller file."


# ---------------------------------------------------------------- keeping


def _keep(source: int, wanted: str, store: Path, limit: int) -> tuple[str, int]:
    """Copy the open file into a draft, sync it, then rename it to its blob id. Returns (id, size)."""
    draft = Draft(store)
    try:
        while True:
            try:
                data = os.read(source, CHUNK)
            except OSError as error:
                raise FileRefused(f"{wanted!r} cannot be read: {error.strerror}.") from error
            if not data:
                break
            if draft.size + len(data) > limit:  # checked again while reading: the file may have grown
                raise FileRefused(_too_large(wanted, limit))
            draft.write(data)
        id = draft.finish()
        draft.name()
    finally:
        draft.discard()
    return id, draft.size


class Draft:
    """A temporary file in the store. Call `write`, `finish`, `name` in this order, and `discard` in a `finally`.

    `write`, `finish` and `name` raise StoreFailed. A gateway killed before `name` leaves a draft, which the next start
    removes (`clear_drafts`).
    """

    def __init__(self, store: Path) -> None:
        self.size = 0
        self._store = store
        self._digest = hashlib.blake2b(digest_size=32)
        with _store_errors(store):
            store.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path = store / f"{DRAFT}{secrets.token_hex(8)}"
            self._sink = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def __repr__(self) -> str:
        return f"<Draft of {self.size} bytes>"

    def write(self, data: bytes) -> None:
        """Append these bytes."""
        with _store_errors(self._store):
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._sink, rest) :]
        self._digest.update(data)
        self.size += len(data)

    def finish(self) -> str:
        """Sync the content to disk and return its blob id."""
        with _store_errors(self._store):
            os.fsync(self._sink)
        return self._digest.hexdigest()

    def name(self) -> None:
        """Rename the draft to its blob id, durably.

        Equal content shares one blob. A stored blob of a different size is damaged, and is replaced.
        """
        final = self._store / self._digest.hexdigest()
        with _store_errors(self._store):
            if not _is_there(final, self.size):
                self._path.rename(final)
            _sync_dir(self._store)

    def discard(self) -> None:
        """Close and remove the draft; after `name` only the blob remains."""
        if self._sink >= 0:
            os.close(self._sink)
            self._sink = -1
        self._path.unlink(missing_ok=True)


def _is_there(final: Path, size: int) -> bool:
    try:
        return final.lstat().st_size == size
    except FileNotFoundError:
        return False


def _sync_dir(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _store_errors(store: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            said = f"the disk of {store} is full; free some space, the file was not taken"
        else:
            said = f"{store} cannot be written: {error.strerror}; the file was not taken"
        raise StoreFailed(said) from error
