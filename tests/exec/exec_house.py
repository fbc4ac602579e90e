"""A gateway process with two nodes, `semel exec` in this process and in its own, and a proxy that misbehaves."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from python_process import Process, start_python

from semel.faces.cli import main

PATIENCE = 60.0  # seconds: other work may share the machine
TOKEN = "the-token-of-the-node-ci"
CONFIG = """
[agents.demo]
kind = "demo"

[nodes.ci]
token = "file:ci.token"
sessions = ["ci:*"]
"""

Json = dict[str, Any]


def until(what: Callable[[], Any], why: str) -> Any:
    """Wait until `what()` is true, and return it."""
    end = time.monotonic() + PATIENCE
    while not (got := what()):
        assert time.monotonic() < end, f"{why} did not come true in {PATIENCE:.0f} s"
        time.sleep(0.02)
    return got


@dataclass
class House:
    home: Path
    process: Process | None = None
    url: str = ""
    children: list[Process] = field(default_factory=list)
    node: str = "ci"  # its name in the configuration
    token: str = TOKEN

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def env(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SEMEL_", "XDG_"))}
        return {**kept, "HOME": str(self.home), "SEMEL_DATA": str(self.data), "COLUMNS": "100"}

    # ---------------------------------------------------------------- the gateway

    def up(self) -> House:
        (self.home / "ci.token").write_text(self.token + "\n")
        (self.home / "semel.toml").write_text(CONFIG.replace("[nodes.ci]", f"[nodes.{self.node}]"))
        with (self.home / "gateway.log").open("ab") as log:
            self.process = start_python(
                *("-m", "semel", "up", "--listen", "127.0.0.1:0", "--log", "json"),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, cwd=self.home,
            )  # fmt: skip
        self.url = until(self._address, f"the gateway's start: {self.home}")
        return self

    def _address(self) -> str:
        assert self.process is not None
        assert self.process.poll() is None, (self.home / "gateway.log").read_text()
        with contextlib.suppress(OSError, ValueError):
            told = json.loads((self.data / "gateway.json").read_text())
            return str(told["url"]) if told["pid"] == self.process.pid else ""
        return ""

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)

    def end(self) -> None:
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.communicate()
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)

    def get(self, path: str) -> httpx2.Response:
        """There is no TLS: to load the certificates of all authorities would take 20 ms each time."""
        return httpx2.get(self.url + path, timeout=PATIENCE, verify=False)

    def entries(self, session: str) -> list[Json]:
        answer = self.get(f"/v1/sessions/{session}/entries")
        return sorted(answer.json()["entries"], key=lambda one: one["seq"]) if answer.is_success else []

    def events(self, session: str, kind: str) -> list[str]:
        return [one["text"] for one in self.entries(session) if one.get("kind") == kind]

    def answers(self, session: str) -> int:
        """How many turns have answered, once the session rests."""

        def resting() -> bool:
            rows = self.get("/v1/sessions").json()["sessions"]
            return any(row["key"] == session and row["state"] == "idle" and not row["waiting"] for row in rows)

        until(resting, f"{session} came to rest")
        return len({one["turn"] for one in self.entries(session) if one["role"] == "agent"})

    def balanced(self) -> None:
        told = self.get("/v1/doctor").json()
        assert told["ok"], [book for book in told["books"] if not book["ok"]]

    # ---------------------------------------------------------------- the node

    def exec(self, *args: str, rc: int = 0) -> None:
        """`semel exec` in this process, as the console script would run it; its output goes to our own."""
        code = 0
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {"HOME": str(self.home), "SEMEL_DATA": str(self.data)}.items():
                patch.setenv(name, value)
            patch.chdir(self.home)
            patch.setattr(sys, "argv", ["semel", "exec", "--wait", "20s", *args])
            try:
                main()
            except SystemExit as exit:
                code = int(exit.code or 0)
        assert code == rc, f"{args}: {code}"

    def start(self, *args: str) -> Process:
        """`semel exec` as a process that goes on."""
        pipe = subprocess.PIPE
        child = start_python(
            *("-m", "semel", "exec", *args),
            stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=self.env, cwd=self.home, interruptible=True,
        )  # fmt: skip
        self.children.append(child)
        return child

    def runs(self, node: str = "box") -> list[Path]:
        """What the spool still holds."""
        place = self.data / "exec" / node
        return sorted(place.glob("*/run.json")) if place.is_dir() else []

    def outputs(self, node: str = "box") -> list[bytes]:
        return [path.read_bytes() for path in (self.data / "exec" / node / "outputs").iterdir()]


def line(process: Process, text: str) -> str:
    """The next line of its output that holds this text."""
    assert process.stdout is not None
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    try:
        return next(one for one in process.stdout if text in one)
    finally:
        watchdog.cancel()


@contextlib.contextmanager
def proxy(upstream: Callable[[], str], ways: list[str]) -> Iterator[str]:
    """Between node and gateway. Each request takes the next way: "html" is a stranger's page, "drop" passes it on
    and loses the answer; then everything is passed on."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            way = ways.pop(0) if ways else "pass"
            if way == "html":
                self._answer(202, b"<html>please log in</html>")
                return
            headers = {"content-type": "application/json", "authorization": self.headers["authorization"]}
            answer = httpx2.post(upstream() + self.path, content=body, headers=headers, timeout=PATIENCE)
            if way == "pass":
                self._answer(answer.status_code, answer.content)
            else:
                self.close_connection = True

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
