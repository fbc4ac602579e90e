"""What a gateway answers while it waits to take over from another one (`semel.faces.cluster`).

It is alive, but not ready: a load balancer sends people to the active gateway. Browsers are sent there, too, if its
address is known.
"""

from __future__ import annotations

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from semel.faces.http.problems import Problem
from semel.faces.http.routing import json_response
from semel.ledger.storage.cluster import ClusterGateway

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
RETRY_AFTER_S = 2


def make_waiting_app() -> Starlette:
    """Build the ASGI application of a gateway that waits. `app.state.active` is the ClusterGateway that is active."""
    app = Starlette(
        routes=[Route("/healthz", _answer_health), Route("/{path:path}", _refuse_request, methods=METHODS)],
    )
    app.state.stopping = asyncio.Event()
    app.state.active = None
    return app


async def _answer_health(request: Request) -> Response:
    return json_response({"ok": True})


async def _refuse_request(request: Request) -> Response:
    active: ClusterGateway | None = request.app.state.active
    address = None if active is None else active.address
    is_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    if address is not None and is_page:
        return RedirectResponse(f"{address.rstrip('/')}{request.url.path}", 307, headers={"Cache-Control": "no-store"})
    other = "another gateway" if active is None else f"the gateway {active.name}"
    where = f" at {address}" if address is not None else ""
    text = f"This gateway waits to take over from {other}; nothing was accepted. Ask that one{where}."
    return Problem("unavailable", text, headers={"Retry-After": str(RETRY_AFTER_S)}).response()
