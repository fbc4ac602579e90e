"""Semel as people run it: a real gateway process, its API, its command line, and a receiver of webhooks."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from python_process import Process, run_python, start_python

from semel.testing import scripted_agent

PATIENCE = 90.0  # seconds: other work may share the machine
SECRET = "whsec_" + base64.b64encode(b"a secret of two dozen by").decode()
Json = dict[str, Any]


def until(what: Callable[[], Any], why: str, patience: float = PATIENCE) -> Any:
    """Wait until `what()` is true, and return it."""
    end = time.monotonic() + patience
    while not (got := what()):
        assert time.monotonic() < end, f"{why}: not within {patience:.0f} s"
        time.sleep(0.02)
    return got


def script(*steps: Any, **more: Any) -> str:
    """A prompt that tells the scripted agent what to do."""
    return f"[[script {json.dumps({'steps': list(steps), **more})}]]"


def send(text: str, **more: Any) -> Json:
    """The step in which the scripted agent calls `send_message`."""
    to = {"to": more.pop("to")} if "to" in more else {}
    return {"call": "send_message", "arguments": {"text": text, **to}, "meta": "claude", **more}


@dataclass
class House:
    """A gateway's home; `up` starts it, `kill` is SIGKILL, `end` is SIGTERM."""

    home: Path
    config: str = ""
    process: Process | None = None
    url: str = ""
    env: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def toml(self) -> Path:
        return self.home / "semel.toml"

    @property
    def log(self) -> str:
        path = self.home / "gateway.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def environment(self) -> dict[str, str]:
        """Not private to the gateway's user: who runs these tests without being root may look into its /proc."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SEMEL_", "XDG_"))}
        return {**kept, "HOME": str(self.home), "COLUMNS": "120", "SEMEL_DUMPABLE": "1", **self.env}

    def start(self) -> Process:
        """`semel up`, not waited for."""
        self.toml.write_text(self.config)
        with (self.home / "gateway.log").open("ab") as log:
            self.process = start_python(
                *("-m", "semel", "up", "--config", self.toml, "--data-dir", self.data),
                *("--listen", "127.0.0.1:0", "--log", "json"),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment, cwd=self.home,
            )  # fmt: skip
        return self.process

    def up(self) -> House:
        self.start()
        return self.came_up()

    def came_up(self) -> House:
        """The gateway that was started accepts."""
        process = self.process
        assert process is not None
        until(lambda: self._told() or process.poll() is not None, "the gateway's start")
        assert process.poll() is None, self.log
        self.url = self._told()
        return self

    def _told(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            told = json.loads((self.data / "gateway.json").read_text())
            if self.process is not None and told["pid"] == self.process.pid:
                return str(told["url"])
        return ""

    def kill(self) -> None:
        """SIGKILL, at once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)

    def end(self, number: int = signal.SIGTERM) -> int:
        """A clean end; the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    # ---------------------------------------------------------------- the API

    def request(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """There is no TLS: to load the certificates of all authorities would take 20 ms each time."""
        return httpx2.request(method, self.url + path, timeout=PATIENCE, verify=False, **more)

    def get(self, path: str, **params: Any) -> Any:
        answer = self.request("GET", path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("POST", path, json={} if body is None else body, headers=named)

    def say(self, session: str, text: str, id: str | None = None) -> int:
        answer = self.post(f"/v1/sessions/{session}/messages", {"text": text, **({"id": id} if id else {})})
        assert answer.status_code == 202, answer.text
        return int(answer.json()["event"])

    def entries(self, session: str) -> list[Json]:
        """The transcript as it is now, in order."""
        answer = self.request("GET", f"/v1/sessions/{session}/entries")
        if answer.status_code == 404:
            return []
        assert answer.status_code == 200, answer.text
        return sorted(answer.json()["entries"], key=lambda one: one["seq"])

    def texts(self, session: str, *roles: str) -> list[str]:
        wanted = roles or ("agent",)
        return [one["text"] for one in self.entries(session) if one["role"] in wanted]

    def session(self, key: str) -> Json | None:
        return next((one for one in self.get("/v1/sessions")["sessions"] if one["key"] == key), None)

    def idle(self, session: str, patience: float = PATIENCE) -> None:
        """Nothing runs or waits in this session."""

        def quiet() -> bool:
            one = self.session(session)
            return one is not None and one["state"] == "idle" and not one["waiting"]

        until(quiet, f"{session} came to rest", patience)

    def parts(self, **params: Any) -> list[Json]:
        """Oldest first."""
        return list(reversed(self.get("/v1/parts", limit=1000, **params)["parts"]))

    def settled(self) -> list[Json]:
        """All parts, once none is on its way."""
        until(lambda: all(one["state"] in SETTLED for one in self.parts()), "every part came to rest")
        return self.parts()

    def doctor(self) -> None:
        """Every book balances."""
        told = self.get("/v1/doctor")
        assert told["ok"], [book for book in told["books"] if not book["ok"]]

    def hook(self, channel: str, body: Any, id: str, **more: Any) -> httpx2.Response:
        """A signed inbound webhook. `at` shifts its timestamp by seconds."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {**signed(raw, id, more.pop("at", 0.0)), **more.pop("headers", {})}
        headers.setdefault("content-type", "application/json")
        return self.request("POST", f"/v1/hooks/{channel}", content=raw, headers=headers)

    # ---------------------------------------------------------------- the command line

    def cli(self, *args: str, rc: int | None = 0) -> subprocess.CompletedProcess[str]:
        """A command about this house."""
        done = self.cli_alone(*args, "--config", str(self.toml), "--data-dir", str(self.data))
        assert rc is None or done.returncode == rc, (args, done)
        return done

    def cli_alone(self, *args: str) -> subprocess.CompletedProcess[str]:
        """A command, just as it stands."""
        self.toml.write_text(self.config)
        done = run_python("-m", "semel", *args, env=self.environment, cwd=self.home, timeout=PATIENCE)
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return done


SETTLED = ("sent", "rejected", "held", "dropped")


def signed(raw: bytes, id: str, shift: float = 0.0) -> dict[str, str]:
    """Standard Webhooks headers for these bytes."""
    at = str(int(time.time() + shift))
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    mac = hmac.new(key, f"{id}.{at}.".encode() + raw, hashlib.sha256).digest()
    return {
        "webhook-id": id,
        "webhook-timestamp": at,
        "webhook-signature": "v1," + base64.b64encode(mac).decode(),
    }


@contextlib.contextmanager
def opened(house: House) -> Iterator[House]:
    """A house that runs, and of which nothing is left; its books are looked at last."""
    try:
        yield house.up()
        house.doctor()
        assert house.end() == 0, house.log
    finally:
        if house.process is not None and house.process.poll() is None:
            house.kill()
            house.process.wait()
    assert until(lambda: not left(house), f"nothing is left running: {left(house)}", 10)
    assert "Traceback" not in house.log and "exc_info" not in house.log, house.log


def left(house: House) -> list[str]:
    """Processes that this house started and that still run."""
    mark, found = str(house.home).encode(), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                continue
            line = (entry / "cmdline").read_bytes()
            home = [one for one in (entry / "environ").read_bytes().split(b"\0") if one == b"HOME=" + mark]
            if home:
                found.append(f"{entry.name} {line.replace(bytes(1), b' ').decode()}")
    return found


# -------------------------------------------------------------------- the receiver


@dataclass
class Post:
    """One request that the receiver took."""

    at: float
    id: str
    headers: dict[str, str]
    data: Json

    @property
    def text(self) -> str:
        return str(self.data["text"])


Way = Callable[[Post, socket.socket], None]


def answer(status: int, body: bytes = b"{}", **headers: str) -> Way:
    lines = [f"HTTP/1.1 {status} Status", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]

    def do(post: Post, sock: socket.socket) -> None:
        sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    return do


def drop(post: Post, sock: socket.socket) -> None:
    """Take it, and say nothing."""


def hang(event: threading.Event) -> Way:
    def do(post: Post, sock: socket.socket) -> None:
        event.wait(PATIENCE)

    return do


OK = answer(200)


class Receiver:
    """A platform that folds repeats of a `webhook-id`. `ways` answers the next requests, then OK."""

    def __init__(self, port: int = 0) -> None:
        self.posts: list[Post] = []
        self.ways: list[Way] = []
        self.always: Way = OK
        self._sock = socket.create_server(("127.0.0.1", port), backlog=64)
        self.port = self._sock.getsockname()[1]
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in"

    @property
    def shown(self) -> list[str]:
        """The texts as a person sees them there: each id once."""
        return [one.text for one in {one.id: one for one in reversed(self.posts)}.values()][::-1]

    @property
    def chat(self) -> list[tuple[str, str]]:
        """(address, text) of each message where a person sees it: an id once, at its first place."""
        first: dict[str, Post] = {}
        for post in self.posts:
            first.setdefault(post.id, post)
        return [(str(post.data["to"]), post.text) for post in first.values()]

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._sock.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                data += sock.recv(65536) or b"\r\n\r\n"
            head, _, body = data.partition(b"\r\n\r\n")
            if not head:
                return
            headers = dict(re.findall(r"(?m)^([^:\r\n]+): *(.*?)\r?$", head.decode("latin-1")))
            headers = {name.lower(): value for name, value in headers.items()}
            while len(body) < int(headers["content-length"]):
                body += sock.recv(65536)
            told = json.loads(body)
            post = Post(time.monotonic(), headers["webhook-id"], headers, told["data"])
            with self._lock:
                self.posts.append(post)
                way = self.ways.pop(0) if self.ways else self.always
            way(post, sock)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # it was closed before
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        self._thread.join(10)


@contextlib.contextmanager
def receiver(port: int = 0) -> Iterator[Receiver]:
    one = Receiver(port)
    try:
        yield one
    finally:
        one.close()


def channel(name: str, url: str, **more: Any) -> str:
    """A `[channels.NAME]` section."""
    lines = [
        f"[channels.{name}]",
        'kind = "webhook"',
        f'url = "{url}"',
        "allow_private = true",
        f'secret = "{SECRET}"',
    ]
    return "\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in more.items())]) + "\n"


DEMO = f"[agents.demo]\ncommand = {json.dumps(scripted_agent.command())}\n"
OVER_HTTP = json.dumps([*scripted_agent.command(), "--name", "copilot", "--mcp", "http"])
DEMO_OVER_HTTP = f"[agents.demo]\ncommand = {OVER_HTTP}\n"
"""An agent that calls Semel's tools over HTTP."""
