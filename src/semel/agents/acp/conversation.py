"""One live agent process with one session: the client side of ACP.

Order is the point of the design. Each message from the agent is handled in one synchronous callback, which puts
signals on one queue; so signals keep the order of the wire. A prompt's end follows all its updates, and every update
before the answer to `session/load` is replay.

Back-pressure: when too many signals are queued, reading pauses, and the agent blocks on its stdout until the gateway
has caught up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import IO, Any, Literal

from semel.agents.acp.process import GuardedProcess
from semel.agents.acp.replies import RpcError, answered, normalize_id
from semel.agents.acp.session import Choices
from semel.agents.acp.wire import Call, Id, Message, Noise, Reply, Trace, Wire
from semel.gateway.ports import AgentError, Asked, Died, Json, Signal, Update

log = logging.getLogger("semel.agents")

PAUSE_ABOVE_SIGNALS, RESUME_AT_SIGNALS = 4096, 512  # queued signals at which reading pauses; resumes
PIPE_DRAIN_TIMEOUT_S = 1.0  # seconds after the agent's exit, if a process outside its group holds the pipe
METHOD_NOT_FOUND, REQUEST_CANCELLED = -32601, -32800


class AcpConversation:
    """See `semel.gateway.ports.Conversation`. Made by `AcpAgent.open`."""

    def __init__(self, name: str, process: GuardedProcess, stdout: IO[bytes], trace: Trace | None, limit: int) -> None:
        self.memory = ""
        self.restored: Literal["new", "loaded", "resumed"] = "new"
        self.agent_name = ""
        self.profile = ""
        self.images = False
        self.choices = Choices()
        self.process = process
        self.name = name
        self._trace = trace
        self._signals: deque[Signal] = deque()
        self._news = asyncio.Event()
        self._died: Died | None = None
        self.replaying = False
        self._replay_ends: Id = None  # id of the request whose answer ends the replay
        self._ids = 0
        self._waiting: dict[Id, asyncio.Future[Any]] = {}  # our requests; prompts are in _prompts
        self._prompts: set[Id] = set()
        self._asked: dict[str, Id] = {}  # open permission requests: our id -> the agent's
        self._cancelling = False  # until the cancelled prompt has ended
        self._noise: deque[str] = deque(maxlen=5)
        self._wire = Wire(process.writer, stdout, self._message, self._stream_ended, trace=trace, limit=limit)
        process.on_exit(self._exited)

    def __repr__(self) -> str:
        state = "dead" if self._died else f"{len(self._prompts)} prompts, {len(self._asked)} asked"
        return f"<AcpConversation {self.name} {self.memory or 'unopened'} {state}, {len(self._signals)} queued>"

    @property
    def modes(self) -> Json | None:
        return self.choices.modes

    @property
    def models(self) -> Json | None:
        return self.choices.models

    # ---------------------------------------------------------------- the gateway's side

    async def next(self) -> Signal:
        """See ports. One consumer at a time; a cancelled wait loses nothing."""
        while not self._signals:
            if self._died:
                return self._died
            self._news.clear()
            await self._news.wait()
        signal = self._signals.popleft()
        if len(self._signals) == RESUME_AT_SIGNALS:
            self._wire.reader.resume()
        return signal

    async def prompt(self, content: Sequence[Json]) -> None:
        """See ports. From here on updates are live."""
        self.replaying = self._cancelling = False
        self._ids += 1
        self._prompts.add(self._ids)
        self._send(id=self._ids, method="session/prompt", params={"sessionId": self.memory, "prompt": list(content)})

    async def answer(self, id: str, option: str | None) -> None:
        """See ports."""
        if id not in self._asked:
            return
        outcome = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
        self._send(id=self._asked.pop(id), result={"outcome": outcome})

    async def cancel(self) -> None:
        """See ports. Open permission requests are answered, too: some agents never end the prompt otherwise.

        A permission request that arrives after the cancel is answered "cancelled" at once and never shown.
        """
        self._cancelling = bool(self._prompts)
        self._send(method="session/cancel", params={"sessionId": self.memory})
        await self.cancel_open_requests()

    async def set_mode(self, mode: str) -> None:
        """Set the session's mode. Raises AgentError if the mode is unknown or the agent refuses."""
        await self._set(lambda: self.choices.mode_request(mode))
        self.choices.chosen(mode=mode)

    async def set_model(self, model: str) -> None:
        """Set the session's model. Raises AgentError if the model is unknown or the agent refuses."""
        await self._set(lambda: self.choices.model_request(model))
        self.choices.chosen(model=model)

    async def _set(self, request: Callable[[], tuple[str, Json]], timeout: float = 30.0) -> None:
        try:
            method, params = request()
            await self.request(method, {"sessionId": self.memory, **params}, timeout)
        except (ValueError, RpcError) as error:
            raise AgentError(f"agent {self.name!r}: {error}") from error

    async def close(self, grace: float) -> None:
        """See ports."""
        try:
            if self._died is None and grace > 0:
                await self.cancel_open_requests()
            await self.process.end(grace)
        finally:
            self._wire.finish("was ended by the gateway")
            self._die("was ended by the gateway")
            if self._trace:
                self._trace.close()

    async def cancel_open_requests(self) -> None:
        """Answer every open permission request as cancelled."""
        for id in list(self._asked):
            await self.answer(id, None)

    # ---------------------------------------------------------------- requests of ours

    def _send(self, **message: Any) -> None:
        self._wire.send(message)
        if self.process.writer.stuck:
            self._fail("does not read its input")

    async def request(self, method: str, params: Json, timeout: float, *, ends_replay: bool = False) -> Any:
        """Send a request and wait for its result. Raises RpcError (the agent's error answer), or AgentError if the
        agent does not answer within `timeout` seconds or dies.

        ends_replay: updates that follow the answer are live, not replay.
        """
        if self._died:
            raise AgentError(self.about(self._died.why), passing=self._was_killed())
        self._ids += 1
        id = self._ids
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[id] = future
        if ends_replay:
            self._replay_ends = id
        self._wire.reader.resume()  # the caller may be the queue's consumer: a paused reader would never get the answer
        self._send(id=id, method=method, params=params)
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            slow = f"did not answer `{method}` within {timeout:g} s"
            raise AgentError(self.about(slow), passing=True) from None
        finally:
            self._waiting.pop(id, None)

    def about(self, why: str) -> str:
        """Describe a failure, with the last lines that the agent printed."""
        text = f"agent {self.name!r} {why}"
        if self._noise and not self.agent_name:
            text += f"; it printed {' / '.join(self._noise)!r} where ACP was expected: check its command"
        if said := self.process.stderr.tail(3):
            text += f"; it said: {said}"
        return text

    # ---------------------------------------------------------------- what comes, in order

    def _message(self, message: Message) -> None:
        match message:
            case Call("session/update"):
                self._update(message)
            case Call("session/request_permission") if message.asks:
                self._permission(message)
            case Call("_session/retrying"):  # Vibe: the model's stream broke; the next chunks replace the text so far
                self._put(Update({**message.params, "sessionUpdate": message.method}, self.replaying))
            case Call("$/cancel_request"):
                self._withdraw(message.params.get("requestId"))
            case Call() if message.asks:
                # fs/*, terminal/* and extensions, which we do not offer; without an answer the agent would hang.
                self._refuse(message.id, METHOD_NOT_FOUND, f"Semel does not offer {message.method}")
            case Reply():
                self._reply(message)
            case Noise():
                self._noise.append(message.text[:200])
                log.debug("agent %s printed: %.200s", self.name, message.text)

    def _update(self, call: Call) -> None:
        update = call.params.get("update")
        session = call.params.get("sessionId")
        if call.asks:
            self._send(id=call.id, result=None)
        if not isinstance(update, dict) or (self.memory and session not in (self.memory, None)):
            log.debug("agent %s: an update of session %s is not ours", self.name, session)
            return
        self.choices.changed(update)
        self._put(Update(update, self.replaying))

    def _permission(self, call: Call) -> None:
        if self._cancelling:
            self._send(id=call.id, result={"outcome": {"outcome": "cancelled"}})
            return
        tool, options = call.params.get("toolCall"), call.params.get("options")
        self._ids += 1
        id = f"ask-{self._ids}"
        self._asked[id] = call.id
        known = options if isinstance(options, list) else []
        self._put(
            Asked(
                id,
                tool if isinstance(tool, dict) else {},
                tuple(one for one in known if isinstance(one, dict)),
            )
        )

    def _withdraw(self, request: Any) -> None:
        """The agent withdraws a permission request; a later answer to it is ignored."""
        for id, theirs in list(self._asked.items()):
            if theirs == request:
                del self._asked[id]
                self._refuse(theirs, REQUEST_CANCELLED, "request cancelled")

    def _refuse(self, id: Id, code: int, message: str) -> None:
        self._send(id=id, error={"code": code, "message": message})

    def _reply(self, reply: Reply) -> None:
        id = normalize_id(reply.id)
        if id in self._prompts:
            self._prompts.discard(id)
            self._cancelling = self._cancelling and bool(self._prompts)
            self._put(answered(reply))
        elif (future := self._waiting.get(id)) is not None and not future.done():
            if id == self._replay_ends:
                self.replaying = False
            if reply.error is not None:
                future.set_exception(RpcError(reply.error))
            else:
                future.set_result(reply.result)
        else:
            log.debug("agent %s answered a request we did not make: %s", self.name, reply.id)

    def forget(self) -> None:
        """Drop all queued signals: the replay of a load that failed in the end."""
        self._signals.clear()

    async def silence(self, quiet: float, at_most: float = 10.0) -> None:
        """Wait until no signal has arrived for `quiet` seconds, at most `at_most`: the end of an unmarked replay."""
        loop = asyncio.get_running_loop()
        until, heard, since = loop.time() + at_most, len(self._signals), loop.time()
        while loop.time() - since < quiet and loop.time() < until and not self._died:
            await asyncio.sleep(0.05)
            if len(self._signals) != heard:
                heard, since = len(self._signals), loop.time()

    def _put(self, signal: Signal) -> None:
        if self._died:
            return
        self._signals.append(signal)
        self._news.set()
        if (
            len(self._signals) >= PAUSE_ABOVE_SIGNALS
            and self.memory
            and not self._waiting
            and self.process.code is None
        ):
            self._wire.reader.pause()  # the agent waits until the gateway has caught up

    # ---------------------------------------------------------------- death

    def _exited(self) -> None:
        """The group's leader has exited: kill its workers, and read what is still in the pipe."""
        self._stop()
        self._wire.reader.resume()
        asyncio.get_running_loop().call_later(PIPE_DRAIN_TIMEOUT_S, self._wire.finish, None)

    def _stream_ended(self, why: str | None) -> None:
        self.process.stderr.drain()
        if why is not None:
            self._stop()
            self._die(why)
        elif self.process.code is not None:
            self._fail(self.process.how_it_ended())
        else:
            self._ending = asyncio.create_task(self._closed_its_output())

    async def _closed_its_output(self) -> None:
        if await self.process.exited(within=0.5):
            self.process.stderr.drain()
            self._fail(self.process.how_it_ended())
        else:
            self._fail("closed its output")

    def _stop(self) -> None:
        if not self.process.ending:  # while the gateway ends it, workers get their grace period
            self.process.kill()

    def _fail(self, why: str) -> None:
        self._stop()
        said = self.process.stderr.tail(1)
        self._die(f"{why}; its last words: {said}" if said else why)

    def _die(self, why: str) -> None:
        if self._died:
            return
        self._died = Died(why)
        self._signals.append(self._died)
        self._news.set()
        for future in self._waiting.values():
            if not future.done():
                with contextlib.suppress(asyncio.InvalidStateError):
                    about = self.about(why.partition("; its last words")[0])
                    future.set_exception(AgentError(about, passing=self._was_killed()))

    def _was_killed(self) -> bool:
        """Whether a signal killed it, as the OOM killer does. That may pass; an agent that exits by itself says why."""
        return self.process.code is not None and self.process.code < 0
