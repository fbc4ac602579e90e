"""Thread-safe JSON-RPC over stdin and stdout, one message per line."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


class Client:
    """The connection to the client that started this agent. All methods are thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids = 0
        self._answers: dict[int, Json] = {}
        self._news = threading.Condition()

    def send(self, *messages: Json) -> None:
        """Write these messages together, in order."""
        lines = [json.dumps({"jsonrpc": "2.0", **one}, ensure_ascii=False) + "\n" for one in messages]
        self.raw("".join(lines).encode("utf-8", "surrogatepass"))

    def raw(self, data: bytes) -> None:
        """Write bytes unchanged, to imitate an agent that prints text between its messages."""
        with self._lock:
            try:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                os._exit(0)  # nobody listens any more

    def ask(self, method: str, params: Json) -> Json:
        """Send a request to the client and wait, without a timeout, for its answer: {"result"} or {"error"}."""
        with self._news:
            self._ids += 1
            id = self._ids
        self.send({"id": id, "method": method, "params": params})
        with self._news:
            self._news.wait_for(lambda: id in self._answers)
            return self._answers.pop(id)

    def answered(self, message: Json) -> None:
        """Accept the client's answer to one of our requests."""
        with self._news:
            self._answers[message["id"]] = message
            self._news.notify_all()


def read_messages() -> Iterator[Json]:
    """The client's messages, until it closes our stdin."""
    for line in sys.stdin.buffer:
        if line.strip():
            yield json.loads(line)
