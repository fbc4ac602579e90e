"""The files of an agent's workspace, for "@" in the prompt."""

from __future__ import annotations

import os
from pathlib import Path

MAX_FILES = 20_000
"""How many files are listed; those in deep folders are left out first."""
SKIPPED_DIRS = frozenset(("node_modules", "__pycache__", "target", "dist", "venv"))


def list_files(workspace: Path) -> list[str]:
    """List the files below a workspace, as paths relative to it, in the order of their depth.

    Hidden files and folders, and folders that tools fill, are left out; links to folders are not followed.
    """
    found: list[str] = []
    folders = [workspace]
    while folders and len(found) < MAX_FILES:
        deeper: list[Path] = []
        for folder in folders:
            deeper += _read_folder(folder, workspace, found)
        folders = deeper
    return found[:MAX_FILES]


def _read_folder(folder: Path, workspace: Path, found: list[str]) -> list[Path]:
    """Add a folder's files to `found`. Returns its folders; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            listed = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda one: one.name)
            folders = [Path(one.path) for one in listed if one.is_dir(follow_symlinks=False)]
            found += [Path(one.path).relative_to(workspace).as_posix() for one in listed if one.is_file()]
    except OSError:
        return []
    return [path for path in folders if path.name not in SKIPPED_DIRS]
