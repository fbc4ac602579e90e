"""A small MCP client over stdio (MCP 2025-06-18), with which the demo agent calls tools as real agents do."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from typing import Any

Json = dict[str, Any]
PROTOCOL = "2025-06-18"


class ServerGone(Exception):
    """The MCP server ended before it answered."""


class Cancelled(Exception):
    """The turn was cancelled while the call ran."""


class Server:
    """One running MCP server. `spec` is an entry of session/new's mcpServers: {"name", "command", "args", "env"}."""

    def __init__(self, spec: Json) -> None:
        self.name = str(spec.get("name"))
        env = {one["name"]: one["value"] for one in spec.get("env", [])}
        self._process = subprocess.Popen(
            [spec["command"], *spec.get("args", [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **env},
        )
        self._ids = 0
        self._answers: dict[int, Json] = {}
        self._news = threading.Condition()
        self._gone = False
        threading.Thread(target=self._read, daemon=True).start()
        hello = {
            "protocolVersion": PROTOCOL,
            "capabilities": {},
            "clientInfo": {"name": "semel-demo", "version": "1"},
        }
        self.request("initialize", hello)
        self._send({"method": "notifications/initialized"})
        self.tools: list[Json] = self.request("tools/list", {}).get("tools", [])

    def has(self, tool: str) -> bool:
        return any(one.get("name") == tool for one in self.tools)

    def request(self, method: str, params: Json, cancelled: threading.Event | None = None) -> Json:
        """Send a request and return its result. Raises ServerGone, Cancelled, or ValueError with the server's error."""
        with self._news:
            self._ids += 1
            id = self._ids
        self._send({"id": id, "method": method, "params": params})
        with self._news:
            while id not in self._answers and not self._gone:
                if cancelled is not None and cancelled.is_set():
                    self._send({"method": "notifications/cancelled", "params": {"requestId": id}})
                    raise Cancelled
                self._news.wait(0.05)
            if id not in self._answers:
                raise ServerGone(f"the MCP server {self.name!r} ended before it answered {method}")
            answer = self._answers.pop(id)
        if "error" in answer:
            raise ValueError(str(answer["error"].get("message")))
        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    def call(self, tool: str, arguments: Json, meta: Json | None, cancelled: threading.Event) -> tuple[bool, str]:
        """Call a tool; returns (whether it succeeded, the text of its result)."""
        params = {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})}
        try:
            result = self.request("tools/call", params, cancelled)
        except ValueError as error:
            return False, str(error)
        text = "\n".join(str(one.get("text", "")) for one in result.get("content", []))
        return not result.get("isError"), text

    def stop(self, kill: bool = False) -> None:
        """Stop the server by closing its stdin (SIGKILL after 3 s), or with `kill` at once."""
        if kill:
            self._process.kill()
        elif self._process.stdin:
            with contextlib.suppress(OSError):  # it died with unwritten input
                self._process.stdin.close()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, message: Json) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            pass  # the server is gone; the reading thread notices

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict) and "method" not in message and message.get("id") is not None:
                with self._news:
                    self._answers[message["id"]] = message
                    self._news.notify_all()
        with self._news:
            self._gone = True
            self._news.notify_all()
