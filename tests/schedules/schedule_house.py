"""`semel up` as a process, and the command line beside it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx2
from python_process import Process, run_python, start_python

from semel.testing.scripted_agent import command

Json = dict[str, Any]

CONFIG = """\
[gateway]
listen = "127.0.0.1:{port}"
data_dir = "{home}/data"
[agents.demo]
command = {agent}
cwd = "{home}"
"""


class House:
    def __init__(self, home: Path, config: str) -> None:
        self.home = home
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.config = home / "semel.toml"
        agent = json.dumps(command(state=home / "agent"))
        self.config.write_text(CONFIG.format(home=home, port=self.port, agent=agent) + config)
        self.process: Process | None = None

    def up(self) -> None:
        with (self.home / "log").open("ab") as log:
            self.process = start_python(
                "-m", "semel", "up", "--config", self.config, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        deadline = time.monotonic() + 60
        while self.get("/healthz") is None:
            assert self.process.poll() is None, (self.home / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, (self.home / "log").read_text()[-2000:]
            time.sleep(0.02)

    def get(self, path: str) -> Json | None:
        try:
            # There is no TLS: to load the certificates of all authorities would take 20 ms each time.
            return dict(httpx2.get(f"{self.url}{path}", timeout=5, verify=False).json())
        except httpx2.HTTPError:
            return None

    def idle(self) -> None:
        """Wait until no turn runs and none is due."""
        deadline = time.monotonic() + 60
        while any(s["state"] != "idle" for s in (self.get("/v1/sessions") or {})["sessions"]):
            assert time.monotonic() < deadline, (self.home / "log").read_text()[-3000:]
            time.sleep(0.05)

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(60)

    def semel(self, *arguments: str, zone: str = "UTC") -> tuple[int, str]:
        """(exit code, output) of a command; its errors are part of the output. `zone`: that of its machine."""
        env = {**os.environ, "COLUMNS": "200", "TZ": zone}
        done = run_python("-m", "semel", *arguments, "--config", self.config, env=env, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def told(self, *arguments: str) -> Any:
        """The JSON a command prints."""
        code, output = self.semel(*arguments, "--json")
        assert code == 0, output
        return json.loads(output)
