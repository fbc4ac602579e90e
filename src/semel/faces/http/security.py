"""Who may knock: Host, Origin, token. And the headers that every answer carries.

The threats: a web page the owner visits (CSRF), a name that such a page makes point at us (DNS rebinding),
and, beyond loopback, anybody on the network. A correct bearer token answers all three: no page can know it.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semel.faces.http.problems import Problem
from semel.faces.http.settings import Settings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
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
    PAGE = "page"  # Host and Origin: the page's own files hold no secret, and logging in comes before the token
    SIGNED = "signed"  # the channel checks the platform's signature; a browser has no business here
    OPEN = "open"  # says only whether the gateway lives


def admit(request: Request, settings: Settings, access: Access) -> None:
    """Raises a Problem (401, 403) unless this request may go on."""
    if access is Access.OPEN:
        return
    if access is Access.SIGNED:
        _refuse_browsers(request, settings)
        return
    if _bearer(request, settings):
        return
    _check_host(request, settings)
    _check_origin(request, settings)
    if access is Access.OWNER and settings.demands_token and not _logged_in(request, settings):
        raise no_token("Send the owner's token as `Authorization: Bearer …`, or log in on the page.")


def no_token(detail: str) -> Problem:
    return Problem("no-token", detail, headers={"WWW-Authenticate": 'Bearer realm="semel"'})


def _bearer(request: Request, settings: Settings) -> bool:
    """True for the right token. A wrong one is an error even where none is demanded."""
    header = request.headers.get("authorization")
    if header is None:
        return False
    scheme, _, given = header.partition(" ")
    if scheme.lower() != "bearer" or not settings.token or not same(given.strip(), settings.token):
        raise no_token("That is not the owner's token. It is in the file owner.token of the data directory.")
    return True


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
    if not expiry.isascii() or not expiry.isdigit() or not same(mac, _mac(settings, expiry)):
        return False
    return int(expiry) > time.time()


def _mac(settings: Settings, expiry: str) -> str:
    key = (settings.token or "").encode()
    return hmac.new(key, f"semel login {expiry}".encode(), hashlib.sha256).hexdigest()


# ---------------------------------------------------------------- headers


class SecurityHeaders:
    """Adds HEADERS to every answer that does not bring its own."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                have = Headers(raw=message["headers"])
                for name, value in HEADERS.items():
                    if name not in have:
                        headers[name] = value
            await send(message)

        await self.app(scope, receive, dressed)
