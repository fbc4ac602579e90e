"""What goes wrong between Telegram and us: nothing is confirmed before it is committed, and nothing is lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from telegram_house import ANNA, GROUP, TelegramHouse, telegram

from semel.channels.telegram.address import TelegramCursor
from semel.channels.telegram.channel import TelegramChannel
from semel.channels.telegram.settings import TelegramSettings
from semel.faces.channel_check import ChannelCheck, check_channel
from semel.gateway.ports import Denied, Kept, Missing, NotSent, Offline
from semel.testing.telegram import TelegramDouble, serve
from semel.testing.telegram.model import ApiError


async def ended(task: asyncio.Task[None]) -> BaseException:
    """Why a run ended by itself."""
    with pytest.raises(Exception) as why:
        await asyncio.wait_for(task, 20)
    return why.value


# ---------------------------------------------------------------- acknowledged after the commit


async def test_what_could_not_be_committed_is_told_again(there: TelegramHouse) -> None:
    there.inbox.fail = OSError("the disk is full")
    there.double.write(ANNA, "hello")
    assert isinstance(await ended(there.start()), OSError)
    assert there.inbox.events == []
    there.start()
    assert [each.text for each in await there.hear(1)] == ["hello"]


async def test_what_was_committed_and_not_confirmed_comes_once(there: TelegramHouse) -> None:
    """Killed between the commit and the next request: the cursor is behind it, and Telegram is told so."""
    there.double.write(ANNA, "one")
    await there.online()
    await there.hear(1)
    await there.stop()
    there.double.write(ANNA, "two")
    there.channel = there.fresh()
    there.start()
    assert [each.text for each in await there.hear(2)] == ["one", "two"]
    assert there.inbox.repeats == {}


async def test_what_is_told_three_times_is_heard_once(there: TelegramHouse) -> None:
    """Killed each time after the commit and before the next request, with a cursor that lags behind."""
    there.double.queue.allowed = ["message", "edited_message", "message_reaction"]
    id = there.double.write(ANNA, "one")
    there.double.edit(ANNA, id, "two")
    there.double.react(ANNA, id, "👍")
    put = there.inbox.put

    async def put_and_die(*told: Any) -> None:
        await put(*told)
        await asyncio.Event().wait()

    there.inbox.put = put_and_die  # type: ignore[method-assign]
    for repeats in range(3):
        there.inbox.at = "0"
        there.start()
        await there.hear(3)
        await there.inbox._until(lambda wanted=3 * repeats: sum(there.inbox.repeats.values()) == wanted, 20)
        await there.stop()
        assert len(there.double.pending()) == 3
    assert [each.kind for each in there.inbox.events] == ["message", "edit", "reaction"]


async def test_the_first_time_begins_at_the_present(tmp_path: Path) -> None:
    double = TelegramDouble()
    for text in ("old", "older"):
        double.write(ANNA, text)
    async with telegram(tmp_path, double) as house:
        house.inbox.at = None
        await house.online()
        house.double.write(ANNA, "new")
        assert [each.text for each in await house.hear(1)] == ["new"]
        events, cursor = house.inbox.puts[0]
        assert (events, TelegramCursor.load(cursor or "")) == ((), TelegramCursor(700000003, bot=double.me.id))


async def test_the_first_time_with_nothing_waiting_hears_what_comes(there: TelegramHouse) -> None:
    there.inbox.at = None
    await there.online()
    there.double.write(ANNA, "new")
    assert [each.text for each in await there.hear(1)] == ["new"]


async def test_what_waited_while_we_were_away_is_put_before_we_are_online(there: TelegramHouse) -> None:
    for n in range(250):
        there.double.write(ANNA, f"{n}")
    await there.online()
    assert [each.text for each in there.inbox.events] == [f"{n}" for n in range(250)]


async def test_ids_that_begin_anew_after_a_silent_week_are_heard(there: TelegramHouse) -> None:
    await there.online()
    there.double.write(ANNA, "before")
    await there.hear(1)
    there.double.advance(8 * 86400)
    there.double.renumber(1234)
    there.double.write(ANNA, "after")
    assert [each.text for each in await there.hear(2)] == ["before", "after"]
    there.double.write(ANNA, "then")
    await there.hear(3)
    assert TelegramCursor.load(there.inbox.at or "").offset == 1236
    assert there.inbox.repeats == {}


# ---------------------------------------------------------------- a platform in trouble


@pytest.mark.parametrize("how", ["drop", "cut", "500", "502"])
async def test_a_poll_that_fails_ends_the_run_and_loses_nothing(there: TelegramHouse, how: Any) -> None:
    await there.online()
    there.double.fail("getUpdates", how, after=True)
    there.double.write(ANNA, "hello")
    there.double.write(ANNA, "again")
    assert there._task is not None
    try:
        await asyncio.wait_for(asyncio.shield(there._task), 0.5)
    except (Offline, TimeoutError):
        pass
    await there.stop()
    there.double.clear_faults()
    there.start()
    assert [each.text for each in await there.hear(2)] == ["hello", "again"]
    assert there.inbox.repeats == {}


async def test_an_answer_that_breaks_off_is_no_odd_update(there: TelegramHouse) -> None:
    there.double.fail("getUpdates", "cut", after=True, times=4)
    there.double.write(ANNA, "hello " * 50)
    for _ in range(2):
        why = await ended(there.start())
        assert isinstance(why, Offline) and "broke off" in str(why)
    there.start()
    assert [each.kind for each in await there.hear(1)] == ["message"]


async def test_a_poll_that_hangs_is_given_up(tmp_path: Path) -> None:
    async with telegram(tmp_path, timeout=0.3, poll=0.0) as house:
        house.double.fail("getUpdates", "hang")
        why = await ended(house.start())
        assert isinstance(why, Offline) and "in time" in str(why)


async def test_too_many_requests_says_when_to_come_back(there: TelegramHouse) -> None:
    there.double.fail("getUpdates", "429", retry_after=33)
    why = await ended(there.start())
    assert isinstance(why, Offline) and why.retry_after == 33


async def test_a_refused_connection_is_offline(there: TelegramHouse) -> None:
    there.channel = there.fresh(api="http://127.0.0.1:9")
    assert isinstance(await ended(there.start()), Offline)


async def test_a_wrong_token_is_denied_with_what_to_do(there: TelegramHouse) -> None:
    there.double.retoken("8000000001:BB" + "b" * 33)
    why = await ended(there.start())
    assert isinstance(why, Denied) and "BotFather" in str(why)


async def test_a_webhook_is_denied_with_what_to_do(there: TelegramHouse) -> None:
    there.double.webhook("https://example.org/hook")
    why = await ended(there.start())
    assert isinstance(why, Denied) and "deleteWebhook" in str(why)


async def test_a_webhook_is_named_before_the_channel_is_written(there: TelegramHouse) -> None:
    assert await check_channel(there.channel) == ChannelCheck()
    there.double.webhook("https://example.org/hook")
    check = await check_channel(there.channel)
    assert check.refused and "deleteWebhook" in check.problem


async def test_a_second_gateway_is_named_and_one_look_by_hand_is_forgiven(there: TelegramHouse) -> None:
    for kind in (Offline, Denied):
        await there.online()
        task = there._task
        assert task is not None
        other = asyncio.create_task(_somebody_else(there.double))
        why = await ended(task)
        other.cancel()
        assert isinstance(why, kind) and "another program" in str(why)


async def _somebody_else(double: TelegramDouble) -> None:
    while True:
        with suppress(ApiError):
            await double.queue.poll(0, 100, 0.2)


async def test_whoever_answers_at_once_is_not_asked_at_once_again(tmp_path: Path) -> None:
    async with telegram(tmp_path, poll=0.0) as house:
        await house.online()
        await asyncio.sleep(0.3)
        assert len(house.double.asked("getUpdates")) <= 2


async def test_something_else_at_that_address_is_offline(there: TelegramHouse) -> None:
    there.double.fail("getMe", "502")
    why = await ended(there.start())
    assert isinstance(why, Offline) and "502" in str(why)


# ---------------------------------------------------------------- files in trouble


@pytest.mark.parametrize("how", ["drop", "cut", "502"])
async def test_a_file_that_breaks_off_is_fetched_again_before_its_message_is_put(
    there: TelegramHouse, how: Any
) -> None:
    there.double.fail("file", how)
    there.double.send_file(ANNA, b"x" * 5000, name="a.bin")
    running = there.start()
    [what] = await there.hear(1)
    assert isinstance(what.files[0], Kept) and what.files[0].size == 5000
    assert not running.done()


async def test_a_file_that_never_comes_does_not_hold_its_message_for_ever(there: TelegramHouse) -> None:
    there.double.fail("file", "502", times=None)
    there.double.send_file(ANNA, b"x", name="a.bin", caption="see")
    running = there.start()
    [what] = await there.hear(1)
    assert isinstance(what.files[0], Missing) and "could not be fetched" in what.files[0].why
    assert (what.text, what.files[0].name) == ("see", "a.bin") and not running.done()


async def test_a_file_that_is_shorter_than_it_should_be_is_not_kept_as_it(there: TelegramHouse) -> None:
    there.double.send_file(ANNA, b"half", name="a.bin")
    there.double.files["file-1"].size = 8
    there.start()
    [what] = await there.hear(1)
    assert isinstance(what.files[0], Missing) and "4 of 8 bytes" in what.files[0].why


async def test_a_file_that_telegram_does_not_give_is_missing(there: TelegramHouse) -> None:
    there.double.send_file(ANNA, b"x", name="a.bin")
    there.double.files.clear()
    there.start()
    [what] = await there.hear(1)
    assert isinstance(what.files[0], Missing) and "does not give it" in what.files[0].why


# ---------------------------------------------------------------- another bot


async def test_another_bot_in_the_same_section_is_refused_and_what_it_hears_stays_there(there: TelegramHouse) -> None:
    """Its messages have the numbers of those that the first one heard: they would be taken for repeats."""
    await there.online()
    there.double.write(ANNA, "hello")
    await there.hear(1)
    there.double.write(ANNA, "more")  # the offset behind both is committed
    await there.hear(2)
    await there.stop()
    other = TelegramDouble("9000000002:AAother-token_0123456789-abcdefghij", "other_bot")
    async with serve(other) as url:
        first = there.channel
        there.channel = TelegramChannel("tg", TelegramSettings(token=other.token, api=url, timeout=5))
        other.write(ANNA, "hello")
        no = await ended(there.start())
        assert isinstance(no, Denied)
        assert "another bot, @other_bot" in str(no) and "[channels.tg-2]" in str(no)
        with pytest.raises(NotSent, match="another bot"):
            await there.channel.send(there.op("an answer to somebody else's message"))
        assert [update["message"]["text"] for update in other.pending()] == ["hello"]
        assert other.asked("sendMessage") == []
    there.channel = first
    await there.online()  # the first bot's token was put back
    there.double.write(ANNA, "again")
    assert [each.text for each in await there.hear(3)] == ["hello", "more", "again"]


async def test_a_new_token_of_the_same_bot_goes_on(there: TelegramHouse) -> None:
    await there.online()
    there.double.write(ANNA, "before")
    await there.hear(1)
    await there.stop()
    there.double.retoken("8000000001:BBnew-token_0123456789-abcdefghijkl")
    there.channel = there.fresh()
    await there.online()
    there.double.write(ANNA, "after")
    assert [each.text for each in await there.hear(2)] == ["before", "after"]


# ---------------------------------------------------------------- a group that moves


async def test_a_conversation_goes_on_when_its_group_becomes_a_supergroup(there: TelegramHouse) -> None:
    there.double.group(GROUP, "House")
    await there.online()
    there.double.write(GROUP, "@test_semel_bot before", sender=ANNA)
    new = there.double.migrate(GROUP)
    id = there.double.write(new, "@test_semel_bot after", sender=ANNA)
    before, after = await there.hear(2)
    assert (before.address, after.address) == (str(GROUP), str(GROUP))
    assert after.key == f"{new}/{id}"
    await there.stop()
    there.channel = there.fresh()  # a restart remembers it, by the cursor
    await there.online()
    there.double.write(new, "@test_semel_bot later", sender=ANNA)
    assert (await there.hear(3))[2].address == str(GROUP)
    receipt = await there.channel.send(there.op("answer", to=str(GROUP)))
    assert receipt.id.startswith(f"{new}/")
    assert there.double.texts(new) == ["answer"]
