"""Operations: log the web page in and out with a cookie that proves knowledge of the token."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct
from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import Response

from semel.faces.http import security
from semel.faces.http.routing import FORWARDED_BY, ApiCall, RequestBody, Returns, Router, json_response
from semel.faces.http.security import Access

router = Router("doors")


class Login(RequestBody):
    """Either the owner's token, or the `code` of a login link, which works once."""

    token: str = ""
    code: str = ""


class LoginLink(Struct):
    """A code for `POST /v1/login`. `expires` is milliseconds since 1970. `links` are the page's addresses with it."""

    code: str
    expires: int
    links: list[str]


@router.route("POST", "/v1/login", Returns("The cookie is set.", status=204), access=Access.PAGE)
async def login(call: ApiCall, body: Login) -> Response:
    """Exchange the token, or the code of a login link, for the page's cookie (HttpOnly, SameSite=Strict)."""
    settings = call.settings
    if body.code:
        if not settings.token or not call.request.app.state.login_codes.redeem(body.code.strip()):
            raise security.WrongToken(
                "This login link was used already, or is older than ten minutes. `semel link` makes another one."
            )
    elif not settings.token or not security.secrets_match(body.token.strip(), settings.token):
        raise security.WrongToken("That is not the owner's token. It is in the file owner.token of the data directory.")
    response = Response(status_code=204)
    response.set_cookie(
        security.cookie_name(settings),
        security.login_cookie(settings, time.time()),
        max_age=int(settings.login_life),
        secure=_is_https(call.request),
        httponly=True,
        samesite="strict",
    )
    return response


def _is_https(request: Request) -> bool:
    """Whether the browser used https. A proxy may terminate TLS; then only the Origin header shows it."""
    return request.scope["scheme"] == "https" or request.headers.get("origin", "").lower().startswith("https://")


@router.route("POST", "/v1/login/codes", Returns("The link.", LoginLink))
async def make_login_code(call: ApiCall) -> Response:
    """Make a link that logs one browser in, once, within ten minutes. It leads to the gateway that was asked."""
    seats = call.gateway.seats
    asked = call.request.headers.get(FORWARDED_BY, "").split(",")[0]
    other = seats.find_other_gateway(asked) if seats is not None else None
    urls = (other.address,) if other is not None and other.address else ()
    return json_response(make_login_link(call.request.app.state, urls))


def make_login_link(state: State, urls: Sequence[str] = ()) -> LoginLink:
    """Make a new code, and the links that contain it.

    `state`: the application's state, which keeps the codes. `urls`: of the page, if they are another gateway's.
    """
    made, links = state.login_codes.create(), [url.rstrip("/") for url in urls or state.page_urls]
    return LoginLink(made.code, round(made.expires * 1000), [f"{url}/#code={made.code}" for url in links])


@router.route("POST", "/v1/logout", Returns("The cookie is deleted.", status=204), access=Access.PAGE)
async def logout(call: ApiCall) -> Response:
    """Delete the page's cookie."""
    response = Response(status_code=204)
    response.delete_cookie(security.cookie_name(call.settings), httponly=True, samesite="strict")
    return response
