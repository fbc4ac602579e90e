"""Transcript entries as plain text, for `semel show`, the line-by-line chat and exported documents."""

from __future__ import annotations

import time
from typing import Any

from semel.faces.busy import format_waiting_state

Json = dict[str, Any]


def speaker(entry: Json) -> str:
    """The name of the speaker of an entry: the sender, the kind of event, the agent or "notice"."""
    role = str(entry["role"])
    if role == "user":
        return str(entry.get("sender") or "user")
    if role == "event":
        return str(entry.get("kind") or "event")
    if role == "agent" and entry.get("from"):
        return f"agent (from {entry['from']})"
    return "summary" if is_summary(entry) else role


def is_summary(entry: Json) -> bool:
    """Whether the entry is a model's summary of older entries for its own prompts; those entries stay, too."""
    return entry.get("role") == "notice" and entry.get("kind") == "summary"


def marks(entry: Json, place: int | None = None) -> list[str]:
    """Short remarks about an entry, such as "partial" or "echoed 2x", in the words of docs/laws.md.

    `place` is the place of a waiting entry in the session's queue (`semel.faces.busy`).
    """
    found = [name for name in ("live", "partial", "superseded", "automatic") if entry.get(name)]
    if entry.get("waiting"):
        found.append(format_waiting_state(str(entry["waiting"]), place))
    if is_summary(entry) and isinstance(covers := entry.get("covers"), dict):
        found.append(f"of {covers.get('first')} to {covers.get('last')}, made by the agent's model")
    found += about(entry)
    if entry.get("joined"):
        found.append("joined the running turn")
    if entry.get("to"):
        found.append(f"to {entry['to']}")
    if entry.get("behind"):
        found.append("reached the chat later")
    if entry.get("echoes"):
        found.append(f"echoed {entry['echoes']}x")
    if str(entry.get("kind")).startswith("delivery.") and entry.get("part"):
        found.append(f"p{entry['part']}")  # the argument for `semel outbox`
    for way in entry.get("delivery", []):
        later = ", failed later" if way.get("failed") else ""
        found.append(f"{way.get('to') or way.get('dest')}: {way['state']}{later}")
    return found


_ABOUT = {"edit": "edits", "delete": "deletes", "reaction": "reacts to"}


def about(entry: Json) -> list[str]:
    """How an entry refers to an earlier one (edit, reaction, reply ...), and whether it was edited or deleted."""
    kind, found = entry.get("kind"), list[str]()
    if kind in _ABOUT or entry.get("quote") is not None:
        did = "takes back a reaction to" if entry.get("removed") else _ABOUT.get(str(kind), "replies to")
        found.append(f"{did} {_describe_target(entry)}")
    if entry.get("edited"):
        found.append(f"edited in {entry['edited']}")
    if entry.get("deleted"):
        found.append(f"deleted in {entry['deleted']}")
    return found


def _describe_target(entry: Json) -> str:
    if entry.get("of") is None:
        return "a message that is not here"
    if not entry.get("quote"):
        return str(entry["of"])
    whose = f"{entry['whose']}: " if entry.get("whose") else ""
    return f"{entry['of']} ({whose}{entry['quote']!r})"


def body(entry: Json) -> str:
    """The text, byte for byte (Law 8), or the emoji of a reaction, followed by one line per file."""
    files = [file_line(file) for file in entry.get("files", [])]
    return "\n".join([part for part in (entry["text"] or entry.get("emoji") or "", *files) if part])


def file_line(file: Json) -> str:
    """A file in one line: name, type, size, and its API path or, if the agent only linked to it, its address."""
    if file.get("missing"):
        return f"[file {file['name']} is missing: {file['missing']}]"
    where = f"/v1/blobs/{file['id']}" if file.get("id") else str(file.get("uri") or "")
    size = size_text(int(file["size"])) if file.get("size") else ""
    return f"[file {', '.join(part for part in (str(file['name']), str(file.get('mime') or ''), size, where) if part)}]"


def size_text(count: int) -> str:
    """A number of bytes as text, like "12 KB"."""
    if count < 1024:
        return f"{count} B"
    return f"{round(count / 1024)} KB" if count < 1048576 else f"{count / 1048576:.1f} MB"


def stamp(ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ms / 1000))


def line(entry: Json, place: int | None = None) -> str:
    """One entry as plain text: seq, local time, speaker, remarks and text. Further lines are indented."""
    found = marks(entry, place)
    noted = f" ({', '.join(found)})" if found else ""
    text = "\n".join(f"    {line}" if line else "" for line in body(entry).split("\n"))[4:]
    return f"{entry['seq']:>4} {stamp(entry['at'])} {speaker(entry)}{noted}: {text}"


def flat(record: Json) -> Json:
    """Convert an entry record of an export (docs/export.md) to the form that these functions take."""
    own = {name: value for name, value in record.items() if name not in ("line", "more", "event", "claim")}
    return {**(record.get("more") or {}), **own}
