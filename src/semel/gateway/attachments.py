"""What an agent hands over beside its text (images, audio, resources), told in words: none of it vanishes.

It cannot be shown or sent from there. Its person reads what it was; the agent reads how it can send it as a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from semel.law.wellformed import one_line

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
        "It can send it as a file: with the tool send_file."
    )


def _describe(attached: Mapping[str, Any]) -> str:
    kind = str(attached.get("type") or "")
    known = _NAMES.get(kind, f"something of the type {one_line(kind, 40) or 'none'}")
    about = [one_line(str(attached[key]), MAX_WORDS) for key in ("name", "uri", "mimeType") if attached.get(key)]
    if size := attached.get("size"):
        about.append(f"{size} B" if size < 1024 else f"{size // 1024} KB")
    return f"{known} ({', '.join(about)})" if about else known
