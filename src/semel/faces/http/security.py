"""Access checks by Host, Origin and token, and the security headers of every answer.

The threats: a web page that the owner visits (CSRF), a host name that such a page points at the gateway (DNS
rebinding), other users of this machine and, beyond loopback, anybody on the network. None of them knows the bearer
token, so a request with the right token needs no further check. A node's token is good only for reporting events to the
sessions in its scope. docs/security.md has the whole list.
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
"""No inline scripts or styles, no other origins: text that got past the sanitiser still cannot contact other hosts."""

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
    """What an operation demands of its caller."""

    OWNER = "owner"  # Host, Origin, and the token where one is demanded
    EVENTS = "events"  # the same, or a node's token for a session in its scope
    PAGE = "page"  # Host and Origin: the page's own files hold no secret, and logging in comes before the token
    SIGNED = "signed"  # the channel checks the platform's signature; requests of foreign web pages are refused
    OPEN = "open"  # nothing; only for answers that reveal no more than whether the gateway is alive


def admit(request: Request, settings: Settings, access: Access) -> None:
    """Raise a Problem (400, 401, 403) unless the request is allowed. Sets `request.state.node` for a node's request."""
    if "transfer-encoding" in request.headers and "content-length" in request.headers:
        # Request smuggling: a proxy may use the other header, and see the next request begin elsewhere.
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
    """Whether a token is needed: always beyond loopback; on it, for other users of the machine (`neighbours.py`)."""
    return settings.demands_token or bool(getattr(request.state, "neighbour", False))


def no_token(detail: str) -> Problem:
    return Problem("no-token", detail, headers={"WWW-Authenticate": 'Bearer realm="semel"'})


def _bearer(request: Request, settings: Settings) -> bool:
    """Whether the request has the owner's token. Raises a Problem for a wrong one, even if none is needed."""
    if "authorization" not in request.headers:
        return False
    given = _get_bearer_token(request)
    if not given or not settings.token or not same(given, settings.token):
        raise no_token(
            "That is not the owner's token, nor a node's. The owner's is in the file owner.token of the data directory."
        )
    return True


def _get_bearer_token(request: Request) -> str:
    """The bearer token of a request, or ""."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def node_of(request: Request, settings: Settings) -> Node | None:
    """The node whose token the request carries, or `None`. Compares with all tokens, each in constant time."""
    if not settings.nodes or not (given := _get_bearer_token(request)):
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
    """Refuse requests of other web pages, by the Origin header or Fetch Metadata (W3C). Non-browsers send neither."""
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
    """A cookie name of this gateway's own: cookies ignore ports, and two gateways on a host must not share one."""
    return "semel_" + hashlib.sha256(f"name {settings.token}".encode()).hexdigest()[:8]


def login_cookie(settings: Settings, now: float) -> str:
    """`<expiry>.<mac>`: proves knowledge of the token without containing it; a new token invalidates it."""
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
