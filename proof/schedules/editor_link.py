"""The way from an editor's `semel acp` to the gateway of a world: the real client and link, over wires of the world's.

Requests take their time, answers are lost now and then, and whoever asks a gateway that dies hears nothing. Everything
above a request is the real code: what is sent again, under which key, and when a stream is opened anew.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx2
import msgspec

from proof.schedules.people import follow
from proof.schedules.wires import Gone, Pipe
from semel.faces.acp.connection.gateway_link import POLL_INTERVAL_S, START_TIMEOUT_S, GatewayLink, GatewayNotStarted
from semel.faces.client import AsyncClient, RequestRefused
from semel.faces.http.operations.messages import OWNER, check_accepted
from semel.faces.http.problems import CODES, make_problem
from semel.gateway import Gateway
from semel.ledger.inbound.answers import AnswerContext
from semel.tools.address import NoGateway

if TYPE_CHECKING:
    from random import Random

    from proof.schedules.world import World

Json = dict[str, Any]
LOST = 0.05  # the share of answers that nobody hears


class WorldClient(AsyncClient):
    """`AsyncClient` of the gateway that lives in a world now."""

    def __init__(self, world: World, chance: Random) -> None:
        self.data_dir = world.folder
        self._world = world
        self._chance = chance
        self._streams: dict[asyncio.Event, None] = {}  # what ends each of them
        self.stopping: Callable[[Json], None] = lambda body: None  # called when a stop is on its way to a gateway
        self.sending: Callable[[Json], None] = lambda body: None  # called when a message is on its way to a gateway

    async def close(self) -> None:
        """The process is gone, or a connection of its own: the gateway notices that."""
        for over in list(self._streams):
            over.set()

    async def _call(self, method: str, path: str, body: Json | None, timeout_s: float = 0.0) -> Json:
        if path.endswith("/stop"):
            self.stopping(body or {})
        await asyncio.sleep(self._world.outside.lag())
        gateway = self._world.gateway
        if gateway is None or not self._world.up:
            raise httpx2.ConnectError("nobody is there")
        if path.endswith("/messages"):
            self.sending(body or {})
        try:
            answer = await self._world.ask(lambda: serve(gateway, method, path, body or {}))
        except Gone:
            raise httpx2.ReadError("the gateway died") from None
        except Exception as fault:
            raise _refuse(fault) from None
        if self._chance.random() < LOST:
            raise httpx2.ReadError("the answer was lost")
        return dict(json.loads(msgspec.json.encode(answer)))

    async def stream(self, session: str, after: int | None = None) -> AsyncGenerator[Json, None]:
        await asyncio.sleep(self._world.outside.lag())
        gateway = self._world.gateway
        if gateway is None or not self._world.up:
            raise NoGateway(self.data_dir)
        frames: asyncio.Queue[Json | None] = asyncio.Queue()
        pipe, over = Pipe(self._world.outside, frames.put_nowait), asyncio.Event()
        self._streams[over] = None
        follows = self._world.ask(lambda: follow(gateway, session, after, pipe, over))
        follows.add_done_callback(lambda _: pipe.put(None))
        try:
            while (frame := await frames.get()) is not None:
                yield dict(json.loads(msgspec.json.encode(frame)))
            if (fault := follows.exception()) is not None and not isinstance(fault, Gone):
                raise _refuse(fault)
        finally:
            over.set()
            self._streams.pop(over, None)


class WorldLink(GatewayLink):
    """`GatewayLink` of a world, in which the gateway that was killed is started again by somebody."""

    def __init__(self, world: World, chance: Random) -> None:
        super().__init__(world.folder, None, may_start=True)
        self._world = world
        self.client = WorldClient(world, chance)

    async def connect(self) -> AsyncClient:
        return self.client

    async def is_answering(self) -> bool:
        return self._world.up

    async def _start(self) -> None:
        """Another one has the lock, and starts it."""
        deadline = self._world.loop.time() + START_TIMEOUT_S
        while not self._world.up:
            if self._world.loop.time() > deadline:
                raise GatewayNotStarted(f"it did not answer within {START_TIMEOUT_S:g} s")
            await asyncio.sleep(POLL_INTERVAL_S)


def _refuse(fault: BaseException) -> Exception:
    """What a client raises for it."""
    problem = make_problem(fault) if isinstance(fault, Exception) else None
    if problem is None:
        return AssertionError(f"the gateway failed: {fault!r}")
    return RequestRefused(CODES[problem.code][0], problem.code, problem.detail)


async def serve(gateway: Gateway, method: str, path: str, body: Json) -> Any:
    """In the gateway's process: do what the operation does that is at this path."""
    url = urlsplit(path)
    key, *rest = map(unquote, url.path.split("/")[3:])
    match method, rest:
        case "GET", []:
            return await gateway.session(key)
        case "GET", ["history"]:
            query = dict(parse_qsl(url.query))
            return await gateway.history(key, int(query["after"]), int(query["limit"]))
        case "PUT", []:
            return (await gateway.make_session(key, body["agent"], body["folder"]))[0]
        case "POST", ["agent"]:
            return await gateway.start_agent(key, awaits_commands=body["await_commands"])
        case "POST", ["messages"]:
            about = {"sender": body["sender"], "key": body["id"], "seen": body.get("seen")}
            heard = await gateway.say(key, blocks=body["blocks"], **about)
            return {"event": heard.event, "status": check_accepted(heard), "waiting": heard.waiting}
        case "POST", ["stop"] if body.get("message") is not None:
            done = await gateway.controls.stop_message(key, body["by"] or OWNER, body["message"])
            return {"stopped": done is not None, "withdrawn": done == "withdrawn"}
        case "POST", ["stop"]:
            stopped = await gateway.controls.stop_turn(key, body["by"] or OWNER, body["turn"], body["seen"])
            return {"stopped": stopped}
        case "POST", ["answers"]:
            context = AnswerContext(seen=body["seen"])
            outcome = await gateway.controls.answer(key, body["item"], body["option"], body["by"], context=context)
            return {"outcome": outcome}
    raise AssertionError(f"no operation is at {method} {path}")
