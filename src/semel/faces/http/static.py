"""Serve the web page's files, which are read from the package once.

`scripts/build_page.py` builds them from `web/`. Names change with the files' content, so a browser keeps those files
for good; it asks again for `index.html` and the few others whose name is known elsewhere (`UNCHANGED_NAMES`). Each has
its gzip beside it.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import Annotated

from starlette.requests import Request
from starlette.responses import Response

from semel.faces.http.problems import Problem
from semel.faces.http.routing import ApiCall, Param, Returns, Router
from semel.faces.http.security import Access

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}
UNCHANGED_NAMES = frozenset(
    {"index.html", "licenses.txt", "worker.js", "manifest.webmanifest", "icon-192.png", "icon-512.png"}
)
"""Files whose name stays when their content changes: a browser asks each time whether it did."""

KEEP_S = 31_536_000  # a year, as long as HTTP caches keep anything (RFC 9111)


@dataclass(frozen=True)
class PageFile:
    body: bytes
    packed: bytes | None  # gzip; `None` if that is no shorter
    media_type: str
    etag: str
    cache_control: str


@functools.cache
def load_files() -> dict[str, PageFile]:
    """Return every file of the built page that a browser may ask for, by name. Empty if the page was never built."""
    folder = resources.files("semel.faces.page") / "dist"
    if not folder.is_dir():
        return {}
    loaded = {path.name: path.read_bytes() for path in folder.iterdir()}
    files = {}
    for name, body in loaded.items():
        suffix = name[name.rfind(".") :]
        if suffix in MEDIA_TYPES:
            etag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
            keep = "no-cache" if name in UNCHANGED_NAMES else f"public, max-age={KEEP_S}, immutable"
            files[name] = PageFile(body, loaded.get(f"{name}.gz"), MEDIA_TYPES[suffix], etag, keep)
    return files


router = Router("page")
_PAGE = Returns("The page.", str, "text/html")


@router.route("GET", "/", _PAGE, access=Access.PAGE, documented=False)
async def page(call: ApiCall) -> Response:
    """The page."""
    return serve_file(call.request, "index.html")


@router.route("GET", "/page/{name}", _PAGE, access=Access.PAGE, documented=False)
async def asset(call: ApiCall, name: Annotated[str, Param("The file's name.")]) -> Response:
    """A file of the page."""
    return serve_file(call.request, name)


def serve_file(request: Request, name: str) -> Response:
    """Return a file of the page. Raises Problem."""
    if not load_files():
        raise Problem("unavailable", "The page is not built. In a clone of Semel: `make page`, then start it again.")
    file = load_files().get(name)
    if file is None:
        raise Problem("no-such-path", "The page has no such file. If it was open during an upgrade, load it again.")
    headers = {"etag": file.etag, "cache-control": file.cache_control, "vary": "accept-encoding"}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if file.packed is not None and _takes_gzip(request.headers.get("accept-encoding", "")):
        headers |= {"content-encoding": "gzip"}
        return Response(file.packed, headers=headers, media_type=file.media_type)
    return Response(file.body, headers=headers, media_type=file.media_type)


def _takes_gzip(accepted: str) -> bool:
    """Whether a request's `Accept-Encoding` allows gzip (RFC 9110, 12.5.3)."""
    codings = [coding.replace(" ", "").lower() for coding in accepted.split(",")]
    return any(coding.split(";")[0] == "gzip" and not coding.endswith((";q=0", ";q=0.0")) for coding in codings)
