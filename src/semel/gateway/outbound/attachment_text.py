"""Describe in words the attachments of an agent (images, audio, resources) that cannot be shown or sent.

If an attachment could not be stored, a notice tells the person what it was and why, and tells the agent how to send it
as a file. If a chat does not take files, or the attachment is only a link, one line in the chat describes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from semel.gateway.files import MAX_FILE_BYTES
from semel.text.wellformed import one_line

MAX_LISTED = 5
MAX_FIELD_CHARS = 120  # characters shown of a name, an address or a type

_NAMES = {"image": "an image", "audio": "a sound", "resource": "a document", "resource_link": "a link to a document"}


def describe_attachments(attached: Sequence[Mapping[str, Any]]) -> str:
    """Return the notice, for the person and the agent, about attachments that could not be stored."""
    descriptions = [_describe_attachment(attachment) for attachment in attached[:MAX_LISTED]]
    if more := len(attached) - len(descriptions):
        descriptions.append(f"{more} more")
    return (
        f"The agent added {', '.join(descriptions)} to its text, which cannot be shown here. "
        f"With the tool send_file it can send a file of up to {MAX_FILE_BYTES >> 20} MiB."
    )


def _describe_attachment(attachment: Mapping[str, Any]) -> str:
    kind = str(attachment.get("type") or "")
    description = _NAMES.get(kind, f"something of the type {one_line(kind, 40) or 'none'}")
    about = [
        one_line(str(attachment[key]), MAX_FIELD_CHARS) for key in ("name", "uri", "mimeType") if attachment.get(key)
    ]
    if size := attachment.get("size"):
        about.append(_format_size(size))
    if reason := attachment.get("missing"):
        about.append(str(reason))
    return f"{description} ({', '.join(about)})" if about else description


def describe_file(file: Mapping[str, Any], reason: str = "") -> str:
    """Describe a file in one line, for a chat that does not get the file itself.

    `reason`: why the chat does not get it.
    """
    about = [str(file["mime"])] + ([_format_size(int(file["size"]))] if file.get("size") else [])
    description = f"{one_line(str(file['name']), MAX_FIELD_CHARS)} ({', '.join(about)})"
    if file.get("id") is None:
        return f"{description}: {file.get('uri') or ''}"
    return f"[A file of the agent that stays on Semel's page: {description}; {reason}]"


def _format_size(count: int) -> str:
    return f"{count} B" if count < 1024 else f"{count // 1024} KB"
