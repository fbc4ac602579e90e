"""A transcript as text: the lines of `semel show` and the plain chat, and the formats of `semel export`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

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
    return role


def marks(entry: Json) -> list[str]:
    """What is to be known about an entry beside its text, in the words of docs/laws.md."""
    found = [name for name in ("live", "partial", "superseded") if entry.get(name)]
    if entry.get("to"):
        found.append(f"to {entry['to']}")
    if entry.get("echoes"):
        found.append(f"echoed {entry['echoes']}x")
    for way in entry.get("delivery", []):
        found.append(f"{way.get('to') or way.get('dest')}: {way['state']}")
    return found


def body(entry: Json) -> str:
    """The text, byte for byte (Law 8), and the names of files; a reaction is its emoji."""
    files = [f"[file {file['name']}]" for file in entry.get("files", [])]
    return "\n".join([part for part in (entry["text"] or entry.get("emoji") or "", *files) if part])


def stamp(ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ms / 1000))


def line(entry: Json) -> str:
    """One entry as plain text: number, time, speaker and marks, then the text, further lines indented."""
    noted = f" ({', '.join(marks(entry))})" if marks(entry) else ""
    text = "\n".join(f"    {line}" if line else "" for line in body(entry).split("\n"))[4:]
    return f"{entry['seq']:>4} {stamp(entry['at'])} {speaker(entry)}{noted}: {text}"


def markdown(session: str, entries: Iterable[Json]) -> Iterator[str]:
    """The transcript as a Markdown document, a heading an entry. The agent's text is already Markdown."""
    yield f"# {session}\n"
    for entry in entries:
        noted = f" · {', '.join(marks(entry))}" if marks(entry) else ""
        yield f"\n## {entry['seq']} · {speaker(entry)} · {stamp(entry['at'])}{noted}\n\n{body(entry)}\n"


def jsonl(session: str, entries: Iterable[Json]) -> Iterator[str]:
    """One JSON object a line: the entries of /v1/sessions/{key}/entries, each with its session."""
    for entry in entries:
        yield json.dumps({"session": session, **entry}, ensure_ascii=False) + "\n"


FORMATS = {"md": markdown, "jsonl": jsonl}
