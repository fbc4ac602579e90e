"""A session of the scripted agent, and its turn, which runs the steps of a script in a thread of its own.

The step `x` is run by the method `do_x`. A cancel takes effect between steps and at every pause, unless a step `deaf`
has run.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from semel.testing.scripted_agent.memory import AgentMemory
from semel.testing.scripted_agent.rpc import Cancelled, Json, McpServer, Peer, PeerGone, open_mcp_server
from semel.testing.scripted_agent.script import cut

MODES = [
    {"id": "auto", "name": "Auto", "description": "Runs its tools without asking"},
    {"id": "ask", "name": "Ask", "description": "Asks before it runs a tool"},
]
MODELS = [
    {"value": "brisk", "name": "Brisk"},
    {"value": "slow", "name": "Slow", "description": "Streams ten times slower"},
]
EFFORTS = [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}]
OPTIONS: list[Json] = [
    {"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": "brisk", "options": MODELS},
    {"id": "effort", "name": "Effort", "type": "select", "currentValue": "low", "options": EFFORTS},
    {"id": "search", "name": "Search", "type": "boolean", "currentValue": False},
]
PERMISSION_OPTIONS = [
    {"optionId": "allow", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]
STOP_REASON_KEY = "semel-demo/ended"  # the `_meta` key of the stop reason that ends each turn in the history
_lock = threading.Lock()
_count = 0


def new_id(kind: str) -> str:
    """Return an id that is unique across processes of this agent. `kind`: its prefix."""
    global _count
    with _lock:
        _count += 1
        return f"{kind}-{os.getpid()}-{time.time_ns() // 1_000_000 % 10**9}-{_count}"


class PromptEnded(Exception):
    """A step ends the prompt with this stop reason."""


class PromptFailed(Exception):
    """A step ends the prompt with this JSON-RPC error."""

    def __init__(self, error: Json) -> None:
        self.error = error


class Session:
    """One session: its memory, its MCP servers and its running turn."""

    def __init__(self, client: Peer, memory: AgentMemory, servers: list[Json]) -> None:
        self.client = client
        self.memory = memory
        self.mode = "auto"
        self.values: Json = {option["id"]: option["currentValue"] for option in OPTIONS}
        self.turn: Turn | None = None
        self._specs = servers
        self._servers: list[McpServer] = []
        self._lock = threading.Lock()

    def emit(self, update: Json) -> None:
        params = {"sessionId": self.memory.session, "update": update}
        self.client.send({"method": "session/update", "params": params})

    def ask(self, method: str, params: Json) -> Json:
        return self.client.request(method, {"sessionId": self.memory.session, **params})

    def server(self, tool: str) -> McpServer:
        """Return the server that has this tool, after starting the servers if none runs. Raises LookupError if none has
        the tool, OSError if a server does not start."""
        with self._lock:
            if not self._servers:
                self._servers = [open_mcp_server(spec) for spec in self._specs]
            for server in self._servers:
                if tool in server.tools:
                    return server
        raise LookupError(f"no MCP server of this session has a tool {tool!r}")

    def stop_servers(self, kill: bool = False) -> None:
        with self._lock:
            servers, self._servers = self._servers, []
        for server in servers:
            server.stop(kill)

    def offers(self) -> Json:
        """Return the modes and configuration options, in the format of the answers to session/new and session/load."""
        return {
            "modes": {"currentModeId": self.mode, "availableModes": MODES},
            "configOptions": [{**option, "currentValue": self.values[option["id"]]} for option in OPTIONS],
        }


class Turn:
    """A turn: runs steps (see the module `script`) and collects their updates for the session's history."""

    def __init__(self, session: Session, prompt: str) -> None:
        self.session = session
        self.prompt = prompt
        self.cancelled = threading.Event()
        self._history: list[Json] = []
        self._message = ""
        self._deaf = False
        self._forget = False
        self._lock = threading.Lock()
        self._joined: list[Any] = []  # ids of prompts that joined this turn
        self._waiting: list[str] = []  # texts of joined prompts that were not run yet
        self._over = False
        self._record_chunk("user_message_chunk", prompt, new_id("user"))

    def run(self, steps: list[Any]) -> None:
        """Run the steps. Raises Cancelled if the turn is cancelled, or the exception of a `stop` or `error` step."""
        for step in steps:
            self._check()
            named_step = {"text": step} if isinstance(step, str) else step
            name = next(iter(named_step))
            do = getattr(self, f"do_{name}", None)
            if do is None:
                raise PromptFailed({"code": -32602, "message": f"the scripted agent knows no step {name!r}"})
            do(named_step[name], {key: value for key, value in named_step.items() if key != name})

    # ---------------------------------------------------------------- prompts that come during the turn

    def join(self, id: Any, prompt: str) -> bool:
        """Add another prompt to this turn. Returns False if the turn is over already."""
        with self._lock:
            if not self._over:
                self._joined.append(id)
                self._waiting.append(prompt)
            return not self._over

    def next(self) -> str | None:
        """Return the next prompt that joined the turn. Returns None, and ends the turn, if there is none."""
        with self._lock:
            self._over = not self._waiting
            prompt = None if self._over else self._waiting.pop(0)
        if prompt is not None:
            self._record_chunk("user_message_chunk", prompt, new_id("user"))
            self._message = ""
        return prompt

    def close(self) -> list[Any]:
        """End the turn. Returns the ids of the prompts that joined it."""
        with self._lock:
            self._over = True
            return self._joined

    def save(self, stop: str | None = None) -> None:
        """Append the updates since the last save to the history, then the stop reason `stop` if the turn has ended."""
        updates, self._history = self._history, []
        if stop is not None:
            updates.append({"sessionUpdate": "session_info_update", "_meta": {STOP_REASON_KEY: stop}})
        if not self._forget:
            self.session.memory.save(updates)

    # ---------------------------------------------------------------- updates

    def _record_chunk(self, kind: str, text: str, id: str) -> None:
        """Add a chunk to the history, joined to the message that it continues."""
        last = self._history[-1] if self._history else {}
        if last.get("sessionUpdate") == kind and last.get("messageId") == id:
            last["content"]["text"] += text
        else:
            content = {"type": "text", "text": text}
            self._history.append({"sessionUpdate": kind, "content": content, "messageId": id})

    def _stream(self, kind: str, text: str, options: Json) -> None:
        self._message = options.get("message") or self._message or new_id("msg")
        for piece in cut(text, options.get("chunks", 3 if kind == "agent_message_chunk" else 1)):
            self._check()
            content = {"type": "text", "text": piece}
            self.session.emit({"sessionUpdate": kind, "content": content, "messageId": self._message})
            self._record_chunk(kind, piece, self._message)
            self._pause(options.get("delay", 0))

    def _check(self) -> None:
        if self.cancelled.is_set() and not self._deaf:
            raise Cancelled

    def _pause(self, seconds: float) -> None:
        if self._deaf:
            time.sleep(seconds)
        elif seconds and self.cancelled.wait(seconds):
            raise Cancelled

    # ---------------------------------------------------------------- steps

    def do_text(self, text: str, options: Json) -> None:
        self._stream("agent_message_chunk", text, options)

    def do_think(self, text: str, options: Json) -> None:
        self._stream("agent_thought_chunk", text, options)

    def do_prompt(self, _: Any, options: Json) -> None:
        self._stream("agent_message_chunk", self.prompt, options)

    def do_update(self, update: Json, _: Json) -> None:
        self.session.emit(update)
        content = update.get("content")
        if isinstance(content, dict) and content.get("type", "text") != "text":  # files and images
            self._history.append(update)

    def do_remember(self, update: Json, _: Json) -> None:
        self._history.append(update)

    def do_tool(self, title: str, options: Json) -> None:
        id = options.get("id") or new_id("tool")
        call = {"toolCallId": id, "title": title, "kind": options.get("kind", "execute")}
        call["rawInput"] = options.get("input", {})
        terminal = {
            "content": [{"type": "terminal", "terminalId": id}],
            "_meta": {"terminal_info": {"terminal_id": id}},
        }
        self.session.emit({"sessionUpdate": "tool_call", **call, "status": "in_progress", **terminal})
        output: list[str] = []
        result = {"toolCallId": id, "status": "failed" if options.get("exit", 0) else "completed"}
        try:
            for piece in options.get("output", []):
                output.append(piece)
                meta = {"terminal_output": {"terminal_id": id, "data": piece}}
                self.session.emit({"sessionUpdate": "tool_call_update", "toolCallId": id, "_meta": meta})
                self._pause(options.get("delay", 0))
        except Cancelled:
            result["status"] = "failed"
            raise
        finally:
            meta = {"terminal_exit": {"terminal_id": id, "exit_code": options.get("exit", 0), "signal": None}}
            self.session.emit({"sessionUpdate": "tool_call_update", **result, "_meta": meta})
            self._record_call({**call, **result}, "".join(output))

    def _record_call(self, call: Json, output: str) -> None:
        content = [{"type": "content", "content": {"type": "text", "text": output}}]
        self._history.append({"sessionUpdate": "tool_call", **call, "content": content})
        self._message = ""  # text after a tool call is another message

    def do_call(self, name: str, options: Json) -> None:
        id, arguments = options.get("id") or new_id("call"), options.get("arguments", {})
        call = {"toolCallId": id, "title": f"mcp__semel__{name}", "kind": "other", "rawInput": arguments}
        if options.get("announce", True):
            self.session.emit({"sessionUpdate": "tool_call", **call, "status": "in_progress"})
        result: Json = {"toolCallId": id, "status": "failed"}
        text = "cancelled"
        try:
            succeeded, text = self._call(name, arguments, options, id)
            result["status"] = "completed" if succeeded else "failed"
        finally:
            content = [{"type": "content", "content": {"type": "text", "text": text}}]
            if options.get("announce", True):
                self.session.emit({"sessionUpdate": "tool_call_update", **result, "content": content})
            self._record_call({**call, **result}, text)

    def _call(self, name: str, arguments: Json, options: Json, id: str) -> tuple[bool, str]:
        meta = options.get("meta")
        if meta == "claude":
            meta = {"claudecode/toolUseId": id}
        for may_retry in (True, False):
            try:
                server = self.session.server(name)
                return server.call(name, arguments, meta, self.cancelled)
            except PeerGone as gone:
                self.session.stop_servers()
                if not (may_retry and options.get("reissue")):
                    return False, str(gone)
            except (LookupError, OSError, ValueError) as error:
                return False, str(error)
        return False, "the MCP server ended again"

    def do_together(self, steps: list[Any], _: Json) -> None:
        errors: list[Exception] = []
        threads = [threading.Thread(target=self._run_step_in_thread, args=(step, errors)) for step in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def _run_step_in_thread(self, step: Any, errors: list[Exception]) -> None:
        try:
            self.run(step if isinstance(step, list) else [step])
        except Exception as error:  # raised again in the turn's own thread
            errors.append(error)

    def _ask_permission(self, call: Json, options: list[Json]) -> bool:
        """Ask the client for permission. Returns whether it was granted.

        It waits for the answer even after a cancel: ACP demands an answer, and real agents wait for it, too.
        """
        answer = self.session.ask("session/request_permission", {"toolCall": call, "options": options})
        outcome = (answer.get("result") or {}).get("outcome") or {}
        if outcome.get("outcome") != "selected":
            self._check()
            return False
        kinds = {option["optionId"]: option["kind"] for option in options}
        return str(kinds.get(outcome.get("optionId"), "")).startswith("allow")

    def do_permission(self, title: str, options: Json) -> None:
        id = options.get("id") or new_id("tool")
        call = {"toolCallId": id, "title": title, "kind": "execute", "rawInput": options.get("input", {})}
        allowed = self._ask_permission({**call, "status": "pending"}, options.get("options", PERMISSION_OPTIONS))
        self.run(options.get("allowed" if allowed else "denied", []))

    def do_ask(self, method: str, options: Json) -> None:
        answer = self.session.ask(method, options.get("params", {}))
        self.do_text(str(answer.get("error", {}).get("message") or answer.get("result")), {"chunks": 1})

    def do_raw(self, text: str, _: Json) -> None:
        self.session.client.send_raw(text.encode("utf-8", "surrogatepass") + b"\n")

    def do_stderr(self, text: str, options: Json) -> None:
        sys.stderr.write(f"{text}\n" * options.get("times", 1))
        sys.stderr.flush()

    def do_sleep(self, seconds: float, _: Json) -> None:
        self._pause(seconds)

    def do_wait(self, path: str, _: Json) -> None:
        while not Path(path).exists():
            self._pause(0.01)
            self._check()

    def do_touch(self, path: str, _: Json) -> None:
        Path(path).touch()

    def do_save(self, how: Any, options: Json) -> None:
        self.save("end_turn" if how == "end" else None)

    def do_forget(self, _: Any, options: Json) -> None:
        self._forget = True

    def do_kill_mcp(self, _: Any, options: Json) -> None:
        self.session.stop_servers(kill=True)

    def do_deaf(self, _: Any, options: Json) -> None:
        self._deaf = True

    def do_hang(self, _: Any, options: Json) -> None:
        while True:
            self._pause(3600)

    def do_die(self, number: int, _: Json) -> None:
        os.kill(os.getpid(), signal.Signals(number))

    def do_exit(self, code: int, _: Json) -> None:
        sys.stderr.flush()
        os._exit(code)

    def do_error(self, error: Json, _: Json) -> None:
        raise PromptFailed(error)

    def do_stop(self, reason: str, _: Json) -> None:
        raise PromptEnded(reason)
