"""Files of this machine that go with the next message: `/attach PATH`.

A file is uploaded when its message is sent, so it has to be there until then. The limits are those of docs/api.md,
"POST /v1/files"; the gateway has the last word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from semel.faces.config.paths import expand_path
from semel.faces.config.problems import ConfigError
from semel.faces.transcript import format_size
from semel.text.visible import visible

MAX_FILES = 20
MAX_FILE_BYTES = 50 << 20
MAX_ALL_BYTES = 100 << 20  # of the files of a message
MAX_LISTED = 50
ATTACH = "/attach"
_ATTACH_LINE = re.compile(rf"{ATTACH}(?:[ \t]+(.*))?")


class CannotAttach(Exception):
    """The file cannot go with the message. The text says why."""


class Attachment(Struct):
    """A file that goes with a message. `path`: absolute. `size`: in bytes, when it was attached. `id`: that of its
    upload, once there is one: every attempt to send the message names the same.
    """

    path: str
    size: int
    id: str | None = None

    @property
    def name(self) -> str:
        return Path(self.path).name

    @property
    def wire_name(self) -> str:
        """The name that people and the agent read; one on a disk may be no UTF-8."""
        return self.name.encode(errors="replace").decode()

    @property
    def label(self) -> str:
        """The file in a line: its name and size."""
        return f"{visible(self.wire_name)} ({format_size(self.size)})"


def read_attach(text: str) -> str | None:
    """Return the path that `/attach PATH` names, "" if it names none; None if the text is another one."""
    match = _ATTACH_LINE.fullmatch(text.strip())
    return None if match is None else (match[1] or "").strip()


def attach_file(name: str, attached: Sequence[Attachment]) -> Attachment:
    """Return the file of this machine with this path for a message that has some already. Raises CannotAttach."""
    path = _find_file(name)
    size = path.stat().st_size
    if any(one.path == str(path) for one in attached):
        raise CannotAttach(f"{name} is attached already")
    if size > MAX_FILE_BYTES:
        limit = format_size(MAX_FILE_BYTES)
        raise CannotAttach(f"{name} is too large: it has {format_size(size)}; a file may have {limit}")
    if len(attached) >= MAX_FILES:
        raise CannotAttach(f"a message has at most {MAX_FILES} files: send these first")
    if size + sum(one.size for one in attached) > MAX_ALL_BYTES:
        raise CannotAttach(f"the files of a message have at most {format_size(MAX_ALL_BYTES)} together")
    return Attachment(str(path), size)


def _find_file(name: str) -> Path:
    unquoted = name[1:-1] if len(name) > 2 and name[0] == name[-1] and name[0] in "'\"" else name
    try:
        path = expand_path(unquoted).absolute()
        if path.is_dir():
            raise CannotAttach(f"{name} is a folder: attach a file of it, or pack it first")
        if not path.exists():
            raise CannotAttach(f"there is no file {name}")
        if not path.is_file():
            raise CannotAttach(f"{name} is no regular file")
        path.open("rb").close()
    except (OSError, ConfigError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CannotAttach(f"{name} cannot be read: {reason}") from None
    return path


def list_paths(typed: str) -> list[str]:
    """Return the paths that begin with what is typed, folders with a slash behind them; hidden ones only if asked."""
    folder, slash, beginning = typed.rpartition("/")
    try:
        with os.scandir(expand_path(folder + slash) if slash else ".") as entries:
            listed = [(entry.name, entry.is_dir()) for entry in entries]
    except (OSError, ConfigError):
        return []
    found = [
        f"{folder}{slash}{name}{'/' if is_folder else ''}"
        for name, is_folder in sorted(listed)
        if name.casefold().startswith(beginning.casefold()) and (beginning or not name.startswith("."))
    ]
    return [path for path in found if path.isprintable()][:MAX_LISTED]
