"""Upload a file with a part: read it, name it, and encode it as a form."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Mapping

from semel.gateway.ports import Op, Rejected
from semel.text.wellformed import scrub

_MIN_UPLOAD_BYTES_PER_S = 100_000  # assumed
_BINARY = "application/octet-stream"


def limit_upload_time(size: int) -> float:
    """Return the seconds by which an upload of `size` bytes extends a time limit."""
    return size / _MIN_UPLOAD_BYTES_PER_S


async def read_file(op: Op) -> bytes:
    """Return the content of a part's file. Raises Rejected."""
    if op.file is None:
        raise Rejected("there is no file to send")
    try:
        return await asyncio.to_thread(op.file.read_bytes)
    except OSError as error:
        raise Rejected(f"the stored file cannot be read: {error.strerror}") from None


def name_file(op: Op) -> tuple[str, str]:
    """Return (the name of a part's file, its media type)."""
    name = op.name or (op.file.name if op.file is not None else "") or "file"
    return name, op.mime or mimetypes.guess_type(name)[0] or _BINARY


def encode_form(fields: Mapping[str, str], file_field: str, name: str, mime: str, content: bytes) -> tuple[bytes, str]:
    """Encode fields and a file as multipart/form-data (RFC 7578). Returns (body, content type)."""
    import httpx2  # only now: not every channel with files uses HTTP

    mime = mime if mime.isascii() and mime.isprintable() else _BINARY
    files = {file_field: (scrub(name), content, mime)}
    form = httpx2.Request("POST", "http://form.invalid", data=dict(fields), files=files)
    return form.read(), form.headers["content-type"]
