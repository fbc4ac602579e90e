"""The list of sessions, live: what is unread, what needs somebody, by a rev of its own, and no row twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import msgspec
import pytest
from gateway_house import GatewayHouse, until
from http_house import House

from semel.faces.frame_types import SessionListed, SessionListFrame
from semel.faces.http import Settings, make_app, serve
from semel.faces.http.status_types import Needs
from semel.gateway import list_feed

Json = dict[str, Any]


async def take(house: House, path: str, count: int, **headers: str) -> list[Json]:
    async with asyncio.timeout(20):
        found: list[Json] = []
        async for frame in house.frames(path, **headers):
            msgspec.convert(frame["data"], SessionListFrame)
            found.append(frame)
            if len(found) == count:
                return found
    raise AssertionError(f"the stream ended after {found}")


class Follower:
    """The list as a face keeps it, from the frames of one stream."""

    def __init__(self, frames: AsyncIterator[Json]):
        self.frames = frames
        self.rows: dict[str, Json] = {}
        self.rev = 0
        self.snapshots = 0

    async def until(self, key: str, **fields: Any) -> Json:
        """Follow until the row of a session has these fields; None: it has no such field."""
        async with asyncio.timeout(20):
            while not self._has(key, fields):
                self.apply((await anext(self.frames))["data"])
        return self.rows[key]

    async def until_gone(self, key: str) -> None:
        async with asyncio.timeout(20):
            while key in self.rows:
                self.apply((await anext(self.frames))["data"])

    def _has(self, key: str, fields: Json) -> bool:
        row = self.rows.get(key)
        return row is not None and all(row.get(name) == value for name, value in fields.items())

    def apply(self, frame: Json) -> None:
        self.rev = frame["rev"]
        if frame["type"] == "snapshot":
            self.snapshots += 1
            self.rows = {row["key"]: row for row in frame["sessions"]}
        for change in frame.get("changes", ()):
            row = {name: value for name, value in change.items() if name != "op"}
            if change["op"] == "gone":
                self.rows.pop(change["key"], None)
            else:
                msgspec.convert(change, SessionListed)
                self.rows[change["key"]] = row


async def list_rows(house: House) -> Json:
    rows = (await house.client.get("/v1/sessions")).json()["sessions"]
    return {row["key"]: row for row in rows}


async def test_a_list_that_follows_shows_what_a_new_request_would(house: House, world: GatewayHouse) -> None:
    """Of a session that begins, works, asks, answers, is renamed, archived and deleted."""
    list_ = Follower(house.frames("/v1/stream"))
    conversation = await world.begin("s", "# Hello **you**")
    await list_.until("s", state="running", title="Hello you")
    conversation.say("## Report\n\n**42** orders, see [the list](https://example.org/orders).")
    await list_.until("s", last="Report 42 orders, see the list.", unread=1)
    conversation.ask("Run?", [{"optionId": "y", "name": "Yes", "kind": "allow_once"}])
    row = await list_.until("s", approvals=1)
    assert row == (await list_rows(house))["s"] | {"rev": row["rev"], "seq": row["seq"]}
    item = await world.open_request("s")
    await house.client.post("/v1/sessions/s/answers", json={"item": item, "option": "y"})
    await list_.until("s", approvals=None)
    conversation.end()
    row = await list_.until("s", state="idle", unread=1)
    await world.gateway.say("s", "/history")
    row = await list_.until("s", seq=row["seq"] + 2, unread=2)
    assert row["last"] == "Report 42 orders, see the list.", "the answer shows what was said before"
    assert (await house.client.post("/v1/sessions/s/seen", json={"rev": row["rev"]})).status_code == 204
    await list_.until("s", unread=None, seen=row["rev"])
    await world.gateway.rename("s", "Orders")
    await list_.until("s", title="Orders")
    await world.gateway.archive("s")
    await list_.until("s", archived=True)
    await world.gateway.delete("s")
    await list_.until_gone("s")
    assert list_.snapshots == 1
    await list_.frames.aclose()  # type: ignore[attr-defined]
    await until(lambda: asyncio.sleep(0, world.gateway.list_feed.count == 0))


async def test_questions_held_parts_and_a_failed_turn_are_told(house: House, world: GatewayHouse) -> None:
    list_ = Follower(house.frames("/v1/stream"))
    await world.hold("one two three four five six")  # in two parts
    await list_.until("main:chat:room", held=1)
    script = await world.script("asks")
    question = await script.item("ask", "Which?", live=True, state="open", options=[])
    await list_.until("asks", questions=1)
    await script.set_item(question, live=False, state="answered")
    await list_.until("asks", questions=None)
    conversation = await world.begin("fails")
    conversation.end("error", "no credit left")
    row = await list_.until("fails", state="idle")
    assert row["failed"] == "no credit left"
    await world.begin("fails", "again")
    await list_.until("fails", state="running", failed=None)


async def test_what_needs_somebody_can_be_answered_where_it_is_listed(house: House, world: GatewayHouse) -> None:
    async def needs() -> list[Json]:
        listed = (await house.client.get("/v1/needs")).json()
        msgspec.convert(listed, Needs)
        return list(listed["needs"])

    def names(listed: list[Json]) -> list[tuple[str, str]]:
        return [(need["why"], need["session"]) for need in listed]

    assert await needs() == []
    await world.hold("hi")
    (await world.begin("fails")).end("error", "no credit left")
    await world.idle("fails")
    script = await world.script("asks")
    await script.item("ask", "Which?", live=True, state="open", options=[{"optionId": "a", "name": "a"}], at=5)
    conversation = await world.begin("permits")
    for title in ("First?", "Second?"):
        conversation.ask(title, [{"optionId": "y", "name": "Yes", "kind": "allow_once"}])
    async with asyncio.timeout(20):
        while len(listed := await needs()) < 4:
            pass
    permits, asks, fails, holds = (need for need in listed if need.get("asks") != "Second?")
    assert names([permits, asks, fails, holds]) == [
        ("approval", "permits"), ("question", "asks"), ("failed", "fails"), ("held", "main:chat:room"),
    ]  # fmt: skip
    assert (permits["asks"], permits["approve"], asks["at"], fails["error"]) == ("First?", 1, 5, "no credit left")
    status = (await house.client.get("/v1/status")).json()
    assert names(status["attention"]) == names([permits, permits, asks, fails])
    assert [need["approve"] for need in status["attention"][:2]] == [1, 2]
    assert not any("item" in one for one in status["attention"])

    for need, option in ((permits, "y"), (asks, "a")):
        item = need["item"]
        answer = {"item": item["id"], "option": option, "seen": item["rev"]}
        answered = await house.client.post(f"/v1/sessions/{need['session']}/answers", json=answer)
        assert answered.json()["outcome"] == "answered"
    assert (await house.client.post(f"/v1/parts/{holds['part']['id']}/drop")).status_code == 200
    await house.client.post("/v1/sessions/fails/messages", json={"text": "/retry"})
    assert "held" not in (whys := {why for why, _ in names(await needs())}) and "failed" not in whys


async def test_who_comes_back_gets_the_rows_that_changed_and_no_other(house: House, world: GatewayHouse) -> None:
    for key in ("a", "b", "c"):
        await (await world.script(key)).entry("user", "hi")
    (first,) = await take(house, "/v1/stream", 1)
    assert [row["key"] for row in first["data"]["sessions"]] == ["c", "b", "a"]
    assert first["id"] == str(first["data"]["rev"]) and first["data"]["rev"] < 2**53
    await (await world.script("b")).entry("agent", "news")
    for way in ({"path": f"/v1/stream?after={first['id']}"}, {"path": "/v1/stream", "Last-Event-ID": first["id"]}):
        (frame,) = await take(house, count=1, **way)
        assert frame["event"] == "change"
        assert [(row["op"], row["key"], row["unread"]) for row in frame["data"]["changes"]] == [("session", "b", 1)]
    (nothing,) = await take(house, f"/v1/stream?after={frame['id']}", 1)
    assert nothing["data"] == {"type": "change", "rev": frame["data"]["rev"], "changes": []}


@pytest.mark.parametrize("why", ["too old", "another gateway's", "of the future", "too many", "a gap"])
async def test_who_cannot_be_given_the_changes_gets_a_snapshot(
    house: House, world: GatewayHouse, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    feed = world.gateway.list_feed
    script = await world.script("a")
    after = feed.rev
    if why == "too old":
        monkeypatch.setattr(list_feed, "MAX_KEPT", 1)
        for key in "bcd":
            await (await world.script(key)).entry("user", "hi")
    elif why == "too many":
        monkeypatch.setattr(list_feed, "MAX_CHANGED", 1)
        for key in "bc":
            await (await world.script(key)).entry("user", "hi")
    elif why == "a gap":
        world.gateway.hub.lag_all()
    else:
        after += 1 if why == "of the future" else -(1 << list_feed.COUNTER_BITS)
    (frame,) = await take(house, f"/v1/stream?after={after}", 1)
    assert (frame["event"], script.key in {row["key"] for row in frame["data"]["sessions"]}) == ("snapshot", True)


async def test_a_watcher_is_sent_the_newest_state_and_not_each_step_to_it(house: House, world: GatewayHouse) -> None:
    """A text that streams changes a session thirty times a second; its row is read a few times."""
    script = await world.script("s")
    seq = await script.entry("agent", "", live=True)
    list_ = Follower(house.frames("/v1/stream"))
    await list_.until("s")
    for _ in range(100):
        await script.append(seq, "word ")
    frames = 0
    async with asyncio.timeout(20):
        while not list_.rows["s"]["last"].endswith("…"):
            list_.apply((await anext(list_.frames))["data"])
            frames += 1
    assert frames <= 10
    await script.append(seq, "beyond the preview")  # the row looks as before, and is not sent
    await (await world.script("t")).entry("user", "hi")
    change = (await anext(list_.frames))["data"]
    assert [row["key"] for row in change["changes"]] == ["t"]


async def test_a_snapshot_has_the_newest_and_each_older_one_that_needs_somebody(
    house: House, world: GatewayHouse
) -> None:
    await world.hold("hi", "main:chat:holds")
    (await world.begin("fails")).end("error")
    await world.idle("fails")
    await (await world.script("asks")).item("ask", "Which?", live=True, state="open", options=[])
    for key in ("old", "b", "c"):
        await world.script(key)
    (frame,) = await take(house, "/v1/stream?limit=2", 1)
    listed = [row["key"] for row in frame["data"]["sessions"]]
    assert (listed, frame["data"]["more"]) == (["c", "b", "asks", "fails", "main:chat:holds"], True)
    older = (await house.client.get("/v1/sessions", params={"after": frame["data"]["next"]})).json()
    assert [row["key"] for row in older["sessions"]][:2] == ["old", "asks"]
    for key in listed[2:]:
        await world.gateway.archive(key)
    (frame,) = await take(house, "/v1/stream?limit=2", 1)
    assert [row["key"] for row in frame["data"]["sessions"]] == ["c", "b"]


async def test_its_pings_and_its_end_are_those_of_every_stream(world: GatewayHouse) -> None:
    server = await serve(make_app(world.gateway, Settings(heartbeat_s=0.05)), "127.0.0.1", 0)
    async with (
        httpx2.AsyncClient(base_url=server.url, timeout=20, trust_env=False) as client,
        client.stream("GET", "/v1/stream?ping=1") as response,
    ):
        lines = response.aiter_lines()
        start = ["retry: 1000", "", "event: ping", 'data: {"every_ms":50}', ""]
        assert [await anext(lines) for _ in range(5)] == start
        await server.stop()
        async with asyncio.timeout(5):
            while await anext(lines, None) is not None:
                pass


async def test_what_was_seen_only_grows_and_a_rev_that_is_not_there_is_refused(
    house: House, world: GatewayHouse
) -> None:
    script = await world.script("s")
    await script.entries([("agent", f"{number}", {}) for number in range(300)])
    seen = "/v1/sessions/s/seen"
    assert (await list_rows(house))["s"]["unread"] == 200  # counted up to there
    for rev, unread in ((290, 10), (280, 10), (300, None)):
        assert (await house.client.post(seen, json={"rev": rev})).status_code == 204
        assert (await list_rows(house))["s"].get("unread") == unread
    refused = await house.client.post(seen, json={"rev": 301})
    assert (refused.status_code, refused.json()["field"]) == (400, "rev")
    assert refused.json()["detail"] == "rev: the session's newest rev is 300, so nobody has seen 301"
    assert (await house.client.post(seen, json={"rev": -(10**30)})).json()["field"] == "rev"
    await script.entry("user", "mine")
    await script.entry("event", "a build ended")
    assert "unread" not in (await list_rows(house))["s"]
    assert (await house.client.post("/v1/sessions/none/seen", json={"rev": 1})).status_code == 404
