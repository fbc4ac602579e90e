"""A gateway removes old content by itself, with files and from search and export; a dry run says what would go."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from gateway_world import until
from people_world import ADA, Chat, said
from system_house import DEMO, House, opened
from system_house import until as wait_until

from semel.gateway.ports import Incoming
from semel.gateway.settings import SessionSettings
from semel.ledger.sqlite.store import Store, now_ms

DAY_S = 86_400


async def test_old_content_of_a_channel_goes_with_its_files_and_what_was_unreadable(tmp_path: Path) -> None:
    open_store, ago_ms = Store.open, [100 * DAY_S * 1000]

    def open_then(path: Path, **more: Any) -> Store:
        return open_store(path, clock=lambda: now_ms() - ago_ms[0], **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "open", staticmethod(open_then))
        async with Chat(tmp_path, own={"retain_s": 90.0 * DAY_S}) as w:
            kept = await w.chat.attach("old.txt", b"an old file")
            uploaded = await w.gateway.upload("plan.png", pieces(b"an uploaded file"))
            await w.chat.tell(said("an old question", files=(kept,)))
            await w.gateway.say("demo:chat:dm", "and from the page", attached=[{"id": uploaded.id}])
            await w.chat.tell(Incoming("unreadable", "u1", sender=ADA, raw=b"old noise", why="not known"))
            await w.idle("demo:chat:dm")
            await w.sent()
            await w.ask("an old question on the page", session="page")
        ago_ms[0] = 0
        async with Chat(tmp_path, own={"retain_s": 90.0 * DAY_S}) as w:
            for blob in (tmp_path / "blobs" / kept.id, tmp_path / "blobs" / uploaded.id):
                await until(partial(is_gone, blob))
            assert await w.texts("demo:chat:dm") == []
            await until(lambda: is_unreadable_gone(w))
            assert "an old question on the page" in await w.texts("page")  # no policy: kept
            await w.chat.tell(said("a new question"))
            await w.idle("demo:chat:dm")
            assert (await w.texts("demo:chat:dm"))[0] == "a new question"


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def is_gone(path: Path) -> bool:
    return not path.exists()


async def is_unreadable_gone(world: Any) -> bool:
    return [event["raw"] for event in await world.gateway.quarantined()] == [""]


async def test_a_sessions_own_policy_comes_before_its_channels(tmp_path: Path) -> None:
    own = {"demo:chat:a*": SessionSettings(retain_s=3600.0), "demo:chat:b*": SessionSettings()}
    async with Chat(tmp_path, own={"retain_s": 90.0 * DAY_S}, sessions=own) as w:
        for room in ("a1", "b1"):
            await w.chat.tell(said("hello", room=room))
            await w.idle(f"demo:chat:{room}")
        sessions = [session async for session in w.gateway.retention._list_sessions()]
        assert {session.key: ms for session, ms in sessions} == {
            "demo:chat:a1": 3_600_000, "demo:chat:b1": 90 * DAY_S * 1000,
        }  # fmt: skip


def test_a_dry_run_says_what_the_next_run_removes_and_nothing_can_find_it_then(tmp_path: Path) -> None:
    house = House(tmp_path, f'{DEMO}\n[sessions."main:web:short-*"]\nretain = 0.01\n')
    with opened(house):
        for session in ("main:web:short-1", "main:web:long-1"):
            house.say(session, "say: a walrus was here")
            house.idle(session)
        (line,) = house.get("/v1/retention")["sessions"]
        assert line["session"] == "main:web:short-1" and line["entries"] == line["upto"] == 2
        assert json.loads(house.cli("retention", "--json").stdout) == [line]
        assert house.cli("retention").stdout.split("\t")[:2] == ["main:web:short-1", "0.01 s"]
        assert len(house.entries("main:web:short-1")) == 2  # a dry run removes nothing
    with house.toml.open("a") as file:  # a secret that this shell lacks, as it has a service's
        file.write('[channels.chat]\nkind = "telegram"\ntoken = "env:NO_SUCH_TOKEN"\nretain = "1d"\n')
    offline = house.cli("retention", "--json")
    house.toml.write_text(house.config)
    assert json.loads(offline.stdout) == [line] and "no gateway is running; read from " in offline.stderr
    before = now_ms()
    with opened(house):
        wait_until(lambda: not house.entries("main:web:short-1"), "the run at the start")
        shown = house.cli("show", "main:web:short-1")
        assert shown.stdout == "" and "the content of entries 1 to 2 was removed at " in shown.stderr
        hits = json.loads(house.cli("search", "walrus", "--json").stdout)["hits"]
        assert {hit["session"] for hit in hits} == {"main:web:long-1"}
        assert "walrus" not in house.cli("export", "main:web:short-1", "--format", "jsonl").stdout
        assert "walrus" in house.cli("export", "main:web:long-1", "--format", "jsonl").stdout
        assert house.get("/v1/retention")["sessions"] == []
        lines = house.get("/v1/why/e1")["lines"]
        (removal,) = [line for line in lines if "its content was removed by retention" in line["text"]]
        assert before <= removal["at"] <= now_ms()
        assert "17 characters, removed since" in "".join(line["text"] for line in lines)
        house.cli("session", "delete", "main:web:long-1", "--yes")
        wait_until(lambda: "deleted with its session" in str(house.get("/v1/why/e2")), "the erasure")
    offline = house.cli("show", "main:web:short-1").stderr
    assert "no gateway is running" in offline and "the content of entries 1 to 2 was removed at " in offline
