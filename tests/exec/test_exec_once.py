"""One key of one source is one event, one entry, one turn, one answer: for ever, and by whatever connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from semel.agents.acp import AcpAgent
from semel.faces.http import NodeSettings, Settings, make_app
from semel.faces.http.operations import operations
from semel.gateway import Gateway
from semel.gateway.settings import AgentSettings, GatewaySettings
from semel.ledger.sqlite.store import Store
from semel.testing import scripted_agent
from semel.testing.clock import FrozenClock

OWNER, CI, LAB = "the-owners-own-token", "the-token-of-node-ci", "the-token-of-node-lab"
NODES = (
    NodeSettings(name="ci", token=CI, sessions=("ci:*", "main")),
    NodeSettings(name="lab", token=LAB, sessions=("ci:*",)),
    NodeSettings(name="mute", token="a-token-for-nothing", sessions=()),
)
DONE = {
    "kind": "exec.finished",
    "key": "r1:exec.finished",
    "text": "it ended",
    "data": {"run": "r1", "exit": 0},
}
Json = dict[str, Any]


class Place:
    """A gateway in this process, its API, and a clock that a test moves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = FrozenClock()
        agent = AgentSettings(name="demo", command=tuple(scripted_agent.command()), cwd=path)
        self.settings = GatewaySettings(data_dir=path, ledger=path / "ledger.db", agents={"demo": agent}, grace_s=0.2)
        self.gateway: Gateway

    async def start(self) -> None:
        store = await asyncio.to_thread(Store.open, self.settings.ledger, clock=self.clock.now)
        agents = {name: AcpAgent(name, a.command, a.cwd, a.env) for name, a in self.settings.agents.items()}
        self.gateway = Gateway(self.settings, store, agents)
        await self.gateway.start()
        self.app = make_app(self.gateway, Settings(token=OWNER, nodes=NODES))

    async def stop(self) -> None:
        await self.gateway.stop(0.2)
        await asyncio.to_thread(self.gateway.store.close)

    async def ask(self, method: str, path: str, token: str, body: Json | None = None) -> httpx2.Response:
        """One request on a connection of its own."""
        transport = httpx2.ASGITransport(app=self.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8420") as client:
            return await client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})

    async def report(self, body: Json, token: str = CI, session: str = "ci:build") -> tuple[int, Json]:
        answer = await self.ask("POST", f"/v1/sessions/{session}/events", token, body)
        return answer.status_code, answer.json()

    async def counts(self, session: str = "ci:build") -> tuple[int, int, int]:
        """(entries of events, turns that took one, answers), once the session rests."""
        async with asyncio.timeout(30):
            while (await self.gateway.sessions())[0]["state"] != "idle":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        entries, _ = await self.gateway.entries(session)
        events = [one for one in entries if one["role"] == "event"]
        turns = {one["turn"] for one in events if one.get("turn")}
        return len(events), len(turns), len([one for one in entries if one["role"] == "agent"])


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path)
    await place.start()
    yield place
    told = await place.gateway.doctor()
    await place.stop()
    assert told["ok"], [book for book in told["books"] if not book["ok"]]


async def test_replay_resend_reconnect_and_a_second_producer_are_one_event(place: Place) -> None:
    first = await place.report(DONE)
    assert first[0] == 202 and first[1]["status"] == "accepted"
    again = await asyncio.gather(*(place.report(DONE) for _ in range(20)))
    assert {(status, told["status"], told["event"]) for status, told in again} == {
        (202, "duplicate", first[1]["event"])
    }
    events, _, answers = await place.counts()
    assert (events, answers) == (1, 1)
    assert (await place.report(DONE))[1]["status"] == "duplicate"
    assert (await place.counts())[0::2] == (1, 1)


async def test_twenty_producers_at_once_are_heard_once(place: Place) -> None:
    told = await asyncio.gather(*(place.report(DONE) for _ in range(20)))
    assert sorted(one["status"] for _, one in told) == ["accepted"] + ["duplicate"] * 19
    assert (await place.counts())[0::2] == (1, 1)


async def test_a_replay_after_a_restart_and_after_thirty_days_is_the_same_event(place: Place) -> None:
    _, first = await place.report(DONE)
    before = await place.counts()
    await place.stop()
    await place.start()
    assert (await place.report(DONE))[1] == {"event": first["event"], "status": "duplicate"}
    await place.clock.advance(30 * 86400)
    assert (await place.report(DONE))[1] == {"event": first["event"], "status": "duplicate"}
    await place.stop()
    await place.clock.advance(365 * 86400)
    await place.start()
    assert (await place.report(DONE))[1] == {"event": first["event"], "status": "duplicate"}
    assert await place.counts() == before == (1, before[1], 1)


async def test_a_completion_is_accepted_after_a_reconnect_and_after_a_restart(place: Place) -> None:
    started = {"kind": "exec.started", "key": "r2:exec.started", "text": "it began", "data": {"run": "r2"}}
    assert (await place.report(started))[1]["status"] == "accepted"
    assert await place.counts() == (1, 0, 0)  # it wakes nobody
    await place.stop()
    await place.start()
    status, told = await place.report({**DONE, "key": "r2:exec.finished"})
    assert (status, told["status"]) == (202, "accepted")
    assert (await place.counts())[0::2] == (2, 1)
    unheard = await place.report({**DONE, "key": "r3:exec.finished"})  # whose start was never heard
    assert unheard[1]["status"] == "accepted"
    assert (await place.counts())[0] == 3


@pytest.mark.parametrize(
    "other",
    [
        {"text": "it ended badly"},
        {"kind": "exec.lost"},
        {"data": {"run": "r1", "exit": 1}},
        {"data": None},
        {"data": {"run": "r1", "exit": 0, "text": "it ended"}, "text": "something else"},
    ],
)
async def test_the_same_key_with_other_content_is_a_conflict_with_both_digests(place: Place, other: Json) -> None:
    _, first = await place.report(DONE)
    status, problem = await place.report({**DONE, **other})
    assert status == 409 and problem["type"] == "urn:semel:problem:conflict"
    assert problem["event"] == first["event"]
    assert len(problem["kept"]) == len(problem["given"]) == 32 and problem["kept"] != problem["given"]
    assert (await place.counts())[0::2] == (1, 1)
    entries = (await place.gateway.entries("ci:build"))[0]
    assert next(entry for entry in entries if entry["role"] == "event")["text"] == "it ended"


async def test_data_does_not_stand_in_for_the_text(place: Place) -> None:
    body = {**DONE, "data": {"text": "same"}}
    assert (await place.report(body))[0] == 202
    assert (await place.report({**body, "text": "another end"}))[0] == 409


async def test_the_same_key_for_another_session_is_a_conflict_and_not_silently_dropped(place: Place) -> None:
    await place.report(DONE)
    status, problem = await place.report(DONE, session="ci:deploy")
    assert status == 409 and problem["type"].endswith("conflict")


async def test_two_nodes_and_the_owner_have_keys_of_their_own(place: Place) -> None:
    told = [await place.report({**DONE, "wakes": False}, token) for token in (CI, LAB, OWNER, CI, LAB, OWNER)]
    assert [one["status"] for _, one in told] == ["accepted"] * 3 + ["duplicate"] * 3
    sources = [await place.gateway.why(f"e{one['event']}") for _, one in told[:3]]
    for story, source in zip(sources, ("node:ci", "node:lab", "api:ci:build"), strict=True):
        assert source in str(story)


# ---------------------------------------------------------------- scope


async def test_a_nodes_token_opens_the_events_of_its_sessions_and_nothing_else(place: Place) -> None:
    quiet = {**DONE, "wakes": False}
    assert (await place.report(quiet))[0] == 202
    await place.report(quiet, OWNER, session="mine")
    for operation in operations():
        path = operation.path.replace(":int}", "}").replace(":path}", "}").replace("{key}", "ci:build")
        path = path.replace("{id}", "1").replace("{item}", "1")
        for token in (CI, LAB):
            answer = await place.ask(operation.method, path, token, {} if operation.method != "GET" else None)
            if operation.name == "report":
                assert answer.status_code == 400, "its body is looked at"
            else:
                assert answer.status_code == 403, operation
                assert "node-scope" in answer.text, "as a problem, or in the words of the API that is spoken there"
    assert (await place.ask("GET", "/", CI)).status_code == 403


@pytest.mark.parametrize("session", ["mine", "ci", "CI:build", "main:x", "xci:build", "mai"])
async def test_a_node_reports_to_no_session_but_its_own(place: Place, session: str) -> None:
    status, problem = await place.report(DONE, session=session)
    assert (status, problem["type"]) == (403, "urn:semel:problem:node-scope")
    assert "Node 'ci' may report to: ci:*, main" in problem["detail"]
    assert await place.gateway.sessions() == []


@pytest.mark.parametrize("token", [CI, OWNER])
@pytest.mark.parametrize("kind", ["message", "answer", "command"])
async def test_a_report_is_never_what_somebody_said(place: Place, kind: str, token: str) -> None:
    status, problem = await place.report({**DONE, "kind": kind, "text": "/new"}, token)
    assert (status, problem["type"]) == (400, "urn:semel:problem:bad-field")
    assert "choose another one" in problem["detail"] and await place.gateway.sessions() == []


async def test_a_node_without_sessions_reports_to_none(place: Place) -> None:
    status, problem = await place.report(DONE, "a-token-for-nothing")
    assert status == 403 and "may report to: no session" in problem["detail"]


@pytest.mark.parametrize("token", ["wrong", "", CI[:-1], CI + "x", CI.upper(), f"{CI} {LAB}"])
async def test_a_token_that_is_nobodys_is_refused(place: Place, token: str) -> None:
    status, problem = await place.report(DONE, token)
    assert (status, problem["type"]) == (401, "urn:semel:problem:no-token")


def test_a_node_does_not_show_its_token() -> None:
    assert CI not in repr(NODES) and CI not in repr(Settings(nodes=NODES))
