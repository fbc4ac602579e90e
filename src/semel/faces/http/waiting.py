"""What a gateway answers while it waits to take over from another one (`semel.faces.cluster`).

It is alive, but not ready: a load balancer asks the active gateway. Whoever asks this one all the same is answered by
the active one, if its address is known (`forwarding.py`). While nobody is active, it serves the page, which says that
there is no connection, keeps what is written, and goes on by itself.
"""

from __future__ import annotations

from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from semel.faces.http import static
from semel.faces.http.app import assemble_app
from semel.faces.http.cluster_routing import OF_AGENTS, OWN_PATHS
from semel.faces.http.forwarding import Forwarder, Unavailable
from semel.faces.http.routing import FORWARDED_BY, Operation, json_response
from semel.faces.http.security import Access, check_access
from semel.faces.http.settings import Settings
from semel.ledger.storage.cluster import ClusterGateway


def make_waiting_app(settings: Settings, forwarder: Forwarder) -> Starlette:
    """Build the ASGI application of a gateway that waits. `app.state.active` is the ClusterGateway that is active."""
    app = assemble_app(partial(_answer, settings=settings, forwarder=forwarder), settings)
    app.state.active = None
    return app


async def _answer(request: Request, operation: Operation, settings: Settings, forwarder: Forwarder) -> Response:
    if operation.path == "/healthz":
        return json_response({"ok": True})
    check_access(request, settings, operation.access)
    active: ClusterGateway | None = request.app.state.active
    is_forwarded = operation.path not in OWN_PATHS and operation.access not in OF_AGENTS
    if FORWARDED_BY in request.headers:
        raise Unavailable("This gateway waits; nothing was accepted.")
    if is_forwarded and active is not None and active.address is not None:
        body = await forwarder.read_body(request, operation)
        return await forwarder.forward(request, operation, active, body)
    if active is None and operation.access is Access.PAGE:
        return static.serve_file(request, request.path_params.get("name", "index.html"))
    if active is None:
        known = "This gateway waits for its place, and no other one is known"
        raise Unavailable(f"{known}; nothing was accepted. `semel status` says why.")
    where = f" at {active.address}" if active.address else ""
    raise Unavailable(
        f"This gateway waits to take over from the gateway {active.name}; nothing was accepted. Ask that one{where}."
    )
