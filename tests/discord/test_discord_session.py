"""The gateway's session: resumed across processes, begun anew when it is gone, with nothing lost and nothing twice."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from pathlib import Path

import pytest
from discord_house import ANN, BOB, DiscordHouse, discord

from semel.channels.discord import gateway, receive
from semel.channels.discord.receipts import TOKEN_REFUSED
from semel.gateway.ports import Denied, Offline
from semel.testing.discord import TOKEN, DiscordDouble


def texts(house: DiscordHouse) -> list[str]:
    return [event.text for event in house.inbox.events if event.kind == "message"]


async def ended(house: DiscordHouse) -> BaseException | None:
    """Why `run` ended."""
    assert house.task is not None
    async with asyncio.timeout(20):
        await asyncio.wait({house.task})
    return house.task.exception()


async def test_the_first_start_begins_at_the_present(there: DiscordHouse) -> None:
    there.double.write(there.direct, ANN, "long ago")
    await there.online()
    there.double.write(there.direct, ANN, "now")
    await there.hear(1)
    assert texts(there) == ["now"]


async def test_a_new_process_resumes_the_session_and_hears_what_came_meanwhile(hearing: DiscordHouse) -> None:
    id = hearing.double.write(hearing.room, ANN, "before")
    await hearing.hear(1)
    await hearing.stop()
    hearing.double.write(hearing.room, ANN, "meanwhile")
    hearing.double.edit(hearing.room, id, "before, corrected")
    await hearing.restart()
    assert [(event.kind, event.text) for event in hearing.inbox.events] == [
        ("message", "before"), ("message", "meanwhile"), ("edit", "before, corrected"),
    ]  # fmt: skip
    assert (hearing.double.sessions.identified, hearing.double.sessions.resumed) == (1, 1)
    assert hearing.inbox.repeats == {}


async def test_a_session_that_is_gone_is_begun_anew_and_every_channel_is_read_to_its_last_page(
    hearing: DiscordHouse,
) -> None:
    quiet, thread = hearing.double.channel(hearing.guild, "quiet"), hearing.double.thread(hearing.room, "pruning")
    hearing.double.channel(hearing.guild, "secret", hidden=True)
    hearing.double.write(hearing.direct, ANN, "before")
    hearing.double.write(quiet, ANN, "also before")
    await hearing.hear(2)
    await hearing.stop()
    hearing.double.sessions.invalidate()
    for n in range(205):
        hearing.double.write(hearing.room, BOB, f"room {n}")
    hearing.double.write(hearing.direct, ANN, "direct")
    hearing.double.write(thread, ANN, "thread")
    await hearing.restart()
    assert sorted(texts(hearing)) == sorted(
        ["before", "also before", "direct", "thread", *(f"room {n}" for n in range(205))]
    )
    assert [text for text in texts(hearing) if text.startswith("room")] == [f"room {n}" for n in range(205)]
    assert hearing.double.sessions.identified == 2
    addresses = {event.text: (event.address, event.group) for event in hearing.inbox.events}
    assert addresses["direct"] == (hearing.direct, False)
    assert addresses["thread"] == (f"{hearing.room}:thread-{thread}", True)
    hearing.double.requests.clear()
    hearing.double.write(quiet, ANN, "after")
    await hearing.restart()
    assert "after" in texts(hearing) and hearing.double.asked("messages?after") == []  # resumed: no history


@pytest.mark.parametrize("is_refused", [False, True], ids=["an empty history", "a refusal, which has its own line"])
async def test_a_channel_that_shows_no_history_of_a_gap_is_logged(
    hearing: DiscordHouse, caplog: pytest.LogCaptureFixture, is_refused: bool
) -> None:
    await hearing.stop()
    hearing.double.sessions.invalidate()
    hearing.double.write(hearing.room, ANN, "meanwhile")
    hearing.double.channels[hearing.room].shows_history = False
    if is_refused:
        hearing.double.fail(f"GET /channels/{hearing.room}/messages", "403", code=50001)
    with caplog.at_level(logging.INFO, "semel"):
        await hearing.restart()
    assert (f"channel {hearing.room} shows no message" in caplog.text) is not is_refused
    assert (f"channel {hearing.room} has no readable history: " in caplog.text) is is_refused


async def test_a_gap_that_was_not_read_to_its_end_is_read_again(hearing: DiscordHouse) -> None:
    await hearing.stop()
    hearing.double.sessions.invalidate()
    other = hearing.double.channel(hearing.guild, "tulips")
    for room in (hearing.room, other):
        for n in range(120):
            hearing.double.write(room, ANN, f"{room} {n}")
    hearing.double.fail(f"GET /channels/{other}/messages", "500", after=False)
    hearing.channel = hearing.fresh()
    with pytest.raises(Offline):
        await hearing.online()
    assert "gap" in json.loads(str(hearing.inbox.at))
    await hearing.restart()
    assert sorted(texts(hearing)) == sorted(f"{room} {n}" for room in (hearing.room, other) for n in range(120))
    assert "gap" not in json.loads(str(hearing.inbox.at))


async def test_a_rate_limit_in_the_middle_of_a_history_is_waited_for(hearing: DiscordHouse) -> None:
    await hearing.stop()
    hearing.double.sessions.invalidate()
    hearing.double.write(hearing.room, ANN, "meanwhile")
    hearing.double.fail("GET /channels/*/messages", "429", retry_after=0.1, times=2)
    await hearing.restart()
    assert texts(hearing) == ["meanwhile"]


async def test_a_reconnect_that_discord_asks_for_is_no_outage(hearing: DiscordHouse) -> None:
    hearing.double.ask_for_reconnect()
    await hearing.inbox.wait_online(2)
    hearing.double.write(hearing.direct, ANN, "after")
    await hearing.hear(1)
    assert hearing.task is not None and not hearing.task.done()
    assert (hearing.double.sessions.identified, hearing.double.sessions.resumed) == (1, 1)


async def test_an_invalid_session_is_replaced_at_once(hearing: DiscordHouse) -> None:
    hearing.double.invalidate_sessions()
    await hearing.inbox.wait_online(2)
    hearing.double.write(hearing.room, ANN, "after")
    await hearing.hear(1)
    assert hearing.double.sessions.identified == 2


async def test_sessions_are_begun_no_sooner_than_discord_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "IDENTIFY_INTERVAL_S", 0.4)
    async with discord(tmp_path, DiscordDouble(identify_s=0.3)) as house:
        await house.online()
        for n in range(2):
            house.double.invalidate_sessions()
            await house.inbox.wait_online(n + 2)
        assert house.double.starts_left == 1000 - 3


@pytest.mark.long
async def test_a_connection_on_which_no_session_begins_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive, "SESSION_TIMEOUT_S", 0.1)
    async with discord(tmp_path) as house:
        house.double.answers_identify = False
        with pytest.raises(Offline, match="did not begin a session"):
            await asyncio.wait_for(house.online(), 10)
        house.double.answers_identify = True
        await house.restart()


async def test_a_connection_that_does_not_answer_heartbeats_is_given_up_and_resumed(tmp_path: Path) -> None:
    double = DiscordDouble(heartbeat_s=0.1)
    double.answers_heartbeats = False
    async with discord(tmp_path, double) as house:
        await house.online()
        error = await ended(house)
        assert isinstance(error, Offline) and "heartbeat" in str(error)
        double.answers_heartbeats = True
        double.write(house.room, ANN, "meanwhile")
        await house.restart()
        assert texts(house) == ["meanwhile"] and double.sessions.resumed == 1
        await asyncio.sleep(0.5)  # five heartbeats
        assert house.task is not None and not house.task.done()


@pytest.mark.parametrize(("code", "resumes"), [(4000, 1), (4008, 1), (1001, 0), (4007, 0), (4009, 0)])
async def test_after_a_lost_connection_nothing_is_missing(hearing: DiscordHouse, code: int, resumes: int) -> None:
    hearing.double.write(hearing.room, ANN, "before")
    await hearing.hear(1)
    hearing.double.disconnect(code)
    assert isinstance(await ended(hearing), Offline)
    hearing.double.write(hearing.room, ANN, "meanwhile")
    await hearing.restart()
    assert texts(hearing) == ["before", "meanwhile"]
    assert hearing.double.sessions.resumed == resumes


@pytest.mark.parametrize("code", sorted(receive.DENIED))
async def test_a_close_code_that_only_people_can_mend_says_how(hearing: DiscordHouse, code: int) -> None:
    hearing.double.disconnect(code)
    error = await ended(hearing)
    assert isinstance(error, Denied) and str(error) == receive.DENIED[code]


async def test_an_intent_that_is_switched_off_is_named_before_the_gateway_is_asked(tmp_path: Path) -> None:
    async with discord(tmp_path, DiscordDouble(content_switch=False)) as house:
        with pytest.raises(Denied, match="switch on Message Content Intent; or set content = false"):
            await house.online()
        assert house.double.sessions.identified == 0
        await house.restart(content=False)
        house.double.write(house.direct, ANN, "hello")
        house.double.write(house.room, ANN, "nothing to do with the bot")  # told without its content
        await house.heard_next("after")
        assert texts(house) == ["hello", "after"]


async def test_a_wrong_token_and_the_token_of_another_bot_are_told_apart(hearing: DiscordHouse) -> None:
    await hearing.stop()
    hearing.double.token = TOKEN + "x"
    hearing.channel = hearing.fresh(token=TOKEN)
    with pytest.raises(Denied, match=TOKEN_REFUSED[:40]):
        await hearing.online()
    hearing.double.me.id = "1100000000000000002"
    hearing.channel = hearing.fresh()
    with pytest.raises(Denied, match=r"\[channels.dc-2\]"):
        await hearing.online()


async def test_no_new_session_is_begun_once_few_are_left_for_the_day(there: DiscordHouse) -> None:
    """After the last, Discord would reset the bot's token."""
    there.double.starts_left = 3
    with pytest.raises(Offline, match="no more new sessions") as offline:
        await there.online()
    assert offline.value.retry_after == 14_400.0 and there.double.sessions.identified == 0


async def test_an_address_to_resume_at_that_is_gone_is_given_up(hearing: DiscordHouse) -> None:
    await hearing.stop()
    position = json.loads(str(hearing.inbox.at))
    hearing.inbox.at = json.dumps(position | {"url": "ws://127.0.0.1:9"})
    hearing.double.write(hearing.room, ANN, "meanwhile")
    hearing.channel = hearing.fresh()
    for _ in range(receive.MAX_FAILED_RESUMES):
        with pytest.raises(Offline, match="cannot be reached"):
            await hearing.online()
    await hearing.online()
    assert texts(hearing) == ["meanwhile"]


async def test_servers_in_an_outage_are_read_once_they_are_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive, "GUILDS_TIMEOUT_S", 0.1)
    async with discord(tmp_path) as house:
        await house.online()
        house.double.write(house.room, ANN, "before")
        await house.hear(1)
        await house.stop()
        house.double.sessions.invalidate()
        guild = house.double.guilds[house.guild]
        guild.unavailable = True
        house.double.write(house.room, ANN, "meanwhile")
        await house.restart()
        assert texts(house) == ["before"]
        guild.unavailable = False
        house.double.sessions.dispatch("GUILD_CREATE", lambda session: house.double.guild_json(guild))
        await house.hear(2)
        assert texts(house) == ["before", "meanwhile"]


async def test_what_was_written_around_an_outage_of_one_server_is_read_after_it(hearing: DiscordHouse) -> None:
    double, guild = hearing.double, hearing.double.guilds[hearing.guild]
    await hearing.heard_next("before")
    double.sessions.dispatch("GUILD_DELETE", lambda session: {"id": guild.id, "unavailable": True})
    double.channels[hearing.room].hidden = True  # no event of it reaches the bot
    double.write(hearing.room, ANN, "meanwhile")
    await hearing.heard_next("elsewhere all the while")
    double.channels[hearing.room].hidden = False
    double.sessions.dispatch("GUILD_CREATE", lambda session: double.guild_json(guild))
    heard = await hearing.heard_next("after")
    assert [event.text for event in heard] == ["before", "elsewhere all the while", "meanwhile"]


async def test_no_position_is_stored_before_the_events_that_it_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive, "GUILDS_TIMEOUT_S", 0.1)
    async with discord(tmp_path) as house:
        guild = house.double.guilds[house.guild]
        guild.unavailable = True
        await house.online()
        house.double.write(house.direct, ANN, "hello")
        house.double.sessions.dispatch("GUILD_DELETE", lambda session: {"id": guild.id})  # the bot was removed from it
        await house.hear(1)
        [position] = [json.loads(str(cursor))["seq"] for events, cursor in house.inbox.puts if events]
        before = itertools.takewhile(lambda put: not put[0], house.inbox.puts)
        assert all(json.loads(str(cursor)).get("seq", 0) < position for _, cursor in before)


async def test_the_position_is_no_larger_than_it_has_to_be(hearing: DiscordHouse) -> None:
    for n in range(150):
        await hearing.channel.send(hearing.op(f"message {n}"))
    await hearing.hear(150)
    assert len(str(hearing.inbox.at)) < 8_000
