"""Leave the wrong settings out of the content of semel.toml, so that the mistakes in the rest of it are found, too.

A wrong section to which others may refer is replaced by a valid one, so that these references do not count as mistakes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

UNKNOWN_KIND = "(unknown)"
"""The kind of a channel whose section is wrong. Nothing further is checked in it."""
REPLACEMENTS: Mapping[str, Mapping[str, str]] = {
    "agents": {"kind": "demo"},
    "channels": {"kind": UNKNOWN_KIND},
    "people": {},
}


def leave_out(raw: Mapping[str, Any], locations: Iterable[Sequence[str | int]]) -> dict[str, Any]:
    """Return a copy of the content of semel.toml without the settings at these locations.

    A location is a path of keys and indices, as pydantic gives it. If it is an item of a list, the whole list is left
    out; if it is a setting that is missing, the setting's section is left out.
    """
    kept = copy.deepcopy(dict(raw))
    for path in {_find_path(raw, location): None for location in locations}:
        _leave_out_one(kept, path)
    return kept


def _find_path(raw: Mapping[str, Any], location: Sequence[str | int]) -> tuple[str, ...]:
    """Return the longest beginning of a location that the file contains, as a path of keys."""
    table: Any = raw
    path: list[str] = []
    for key in location:
        if not isinstance(table, dict) or key not in table:
            break
        table = table[key]
        path.append(str(key))
    return tuple(path)


def _leave_out_one(kept: dict[str, Any], path: tuple[str, ...]) -> None:
    table = kept
    for key in path[:-1]:
        if key not in table:  # its section was left out already
            return
        table = table[key]
    replacement = REPLACEMENTS.get(path[0]) if len(path) == 2 else None
    if replacement is None or table.get(path[-1]) == replacement:
        table.pop(path[-1], None)
    else:
        table[path[-1]] = dict(replacement)
