"""Operation: read a stored file."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any, BinaryIO

from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from semel.faces.http.routing import ApiCall, Param, Returns, Router
from semel.text.visible import JOINERS, remove_unseen

router = Router("read")

INLINE_MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types that a browser may display, because they cannot hold scripts. All others are sent as downloads."""

BLOB_POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"


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
