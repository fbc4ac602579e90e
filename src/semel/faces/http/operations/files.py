"""Operations: upload a file for a message, read a stored file."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any, BinaryIO

from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from semel.faces.api_types import UploadedFile
from semel.faces.http.problems import Problem
from semel.faces.http.routing import ApiCall, Param, Returns, Router, json_response
from semel.gateway.files import MAX_FILE_BYTES
from semel.gateway.ports import TooLarge
from semel.text.media_types import BINARY
from semel.text.visible import JOINERS, remove_unseen

router = Router("read")

INLINE_MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types that a browser may display, because they cannot hold scripts. All others are sent as downloads."""

BLOB_POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"


@router.route(
    "POST",
    "/v1/files",
    Returns("The file is stored, and waits for its message.", UploadedFile, status=201),
    tag="talk",
    streamed=True,
    errors=("not-json", "wrong-state", "unavailable"),
)
async def upload_file(
    call: ApiCall, name: Annotated[str, Param("Its name, for people and the agent.")] = "file"
) -> Response:
    """Upload a file for a message (application/octet-stream). The same content again is the same file."""
    media_type = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != BINARY:  # no form can send it, nor a page elsewhere without being asked (CSRF)
        raise Problem(
            "not-json",
            f"Content-Type is {media_type or 'missing'!r}; send the file's bytes as {BINARY}, whatever it is.",
        )
    _check_announced_size(call.request.headers.get("content-length", ""))
    try:
        upload = await call.gateway.upload(name, call.request.stream())
    except TooLarge:
        raise _make_too_large() from None
    return json_response(UploadedFile(upload.id, upload.name, upload.mime, upload.size, upload.expires), 201)


def _check_announced_size(content_length: str) -> None:
    """Raise a Problem before anything is read if the body is going to be too large."""
    if content_length.isascii() and content_length.isdigit() and int(content_length) > MAX_FILE_BYTES:
        raise _make_too_large()


def _make_too_large() -> Problem:
    detail = f"It is too large: a file has at most {MAX_FILE_BYTES:,} bytes."
    return Problem("too-large", detail, headers={"Connection": "close"}, limit=MAX_FILE_BYTES)


@router.route(
    "GET",
    "/v1/blobs/{id}",
    Returns("The file.", str, "application/octet-stream"),
    errors=("not-found",),
)
async def read_blob(call: ApiCall, id: Annotated[str, Param("Id of the file.")]) -> Response:
    """Read a file that was sent or received. Plain images are displayed in place, all other files are downloads."""
    opened, name, mime = await call.gateway.open_blob(id)
    return OpenFileResponse(
        opened,
        media_type=mime,
        filename=_sanitise_name(name),
        content_disposition_type="inline" if mime in INLINE_MEDIA_TYPES else "attachment",
        headers={
            "content-security-policy": BLOB_POLICY,
            "cache-control": "private, max-age=86400, immutable",
            "etag": f'"{id}"',  # the same from every gateway, so that an interrupted download can go on
        },
    )


class OpenFileResponse(FileResponse):
    """Sends an open file by its descriptor: the checked file is sent even if its path is replaced meanwhile."""

    def __init__(self, opened: BinaryIO, **options: Any):
        super().__init__(f"/dev/fd/{opened.fileno()}", stat_result=os.fstat(opened.fileno()), **options)
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._opened:
            await super().__call__(scope, receive, send)


def _sanitise_name(name: str) -> str:
    return remove_unseen(re.sub(r'[\x00-\x1f\x7f/\\"]', "_", name), JOINERS)[-200:] or "file"
