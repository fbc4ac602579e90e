"""`semel fold TRACE`: a recorded ACP trace as the view a person would have seen.

A trace is JSON lines, `.xz` or plain: records `{"t", "dir", "msg"}` (dir c2a, a2c, a2c_raw, stderr, note), or
plain ACP messages, or bare updates. What each printed object holds is in docs/agents.md.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from semel.acp_stream import PROFILES, WHOLE, Profile, Wire, profile_for
from semel.acp_stream.view import Reader

XZ = b"\xfd7zXZ\x00"
MOST = 256 * 1024 * 1024  # bytes of a line: four times what an agent may send in one


class TraceError(Exception):
    """The trace cannot be read. The message says why and what to do."""


def fold_file(path: str | Path, agent: str | None = None) -> Iterator[dict[str, Any]]:
    """The view of the trace at `path`, one JSON object per item, in the order a person sees it.

    `agent` names the profile (claude, codex, gemini, ...), or is an agent's own name; without it, the trace's
    `initialize` answer says. Raises TraceError.
    """
    reader = Reader(Wire(_profile(agent), WHOLE))
    good = bad = 0
    for number, line in _lines(Path(path)):
        if not line.strip():
            continue
        try:
            element = json.loads(line)
        except (ValueError, RecursionError):
            bad += 1
            if not good and bad >= 20:
                raise TraceError(f"{path}, line {number}: not JSON. A trace is one JSON object a line.") from None
            continue
        good += 1
        if not isinstance(element, str):
            reader.read(element)
    if not good:
        raise TraceError(f"{path}: no JSON line in it. A trace is one JSON object a line (`.jsonl` or `.jsonl.xz`).")
    yield from reader.view().json()


def _profile(agent: str | None) -> Profile | None:
    if agent is None:
        return None
    profile = profile_for(agent)
    if profile.name == "careful" and agent.strip().lower() not in ("careful", ""):
        raise TraceError(f"no agent profile fits {agent!r}. Known: {', '.join(sorted(PROFILES))}.")
    return profile


def _whole(path: Path, lines: IO[bytes] | lzma.LZMAFile) -> Iterator[bytes]:
    """A packed file of a few bytes can hold a line that fills the memory."""
    while line := lines.readline(MOST + 1):
        if len(line) > MOST:
            raise TraceError(f"{path}: a line of more than {MOST // (1024 * 1024)} MB.")
        yield line


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as plain:
            packed = plain.read(len(XZ)) == XZ
        with lzma.open(path) if packed else path.open("rb") as lines:
            yield from enumerate(_whole(path, lines), 1)
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file.") from None
    except IsADirectoryError:
        raise TraceError(f"{path} is a folder. Name a trace in it.") from None
    except (lzma.LZMAError, EOFError) as error:
        raise TraceError(f"{path}: the .xz file is damaged or incomplete ({error}).") from None
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}.") from None
