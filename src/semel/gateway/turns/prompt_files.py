"""Copy received files into an agent's workspace, so that its own tools can read them.

The path is `<workspace>/.semel/received/<beginning of the blob's id>-<name>`, the same in every attempt of a turn. No
step follows a symlink, whatever the agent has done to its workspace. The directory .semel has its own .gitignore.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from semel.gateway import files
from semel.gateway.files import StoredFiles
from semel.ledger.storage.errors import LedgerError
from semel.ledger.turns.turn_events import TurnEvent
from semel.text.json_types import Json
from semel.text.media_types import detect_image

log = structlog.get_logger("semel.received")


FOLDER = (".semel", "received")
MAX_IMAGE_BYTES = 5_000_000  # bytes of an image that is shown to an agent
MAX_PROMPT_IMAGE_BYTES = 10_000_000  # bytes of all images in one prompt
_UNSAFE_CHARS = re.compile(r"[^\w.+@ -]|^[.\s-]+|\s+$")


@dataclass(frozen=True)
class WorkspaceFiles:
    """The received files of a prompt, by blob id.

    `paths`: the path of each copy. `failed`: for each file that could not be copied, the reason. `images`: (media type,
    base64) of each image that the prompt contains. `blocks`: by event, the blocks of a prompt that came as such.
    """

    paths: Mapping[str, Path] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    blocks: Mapping[int, Sequence[Json]] = field(default_factory=dict)


def workspace_path(file: Mapping[str, Any]) -> str:
    """Return the path of a received file, relative to the workspace."""
    return "/".join((*FOLDER, _file_name(file)))


def received_files(events: Sequence[TurnEvent]) -> list[Json]:
    """Return the received files of these events, each name of each once. Files that could not be stored are left out.

    So are those of events that came as content blocks (`prompt_blocks`).
    """
    attached = (file for e in events if not e.blocks for file in e.entry_fields.get("files") or ())
    files = {(str(file["id"]), str(file.get("name"))): file for file in attached if file.get("id")}
    return list(files.values())


async def copy_received_files(
    store: StoredFiles | None, workspace: Path, events: Sequence[TurnEvent], *, images: bool
) -> WorkspaceFiles:
    """Copy the files of these events into the workspace. Never raises: the prompt reports each failed copy.

    `images`: the agent accepts images in prompts.
    """
    received = received_files(events)
    if store is None or not received:
        return WorkspaceFiles()
    return await asyncio.to_thread(_copy_files, store, workspace, received, images)


def _copy_files(store: StoredFiles, workspace: Path, received: Sequence[Json], images: bool) -> WorkspaceFiles:
    paths: dict[str, Path] = {}
    failed: dict[str, str] = {}
    shown: dict[str, tuple[str, str]] = {}
    room = MAX_PROMPT_IMAGE_BYTES if images else 0
    for file in received:
        id = str(file["id"])
        try:
            copy_file(store, workspace, file)
        except (files.StoreFailed, LedgerError, OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            log.warning("a received file is not given to the agent", file=id, why=reason)
            failed[id] = "it could not be put into your workspace; its copy here is safe"
            continue
        paths[id] = workspace.absolute() / workspace_path(file)
        size = int(file.get("size") or 0)
        if 0 < size < MAX_IMAGE_BYTES and size <= room and (image := _read_image(store, id)) is not None:
            shown[id] = image
            room -= size
    return WorkspaceFiles(paths, failed, shown)


def copy_file(store: StoredFiles, workspace: Path, file: Mapping[str, Any]) -> None:
    """Copy one file into the workspace, unless it is already there. Raises StoreFailed, OSError, ValueError."""
    name = _file_name(file)
    with store.open(str(file["id"])) as source:
        folder = _open_folder(workspace)
        try:
            size = os.fstat(source.fileno()).st_size
            with suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_size == size:
                    return
            _write_file(source.fileno(), folder, name)
        finally:
            os.close(folder)


def _open_folder(workspace: Path) -> int:
    """Create the folder for received files if it is missing, and open it. Return its descriptor.

    No step follows a symbolic link.
    """
    directory = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for depth, name in enumerate(FOLDER):
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=directory)
            subdirectory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            os.close(directory)
            directory = subdirectory
            if depth == 0:
                _add_gitignore(directory)
    except BaseException:
        os.close(directory)
        raise
    return directory


def _add_gitignore(folder: int) -> None:
    """Write a `.gitignore` into the folder, so that git ignores the received files. `folder`: its descriptor."""
    with suppress(FileExistsError):
        fd = os.open(".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder)
        with os.fdopen(fd, "wb") as ignore:
            ignore.write(b"*\n")


def _write_file(source: int, folder: int, name: str) -> None:
    """Copy the open file `source` to `name` in the open directory `folder`, completely or not at all.

    The content is first written to a draft, which is renamed once it is complete.
    """
    draft = f"{files.DRAFT_PREFIX}{secrets.token_hex(8)}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as sink:
            while data := os.read(source, files.CHUNK_BYTES):
                sink.write(data)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
        raise


def _file_name(file: Mapping[str, Any]) -> str:
    """Return a safe file name with the file's extension.

    It begins with the blob id, so that files of equal name get different ones.
    """
    bare = _UNSAFE_CHARS.sub("_", str(file.get("name") or "file"))
    while len(bare.encode("utf-8", "replace")) > 150:
        stem, dot, end = bare.rpartition(".")
        bare = f"{stem[:-10]}.{end}" if dot and len(end) <= 16 and len(stem) > 10 else bare[:-10]
    return f"{str(file['id'])[:8]}-{bare}"


def _read_image(store: StoredFiles, id: str) -> tuple[str, str] | None:
    """Return (media type, base64) of an image, recognised by its first bytes; None if its type is not recognised."""
    with store.open(id) as source:
        data = source.read(MAX_IMAGE_BYTES)
    mime = detect_image(data)
    return (mime, base64.b64encode(data).decode("ascii")) if mime is not None else None
