"""Errors as problem details (RFC 9457). This module builds every error answer of the HTTP face."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semel.gateway.errors import (
    PROBLEM_URN,
    BadRequest,
    Conflict,
    GatewayError,
    GatewayUnavailable,
    NoSuchSession,
    NotFound,
    UnknownSpawn,
)
from semel.gateway.ports import AgentError
from semel.ledger.storage.errors import LedgerError

log = structlog.get_logger("semel.http")

PROBLEM_MEDIA_TYPE = "application/problem+json"

CODES: dict[str, tuple[int, str]] = {
    "bad-json": (400, "The body is not valid JSON"),
    "bad-field": (400, "A field is missing or has a wrong value"),
    "two-keys": (400, "The body and the Idempotency-Key header name different keys"),
    "no-token": (401, "A token is needed"),
    "bad-signature": (401, "The signature is missing or wrong"),
    "foreign-host": (403, "This gateway is not known by that host name"),
    "foreign-origin": (403, "Another web page may not do that"),
    "node-scope": (403, "A node's token does not allow that"),
    "channel-scope": (403, "The channel does not allow that"),
    "no-such-session": (404, "There is no such session"),
    "not-found": (404, "There is no such thing"),
    "no-such-path": (404, "There is nothing at this path"),
    "wrong-method": (405, "This path does not take that method"),
    "too-slow": (408, "The request came too slowly"),
    "conflict": (409, "This key was used before, with other content or for another session"),
    "wrong-state": (409, "Its state does not allow that any more"),
    "agent-refused": (409, "The agent does not do that"),
    "agent-logged-out": (409, "Nobody is logged in to the agent"),
    "too-large": (413, "The body is too large"),
    "not-json": (415, "The body must be sent as application/json"),
    "internal": (500, "The gateway failed"),
    "turn-failed": (502, "The agent did not answer"),
    "unavailable": (503, "The gateway is not able to answer now"),
}
"""code -> status, title. A problem's `type` is `urn:semel:problem:<code>`."""


class Problem(Exception):
    """An error for the client. `members` holds further members of the problem object (`field`, `limit` ...)."""

    def __init__(self, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **members: Any):
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.headers = headers
        self.members = members

    def response(self) -> Response:
        status, title = CODES[self.code]
        return make_response(status, self.detail, self.headers, self.members, f"{PROBLEM_URN}{self.code}", title)


def make_response(
    status: int,
    detail: str,
    headers: Mapping[str, str] | None = None,
    members: Mapping[str, Any] | None = None,
    type: str = "about:blank",
    title: str | None = None,
) -> Response:
    """Make a response with a problem document. `type` stays `about:blank` if none of our codes applies (a channel of
    another package refuses a webhook)."""
    body = {"type": type, "title": title or HTTPStatus(status).phrase, "status": status, "detail": detail}
    return Response(msgspec.json.encode(body | dict(members or {})), status, headers, media_type=PROBLEM_MEDIA_TYPE)


def make_channel_response(status: int, answer: Mapping[str, Any]) -> Response:
    """Make a response from the problem document with which a channel refuses a webhook.

    A `type` that is not one of ours becomes about:blank.
    """
    members = {name: value for name, value in answer.items() if name not in ("type", "title", "status", "detail")}
    detail = str(answer.get("detail") or answer.get("title") or "")
    code = str(answer.get("type")).removeprefix(PROBLEM_URN)
    if code in CODES:
        return make_response(status, detail, members=members, type=f"{PROBLEM_URN}{code}", title=CODES[code][1])
    return make_response(status, detail, members=members)


NOWHERE = "See /v1/openapi.json for what there is."
KEY_RULE = "A session key has 1 to 200 letters, digits and ._:@!+=~- only, no blanks and no slashes."
MISSING_PATHS = (
    (
        re.compile(r"/openai(/.*)?|.*/(chat/completions|completions|responses|embeddings|models(/.*)?)"),
        "Of OpenAI's API there are only /openai/v1/models and /openai/v1/chat/completions: the base URL of a client is "
        "{url}openai/v1",
        "/openai/",
    ),
    (
        re.compile(r"/ag-ui(/.*)?"),
        "The URL of an AG-UI client is {url}ag-ui/AGENT, with the name of an agent (`semel agents list`) and nothing "
        "behind it.",
        "",
    ),
    (re.compile(r"/v1/sessions/.+/.+"), f"{KEY_RULE} For the operations of a session, see /v1/openapi.json.", ""),
)
"""What clients are told that request a path which does not exist, by its pattern: they often have a wrong base URL.
`{url}` stands for the gateway's own URL, as the client wrote it. Last comes the root of the API whose form of errors
they read."""

KNOWN_ERRORS = (Problem, GatewayError, AgentError, LedgerError, HTTPException)
"""The exceptions that an operation may raise to refuse a request."""


@dataclass(frozen=True)
class ErrorFormat:
    """How a foreign API shows problems.

    `root`: the beginning of the API's paths. `type`: the shape of the body that `render` makes.
    """

    root: str
    render: Callable[[Problem], Response]
    type: type[msgspec.Struct]


def make_problem(exc: Exception) -> Problem | None:
    """Map an exception of the gateway or the router to a problem; `None` for unexpected ones."""
    match exc:
        case Problem():
            return exc
        case NoSuchSession():
            return Problem("no-such-session", str(exc))
        case NotFound():
            return Problem("not-found", str(exc))
        case UnknownSpawn():
            return Problem("no-token", str(exc))
        case BadRequest(field=field):
            members: dict[str, Any] = {"field": field} if field else {}
            return Problem("bad-field", str(exc), **members)
        case Conflict():
            return Problem("wrong-state", str(exc))
        case AgentError(passing=True):  # the agent died, or did not answer in time
            return Problem("unavailable", str(exc), headers={"Retry-After": "5"})
        case AgentError(logged_out=True):
            return Problem("agent-logged-out", str(exc))
        case AgentError():
            return Problem("agent-refused", str(exc))
        case GatewayUnavailable():
            return Problem("unavailable", str(exc), headers={"Retry-After": "2"})
        case LedgerError():  # for instance a full disk: nothing was accepted, and the message says what to do
            return Problem("unavailable", str(exc), headers={"Retry-After": "5"})
        case HTTPException(status_code=404):
            return Problem("no-such-path", NOWHERE)
        case HTTPException(status_code=405):
            allow = (exc.headers or {}).get("Allow", "")
            return Problem("wrong-method", f"Use one of: {allow}.", headers=exc.headers)
    return None


def make_exception_handler(formats: Collection[ErrorFormat]) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return the handler of KNOWN_ERRORS. Below the path of a foreign API, it shows a problem as that API does."""

    async def handle_exception(request: Request, exc: Exception) -> Response:
        if (problem := make_problem(exc)) is None:
            assert isinstance(exc, HTTPException)
            return make_response(exc.status_code, exc.detail, exc.headers)
        path = request.scope["path"]  # `url` cannot be read if the query is no UTF-8
        if isinstance(exc, HTTPException) and exc.status_code == 404:
            text, root = next((known[1:] for known in MISSING_PATHS if known[0].fullmatch(path)), (NOWHERE, ""))
            problem = Problem("no-such-path", text.replace("{url}", str(request.base_url)))
            path = root or path
        error_format = next((each for each in formats if path.startswith(each.root)), None)
        return error_format.render(problem) if error_format is not None else problem.response()

    return handle_exception


class CatchAll:
    """Middleware that logs an unexpected exception and answers with a problem that shows no internals."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def note_start(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, note_start)
        except ClientDisconnect:
            log.debug("a client disconnected during a request", path=scope.get("path"))
        except asyncio.CancelledError:  # uvicorn stops, and the grace period is over
            log.warning("the stop cut a request off", method=scope.get("method"), path=scope.get("path"))
            if (
                not started
            ):  # no problem document: the outcome is unknown, and agents' tools ask again (gateway_link.py)
                headers = {"Connection": "close"}
                await Response("The gateway stops.", 500, headers, media_type="text/plain")(scope, receive, send)
        except Exception:
            log.exception("request failed", method=scope.get("method"), path=scope.get("path"))
            if started:
                raise
            problem = Problem("internal", "The gateway's log holds the reason. What was accepted before is safe.")
            await problem.response()(scope, receive, send)
