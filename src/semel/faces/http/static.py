"""Serve the web page's files, which are read from the package once."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import Annotated

from starlette.responses import Response

from semel.faces.http.problems import Problem
from semel.faces.http.routing import ApiCall, Param, Returns, Router
from semel.faces.http.security import Access

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}


@dataclass(frozen=True)
class PageFile:
    body: bytes
    media_type: str
    etag: str


@functools.cache
def load_files() -> dict[str, PageFile]:
    """Return every file of `semel.faces.page` that a browser may ask for, by name."""
    loaded = {}
    for path in resources.files("semel.faces.page").iterdir():
        suffix = path.name[path.name.rfind(".") :]
        if suffix in MEDIA_TYPES:
            body = path.read_bytes()
            loaded[path.name] = PageFile(body, MEDIA_TYPES[suffix], f'"{hashlib.sha256(body).hexdigest()[:20]}"')
    return loaded


router = Router("page")
_PAGE = Returns("The page.", str, "text/html")


@router.route("GET", "/", _PAGE, access=Access.PAGE, documented=False)
async def page(call: ApiCall) -> Response:
    """The page."""
    return _serve(call, load_files()["index.html"])


@router.route("GET", "/page/{name}", _PAGE, access=Access.PAGE, documented=False)
async def asset(call: ApiCall, name: Annotated[str, Param("The file's name.")]) -> Response:
    """A file of the page."""
    file = load_files().get(name)
    if file is None:
        raise Problem("no-such-path", "The page has no such file.")
    return _serve(call, file)


def _serve(call: ApiCall, file: PageFile) -> Response:
    headers = {"etag": file.etag, "cache-control": "no-cache"}
    if file.etag in call.request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers=headers, media_type=file.media_type)
