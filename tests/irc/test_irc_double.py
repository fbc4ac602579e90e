"""A server that keeps what was said (draft/chathistory), and the pace at which lines leave."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from irc_double import IrcDouble
from irc_house import House

from semel.channels.irc.connection import IrcConnection
from semel.channels.irc.settings import IrcSettings
from semel.gateway.ports import NotSent, Offline, Rejected, Unknown

CURSOR = '{"#room":[1795341600.0,1795341600.0,"m0"]}'  # 2026-11-22T10:00:00Z


async def test_missed_messages_are_read_to_the_last_page_before_it_is_online(tmp_path: Path) -> None:
    async with IrcDouble(page=20) as server:
        server.history["#room"] = [
            ("ann", "old", "2026-11-22T09:59:30.000Z", "before the first start"),
            *(("ann", f"m{n}", f"2026-11-22T10:00:{n:02}.000Z", f"missed {n}") for n in range(1, 48)),
            ("semel", "mine", "2026-11-22T10:00:50.000Z", "said by ourselves"),
        ]
        double: Any = server
        house = House(double, tmp_path)
        house.inbox.at = CURSOR
        async with house.running(house.channel(nick="semel", channels=["#room"])):
            assert [event.text for event in house.inbox.events] == [f"missed {n}" for n in range(1, 48)]
        assert len(server.asked) == 4  # three pages, and an empty one
        async with house.running(house.channel(nick="semel", channels=["#room"])):
            assert len(house.inbox.events) == 47 and house.inbox.repeats["m47"] == 1


async def test_the_first_start_begins_at_the_present(tmp_path: Path) -> None:
    async with IrcDouble() as server:
        server.history["#room"] = [("ann", "m1", "2026-11-22T10:00:00.000Z", "long ago")]
        double: Any = server
        house = House(double, tmp_path)
        async with house.running(house.channel(channels=["#room"])):
            assert not house.inbox.events and house.inbox.at is not None


async def test_an_answer_to_operators_waits_while_the_server_has_no_such_messages(tmp_path: Path) -> None:
    async with IrcDouble() as server:
        double: Any = server
        house = House(double, tmp_path)
        channel = house.channel(channels=["#room"])
        async with house.running(channel):
            with pytest.raises(NotSent, match="no messages to operators only"):
                await channel.send(house.op("@#room", "between us"))
            with pytest.raises(Rejected, match="not among the channels"):
                await channel.send(house.op("@#elsewhere", "between us"))


async def test_after_five_lines_one_leaves_per_pace_and_what_waits_when_the_line_breaks_was_not_sent() -> None:
    async with IrcDouble() as server:
        settings = IrcSettings("127.0.0.1", "semel", port=server.port, tls="none", pace=0.2)
        connection = IrcConnection(settings, lambda message: None)
        await connection.open()
        begun = time.monotonic()
        for _ in range(5):
            await connection.write("PING", "x")
        assert time.monotonic() - begun < 0.6  # 0.8 s if there were no burst
        for _ in range(4):
            await connection.write("PING", "x")
        assert time.monotonic() - begun > 0.6
        waiting = asyncio.create_task(connection.write("PING", "late"))
        await asyncio.sleep(0)
        connection.give_up(Offline("the cable is out"))
        with pytest.raises(Offline, match="the cable is out"):
            await waiting
        await connection.close()


async def test_who_takes_a_nick_while_a_long_answer_leaves_does_not_get_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.channels.irc.send.NICK_CHECK_INTERVAL_S", 0.0)
    async with IrcDouble() as server:
        double: Any = server
        house = House(double, tmp_path)
        channel = house.channel(pace=0.2)
        async with house.running(channel):
            sending = asyncio.create_task(channel.send(house.op("ann", "\n\n".join(f"secret {n}" for n in range(8)))))
            await server.wait_said("secret 0")
            server.accounts["ann"] = "mal"
            with pytest.raises(Unknown, match="lines were taken: nobody who is logged in as ann"):
                await sending
            assert len(server.said) < 4


async def test_a_line_that_the_server_drops_is_unknown_and_breaks_no_connection(tmp_path: Path) -> None:
    async with IrcDouble() as server:
        server.dropped.add("one")
        double: Any = server
        house = House(double, tmp_path)
        channel = house.channel()
        async with house.running(channel):
            with pytest.raises(Unknown, match="did not show the line"):
                await channel.send(house.op("ann", "one"))
            await channel.send(house.op("ann", "two"))
            assert server.said == [("ann", "two")]
