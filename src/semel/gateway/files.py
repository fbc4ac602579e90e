"""The content-addressed store of files that agents send and people attach.

A stored file is a *blob*. Its id is the BLAKE2b-256 hash of its content, in hex. A file that an agent sends is copied
into the store before its claim is recorded, so that exactly the claimed content is sent (Law 6). A received file is
stored through a `BlobDraft` before its message is put into the inbox. `StoredFiles` is where the content is: a folder
beside a ledger that is a file (`FolderFiles`), or the database of one that is in a database
(`semel.gateway.database_files`), or object storage (`semel.gateway.object_files`).

An agent may send only files inside its workspace. The path is opened one name at a time, starting from a descriptor of
the workspace, and no step follows a symlink. So the file that was checked is the file that is read, even if the agent
changes the tree in the meantime.

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
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from semel.gateway.image_size import HEAD_BYTES, describe_image_size
from semel.ledger.storage.atomic_files import sync_folder
from semel.text.visible import JOINERS, remove_unseen
from semel.text.wellformed import scrub
from semel.text.write_errors import advise_on_write_error

CHUNK_BYTES = 1 << 20
MAX_FILE_BYTES = 50 * 1024 * 1024  # bytes of a file that an agent sends
MAX_NAME_CHARS = 200  # characters of a name
DRAFT_PREFIX = ".draft-"
BLOB_ID = re.compile(r"[0-9a-f]{64}")
_MIME = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}")


@dataclass(frozen=True)
class Blob:
    """A stored file.

    `size`: in bytes. `name`: without directories and invisible characters. `mime`: guessed from the name.
    `image_size`: {"width", "height"} of an image, in pixels, if they are known.
    """

    id: str
    size: int
    name: str
    mime: str
    image_size: dict[str, int] = field(default_factory=dict)


class FileRefused(Exception):
    """The agent may not send this file. The message is written for the agent and says what to do."""


class StoreFailed(Exception):
    """The store cannot write or read the file; the caller is not at fault. The message says what to do."""


class StoredFiles:
    """The content of stored files, by blob id.

    `folder`: where drafts are written and copies are lent, on this machine. `rows_per_step`: how many rows of blobs one
    transaction may remove.
    """

    rows_per_step = 100

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start_draft(self) -> BlobDraft:
        """Return an empty draft. Raises StoreFailed."""
        raise NotImplementedError

    def store_draft(self, draft: BlobDraft, name: str, mime: str) -> None:
        """Store the content of a finished draft durably under its id, unless it is stored already.

        Raises StoreFailed, LedgerError.
        """
        raise NotImplementedError

    def store_bytes(self, content: bytes, name: str, mime: str) -> None:
        """Store content durably under its blob id, unless it is stored already.

        If this raises StoreFailed or LedgerError, no message may refer to the content.
        """
        raise NotImplementedError

    def open(self, id: str) -> BinaryIO:
        """Open a blob for reading, as a file with a descriptor. Raises StoreFailed if it is missing, LedgerError."""
        raise NotImplementedError

    def lend(self, id: str) -> AbstractContextManager[Path]:
        """Return a context with the path of a file that has a blob's content until the context ends.

        Raises StoreFailed, LedgerError.
        """
        raise NotImplementedError

    def list_lacking(self, after: str = "") -> list[str]:
        """Return a page of the ids above `after` of blobs that a message needs and that are not where they belong."""
        return []

    def take_in(self, id: str) -> bool:
        """Move a blob to where it belongs; it can be read all the time. Raises StoreFailed, LedgerError.

        Return False if it is nowhere, or not as its id says.
        """
        raise NotImplementedError

    def remove_objects(self, ids: Sequence[str]) -> None:
        """Remove what object storage has of these blobs, unless they are being received again.

        Their rows are removed afterwards. Raises StoreFailed, LedgerError.
        """

    def remove(self, ids: Sequence[str]) -> None:
        """Remove these blobs from the disk of this machine. Their rows are removed afterwards. Raises OSError."""
        for id in ids:
            with suppress(FileNotFoundError):
                blob_path(self.folder, id).unlink()


class FolderFiles(StoredFiles):
    """A folder that holds each blob as a file, `<folder>/<id>`."""

    def start_draft(self) -> BlobDraft:
        return BlobDraft(self.folder)

    def store_draft(self, draft: BlobDraft, name: str, mime: str) -> None:
        draft.commit()

    def store_bytes(self, content: bytes, name: str, mime: str) -> None:
        if _is_there(blob_path(self.folder, blob_id(content)), len(content)):
            return
        draft = self.start_draft()
        try:
            draft.write(content)
            draft.finish()
            draft.commit()
        finally:
            draft.discard()

    def open(self, id: str) -> BinaryIO:
        return open_blob(self.folder, id)

    @contextmanager
    def lend(self, id: str) -> Iterator[Path]:
        yield self.folder / id


def copy_from_workspace(
    workspace: Path, path: str, store: StoredFiles, limit: int, empty_file_problem: str = ""
) -> Blob:
    """Copy a file from the workspace into the store, durably. Return its blob.

    `path`: inside `workspace`, relative to it or absolute. `limit`: the maximum size in bytes. `empty_file_problem`:
    why a file of 0 bytes cannot be sent; "" if it can. If this raises FileRefused, StoreFailed or LedgerError, no
    message may refer to the file.
    """
    names = _split_path(workspace, path)
    source = _open_inside(workspace, names, path)
    try:
        _check_sendable(os.fstat(source), path, limit, empty_file_problem)
        mime = mimetypes.guess_type(names[-1])[0] or "application/octet-stream"
        return _store(source, path, store, limit, remove_unseen(scrub(names[-1]), JOINERS) or "file", mime)
    finally:
        os.close(source)


def plain_name(name: str) -> str:
    """Return a file's name as it is recorded: without directories and invisible characters, at most MAX_NAME_CHARS.

    Shortening keeps the extension, so that a long name cannot disguise it. If nothing is left, the name is "file".
    """
    bare = remove_unseen(scrub(name)).replace("\\", "/").rstrip("/").rpartition("/")[2].strip()
    if len(bare) > MAX_NAME_CHARS:
        stem, dot, end = bare.rpartition(".")
        bare = f"{stem[: MAX_NAME_CHARS - 1 - len(end)]}{dot}{end}" if dot and len(end) <= 16 else bare[:MAX_NAME_CHARS]
    return bare if bare.strip(".") else "file"


def plain_mime(mime: str) -> str:
    """Return the media type without its parameters; "application/octet-stream" if it is malformed."""
    bare = mime.partition(";")[0].strip().lower()
    return bare if _MIME.fullmatch(bare) else "application/octet-stream"


def blob_id(content: bytes) -> str:
    """Return the blob id of this content: its BLAKE2b-256 hash in hex."""
    return make_digest(content).hexdigest()


def make_digest(content: bytes = b"") -> hashlib.blake2b:
    """Return the hash whose hex digest is the blob id of `content` and what is added to it."""
    return hashlib.blake2b(content, digest_size=32)


def open_blob(store: Path, id: str) -> BinaryIO:
    """Open a blob in a folder for reading. Raises StoreFailed if it is missing."""
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
    raise StoreFailed(f"the stored file {path} cannot be read: it is not a regular file")


def blob_path(store: Path, id: str) -> Path:
    """Return the path of a blob. Raises ValueError if `id` is malformed."""
    if not BLOB_ID.fullmatch(id):
        raise ValueError(f"not the id of a stored file: {id!r}")
    return store / id


def clear_drafts(store: Path) -> int:
    """Remove the unfinished copies that a killed gateway left behind. Return their number.

    Call it only at the start, while no copy runs.
    """
    drafts = list(store.glob(f"{DRAFT_PREFIX}*"))
    for draft in drafts:
        draft.unlink(missing_ok=True)
    return len(drafts)


# ---------------------------------------------------------------- reading


def _split_path(workspace: Path, path: str) -> list[str]:
    """Split a path into the names to open one by one, starting at the workspace.

    Raises FileRefused if it leads outside.
    """
    outside = FileRefused(f"{path!r} is outside the workspace {workspace}; copy the file into it first.")
    if not path or "\0" in path:
        raise FileRefused("The path is empty or holds a NUL character.")
    inside = path
    if path.startswith("/"):
        for root in {os.fspath(workspace), os.path.realpath(workspace)}:
            if path.startswith(root.rstrip("/") + "/"):
                inside = path[len(root.rstrip("/")) :]
                break
        else:
            raise outside
    names = [name for name in inside.split("/") if name not in ("", ".")]
    if ".." in names:
        raise FileRefused(f"{path!r} contains '..'; give the path without it.")
    if not names:
        raise FileRefused(f"{path!r} is a directory; send_file sends one file.")
    return names


def _open_inside(workspace: Path, names: list[str], path: str) -> int:
    """Open a file, one name of its path at a time, with O_NOFOLLOW. Return its descriptor. Raises FileRefused.

    So no change to the tree can turn it into a file outside the workspace (no TOCTOU race).
    """
    try:
        directory = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise FileRefused(f"The workspace {workspace} cannot be opened: {error.strerror}.") from error
    try:
        for name in names[:-1]:
            subdirectory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            os.close(directory)
            directory = subdirectory
        # O_NONBLOCK: opening a pipe without a writer must not hang; it is refused below.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return os.open(names[-1], flags, dir_fd=directory)
    except UnicodeEncodeError as error:
        raise FileRefused("The path is not valid text.") from error
    except OSError as error:
        raise FileRefused(_explain_open_error(error, path, names, directory)) from error
    finally:
        os.close(directory)


def _explain_open_error(error: OSError, path: str, names: list[str], directory: int) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK) and _is_link(error.filename, directory):
        return f"{path!r} goes through a symbolic link, {error.filename!r}; give the real path of the file."
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"There is no file {path!r} in the workspace; write it first, or check the path."
    return f"{path!r} cannot be read: {error.strerror}."


def _is_link(name: str, directory: int) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    return False


def _check_sendable(status: os.stat_result, path: str, limit: int, empty_file_problem: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise FileRefused(f"{path!r} is a directory; send_file sends one file (an archive, for instance).")
    if not stat.S_ISREG(status.st_mode):
        raise FileRefused(f"{path!r} is not a regular file.")
    if status.st_size > limit:
        raise FileRefused(_too_large(path, limit))
    if status.st_size == 0 and empty_file_problem:
        raise FileRefused(f"{path!r} was not sent: {empty_file_problem}; write the file first, or say it in a message.")


def _too_large(path: str, limit: int) -> str:
    return f"{path!r} is larger than {limit} bytes, the most that can be sent; send a smaller file."


# ---------------------------------------------------------------- keeping


def _store(source: int, path: str, store: StoredFiles, limit: int, name: str, mime: str) -> Blob:
    """Copy the open file `source` into a draft, and publish the draft."""
    draft = store.start_draft()
    try:
        while True:
            try:
                data = os.read(source, CHUNK_BYTES)
            except OSError as error:
                raise FileRefused(f"{path!r} cannot be read: {error.strerror}.") from error
            if not data:
                break
            if draft.size + len(data) > limit:  # checked again while reading: the file may have grown
                raise FileRefused(_too_large(path, limit))
            draft.write(data)
        blob = Blob(draft.finish(), draft.size, name, mime, describe_image_size(draft.head))
        store.store_draft(draft, name, mime)
    finally:
        draft.discard()
    return blob


class BlobDraft:
    """A temporary file in the store's folder.

    Call `write`, `finish` and `publish` in this order, and `discard` in a `finally`. `write`, `finish` and `publish`
    raise StoreFailed. If the gateway is killed before `publish`, the next start removes the draft (`clear_drafts`).
    `synced`: `finish` syncs the content to the disk; otherwise the draft is only to be read. `head`: the beginning of
    what was written, as much as tells the size of an image.
    """

    def __init__(self, store: Path, *, synced: bool = True) -> None:
        self.size = 0
        self.head = b""
        self._store = store
        self._synced = synced
        self._digest = make_digest()
        with store_errors(store):
            store.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path = store / f"{DRAFT_PREFIX}{secrets.token_hex(8)}"
            self._sink = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        """Append these bytes to the draft."""
        with store_errors(self._store):
            unwritten = memoryview(data)
            while unwritten:
                unwritten = unwritten[os.write(self._sink, unwritten) :]
        self._digest.update(data)
        self.head += bytes(data[: HEAD_BYTES - len(self.head)])
        self.size += len(data)

    def finish(self) -> str:
        """Sync the content to disk. Return its blob id."""
        if self._synced:
            with store_errors(self._store):
                os.fsync(self._sink)
        return self.id

    @property
    def id(self) -> str:
        """The blob id of what was written so far."""
        return self._digest.hexdigest()

    @property
    def path(self) -> Path:
        return self._path

    def commit(self) -> None:
        """Rename the draft to its blob id, durably, unless that blob exists already.

        An existing blob of another size is damaged, and is replaced.
        """
        final = self._store / self.id
        with store_errors(self._store):
            if not _is_there(final, self.size):
                self._path.rename(final)
            sync_folder(self._store)

    def discard(self) -> None:
        """Close the draft and remove its temporary file. Safe after `commit`: the blob is kept."""
        if self._sink >= 0:
            os.close(self._sink)
            self._sink = -1
        self._path.unlink(missing_ok=True)


def _is_there(final: Path, size: int) -> bool:
    try:
        return final.lstat().st_size == size
    except FileNotFoundError:
        return False


@contextmanager
def store_errors(store: Path) -> Iterator[None]:
    """Raise StoreFailed in place of an OSError."""
    try:
        yield
    except OSError as error:
        advice = advise_on_write_error(error)
        raise StoreFailed(
            f"{store} cannot be written: {error.strerror}; the file was not taken.{advice and f' {advice}'}"
        ) from error
