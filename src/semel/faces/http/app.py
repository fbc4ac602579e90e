"""The ASGI application: all operations, the web page and the middleware."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware

from semel.faces.http import static
from semel.faces.http.cors import AllowedOrigins
from semel.faces.http.login_codes import LoginCodes
from semel.faces.http.operations import agent_tools, operations
from semel.faces.http.problems import KNOWN_ERRORS, CatchAll, make_exception_handler
from semel.faces.http.routing import Operation, make_routes
from semel.faces.http.security import SecurityHeaders
from semel.faces.http.settings import Settings

if TYPE_CHECKING:
    from semel.gateway.api.gateway import Gateway


def make_app(gateway: Gateway, settings: Settings, declared: Sequence[Operation] = ()) -> Starlette:
    """Build the ASGI application for a gateway. `declared`: the operations to serve; by default all.

    Setting `app.state.stopping` ends its open streams. `app.state.page_urls` is where browsers reach the page.
    """
    declared = declared or [*agent_tools.router.operations, *operations(), *static.router.operations]
    formats = {operation.error_format for operation in declared if operation.error_format is not None}
    app = Starlette(
        routes=make_routes(declared, gateway, settings),
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
