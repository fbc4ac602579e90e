"""Declare HTTP operations next to their handlers, and route requests to them.

A `Router` decorates handlers. To add an operation, only declare it:

    router = Router("jobs")

    @router.route("POST", "/v1/jobs/{id}/cancel", Returns("The job afterwards.", Job), errors=("not-found",))
    async def cancel_job(call: ApiCall, id: Annotated[str, Param("Id of the job.")], body: Stop) -> Response:
        '''Cancel a background job with its whole process group.'''

The function's name becomes the operation's id (`cancelJob`), its docstring the summary. Its arguments are the
parameters: those that the path names, a `body` (a msgspec type for JSON, or raw `bytes`), and all others in the
query. Routes, checks and the OpenAPI document (openapi.py) are made from this declaration. For each request, the route
checks access (security.py), then reads query, body and path, and calls the handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import re
import types
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from semel.faces.http.problems import CODES, KEY_RULE, KNOWN_ERRORS, ErrorFormat, Problem, make_problem
from semel.faces.http.security import Access, WrongToken, check_access
from semel.faces.http.settings import NodeSettings, Settings

if TYPE_CHECKING:
    from semel.gateway.api.gateway import Gateway

T = TypeVar("T")


class _BoundedIntConvertor(IntegerConvertor):
    """An integer in a path, `{id:int}`, of at most 40 digits: Python refuses to parse thousands of digits."""

    regex = "[0-9]{1,40}"


register_url_convertor("int", _BoundedIntConvertor())
FORWARDED_BY = "x-semel-forwarded-by"
"""Header with the names of the gateways that forwarded a request, in order. None of them is asked again."""
MAX_INT = 2**63 - 1
BOOL_WORDS = ("0", "1", "true", "false")
"""The values of a bool in a query."""


@dataclass(frozen=True)
class Param:
    """A parameter of a path, a query or a header.

    A handler declares it as `limit: Annotated[int, Param("Maximum number.", maximum=1000)] = 100`. Only description and
    limits are written in `Param(...)`; name, type, choices (of a `Literal`) and default are taken from the argument.
    The type is str, bool or int; an int is at least `minimum`.
    """

    description: str
    minimum: int = 0
    maximum: int = MAX_INT
    pattern: re.Pattern[str] | None = None  # the whole value must match, else the problem says `pattern_hint`
    pattern_hint: str = ""
    name: str = ""
    argument: str = ""
    kind: type = str
    choices: tuple[str, ...] = ()
    default: Any = None


SessionKey = Annotated[
    str,
    Param(
        "Key of the session, percent-encoded.",
        pattern=re.compile(r"[A-Za-z0-9._:@!+=~-]{1,200}"),
        pattern_hint=KEY_RULE,
    ),
]


Cursor = Annotated[str | None, Param("The `next` of the previous page.")]
"""The argument `after` of a listing that comes in pages."""


class Page(msgspec.Struct, kw_only=True):
    """A page of a listing. `more`: there is a next page now; send `next` as `after` to get it. `next` is null if the
    listing is over.
    """

    more: bool
    next: str | None


class RequestBody(msgspec.Struct, forbid_unknown_fields=True):
    """A request body: an unknown field is an error, not a field that is quietly ignored.

    The docstrings of bodies and answers are published as their descriptions in the OpenAPI document.
    """


@dataclass(frozen=True)
class Returns:
    """What an operation returns with one status: a msgspec type as JSON, another media type, or nothing.

    `only_data`: the events of a stream have neither an id nor a name.
    """

    description: str
    type: Any = None
    media: str = "application/json"
    status: int = 200
    only_data: bool = False


@dataclass
class ApiCall:
    """A request whose access was checked; the first argument of every handler."""

    request: Request
    gateway: Gateway
    settings: Settings

    @property
    def node(self) -> NodeSettings | None:
        """The node that sent the request, or `None` if the owner did."""
        return getattr(self.request.state, "node", None)


Handler = Callable[..., Awaitable[Response]]


@dataclass(eq=False)
class Operation:
    """One method on one path. `errors` lists its problem codes beyond those that every operation may return."""

    method: str
    path: str
    tag: str
    handler: Handler
    returns: Mapping[int, Returns]
    errors: Sequence[str] = ()
    headers: Sequence[Param] = ()  # read by the handler itself
    access: Access = Access.OWNER
    body_optional: bool = False
    streamed: bool = False  # the handler reads the body itself
    documented: bool = True
    makes_session: bool = False  # it makes a missing session; in a cluster, the gateway that is asked then serves it
    max_body: int | None = None  # bytes; None: as the settings say
    error_format: ErrorFormat | None = None  # None: problem details (RFC 9457)

    def __post_init__(self) -> None:
        hints = get_type_hints(self.handler, include_extras=True)
        arguments = inspect.signature(self.handler).parameters.values()
        params = [_parse_param(arg, hints[arg.name]) for arg in arguments if arg.name not in ("call", "body")]
        path_names = re.findall(r"{(\w+)", self.path)
        self.path_params = [param for param in params if param.name in path_names]
        self.query = [param for param in params if param.name not in path_names]
        body = hints.get("body")
        self.body: type[RequestBody] | None = None if body is bytes else body
        self.raw_body = body is bytes or self.streamed

    def __repr__(self) -> str:
        return f"<Operation {self.name}: {self.method} {self.path}>"

    @property
    def name(self) -> str:
        """The operation's id: the name of its handler in camel case."""
        first, *others = self.handler.__name__.split("_")
        return first + "".join(word.title() for word in others)

    @property
    def summary(self) -> str:
        return " ".join((self.handler.__doc__ or "").split())


def _parse_param(argument: inspect.Parameter, hint: Any) -> Param:
    """Return the parameter that an argument `name: Annotated[type, Param(...)] = default` declares."""
    kind: Any
    declared: Param
    kind, declared = get_args(hint)
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (option for option in get_args(kind) if option is not type(None))
    return replace(
        declared,
        name=declared.name or argument.name,
        argument=argument.name,
        kind=str if get_origin(kind) is Literal else kind,
        choices=get_args(kind) if get_origin(kind) is Literal else (),
        default=None if argument.default is argument.empty else argument.default,
    )


class Router:
    """Collects the operations of one module under a tag of the OpenAPI document."""

    def __init__(self, tag: str):
        self.tag = tag
        self.operations: list[Operation] = []

    def route(
        self, method: str, path: str, *returns: Returns, tag: str | None = None, **options: Any
    ) -> Callable[[Handler], Handler]:
        """Return a decorator for the handler that serves this method on this path. `options`: fields of `Operation`."""
        by_status = {answer.status: answer for answer in returns}

        def declare(handler: Handler) -> Handler:
            self.operations.append(Operation(method, path, tag or self.tag, handler, by_status, **options))
            return handler

        return declare


def make_routes(
    operations: Sequence[Operation], answer: Callable[[Request, Operation], Awaitable[Response]]
) -> list[Route]:
    """Return one route per path, so that a 405 can list all methods of the path. They are in the operations' order.

    `answer`: answers a request for an operation.
    """
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    return [_make_route(path, methods, answer) for path, methods in by_path.items()]


def _make_route(
    path: str, methods: Mapping[str, Operation], answer: Callable[[Request, Operation], Awaitable[Response]]
) -> Route:
    async def endpoint(request: Request) -> Response:
        return await answer(request, methods["GET" if request.method == "HEAD" else request.method])

    return Route(path, endpoint, methods=list(methods), name=path)


async def handle(request: Request, operation: Operation, gateway: Gateway, settings: Settings) -> Response:
    """Check a request, read it, and let the operation's handler answer it. Raises one of KNOWN_ERRORS."""
    check_and_log_access(request, operation, gateway, settings)
    return await handle_checked(request, operation, gateway, settings)


def check_and_log_access(request: Request, operation: Operation, gateway: Gateway, settings: Settings) -> None:
    """Raise a Problem unless whoever asks has access. Wrong tokens and refused nodes are noted."""
    with _note_refusals(request, operation, gateway):
        check_access(request, settings, operation.access)


async def handle_checked(request: Request, operation: Operation, gateway: Gateway, settings: Settings) -> Response:
    """Read a request whose access was checked, and let the operation's handler answer it. Refused nodes are noted.

    Raises one of KNOWN_ERRORS.
    """
    with _note_refusals(request, operation, gateway):
        arguments = _read_query(request, operation)
        body = await _read_body(request, operation, settings)
        if operation.body is not None or (operation.raw_body and not operation.streamed):
            arguments["body"] = body
        arguments |= _read_path(request, operation)
        return await operation.handler(ApiCall(request, gateway, settings), **arguments)


@contextlib.contextmanager
def _note_refusals(request: Request, operation: Operation, gateway: Gateway) -> Iterator[None]:
    """Note a wrong token, a refused request of a node, or one that reports an event and shows no valid token."""
    try:
        yield
    except KNOWN_ERRORS as error:
        if isinstance(error, WrongToken):
            gateway.people.note_wrong_token(request.client.host if request.client else "the unix socket")
        _note_refused_node(request, operation, gateway, make_problem(error))
        raise


def _note_refused_node(request: Request, operation: Operation, gateway: Gateway, problem: Problem | None) -> None:
    node: NodeSettings | None = getattr(request.state, "node", None)
    if problem is None or CODES[problem.code][0] >= 500:
        return
    if node is None and not (operation.access is Access.EVENTS and problem.code == "no-token"):
        return
    about = {"session": request.path_params["key"]} if operation.access is Access.EVENTS else {"path": operation.path}
    if "event" in problem.members:
        about["first"] = f"e{problem.members['event']}"
    gateway.node_refusals.note(None if node is None else node.name, problem.code, problem.detail, **about)


# ---------------------------------------------------------------- reading


def _read_path(request: Request, operation: Operation) -> dict[str, Any]:
    return {param.argument: _read_segment(param, request.path_params[param.name]) for param in operation.path_params}


def _read_segment(param: Param, value: Any) -> Any:
    """Check and return a value from the path. Raises a Problem: `not-found` for a number too large for a row's id."""
    if param.kind is int and value > MAX_INT:
        raise Problem("not-found", f"There is no number {value}.")
    if param.pattern is not None and not param.pattern.fullmatch(value):
        raise Problem("bad-field", param.pattern_hint, field=param.name)
    return value


def _read_query(request: Request, operation: Operation) -> dict[str, Any]:
    """Map the handler's arguments to their values in the query, or to their defaults. Raises a Problem."""
    params = {param.name: param for param in operation.query}
    values = {param.argument: param.default for param in operation.query}
    if not operation.documented or not request.scope["query_string"]:
        return values
    for name, text in request.query_params.multi_items():
        if name not in params:
            names = ", ".join(params) or "none"
            raise Problem("bad-field", f"There is no query parameter {name!r}; here: {names}.", field=name)
        values[params[name].argument] = _read_value(params[name], text)
    return values


def _read_value(param: Param, text: str) -> Any:
    if param.kind is int:
        return read_int(param.name, text, param.maximum, param.minimum)
    if param.kind is bool:
        if text not in BOOL_WORDS:
            raise Problem("bad-field", f"{param.name!r} must be 1 or 0, not {text!r}.", field=param.name)
        return text in ("1", "true")
    if param.choices and text not in param.choices:
        raise Problem("bad-field", f"{param.name!r} must be one of: {', '.join(param.choices)}.", field=param.name)
    return text


def read_int(name: str, text: str, maximum: int = MAX_INT, minimum: int = 0) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or not minimum <= int(text) <= maximum:
        detail = f"{name!r} must be a whole number from {minimum} to {maximum}, not {text[:40]!r}."
        raise Problem("bad-field", detail, field=name)
    return int(text)


async def _read_body(request: Request, operation: Operation, settings: Settings) -> Any:
    if request.method in ("GET", "HEAD") or operation.streamed:
        return None
    data = await read_bytes(request, operation.max_body or settings.max_body)
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
    return decode_body(data, operation.body)


async def read_bytes(request: Request, limit: int) -> bytes:
    """Read the whole body. Raises the problem `too-large` as soon as its size exceeds `limit` bytes."""
    content_length = request.headers.get("content-length", "0")
    size = int(content_length) if content_length.isascii() and content_length.isdigit() else 0
    chunks: list[bytes] = []
    if size <= limit:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                break
            chunks.append(chunk)
    if size > limit:
        # The rest of the body is discarded, and the connection closed after this answer (`slow_clients.py`).
        detail = f"It is too large: the body of a request has at most {limit:,} bytes."
        raise Problem("too-large", detail, headers={"Connection": "close"}, limit=limit)
    return b"".join(chunks)


_ERROR_PATH = re.compile(r" - at `\$\.?(.*)`$")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ERROR_FIELD = re.compile(r"field `(.*?)`")


def decode_body(data: bytes, type: type[RequestBody]) -> Any:
    """Decode a JSON body. Raises a Problem, which names the wrong field if there is one."""
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.ValidationError as error:
        text = str(error)
        match = _ERROR_PATH.search(text) or _ERROR_FIELD.search(text)
        name = match.group(1) if match else ""
        members: dict[str, Any] = {"field": name} if name else {}
        fields = ", ".join(field_info.encode_name for field_info in msgspec.structs.fields(type))
        detail = f"{_ERROR_PATH.sub('', text)}. {_describe_field(type, name)}Fields here: {fields}."
        raise Problem("bad-field", detail, **members) from None
    except UnicodeDecodeError:
        raise Problem("bad-json", "It is not UTF-8.") from None
    except msgspec.DecodeError as error:
        raise Problem("bad-json", _explain_decode_error(data, str(error))) from None
    except RecursionError:
        raise Problem("bad-json", "It is nested too deeply.") from None


def _explain_decode_error(data: bytes, reason: str) -> str:
    """Return why a body is no JSON. `reason`: msgspec's, which says "truncated" if a text has half a surrogate pair."""
    if _SURROGATE.search(data):
        with contextlib.suppress(ValueError, RecursionError):
            json.loads(data)
            return "A text has half of a character: one of \\ud800 to \\udfff without the other. Send whole characters."
    return f"{reason}."


def _describe_field(type: type[RequestBody], name: str) -> str:
    """Return a sentence with the description of a field, or with the allowed values of a `Literal` field; "" else."""
    for meta in getattr(get_type_hints(type, include_extras=True).get(name), "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.description is not None:
            return f"`{name}` is {meta.description}. "
    hint = get_type_hints(type).get(name)
    words = [word for option in (hint, *get_args(hint)) if get_origin(option) is Literal for word in get_args(option)]
    return f"It is one of: {', '.join(words)}. " if words else ""


def read_cursor(after: str | None, before: int | None) -> int | None:
    """Return the number before which a page begins, from `after` or, in its older form, `before`. Raises a Problem."""
    if after is None:
        return before
    refuse_two_cursors(before)
    return read_int("after", after)


def refuse_two_cursors(before: object) -> None:
    """Raise a Problem if a page is asked for with `before`, too."""
    if before is not None:
        raise Problem("bad-field", "Give `after` or `before`, not both.", field="before")


def complete_response(name: str, rows: Sequence[Any]) -> Response:
    """Return a listing that has one page only."""
    return json_response({name: rows, "more": False, "next": None})


def page_response(name: str, rows: Sequence[Any], limit: int, *cursor: str, **members: Any) -> Response:
    """Return a page of `rows` under this name. `rows` holds one row more than `limit` if there is a next page.

    `cursor`: the fields of the page's last row that are the `next` of the answer, joined by "/". `members`: what the
    answer holds besides.
    """
    page, more = rows[:limit], len(rows) > limit
    next_page = "/".join(str(page[-1][field]) for field in cursor) if more else None
    return json_response({**members, name: page, "more": more, "next": next_page})


async def run_until_stopped(work: Awaitable[T], *stops: asyncio.Event) -> T | None:
    """Return the result of `work`; None, and cancel it, if the server stops first: if one of these events is set.

    If both happen at once, the result counts: it may be the last piece of an answer.
    """
    task, waits = asyncio.ensure_future(work), [asyncio.ensure_future(stop.wait()) for stop in stops]
    try:
        await asyncio.wait({task, *waits}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for each in (task, *waits):
            each.cancel()


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")
