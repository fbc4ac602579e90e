"""The ASGI application: all operations, the web page and the middleware."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from semel.faces.http import static
from semel.faces.http.cors import AllowedOrigins
from semel.faces.http.login_codes import LoginCodes
from semel.faces.http.operations import agent_tools, operations
from semel.faces.http.problems import KNOWN_ERRORS, CatchAll, make_exception_handler
from semel.faces.http.routing import Operation, handle, make_routes
from semel.faces.http.security import SecurityHeaders
from semel.faces.http.settings import Settings

if TYPE_CHECKING:
    from semel.faces.http.forwarding import Forwarder
    from semel.gateway.api.gateway import Gateway
    from semel.gateway.seats import Seats


def make_app(gateway: Gateway, settings: Settings, declared: Sequence[Operation] = ()) -> Starlette:
    """Build the ASGI application for a gateway. `declared`: the operations to serve; by default all.

    Setting `app.state.stopping` ends its open streams. `app.state.page_urls` is where browsers reach the page.
    """
    return assemble_app(partial(handle, gateway=gateway, settings=settings), settings, declared)


def make_cluster_app(gateway: Gateway, seats: Seats, settings: Settings, forwarder: Forwarder) -> Starlette:
    """Build the ASGI application for a gateway that shares its ledger with others."""
    from semel.faces.http.cluster_routing import ClusterRouting

    return assemble_app(ClusterRouting(gateway, seats, settings, forwarder).answer, settings)


def assemble_app(
    answer: Callable[[Request, Operation], Awaitable[Response]], settings: Settings, declared: Sequence[Operation] = ()
) -> Starlette:
    """Build an ASGI application with the routes and the middleware of a gateway. `answer`: answers a request."""
    declared = declared or [*agent_tools.router.operations, *operations(), *static.router.operations]
    formats = {operation.error_format for operation in declared if operation.error_format is not None}
    app = Starlette(
        routes=make_routes(declared, answer),
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(AllowedOrigins, origins=settings.origins),
            Middleware(CatchAll),
        ],
        exception_handlers=dict.fromkeys(KNOWN_ERRORS, make_exception_handler(formats)),
    )
    app.router.redirect_slashes = False
    app.state.stopping = asyncio.Event()
    app.state.login_codes = LoginCodes()
    app.state.page_urls = []
    return app
