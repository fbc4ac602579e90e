"""A turn of the demo agent: the steps of a script, run in order in a thread of the turn.

A step named `x` is the method `do_x`. Every pause is a cancellation point, unless the script made the agent deaf.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semel.agents.demo.mcp import Cancelled, Json, ServerGone
from semel.agents.demo.script import pieces

if TYPE_CHECKING:
    from semel.agents.demo.agent import Session

PERMISSION_OPTIONS = [
    {"optionId": "allow", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]
STOP_REASON_KEY = "semel-demo/ended"  # `_meta` key in the history: the stop reason of the turn that just ended
_lock = threading.Lock()
_count = 0


def new_id(kind: str) -> str:
    """An id that is unique across processes of this agent."""
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


class Turn:
    """Runs steps (`script`) and collects their updates for the session's history."""

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
        self._keep("user_message_chunk", prompt, new_id("user"))

    def run(self, steps: list[Any]) -> None:
        """Run the steps. Raises Cancelled if the turn is cancelled, or the exception of a `stop` or `error` step."""
        for step in steps:
            self._check()
            one = {"text": step} if isinstance(step, str) else step
            name = next(iter(one))
            do = getattr(self, f"do_{name}", None)
            if do is None:
                raise PromptFailed({"code": -32602, "message": f"the demo agent knows no step {name!r}"})
            do(one[name], {key: value for key, value in one.items() if key != name})

    # ---------------------------------------------------------------- prompts that come meanwhile

    def join(self, id: Any, prompt: str) -> bool:
        """Add another prompt to this turn; False if the turn is over already."""
        with self._lock:
            if not self._over:
                self._joined.append(id)
                self._waiting.append(prompt)
            return not self._over

    def next(self) -> str | None:
        """The next joined prompt; `None` if there is none, which ends the turn."""
        with self._lock:
            self._over = not self._waiting
            prompt = None if self._over else self._waiting.pop(0)
        if prompt is not None:
            self._keep("user_message_chunk", prompt, new_id("user"))
            self._message = ""
        return prompt

    def close(self) -> list[Any]:
        """End the turn; returns the ids of the prompts that joined it."""
        with self._lock:
            self._over = True
            return self._joined

    def save(self, stop: str | None = None) -> None:
        """Write the updates since the last save into the history, and the stop reason if the turn has ended."""
        told, self._history = self._history, []
        if stop is not None:
            told.append({"sessionUpdate": "session_info_update", "_meta": {STOP_REASON_KEY: stop}})
        if not self._forget:
            self.session.memory.save(told)

    # ---------------------------------------------------------------- updates

    def emit(self, update: Json) -> None:
        self.session.emit(update)

    def _keep(self, kind: str, text: str, id: str) -> None:
        """Add a chunk to the history, which stores whole messages."""
        last = self._history[-1] if self._history else {}
        if last.get("sessionUpdate") == kind and last.get("messageId") == id:
            last["content"]["text"] += text
        else:
            content = {"type": "text", "text": text}
            self._history.append({"sessionUpdate": kind, "content": content, "messageId": id})

    def _stream(self, kind: str, text: str, more: Json) -> None:
        self._message = more.get("message") or self._message or new_id("msg")
        for piece in pieces(text, more.get("chunks", 3 if kind == "agent_message_chunk" else 1)):
            self._check()
            content = {"type": "text", "text": piece}
            self.emit({"sessionUpdate": kind, "content": content, "messageId": self._message})
            self._keep(kind, piece, self._message)
            self._pause(more.get("delay", 0))

    def _check(self) -> None:
        if self.cancelled.is_set() and not self._deaf:
            raise Cancelled

    def _pause(self, seconds: float) -> None:
        if self._deaf:
            time.sleep(seconds)
        elif seconds and self.cancelled.wait(seconds):
            raise Cancelled

    # ---------------------------------------------------------------- steps

    def do_text(self, text: str, more: Json) -> None:
        self._stream("agent_message_chunk", text, more)

    def do_think(self, text: str, more: Json) -> None:
        self._stream("agent_thought_chunk", text, more)

    def do_prompt(self, _: Any, more: Json) -> None:
        self._stream("agent_message_chunk", self.prompt, more)

    def do_plan(self, entries: list[list[str]], _: Json) -> None:
        shown = [{"content": text, "status": status, "priority": "medium"} for text, status in entries]
        self.emit({"sessionUpdate": "plan", "entries": shown})

    def do_update(self, update: Json, _: Json) -> None:
        self.emit(update)
        content = update.get("content")
        if isinstance(content, dict) and content.get("type", "text") != "text":  # files and images
            self._history.append(update)

    def do_remember(self, update: Json, _: Json) -> None:
        self._history.append(update)

    def do_tool(self, title: str, more: Json) -> None:
        id = more.get("id") or new_id("tool")
        call = {"toolCallId": id, "title": title, "kind": more.get("kind", "execute")}
        call["rawInput"] = more.get("input", {})
        if more.get("guarded") and self.session.mode == "ask" and not self._allowed(call, PERMISSION_OPTIONS):
            self.do_text("I was not allowed to. ", {})
            return
        terminal = {
            "content": [{"type": "terminal", "terminalId": id}],
            "_meta": {"terminal_info": {"terminal_id": id}},
        }
        self.emit({"sessionUpdate": "tool_call", **call, "status": "in_progress", **terminal})
        output: list[str] = []
        failed = more.get("exit", 0) != 0
        done = {"toolCallId": id, "status": more.get("status", "failed" if failed else "completed")}
        try:
            for piece in more.get("output", []):
                output.append(piece)
                meta = {"terminal_output": {"terminal_id": id, "data": piece}}
                self.emit({"sessionUpdate": "tool_call_update", "toolCallId": id, "_meta": meta})
                self._pause(more.get("delay", 0))
        except Cancelled:
            done["status"] = "failed"
            raise
        finally:
            meta = {"terminal_exit": {"terminal_id": id, "exit_code": more.get("exit", 0), "signal": None}}
            self.emit({"sessionUpdate": "tool_call_update", **done, "_meta": meta})
            self._told({**call, **done}, "".join(output))

    def _told(self, call: Json, output: str) -> None:
        content = [{"type": "content", "content": {"type": "text", "text": output}}]
        self._history.append({"sessionUpdate": "tool_call", **call, "content": content})
        self._message = ""  # text after a tool call is another message

    def do_call(self, name: str, more: Json) -> None:
        id, arguments = more.get("id") or new_id("call"), more.get("arguments", {})
        call = {"toolCallId": id, "title": f"mcp__semel__{name}", "kind": "other", "rawInput": arguments}
        if more.get("announce", True):
            self.emit({"sessionUpdate": "tool_call", **call, "status": "in_progress"})
        done: Json = {"toolCallId": id, "status": "failed"}
        text = "cancelled"
        try:
            well, text = self._call(name, arguments, more, id)
            done["status"] = "completed" if well else "failed"
        finally:
            content = [{"type": "content", "content": {"type": "text", "text": text}}]
            if more.get("announce", True):
                self.emit({"sessionUpdate": "tool_call_update", **done, "content": content})
            self._told({**call, **done}, text)

    def _call(self, name: str, arguments: Json, more: Json, id: str) -> tuple[bool, str]:
        metas = {"claude": {"claudecode/toolUseId": id}, "codex": {"callId": id}}
        meta = more.get("meta")
        meta = metas.get(meta) if isinstance(meta, str) else meta
        for again in (True, False):
            try:
                server = self.session.server(name, more.get("server"))
                return server.call(name, arguments, meta, self.cancelled)
            except ServerGone as gone:
                self.session.stop_servers()
                if not (again and more.get("reissue")):
                    return False, str(gone)
            except (LookupError, OSError, ValueError) as error:
                return False, str(error)
        return False, "the MCP server ended again"

    def do_together(self, steps: list[Any], _: Json) -> None:
        faults: list[Exception] = []
        threads = [threading.Thread(target=self._aside, args=(step, faults)) for step in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise faults[0]

    def _aside(self, step: Any, faults: list[Exception]) -> None:
        try:
            self.run(step if isinstance(step, list) else [step])
        except Exception as fault:  # raised again in the turn's own thread
            faults.append(fault)

    def _allowed(self, call: Json, options: list[Json]) -> bool:
        """Ask the client for permission; True if it is granted.

        Waits for the answer even after a cancel: ACP demands an answer, and real agents wait for it, too.
        """
        answer = self.session.ask("session/request_permission", {"toolCall": call, "options": options})
        outcome = (answer.get("result") or {}).get("outcome") or {}
        if outcome.get("outcome") != "selected":
            self._check()
            return False
        kinds = {one["optionId"]: one["kind"] for one in options}
        return str(kinds.get(outcome.get("optionId"), "")).startswith("allow")

    def do_permission(self, title: str, more: Json) -> None:
        id = more.get("id") or new_id("tool")
        call = {"toolCallId": id, "title": title, "kind": "execute", "rawInput": more.get("input", {})}
        allowed = self._allowed({**call, "status": "pending"}, more.get("options", PERMISSION_OPTIONS))
        self.run(more.get("allowed" if allowed else "denied", []))

    def do_ask(self, method: str, more: Json) -> None:
        answer = self.session.ask(method, more.get("params", {}))
        self.do_text(str(answer.get("error", {}).get("message") or answer.get("result")), {"chunks": 1})

    def do_raw(self, text: str, _: Json) -> None:
        self.session.client.raw(text.encode("utf-8", "surrogatepass") + b"\n")

    def do_stderr(self, text: str, more: Json) -> None:
        for _ in range(more.get("times", 1)):
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def do_sleep(self, seconds: float, _: Json) -> None:
        self._pause(seconds)

    def do_wait(self, path: str, _: Json) -> None:
        while not Path(path).exists():
            self._pause(0.01)
            self._check()

    def do_touch(self, path: str, _: Json) -> None:
        Path(path).touch()

    def do_save(self, how: Any, more: Json) -> None:
        self.save("end_turn" if how == "end" else None)

    def do_forget(self, _: Any, more: Json) -> None:
        self._forget = True

    def do_stop_mcp(self, _: Any, more: Json) -> None:
        self.session.stop_servers()

    def do_kill_mcp(self, _: Any, more: Json) -> None:
        self.session.stop_servers(kill=True)

    def do_deaf(self, _: Any, more: Json) -> None:
        self._deaf = True

    def do_hang(self, _: Any, more: Json) -> None:
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
