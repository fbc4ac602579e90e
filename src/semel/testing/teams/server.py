"""The double's server: the login service, the keys, the Bot Connector at `/teams`; and the requests to the webhook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from semel.testing.http_double import HttpReply, ReplyCut, serve_http
from semel.testing.http_requests import HttpRequest
from semel.testing.teams.double import TeamsDouble
from semel.testing.teams.model import (
    APP_ID,
    CLIENT_SECRET,
    ISSUER,
    TENANT,
    ConnectorError,
    TeamsFault,
    make_fault_error,
)
from semel.testing.webhook_posts import post_deliveries
from semel.text.json_types import Json

CONTROL = frozenset(
    {
        "person", "group", "channel", "remove_bot", "write", "edit", "delete", "react", "press", "install", "shown",
        "texts", "buttons", "fail", "post_again", "send_file", "answer_offer",
    }
)  # fmt: skip
"""The methods of the double that `POST /control/NAME` calls."""
TOKEN_PATH = f"/login/{TENANT}/oauth2/v2.0/token"
NO_METHOD = "The requested resource does not support http method '{}'."
CONVERSATIONS_PATH = "/teams/v3/conversations"
FILE_PATHS = {"/files/": "download", "/uploads/": "upload", "/teams/v3/attachments/": "picture"}
"""Where files are, and the names of calls there."""


@asynccontextmanager
async def serve(double: TeamsDouble, port: int = 0) -> AsyncIterator[dict[str, str]]:
    """Serve the double until the block ends. Port 0: any free one. Yields the settings of a teams channel."""

    async def answer(request: HttpRequest) -> HttpReply:
        return await _answer(double, request)

    async with serve_http(answer, port) as url:
        double.service_url = double.service_url or f"{url}/teams/"
        async with post_deliveries(double):
            yield make_settings(url)


def make_settings(url: str) -> dict[str, str]:
    """Return the settings of a teams channel, for a double or a proxy before it at this URL."""
    return {
        "app_id": APP_ID, "tenant": TENANT, "client_secret": CLIENT_SECRET, "service_url": f"{url}/teams",
        "login": f"{url}/login", "openid": f"{url}/openid",
    }  # fmt: skip


async def _answer(double: TeamsDouble, request: HttpRequest) -> HttpReply:
    path = urlsplit(request.target).path
    if path.startswith("/control/"):
        return _control(double, path.removeprefix("/control/"), request.body)
    name = _name_call(request, path)
    row: Json = {"call": name, "path": unquote(path), "arguments": _read_json(request), "status": None}
    double.requests.append(row)
    fault = double.fault(name)
    reply = await _apply_fault(fault, None) if fault is not None and not fault.after else None
    if reply is None:
        reply = _call(double, request, path, name)
        if fault is not None and fault.after:
            reply = await _apply_fault(fault, reply)
    row["status"] = reply.status
    return reply


def _name_call(request: HttpRequest, path: str) -> str:
    if path in (TOKEN_PATH, "/openid", "/keys"):
        return {TOKEN_PATH: "token"}.get(path, path[1:])
    if request.method == "POST" and path == CONVERSATIONS_PATH:
        return "create"
    if request.method == "POST" and path.startswith(f"{CONVERSATIONS_PATH}/"):
        activity = _read_json(request)
        return "typing" if isinstance(activity, dict) and activity.get("type") == "typing" else "post"
    for prefix, name in FILE_PATHS.items():
        if path.startswith(prefix):
            return name
    return {"PUT": "edit", "DELETE": "delete"}.get(request.method, "look")


def _read_json(request: HttpRequest) -> Any:
    try:
        return json.loads(request.body or b"null")
    except ValueError:
        return None


def _call(double: TeamsDouble, request: HttpRequest, path: str, name: str) -> HttpReply:
    if name == "token":
        return _login(double, request)
    if name == "openid":
        jwks = f"http://{request.headers['host']}/keys"
        return _json_reply(
            200, {"issuer": ISSUER, "jwks_uri": jwks, "id_token_signing_alg_values_supported": ["RS256"]}
        )
    if name == "keys":
        return _json_reply(200, {"keys": [key.publish() for key in double.keys]})
    if name in ("download", "upload"):
        return _call_drive(double, request, path.split("/")[2], name)
    try:
        double.check_access(request.headers.get("authorization", "").removeprefix("Bearer "))
        if name == "picture":
            content = double.files.get(path.removeprefix("/teams/v3/attachments/").removesuffix("/views/original"))
            return HttpReply(404) if content is None else HttpReply(200, content, {"content-type": "image/png"})
        return _call_connector(double, request, path, name)
    except ConnectorError as error:
        wait = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
        return _json_reply(error.status, error.body(), wait)


def _call_drive(double: TeamsDouble, request: HttpRequest, id: str, name: str) -> HttpReply:
    """Answer as OneDrive does: an address is the key to its file, and a token beside it is refused."""
    if "authorization" in request.headers:
        return HttpReply(401)
    if name == "upload":
        status = double.take_piece(id, request.headers.get("content-range", ""), request.body)
        return _json_reply(status, {"id": id})
    content = double.files.get(id)
    if content is None:
        return HttpReply(404)
    fields = {"content-type": "application/octet-stream", "content-disposition": "attachment"}
    return HttpReply(200, content, fields)


def _login(double: TeamsDouble, request: HttpRequest) -> HttpReply:
    """Answer the login service's request for a token (RFC 6749, 4.4)."""
    form = {name: values[0] for name, values in parse_qs(request.body.decode("ascii", "replace")).items()}
    if form.get("client_id") != APP_ID:
        return _json_reply(
            400, {"error": "unauthorized_client", "error_description": "AADSTS700016: Application was not found"}
        )
    if form.get("client_secret") != CLIENT_SECRET:
        return _json_reply(
            401, {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."}
        )
    if form.get("grant_type") != "client_credentials" or form.get("scope") != f"{ISSUER}/.default":
        return _json_reply(
            400, {"error": "invalid_request", "error_description": "AADSTS900144: a parameter is missing"}
        )
    return _json_reply(200, double.give_token())


def _call_connector(double: TeamsDouble, request: HttpRequest, path: str, name: str) -> HttpReply:
    body = _read_json(request)
    parts = [unquote(part) for part in path.removeprefix(CONVERSATIONS_PATH).split("/")[1:]]
    if name in ("post", "typing", "create", "edit") and not isinstance(body, dict):
        raise ConnectorError(400, "BadSyntax", "The body is no JSON object")
    if name == "create":
        return _json_reply(201, double.create_conversation(body))
    if len(parts) not in (2, 3) or parts[1] != "activities":
        raise ConnectorError(405, "MethodNotAllowed", NO_METHOD.format(request.method))
    if name in ("post", "typing"):
        return _json_reply(201, double.take_activity(parts[0], body))
    if len(parts) != 3 or name == "look":
        raise ConnectorError(405, "MethodNotAllowed", NO_METHOD.format(request.method))
    answer = double.change_message(parts[0], parts[2], body if name == "edit" else None)
    return HttpReply(200) if answer is None else _json_reply(200, answer)


async def _apply_fault(fault: TeamsFault, reply: HttpReply | None) -> HttpReply:
    """Return the answer that a call gets instead of `reply`. Raises ReplyCut for "drop" and "cut"."""
    match fault.how:
        case "drop":
            raise ReplyCut
        case "cut":
            raise ReplyCut(reply or _json_reply(200, {"id": "1790000000000"}))
        case "hang":
            await asyncio.Event().wait()
        case "502" | "html":
            status = 502 if fault.how == "502" else 200
            return HttpReply(status, b"<html><body>bad gateway</body></html>", {"content-type": "text/html"})
        case "empty":
            return HttpReply(202)
        case "error":
            return _json_reply(fault.status, ConnectorError(fault.status, fault.code).body())
    error = make_fault_error(fault.how)
    return _json_reply(error.status, error.body(), {} if error.retry_after is None else {"retry-after": "1"})


def _control(double: TeamsDouble, name: str, body: bytes) -> HttpReply:
    """Call a method of the double for a tester. The arguments are a JSON object."""
    try:
        if name not in CONTROL:
            raise KeyError(f"there is no control {name!r}; there is {', '.join(sorted(CONTROL))}")
        return _json_reply(200, {"result": getattr(double, name)(**json.loads(body or b"{}"))})
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        return _json_reply(400, {"error": f"{name}: {error or 'there is no such thing'}"})


def _json_reply(status: int, body: Json, headers: dict[str, str] | None = None) -> HttpReply:
    fields = {"content-type": "application/json; charset=utf-8", **(headers or {})}
    return HttpReply(status, json.dumps(body).encode(), fields)
