"""Copy received files into an agent's workspace, so that its own tools can read them.

`<workspace>/.semel/received/<beginning of the blob's id>-<name>`: the same place however often a turn is tried. No step
follows a symlink, whatever the agent did to its workspace. The directory has a .gitignore of its own.
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
from semel.ledger.turns.turns import Bound

log = structlog.get_logger("semel.received")

Json = dict[str, Any]

FOLDER = (".semel", "received")
MAX_IMAGE_BYTES = 5_000_000  # bytes of an image that is shown to an agent
MAX_PROMPT_IMAGE_BYTES = 10_000_000  # and of all that one prompt shows
_ODD = re.compile(r"[^\w.+@ -]|^[.\s-]+|\s+$")
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"),
)  # fmt: skip


@dataclass(frozen=True)
class Given:
    """What a prompt can say of the files of its messages, by blob id.

    paths: where each lies. failed: why one could not be put there. images: (media type, base64) of those shown.
    """

    paths: Mapping[str, Path] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def place(file: Mapping[str, Any]) -> str:
    """Where a received file lies, relative to the workspace."""
    return "/".join((*FOLDER, _name(file)))


def of(events: Sequence[Bound]) -> list[Json]:
    """The received files that came with these, each once, but those that are missing."""
    found = {str(file["id"]): file for e in events for file in e.more.get("files") or () if file.get("id")}
    return list(found.values())


async def give(store: Path | None, workspace: Path, events: Sequence[Bound], *, images: bool) -> Given:
    """Copy the files of these events into the workspace. Never raises: the prompt reports a failed copy."""
    wanted = of(events)
    if store is None or not wanted:
        return Given()
    return await asyncio.to_thread(_give, store, workspace, wanted, images)


def _give(store: Path, workspace: Path, wanted: Sequence[Json], images: bool) -> Given:
    paths: dict[str, Path] = {}
    failed: dict[str, str] = {}
    shown: dict[str, tuple[str, str]] = {}
    room = MAX_PROMPT_IMAGE_BYTES if images else 0
    for file in wanted:
        id = str(file["id"])
        try:
            copy(store, workspace, file)
        except (files.StoreFailed, OSError, ValueError) as fault:
            why = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)
            log.warning("a received file is not given to the agent", file=id, why=why)
            failed[id] = "it could not be put into your workspace; its copy here is safe"
            continue
        paths[id] = workspace.absolute() / place(file)
        size = int(file.get("size") or 0)
        if 0 < size < MAX_IMAGE_BYTES and size <= room and (found := _image(store, id)) is not None:
            shown[id] = found
            room -= size
    return Given(paths, failed, shown)


def copy(store: Path, workspace: Path, file: Mapping[str, Any]) -> None:
    """One file, unless it is there. Raises StoreFailed, OSError, ValueError."""
    name = _name(file)
    with files.open_blob(store, str(file["id"])) as source:
        folder = _folder(workspace)
        try:
            size = os.fstat(source.fileno()).st_size
            with suppress(FileNotFoundError):
                there = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(there.st_mode) and there.st_size == size:
                    return
            _write(source.fileno(), folder, name)
        finally:
            os.close(folder)


def _folder(workspace: Path) -> int:
    """A descriptor of the folder, made where it is not; no step goes through a symlink."""
    here = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for depth, name in enumerate(FOLDER):
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=here)
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
            if depth == 0:
                _ignore(here)
    except BaseException:
        os.close(here)
        raise
    return here


def _ignore(folder: int) -> None:
    """Nothing in it is the agent's work."""
    with suppress(FileExistsError):
        fd = os.open(".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder)
        with os.fdopen(fd, "wb") as ignore:
            ignore.write(b"*\n")


def _write(source: int, folder: int, name: str) -> None:
    """Whole or not at all."""
    draft = f"{files.DRAFT}{secrets.token_hex(8)}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as sink:
            while data := os.read(source, files.CHUNK):
                sink.write(data)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
        raise


def _name(file: Mapping[str, Any]) -> str:
    """A plain name that tells equal names apart, and keeps its ending."""
    bare = _ODD.sub("_", str(file.get("name") or "file"))
    while len(bare.encode("utf-8", "replace")) > 150:
        stem, dot, end = bare.rpartition(".")
        bare = f"{stem[:-10]}.{end}" if dot and len(end) <= 16 and len(stem) > 10 else bare[:-10]
    return f"{str(file['id'])[:8]}-{bare}"


def _image(store: Path, id: str) -> tuple[str, str] | None:
    """What it is by its first bytes, whatever it is called; None: no image that agents can be shown."""
    with files.open_blob(store, id) as source:
        data = source.read(MAX_IMAGE_BYTES)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        mime = "image/webp"
    else:
        mime = next((mime for magic, mime in _MAGIC if data.startswith(magic)), "")
    return (mime, base64.b64encode(data).decode("ascii")) if mime else None
