"""`semel fold TRACE`: turn a recorded ACP trace into the view that a person would have seen.

A trace is JSON lines, `.xz` or plain: records `{"t", "dir", "msg"}`, as `semel.agents.acp.wire` writes them, or plain
ACP messages, or bare updates. docs/agents.md describes the printed objects.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from semel.acp_stream import WHOLE, ConnectionFolder, Profile
from semel.acp_stream.profiles import find_profile
from semel.acp_stream.view import RecordedStreamReader

XZ_MAGIC = b"\xfd7zXZ\x00"
MAX_LINE_BYTES = 256 * 1024 * 1024  # bytes in one line of a trace: four times the longest line an agent may send


class TraceError(Exception):
    """The trace cannot be read. The message gives the reason and what to do."""


def fold_file(
    path: str | Path, agent: str | None = None, note: Callable[[str], object] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the view of the trace at `path`: one JSON object per item, in the order a person sees them.

    `agent` is a profile (claude, codex, gemini, ...) or an agent's own name; without it, the `initialize` answer in the
    trace decides. `note` is called with a remark for people if lines are not JSON, which are left out. Raises
    TraceError.
    """
    reader = RecordedStreamReader(ConnectionFolder(_find_profile(agent), WHOLE))
    read_lines = unreadable_lines = first_unreadable = 0
    for number, line in _read_lines(Path(path)):
        if not line.strip():
            continue
        try:
            element = json.loads(line)
        except (ValueError, RecursionError):
            unreadable_lines += 1
            first_unreadable = first_unreadable or number
            if not read_lines and unreadable_lines >= 20:
                raise TraceError(f"{path}, line {number}: not JSON. A trace is one JSON object a line.") from None
            continue
        read_lines += 1
        if not isinstance(element, str):
            reader.read(element)
    if not read_lines:
        raise TraceError(f"{path}: no JSON line in it. A trace is one JSON object a line (`.jsonl` or `.jsonl.xz`).")
    if unreadable_lines and note is not None:
        lines = "1 line is" if unreadable_lines == 1 else f"{unreadable_lines} lines are"
        note(f"{lines} not JSON and left out; the first is line {first_unreadable} of {path}")
    yield from reader.build_view().json()


def _find_profile(agent: str | None) -> Profile | None:
    if agent is None:
        return None
    try:
        return find_profile(agent)
    except ValueError as error:
        raise TraceError(str(error)) from None


def _read_bounded_lines(path: Path, lines: IO[bytes] | lzma.LZMAFile) -> Iterator[bytes]:
    """Yield the lines. Raises TraceError for a line above MAX_LINE_BYTES: a compressed file of a few bytes can expand
    to one line that fills the memory."""
    while line := lines.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise TraceError(f"{path}: a line of more than {MAX_LINE_BYTES // (1024 * 1024)} MB.")
        yield line


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as plain:
            packed = plain.read(len(XZ_MAGIC)) == XZ_MAGIC
        with lzma.open(path) if packed else path.open("rb") as lines:
            yield from enumerate(_read_bounded_lines(path, lines), 1)
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file.") from None
    except IsADirectoryError:
        raise TraceError(f"{path} is a folder. Name a trace in it.") from None
    except (lzma.LZMAError, EOFError) as error:
        raise TraceError(f"{path}: the .xz file is damaged or incomplete ({error}).") from None
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}.") from None
