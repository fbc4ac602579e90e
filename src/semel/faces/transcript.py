"""Transcript entries as plain text, for `semel show`, the line-by-line chat and exported documents."""

from __future__ import annotations

import time

from semel.faces.busy_texts import format_waiting_state
from semel.text.json_types import Json
from semel.text.wellformed import shorten_to_line
from semel.timing.late_reports import read_late_due, read_late_end

MAX_ITEM_TITLE_CHARS = 200  # characters of a tool call's title in a document


def speaker(entry: Json) -> str:
    """Name the speaker of an entry: the sender, the kind of event and its sender, "agent", "notice" or "summary".

    Who writes without a name is the owner, who is called so in notices, too.
    """
    role = str(entry["role"])
    if role == "user":
        return str(entry.get("sender") or "the owner")
    if role == "event":
        return " from ".join(filter(None, (str(entry.get("kind") or "event"), entry.get("sender"))))
    if role == "agent" and entry.get("from"):
        return f"agent (from {entry['from']})"
    return "summary" if is_summary(entry) else role


def is_summary(entry: Json) -> bool:
    """Whether the entry is a summary that a model made of older entries for its own prompts. The older entries stay."""
    return entry.get("role") == "notice" and entry.get("kind") == "summary"


def list_remarks(entry: Json, place: int | None = None) -> list[str]:
    """List short remarks about an entry, such as "partial" or "echoed 2x", in the words of docs/laws.md.

    `place` is the place of a waiting entry in the session's queue (`semel.faces.busy_texts`).
    """
    remarks = [name for name in ("live", "partial", "superseded", "automatic") if entry.get(name)]
    if entry.get("waiting"):
        remarks.append(format_waiting_state(str(entry["waiting"]), place))
    if is_summary(entry) and isinstance(covers := entry.get("covers"), dict):
        remarks.append(f"of {covers.get('first')} to {covers.get('last')}, made by the agent's model")
    remarks += describe_references(entry)
    ended = read_late_end(entry.get("kind"), entry.get("data"), int(entry["at"]))
    if ended is not None:
        remarks.append(f"ended at {format_timestamp(ended)}")
    due = read_late_due(entry.get("kind"), entry.get("data"), int(entry["at"]))
    if due is not None:
        remarks.append(f"was due at {format_timestamp(due)}")
    if entry.get("joined"):
        remarks.append("joined the running turn")
    if entry.get("to"):
        remarks.append(f"to {entry['to']}")
    if entry.get("behind"):
        remarks.append("reached the chat later")
    if entry.get("echoes"):
        remarks.append(f"echoed {entry['echoes']}x")
    if str(entry.get("kind")).startswith("delivery.") and entry.get("part"):
        remarks.append(f"p{entry['part']}")  # the argument for `semel outbox`
    for delivery in entry.get("delivery", []):
        later = ", failed later" if delivery.get("failed") else ""
        remarks.append(f"{delivery.get('to') or delivery.get('dest')}: {delivery['state']}{later}")
    return remarks


REFERENCE_VERBS = {"edit": "edits", "delete": "deletes", "reaction": "reacts to"}


def describe_references(entry: Json) -> list[str]:
    """Say how an entry refers to an earlier one (edit, reaction, reply ...), and whether it was edited or deleted."""
    kind, references = entry.get("kind"), list[str]()
    if kind in REFERENCE_VERBS or entry.get("quote") is not None:
        verb = "takes back a reaction to" if entry.get("removed") else REFERENCE_VERBS.get(str(kind), "replies to")
        references.append(f"{verb} {_describe_target(entry)}")
    if entry.get("edited"):
        references.append(f"edited in {entry['edited']}")
    if entry.get("deleted"):
        references.append(f"deleted in {entry['deleted']}")
    return references


def _describe_target(entry: Json) -> str:
    if entry.get("of") is None:
        return "a message that is not here"
    if not entry.get("quote"):
        return str(entry["of"])
    whose = f"{entry['whose']}: " if entry.get("whose") else ""
    return f"{entry['of']} ({whose}{entry['quote']!r})"


def format_body(entry: Json, has_paths: bool = True) -> str:
    """Return an entry's text, byte for byte (Law 8), or the emoji of a reaction, followed by one line per file.

    The words of voice notes are last. `has_paths`: the lines name the API paths of files.
    """
    files = [format_file(file, has_paths) for file in entry.get("files", [])]
    spoken = format_spoken_words(entry)
    return "\n".join([part for part in (entry["text"] or entry.get("emoji") or "", *files, spoken) if part])


def format_spoken_words(entry: Json) -> str:
    """Return what the voice notes of an entry say, or why that was not written down; "" if there are none."""
    files = [file for file in entry.get("files", []) if file.get("voice")]
    reasons = [f"[not written down: {file['untranscribed']}]" for file in files if file.get("untranscribed")]
    return "\n".join([*(file["transcript"] for file in files if file.get("transcript")), *reasons])


def format_file(file: Json, has_path: bool = True) -> str:
    """Describe a file in one line: name, type, size, and its API path or, if an agent only linked it, its address.

    `has_path`: the API path is named.
    """
    if file.get("missing"):
        return f"[file {file['name']} is missing: {file['missing']}]"
    path = f"/v1/blobs/{file['id']}" if has_path else ""
    where = path if file.get("id") else str(file.get("uri") or "")
    size = format_size(int(file["size"])) if file.get("size") else ""
    kind = "voice note" if file.get("voice") else "file"
    parts = (str(file["name"]), str(file.get("mime") or ""), size, where)
    return f"[{kind} {', '.join(part for part in parts if part)}]"


def format_size(count: int) -> str:
    """Format a number of bytes, like "12 KB"."""
    if count < 1024:
        return f"{count} B"
    return f"{round(count / 1024)} KB" if count < 1048576 else f"{count / 1048576:.1f} MB"


def format_timestamp(ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ms / 1000))


def format_zoned(ms: int, zone: str | None) -> str:
    """Format a time in a zone and name it, as Semel's notices do: "2026-11-26 00:00 Europe/Berlin".

    `zone`: its name. It is UTC for None, and for a zone that this machine does not know.
    """
    from semel.gateway.clock import format_local
    from semel.timing.walltime import BadSchedule

    try:
        return format_local(ms // 1000, zone or "UTC")
    except BadSchedule:
        return format_local(ms // 1000, "UTC")


def format_entry(entry: Json, place: int | None = None) -> str:
    """Format an entry as plain text: seq, local time, speaker, remarks and text. Further lines are indented."""
    remarks = list_remarks(entry, place)
    remark_text = f" ({', '.join(remarks)})" if remarks else ""
    text = "\n".join(f"    {line}" if line else "" for line in format_body(entry).split("\n"))[4:]
    return f"{entry['seq']:>4} {format_timestamp(entry['at'])} {speaker(entry)}{remark_text}: {text}"


def flatten_record(record: Json) -> Json:
    """Convert an entry record of an export (docs/export.md) to the form that these functions take."""
    fields = {name: value for name, value in record.items() if name not in ("line", "more", "event", "claim")}
    return {**(record.get("more") or {}), **fields}


def describe_item(record: Json) -> list[str]:
    """Say in some words what a tool call or permission request of an export was, and what became of it."""
    title = shorten_to_line(str(record["title"]), MAX_ITEM_TITLE_CHARS)
    if record["kind"] == "tool":
        exit_code = [f"exit {record['exit']}"] if record.get("exit") else []
        return ["tool", title or "a tool", str(record.get("status") or "pending"), *exit_code]
    state, by = str(record.get("state")), f"by {record['by']}" if record.get("by") else ""
    outcome = " ".join(part for part in (str(record.get("answer") or "cancelled"), by) if part)
    return ["permission", title, outcome if state == "answered" else state]
