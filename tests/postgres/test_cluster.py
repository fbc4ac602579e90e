"""`[cluster]`: two gateways on one database. Both run turns; one is active, and the other one takes over from it."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "editors"))

import httpx2
import pytest
from cli_house import SCRIPTED, Cli, until
from cluster_house import HANG, TOKEN, Member, find_agents, rest, texts
from gateway_editor import GatewayEditor

from proof.postgres_server import PostgresServer
from semel.faces.client import NoGateway, RequestRefused
from semel.faces.cluster import ClusterCaller
from semel.faces.config.load import load_config
from semel.faces.run import open_gateway
from semel.testing.scripted_agent import prompt
from semel.tools.http_tools import MCP_PATH


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


def take_over(member: Member, at_most_s: float) -> float:
    """Return how many seconds it takes until it is active."""
    began = time.monotonic()
    until(lambda: member.is_active, f"{member.name} takes over", at_most_s)
    return time.monotonic() - began


def test_a_gateway_beside_the_active_one_lets_it_answer_and_takes_over_when_that_stops(
    members: tuple[Member, Member], tmp_path: Path
) -> None:
    alpha, beta = members
    alpha.start()
    beta.start()
    (tmp_path / "plan.bin").write_bytes(bytes(range(256)) * 2000)
    beta.cli("say", "main", "hello", "--wait", "--file", str(tmp_path / "plan.bin"))  # alpha takes it in
    assert texts(beta.cli, "main", "user") == ["hello"] == texts(alpha.cli, "main", "user")
    assert httpx2.get(f"{beta.address}/healthz").json() == {"ok": True}
    for path in ("/readyz", "/metrics"):
        assert httpx2.get(f"{beta.address}{path}").status_code == 200
    page = httpx2.get(f"{beta.address}/", headers={"Accept": "text/html"})
    assert page.status_code == 200 and "text/html" in page.headers["content-type"]
    assert page.headers["content-security-policy"] == httpx2.get(alpha.address).headers["content-security-policy"]
    assert [(one["name"], one["is_active"], one["serves"]) for one in beta.cli.json("status")["gateways"]] == [
        ("alpha", True, True), ("beta", False, True),
    ]  # fmt: skip
    assert f"alpha is active at {alpha.address}" in alpha.cli("status").stdout
    assert f"beta serves, too, at {beta.address}" in alpha.cli("status").stdout
    assert cluster_finding(alpha.cli) == "alpha is active; serving, too: beta"
    metrics = httpx2.get(f"{alpha.address}/metrics").text
    assert 'semel_cluster_gateways{state="serving"} 1' in metrics and "semel_database_retries_total 0" in metrics
    alpha.signal(signal.SIGTERM)
    assert take_over(beta, 10) < 5
    assert cluster_finding(beta.cli) == "beta is active, and there is no other one"
    [file] = beta.cli.json("show", "main")[0]["files"]
    blob = httpx2.get(f"{beta.address}/v1/blobs/{file['id']}", headers={"Authorization": f"Bearer {TOKEN}"})
    assert blob.content == (tmp_path / "plan.bin").read_bytes()
    beta.cli("say", "main", "are you there?", "--wait")
    assert texts(beta.cli, "main", "user") == ["hello", "are you there?"]
    assert beta.cli.json("doctor", "--laws")["ok"]


def test_whoever_asks_the_other_gateway_needs_what_the_active_one_asks_for(members: tuple[Member, Member]) -> None:
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
    assert httpx2.post(f"{beta.address}{MCP_PATH}", json={}).status_code == 401  # agents ask the gateway beside them
    sent = httpx2.post(messages, json={"text": "yes", "id": "once"}, headers={"Authorization": f"Bearer {TOKEN}"})
    again = httpx2.post(f"{alpha.address}/v1/sessions/main/messages", json={"text": "yes", "id": "once"})
    assert (sent.status_code, again.json()["status"]) == (202, "duplicate")
    login = httpx2.post(f"{beta.address}/v1/login", json={"token": TOKEN}, headers={"Origin": beta.address})
    assert login.status_code == 204 and login.headers["set-cookie"].startswith("semel_")
    link = beta.cli("link").stdout.strip()
    assert link.startswith(f"{beta.address}/#code=")
    for status in (204, 401):  # once
        by_code = {"code": link.partition("=")[2]}
        login = httpx2.post(f"{beta.address}/v1/login", json=by_code, headers={"Origin": beta.address})
        assert login.status_code == status
    assert texts(alpha.cli, "main", "user") == ["yes"]


def test_a_stream_through_the_other_gateway_goes_on_at_the_one_that_takes_over(
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


class EditorOfTheOther:
    """An editor of a gateway that stays, in two sessions of the one that is about to be killed. In one of them its
    prompt hangs, and another person's message waits behind it."""

    def __init__(self, served_by: Member, asks: Member) -> None:
        home: Any = SimpleNamespace(
            toml=asks.home / "semel.toml", data=asks.cli.data, environment=asks.cli.env, home=asks.home
        )
        self.editor = GatewayEditor(home, "--no-start")
        for session in ("hangs", "idle"):
            served_by.say(session, "hello", f"hello {session}")
            until(lambda session=session: texts(served_by.cli, session, "agent"), f"{session} is answered")
            self.editor.load(session)
        self.editor.session = "hangs"
        self.prompt = self.editor.begin(prompt("Begun.", {"hang": True}))
        self.editor.sees("Begun.")
        self.gate = asks.home / "go on"
        served_by.say("hangs", prompt("Of the phone, ", {"wait": str(self.gate)}, "whole."), "phone")

    def cancel(self) -> None:
        self.editor.send(method="session/cancel", params={"sessionId": "hangs"})
        self.editor.session = "idle"
        self.first_prompt = self.editor.begin("say: first")

    def check(self, cli: Cli) -> None:
        """The gateway that took over has ended the turn that was meant, and no other."""
        assert self.editor.answer_to(self.prompt)["result"] == {"stopReason": "cancelled"}
        assert self.editor.answer_to(self.first_prompt)["result"] == {"stopReason": "end_turn"}
        self.editor.session = "hangs"
        self.editor.sees("Of the phone, ")
        self.gate.touch()
        rest(cli)
        assert texts(cli, "hangs", "agent")[-2:] == ["Begun.", "Of the phone, whole."]
        assert texts(cli, "hangs", "notice") == ["Stopped by zed."]
        assert texts(cli, "idle", "agent")[-1] == "first"
        self.editor.end()


def test_gateways_that_are_killed_in_turn_lose_and_double_nothing(members: tuple[Member, Member]) -> None:
    """Nor does a cancel that an editor sends while its session is taken over stop a later turn."""
    for member in members:
        member.start()
    active, waiting = members
    editor = EditorOfTheOther(active, waiting)
    said = []
    for n in range(4):
        for part in range(2):
            text = f"text {n}.{part}"
            say_to_active(members, f"s{part}", text, f"key-{text}")
            said.append(text)
        running = prompt("begun", {"sleep": 1.0}, f"done {n}", resume=[f"done {n}"])
        say_to_active(members, f"t{n}", running, f"turn-{n}")
        active.signal(signal.SIGKILL)
        if n == 0:
            editor.cancel()
        assert take_over(waiting, 20) < 15
        if n == 0:
            editor.check(waiting.cli)
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


def test_a_gateway_that_hangs_is_replaced_and_comes_back_beside_the_new_one(
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
    stopped_at = time.monotonic()
    with ThreadPoolExecutor() as pool:  # both are asked of alpha by beta
        said = pool.submit(httpx2.post, f"{beta.address}/v1/sessions/new/messages", json={"text": "hello"}, timeout=30)
        read = pool.submit(httpx2.get, f"{beta.address}/v1/sessions", timeout=30)
        no_answer = str(alpha.cli.json("status")["no_answer"])
        assert re.match(r"alpha \(process \d+\) (has not answered since|does not answer and was given up)", no_answer)
        assert "beta takes over in" in no_answer or "beta is active now" in no_answer
        took = time.monotonic() - stopped_at + take_over(beta, 30)
    assert 5 < took < 15
    assert said.result().status_code == 502 and "hangs, or is cut off, and was given up" in said.result().text
    assert [session["key"] for session in read.result().json()["sessions"]] == ["main"]
    findings = alpha.cli.json("doctor", rc=1)["findings"]
    assert ["given up: beta is active now" in one["text"] for one in findings if one["level"] == "broken"] == [True]
    until(lambda: find_agents(beta), "its agent of the turn that goes on")
    go.touch()
    until(lambda: texts(beta.cli, "main", "agent") == ["done"], "the turn goes on")
    alpha.signal(signal.SIGCONT)
    until(lambda: alpha.is_serving, "it serves again")
    assert pid not in find_agents(alpha) and beta.is_active
    assert [line["event"] for line in alpha.log if line["level"] == "error"] == [
        "this gateway stops at once, and waits to take over again"
    ]
    beta.cli("say", "main", "still there?", "--wait")
    assert texts(beta.cli, "main", "user")[-1] == "still there?"
    beta.signal(HANG)  # only its event loop: the thread that shows its life goes on
    assert 5 < take_over(alpha, 30) < 20
    until(lambda: beta.is_serving, "it serves again")
    hang, end = [line for line in beta.log if line["level"] == "error"]
    assert hang["event"].startswith("the event loop hangs") and "sitecustomize.py:2" in hang["where"][0]
    assert end["why"] == "its event loop hangs, so nothing was renewed for 8 s"
    assert alpha.cli.json("doctor", "--laws")["ok"]


def test_a_database_that_is_away_for_long_ends_the_work_but_not_the_gateway(
    members: tuple[Member, Member], server: PostgresServer
) -> None:
    alpha, _ = members
    alpha.start()
    alpha.cli("say", "main", "before", "--wait")
    server.kill()
    try:
        until(lambda: alpha.log[-1]["event"].startswith("waits: The database"), "it has stopped, and waits", 60)
        assert not find_agents(alpha)
    finally:
        server.start()
    until(lambda: alpha.is_active, "it takes over again")
    alpha.cli("say", "main", "after", "--wait")
    assert texts(alpha.cli, "main", "user") == ["before", "after"]
    assert alpha.cli.json("doctor", "--laws")["ok"]


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


@pytest.mark.parametrize("limit", [2, 4])  # before the ledger is opened, and after it
async def test_a_gateway_that_starts_waits_while_the_server_refuses_its_connections(
    tmp_path: Path, server: PostgresServer, limit: int
) -> None:
    database, role, waits = server.create_database(), f"few{limit}", list[str]()
    server.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT {limit}")
    server.execute(f"ALTER DATABASE {database} OWNER TO {role}")

    def lift_limit(text: str) -> None:
        waits.append(text)
        server.execute(f"ALTER ROLE {role} CONNECTION LIMIT -1")

    url = server.url(database).replace("semel@", f"{role}@")
    cluster = '[cluster]\nname = "alpha"\naddress = "http://127.0.0.1:1"\n'
    (tmp_path / "semel.toml").write_text(f'{SCRIPTED}[ledger]\nurl = "{url}"\n{cluster}')
    config = load_config(tmp_path / "semel.toml", tmp_path / "data", "127.0.0.1:0", env={"HOME": str(tmp_path)})
    async with open_gateway(config, ClusterCaller(tell=lift_limit)) as running:
        assert (await running.gateway.say("main", "hello")).status == "accepted"
    assert "too many connections" in waits[0]


def test_a_cluster_needs_a_database(tmp_path: Path) -> None:
    (tmp_path / "semel.toml").write_text(f'{SCRIPTED}[cluster]\nname = "alpha"\n')
    told = Cli(tmp_path, tmp_path / "data")("config", "check", rc=2)
    assert "only gateways on one PostgreSQL database can be a cluster" in told.stdout + told.stderr


def test_whoever_asks_beside_a_gateway_that_can_take_no_place_is_told_why(
    members: tuple[Member, Member], tmp_path: Path, server: PostgresServer
) -> None:
    alpha, _ = members
    alpha.start()
    twin = Member(tmp_path / "twin", "alpha", alpha.url)
    try:
        twin.launch()
        until(lambda: twin.log, "the twin waits")
        why = rf"alpha \(process {twin.pid}\) waits: another gateway named alpha lives, on "
        assert re.search(rf" {why}.*; alpha answers", twin.cli("status").stdout)
        assert re.search(rf"gateway +{why}", twin.cli("doctor").stdout)
        for member in (alpha, twin):
            member.signal(signal.SIGKILL)
        server.kill()
        twin.launch()
        why = rf"alpha \(process {twin.pid}\) waits: The database .* cannot be opened \("
        for command in (["status"], ["say", "main", "hello"]):
            until(lambda command=command: re.search(why, twin.cli(*command, rc=1).stderr), f"{command} says why")
        assert re.search(rf"gateway +{why}", twin.cli("doctor", rc=1).stdout)
        server.start()
        until(lambda: twin.is_active, "the twin takes over")
        assert " waits: " not in twin.cli("status").stdout
    finally:
        twin.signal(signal.SIGKILL)
