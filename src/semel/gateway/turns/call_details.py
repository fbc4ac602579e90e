"""The fields of a tool call that its item and its permission request show, besides the output.

Diffs and locations are those of ACP's `ToolCallContent` and `ToolCallLocation`. A watcher gets the whole item with each
change, so their size is limited (Law 11): of a diff that is too large, only the path and the number of characters are
kept, because half a diff would show a change that nobody makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from semel.acp_stream.output_fields import read_diffs, read_locations
from semel.text.json_types import Json

MAX_DIFF_CHARS = 200_000  # characters of all diffs of one call
MAX_DIFFS = 200
MAX_LOCATIONS = 200
_COPIED_FIELDS = frozenset(
    ("title", "status", "tool_kind", "input", "exit", "truncated", "late", "name", "files")
)  # of the fold


def pick_item_fields(fields: Mapping[str, Any]) -> Json:
    """Return the fields of a tool call in the fold that its item has. "files", if present, become JSON objects."""
    picked = {name: value for name, value in fields.items() if name in _COPIED_FIELDS}
    if fields.get("files"):
        picked["files"] = [file.row() for file in fields["files"]]
    return picked | _limit_details(fields.get("diffs") or (), fields.get("locations") or ())


def read_requested_change(tool_call: Mapping[str, Any], announced: Mapping[str, Any]) -> Json:
    """Return {"tool_kind"?, "diffs"?, "locations"?} for the item of a permission request.

    `tool_call`: the request's `toolCall`. `announced`: the fields with which the stream announced that call. Either may
    have what the other lacks.
    """
    kind = tool_call.get("kind") or announced.get("tool_kind")
    diffs = read_diffs(tool_call.get("content")) or announced.get("diffs") or ()
    locations = read_locations(tool_call.get("locations")) or announced.get("locations") or ()
    return ({"tool_kind": kind} if isinstance(kind, str) else {}) | _limit_details(diffs, locations)


def _limit_details(diffs: Sequence[Mapping[str, Any]], locations: Sequence[Json]) -> Json:
    details: Json = {}
    if limited := _limit_diffs(diffs):
        details["diffs"] = limited
    if locations:
        details["locations"] = list(locations[:MAX_LOCATIONS])
    return details


def _limit_diffs(diffs: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Return the diffs as {"path", "oldText"?, "newText"}, or {"path", "left_out"} for those that are too large."""
    limited: list[Json] = []
    room = MAX_DIFF_CHARS
    for diff in diffs[:MAX_DIFFS]:
        path = str(diff.get("path") or "")
        texts = {name: diff[name] for name in ("oldText", "newText") if isinstance(diff.get(name), str)}
        size = sum(map(len, texts.values()))
        fits = size <= room
        room -= size if fits else 0
        limited.append({"path": path, **(texts if fits else {"left_out": size})})
    return limited
