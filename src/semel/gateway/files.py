"""A promised file is copied into the store before anything is said: what was promised is what leaves (Law 6).

And a received one before its message is heard (`Draft`). A blob's id is BLAKE2b-256 of its content, in hex, and its
file is `<store>/<id>`.

Promised are only files inside the agent's workspace. The path is walked one name at a time from a descriptor of the
workspace, and no step follows a symlink: what was checked is what is opened, whatever the agent does to the tree
meanwhile.

Everything here blocks: call it in a thread.
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
FILE_LIMIT = 50 * 1024 * 1024  # bytes of a file that an agent sends
NAME = 200  # characters of a name
DRAFT = ".draft-"
ID = re.compile(r"[0-9a-f]{64}")
_MIME = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}")


@dataclass(frozen=True)
class Blob:
    """A stored file. `size` in bytes; `name` is the file's own, without its directory and what cannot be seen;
    `mime` is told by the name."""

    id: str
    size: int
    name: str
    mime: str


class FileRefused(Exception):
    """The agent may not send this file. The message is for the agent, and says what to do."""


class StoreFailed(Exception):
    """The store cannot take or give the file: our fault. The message says what to do."""


class Copies:
    """Files that are copied into the store: from the first byte until the ledger holds them. `kept` were received, and
    wait for their message."""

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

    When this returns, the content is on the disk for good. Raises FileRefused or StoreFailed; then nothing is
    left behind. `limit` in bytes.
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
    """A file's name as it is recorded: without a directory, without what cannot be seen or hides how a name ends."""
    bare = seen(scrub(name)).replace("\\", "/").rstrip("/").rpartition("/")[2].strip()
    if len(bare) > NAME:
        stem, dot, end = bare.rpartition(".")
        bare = f"{stem[: NAME - 1 - len(end)]}{dot}{end}" if dot and len(end) <= 16 else bare[:NAME]
    return bare if bare.strip(".") else "file"


def plain_mime(mime: str) -> str:
    """A media type, without parameters; what is none is that of anything."""
    bare = mime.partition(";")[0].strip().lower()
    return bare if _MIME.fullmatch(bare) else "application/octet-stream"


def keep_bytes(store: Path, content: bytes) -> None:
    """Content that is in memory is in the store for good. Raises StoreFailed; then nothing is left behind."""
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
    """The id of a blob."""
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def open_blob(store: Path, id: str) -> BinaryIO:
    """The content of a blob, for reading. Raises StoreFailed if it is not there."""
    return open_stored(blob_path(store, id))


def open_stored(path: Path) -> BinaryIO:
    """The content of a stored file. Raises StoreFailed where there is none, or a link or a device in its place."""
    try:
        opened = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError as error:  # IsADirectoryError among them
        raise StoreFailed(f"the stored file {path} cannot be read: {error.strerror}") from error
    if stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        return opened
    opened.close()
    raise StoreFailed(f"the stored file {path} cannot be read: it is no regular file")


def blob_path(store: Path, id: str) -> Path:
    """Where a blob lies. Raises ValueError for what is not an id."""
    if not ID.fullmatch(id):
        raise ValueError(f"not the id of a stored file: {id!r}")
    return store / id


def clear_drafts(store: Path) -> int:
    """Remove what a killed gateway left half copied; returns how many. At start only: no copy may be
    running."""
    drafts = list(store.glob(f"{DRAFT}*"))
    for draft in drafts:
        draft.unlink(missing_ok=True)
    return len(drafts)


# ---------------------------------------------------------------- reading


def _names(workspace: Path, wanted: str) -> list[str]:
    """The names to walk from the workspace to the file. No file is looked at yet."""
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
    """A descriptor of the file, opened name by name with O_NOFOLLOW: there is no gap between check and
    use."""
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
    """Stream into a draft, then give it its name. Every step is on the disk before the next is relied on."""
    draft = Draft(store)
    try:
        while True:
            try:
                data = os.read(source, CHUNK)
            except OSError as error:
                raise FileRefused(f"{wanted!r} cannot be read: {error.strerror}.") from error
            if not data:
                break
            if draft.size + len(data) > limit:  # it holds for what is read: a file may still grow
                raise FileRefused(_too_large(wanted, limit))
            draft.write(data)
        id = draft.finish()
        draft.name()
    finally:
        draft.discard()
    return id, draft.size


class Draft:
    """A file on its way into the store: `write`, `finish`, `name`, and at last `discard`, whatever happened.

    Each raises StoreFailed. What is killed before `name` leaves a draft, which the next start removes.
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
        """The next piece of it."""
        with _store_errors(self._store):
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._sink, rest) :]
        self._digest.update(data)
        self.size += len(data)

    def finish(self) -> str:
        """All of it is on the disk; its id."""
        with _store_errors(self._store):
            os.fsync(self._sink)
        return self._digest.hexdigest()

    def name(self) -> None:
        """It is in the store for good. Equal content shares one blob; one of another size was damaged, and is
        replaced."""
        final = self._store / self._digest.hexdigest()
        with _store_errors(self._store):
            if not _is_there(final, self.size):
                self._path.rename(final)
            _sync_dir(self._store)

    def discard(self) -> None:
        """Nothing of it is left, unless it has its name."""
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
