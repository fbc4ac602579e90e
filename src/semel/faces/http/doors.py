"""Operations that are not about sessions: incoming webhooks, stored files, health, metrics, the page's login."""

from __future__ import annotations

import asyncio
import os
import re
import time
from typing import Any, BinaryIO

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from semel.faces.http import security, shapes
from semel.faces.http.problems import MEDIA, Problem, refused
from semel.faces.http.security import Access
from semel.faces.http.table import Answers, Call, Operation, json
from semel.gateway.files import StoreFailed, open_stored
from semel.text.invisible import JOINERS, seen

INLINE_MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types that a browser may display, because they cannot hold scripts. All others are sent as downloads."""

BLOB_POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"


async def hook(call: Call) -> Response:
    status, body = await call.gateway.hook(call.path("channel"), dict(call.request.headers), call.body)
    if status >= 400:
        more = {name: value for name, value in body.items() if name not in ("type", "title", "status", "detail")}
        return refused(status, str(body.get("detail") or body.get("title") or ""), more=more)
    return json(body, status)


async def blob(call: Call) -> Response:
    path, name, mime = await call.gateway.blob(call.path("id"))
    try:
        opened = await asyncio.to_thread(open_stored, path)
    except StoreFailed:
        raise Problem("not-found", "The file is not in the store any more.") from None
    return OpenFileResponse(
        opened,
        media_type=mime,
        filename=_plain_name(name),
        content_disposition_type="inline" if mime in INLINE_MEDIA_TYPES else "attachment",
        headers={
            "content-security-policy": BLOB_POLICY,
            "cache-control": "private, max-age=86400, immutable",
        },
    )


class OpenFileResponse(FileResponse):
    """Sends an open file by its descriptor: the checked file is sent even if its path is replaced meanwhile."""

    def __init__(self, opened: BinaryIO, **more: Any):
        super().__init__(f"/dev/fd/{opened.fileno()}", stat_result=os.fstat(opened.fileno()), **more)
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._opened:
            await super().__call__(scope, receive, send)


def _plain_name(name: str) -> str:
    return seen(re.sub(r'[\x00-\x1f\x7f/\\"]', "_", name), JOINERS)[-200:] or "file"


async def health(call: Call) -> Response:
    try:
        async with asyncio.timeout(5):
            await call.gateway.status()
    except TimeoutError:
        raise Problem("unavailable", "The ledger does not answer.", headers={"Retry-After": "5"}) from None
    return json(shapes.Health(True))


async def metrics(call: Call) -> Response:
    values = await call.gateway.metrics()
    return Response(exposition(values), media_type="text/plain; version=0.0.4; charset=utf-8")


def exposition(values: dict[str, float]) -> str:
    """Metrics in Prometheus text format 0.0.4. Keys are `name` or `name{label="value"}`; `…_total` is a counter."""
    lines: list[str] = []
    typed: set[str] = set()
    for key in sorted(values):
        name = key.partition("{")[0]
        if name not in typed:
            typed.add(name)
            lines.append(f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}")
        lines.append(f"{key} {_number(values[key])}")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


async def login(call: Call) -> Response:
    settings = call.settings
    if not settings.token or not security.same(call.body.token.strip(), settings.token):
        raise security.no_token("That is not the owner's token. It is in the file owner.token of the data directory.")
    response = Response(status_code=204)
    response.set_cookie(
        security.cookie_name(settings),
        security.login_cookie(settings, time.time()),
        max_age=int(settings.login_life),
        secure=_over_tls(call.request),
        httponly=True,
        samesite="strict",
    )
    return response


def _over_tls(request: Request) -> bool:
    """Whether the browser used https. A proxy may terminate TLS; then only the Origin header shows it."""
    return request.url.scheme == "https" or request.headers.get("origin", "").lower().startswith("https://")


async def logout(call: Call) -> Response:
    response = Response(status_code=204)
    response.delete_cookie(security.cookie_name(call.settings), httponly=True, samesite="strict")
    return response


_ANY = dict[str, Any]

OPERATIONS = [
    Operation(
        "POST",
        "/v1/hooks/{channel}",
        "hook",
        "Where a platform delivers. The channel checks the signature and decides the answer.",
        hook,
        {
            200: Answers("Taken, or already known.", _ANY),
            202: Answers("Taken, after the commit.", _ANY),
            400: Answers("It cannot be read.", None, MEDIA),
            401: Answers("The signature is missing or wrong.", None, MEDIA),
            404: Answers("There is no such channel.", None, MEDIA),
            409: Answers("The id was used before, with other content.", None, MEDIA),
        },
        "doors",
        raw_body=True,
        errors=("unavailable",),
        access=Access.SIGNED,
    ),
    Operation(
        "GET",
        "/v1/blobs/{id}",
        "readBlob",
        "A file that was sent. Only plain images are shown in place.",
        blob,
        {200: Answers("The file.", str, "application/octet-stream")},
        "read",
        errors=("bad-request", "not-found"),
    ),
    Operation(
        "POST",
        "/v1/login",
        "login",
        "Exchange the token for the page's cookie (HttpOnly, SameSite=Strict).",
        login,
        {204: Answers("The cookie is set.")},
        "doors",
        body=shapes.Login,
        access=Access.PAGE,
    ),
    Operation(
        "POST",
        "/v1/logout",
        "logout",
        "Forget the page's cookie.",
        logout,
        {204: Answers("The cookie is gone.")},
        "doors",
        access=Access.PAGE,
    ),
    Operation(
        "GET",
        "/healthz",
        "health",
        "Whether the gateway and its ledger answer.",
        health,
        {200: Answers("They do.", shapes.Health)},
        "doors",
        errors=("unavailable",),
        access=Access.OPEN,
    ),
    Operation(
        "GET",
        "/metrics",
        "metrics",
        "Prometheus text.",
        metrics,
        {200: Answers("The numbers.", str, "text/plain")},
        "doors",
    ),
]
