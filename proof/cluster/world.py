"""The gateways of a cluster as processes, each with a home of its own, and the platforms to which they send."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from proof.cluster.link import Link
from proof.cluster.servers import Servers
from proof.postgres_server import PostgresServer
from semel.gateway.process_identity import SOCKET_VARIABLE
from semel.gateway.unix_socket import socket_path
from semel.testing import scripted_agent

Json = dict[str, Any]
KINDS = {"folds": 86_400, "once": 0}
"""The platforms, and for how many seconds each folds repeats of a key: a channel is idempotent, or at-most-once."""
LOST_ANSWERS = 0.05  # share of the posts that a platform takes and does not answer
TIMEOUT_S = 5.0
CLOCKS_S = {"alpha": 0.0, "beta": 3600.0, "gamma": -3600.0}
"""The gateways, and by how many seconds the clock of each machine is fast."""
ROOM = 4  # agents of a gateway, so that every gateway runs some
TICK, TICK_S = "tick", 5  # a schedule and its session, and seconds between two firings
WRONG_CLOCK = """import os, time
fast = float(os.environ["CLOCK_IS_FAST_S"])
real, real_ns = time.time, time.time_ns
time.time = lambda: real() + fast
time.time_ns = lambda: real_ns() + round(fast * 1e9)
"""
"""Read by the interpreter at its start, before anything else asks for the time."""


class Platforms:
    """Takes posts, and keeps all of them as (platform, key, text)."""

    def __init__(self, seed: int) -> None:
        dice, self.posts = random.Random(seed), list[tuple[str, str, str]]()

        class Handler(BaseHTTPRequestHandler):
            posts = self.posts

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self.posts.append((self.path.strip("/"), self.headers["webhook-id"], body["data"]["text"]))
                if dice.random() < LOST_ANSWERS:
                    self.close_connection = True
                    return
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def find_free_port() -> int:
    """Return a TCP port of this machine that nobody uses just now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class Member:
    """A gateway, over all of its lives. `freeze` and `thaw` stop and continue it."""

    def __init__(self, root: Path, name: str, servers: Servers, database: str, platforms: str) -> None:
        self.root = root / name
        self.root.mkdir()
        self.name = name
        self.links = [Link(server.folder / name, server.folder) for server in servers.all]  # paths are short there
        (self.root / "clock").mkdir()
        (self.root / "clock" / "sitecustomize.py").write_text(WRONG_CLOCK)
        hosts = ",".join(str(server.folder / name) for server in servers.all)
        url = f"postgresql://semel@/{database}?host={hosts}&target_session_attrs=read-write"
        self.frozen = False
        self.sources: Path | None = None  # of the code that it starts; None: this one
        self.process: subprocess.Popen[bytes] | None = None
        command = json.dumps(scripted_agent.command(state=root / "agent"))
        port = find_free_port()
        tick = json.dumps(scripted_agent.prompt("Ticked."))
        lines = [
            f'[gateway]\nlisten = "127.0.0.1:{port}"\ndata_dir = "{self.root}/data"\nmax_live_agents = {ROOM}\n'
            f'check_agents = false\n[ledger]\nurl = "{url}"\n[cluster]\nname = "{name}"\naddress = "http://127.0.0.1:{port}"\n'
            f'[agents.demo]\ncommand = {command}\ncwd = "{root}/work"\nmoves = true\n'
            f'[schedules.{TICK}]\nevery = "{TICK_S}s"\nsession = "{TICK}"\ntext = {tick}\n'
        ]
        for kind, key_life in KINDS.items():
            lines.append(
                f'[channels.{kind}]\nkind = "webhook"\nurl = "{platforms}/{kind}"\nallow_private = true\n'
                f'token = "a token of the platform"\nkey_life = {key_life}\n'
                f'[destinations.{kind}]\nchannel = "{kind}"\naddress = "room"\nallow = ["*"]\n'
            )
        (self.root / "semel.toml").write_text("".join(lines))
        token = self.root / "data" / "owner.token"  # the same on all machines
        token.parent.mkdir(mode=0o700)
        token.touch(0o600)
        token.write_text("a-token-that-all-gateways-share\n")

    def start(self) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SEMEL_", "XDG_"))}
        paths = (str(self.root / "clock"), str(self.sources or ""), kept.get("PYTHONPATH"))
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "semel", "up", "--config", self.root / "semel.toml", "--log", "json"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={
                    **kept, "HOME": str(self.root), "CLOCK_IS_FAST_S": str(CLOCKS_S[self.name]),
                    "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                },
            )  # fmt: skip

    def cut_off(self, answers_only: bool = False) -> None:
        """Let what it says to the servers, and what they answer, be on its way until `rejoin`; or the answers alone."""
        for link in self.links:
            link.cut(answers_only)

    def rejoin(self) -> None:
        for link in self.links:
            link.heal()

    def close_links(self) -> None:
        for link in self.links:
            link.close()

    def list_agents(self) -> list[int]:
        """The processes that run for it: agents, and what they have started."""
        mark, found = f"{SOCKET_VARIABLE}={socket_path(self.root / 'data')}".encode(), []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def url(self) -> str | None:
        """Where it answers, or lets the active one answer."""
        with contextlib.suppress(OSError, ValueError):
            address = json.loads((self.root / "data" / "gateway.json").read_text())
            if self.is_alive and not self.frozen and self.process is not None and address["pid"] == self.process.pid:
                return str(address["url"])
        return None

    def send_signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        if number is signal.SIGSTOP:
            self.frozen = True
        elif number is signal.SIGCONT:
            self.frozen = False
        else:
            self.process.wait(60)

    def end(self) -> None:
        if self.is_alive:
            self.send_signal(signal.SIGCONT)
            self.send_signal(signal.SIGKILL)


class World:
    """Three gateways, their database and their platforms."""

    def __init__(self, root: Path, seed: int, has_standby: bool = False) -> None:
        (root / "work").mkdir()
        self.servers = Servers(has_standby)
        self.platforms = Platforms(seed)
        self.database = self.server.create_database()
        self.members = [Member(root, name, self.servers, self.database, self.platforms.url) for name in CLOCKS_S]

    @property
    def server(self) -> PostgresServer:
        """The one that takes writes."""
        return self.servers.primary

    def find_active(self, other_than: Member | None = None) -> Member | None:
        members = (member for member in self.members if member is not other_than)
        return next((member for member in members if member.url is not None and self._is_active(member)), None)

    def _is_active(self, member: Member) -> bool:
        with contextlib.suppress(OSError, ValueError):
            gateways = self.call(member, "/v1/status")["gateways"]
            return any(one["name"] == member.name and one["is_active"] for one in gateways)
        return False

    def list_serving(self) -> list[str]:
        """The names of the gateways that run turns, as the active one sees them."""
        active = self.find_active()
        with contextlib.suppress(OSError, ValueError):
            if active is not None:
                return [one["name"] for one in self.call(active, "/v1/status")["gateways"] if one["serves"]]
        return []

    def call(self, member: Member, path: str, body: Json | None = None) -> Json:
        """Ask a member. Raises OSError (also urllib.error.HTTPError)."""
        data = None if body is None else json.dumps(body).encode()
        url = member.url
        if url is None:
            raise ConnectionRefusedError(member.name)
        request = urllib.request.Request(url + path, data, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return dict(json.loads(answer.read()))
        except http.client.HTTPException as error:  # it broke off in the middle
            raise ConnectionError(repr(error)) from error

    def wait_for_active(self, at_most_s: float, other_than: Member | None = None) -> tuple[Member, float]:
        """Return the active gateway, and how many seconds it took until there was one. Raises TimeoutError."""
        began = time.monotonic()
        while (member := self.find_active(other_than)) is None:
            if time.monotonic() - began > at_most_s:
                raise TimeoutError(f"no gateway is active after {at_most_s:g} s")
            time.sleep(0.05)
        return member, time.monotonic() - began

    def close(self) -> None:
        for member in self.members:
            member.end()
            member.close_links()
        self.platforms.close()
        self.servers.stop()


@contextlib.contextmanager
def open_world(root: Path, seed: int, has_standby: bool) -> Iterator[World]:
    world = World(root, seed, has_standby)
    try:
        yield world
    finally:
        world.close()
