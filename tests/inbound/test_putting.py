"""A batch and its cursor are one transaction; a repeat is folded for ever; nothing that comes makes `put` fail."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inbound_world import ANN, BOB, EVE, KEY, Chat, message, until

from semel.gateway.ports import Incoming, Kept, Missing, Person
from semel.ledger.storage.errors import LedgerFull
from semel.ledger.storage.sql import Tx


async def counts(chat: Chat) -> dict[str, int]:
    [one] = chat.gateway.channel_manager.list()
    return dict(one["counts"])


async def test_a_message_is_an_entry_with_who_and_where_and_it_is_answered(chat: Chat) -> None:
    entries = await chat.told(
        message("m1", "hello", at=1_750_000_000.5, title="Garden", data={"thread": 7}), cursor="1"
    )
    assert [entry["role"] for entry in entries] == ["user", "agent"]
    told = entries[0]
    assert (told["text"], told["sender"]) == ("hello", "ann")
    assert told["data"] == {
        "address": "room", "from": {"id": "ann@x", "name": "Ann", "role": "owner", "person": "ann"},
        "title": "Garden", "at": 1_750_000_000_500, "platform": {"thread": 7},
    }  # fmt: skip
    assert (await chat.gateway.session(KEY))["title"] == "Garden"
    assert await chat.gateway.channel_manager.inboxes["chat"].cursor() == "1"


async def test_a_chat_without_a_name_is_called_by_its_person_and_channel(chat: Chat) -> None:
    await chat.told(message("m1", "hello"))
    await chat.told(message("m2", "# Hello **all**", address="b", group=True, mentioned=True), session="demo:chat:b")
    titles = {row["key"]: row["title"] for row in await chat.gateway.sessions()}
    assert titles == {KEY: "ann · chat", "demo:chat:b": "Hello all"}


async def test_what_is_told_three_times_is_heard_once(chat: Chat) -> None:
    events = [
        message("m1", "one"),
        message("m2", "two", BOB),
        Incoming("edit", "m1/2", "room", ANN, "One", of="m1"),
        Incoming("reaction", "r1", "room", BOB, "👍", of="m1"),
        Incoming("delete", "m2/gone", "room", BOB, of="m2"),
        Incoming("unreadable", "m3", raw=b"\xff", why="it is no XML"),
    ]
    await chat.tell(*events, cursor="9", copies=3)
    await chat.idle(KEY)
    assert [entry.get("kind", "message") for entry in await chat.heard()] == [
        "message", "message", "edit", "reaction", "delete",
    ]  # fmt: skip
    assert await counts(chat) == {"accepted": 5, "duplicate": 12, "conflict": 0, "quarantined": 1}
    inbox = chat.gateway.channel_manager.inboxes["chat"]
    assert [await inbox.has_heard(key) for key in ("m1", "m1/2", "m3", "m4")] == [True, True, True, False]
    [odd] = await chat.gateway.quarantined()
    assert (odd["key"], odd["why"], odd["repeats"], odd["encoding"]) == ("m3", "it is no XML", 2, "base64")


async def test_the_same_key_with_other_content_is_a_conflict_and_the_first_stays(chat: Chat) -> None:
    await chat.told(message("m1", "first"))
    entries = await chat.told(message("m1", "second"), cursor="2")
    assert [entry["text"] for entry in entries if entry["role"] == "user"] == ["first"]
    assert (await counts(chat))["conflict"] == 1
    story = await chat.gateway.why("m1")
    assert any("other content" in line["text"] for line in story["lines"])


async def test_another_name_of_the_same_account_is_no_conflict(chat: Chat) -> None:
    await chat.told(message("m1", "hi"))
    await chat.tell(message("m1", "hi", Person("ann@x", "Ann (away)")))
    assert await counts(chat) == {"accepted": 1, "duplicate": 1, "conflict": 0, "quarantined": 0}


async def test_a_stranger_leaves_no_row_and_the_cursor_moves_on(chat: Chat) -> None:
    await chat.tell(message("m1", "let me in", EVE), cursor="5")
    assert await chat.gateway.sessions() == []
    assert await chat.gateway.channel_manager.inboxes["chat"].cursor() == "5"
    [one] = chat.gateway.channel_manager.list()
    assert one["refused"] == {"stranger": 1}
    report = await chat.gateway.doctor()
    assert report["ledger"]["events"] == 0
    numbers = await chat.gateway.metrics()
    assert numbers['semel_channel_online{channel="chat"}'] == 1.0
    assert numbers['semel_channel_events_total{channel="chat",outcome="accepted"}'] == 0.0


ODD: dict[str, Incoming] = {
    "no key": Incoming("message", "", "room", ANN, "x"),
    "a control character in its key": Incoming("message", "a\nb", "room", ANN, "x"),
    "half a surrogate pair in its key": Incoming("message", "a\ud800", "room", ANN, "x"),
    "a key that is too long": Incoming("message", "k" * 600, "room", ANN, "x"),
    "no address": Incoming("message", "k", "", ANN, "x"),
    "an address that is too long": Incoming("message", "k", "r" * 121, ANN, "x"),
    "an address that makes no session": Incoming("message", "k", "ü" * 60, ANN, "x"),
    "neither text nor file": Incoming("message", "k", "room", ANN, "  "),
    "a text that is too long": Incoming("message", "k", "room", ANN, "x" * 1_000_001),
    "an edit of nothing": Incoming("edit", "k", "room", ANN, "x"),
    "an empty reaction": Incoming("reaction", "k", "room", ANN, "", of="m"),
    "a sign of nothing": Incoming("echo", "k"),
    "data that is no JSON": Incoming("message", "k", "room", ANN, "x", data={"a": object()}),
    "a kind that does not exist": Incoming("poke", "k", "room", ANN, "x"),  # type: ignore[arg-type]
    "a text that is none": Incoming("message", "k", "room", ANN, 7),  # type: ignore[arg-type]
    "a sender that is none": Incoming("message", "k", "room", "ann@x", "x"),  # type: ignore[arg-type]
    "a file that is none": Incoming("message", "k", "room", ANN, "x", files=("f",)),  # type: ignore[arg-type]
    "an unreadable one without a key": Incoming("unreadable", "", raw=b"<a", why="it breaks off"),
}


async def test_what_cannot_be_used_is_kept_as_it_came_and_the_rest_is_heard(chat: Chat) -> None:
    for n, (what, odd) in enumerate(ODD.items(), 1):
        odd = replace(odd, key="k" + str(n)) if odd.key == "k" else odd
        before, behind = message(f"a{n}", "before", group=True), message(f"b{n}", "behind", group=True)
        await chat.tell(before, odd, behind, cursor=str(n), copies=2)
        assert (await counts(chat))["quarantined"] == n, what
        newest = (await chat.gateway.quarantined(1))[0]
        assert newest["why"], what
        assert newest["raw"], what
        assert newest["repeats"] == 1, what
        story = await chat.gateway.why(f"e{newest['event']}")
        assert any("quarantined" in line["text"] for line in story["lines"])
    assert [entry["text"] for entry in await chat.heard()] == ["before", "behind"] * len(ODD)
    assert await chat.gateway.channel_manager.inboxes["chat"].cursor() == str(len(ODD))
    assert len(await chat.gateway.quarantined(500)) == len(ODD)


async def test_halves_of_surrogate_pairs_anywhere_are_mended_not_refused(chat: Chat) -> None:
    half = "a\ud83d"
    event = message("m1", half, Person("ann@x", half), title=half, data={half: half}, files=(Missing(half, half),))
    entries = await chat.told(event, Incoming("reaction", "r", "room", ANN, half, of=half))
    assert [entry["text"] for entry in entries if entry["role"] == "user"] == ["a\ufffd", "a\ufffd"]


async def test_odd_times_are_no_reason_to_lose_a_message(chat: Chat) -> None:
    for n, at in enumerate((float("nan"), float("inf"), -1.0)):
        await chat.tell(message(f"m{n}", "x", at=at))
    assert len(await chat.heard()) == 3


async def test_nothing_of_a_batch_is_kept_when_the_disk_is_full_and_all_of_it_the_next_time(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failed = chat.gateway.record.write, asyncio.Event()

    async def full(body: Any, /, *args: Any, **kwargs: Any) -> Any:
        if body.__name__ == "record_batch" and not failed.is_set():
            failed.set()

            def last(tx: Tx) -> None:
                body(tx, *args, **kwargs)
                raise LedgerFull(path="x", why="no space")

            return await real(last)
        return await real(body, *args, **kwargs)

    monkeypatch.setattr(chat.gateway.record, "write", full)
    lost = chat.chat.tell(message("m1", "one"), message("m2", "two"), cursor="2")
    await failed.wait()
    assert not lost.done()
    assert await chat.gateway.sessions() == []
    assert await chat.gateway.channel_manager.inboxes["chat"].cursor() is None
    await chat.told(message("m1", "one"), message("m2", "two"), cursor="2")
    assert [entry["text"] for entry in await chat.heard()] == ["one", "two"]
    [one] = chat.gateway.channel_manager.list()
    assert "no space" in one["error"]
    lost.cancel()


async def test_a_thousand_in_one_batch_are_one_commit_and_keep_their_order(tmp_path: Path) -> None:
    async with Chat(tmp_path, chat={"groups": "mention"}) as chat:
        before = chat.gateway.store.writer.commits if hasattr(chat.gateway.store, "writer") else None
        events = [message(f"m{n}", f"line {n}", BOB, group=True) for n in range(1000)]
        await chat.tell(*events, cursor="1000")
        found, _ = await chat.gateway.entries(KEY, limit=2000)
        assert [entry["text"] for entry in found] == [f"line {n}" for n in range(1000)]
        assert before is None or chat.gateway.store.writer.commits == before + 1
        assert await chat.gateway.channel_manager.inboxes["chat"].cursor() == "1000"


async def test_the_agent_of_a_channel_thinks_for_its_sessions(tmp_path: Path) -> None:
    async with Chat(tmp_path, chat={"agent": "demo"}) as chat:
        await chat.told(message("m1", "hi", address="!room:server"), session="demo:chat:!room:server")
        assert (await chat.gateway.session("demo:chat:!room:server"))["home"] == "chat:!room:server"


async def test_commands_of_people_are_done_and_those_of_bots_are_not(chat: Chat) -> None:
    await chat.tell(message("m1", "/status"))

    async def answered() -> bool:
        return [entry.get("kind") for entry in await chat.entries(KEY)] == ["command", "command"]

    await until(answered)
    await chat.tell(message("m2", "/status", Person("robot@x", "Robot", bot=True)))
    last = (await chat.heard())[-1]
    assert last["automatic"]
    assert "kind" not in last


async def test_what_does_not_wake_waits_for_the_next_turn(chat: Chat) -> None:
    robot = Person("robot@x", "Robot", bot=True)
    await chat.tell(
        message("m1", "not for you", group=True), message("m2", "beep", robot),
        Incoming("reaction", "r1", "room", ANN, "👍", of="m1"), Incoming("edit", "m1/2", "room", ANN, "no", of="m1"),
        Incoming("delete", "m1/x", "room", ANN, of="m1"), message("m3", "/stop", group=True),
    )  # fmt: skip
    session = await chat.gateway.session(KEY)
    assert (session["state"], session["waiting"]) == ("idle", 6)
    entries = await chat.told(message("m4", "now you", group=True, mentioned=True))
    assert [entry["role"] for entry in entries].count("agent") == 1
    assert (await chat.gateway.session(KEY))["waiting"] == 0


async def test_a_file_that_the_store_does_not_have_is_named_as_missing(chat: Chat) -> None:
    gone = Kept("0" * 64, 5, "a.txt", "text/plain")
    entries = await chat.told(message("m1", "see", files=(gone, Missing("b.mp4", "larger than 50 MB", "video/mp4"))))
    assert entries[0]["files"] == [
        {"name": "a.txt", "mime": "text/plain", "missing": "it was not there any more"},
        {"name": "b.mp4", "mime": "video/mp4", "missing": "larger than 50 MB"},
    ]


def deep() -> dict[str, Any]:
    whole: dict[str, Any] = {}
    inner = whole
    for _ in range(5000):
        inner["a"] = inner = {}
    return whole


@pytest.mark.parametrize(
    "odd",
    [
        None,
        {"kind": "message"},
        message("odd", "deep", data=deep()),
        message("odd", "file", files=(Kept("0" * 64, 3, None, "text/plain"),)),  # type: ignore[arg-type]
        message("odd", "file", files=(Kept(None, 3, "a", "text/plain"),)),  # type: ignore[arg-type]
        message("odd", "file", files=(Missing("a", None),)),  # type: ignore[arg-type]
    ],
    ids=["none", "dict", "deep", "name", "id", "why"],
)
async def test_what_is_no_incoming_at_all_is_quarantined_and_its_neighbours_are_heard(chat: Chat, odd: Any) -> None:
    await chat.tell(message("m1", "before"), odd, message("m2", "behind"), cursor="1")
    told = await counts(chat)
    assert (told["accepted"], told["quarantined"]) == (2, 1)
    assert await chat.gateway.channel_manager.inboxes["chat"].cursor() == "1"
