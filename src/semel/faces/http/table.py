"""Declare HTTP operations, and build routes from them.

Each `Operation` names method, path, handler, parameters, body type and possible errors. Routes and the OpenAPI document
(openapi.py) are built from the same declarations, so they cannot drift apart. For each request, the route checks access
(security.py), reads query and body into a `Call`, and passes it to the handler.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from semel.faces.http.facade import GatewayFacade
from semel.faces.http.problems import Problem
from semel.faces.http.security import Access, admit
from semel.faces.http.settings import Node, Settings


class _Number(IntegerConvertor):
    """An integer in a path, `{id:int}`, of at most 40 digits: Python refuses to parse thousands of digits."""

    regex = "[0-9]{1,40}"


register_url_convertor("int", _Number())
SESSION_KEY = re.compile(r"[A-Za-z0-9._:@!+=~-]{1,200}")
MAX_INT = 2**63 - 1
BOOL_WORDS = ("0", "1", "true", "false")
"""The values of a bool in a query."""


@dataclass(frozen=True)
class Param:
    """A query parameter. `kind` is int, str or bool; an int is never negative."""

    name: str
    kind: type
    what: str
    default: Any = None
    most: int = MAX_INT
    one_of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answers:
    """What an operation returns with one status: a msgspec type as JSON, another media type, or nothing."""

    what: str
    type: Any = None
    media: str = "application/json"


@dataclass
class Call:
    """A request after access, query and body were checked; the argument of every handler."""

    request: Request
    gateway: GatewayFacade
    settings: Settings
    body: Any
    query: Mapping[str, Any]

    @property
    def node(self) -> Node | None:
        """The node that sent the request, or `None` if the owner did."""
        return getattr(self.request.state, "node", None)

    @property
    def session(self) -> str:
        key = self.path("key")
        if not SESSION_KEY.fullmatch(key):
            raise Problem("bad-field", "A session key is 1-200 of A-Z a-z 0-9 . _ : @ ! + = ~ -", field="key")
        return key

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    def number(self, name: str) -> int:
        """An id from the path. Raises the problem `not-found` if it is too large for a row's id."""
        if (value := int(self.request.path_params[name])) > MAX_INT:
            raise Problem("not-found", f"There is no number {value}.")
        return value


Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True)
class Operation:
    """One method on one path. `errors` lists its problem codes beyond those that every operation may return."""

    method: str
    path: str
    name: str
    what: str
    handler: Handler
    answers: Mapping[int, Answers]
    tag: str
    body: type[msgspec.Struct] | None = None
    body_optional: bool = False
    raw_body: bool = False
    streamed: bool = False  # the handler reads the body itself
    query: Sequence[Param] = ()
    headers: Sequence[Param] = ()
    errors: Sequence[str] = ()
    access: Access = Access.OWNER
    documented: bool = field(default=True)

    def __repr__(self) -> str:
        return f"<Operation {self.name}: {self.method} {self.path}>"


def routes(operations: Sequence[Operation], gateway: GatewayFacade, settings: Settings) -> list[Route]:
    """One route per path, so that a 405 can list all methods of the path; in the order of the operations."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    return [_route(path, methods, gateway, settings) for path, methods in by_path.items()]


def _route(path: str, methods: Mapping[str, Operation], gateway: GatewayFacade, settings: Settings) -> Route:
    async def endpoint(request: Request) -> Response:
        operation = methods["GET" if request.method == "HEAD" else request.method]
        admit(request, settings, operation.access)
        query = _read_query(request, operation)
        call = Call(request, gateway, settings, await _read_body(request, operation, settings), query)
        return await operation.handler(call)

    return Route(path, endpoint, methods=list(methods), name=path)


# ---------------------------------------------------------------- reading


def _read_query(request: Request, operation: Operation) -> dict[str, Any]:
    known = {param.name: param for param in operation.query}
    values = {param.name: param.default for param in operation.query}
    if not operation.documented or not request.scope["query_string"]:
        return values
    for name, text in request.query_params.multi_items():
        if name not in known:
            names = ", ".join(known) or "none"
            raise Problem("bad-field", f"There is no query parameter {name!r}; here: {names}.", field=name)
        values[name] = _read_value(known[name], text)
    return values


def _read_value(param: Param, text: str) -> Any:
    if param.kind is int:
        return read_int(param.name, text, param.most)
    if param.kind is bool:
        if text not in BOOL_WORDS:
            raise Problem("bad-field", f"{param.name!r} must be 1 or 0, not {text!r}.", field=param.name)
        return text in ("1", "true")
    if param.one_of and text not in param.one_of:
        raise Problem("bad-field", f"{param.name!r} must be one of: {', '.join(param.one_of)}.", field=param.name)
    return text


def read_int(name: str, text: str, most: int = MAX_INT) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > most:
        raise Problem("bad-field", f"{name!r} must be a whole number from 0 to {most}, not {text[:40]!r}.", field=name)
    return int(text)


async def _read_body(request: Request, operation: Operation, settings: Settings) -> Any:
    if request.method in ("GET", "HEAD") or operation.streamed:
        return None
    data = await read_bytes(request, settings.max_body)
    if operation.raw_body:
        return data
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if (data or kind) and kind != "application/json":
        # CSRF: a form or a simple cross-origin fetch can send any body, but not this content type.
        raise Problem("not-json", f"Content-Type is {kind or 'missing'!r}; send application/json.")
    if operation.body is None:
        return None
    if not data and operation.body_optional:
        return operation.body()
    return decode(data, operation.body)


async def read_bytes(request: Request, limit: int) -> bytes:
    """The whole body. Raises the problem `too-large` as soon as the size exceeds `limit` bytes."""
    announced = request.headers.get("content-length", "0")
    size = int(announced) if announced.isascii() and announced.isdigit() else 0
    chunks: list[bytes] = []
    if size <= limit:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                break
            chunks.append(chunk)
    if size > limit:
        # The rest of the body is discarded, and the connection closed after this answer (`lingering.py`).
        raise Problem("too-large", f"A body may have {limit:,} bytes.", headers={"Connection": "close"}, limit=limit)
    return b"".join(chunks)


_AT = re.compile(r" - at `\$\.?(.*)`$")
_NAMED = re.compile(r"field `(.*?)`")


def decode(data: bytes, type: type[msgspec.Struct]) -> Any:
    """Decode a JSON body. Raises a Problem, which names the wrong field if there is one."""
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.ValidationError as exc:
        text = str(exc)
        found = _AT.search(text) or _NAMED.search(text)
        name = found.group(1) if found else ""
        more: dict[str, Any] = {"field": name} if name else {}
        fields = ", ".join(f.encode_name for f in msgspec.structs.fields(type))
        told = f"{_AT.sub('', text)}. {_choices(type, name)}Fields here: {fields}."
        raise Problem("bad-field", told, **more) from None
    except UnicodeDecodeError:
        raise Problem("bad-json", "It is not UTF-8.") from None
    except msgspec.DecodeError as exc:
        raise Problem("bad-json", f"{exc}.") from None
    except RecursionError:
        raise Problem("bad-json", "It is nested too deeply.") from None


def _choices(type: type[msgspec.Struct], name: str) -> str:
    """A sentence with the allowed values of a `Literal` field; "" for other fields."""
    hint = get_type_hints(type).get(name)
    words = [word for one in (hint, *get_args(hint)) if get_origin(one) is Literal for word in get_args(one)]
    return f"It is one of: {', '.join(words)}. " if words else ""


def json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")
