"""Describe in words the attachments of an agent (images, audio, resources) that cannot be shown or sent.

If an attachment could not be stored, a notice tells the person what it was and why, and the agent how to send it as a
file. A file that a chat cannot take, and a mere link, are described in the chat in one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from semel.gateway.files import MAX_FILE_BYTES
from semel.text.wellformed import one_line

MAX_LISTED = 5
MAX_WORDS = 120  # characters shown of a name, an address or a type

_NAMES = {"image": "an image", "audio": "a sound", "resource": "a document", "resource_link": "a link to a document"}


def describe_attachments(attached: Sequence[Mapping[str, Any]]) -> str:
    """The notice about attachments that could not be stored, for the person and the agent."""
    told = [_describe(each) for each in attached[:MAX_LISTED]]
    if more := len(attached) - len(told):
        told.append(f"{more} more")
    return (
        f"The agent handed over {', '.join(told)} beside its text, which cannot be shown here. "
        f"With the tool send_file it can send a file of up to {MAX_FILE_BYTES >> 20} MiB."
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


def describe_file(file: Mapping[str, Any], why: str = "") -> str:
    """Describe a file in one line, for a chat that does not get the file itself. `why`: the reason."""
    about = [str(file["mime"])] + ([_size(int(file["size"]))] if file.get("size") else [])
    told = f"{one_line(str(file['name']), MAX_WORDS)} ({', '.join(about)})"
    if file.get("id") is None:
        return f"{told}: {file.get('uri') or ''}"
    return f"[A file of the agent that stays on Semel's page: {told}; {why}]"


def _size(count: int) -> str:
    return f"{count} B" if count < 1024 else f"{count // 1024} KB"
