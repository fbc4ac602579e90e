"""A transcript as text: the lines of `semel show` and the plain chat, and what documents say of an entry."""

from __future__ import annotations

import time
from typing import Any

from semel.faces.busy import fate

Json = dict[str, Any]


def speaker(entry: Json) -> str:
    """Who an entry is from, as a person would say it."""
    role = str(entry["role"])
    if role == "user":
        return str(entry.get("sender") or "user")
    if role == "event":
        return str(entry.get("kind") or "event")
    if role == "agent" and entry.get("from"):
        return f"agent (from {entry['from']})"
    return "summary" if is_summary(entry) else role


def is_summary(entry: Json) -> bool:
    """Whether a model made it, to stand for older entries in its own prompts; they all stay where they are."""
    return entry.get("role") == "notice" and entry.get("kind") == "summary"


def marks(entry: Json, place: int | None = None) -> list[str]:
    """What is to be known about an entry beside its text, in the words of docs/laws.md.

    `place`: of one that waits, in the line (`semel.faces.busy.line`).
    """
    found = [name for name in ("live", "partial", "superseded", "automatic") if entry.get(name)]
    if entry.get("waiting"):
        found.append(fate(str(entry["waiting"]), place))
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
        found.append(f"p{entry['part']}")  # what `semel outbox` is told
    for way in entry.get("delivery", []):
        later = ", failed later" if way.get("failed") else ""
        found.append(f"{way.get('to') or way.get('dest')}: {way['state']}{later}")
    return found


_ABOUT = {"edit": "edits", "delete": "deletes", "reaction": "reacts to"}


def about(entry: Json) -> list[str]:
    """What an entry does to an earlier one, which, and what became of itself since."""
    kind, found = entry.get("kind"), list[str]()
    if kind in _ABOUT or entry.get("quote") is not None:
        did = "takes back a reaction to" if entry.get("removed") else _ABOUT.get(str(kind), "replies to")
        found.append(f"{did} {_which(entry)}")
    if entry.get("edited"):
        found.append(f"edited in {entry['edited']}")
    if entry.get("deleted"):
        found.append(f"deleted in {entry['deleted']}")
    return found


def _which(entry: Json) -> str:
    if entry.get("of") is None:
        return "a message that is not here"
    if not entry.get("quote"):
        return str(entry["of"])
    whose = f"{entry['whose']}: " if entry.get("whose") else ""
    return f"{entry['of']} ({whose}{entry['quote']!r})"


def body(entry: Json) -> str:
    """The text, byte for byte (Law 8), and a line for each file; a reaction is its emoji."""
    files = [file_line(file) for file in entry.get("files", [])]
    return "\n".join([part for part in (entry["text"] or entry.get("emoji") or "", *files) if part])


def file_line(file: Json) -> str:
    """A file's name, type and size, and where it is: its address, or its path at the gateway's (docs/api.md)."""
    if file.get("missing"):
        return f"[file {file['name']} is missing: {file['missing']}]"
    where = f"/v1/blobs/{file['id']}" if file.get("id") else str(file.get("uri") or "")
    size = size_text(int(file["size"])) if file.get("size") else ""
    return f"[file {', '.join(part for part in (str(file['name']), str(file.get('mime') or ''), size, where) if part)}]"


def size_text(count: int) -> str:
    """A number of bytes, for people."""
    if count < 1024:
        return f"{count} B"
    return f"{round(count / 1024)} KB" if count < 1048576 else f"{count / 1048576:.1f} MB"


def stamp(ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ms / 1000))


def line(entry: Json, place: int | None = None) -> str:
    """One entry as plain text: number, time, speaker and marks, then the text, further lines indented."""
    found = marks(entry, place)
    noted = f" ({', '.join(found)})" if found else ""
    text = "\n".join(f"    {line}" if line else "" for line in body(entry).split("\n"))[4:]
    return f"{entry['seq']:>4} {stamp(entry['at'])} {speaker(entry)}{noted}: {text}"


def flat(record: Json) -> Json:
    """An entry as an export tells it (docs/export.md), in the shape that the functions here take."""
    own = {name: value for name, value in record.items() if name not in ("line", "more", "event", "claim")}
    return {**(record.get("more") or {}), **own}
