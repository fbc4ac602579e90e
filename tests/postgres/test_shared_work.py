"""Two gateways share the work: each runs the agents of its sessions, and any of them answers for all."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cli_house import until
from cluster_house import TOKEN, Member, find_agents, rest, texts

from proof.postgres_server import PostgresServer
from semel.faces.client import Client
from semel.testing.scripted_agent import prompt

SMALL = "[gateway]\nmax_live_agents = 2\n"


class Phone(ThreadingHTTPServer):
    """Where a webhook channel sends to. `texts`: what came, in order."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Door)
        self.texts: list[str] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def config(self) -> str:
        url = f"http://127.0.0.1:{self.server_address[1]}/in"
        return f'[channels.phone]\nkind = "webhook"\nallow_private = true\nurl = "{url}"\n' + (
            'token = "file:data/owner.token"\nrole = "owner"\nsessions = ["demo:phone:*"]\n'
        )


class Door(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Phone)
        self.server.texts.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["data"]["text"])
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


Pair = tuple[Member, Member]


@pytest.fixture
def make_pair(tmp_path: Path, server: PostgresServer) -> Iterator[Callable[..., Pair]]:
    made: list[Member] = []

    def make(moves: bool = True, config: str = SMALL) -> Pair:
        url = server.url(server.create_database())
        for name in ("alpha", "beta"):
            made.append(Member(tmp_path / name, name, url, moves=moves, config=config))
            made[-1].start()
        alpha, beta = made
        assert alpha.is_active and beta.is_serving
        return alpha, beta

    yield make
    for member in made:
        if member.process is not None and member.process.poll() is None:
            member.signal(signal.SIGKILL)


def start_turns(alpha: Member, beta: Member, folder: Path) -> tuple[Path, list[str]]:
    """Start four turns, two at each gateway. Return the file that lets them end, and the keys of their sessions."""
    go, keys = folder / "go", [f"s{n}" for n in range(4)]
    for n, key in enumerate(keys):
        waiting = prompt(f"begun {n}", {"wait": str(go)}, f"done {n}", resume=[{"wait": str(go)}, f"done {n}"])
        alpha.say(key, waiting, f"key {n}")
        until(lambda n=n: count_agents(alpha) > n, "its agent is told: the next session is seated by that")
    until(lambda: len(find_agents(alpha)) == len(find_agents(beta)) == 2, "two agents run at each")
    return go, keys


def test_agents_run_at_both_gateways_and_either_of_them_answers(make_pair: Callable[..., Pair], tmp_path: Path) -> None:
    alpha, beta = make_pair()
    go, keys = start_turns(alpha, beta, tmp_path)
    assert len(find_agents(alpha)) == 2
    assert [one["agents"] for one in until(lambda: full(beta), "both tell their load")] == [2, 2]
    for member in (alpha, beta):
        for n, key in enumerate(keys):
            until(lambda key=key, n=n, m=member: f"begun {n}" in " ".join(texts(m.cli, key, "agent")), "it is seen")
    go.touch()
    rest(alpha.cli)
    for n, key in enumerate(keys):
        assert texts(beta.cli, key, "agent") == texts(alpha.cli, key, "agent")
        assert sum(f"done {n}" in text for text in texts(alpha.cli, key, "agent")) == 1
    for key in keys:
        beta.cli("say", key, "and you?", "--wait")
    assert beta.cli.json("doctor", "--laws")["ok"]


def count_agents(member: Member) -> int:
    return sum(one["agents"] or 0 for one in member.cli.json("status")["gateways"])


def full(member: Member) -> list[dict[str, Any]] | None:
    gateways = member.cli.json("status")["gateways"]
    return list(gateways) if all(one["agents"] for one in gateways) else None


def find_served_by(member: Member, keys: list[str]) -> str:
    """One of these sessions that this gateway serves."""
    served = {one["key"] for one in member.cli.json("sessions") if one["gateway"] == member.name}
    return next(key for key in keys if key in served)


def test_what_people_do_reaches_the_gateway_that_serves_the_session(
    make_pair: Callable[..., Pair], tmp_path: Path
) -> None:
    alpha, beta = make_pair()
    go, keys = start_turns(alpha, beta, tmp_path)
    key = find_served_by(beta, keys)
    with httpx2.stream("GET", f"{alpha.address}/v1/sessions/{key}/stream", timeout=30) as stream:
        lines = stream.iter_lines()
        next(line for line in lines if line.startswith("data: "))
        alpha.cli("say", key, "/stop")
        assert next(line for line in lines if "is being stopped" in line)
    until(lambda: alpha.cli.json("show", key) and not busy(alpha, key), "the turn is over")
    with httpx2.stream("GET", f"{beta.address}/v1/stream", timeout=30) as stream:  # alpha, the active one, answers
        rows = (row for frame in read_frames(stream) for row in frame.get("changes", ()) if row["key"] == key)
        alpha.say(key, prompt({"permission": "May I?", "allowed": ["thank you"]}), "ask")
        asking = next(row for row in rows if row.get("approvals"))
        assert asking["gateway"] == "beta" and asking["unread"]
        with Client(beta.cli.data) as client:
            client.mark_seen(key, asking["rev"])
        assert next(row for row in rows if "unread" not in row)["seen"] == asking["rev"]
    until(lambda: key in json.dumps(alpha.cli.json("status")["attention"]), "it asks")
    alpha.cli("say", key, "/approve 1")
    until(lambda: "thank you" in texts(alpha.cli, key, "agent"), "it has the answer")
    go.touch()
    rest(alpha.cli)
    assert alpha.cli.json("doctor", "--laws")["ok"]


def read_frames(stream: httpx2.Response) -> Iterator[dict[str, Any]]:
    yield from (json.loads(line.removeprefix("data: ")) for line in stream.iter_lines() if line.startswith("data: "))


def busy(member: Member, key: str) -> bool:
    return any(one["state"] != "idle" for one in member.cli.json("sessions") if one["key"] == key)


def test_a_killed_gateway_loses_no_turn_and_the_active_one_goes_on_with_them(
    make_pair: Callable[..., Pair], tmp_path: Path
) -> None:
    alpha, beta = make_pair()
    go, keys = start_turns(alpha, beta, tmp_path)
    moved = find_served_by(beta, keys)
    beta.signal(signal.SIGKILL)
    killed = time.monotonic()
    go.touch()
    until(lambda: "done" in " ".join(texts(alpha.cli, moved, "agent")), "alpha goes on with it", 20)
    assert time.monotonic() - killed < 10
    rest(alpha.cli)
    for n, key in enumerate(keys):
        assert sum(f"done {n}" in text for text in texts(alpha.cli, key, "agent")) == 1
    beta.start()
    until(lambda: beta.is_serving, "it comes back")
    beta.cli("say", moved, "still there?", "--wait")
    assert beta.cli.json("doctor", "--laws")["ok"]


def test_an_agent_that_does_not_move_waits_for_its_gateway(make_pair: Callable[..., Pair], tmp_path: Path) -> None:
    alpha, beta = make_pair(moves=False)
    go, keys = start_turns(alpha, beta, tmp_path)
    key = find_served_by(beta, keys)
    for other in keys:  # they have a memory then
        until(lambda key=other: "begun" in " ".join(texts(alpha.cli, key, "agent")), "it has begun")
    go.touch()
    rest(alpha.cli)
    beta.signal(signal.SIGKILL)
    until(lambda: alpha.gateway is not None and len(alpha.cli.json("status")["gateways"]) == 1, "beta is buried")
    alpha.say(key, "are you there?", "later")
    time.sleep(3.0)  # the active one has looked
    assert busy(alpha, key) and not texts(alpha.cli, key, "agent")[-1].startswith("are you there?")
    beta.start()
    until(lambda: not busy(alpha, key), "it goes on at beta")
    assert len(texts(alpha.cli, key, "user")) == 2
    assert alpha.cli.json("doctor", "--laws")["ok"]


def test_what_agents_say_through_their_tools_is_sent_by_the_gateway_with_the_channels(
    make_pair: Callable[..., Pair], tmp_path: Path
) -> None:
    phone = Phone()
    alpha, beta = make_pair(
        config=f'{SMALL}{phone.config}[destinations.ann]\nchannel = "phone"\naddress = "7"\nallow = ["*"]\n'
    )
    go, keys = start_turns(alpha, beta, tmp_path)
    key = find_served_by(beta, keys)
    go.touch()
    rest(alpha.cli)
    call = {"call": "send_message", "arguments": {"text": "on its way", "to": "ann"}}
    alpha.cli("say", key, prompt(call, "sent"), "--wait")
    until(lambda: phone.texts == ["on its way"], "it arrives")
    answers = len(texts(alpha.cli, key, "agent"))
    beta.cli("schedules", "add", "tea", "It is time for tea.", "--in", "1s", "--session", key)
    until(lambda: "It is time for tea." in texts(alpha.cli, key, "event"), "it fires at alpha")
    until(lambda: len(texts(alpha.cli, key, "agent")) > answers, "and is answered at beta")
    beta.signal(signal.SIGTERM)
    alpha.cli("say", key, "and now?", "--wait")
    assert alpha.cli.json("doctor", "--laws")["ok"]


def test_a_chat_reaches_its_session_at_the_other_gateway_also_to_join_its_turn_and_to_stop_it(
    make_pair: Callable[..., Pair], tmp_path: Path
) -> None:
    phone = Phone()
    alpha, beta = make_pair(config="[gateway]\nmax_live_agents = 1\n" + phone.config)
    go, never = tmp_path / "go", tmp_path / "never"
    write(alpha, "1", "first chat", prompt("hello 1", {"wait": str(go)}, "bye 1"))
    until(lambda: find_agents(alpha), "the first one runs where the channels are")
    write(alpha, "2", "second chat", prompt("hello 2", {"wait": str(never)}, "bye 2"))
    until(lambda: find_agents(beta), "the second one has no room there")
    until(lambda: "hello 2" in " ".join(texts(alpha.cli, "demo:phone:2", "agent")), "its agent works")
    write(beta, "2", "join it", "/steer and this?")
    until(lambda: find_entry(alpha, "demo:phone:2", "and this?"), "it is heard")
    until(lambda: find_entry(alpha, "demo:phone:2", "and this?").get("joined"), "it joins the turn that runs there")
    write(beta, "2", "stop it", "/stop")
    until(lambda: any("being stopped" in text for text in phone.texts), "the command is answered in the chat")
    until(lambda: not busy(alpha, "demo:phone:2"), "it is stopped")
    assert busy(alpha, "demo:phone:1") and "bye 2" not in phone.texts
    go.touch()
    until(lambda: "bye 1" in phone.texts or "hello 1bye 1" in phone.texts, "the first chat is answered")
    rest(alpha.cli)
    assert alpha.cli.json("doctor", "--laws")["ok"]


def find_entry(member: Member, session: str, text: str) -> dict[str, Any]:
    return next((entry for entry in member.cli.json("show", session) if entry["text"] == text), {})


def write(member: Member, address: str, key: str, text: str) -> None:
    """A person writes in the chat `address`; the platform calls one of the gateways."""
    answer = httpx2.post(
        f"{member.address}/v1/hooks/phone",
        headers={"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": key},
        json={"session": f"demo:phone:{address}", "text": text, "sender": "Ann"},
    )
    assert answer.status_code in (200, 202), answer.text


def test_a_session_that_an_editor_makes_for_a_folder_is_served_where_the_folder_is(
    make_pair: Callable[..., Pair], tmp_path: Path
) -> None:
    _, beta = make_pair()
    folder = tmp_path / "project"
    folder.mkdir()
    made = httpx2.put(f"{beta.address}/v1/sessions/edit", json={"folder": str(folder)})
    assert made.status_code == 201
    beta.cli("say", "edit", "hello", "--wait")
    assert find_served_by(beta, ["edit"]) == "edit"


def test_a_gateway_that_stops_hands_its_sessions_over(make_pair: Callable[..., Pair], tmp_path: Path) -> None:
    alpha, beta = make_pair()
    go, keys = start_turns(alpha, beta, tmp_path)
    key = find_served_by(alpha, keys)
    assert alpha.process is not None
    alpha.process.send_signal(signal.SIGTERM)
    until(lambda: beta.is_active, "beta has the duties", 5)
    assert alpha.process.poll() is None and busy(beta, key), "alpha's turns have time to end"
    go.touch()
    until(lambda: "done" in " ".join(texts(beta.cli, key, "agent")), "its turn ends", 20)
    alpha.process.wait(20)
    rest(beta.cli)
    for n, one in enumerate(keys):
        assert sum(f"done {n}" in text for text in texts(beta.cli, one, "agent")) == 1
    beta.say(key, "and now?", "later")
    until(lambda: len(texts(beta.cli, key, "agent")) == 2, "it goes on at beta")
    assert beta.cli.json("doctor", "--laws")["ok"]
