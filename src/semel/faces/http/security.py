"""Who may knock: Host, Origin, token. And the headers that every answer carries.

The threats: a web page the owner visits (CSRF), a name that such a page makes point at us (DNS rebinding), other
users of this machine, and, beyond loopback, anybody on the network. A correct bearer token answers all of them: none
can know it. docs/security.md is the whole list.
A node's token opens one door only: events for the sessions it may report to.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import time

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semel.faces.http.problems import Problem
from semel.faces.http.settings import Node, Settings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""No inline script or style, nothing from elsewhere: what got past the sanitiser still cannot phone home."""

HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


class Access(enum.Enum):
    """What a path asks of those who call it."""

    OWNER = "owner"  # Host, Origin, and the token where one is demanded
    EVENTS = "events"  # the same, or a node's token for a session in its scope
    PAGE = "page"  # Host and Origin: the page's own files hold no secret, and logging in comes before the token
    SIGNED = "signed"  # the channel checks the platform's signature; a browser has no business here
    OPEN = "open"  # says only whether the gateway lives


def admit(request: Request, settings: Settings, access: Access) -> None:
    """Raises a Problem (400, 401, 403) unless this request may go on. One from a node is marked with it."""
    if "transfer-encoding" in request.headers and "content-length" in request.headers:
        # A proxy before us may go by the other one, and what follows then is not the request it takes it for.
        raise Problem("bad-request", "Send Content-Length or Transfer-Encoding.", headers={"Connection": "close"})
    if (node := node_of(request, settings)) is not None:
        _keep_to_scope(request, node, access)
        request.state.node = node
        return
    if access is Access.OPEN:
        return
    if access is Access.SIGNED:
        _refuse_browsers(request, settings)
        return
    if _bearer(request, settings):
        return
    _check_host(request, settings)
    _check_origin(request, settings)
    if access in (Access.OWNER, Access.EVENTS) and _must_show(request, settings) and not _logged_in(request, settings):
        raise no_token("Send the owner's token as `Authorization: Bearer …`, or log in on the page.")


def _must_show(request: Request, settings: Settings) -> bool:
    """Beyond loopback everybody; on it whoever is known to be another user of the machine (`neighbours.py`)."""
    return settings.demands_token or bool(getattr(request.state, "neighbour", False))


def no_token(detail: str) -> Problem:
    return Problem("no-token", detail, headers={"WWW-Authenticate": 'Bearer realm="semel"'})


def _bearer(request: Request, settings: Settings) -> bool:
    """True for the right token. A wrong one is an error even where none is demanded."""
    if "authorization" not in request.headers:
        return False
    given = _given(request)
    if not given or not settings.token or not same(given, settings.token):
        raise no_token(
            "That is not the owner's token, nor a node's. The owner's is in the file owner.token of the data directory."
        )
    return True


def _given(request: Request) -> str:
    """The bearer token of a request, or nothing."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def node_of(request: Request, settings: Settings) -> Node | None:
    """The node whose token this is. All are compared, each in constant time."""
    if not settings.nodes or not (given := _given(request)):
        return None
    matching = [node for node in settings.nodes if same(given, node.token)]
    return matching[0] if matching else None


def _keep_to_scope(request: Request, node: Node, access: Access) -> None:
    if access is not Access.EVENTS:
        raise Problem("node-scope", f"The token of node {node.name!r} is for POST /v1/sessions/{{key}}/events only.")
    if not node.may_report_to(str(request.path_params["key"])):
        scope = ", ".join(node.sessions) or "no session"
        raise Problem(
            "node-scope",
            f"Node {node.name!r} may report to: {scope}. Its `sessions` are in [nodes.{node.name}] of semel.toml.",
        )


def same(given: str, kept: str) -> bool:
    return hmac.compare_digest(given.encode(), kept.encode())


# ---------------------------------------------------------------- host and origin


def host_name(netloc: str) -> str:
    """`name:port`, `[v6]:port` or either without port -> the name, lower case."""
    if netloc.startswith("["):
        return netloc.partition("]")[0].lower() + "]"
    return netloc.partition(":")[0].lower()


def _check_host(request: Request, settings: Settings) -> None:
    host = request.headers.get("host", "")
    if not settings.knows_host(host_name(host)):
        raise Problem(
            "foreign-host",
            f"{host!r} is not a name of this gateway. Use its own address, send the token as a bearer token, "
            "or add the name to `hosts` in the [gateway] section of semel.toml.",
        )


def _check_origin(request: Request, settings: Settings) -> None:
    """Where a browser says who is asking, only our own page may (Origin; Fetch Metadata, W3C)."""
    origin = request.headers.get("origin")
    if origin is not None:
        if _origin_host(origin) != request.headers.get("host", "").lower():
            raise _foreign(origin)
        return
    site = request.headers.get("sec-fetch-site")
    visiting = request.method in SAFE_METHODS and request.headers.get("sec-fetch-mode") == "navigate"
    if site not in (None, "same-origin", "none") and not visiting:
        raise _foreign(site or "")


def _refuse_browsers(request: Request, settings: Settings) -> None:
    origin = request.headers.get("origin")
    if origin is not None and not settings.knows_host(host_name(_origin_host(origin))):
        raise _foreign(origin)
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        raise _foreign("a page of another site")


def _origin_host(origin: str) -> str:
    return origin.partition("://")[2].lower()


def _foreign(who: str) -> Problem:
    return Problem("foreign-origin", f"The request comes from {who!r}; only the gateway's own page may do this.")


# ---------------------------------------------------------------- the page's login


def cookie_name(settings: Settings) -> str:
    """Cookies do not see ports: two gateways on one host must not overwrite each other's login."""
    return "semel_" + hashlib.sha256(f"name {settings.token}".encode()).hexdigest()[:8]


def login_cookie(settings: Settings, now: float) -> str:
    """`<expiry>.<mac>`: it proves the token without holding it, and ends when the token is changed."""
    expiry = str(int(now + settings.login_life))
    return f"{expiry}.{_mac(settings, expiry)}"


def _logged_in(request: Request, settings: Settings) -> bool:
    expiry, _, mac = request.cookies.get(cookie_name(settings), "").partition(".")
    if not settings.token or not expiry.isascii() or not expiry.isdigit() or not same(mac, _mac(settings, expiry)):
        return False
    return int(expiry) > time.time()


def _mac(settings: Settings, expiry: str) -> str:
    key = (settings.token or "").encode()
    return hmac.new(key, f"semel login {expiry}".encode(), hashlib.sha256).hexdigest()


# ---------------------------------------------------------------- headers


_RAW = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class SecurityHeaders:
    """Adds HEADERS to every answer that does not bring its own."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", ()))
                have = {name.lower() for name, _ in own}
                message["headers"] = [*own, *(one for one in _RAW if one[0] not in have)]
            await send(message)

        await self.app(scope, receive, dressed)
