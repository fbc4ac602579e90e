"""Search follows the ledger, and answers from it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from gateway_world import World, until

from semel.gateway.api import search
from semel.gateway.errors import BadRequest
from semel.ledger.inbound import hear
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries as rows
from semel.ledger.turns import sessions as session_rows

Json = dict[str, Any]


def places(found: Json) -> list[tuple[str, int]]:
    return [(hit["session"], hit["seq"]) for hit in found["hits"]]


def heard(tx: Tx, session: str, *texts: str, role: str = "note") -> None:
    for text in texts:
        event = hear.Event("test", None, role, text, b"d", wakes=False)
        hear.hear(tx, event, [hear.Addressee(session, "demo", f"web:{session}")])


async def test_what_was_just_said_is_found_with_its_session_time_and_marked_text(world: World) -> None:
    await world.gateway.say("s", "say: the *zebra* crosses", sender="Ann")
    found = await world.gateway.searches.find("zebra")
    assert found["index"] == {"current": True, "behind": 0}
    (hit,) = [hit for hit in found["hits"] if hit["role"] == "user"]
    assert (hit["session"], hit["seq"], hit["sender"]) == ("s", 1, "Ann")
    assert hit["snippet"] == [
        {"text": "say: the "}, {"text": "zebra", "hit": True}, {"text": " crosses"},
    ]  # fmt: skip
    await world.idle()
    assert places(await world.gateway.searches.find("zebra")) == [("s", 2), ("s", 1)]
    assert places(await world.gateway.searches.find("zebra", role="agent")) == [("s", 2)]


async def test_sessions_roles_and_times_narrow_a_search(world: World) -> None:
    for key in ("main:web:a", "main:web:b", "other"):
        await world.gateway.record.write(heard, key, f"common in {key}")
    found = await world.gateway.searches.find("common")
    assert len(found["hits"]) == 3
    at = found["hits"][0]["at"]
    assert places(await world.gateway.searches.find("common", session="main:web:*")) == [
        ("main:web:b", 1),
        ("main:web:a", 1),
    ]
    assert places(await world.gateway.searches.find("common", session="other")) == [("other", 1)]
    assert places(await world.gateway.searches.find("common", role="user")) == []
    assert len((await world.gateway.searches.find("common", role="event"))["hits"]) == 3
    assert places(await world.gateway.searches.find("common", since=at + 1)) == []
    assert len((await world.gateway.searches.find("common", until=at + 1))["hits"]) == 3


@pytest.mark.parametrize("order", ["newest", "best"])
async def test_pages_hold_every_result_once(world: World, order: Any) -> None:
    await world.gateway.record.write(heard, "s", *(f"item {n} same" for n in range(25)))
    seen, after = list[tuple[str, int]](), None
    while True:
        page = await world.gateway.searches.find("same", limit=10, after=after, order=order)
        seen += places(page)
        after = page["next"]
        if after is None:
            break
    assert len(seen) == len(set(seen)) == 25
    assert order == "best" or [seq for _, seq in seen] == list(range(25, 0, -1))


async def test_the_best_comes_first_if_that_is_asked(world: World) -> None:
    await world.gateway.record.write(heard, "s", "needle needle needle", "a needle in " + "hay " * 50)
    assert places(await world.gateway.searches.find("needle", order="best")) == [("s", 1), ("s", 2)]
    assert places(await world.gateway.searches.find("needle")) == [("s", 2), ("s", 1)]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"text": "-only"}, "q: "),
        ({"text": "x" * 1001}, "q: "),
        ({"text": " ".join(f"w{n}" for n in range(40))}, "q: "),
        ({"text": "x", "role": "nobody"}, "role: "),
        ({"text": "x", "limit": 0}, "limit: "),
        ({"text": "x", "after": "soon"}, "after: "),
        ({"text": "x", "after": "1.2", "order": "best"}, "after: "),
    ],
)
async def test_what_cannot_be_asked_is_told_by_its_field(world: World, asked: Json, field: str) -> None:
    with pytest.raises(BadRequest, match=f"^{field}"):
        await world.gateway.searches.find(asked.pop("text"), **asked)


async def test_an_entry_whose_text_changed_is_found_by_what_it_says_now(world: World) -> None:
    await world.gateway.record.write(heard, "s", "the first version")
    assert places(await world.gateway.searches.find("first")) == [("s", 1)]
    session = await world.gateway.record.find_session("s")
    await world.gateway.record.write(rows.set_entry, session, 1, text="the second version")
    assert places(await world.gateway.searches.find("first")) == []
    assert places(await world.gateway.searches.find("second")) == [("s", 1)]
    await world.gateway.record.write(rows.set_entry, session, 1, superseded=True)
    assert places(await world.gateway.searches.find("second")) == []


async def test_a_preview_is_found_once_it_is_final(world: World) -> None:
    def begin(tx: Tx, session: int) -> None:
        rows.add_entry(tx, session, role="notice", text="", live=True)
        rows.grow_entry(tx, session, 2, "stream")

    await world.gateway.record.write(heard, "s", "hello")
    session = await world.gateway.record.find_session("s")
    await world.gateway.record.write(begin, session)
    assert places(await world.gateway.searches.find("stream*")) == []
    await world.gateway.record.write(rows.grow_entry, session, 2, "ing water")
    await world.gateway.record.write(rows.set_entry, session, 2, live=False)
    assert places(await world.gateway.searches.find('"streaming water"')) == [("s", 2)]


async def test_a_file_is_found_by_its_name(world: World) -> None:
    await world.gateway.record.write(heard, "s", "here it is")
    session = await world.gateway.record.find_session("s")
    files = [{"name": "quarterly-report.pdf"}]
    await world.gateway.record.write(rows.set_entry, session, 1, more={"files": files})
    assert places(await world.gateway.searches.find("quarterly")) == [("s", 1)]


async def test_what_was_deleted_is_not_found_and_its_words_leave_the_file(world: World) -> None:
    await world.gateway.record.write(heard, "s", "a secretword here")
    await world.gateway.record.write(heard, "other", "nothing of it")
    assert places(await world.gateway.searches.find("secretword")) == [("s", 1)]
    session = await world.gateway.record.find_session("s")
    await world.gateway.record.write(session_rows.delete, session)
    assert places(await world.gateway.searches.find("secretword")) == []
    path = world.gateway.searches.path

    async def gone() -> bool:
        return b"secretword" not in await asyncio.to_thread(path.read_bytes)

    await until(gone)
    await world.gateway.record.write(heard, "s", "a new conversation")
    assert places(await world.gateway.searches.find("conversation")) == [("s", 2)]


async def test_a_search_waits_only_so_long_for_the_index(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.gateway.record.write(heard, "s", "patience")
    await world.gateway.searches.find("patience")
    go_on = asyncio.Event()
    follow = world.gateway.searches._index_changes

    async def slowly(session: int) -> bool:
        await go_on.wait()
        return await follow(session)

    monkeypatch.setattr(world.gateway.searches, "_index_changes", slowly)
    monkeypatch.setattr(search, "CATCH_UP_TIMEOUT_S", 0.05)
    await world.gateway.record.write(heard, "s", "more patience")
    found = await world.gateway.searches.find("patience")
    assert places(found) == [("s", 1)]
    assert found["index"] == {"current": False, "behind": 1}
    go_on.set()
    monkeypatch.setattr(search, "CATCH_UP_TIMEOUT_S", 20.0)
    assert places(await world.gateway.searches.find("patience")) == [("s", 2), ("s", 1)]


async def test_a_thousand_sessions_are_followed_after_a_start(world: World) -> None:
    def many(tx: Tx) -> None:
        for n in range(1100):
            heard(tx, f"many:{n}", f"unique{n} shared")

    await world.gateway.record.write(many)
    await world.stop()
    world.gateway.searches.path.unlink(missing_ok=True)
    await world.start()

    async def all_found() -> bool:
        found = await world.gateway.searches.find("unique1099")
        return bool(found["index"]["current"] and found["hits"])

    await until(all_found)
    assert places(await world.gateway.searches.find("unique0")) == [("many:0", 1)]
