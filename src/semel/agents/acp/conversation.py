"""One live agent process with one session: the client side of ACP.

The design keeps the order of messages. One synchronous callback handles each message from the agent, and puts signals
into one queue. So signals have the order in which the agent sent the messages. The end of a prompt follows all its
updates, and every update before the answer to `session/load` belongs to the replay.

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

from semel.acp_stream.choices import set_current
from semel.acp_stream.profiles import profile_for
from semel.acp_stream.wire import STOP_REASONS
from semel.agents.acp.login import LoginAdvice, LoginStatus
from semel.agents.acp.process import GuardedProcess
from semel.agents.acp.session import LOGIN_ERRORS, Choices, RpcError, normalize_id, parse_prompt_answer
from semel.agents.acp.wire import KEPT_STRAY_BYTES, AcpWire, AgentReply, Id, IncomingCall, Message, Noise, Trace
from semel.gateway.ports import AgentError, Asked, Died, Json, Signal, Update
from semel.text.json_types import object_at, objects_in, value_at
from semel.text.sentences import join_sentences
from semel.text.wellformed import one_line

log = logging.getLogger("semel.agents")

PAUSE_ABOVE_SIGNALS, RESUME_AT_SIGNALS = 4096, 512  # numbers of queued signals at which reading pauses and resumes
PIPE_DRAIN_TIMEOUT_S = 1.0  # how long output is read after the agent's exit, if another process holds the pipe open
CHOICE_TIMEOUT_S = 30.0  # for an answer to a change of mode or model
MAX_LOGGED_STRAY_LINES = 100  # of each agent process; the others are counted
METHOD_NOT_FOUND, REQUEST_CANCELLED = -32601, -32800
JAVASCRIPT_TOO_NEW = ("SyntaxError: ", "ReferenceError: ")  # an older Node.js says so of newer programs


class AcpConversation:
    """A conversation with an ACP agent (`semel.gateway.ports.Conversation`). Create it with `AcpAgent.open`."""

    def __init__(self, name: str, process: GuardedProcess, stdout: IO[bytes], trace: Trace | None) -> None:
        self.memory = ""
        self.restored: Literal["new", "loaded", "resumed"] = "new"
        self.agent_name = ""
        self.profile = ""
        self.images = self.audio = self.resources = False
        self.tools_problem = ""
        self.tools_advice = ""
        self.left_out_servers: Sequence[str] = ()
        self.choices = Choices()
        self.login_status = LoginStatus()
        self.login_advice = LoginAdvice(name)
        self.show_url: Callable[[str, str], None] | None = None  # shows a person the agent's words, and a URL to open
        self.process = process
        self.name = name
        self._trace = trace
        self._signals: deque[Signal] = deque()
        self._signal_added = asyncio.Event()
        self._died: Died | None = None
        self.replaying = False
        self._replay_ends: Id = None  # id of the request whose answer ends the replay
        self._last_id = 0
        self._pending_requests: dict[Id, asyncio.Future[Any]] = {}  # requests of Semel; prompts are in _prompts
        self._prompts: set[Id] = set()
        self._open_questions: dict[str, Id] = {}  # open permission requests: Semel's id -> the agent's
        self._cancelling = False  # a cancelled prompt has not ended yet
        self._stray_lines: deque[str] = deque(maxlen=5)
        self._stray_line_count = 0
        self._wire = AcpWire(process.writer, stdout, self._handle_message, self._on_stream_end, trace=trace)
        process.call_on_exit(self._on_exit)

    def __repr__(self) -> str:
        state = "dead" if self._died else f"{len(self._prompts)} prompts, {len(self._open_questions)} asked"
        return f"<AcpConversation {self.name} {self.memory or 'unopened'} {state}, {len(self._signals)} queued>"

    @property
    def modes(self) -> Json | None:
        return self.choices.modes

    @property
    def decides_alone(self) -> bool:
        """Whether the agent decides by itself, without asking, what it may do: always, or in its current mode."""
        profile = profile_for(self.agent_name)
        return profile.never_asks or (self.choices.modes or {}).get("currentModeId") in profile.unattended_modes

    @property
    def models(self) -> Json | None:
        return self.choices.models

    @property
    def options(self) -> list[Json] | None:
        return self.choices.config or None

    # ---------------------------------------------------------------- the gateway's side

    async def next(self) -> Signal:
        """Wait for the next signal and return it.

        Only one caller may wait at a time. A cancelled wait loses no signal.
        """
        while not self._signals:
            if self._died:
                return self._died
            self._signal_added.clear()
            await self._signal_added.wait()
        signal = self._signals.popleft()
        if len(self._signals) == RESUME_AT_SIGNALS:
            self._wire.reader.resume()
        return signal

    async def prompt(self, content: Sequence[Json]) -> None:
        """Send a prompt (ACP content blocks). From now on, updates are live and belong to no replay."""
        self.replaying = self._cancelling = False
        self._last_id += 1
        self._prompts.add(self._last_id)
        self._send(
            id=self._last_id, method="session/prompt", params={"sessionId": self.memory, "prompt": list(content)}
        )

    async def answer(self, id: str, option: str | None) -> None:
        """Answer a permission request.

        `option`: an option's id; None cancels the request. Ignore an unknown request.
        """
        if id not in self._open_questions:
            return
        outcome = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
        self._send(id=self._open_questions.pop(id), result={"outcome": outcome})

    async def cancel(self) -> None:
        """Cancel the running prompt and its open permission requests: some agents would never end the prompt otherwise.

        A permission request that arrives before the prompt has ended is answered as cancelled at once, and never shown.
        """
        self._cancelling = bool(self._prompts)
        self._send(method="session/cancel", params={"sessionId": self.memory})
        await self.cancel_open_requests()

    async def set_mode(self, mode: str) -> None:
        """Set the session's mode. Raises AgentError if the mode is unknown or the agent refuses."""
        self.choices.apply_choice(mode=await self._request_choice("mode", mode))

    async def set_model(self, model: str) -> None:
        """Set the session's model. Raises AgentError if the model is unknown or the agent refuses."""
        self.choices.apply_choice(model=await self._request_choice("model", model))

    async def set_option(self, option: str, value: str | bool) -> None:
        """Set a configuration option (ACP SessionConfigOption), by its id. Raises AgentError if the agent refuses."""
        kind: Json = {"type": "boolean"} if isinstance(value, bool) else {}
        params = {"sessionId": self.memory, "configId": option, **kind, "value": value}
        try:
            result = await self.request("session/set_config_option", params, CHOICE_TIMEOUT_S)
        except RpcError as error:
            raise AgentError(f"agent {self.name!r}: {error}") from error
        options = value_at(result, "configOptions")
        self.choices.read_options(options if options else set_current(self.choices.config, option, value))

    async def _request_choice(self, kind: Literal["mode", "model"], choice: str) -> str:
        """Ask the agent to use a mode or model, given by its id or name. Return its id. Raises AgentError.

        If the agent does not know ACP's request for this, set its configuration option instead.
        """
        try:
            value = self.choices.find(kind, choice)
            method, params = self.choices.choice_request(kind, value)
            try:
                result = await self.request(method, {"sessionId": self.memory, **params}, CHOICE_TIMEOUT_S)
            except RpcError as error:
                option = self.choices.options.get(kind)
                if error.code != METHOD_NOT_FOUND or option is None:
                    raise
                params = {"sessionId": self.memory, "configId": option, "value": value}
                result = await self.request("session/set_config_option", params, CHOICE_TIMEOUT_S)
            self.choices.read_options(value_at(result, "configOptions"))
        except (ValueError, RpcError) as error:
            raise AgentError(f"agent {self.name!r}: {error}") from error
        return value

    async def close(self, grace: float) -> None:
        """End the agent's process group and the conversation. `grace`: in seconds, as in `GuardedProcess.end`.

        Open permission requests stay unanswered. After an answer, the agent would go on with a turn that nobody records
        any more, and might run a tool that the turn's next attempt runs again (Law 9).
        """
        try:
            await self.process.end(grace)
        finally:
            self._wire.finish("was ended by the gateway")
            self._report_death("was ended by the gateway")
            if self._trace:
                self._trace.close()

    async def cancel_open_requests(self) -> None:
        """Answer every open permission request as cancelled."""
        for id in list(self._open_questions):
            await self.answer(id, None)

    # ---------------------------------------------------------------- requests to the agent

    def _send(self, **message: Any) -> None:
        self._wire.send(message)
        if self.process.writer.stuck:
            self._kill_and_die("does not read its input")

    async def request(self, method: str, params: Json, timeout: float, *, ends_replay: bool = False) -> Any:
        """Send a request, wait for its result, and return it.

        `timeout`: in seconds. `ends_replay`: updates after the answer are live and belong to no replay. Raises RpcError
        if the agent answers with an error, and AgentError if it dies or does not answer in time.
        """
        if self._died:
            raise AgentError(self.describe_failure(self._died.why), passing=self._was_killed())
        self._last_id += 1
        id = self._last_id
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending_requests[id] = future
        if ends_replay:
            self._replay_ends = id
        self._wire.reader.resume()  # the caller may be the queue's consumer: a paused reader would never get the answer
        self._send(id=id, method=method, params=params)
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            slow = f"did not answer `{method}` within {timeout:g} s"
            raise AgentError(self.describe_failure(slow), passing=True) from None
        finally:
            self._pending_requests.pop(id, None)

    def describe_failure(self, reason: str) -> str:
        """Return a failure in words for people: the agent's name, `reason`, and the error that the agent printed."""
        text = f"agent {self.name!r} {reason}"
        if self._stray_lines and not self.agent_name:
            text += f"; it printed {' / '.join(self._stray_lines)!r} where ACP was expected: check its command"
        if line := self.process.stderr.error_line():
            text += f"; it said: {line}"
            if line.startswith(JAVASCRIPT_TOO_NEW) and not self.agent_name:
                text += ". If it runs on Node.js, that may be too old: `node --version` should be 22 or newer"
        return text

    # ---------------------------------------------------------------- messages from the agent

    def _handle_message(self, message: Message) -> None:
        match message:
            case IncomingCall("session/update"):
                self._handle_update(message)
            case IncomingCall("session/request_permission") if message.is_request:
                self._handle_permission(message)
            case IncomingCall(
                "_session/retrying"
            ):  # Vibe: the model's stream broke; the next chunks replace the text so far
                self._add_signal(Update({**message.params, "sessionUpdate": message.method}, self.replaying))
            case IncomingCall("_auth/status_update"):  # Claude Code, Codex
                self.login_status = LoginStatus.read(message.params)
            case IncomingCall("elicitation/create", {"mode": "url"}) if message.is_request and self.show_url:
                self.show_url(str(message.params.get("message") or ""), str(message.params.get("url") or ""))
                self._send(id=message.id, result={"action": "accept"})
            case IncomingCall("$/cancel_request"):
                self._withdraw_question(message.params.get("requestId"))
            case IncomingCall() if message.is_request:
                # fs/*, terminal/* and extensions, which Semel does not offer; without an answer the agent would hang.
                self._send_error(message.id, METHOD_NOT_FOUND, f"Semel does not offer {message.method}")
            case AgentReply():
                self._handle_reply(message)
            case Noise():
                self._stray_lines.append(message.text[:KEPT_STRAY_BYTES])
                self._stray_line_count += 1
                if self._stray_line_count <= MAX_LOGGED_STRAY_LINES:
                    log.debug("agent %s printed: %.200s", self.name, message.text)

    def _handle_update(self, call: IncomingCall) -> None:
        update = call.params.get("update")
        session = call.params.get("sessionId")
        if call.is_request:
            self._send(id=call.id, result=None)
        if not isinstance(update, dict) or (self.memory and session not in (self.memory, None)):
            log.debug("agent %s: an update of session %s is not ours", self.name, session)
            return
        self.choices.apply_update(update)
        self._add_signal(Update(update, self.replaying))

    def _handle_permission(self, call: IncomingCall) -> None:
        if self._cancelling:
            self._send(id=call.id, result={"outcome": {"outcome": "cancelled"}})
            return
        self._last_id += 1
        id = f"ask-{self._last_id}"
        self._open_questions[id] = call.id
        self._add_signal(Asked(id, object_at(call.params, "toolCall"), tuple(objects_in(call.params.get("options")))))

    def _withdraw_question(self, request: Any) -> None:
        """Drop the permission request with the JSON-RPC id `request`, because the agent withdrew it.

        A later answer to the request is ignored.
        """
        for id, agent_id in list(self._open_questions.items()):
            if agent_id == request:
                del self._open_questions[id]
                self._send_error(agent_id, REQUEST_CANCELLED, "request cancelled")

    def _send_error(self, id: Id, code: int, message: str) -> None:
        self._send(id=id, error={"code": code, "message": message})

    def _warn_of_stop(self, reply: AgentReply) -> None:
        """Log a stop reason that is none of ACP's: the turn counts as ended, and nothing else would tell."""
        stop = value_at(reply.result, "stopReason")
        if reply.error is None and stop not in STOP_REASONS:
            words = one_line(repr(stop), 80)
            log.warning("agent %s ended a prompt without a stop reason of ACP; taken as end_turn: %s", self.name, words)

    def _handle_reply(self, reply: AgentReply) -> None:
        id = normalize_id(reply.id)
        if id in self._prompts:
            self._prompts.discard(id)
            self._cancelling = self._cancelling and bool(self._prompts)
            self._warn_of_stop(reply)
            self._add_signal(parse_prompt_answer(reply, self._explain_error))
        elif (future := self._pending_requests.get(id)) is not None and not future.done():
            if id == self._replay_ends:
                self.replaying = False
            if reply.error is not None:
                future.set_exception(RpcError(reply.error))
            else:
                future.set_result(reply.result)
        else:
            log.debug("agent %s answered a request we did not make: %s", self.name, reply.id)

    def _explain_error(self, error: str, code: object) -> str:
        """Return the error of a prompt, followed by what a person can do about it. `code`: the JSON-RPC error's code.

        A wrong key is often noticed only here, because agents open a session without trying the key.
        """
        if code in LOGIN_ERRORS and (advice := self.login_advice.explain_refusal(self.login_status)):
            error = join_sentences(error, advice)
        return profile_for(self.agent_name).add_hints(error)

    def drop_signals(self) -> None:
        """Drop all queued signals, because they belong to the replay of a failed load."""
        self._signals.clear()

    async def wait_for_silence(self, quiet: float, at_most: float = 10.0) -> None:
        """Wait until no signal has arrived for `quiet` seconds, but at most `at_most` seconds.

        This finds the end of a replay for agents that do not mark it.
        """
        loop = asyncio.get_running_loop()
        deadline, signal_count, quiet_since = loop.time() + at_most, len(self._signals), loop.time()
        while loop.time() - quiet_since < quiet and loop.time() < deadline and not self._died:
            await asyncio.sleep(0.05)
            if len(self._signals) != signal_count:
                signal_count, quiet_since = len(self._signals), loop.time()

    def _add_signal(self, signal: Signal) -> None:
        if self._died:
            return
        self._signals.append(signal)
        self._signal_added.set()
        if (
            len(self._signals) >= PAUSE_ABOVE_SIGNALS
            and self.memory
            and not self._pending_requests
            and self.process.code is None
        ):
            self._wire.reader.pause()  # the agent waits until the gateway has caught up

    # ---------------------------------------------------------------- death

    def _on_exit(self) -> None:
        """Kill the rest of the process group after its leader has exited, and read the output left in the pipe."""
        self._kill_group()
        self._wire.reader.resume()
        asyncio.get_running_loop().call_later(PIPE_DRAIN_TIMEOUT_S, self._wire.finish, None)

    def _on_stream_end(self, reason: str | None) -> None:
        self.process.stderr.drain()
        if reason is not None:
            self._kill_group()
            self._report_death(reason)
        elif self.process.code is not None:
            self._kill_and_die(self.process.describe_end())
        else:
            self._ending = asyncio.create_task(self._on_output_closed())

    async def _on_output_closed(self) -> None:
        if await self.process.wait_for_exit(within=0.5):
            self.process.stderr.drain()
            self._kill_and_die(self.process.describe_end())
        else:
            self._kill_and_die("closed its output")

    def _kill_group(self) -> None:
        if not self.process.is_ending:  # while the gateway ends it, workers get their grace period
            self.process.kill()

    def _kill_and_die(self, reason: str) -> None:
        self._kill_group()
        line = self.process.stderr.error_line()
        self._report_death(f"{reason}; its last words: {line}" if line else reason)

    def _report_death(self, reason: str) -> None:
        if self._died:
            return
        self._died = Died(reason)
        if (unlogged := self._stray_line_count - MAX_LOGGED_STRAY_LINES) > 0:
            log.debug("agent %s printed %d more lines that are not ACP", self.name, unlogged)
        self._signals.append(self._died)
        self._signal_added.set()
        for future in self._pending_requests.values():
            if not future.done():
                with contextlib.suppress(asyncio.InvalidStateError):
                    description = self.describe_failure(reason.partition("; its last words")[0])
                    future.set_exception(AgentError(description, passing=self._was_killed()))

    def _was_killed(self) -> bool:
        """Return whether a signal killed the agent (the OOM killer's, for example).

        Then another attempt may succeed.
        """
        return self.process.code is not None and self.process.code < 0
