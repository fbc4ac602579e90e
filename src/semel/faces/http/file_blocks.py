"""Make ACP content blocks of the files in the messages of other protocols.

An image or a sound becomes a block of its own kind, anything else a resource. An address is never fetched: the agent
gets it as a link.
"""

from __future__ import annotations

import mimetypes

from semel.text.json_types import Json


def read_data_url(url: str) -> tuple[str, str] | None:
    """Return the media type ("" if it names none) and the base64 of a `data:` URL; None if it has no base64."""
    head, comma, data = url.removeprefix("data:").partition(",")
    if not url.startswith("data:") or not comma or not head.endswith(";base64"):
        return None
    return head.removesuffix(";base64").partition(";")[0], data


def make_file_block(kind: str, data: str, mime: str, name: str) -> Json:
    """Return the block of a file. `kind`: "image" or "audio"; else it is a resource. `name`: of a resource."""
    if kind in ("image", "audio"):
        return {"type": kind, "data": data, "mimeType": mime}
    return {"type": "resource", "resource": {"uri": f"attachment:///{name}", "mimeType": mime, "blob": data}}


def make_name(kind: str, number: int, mime: str) -> str:
    """Return a name for a file that came without one. `number`: its place in the message, from 1."""
    return f"{kind}-{number}{mimetypes.guess_extension(mime) or ''}"


def make_link_block(url: str, name: str | None, mime: str | None) -> Json:
    """Return a link to a file. `name`: None takes the last part of the address."""
    link = {"type": "resource_link", "uri": url, "name": name or url.rstrip("/").rpartition("/")[2] or url}
    return {**link, "mimeType": mime} if mime else link
