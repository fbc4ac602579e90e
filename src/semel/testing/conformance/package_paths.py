"""Find the directories to put on `sys.path` for a channel's package that is not installed.

Python reads entry points from the metadata of installed packages. A source directory has none, so they are written
from its pyproject.toml into a temporary directory, which goes on `sys.path`, too.
"""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import semel.channels

_directories: list[tempfile.TemporaryDirectory[str]] = []  # they are removed when this process ends


def find_package_paths(paths: Sequence[Path | str]) -> list[str]:
    """Return the directories to put on `sys.path` so that the packages in `paths` and their entry points are found.

    Raises ValueError if one of `paths` is no directory or its pyproject.toml cannot be read.
    """
    return [found for path in paths for found in _find_paths(Path(path).absolute())]


@cache
def _find_paths(path: Path) -> tuple[str, ...]:
    if not path.is_dir():
        raise ValueError(f"`paths` of the rig names {path}, which is no directory")
    if any(path.glob("*.dist-info/entry_points.txt")) or any(path.glob("*.egg-info/entry_points.txt")):
        return (str(path),)
    project_file = next(
        (file for file in (path / "pyproject.toml", path.parent / "pyproject.toml") if file.is_file()), None
    )
    if project_file is None:
        return (str(path),)
    source = path / "src" if project_file.parent == path and (path / "src").is_dir() else path
    return (str(source), *_write_metadata(project_file))


def _write_metadata(project_file: Path) -> list[str]:
    """Write a project's entry points as an installed package has them. Returns their directory, if it has any."""
    try:
        project = tomllib.loads(project_file.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError) as error:
        raise ValueError(f"{project_file}: {error}") from None
    kinds = project.get("entry-points", {}).get(semel.channels.GROUP, {})
    if not kinds:
        return []
    directory = tempfile.TemporaryDirectory(prefix="semel-conformance-")
    _directories.append(directory)
    metadata = Path(directory.name) / "channel_under_test-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project.get('name', 'channel')}\nVersion: 0\n")
    lines = [f"[{semel.channels.GROUP}]", *(f"{kind} = {value}" for kind, value in kinds.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return [directory.name]
