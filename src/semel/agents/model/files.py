"""The file tools read, write, edit and list. They block, so callers run them in a thread; output is bounded.

Each returns the text for the model and raises ToolRefused (a sentence for the model) or OSError.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from semel.agents.model.workspace import ToolRefused, Workspace

Json = dict[str, Any]

MAX_READ_LINES = 2_000  # lines that one call returns
MAX_READ_CHARS = 60_000  # characters that one call returns
MAX_FILE_BYTES = 8 << 20  # larger files are neither read nor edited
MAX_LISTED_NAMES = 500  # the rest is counted
BINARY_CHECK_BYTES = 8_192  # a NUL among the first bytes marks a binary file


def read(workspace: Workspace, given: Json) -> str:
    """Lines of a text file, unchanged; if there are more, a last line says which offset to go on with."""
    fd, status = workspace.open(given["path"])
    with os.fdopen(fd, "rb") as file:
        if status.st_size > MAX_FILE_BYTES:
            raise ToolRefused(
                f"{given['path']!r} holds {status.st_size} bytes; use search, or a command that reads a part"
            )
        data = file.read(MAX_FILE_BYTES + 1)
    if b"\0" in data[:BINARY_CHECK_BYTES]:
        return f"[{given['path']} is a binary file of {len(data)} bytes; send_file can send it]"
    lines = _lines(data.decode("utf-8", "replace"))
    if not lines:
        return f"[{given['path']} is empty]"
    first = max(1, given.get("offset") or 1)
    if first > len(lines):
        raise ToolRefused(f"{given['path']!r} has {len(lines)} lines; there is none at offset {first}")
    return _stretch(lines, first, max(1, given.get("limit") or MAX_READ_LINES))


def _lines(text: str) -> list[str]:
    """Split into lines, keeping the newlines. Only a newline ends a line, as in grep and editors."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def _stretch(lines: list[str], first: int, limit: int) -> str:
    told: list[str] = []
    room = MAX_READ_CHARS
    for line in lines[first - 1 : first - 1 + min(limit, MAX_READ_LINES)]:
        if len(line) > room:
            if not told:
                told.append(f"{line[:room]}\n[line {first} is {len(line)} characters long; the rest is left out]\n")
            break
        told.append(line)
        room -= len(line)
    last = first + len(told) - 1
    text = "".join(told)
    if last < len(lines):
        text += "" if text.endswith("\n") else "\n"
        text += f"[lines {first}-{last} of {len(lines)}; go on with offset={last + 1}]"
    return text


def write(workspace: Workspace, given: Json) -> str:
    data = given["text"].encode("utf-8", "replace")
    path = workspace.write(given["path"], data)
    return f"wrote {len(data)} bytes to {workspace.name(path)}"


def edit(workspace: Workspace, given: Json) -> str:
    """Replace one passage by another. It must occur exactly once, unless `all` is set."""
    fd, status = workspace.open(given["path"])
    with os.fdopen(fd, "rb") as file:
        if status.st_size > MAX_FILE_BYTES:
            raise ToolRefused(f"{given['path']!r} is too large to edit ({status.st_size} bytes)")
        data = file.read(MAX_FILE_BYTES + 1)
    old, new = given["old"].encode("utf-8", "replace"), given["new"].encode("utf-8", "replace")
    if not old:
        raise ToolRefused("`old` is empty; to make a file, use write")
    count = data.count(old)
    if count == 0:
        raise ToolRefused(f"`old` does not stand in {given['path']!r}; read the file, and take it over exactly")
    if count > 1 and not given.get("all"):
        raise ToolRefused(f"`old` stands {count} times in {given['path']!r}; write more of it, or set all")
    path = workspace.write(given["path"], data.replace(old, new))
    return f"changed {count} {'place' if count == 1 else 'places'} in {workspace.name(path)}"


def list_(workspace: Workspace, given: Json) -> str:
    """The names in a directory: directories with a slash, files with their size."""
    path = workspace.path(given.get("path") or ".")
    try:
        with os.scandir(path) as found:
            rows = sorted(_row(entry) for entry in found)
    except NotADirectoryError:
        raise ToolRefused(f"{given['path']!r} is no directory; use read") from None
    except OSError as error:
        raise ToolRefused(f"{workspace.name(path)!r} cannot be listed: {error.strerror}") from None
    if not rows:
        return "[empty]"
    told = [text for _, _, text in rows[:MAX_LISTED_NAMES]]
    if len(rows) > MAX_LISTED_NAMES:
        told.append(f"[and {len(rows) - MAX_LISTED_NAMES} more]")
    return "\n".join(told)


def _row(entry: os.DirEntry[str]) -> tuple[bool, str, str]:
    if entry.is_symlink():
        return True, entry.name, f"{entry.name} -> {Path(entry.path).readlink()}"
    if entry.is_dir():
        return False, entry.name, f"{entry.name}/"
    return True, entry.name, f"{entry.name} ({entry.stat(follow_symlinks=False).st_size} bytes)"
