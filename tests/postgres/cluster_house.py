"""Gateways of a cluster as processes, each with a home of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from cli_house import Cli, until

from proof.cluster.world import find_free_port
from semel.faces.client import Client
from semel.gateway.unix_socket import socket_path
from semel.ledger.engines import list_gateways
from semel.ledger.storage.cluster import ClusterGateway
from semel.ledger.storage.location import DatabaseUrl
from semel.testing import scripted_agent
from semel.tools.address import find_waiting

Json = dict[str, Any]
TOKEN = "a-token-that-all-gateways-share"


HANG = signal.SIGUSR1
"""Lets the thread of a gateway's event loop sleep for a minute, while its other threads go on."""
HANG_HOOK = f"import signal, time\nsignal.signal({int(HANG)}, lambda *_: time.sleep(60))\n"  # read by every Python


class Member:
    """A gateway of the cluster, with a home and a data directory of its own."""

    def __init__(
        self, home: Path, name: str, url: str, has_address: bool = True, moves: bool = True, config: str = ""
    ) -> None:
        home.mkdir()
        self.name = name
        self.home = home
        self.url = url
        self.cli = Cli(home, home / "data")
        self.cli.data.mkdir(mode=0o700)
        token = self.cli.data / "owner.token"  # the same on all machines
        token.touch(0o600)
        token.write_text(f"{TOKEN}\n")
        self.port = find_free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        where = f'address = "{self.address}"\n' if has_address else ""
        section = f'[cluster]\nname = "{name}"\n{where}' if name else ""
        # The agents' memory is on a file system that all machines share.
        command = json.dumps(scripted_agent.command(state=home.parent / "agent"))
        agent = f"[agents.demo]\ncommand = {command}\nmoves = {json.dumps(moves)}\n"
        (home / "semel.toml").write_text(f'{agent}[ledger]\nurl = "{url}"\n{section}{config}')
        self.hooks = home / "hooks"
        self.hooks.mkdir()
        (self.hooks / "sitecustomize.py").write_text(HANG_HOOK)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it is active, serves or waits for another one to end."""
        self.launch()
        until(lambda: self.is_active or self.is_serving or self.is_waiting, f"{self.name} is started", 120)

    def launch(self) -> None:
        """Start it with an interpreter of its own: it may replace its program."""
        with (self.home / "log").open("ab") as log:
            command = [sys.executable, "-m", "semel", "up", "--listen", f"127.0.0.1:{self.port}", "--log", "json"]
            # its /proc is looked at, also by tests that are not root's
            env = {**self.cli.env, "SEMEL_DUMPABLE": "1", "PYTHONPATH": str(self.hooks)}
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=self.home)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> list[Json]:
        return [json.loads(line) for line in (self.home / "log").read_text().splitlines() if line.startswith("{")]

    @property
    def is_ready(self) -> bool:
        assert self.process is not None
        return self.cli.address(self.process.pid) is not None and find_waiting(self.cli.data) is None

    @property
    def gateway(self) -> ClusterGateway | None:
        """How the others see it."""
        if not self.is_ready:
            return None
        return next((one for one in list_gateways(DatabaseUrl(self.url)) if one.name == self.name), None)

    @property
    def is_active(self) -> bool:
        if not self.name:
            return self.is_ready
        return self.gateway is not None and self.gateway.is_active

    @property
    def is_serving(self) -> bool:
        gateway = self.gateway
        return gateway is not None and gateway.serves and not gateway.is_active

    @property
    def is_waiting(self) -> bool:
        return bool(self.log) and self.log[-1]["event"].startswith("waits to take over")

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self.process.wait(30)

    def say(self, session: str, text: str, key: str) -> None:
        """Say it to whoever is active, again with the same key until it is accepted."""
        with Client(self.cli.data) as client:
            client.post(f"/v1/sessions/{session}/messages", {"text": text, "id": key})


def texts(cli: Cli, session: str, role: str) -> list[str]:
    return [entry["text"] for entry in cli.json("show", session) if entry["role"] == role]


def rest(cli: Cli) -> None:
    until(lambda: all(one["state"] == "idle" and not one["waiting"] for one in cli.json("sessions")), "all turns end")


def find_agents(member: Member) -> list[int]:
    """The processes of a gateway's agents."""
    mark, found = f"SEMEL_SOCKET={socket_path(member.cli.data)}".encode(), []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass
    return found
