"""Serve the web page's files, which are read from the package once at the start."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources

from starlette.responses import Response

from semel.faces.http.problems import Problem
from semel.faces.http.security import Access
from semel.faces.http.table import Answers, Call, Operation

MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}


@dataclass(frozen=True)
class File:
    body: bytes
    media: str
    tag: str


def files() -> dict[str, File]:
    """name -> file, for every file of `semel.faces.page` that a browser may ask for."""
    found = {}
    for path in resources.files("semel.faces.page").iterdir():
        suffix = path.name[path.name.rfind(".") :]
        if suffix in MEDIA:
            body = path.read_bytes()
            found[path.name] = File(body, MEDIA[suffix], f'"{hashlib.sha256(body).hexdigest()[:20]}"')
    return found


def operations() -> list[Operation]:
    have = files()

    async def index(call: Call) -> Response:
        return _serve(call, have["index.html"])

    async def asset(call: Call) -> Response:
        file = have.get(call.path("name"))
        if file is None:
            raise Problem("no-such-path", "The page has no such file.")
        return _serve(call, file)

    answers = {200: Answers("The page.", str, "text/html")}
    return [
        Operation(
            "GET", "/", "page", "The page.", index, answers, "page", access=Access.PAGE, documented=False
        ),
        Operation(
            "GET", "/page/{name}", "asset", "A file of the page.", asset, answers, "page",
            access=Access.PAGE, documented=False,
        ),
    ]  # fmt: skip


def _serve(call: Call, file: File) -> Response:
    headers = {"etag": file.tag, "cache-control": "no-cache"}
    if file.tag in call.request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers=headers, media_type=file.media)
