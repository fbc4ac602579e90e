"""`[cluster]`: two gateways on one database. One is active; the other one waits, and takes over when it is gone."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cli_house import SCRIPTED, Cli, until

from proof.postgres_server import PostgresServer
from semel.faces.client import Client, NoGateway, RequestRefused
from semel.gateway.unix_socket import socket_path
from semel.testing import scripted_agent
from semel.testing.scripted_agent import prompt

Json = dict[str, Any]


class Member:
    """A gateway of the cluster, with a home and a data directory of its own."""

    def __init__(self, home: Path, name: str, url: str, address: str = "") -> None:
        home.mkdir()
        self.name = name
        self.home = home
        self.cli = Cli(home, home / "data")
        where = f'address = "{address}"\n' if address else ""
        section = f'[cluster]\nname = "{name}"\n{where}' if name else ""
        # The agents' memory is on a file system that all machines share.
        agent = f"[agents.demo]\ncommand = {json.dumps(scripted_agent.command(state=home.parent / 'agent'))}\n"
        (home / "semel.toml").write_text(f'{agent}[ledger]\nurl = "{url}"\n{section}')
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it with an interpreter of its own: it may replace its program."""
        with (self.home / "log").open("ab") as log:
            command = [sys.executable, "-m", "semel", "up", "--listen", "127.0.0.1:0", "--log", "json"]
            env = {**self.cli.env, "SEMEL_DUMPABLE": "1"}  # its /proc is looked at, also by tests that are not root's
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=self.home)
        until(lambda: self.is_active or self.is_waiting, f"{self.name} is started")

    @property
    def log(self) -> list[Json]:
        return [json.loads(line) for line in (self.home / "log").read_text().splitlines() if line.startswith("{")]

    @property
    def is_active(self) -> bool:
        assert self.process is not None
        return self.cli.address(self.process.pid) is not None

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


@pytest.fixture
def members(tmp_path: Path, server: PostgresServer) -> Iterator[tuple[Member, Member]]:
    url = server.url(server.create_database())
    pair = Member(tmp_path / "a", "alpha", url, "https://alpha.example"), Member(tmp_path / "b", "beta", url)
    yield pair
    for member in pair:
        if member.process is not None and member.process.poll() is None:
            member.signal(signal.SIGCONT)
            member.signal(signal.SIGKILL)


def say_to_active(members: tuple[Member, Member], session: str, text: str, key: str) -> None:
    def accepted() -> bool:
        for member in members:
            try:
                member.say(session, text, key)
                return True
            except (NoGateway, RequestRefused, httpx2.TransportError):
                pass
        return False

    until(accepted, f"{text} is accepted")


def texts(cli: Cli, session: str, role: str) -> list[str]:
    return [entry["text"] for entry in cli.json("show", session) if entry["role"] == role]


def rest(cli: Cli) -> None:
    until(lambda: all(one["state"] == "idle" and not one["waiting"] for one in cli.json("sessions")), "all turns end")


def take_over(member: Member, at_most_s: float) -> float:
    """Return how many seconds it takes until it is active."""
    began = time.monotonic()
    until(lambda: member.is_active, f"{member.name} takes over", at_most_s)
    return time.monotonic() - began


def test_a_gateway_that_waits_says_so_and_takes_over_when_the_other_one_stops(
    members: tuple[Member, Member],
) -> None:
    alpha, beta = members
    alpha.start()
    alpha.cli("say", "main", "hello", "--wait")
    beta.start()
    port = find_port(beta)
    assert httpx2.get(f"http://127.0.0.1:{port}/healthz").json() == {"ok": True}
    refused = httpx2.post(f"http://127.0.0.1:{port}/v1/sessions/main/messages", json={"text": "lost?"})
    assert refused.status_code == 503 and refused.headers["retry-after"] == "2"
    assert "waits to take over from the gateway alpha; nothing was accepted" in refused.json()["detail"]
    page = httpx2.get(f"http://127.0.0.1:{port}/", headers={"Accept": "text/html"})
    assert (page.status_code, page.headers["location"]) == (307, "https://alpha.example/")
    assert re.search(r"gateway +beta waits to take over from alpha", beta.cli("status").stdout)
    assert [(one["name"], one["is_active"]) for one in alpha.cli.json("status")["gateways"]] == [
        ("alpha", True), ("beta", False),
    ]  # fmt: skip
    assert "alpha is active at https://alpha.example" in alpha.cli("status").stdout
    assert cluster_finding(alpha.cli) == "alpha is active; waiting: beta"
    alpha.signal(signal.SIGTERM)
    assert take_over(beta, 10) < 5
    assert cluster_finding(beta.cli) == "beta is active, and no other one waits"
    beta.cli("say", "main", "are you there?", "--wait")
    assert texts(beta.cli, "main", "user") == ["hello", "are you there?"]
    assert beta.cli.json("doctor", "--laws")["ok"]


def cluster_finding(cli: Cli) -> str:
    (finding,) = [one for one in cli.json("doctor")["findings"] if one["subject"] == "cluster"]
    return str(finding["text"])


def find_port(member: Member) -> int:
    """The port on which a waiting gateway listens, which it publishes nowhere."""
    assert member.process is not None
    inodes = {
        link.readlink().name
        for link in Path(f"/proc/{member.process.pid}/fd").iterdir()
        if str(link.readlink()).startswith("socket:")
    }
    for line in Path(f"/proc/{member.process.pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            return int(fields[1].rpartition(":")[2], 16)
    raise AssertionError("it listens nowhere")


def test_gateways_that_are_killed_in_turn_lose_and_double_nothing(members: tuple[Member, Member]) -> None:
    for member in members:
        member.start()
    active, waiting = members
    said = []
    for n in range(4):
        for part in range(2):
            text = f"text {n}.{part}"
            say_to_active(members, f"s{part}", text, f"key-{text}")
            said.append(text)
        running = prompt("begun", {"sleep": 1.0}, f"done {n}", resume=[f"done {n}"])
        say_to_active(members, f"t{n}", running, f"turn-{n}")
        active.signal(signal.SIGKILL)
        assert take_over(waiting, 20) < 15
        active.start()
        active, waiting = waiting, active
        rest(active.cli)  # a turn that is lost three times has failed
    cli = active.cli
    for part in range(2):
        assert texts(cli, f"s{part}", "user") == [text for text in said if text.endswith(f".{part}")]
        assert len(texts(cli, f"s{part}", "agent")) >= 4
    for n in range(4):
        assert sum(f"done {n}" in text for text in texts(cli, f"t{n}", "agent")) == 1
    assert cli.json("doctor", "--laws")["ok"]


def test_a_gateway_that_hangs_is_replaced_and_comes_back_as_one_that_waits(
    members: tuple[Member, Member], tmp_path: Path
) -> None:
    alpha, beta = members
    go = tmp_path / "go"
    alpha.start()
    beta.start()
    alpha.cli("say", "main", prompt({"wait": str(go)}, "done", resume=[{"wait": str(go)}, "done"]))
    agents = until(lambda: alpha.cli.json("status")["agents"], "the agent runs")
    assert len(agents) == 1
    pid = until(lambda: find_agents(alpha), "its process")[0]
    alpha.signal(signal.SIGSTOP)
    took = take_over(beta, 30)
    assert 5 < took < 15
    until(lambda: find_agents(beta), "its agent of the turn that goes on")
    go.touch()
    until(lambda: texts(beta.cli, "main", "agent") == ["done"], "the turn goes on")
    alpha.signal(signal.SIGCONT)
    until(lambda: alpha.is_waiting, "it waits again")
    assert pid not in find_agents(alpha) and beta.is_active
    assert [line["event"] for line in alpha.log if line["level"] == "error"] == [
        "this gateway stops at once, and waits to take over again"
    ]
    beta.cli("say", "main", "still there?", "--wait")
    assert texts(beta.cli, "main", "user")[-1] == "still there?"
    assert beta.cli.json("doctor", "--laws")["ok"]


def test_a_database_that_is_away_for_long_ends_the_work_but_not_the_gateway(
    members: tuple[Member, Member], server: PostgresServer
) -> None:
    alpha, _ = members
    alpha.start()
    alpha.cli("say", "main", "before", "--wait")
    server.kill()
    try:
        until(lambda: alpha.log[-1]["event"].startswith("waits for the database"), "it has stopped, and waits", 60)
        assert not find_agents(alpha)
    finally:
        server.start()
    until(lambda: alpha.is_active, "it takes over again")
    alpha.cli("say", "main", "after", "--wait")
    assert texts(alpha.cli, "main", "user") == ["before", "after"]
    assert alpha.cli.json("doctor", "--laws")["ok"]


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


def test_a_job_of_another_machine_is_neither_lost_nor_told_twice(
    members: tuple[Member, Member], tmp_path: Path
) -> None:
    alpha, beta = members
    alpha.start()
    beta.start()
    go = tmp_path / "go"
    command = f"until test -e {go}; do sleep 0.05; done; exit 4"
    begin = {"call": "run_in_background", "arguments": {"command": command}, "meta": "claude"}
    alpha.cli("say", "main", prompt(begin, "started"), "--wait")
    until(lambda: alpha.cli.json("jobs", "list")[0]["state"] == "running", "it runs")
    alpha.signal(signal.SIGKILL)
    take_over(beta, 20)
    beta.cli("say", "main", "what about the job?", "--wait")
    time.sleep(1.0)  # its first sweep is over
    (job,) = beta.cli.json("jobs", "list")
    assert (job["state"], job["gateway"]) == ("running", "alpha")
    go.touch()
    alpha.start()
    beta.signal(signal.SIGTERM)
    take_over(alpha, 20)
    until(lambda: not alpha.cli.json("jobs", "list"), "its end is told")
    ends = [one["text"] for one in alpha.cli.json("show", "main") if one.get("kind", "").startswith("exec.")]
    assert len([text for text in ends if "exit code 4" in text]) == 1 and not any("lost" in text for text in ends)
    assert alpha.cli.json("doctor", "--laws")["ok"]


def test_a_cluster_needs_a_database(tmp_path: Path) -> None:
    (tmp_path / "semel.toml").write_text(f'{SCRIPTED}[cluster]\nname = "alpha"\n')
    told = Cli(tmp_path, tmp_path / "data")("config", "check", rc=2)
    assert "only gateways on one PostgreSQL database can be a cluster" in told.stdout + told.stderr
