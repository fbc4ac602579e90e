"""What an agent hands over beside its text (images, audio, resources), told in words where it cannot be shown or sent.

What could not be stored: its person reads what it was, and why; the agent reads how it can send it as a file. What a
chat cannot take, and what is only a link, is told there in one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from semel.gateway.files import FILE_LIMIT
from semel.text.wellformed import one_line

MAX_TOLD = 5
MAX_WORDS = 120  # characters of a name, an address or a type

_NAMES = {"image": "an image", "audio": "a sound", "resource": "a document", "resource_link": "a link to a document"}


def describe_attachments(attached: Sequence[Mapping[str, Any]]) -> str:
    """A notice for the person and for the agent."""
    told = [_describe(each) for each in attached[:MAX_TOLD]]
    if more := len(attached) - len(told):
        told.append(f"{more} more")
    return (
        f"The agent handed over {', '.join(told)} beside its text, which cannot be shown here. "
        f"With the tool send_file it can send a file of up to {FILE_LIMIT >> 20} MiB."
    )


def _describe(attached: Mapping[str, Any]) -> str:
    kind = str(attached.get("type") or "")
    known = _NAMES.get(kind, f"something of the type {one_line(kind, 40) or 'none'}")
    about = [one_line(str(attached[key]), MAX_WORDS) for key in ("name", "uri", "mimeType") if attached.get(key)]
    if size := attached.get("size"):
        about.append(_size(size))
    if why := attached.get("missing"):
        about.append(str(why))
    return f"{known} ({', '.join(about)})" if about else known


def tell_file(file: Mapping[str, Any], why: str = "") -> str:
    """A file in one line, for a chat that is not sent it. `why`: it cannot be."""
    about = [str(file["mime"])] + ([_size(int(file["size"]))] if file.get("size") else [])
    told = f"{one_line(str(file['name']), MAX_WORDS)} ({', '.join(about)})"
    if file.get("id") is None:
        return f"{told}: {file.get('uri') or ''}"
    return f"[A file of the agent that stays on Semel's page: {told}; {why}]"


def _size(count: int) -> str:
    return f"{count} B" if count < 1024 else f"{count // 1024} KB"
