"""The file tools read, write, edit and list.

They block, so callers run them in a thread. Each returns a text of bounded length for the model, and raises ToolRefused
(a sentence for the model) or OSError. `arguments`: as declared in `builtin.TOOLS`.
"""

from __future__ import annotations

import os
from pathlib import Path

from semel.agents.model.workspace import ToolRefused, Workspace
from semel.text.json_types import Json

MAX_READ_LINES = 2_000  # lines that one call returns
MAX_READ_CHARS = 60_000  # characters that one call returns
MAX_FILE_BYTES = 8 << 20  # larger files are neither read nor edited
MAX_LISTED_NAMES = 500  # further names are counted only
BINARY_CHECK_BYTES = 8_192  # a file with a NUL among this many first bytes counts as binary


def read(workspace: Workspace, arguments: Json) -> str:
    """Return at most `limit` lines of the text file at `path`, unchanged, starting at line `offset`.

    If lines remain, a last line says at which offset to continue. For a binary or empty file, return a note.
    """
    fd, status = workspace.open(arguments["path"])
    with os.fdopen(fd, "rb") as file:
        if status.st_size > MAX_FILE_BYTES:
            raise ToolRefused(
                f"{arguments['path']!r} holds {status.st_size} bytes; use search, or a command that reads a part"
            )
        data = file.read(MAX_FILE_BYTES + 1)
    if b"\0" in data[:BINARY_CHECK_BYTES]:
        return f"[{arguments['path']} is a binary file of {len(data)} bytes; send_file can send it]"
    lines = _split_lines(data.decode("utf-8", "replace"))
    if not lines:
        return f"[{arguments['path']} is empty]"
    first_line = max(1, arguments.get("offset") or 1)
    if first_line > len(lines):
        raise ToolRefused(f"{arguments['path']!r} has {len(lines)} lines; there is none at offset {first_line}")
    return _format_lines(lines, first_line, max(1, arguments.get("limit") or MAX_READ_LINES))


def _split_lines(text: str) -> list[str]:
    """Split a text into lines, which keep their newlines. As in grep and editors, only a newline ends a line."""
    *lines, partial = text.split("\n")
    return [f"{line}\n" for line in lines] + ([partial] if partial else [])


def _format_lines(lines: list[str], first_line: int, limit: int) -> str:
    shown: list[str] = []
    room = MAX_READ_CHARS
    for line in lines[first_line - 1 : first_line - 1 + min(limit, MAX_READ_LINES)]:
        if len(line) > room:
            if not shown:
                shown.append(
                    f"{line[:room]}\n[line {first_line} is {len(line)} characters long; the rest is left out]\n"
                )
            break
        shown.append(line)
        room -= len(line)
    last = first_line + len(shown) - 1
    text = "".join(shown)
    if last < len(lines):
        text += "" if text.endswith("\n") else "\n"
        text += f"[lines {first_line}-{last} of {len(lines)}; go on with offset={last + 1}]"
    return text


def write(workspace: Workspace, arguments: Json) -> str:
    data = arguments["text"].encode("utf-8", "replace")
    path = workspace.write(arguments["path"], data)
    return f"wrote {len(data)} bytes to {workspace.name(path)}"


def edit(workspace: Workspace, arguments: Json) -> str:
    """Replace the passage `old` by `new`. Unless `all` is set, `old` must occur exactly once."""
    fd, status = workspace.open(arguments["path"])
    with os.fdopen(fd, "rb") as file:
        if status.st_size > MAX_FILE_BYTES:
            raise ToolRefused(f"{arguments['path']!r} is too large to edit ({status.st_size} bytes)")
        data = file.read(MAX_FILE_BYTES + 1)
    old, new = arguments["old"].encode("utf-8", "replace"), arguments["new"].encode("utf-8", "replace")
    if not old:
        raise ToolRefused("`old` is empty; to make a file, use write")
    count = data.count(old)
    if count == 0:
        raise ToolRefused(f"`old` does not stand in {arguments['path']!r}; read the file, and take it over exactly")
    if count > 1 and not arguments.get("all"):
        raise ToolRefused(f"`old` stands {count} times in {arguments['path']!r}; write more of it, or set all")
    path = workspace.write(arguments["path"], data.replace(old, new))
    return f"changed {count} {'place' if count == 1 else 'places'} in {workspace.name(path)}"


def list_(workspace: Workspace, arguments: Json) -> str:
    """Return the names in a directory, one per line. Directories end with a slash; files have their size."""
    path = workspace.path(arguments.get("path") or ".")
    try:
        with os.scandir(path) as entries:
            rows = sorted(_make_row(entry) for entry in entries)
    except NotADirectoryError:
        raise ToolRefused(f"{arguments['path']!r} is not a directory; use read") from None
    except OSError as error:
        raise ToolRefused(f"{workspace.name(path)!r} cannot be listed: {error.strerror}") from None
    if not rows:
        return "[empty]"
    shown = [text for _, _, text in rows[:MAX_LISTED_NAMES]]
    if len(rows) > MAX_LISTED_NAMES:
        shown.append(f"[and {len(rows) - MAX_LISTED_NAMES} more]")
    return "\n".join(shown)


def _make_row(entry: os.DirEntry[str]) -> tuple[bool, str, str]:
    if entry.is_symlink():
        return True, entry.name, f"{entry.name} -> {Path(entry.path).readlink()}"
    if entry.is_dir():
        return False, entry.name, f"{entry.name}/"
    return True, entry.name, f"{entry.name} ({entry.stat(follow_symlinks=False).st_size} bytes)"
