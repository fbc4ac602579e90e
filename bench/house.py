"""A gateway process of its own for a benchmark, and a client that adds little time of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from semel.testing import scripted_agent

Json = dict[str, Any]


class House:
    """`semel up` with the scripted agent answering at once; where not `instant`, it does what prompts say, and
    `prompts` holds a line for each. With `api`, the address of a model API, its agent is the model there."""

    def __init__(self, root: Path, live: int = 4, instant: bool = True, api: str = "") -> None:
        self.root = root
        self.env: Mapping[str, str] | None = None  # the gateway's environment; None: as here
        (root / "work").mkdir(exist_ok=True)
        self.config = root / "semel.toml"
        log = None if instant else root / "prompts"
        command = json.dumps(scripted_agent.command(state=root / "agent", log=log, instant=instant))
        agent = f'kind = "acp"\ncommand = {command}'
        if api:
            (root / "key").write_text("none")
            agent = f'kind = "model"\nmodel = "openai-chat:scripted"\nbase_url = "{api}/v1"\nkey = "file:{root}/key"'
        self.config.write_text(
            f'[gateway]\nlisten = "127.0.0.1:0"\ndata_dir = "{root}/data"\nmax_live_agents = {live}\n'
            f'[agents.demo]\n{agent}\ncwd = "{root}/work"\n'
        )
        self.process: subprocess.Popen[bytes]
        self.port = 0
        self.took = 0.0

    def up(self) -> None:
        """Start it and wait until it accepts; `took` says how long that was, in seconds."""
        address = self.root / "data" / "gateway.json"
        address.unlink(missing_ok=True)
        begin = time.monotonic()
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "semel", "up", "--config", str(self.config)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self.env,
            )
        while time.monotonic() - begin < 60:
            if self.process.poll() is not None:
                raise RuntimeError((self.root / "log").read_text()[-2000:])
            if address.exists() and self._healthy(address):
                self.took = time.monotonic() - begin
                return
            time.sleep(0.002)
        raise RuntimeError("the gateway did not come up in 60 s")

    def _healthy(self, address: Path) -> bool:
        try:
            url = json.loads(address.read_text())["url"]
            self.port = int(url.rsplit(":", 1)[1].rstrip("/"))
            with urllib.request.urlopen(f"{url}/healthz", timeout=1) as answer:
                return bool(answer.status == 200)
        except (ValueError, KeyError, urllib.error.URLError, OSError):
            return False

    def rss(self) -> float:
        """Resident memory of the gateway's own process, in MB."""
        return rss(self.process.pid)

    def cpu(self) -> float:
        """CPU seconds the gateway's process has used."""
        return cpu_of(self.process.pid)

    def down(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def house(live: int = 4, instant: bool = True, api: str = "") -> Iterator[House]:
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as root:
        one = House(Path(root), live, instant, api)
        one.up()
        try:
            yield one
        finally:
            one.down()


@contextmanager
def beside(module: str) -> Iterator[str]:
    """A program of this package beside the gateway, while the block runs; the line that it prints."""
    process = subprocess.Popen([sys.executable, "-m", module], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Refused(RuntimeError):
    """A stream was answered with this status instead."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class Client:
    """One keep-alive HTTP/1.1 connection. A gateway that dies under it is an OSError, or an EOFError."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> Client:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**26)
        return self

    def close(self) -> None:
        self.writer.close()

    async def post(self, session: str, text: str) -> int:
        """Say something; when it was acknowledged (time.monotonic_ns)."""
        return await self._post(f"/v1/sessions/{session}/messages", {"text": text})

    async def report(self, session: str, kind: str, text: str, key: str) -> int:
        """Report an event; when it was acknowledged."""
        return await self._post(f"/v1/sessions/{session}/events", {"kind": kind, "text": text, "key": key})

    async def _post(self, path: str, told: Json) -> int:
        status, _, at = await self.request("POST", path, json.dumps(told).encode())
        if status != 202:
            raise RuntimeError(f"not accepted: HTTP {status}")
        return at

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, int]:
        """(status, body, when the status was there), of a request whose body is JSON."""
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        if body:
            more += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.writer.write(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n{more}\r\n".encode() + body)
        status = await self._status()
        at = time.monotonic_ns()
        length = 0
        while (line := await self.reader.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return status, await self.reader.readexactly(length), at

    async def _status(self) -> int:
        line = await self.reader.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return int(line.split(b" ", 2)[1])

    async def stream(self, session: str, after: int | None = None) -> AsyncIterator[tuple[int, Json]]:
        """(when it was there, message) of a session's stream, for as long as it lasts. Raises Refused."""
        query = "" if after is None else f"?after={after}"
        head = f"GET /v1/sessions/{session}/stream{query} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
        self.writer.write(f"{head}Accept: text/event-stream\r\n\r\n".encode())
        if (status := await self._status()) != 200:
            raise Refused(status)
        while await self.reader.readline() not in (b"\r\n", b""):
            pass
        rest = b""
        async for piece in self._pieces():
            at = time.monotonic_ns()
            *lines, rest = (rest + piece).split(b"\n") if b"\n" in piece else (rest + piece,)
            for line in lines:
                if line.startswith(b"data:"):
                    yield at, json.loads(line[5:])

    async def _pieces(self) -> AsyncIterator[bytes]:
        """What a chunked body holds, as it comes (RFC 9112, 7.1); it may break off anywhere."""
        while size := int((await self.reader.readline()).split(b";")[0] or b"0", 16):
            try:
                yield (await self.reader.readexactly(size + 2))[:-2]
            except asyncio.IncompleteReadError:
                return

    async def watch(self, session: str, pongs: asyncio.Queue[tuple[int, int]]) -> None:
        """Put (when the agent had the prompt, when this watcher saw the answer), in monotonic ns, for each answer."""
        seen: set[int] = set()
        async for at, message in self.stream(session):
            for change in message.get("changes", []):
                text = str(change.get("text", ""))
                if text.startswith("pong ") and int(text[5:]) not in seen:
                    seen.add(int(text[5:]))
                    pongs.put_nowait((int(text[5:]), at))


def quantile(values: list[float], q: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * q))]


def line(what: str, values: list[float]) -> str:
    """p50, p99 and the largest of times in ms."""
    half, most = quantile(values, 0.5), quantile(values, 0.99)
    return f"{what:46} p50 {half:8.2f} ms   p99 {most:8.2f} ms   max {max(values):8.2f} ms"
