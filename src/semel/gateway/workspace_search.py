"""Find files in an agent's workspace by a part of their path, for the person who names one in a message.

A workspace may be large, so a search looks at a bounded number of names, those near the top first (Law 11). Hidden
files and directories, and those that hold what programs made, are left out. No symbolic link is followed, so nothing
outside of the workspace is listed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

MAX_LOOKED_AT = 20_000  # names of one search
LEFT_OUT = frozenset({"node_modules", "__pycache__"})


def find_files(folder: Path, part: str, limit: int) -> list[str]:
    """Return at most `limit` paths of files below `folder` that contain `part`, in any letter case; best first.

    A path is relative, with slashes. First come files whose name begins with `part`, then those whose name contains it,
    then the others; of equal ones, those nearer to the top. A folder that cannot be read has no files.
    """
    wanted = part.casefold()
    found = [path for path in _list_paths(folder) if wanted in path.casefold()]
    return sorted(found, key=lambda path: _rank(path, wanted))[:limit]


def _rank(path: str, wanted: str) -> tuple[int, int, str]:
    name = path.rpartition("/")[2].casefold()
    return (0 if name.startswith(wanted) else 1 if wanted in name else 2, path.count("/"), path)


def _list_paths(folder: Path) -> Iterator[str]:
    """Yield the paths of files, those nearer to the top first."""
    waiting, looked_at = deque([""]), 0
    while waiting and looked_at < MAX_LOOKED_AT:
        above = waiting.popleft()
        try:
            with os.scandir(folder / above) as entries:
                names = sorted(islice(entries, MAX_LOOKED_AT - looked_at), key=lambda entry: entry.name)
        except OSError:
            continue  # it is gone, or nobody may read it
        looked_at += len(names)
        for entry in names:
            if entry.name.startswith(".") or entry.name in LEFT_OUT or not entry.name.isprintable():
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{above}{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                yield f"{above}{entry.name}"
