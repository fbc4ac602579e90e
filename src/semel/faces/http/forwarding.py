"""Forward requests to another gateway of the cluster, which answers them.

    forwarder = Forwarder("beta", settings, lives)
    response = await forwarder.forward(request, operation, alpha, body)

Another gateway answers what concerns a session that it serves, and the active one all else (`cluster_routing.py`). The
gateway that was asked has checked the access already, as its own settings say (`security.check_access`). So the
request goes on with the owner's token, which all gateways of a cluster share. A node's token and a platform's signature
go on as they are: the other gateway checks them again. A request is sent once. If the answer is lost, the client is
told that the outcome is unknown, and repeats the request with its key (Law 1).

A gateway that hangs still takes connections. So an answer is waited for until the other gateways give that one up,
which takes ten seconds: then the outcome is unknown, a stream ends, and what only reads is asked of the next gateway.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

import httpx2
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from semel.faces.http.problems import Problem, make_response
from semel.faces.http.routing import FORWARDED_BY, Operation, read_bytes, run_until_stopped
from semel.faces.http.security import Access, find_node
from semel.faces.http.settings import Settings
from semel.gateway.seats import Lives
from semel.ledger.storage.cluster import ClusterGateway

log = structlog.get_logger("semel.http")

CONNECT_TIMEOUT_S = 4.0
RETRY_AFTER_S = 2
HOP_HEADERS = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
        "upgrade", "host",
    }
)  # fmt: skip
"""Headers about a connection, which are not forwarded (RFC 9110, 7.6.1). The client library writes its own."""
OWN_HEADERS = frozenset({"date", "server", "vary"})
"""Headers of an answer that the gateway which was asked writes itself, as well as those of CORS."""


class Unavailable(Problem):
    """No gateway can answer now."""

    def __init__(self, detail: str) -> None:
        super().__init__("unavailable", detail, headers={"Retry-After": str(RETRY_AFTER_S)})


class Unreachable(Unavailable):
    """The other gateway accepted nothing: it was not reached, or did not answer a request that only reads."""


class Forwarder:
    """Sends requests to other gateways. `name`: this gateway's name in the cluster. End it with `close`.

    `lives`: says when one of the others is given up.
    """

    def __init__(self, name: str, settings: Settings, lives: Lives) -> None:
        self._name = name
        self._lives = lives
        self._settings = settings
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=16),
            verify=ssl.create_default_context(),
            trust_env=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def forward(
        self, request: Request, operation: Operation, other: ClusterGateway, body: bytes | AsyncIterator[bytes] | None
    ) -> Response:
        """Return the answer of another gateway, which has an address. `body`: of the request (`read_body`).

        Raises Unreachable if the other one accepted nothing.
        """
        assert other.address is not None
        address, given_up = other.address, self._lives.watch(other)
        outgoing = self._client.build_request(
            request.method,
            address.rstrip("/") + _read_target(request),
            headers=self._make_headers(request, operation),
            content=body,
        )
        stopping: asyncio.Event = request.app.state.stopping
        try:
            answer = await run_until_stopped(self._client.send(outgoing, stream=True), stopping, given_up)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise Unreachable(f"The gateway at {address} cannot be reached; nothing was accepted.") from error
        except httpx2.HTTPError as error:
            log.warning("a forwarded request broke off", path=request.url.path, why=str(error) or repr(error))
            answer = None
        if answer is None:
            fate = f"The connection to the gateway {other.name} at {address} broke."
            if given_up.is_set():
                fate = f"The gateway {other.name} at {address} hangs, or is cut off, and was given up."
            if request.method in ("GET", "HEAD"):
                raise Unreachable(fate)
            # no problem document: the outcome is unknown, and whoever asks repeats it with its key
            text = f"{fate} Whether it accepted this is not known. Ask again with the same key."
            return make_response(502, text, {"Connection": "close", "Retry-After": str(RETRY_AFTER_S)})
        return _relay(answer, stopping, given_up)

    def _make_headers(self, request: Request, operation: Operation) -> list[tuple[str, str]]:
        headers = [(name, value) for name, value in request.headers.items() if name not in HOP_HEADERS]
        before = request.headers.get(FORWARDED_BY)
        headers = [(name, value) for name, value in headers if name != FORWARDED_BY]
        headers.append((FORWARDED_BY, self._name if before is None else f"{before},{self._name}"))
        if operation.access is Access.SIGNED or find_node(request, self._settings) is not None:
            return headers
        kept = [(name, value) for name, value in headers if name not in ("authorization", "cookie")]
        return [*kept, ("authorization", f"Bearer {self._settings.token}")]

    async def read_body(self, request: Request, operation: Operation) -> bytes | AsyncIterator[bytes] | None:
        """Return the body of a request that is to be forwarded: whole, or as it comes; None if it has none."""
        if request.method in ("GET", "HEAD"):
            return None
        if operation.streamed:
            return request.stream()
        return await read_bytes(request, operation.max_body or self._settings.max_body)


def _read_target(request: Request) -> str:
    """Return the path and the query of a request, exactly as they were sent."""
    path = request.scope["raw_path"].decode("ascii")
    query = request.scope["query_string"].decode("ascii", "surrogateescape")
    return f"{path}?{query}" if query else path


def _relay(answer: httpx2.Response, *stops: asyncio.Event) -> Response:
    response = StreamingResponse(_read_answer(answer, *stops), answer.status_code)
    response.raw_headers = [
        (name.lower(), value) for name, value in answer.headers.raw if _is_relayed(name.decode("latin-1").lower())
    ]
    return response


def _is_relayed(header: str) -> bool:
    return header not in HOP_HEADERS | OWN_HEADERS and not header.startswith("access-control-")


async def _read_answer(answer: httpx2.Response, *stops: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield the body of an answer until it ends, or until this gateway or the other one stops, or is given up.

    A stream of events then ends, because its reader resumes it. Of any other answer, the connection is closed, so that
    nobody takes a part of it for the whole.
    """
    chunks, is_whole = answer.aiter_raw(), False
    try:
        while (chunk := await run_until_stopped(anext(chunks, b""), *stops)) is not None:
            if not chunk:
                is_whole = True
                break
            yield chunk
    except httpx2.HTTPError as error:
        log.info("a forwarded answer broke off", path=answer.url.path, why=str(error) or repr(error))
    finally:
        with contextlib.suppress(httpx2.HTTPError):
            await answer.aclose()
    if not is_whole and not answer.headers.get("content-type", "").startswith("text/event-stream"):
        raise ClientDisconnect  # the answer is left incomplete
