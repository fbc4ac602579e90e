"""Leave the wrong settings out of the content of semel.toml, so that the mistakes in the rest of it are found, too."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

KeyPath = tuple[str, ...]

SUBSTITUTES: Mapping[tuple[str, str], str] = {("schedules", "text"): "-"}
"""Settings that a section needs and no other check reads, as (kind of section, key): the value in place of a wrong or
missing one. Without it, the rest of the section could not be checked."""

CHECKED_LATER = ("cwd", "trace", "approvals")
"""The settings of an agent that are checked only after the whole file has been validated."""


def find_paths(raw: Mapping[str, Any], locations: Iterable[Sequence[str | int]]) -> set[KeyPath]:
    """Return, for each of these locations, the path of what must be left out of the file.

    A location is a path of keys and indices, as pydantic gives it. For an item of a list, the path is that of the whole
    list. For a missing setting, it is that of its section, unless the setting has a substitute.
    """
    return {_find_path(raw, location) for location in locations}


def _find_path(raw: Mapping[str, Any], location: Sequence[str | int]) -> KeyPath:
    table: Any = raw
    path: list[str] = []
    for key in location:
        if _find_substitute((*path, str(key))) is not None:
            return (*path, str(key))
        if not isinstance(table, dict) or key not in table:
            break
        table = table[key]
        path.append(str(key))
    return tuple(path)


def _find_substitute(path: KeyPath) -> str | None:
    return SUBSTITUTES.get((path[0], path[2])) if len(path) == 3 else None


def _keep_agent(path: KeyPath, section: Any) -> Any:
    """Return what is kept of a wrong section: of an agent's, what is checked later; of any other, all of it."""
    if path[0] != "agents" or len(path) != 2 or not isinstance(section, dict):
        return section
    return {"kind": "demo", **{key: section[key] for key in CHECKED_LATER if key in section}}


def leave_out(raw: Mapping[str, Any], paths: Iterable[KeyPath]) -> dict[str, Any]:
    """Return a copy of the content of semel.toml without the settings and sections at these paths."""
    kept = copy.deepcopy(dict(raw))
    for path in sorted(paths, key=len, reverse=True):  # a section after its settings
        table = kept
        for key in path[:-1]:
            table = table[key]
        if (substitute := _find_substitute(path)) is not None:
            table[path[-1]] = substitute
        elif path and (remaining := _keep_agent(path, table[path[-1]])) != table[path[-1]]:
            table[path[-1]] = remaining
        elif path:
            del table[path[-1]]
    return kept
