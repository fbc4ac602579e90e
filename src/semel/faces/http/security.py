"""Access checks by Host, Origin and token, and the security headers of every answer.

The threats: a web page that the owner visits (CSRF), a host name that such a page points at the gateway (DNS
rebinding), other users of this machine and, beyond loopback, anybody on the network. None of them knows the bearer
token, so a request with the right token needs no further check. A node's token is good only for reporting events to the
sessions in its scope. docs/security.md has the whole list.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import hashlib
import hmac
import json
import math
import os
import socket
import time

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semel.faces.http.problems import Problem
from semel.faces.http.settings import NodeSettings, Settings, host_name, is_loopback
from semel.text.wellformed import shorten_to_line
from semel.tools.sockets import find_socket_uid

log = structlog.get_logger("semel.http")

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

REFUSAL_LOG_INTERVAL_S = 60.0
MAX_LOGGED_CHARS = 200  # of an origin

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Forbids inline scripts and styles, and other origins: text that got past the sanitiser cannot contact other hosts."""

SECURITY_HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


_DEMAND_TOKEN = {"WWW-Authenticate": 'Bearer realm="semel"'}

CAME_BY_UNIX_SOCKET = "local"
"""Key in a request's state. It is set if the request came over the unix socket, so from the gateway's own user."""


class Access(enum.Enum):
    """What an operation demands of its caller."""

    OWNER = "owner"  # Host, Origin, and the token where one is demanded
    EVENTS = "events"  # the same, or a node's token for a session in its scope
    PAGE = "page"  # Host and Origin only: the page's files hold no secret, and a login cannot need a login
    SPAWN = "spawn"  # the unix socket alone; the handler checks the spawn's fencing token (Law 10)
    LOOPBACK_SPAWN = "loopback spawn"  # the same, or the gateway's own user over loopback
    SIGNED = "signed"  # the channel checks the platform's signature; requests of foreign web pages are refused
    OPEN = "open"  # nothing; only for answers that reveal no more than whether the gateway is alive


class WrongToken(Problem):
    """A request shows a token, or the code of a login link, that is not one of this gateway."""

    def __init__(self, detail: str) -> None:
        super().__init__("no-token", detail, headers=_DEMAND_TOKEN)


def check_access(request: Request, settings: Settings, access: Access) -> None:
    """Raise a Problem (400, 401, 403) unless the request is allowed. Sets `request.state.node` for a node's request."""
    if "transfer-encoding" in request.headers and "content-length" in request.headers:
        # Request smuggling: a proxy may use the other header, and see the next request begin elsewhere.
        detail, closing = "Send Content-Length or Transfer-Encoding.", {"Connection": "close"}
        raise Problem("bad-field", detail, headers=closing, field="Transfer-Encoding")
    local = getattr(request.state, CAME_BY_UNIX_SOCKET, False)
    if access is Access.SPAWN:
        if not local:
            raise Problem("no-such-path", "See /v1/openapi.json for what there is.")
        return
    if access is Access.LOOPBACK_SPAWN:
        if not local:
            _check_loopback(request, settings)
        return
    if (node := find_node(request, settings)) is not None:
        request.state.node = node
        _check_scope(request, node, access)
        return
    if access is Access.OPEN:
        return
    if access is Access.SIGNED:
        _refuse_browsers(request, settings)
        return
    if _has_owner_token(request, settings) or local:
        return
    _check_host(request, settings)
    _check_origin(request, settings)
    if (
        access in (Access.OWNER, Access.EVENTS)
        and _needs_token(request, settings)
        and not _is_logged_in(request, settings)
    ):
        raise no_token_problem("Send the owner's token as `Authorization: Bearer …`, or log in on the page.")


def _needs_token(request: Request, settings: Settings) -> bool:
    """Whether a token is needed: from beyond loopback, from another user of the machine, and through a proxy.

    A name in `hosts` belongs to a proxy. Whoever it lets in may be anybody, even if it runs as the gateway's own user.
    """
    came_by_proxy = settings.token is not None and host_name(request.headers.get("host", "")) in settings.host_names
    return settings.demands_token or came_by_proxy or bool(getattr(request.state, "other_user", False))


def no_token_problem(detail: str) -> Problem:
    return Problem("no-token", detail, headers=_DEMAND_TOKEN)


def _has_owner_token(request: Request, settings: Settings) -> bool:
    """Whether the request has the owner's token. Raises a Problem for a wrong one, even if none is needed."""
    if "authorization" not in request.headers:
        return False
    token = get_bearer_token(request)
    if not token or not settings.token or not secrets_match(token, settings.token):
        raise WrongToken(
            "That is not the owner's token, nor a node's: the owner's is in the file owner.token of the data directory,"
            " a node's is named in its [nodes.NAME] of semel.toml."
        )
    return True


def get_bearer_token(request: Request) -> str:
    """Return the bearer token of a request; "" if it has none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def find_node(request: Request, settings: Settings) -> NodeSettings | None:
    """Return the node whose token the request has, or `None`. Compares with all tokens, each in constant time."""
    if not settings.nodes or not (token := get_bearer_token(request)):
        return None
    matching = [node for node in settings.nodes if secrets_match(token, node.token)]
    return matching[0] if matching else None


def _check_scope(request: Request, node: NodeSettings, access: Access) -> None:
    if access is not Access.EVENTS:
        raise Problem("node-scope", f"The token of node {node.name!r} is for POST /v1/sessions/{{key}}/events only.")
    if not node.may_report_to(str(request.path_params["key"])):
        scope = ", ".join(node.sessions) or "no session"
        raise Problem(
            "node-scope",
            f"Node {node.name!r} may report to: {scope}. Its `sessions` are in [nodes.{node.name}] of semel.toml.",
        )


def secrets_match(received: str, expected: str) -> bool:
    return hmac.compare_digest(received.encode(), expected.encode())


# ---------------------------------------------------------------- host and origin


def _check_host(request: Request, settings: Settings) -> None:
    host = request.headers.get("host", "")
    if not settings.knows_host(host_name(host)):
        own_port = (request.scope.get("server") or ("", None))[1]
        raise Problem(
            "foreign-host",
            f"{host!r} is not a name of this gateway. Use its own address, send the token as a bearer token, or add it "
            f"to `hosts` in the [gateway] section of semel.toml, written as {json.dumps(_write_host(host, own_port))}.",
        )


def _write_host(host: str, own_port: int | None) -> str:
    """Return a request's host as it is written in `hosts`: with the port, which links need, if a proxy's is unusual.

    `own_port`: that of the gateway, which is no proxy's.
    """
    name = host_name(host)
    port = host[len(name) :].lstrip(".").removeprefix(":") if len(host) > len(name) else ""
    is_unusual = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) not in (80, 443, own_port)
    return f"{name}:{port}" if is_unusual else name


def _check_origin(request: Request, settings: Settings) -> None:
    """Refuse requests of other web pages, by the Origin header or Fetch Metadata (W3C). Non-browsers send neither."""
    origin = request.headers.get("origin")
    if origin is not None:
        if origin in settings.origins:
            raise no_token_problem("A page of another origin must send the owner's token as `Authorization: Bearer …`.")
        if _origin_host(origin) != request.headers.get("host", "").lower():
            raise refuse_origin(origin)
        return
    site = request.headers.get("sec-fetch-site")
    is_navigation = request.method in SAFE_METHODS and request.headers.get("sec-fetch-mode") == "navigate"
    if site not in (None, "same-origin", "none") and not is_navigation:
        raise foreign_origin_problem(site or "")


def _check_loopback(request: Request, settings: Settings) -> None:
    """Refuse a request that does not come from the gateway's own user on this machine, or that a browser sent."""
    _check_host(request, settings)
    _refuse_browsers(request, settings)
    peer = request.client.host if request.client else ""
    is_local = is_loopback(peer) and is_loopback(host_name(request.headers.get("host", "")))
    if not is_local or getattr(request.state, "other_user", False):
        raise Problem("no-such-path", "See /v1/openapi.json for what there is.")


def _refuse_browsers(request: Request, settings: Settings) -> None:
    origin = request.headers.get("origin")
    if origin is not None and not settings.knows_host(host_name(_origin_host(origin))):
        raise foreign_origin_problem(origin)
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        raise foreign_origin_problem("a page of another site")


def _origin_host(origin: str) -> str:
    return origin.partition("://")[2].lower()


class RefusalLog:
    """Logs refused origins, so that the owner learns the setting that a page needs: its browser hides the answer.

    Logs at most one line a minute, because any web page can cause refusals.
    """

    def __init__(self) -> None:
        self.logged_at = -math.inf  # by the monotonic clock
        self._unlogged = 0

    def add(self, origin: str) -> None:
        if time.monotonic() < self.logged_at + REFUSAL_LOG_INTERVAL_S:
            self._unlogged += 1
            return
        others = {"refused_since_the_last_line": self._unlogged} if self._unlogged else {}
        self.logged_at, self._unlogged = time.monotonic(), 0
        log.warning(
            "a web page of another origin was refused; to let it in, add its origin to `origins` in [gateway]",
            origin=shorten_to_line(origin, MAX_LOGGED_CHARS),
            **others,
        )


refusal_log = RefusalLog()


def refuse_origin(origin: str) -> Problem:
    """Return the problem for a page of another origin that may be added to `origins`, and log the origin."""
    refusal_log.add(origin)
    return foreign_origin_problem(origin)


def foreign_origin_problem(origin: str) -> Problem:
    return Problem(
        "foreign-origin",
        f"The request comes from {origin!r}; only the gateway's own page may do this. To let a page of another origin "
        "use the API with the owner's token, add its origin to `origins` in the [gateway] section of semel.toml.",
    )


# ---------------------------------------------------------------- other users of this machine


def is_of_another_user(transport: asyncio.Transport) -> bool:
    """Whether a loopback connection comes from another user of this machine, or from a user who cannot be identified.

    False for all other connections, and on systems that do not show the owner of a socket.

    Every user of a machine can connect to loopback. If no token were needed there, each of them would act as the owner,
    for instance an agent that runs under its own user id for isolation. Linux shows which user owns the other socket
    (`tools/sockets.py`). On other systems this is unknown, and loopback stays open to all users.
    """
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    try:
        own_address, peer_address = sock.getsockname(), sock.getpeername()
    except OSError:  # the connection is closed already
        return True
    if not is_loopback(own_address[0]) or not can_identify_owner():
        return False
    return find_socket_uid(sock.family, peer_address[:2], own_address[:2]) != own_uid()


@functools.cache
def can_identify_owner() -> bool:
    """Whether this system shows which user owns a connection. Tested once, with a connection to ourselves."""
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=1.0) as client,
        ):
            return find_socket_uid(socket.AF_INET, client.getsockname(), client.getpeername()) == os.geteuid()
    except OSError:
        return False


def own_uid() -> int:
    return os.geteuid()


# ---------------------------------------------------------------- the page's login


def cookie_name(settings: Settings) -> str:
    """Return the login cookie's name. It is unique per gateway, because all gateways on a host share their cookies."""
    return "semel_" + hashlib.sha256(f"name {settings.token}".encode()).hexdigest()[:8]


def login_cookie(settings: Settings, now: float) -> str:
    """Make the login cookie's value, `<expiry>.<mac>`. It proves knowledge of the token without containing it.

    A new token makes it invalid. `now`: seconds since the epoch.
    """
    expiry = str(int(now + settings.login_life))
    return f"{expiry}.{_sign(settings, expiry)}"


def _is_logged_in(request: Request, settings: Settings) -> bool:
    expiry, _, mac = request.cookies.get(cookie_name(settings), "").partition(".")
    if (
        not settings.token
        or not expiry.isascii()
        or not expiry.isdigit()
        or not secrets_match(mac, _sign(settings, expiry))
    ):
        return False
    return int(expiry) > time.time()


def _sign(settings: Settings, expiry: str) -> str:
    key = (settings.token or "").encode()
    return hmac.new(key, f"semel login {expiry}".encode(), hashlib.sha256).hexdigest()


# ---------------------------------------------------------------- headers


_RAW_HEADERS = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


class SecurityHeaders:
    """Middleware that adds each of SECURITY_HEADERS to a response, unless the response already has that header."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                names = {name.lower() for name, _ in headers}
                message["headers"] = [*headers, *(header for header in _RAW_HEADERS if header[0] not in names)]
            await send(message)

        await self.app(scope, receive, send_with_headers)
