"""An HTTP server for the double, and `TelegramControl`, a client for tests of a double in another process.

It serves the Bot API at `/bot<token>/<method>`, files at `/file/bot<token>/<path>`, and methods of the double for tests
at `/control/<name>`.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import re
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from semel.testing.http_double import HttpReply, ReplyCut, serve_http
from semel.testing.http_forms import BadForm, parse_parameters
from semel.testing.http_requests import HttpRequest
from semel.testing.telegram.double import TelegramDouble
from semel.testing.telegram.model import ApiError, ApiFault, bad_request
from semel.text.json_types import Json

_CONTROL = (
    "person group topic write post send_file edit react press remove block member join migrate shown texts pending "
    "asked typing fail clear_faults advance renumber update webhook retoken"
)
CONTROL = frozenset(_CONTROL.split())
"""The methods of the double that `/control/<name>` calls. Their arguments are JSON; a `content` is in base64."""
NOT_FOUND = ApiError(404, "Not Found")
UNAUTHORIZED = ApiError(401, "Unauthorized")

_BOT = re.compile(r"/(file/)?bot([^/]*)/(.+)")
_TOKEN = re.compile(r"\d+:[\w-]{20,}")


class TelegramControl:
    """Calls methods of a double in another process: `control.call("write", chat=7, text="hello")`. Calls block."""

    def __init__(self, url: str) -> None:
        """`url`: the double's URL, such as "http://127.0.0.1:8081"."""
        self.url = url.rstrip("/")

    def __repr__(self) -> str:
        return f"<TelegramControl {self.url}>"

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Call the double's method `name` and return its result. Raises ValueError if the call is wrong.

        An argument may be bytes.
        """
        plain = {
            key: base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
            for key, value in arguments.items()
        }
        request = urllib.request.Request(f"{self.url}/control/{name}", json.dumps(plain).encode(), method="POST")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=20) as answer:
                return json.load(answer)["result"]
        except urllib.error.HTTPError as error:
            with error:
                raise ValueError(json.load(error)["error"]) from None


@asynccontextmanager
async def serve(double: TelegramDouble, port: int = 0, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Serve the double until the `async with` block ends. Port 0: any free one.

    Yields the URL, which is the setting `api` of a telegram channel.
    """

    async def handle(request: HttpRequest) -> HttpReply:
        return await _answer(double, request)

    async with serve_http(handle, port, host) as url:
        yield url


# ---------------------------------------------------------------- answers


async def _answer(double: TelegramDouble, request: HttpRequest) -> HttpReply:
    url = urlsplit(request.target)
    if url.path.startswith("/control/"):
        return _control(double, url.path.removeprefix("/control/"), request.body)
    try:
        match = _BOT.fullmatch(url.path)
        if match is None or not _TOKEN.fullmatch(token := unquote(match[2])):
            raise NOT_FOUND
        if token != double.token:
            raise UNAUTHORIZED
        if match[1]:
            return await _download(double, match[3])
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        params = parse_parameters(query, request.headers.get("content-type", ""), request.body)
    except BadForm as error:
        return _error_answer(bad_request(str(error)))
    except ApiError as error:
        return _error_answer(error)
    return await _call(double, match[3], params)


async def _call(double: TelegramDouble, method: str, params: Json) -> HttpReply:
    row: Json = {"method": method, "params": _without_content(params), "status": None}
    double.requests.append(row)
    fault = double.fault(method)
    answer = await _apply_fault(fault, None) if fault is not None and not fault.after else None
    if answer is None:
        answer = _json_answer(*await double.call(method, params))
        if fault is not None and fault.after:
            answer = await _apply_fault(fault, answer) or answer
    row["status"] = answer.status
    return answer


async def _download(double: TelegramDouble, path: str) -> HttpReply:
    row: Json = {"method": "file", "params": {"path": path}, "status": None}
    double.requests.append(row)
    stored = next((stored for stored in double.files.values() if stored.path == path), None)
    if stored is None or stored.content is None:
        answer = _error_answer(NOT_FOUND)
    else:
        answer = HttpReply(200, stored.content, {"content-type": "application/octet-stream"})
    if (fault := double.fault("file")) is not None:
        answer = await _apply_fault(fault, answer) or answer
    row["status"] = answer.status
    return answer


USUAL_REFUSALS = {"400": "Bad Request: message is too long", "403": "Forbidden: user is deactivated"}
"""The descriptions of refusals by a fault that gives none."""


async def _apply_fault(fault: ApiFault, answer: HttpReply | None) -> HttpReply | None:
    """Return the answer that the caller gets instead of the right one, or None if it gets the right one.

    `answer`: the right answer, or None before the call took effect. Raises ReplyCut for "drop" and "cut".
    """
    match fault.how:
        case "drop":
            raise ReplyCut
        case "cut":
            raise ReplyCut(answer or _json_answer(200, {"ok": True, "result": {}}))
        case "hang":
            await asyncio.Event().wait()
        case "slow":
            await asyncio.sleep(fault.seconds)
        case "500":
            return _error_answer(ApiError(500, "Internal Server Error"))
        case "502":
            page = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"
            return HttpReply(502, page, {"content-type": "text/html"})
        case "401":
            return _error_answer(UNAUTHORIZED)
        case "400" | "403":
            return _error_answer(ApiError(int(fault.how), fault.description or USUAL_REFUSALS[fault.how]))
        case "429":
            wait = fault.retry_after
            return _error_answer(ApiError(429, f"Too Many Requests: retry after {wait}", retry_after=wait))
    return None


def _control(double: TelegramDouble, name: str, body: bytes) -> HttpReply:
    try:
        arguments = json.loads(body or b"{}")
        if name not in CONTROL:
            raise KeyError(f"there is no control {name!r}; there is {', '.join(sorted(CONTROL))}")
        control = getattr(double, name)
        _check_fields(control, arguments)
        if name == "send_file" and arguments.get("content") is not None:
            arguments["content"] = _decode_content(arguments["content"])
        return _json_answer(200, {"result": control(**arguments)})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return _json_answer(400, {"error": f"{name}: {error}"})


def _check_fields(control: Callable[..., Any], arguments: Any) -> None:
    """Raise ValueError unless `arguments` is an object with fields that the control takes, and all that it needs."""
    parameters = inspect.signature(control).parameters.values()
    names = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
    required = {parameter.name for parameter in parameters if parameter.default is parameter.empty} & names
    if not isinstance(arguments, dict):
        raise ValueError("the arguments must be a JSON object")
    unknown = set() if len(names) < len(parameters) else arguments.keys() - names
    missing = required - arguments.keys()
    if unknown or missing:
        problem = f"there is no field {min(unknown)!r}" if unknown else f"the field {min(missing)!r} is missing"
        fields = ", ".join(f"{name} (required)" if name in required else name for name in sorted(names))
        raise ValueError(f"{problem}; the fields are: {fields or 'none'}")


def _decode_content(content: Any) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except (TypeError, ValueError):
        raise ValueError("content must be base64") from None


def _error_answer(error: ApiError) -> HttpReply:
    return _json_answer(error.code, error.body())


def _json_answer(status: int, body: Any) -> HttpReply:
    raw = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return HttpReply(status, raw, {"content-type": "application/json"})


def _without_content(params: Json) -> Json:
    """Return the parameters with the size of each file instead of its content."""
    return {
        name: {"name": value["name"], "mime": value["mime"], "size": len(value["content"])}
        if isinstance(value, dict) and "content" in value
        else value
        for name, value in params.items()
    }
