"""`[cluster]`: two gateways on one database. One is active; the other one waits, and takes over when it is gone."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
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
from semel.tools.address import find_waiting
from semel.tools.http_tools import MCP_PATH

Json = dict[str, Any]
TOKEN = "a-token-that-all-gateways-share"


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class Member:
    """A gateway of the cluster, with a home and a data directory of its own."""

    def __init__(self, home: Path, name: str, url: str, has_address: bool = True) -> None:
        home.mkdir()
        self.name = name
        self.home = home
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
        agent = f"[agents.demo]\ncommand = {json.dumps(scripted_agent.command(state=home.parent / 'agent'))}\n"
        (home / "semel.toml").write_text(f'{agent}[ledger]\nurl = "{url}"\n{section}')
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it with an interpreter of its own: it may replace its program."""
        with (self.home / "log").open("ab") as log:
            command = [sys.executable, "-m", "semel", "up", "--listen", f"127.0.0.1:{self.port}", "--log", "json"]
            env = {**self.cli.env, "SEMEL_DUMPABLE": "1"}  # its /proc is looked at, also by tests that are not root's
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=self.home)
        until(lambda: self.is_active or self.is_waiting, f"{self.name} is started")

    @property
    def log(self) -> list[Json]:
        return [json.loads(line) for line in (self.home / "log").read_text().splitlines() if line.startswith("{")]

    @property
    def is_active(self) -> bool:
        assert self.process is not None
        return self.cli.address(self.process.pid) is not None and find_waiting(self.cli.data) is None

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
    pair = Member(tmp_path / "a", "alpha", url), Member(tmp_path / "b", "beta", url)
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


def test_a_gateway_that_waits_lets_the_active_one_answer_and_takes_over_when_that_stops(
    members: tuple[Member, Member],
) -> None:
    alpha, beta = members
    alpha.start()
    beta.start()
    beta.cli("say", "main", "hello", "--wait")
    assert texts(beta.cli, "main", "user") == ["hello"] == texts(alpha.cli, "main", "user")
    assert httpx2.get(f"{beta.address}/healthz").json() == {"ok": True}
    for path in ("/readyz", "/metrics"):
        refused = httpx2.get(f"{beta.address}{path}")
        assert refused.status_code == 503 and refused.headers["retry-after"] == "2"
    assert "waits to take over from the gateway alpha" in refused.json()["detail"]
    page = httpx2.get(f"{beta.address}/", headers={"Accept": "text/html"})
    assert page.status_code == 200 and "text/html" in page.headers["content-type"]
    assert page.headers["content-security-policy"] == httpx2.get(alpha.address).headers["content-security-policy"]
    assert re.search(r"beta waits to take over from alpha, which answers", beta.cli("status").stdout)
    assert [(one["name"], one["is_active"]) for one in alpha.cli.json("status")["gateways"]] == [
        ("alpha", True), ("beta", False),
    ]  # fmt: skip
    assert f"alpha is active at {alpha.address}" in alpha.cli("status").stdout
    assert cluster_finding(alpha.cli) == "alpha is active; waiting: beta"
    metrics = httpx2.get(f"{alpha.address}/metrics").text
    assert 'semel_cluster_gateways{state="waiting"} 1' in metrics and "semel_database_retries_total 0" in metrics
    alpha.signal(signal.SIGTERM)
    assert take_over(beta, 10) < 5
    assert cluster_finding(beta.cli) == "beta is active, and no other one waits"
    beta.cli("say", "main", "are you there?", "--wait")
    assert texts(beta.cli, "main", "user") == ["hello", "are you there?"]
    assert beta.cli.json("doctor", "--laws")["ok"]


def test_whoever_asks_the_waiting_gateway_needs_what_the_active_one_asks_for(members: tuple[Member, Member]) -> None:
    alpha, beta = members
    alpha.start()
    beta.start()
    messages = f"{beta.address}/v1/sessions/main/messages"
    wrong = {
        "foreign-host": {"Host": "evil.example"},
        "foreign-origin": {"Origin": "https://evil.example"},
        "no-token": {"Authorization": "Bearer some-other-token"},
    }
    for code, headers in wrong.items():
        refused = httpx2.post(messages, json={"text": "no"}, headers=headers)
        assert refused.json()["type"] == f"urn:semel:problem:{code}"
    assert httpx2.post(f"{beta.address}{MCP_PATH}", json={}).status_code == 503  # agents run beside the active gateway
    sent = httpx2.post(messages, json={"text": "yes", "id": "once"}, headers={"Authorization": f"Bearer {TOKEN}"})
    again = httpx2.post(f"{alpha.address}/v1/sessions/main/messages", json={"text": "yes", "id": "once"})
    assert (sent.status_code, again.json()["status"]) == (202, "duplicate")
    login = httpx2.post(f"{beta.address}/v1/login", json={"token": TOKEN}, headers={"Origin": beta.address})
    assert login.status_code == 204 and login.headers["set-cookie"].startswith("semel_")
    assert texts(alpha.cli, "main", "user") == ["yes"]


def test_a_stream_through_the_waiting_gateway_goes_on_at_the_one_that_takes_over(
    members: tuple[Member, Member],
) -> None:
    alpha, beta = members
    alpha.start()
    alpha.cli("say", "main", "hello", "--wait")
    beta.start()
    with httpx2.stream("GET", f"{beta.address}/v1/sessions/main/stream", timeout=30) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        last = next(line for line in lines if line.startswith("id: ")).removeprefix("id: ")
        assert "hello" in next(line for line in lines if line.startswith("data: "))
        alpha.signal(signal.SIGKILL)
        with contextlib.suppress(httpx2.HTTPError):
            list(lines)  # it ends
    take_over(beta, 20)
    beta.cli("say", "main", "and on", "--wait")
    resumed = {"Last-Event-ID": last}
    with httpx2.stream("GET", f"{beta.address}/v1/sessions/main/stream", headers=resumed, timeout=30) as stream:
        assert "and on" in next(line for line in stream.iter_lines() if line.startswith("data: "))


def test_a_gateway_that_waits_refuses_what_it_cannot_forward(tmp_path: Path, server: PostgresServer) -> None:
    url = server.url(server.create_database())
    alpha, beta = (Member(tmp_path / name, name, url, has_address=False) for name in ("alpha", "beta"))
    try:
        alpha.start()
        beta.start()
        refused = httpx2.post(f"{beta.address}/v1/sessions/main/messages", json={"text": "lost?"})
        assert refused.status_code == 503 and refused.headers["retry-after"] == "2"
        assert "waits to take over from the gateway alpha; nothing was accepted" in refused.json()["detail"]
        assert re.search(r"gateway +beta waits to take over from alpha", beta.cli("status").stdout)
    finally:
        for member in (alpha, beta):
            member.signal(signal.SIGKILL)


def cluster_finding(cli: Cli) -> str:
    (finding,) = [one for one in cli.json("doctor")["findings"] if one["subject"] == "cluster"]
    return str(finding["text"])


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
