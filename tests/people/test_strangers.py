"""Whoever is not known is counted and never recorded, however many come."""

from __future__ import annotations

import logging
import tracemalloc
from pathlib import Path

import pytest
from people_world import ADA, BOB, EVE, Chat, said
from structlog.testing import capture_logs

from semel.gateway.activity import ACTIVITY_LOGGER
from semel.gateway.errors import Conflict
from semel.gateway.inbound.admission import MAX_GUEST_MESSAGES_PER_HOUR, MAX_UNREADABLE_PER_HOUR
from semel.gateway.inbound.strangers import HOUR_MS, MAX_FIELD_CHARS, MAX_LINES_PER_HOUR, MAX_SENDERS, RefusalLog
from semel.gateway.ports import Incoming, Person

FLOOD = 100_000


@pytest.mark.long
async def test_a_hundred_thousand_messages_of_strangers_leave_ledger_and_memory_as_they_are(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await w.people.pair("chat")  # a code waits, and they guess, too
        await w.chat.tell(*flood(0, 2_000), cursor="0")
        before, size = await w.rows(), ledger_size(tmp_path)
        for start in range(2_000, FLOOD, 2_000):
            for what in flood(start, start + 2_000):
                assert (await w.judge(what)).refused in ("stranger", "code", "codes")
        tracemalloc.start()
        used = tracemalloc.get_traced_memory()[0]
        for what in flood(FLOOD, FLOOD + 2_000):
            await w.judge(what)
        grown = tracemalloc.get_traced_memory()[0] - used
        tracemalloc.stop()
        assert sum(w.refused().values()) == FLOOD + 2_000
        assert await w.rows() == before
        assert ledger_size(tmp_path) - size < 100_000
        assert grown < 200_000
        assert await w.gateway.sessions() == []
        assert len(w.people.refused()["strangers"]) == MAX_SENDERS
        await w.tell("hello", ADA)
        await w.idle("demo:chat:dm")
        await w.until_shown("hello")


def flood(start: int, end: int) -> list[Incoming]:
    """Everybody is new, and now and then one guesses a code."""
    return [said("W0RD-W0RD" if n % 100 == 0 else "x" * 200, Person(f"@stranger{n}", f"Stranger {n}"), key=f"f{n}")
            for n in range(start, end)]  # fmt: skip


def ledger_size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.glob("ledger.db"))


async def test_the_owner_sees_who_was_refused_and_never_what_they_wrote(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await w.tell("a secret", EVE)
        await w.tell("another", Person("@eve", "Eve Renamed"))
        await w.tell("hi", Person("@frank", "F" * 9999))
        told = w.people.refused()
        assert [(one["account"], one["name"], one["times"]) for one in told["strangers"]] == [
            ("chat:@frank", "F" * MAX_FIELD_CHARS, 1),
            ("chat:@eve", "Eve Renamed", 2),
        ]
        assert "secret" not in str(told) and "another" not in str(told)
        assert (await w.gateway.metrics())['semel_refused_total{channel="chat",reason="stranger"}'] == 3
        person = await w.people.add("chat:@eve")
        assert (person["name"], person["role"]) == ("Eve-Renamed", "member")
        assert [one["account"] for one in w.people.refused()["strangers"]] == ["chat:@frank"]
        await w.tell("hello", EVE)
        await w.idle("demo:chat:dm")
        assert (await w.texts("demo:chat:dm", "user")) == ["hello"]


async def test_a_channel_where_nobody_is_known_says_how_to_let_somebody_in(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with Chat(tmp_path, listed=()) as w:
            await w.people.add("chat:@ada", "ada")
        async with Chat(tmp_path, listed=()):
            pass
    told = [one["what"] for one in logs if one["event"] == "nobody may talk on a channel"]
    assert told == ["`semel pair chat` lets somebody in"]


async def test_the_log_names_each_refused_sender_once_an_hour_and_few_of_a_flood(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, ACTIVITY_LOGGER)
    async with Chat(tmp_path) as w:
        for key in ("e1", "e2", "e3"):
            await w.judge(said("a secret", EVE, key=key))
        records = [record for record in caplog.records if record.name == ACTIVITY_LOGGER]
        [line] = records
        assert (line.getMessage(), vars(line)["channel"], vars(line)["by"]) == ("sender refused", "chat", "@eve (Eve)")
        assert vars(line)["why"] == "from unknown senders"
        for what in flood(0, 1_000):
            await w.judge(what)
        records = [record for record in caplog.records if record.name == ACTIVITY_LOGGER]
        assert len(records) == MAX_LINES_PER_HOUR + 1
        assert records[-1].getMessage().startswith("more senders may be refused")
        assert "secret" not in caplog.text
    caplog.clear()
    refusals = RefusalLog()
    for now in (0, HOUR_MS - 1, HOUR_MS):
        refusals.note("chat", EVE, "why", now)
    assert len(caplog.records) == 2


async def test_everything_a_stranger_can_do_is_refused(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        for what in (
            said("/stop", EVE),
            said("", EVE, of="m1"),
            Incoming("edit", "k1:2", "dm", EVE, "new", of="k1"),
            Incoming("delete", "k1:gone", "dm", EVE, of="k1"),
            Incoming("reaction", "r1", "dm", EVE, "+1", of="k1"),
            Incoming("unreadable", "u1", "dm", EVE, raw=b"\xff", why="odd"),
            Incoming("message", "k2", "dm", None, "from nobody"),
            said("hi", Person("@robot", "Robot", bot=True)),
        ):
            assert (await w.judge(what)).refused == "stranger", what
        assert (await w.judge(Incoming("echo", "key", "dm", None, of="m1"))).refused is None
        assert (await w.judge(Incoming("unreadable", "u2", raw=b"\xff"))).refused is None


async def test_an_open_channel_lets_strangers_talk_as_guests_so_often_an_hour(tmp_path: Path) -> None:
    async with Chat(tmp_path, own={"strangers": "guest"}) as w:
        assert await w.people.may_speak("chat", EVE)
        for n in range(MAX_GUEST_MESSAGES_PER_HOUR):
            verdict = await w.judge(said("hi", EVE, key=f"e{n}"))
            assert (verdict.refused, verdict.role, verdict.person) == (None, "guest", "")
        assert (await w.judge(said("hi", EVE, key="e0"))).refused is None  # a repeat is not one more
        assert (await w.judge(said("hi", EVE))).refused == "limit"
        assert (await w.judge(said("hi", Person("@frank")))).refused is None
        assert (await w.judge(said("hi", EVE, "room", group=True, mentioned=True))).refused == "stranger"
        for _ in range(2 * MAX_GUEST_MESSAGES_PER_HOUR):
            assert (await w.judge(said("hi", BOB))).refused is None
        assert w.refused() == {"limit": 1, "stranger": 1}
        assert w.people.refused()["strangers"][0]["account"] == "chat:@eve"


async def test_what_nobody_can_read_and_nobody_sent_does_not_fill_the_disk(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        for n in range(MAX_UNREADABLE_PER_HOUR):
            assert (await w.judge(Incoming("unreadable", f"u{n}", raw=b"x"))).refused is None
        assert (await w.judge(Incoming("unreadable", "u0", raw=b"x"))).refused is None
        assert (await w.judge(Incoming("unreadable", "more", raw=b"x"))).refused == "unreadable"
        assert (await w.judge(said("hi", ADA))).refused is None
        assert w.refused() == {"unreadable": 1}


async def test_who_is_removed_is_a_stranger_at_once_and_after_a_restart(tmp_path: Path) -> None:
    async with Chat(tmp_path) as w:
        await w.people.add("chat:@eve", "eve")
        assert (await w.judge(said("hi", EVE))).person == "eve"
        await w.people.remove("chat:@eve")
        assert (await w.judge(said("hi", EVE))).refused == "stranger"
        await w.people.add("chat:@frank", "frank", "owner")
        with pytest.raises(Conflict, match="frank is an owner: to make chat:@gina one more account of theirs, say so"):
            await w.people.add("chat:@gina", "frank")
        assert (await w.people.add("chat:@frank", "frank"))["role"] == "owner"
    async with Chat(tmp_path) as w:
        assert (await w.judge(said("hi", EVE))).refused == "stranger"
        assert (await w.judge(said("hi", Person("@frank")))).role == "owner"
