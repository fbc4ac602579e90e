"""Let web pages of the origins in `origins` use the API (CORS, WHATWG Fetch 3.2).

Such a page must send the owner's token as a bearer token. Credentials are never allowed: the login cookie is only for
the gateway's own page (`security.check_access` refuses it from elsewhere).
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semel.faces.http.security import refuse_origin

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
OPENAI_CLIENT_HEADERS = tuple(
    f"X-Stainless-{name}"
    for name in ("Arch", "Lang", "OS", "Package-Version", "Retry-Count", "Runtime", "Runtime-Version", "Timeout")
)
"""What OpenAI's own library sends with each request (docs/openai-api.md)."""
REQUEST_HEADERS = (
    "Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "X-OpenWebUI-Chat-Id", "X-Semel-Progress",
    "X-Semel-Session", *OPENAI_CLIENT_HEADERS,
)  # fmt: skip
EXPOSED_HEADERS = (
    "Allow", "Content-Disposition", "Retry-After", "WWW-Authenticate", "X-Request-Id", "X-Semel-Ignored",
    "X-Semel-Session",
)  # fmt: skip
PREFLIGHT_LIFE_S = 600


class AllowedOrigins:
    """Middleware that answers preflights, and lets pages of `origins` read answers. Origins are compared exactly."""

    def __init__(self, app: ASGIApp, origins: Collection[str]):
        self.app = app
        self.origins = frozenset(origins)
        self._cors = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=METHODS,
            allow_headers=REQUEST_HEADERS,
            expose_headers=EXPOSED_HEADERS,
            max_age=PREFLIGHT_LIFE_S,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin in self.origins:
            await self._cors(scope, receive, send)
        elif origin is not None and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await refuse_origin(origin).response()(scope, receive, send)
        else:
            await self.app(scope, receive, self._add_vary_header(send))

    def _add_vary_header(self, send: Send) -> Send:
        """Return a `send` that tells caches that the answer would differ for another page."""

        async def send_varied(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).add_vary_header("Origin")
            await send(message)

        return send_varied if self.origins else send
