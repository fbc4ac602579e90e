"""JSON-RPC over a pair of pipes, one message per line. The agent speaks it with its client and with MCP servers.

All methods are safe to call from several threads.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from typing import IO, Any

Json = dict[str, Any]
MCP_VERSION = "2025-06-18"


class PeerGone(Exception):
    """The other process ended before it answered."""


class Cancelled(Exception):
    """The turn was cancelled while it waited for an answer."""


class Peer:
    """A process at the other end of a pair of pipes, to which requests are sent and from which they come."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader, self._writer = reader, writer
        self._write_lock = threading.Lock()
        self._changed = threading.Condition()
        self._answers: dict[int, Json] = {}
        self._last_id = 0
        self._gone = False

    def send(self, *messages: Json) -> None:
        """Write these messages together, in order."""
        lines = [json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False) + "\n" for message in messages]
        self.send_raw("".join(lines).encode("utf-8", "surrogatepass"))

    def send_raw(self, data: bytes) -> None:
        """Write bytes unchanged, for example to imitate an agent that prints text between its messages."""
        with self._write_lock, contextlib.suppress(OSError, ValueError):  # if the process has ended, the reader notices
            self._writer.write(data)
            self._writer.flush()

    def request(self, method: str, params: Json, cancelled: threading.Event | None = None) -> Json:
        """Send a request and return the answer, {"result"} or {"error"}.

        Raises PeerGone if the other process ends before it answers, Cancelled if `cancelled` is set before that.
        """
        with self._changed:
            self._last_id += 1
            request_id = self._last_id
        self.send({"id": request_id, "method": method, "params": params})
        with self._changed:
            while request_id not in self._answers:
                if self._gone:
                    raise PeerGone(f"the other process ended before it answered {method}")
                if cancelled is not None and cancelled.is_set():
                    self.send({"method": "notifications/cancelled", "params": {"requestId": request_id}})
                    raise Cancelled
                self._changed.wait(None if cancelled is None else 0.05)
            return self._answers.pop(request_id)

    def read_requests(self) -> Iterator[Json]:
        """Yield the requests and notifications from the other end until it closes its pipe.

        Its answers go to the callers of `request`, so one thread must always iterate over this.
        """
        for line in self._reader:
            if not line.strip():
                continue
            message = json.loads(line)
            if "method" in message:
                yield message
                continue
            with self._changed:
                self._answers[message["id"]] = message
                self._changed.notify_all()
        with self._changed:
            self._gone = True
            self._changed.notify_all()


class McpServer:
    """An MCP server that is initialized. `open_mcp_server` opens one."""

    def __init__(self, name: str) -> None:
        self.name = name
        info = {"name": "semel-scripted", "version": "1"}
        self._request("initialize", {"protocolVersion": MCP_VERSION, "capabilities": {}, "clientInfo": info})
        self._notify("notifications/initialized")
        self.tools = {tool.get("name") for tool in self._request("tools/list", {}).get("tools", [])}

    def call(
        self, tool: str, arguments: Json, meta: Json | None, cancelled: threading.Event | None = None
    ) -> tuple[bool, str]:
        """Call a tool. Returns (whether it succeeded, the text of its result or error).

        `meta`: the `_meta` of the call. Raises PeerGone or Cancelled, as `Peer.request` does.
        """
        params = {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})}
        try:
            result = self._request("tools/call", params, cancelled)
        except ValueError as error:
            return False, str(error)
        text = "\n".join(str(block.get("text", "")) for block in result.get("content", []))
        return not result.get("isError"), text

    def stop(self, kill: bool = False) -> None:
        """Stop the server, with SIGKILL if `kill` is set."""

    def _request(self, method: str, params: Json, cancelled: threading.Event | None = None) -> Json:
        answer = self._exchange(method, params, cancelled)
        if "error" in answer:
            raise ValueError(str(answer["error"].get("message")))
        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    def _exchange(self, method: str, params: Json, cancelled: threading.Event | None) -> Json:
        raise NotImplementedError

    def _notify(self, method: str) -> None:
        raise NotImplementedError


def open_mcp_server(spec: Json) -> McpServer:
    """Open the server that an entry of `mcpServers` in session/new describes."""
    return StdioMcpServer(spec) if "command" in spec else HttpMcpServer(spec)


class StdioMcpServer(McpServer):
    """A running MCP server. `spec`: {"name", "command", "args", "env"}."""

    def __init__(self, spec: Json) -> None:
        env = {variable["name"]: variable["value"] for variable in spec.get("env", [])}
        command = [spec["command"], *spec.get("args", [])]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **env}
        )
        assert self._process.stdin and self._process.stdout
        self._peer = Peer(self._process.stdout, self._process.stdin)
        threading.Thread(target=lambda: list(self._peer.read_requests()), daemon=True).start()
        super().__init__(str(spec.get("name")))

    def stop(self, kill: bool = False) -> None:
        """Stop the server by closing its stdin, then with SIGKILL if it runs after 3 s. `kill`: SIGKILL at once."""
        if kill:
            self._process.kill()
        elif self._process.stdin:
            with contextlib.suppress(OSError):  # the server died with unwritten input
                self._process.stdin.close()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _exchange(self, method: str, params: Json, cancelled: threading.Event | None) -> Json:
        return self._peer.request(method, params, cancelled)

    def _notify(self, method: str) -> None:
        self._peer.send({"method": method})


class HttpMcpServer(McpServer):
    """An MCP server over HTTP. `spec`: {"name", "url", "headers"}."""

    def __init__(self, spec: Json) -> None:
        self._url = str(spec["url"])
        self._headers = {header["name"]: header["value"] for header in spec.get("headers", [])}
        self._headers |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self._lock = threading.Lock()
        self._last_id = 0
        super().__init__(str(spec.get("name")))

    def _exchange(self, method: str, params: Json, cancelled: threading.Event | None) -> Json:
        with self._lock:
            self._last_id += 1
            request_id = self._last_id
        return self._post({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})

    def _notify(self, method: str) -> None:
        self._post({"jsonrpc": "2.0", "method": method})

    def _post(self, message: Json) -> Json:
        """Send a message. Raises PeerGone if the connection breaks, ValueError if the server refuses it."""
        import http.client  # only here: it would double the start time of agents that use stdio
        import urllib.error
        import urllib.request

        request = urllib.request.Request(self._url, json.dumps(message).encode(), self._headers)
        try:
            with urllib.request.urlopen(request) as response:
                if session := response.headers.get("Mcp-Session-Id"):
                    self._headers["Mcp-Session-Id"] = session
                body = response.read()
        except urllib.error.HTTPError as error:
            raise ValueError(f"the MCP server answered {error.code}") from None
        except (OSError, http.client.HTTPException) as error:
            raise PeerGone(f"the connection to the MCP server broke: {error}") from None
        return dict(json.loads(body)) if body else {}
