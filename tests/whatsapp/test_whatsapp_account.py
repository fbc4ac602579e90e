"""The account: what `run` checks, and what the settings may hold."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from whatsapp_house import ANN, WhatsAppHouse, until, whatsapp

from semel.channels import ChannelError, make
from semel.channels.whatsapp.address import WhatsAppPlace, parse_address
from semel.channels.whatsapp.windows import MAX_WINDOWS, ServiceWindows
from semel.faces.channel_check import check_channel
from semel.gateway.ports import Denied, NotSent, Offline, Rejected, Unknown
from semel.gateway.settings import ChannelSettings
from semel.testing.whatsapp import APP_SECRET, NUMBER_ID, TOKEN, VERIFY_TOKEN

RIGHT = {"phone_number_id": NUMBER_ID, "token": TOKEN, "app_secret": APP_SECRET, "verify_token": VERIFY_TOKEN}
DAY_S = 24 * 3600.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"token": "EAAwrong" + "x" * 20}, "Meta does not accept this token for this number"),
        ({"phone_number_id": "99999"}, "Meta does not accept this token for this number"),
        ({"app_secret": "f" * 32}, "app_secret is not that of the app for which the token was made"),
    ],
)
async def test_a_wrong_setting_is_named(there: WhatsAppHouse, change: dict[str, str], words: str) -> None:
    there.channel = there.fresh(**change)
    check = await check_channel(there.channel)
    assert check.refused and check.problem.startswith(words)


async def test_a_token_without_the_permission_is_named_and_one_that_ends_is_logged(
    there: WhatsAppHouse, caplog: pytest.LogCaptureFixture
) -> None:
    there.double.expires_at = int(there.clock.now) + 7200
    with caplog.at_level(logging.WARNING, "semel.whatsapp"):
        await there.online()
    assert "its token ends in 2 hours" in caplog.text
    await there.stop()
    there.double.scopes.remove("whatsapp_business_messaging")
    with pytest.raises(Denied, match="lacks the permission whatsapp_business_messaging"):
        await there.channel.run(there.inbox)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"how": "500"}, "Meta: .*131000"),
        ({"how": "502"}, "HTTP 502, and not an answer of Meta"),
        ({"how": "429"}, "not now"),
        ({"how": "error", "code": 1}, "#1"),
        ({"how": "drop"}, "127.0.0.1"),
    ],
    ids=str,
)
async def test_if_meta_cannot_be_reached_the_channel_is_offline(
    there: WhatsAppHouse, fault: dict[str, Any], words: str
) -> None:
    there.double.fail("number", **fault)
    with pytest.raises(Offline, match=words):
        await there.channel.run(there.inbox)


async def test_the_account_is_watched(there: WhatsAppHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.channels.whatsapp.receive.WATCH_INTERVAL_S", 0.01)
    await there.online()
    there.double.token = "another"
    assert there.task is not None
    await until(there.task.done)
    assert isinstance(there.task.exception(), Denied)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"how": "drop"}, "127.0.0.1"),
        ({"how": "502"}, "HTTP 502"),
        ({"how": "error", "code": 190}, "does not accept this token"),
    ],
    ids=str,
)
async def test_a_message_that_cannot_leave_shows_at_once_that_meta_is_away(
    there: WhatsAppHouse, fault: dict[str, Any], words: str
) -> None:
    await there.online()
    there.double.fail("*", **fault, times=None)
    with pytest.raises((NotSent, Unknown)):
        await there.channel.send(there.op("hello"))
    assert there.task is not None
    await until(there.task.done, 5.0)
    with pytest.raises((Offline, Denied), match=words):
        there.task.result()


async def test_one_lost_answer_and_a_limit_do_not_take_the_channel_offline(there: WhatsAppHouse) -> None:
    await there.online()
    for fault in ({"how": "drop"}, {"how": "429"}, {"how": "error", "code": 131026}):
        there.double.fail("messages", **fault)
        with pytest.raises((NotSent, Unknown, Rejected)):
            await there.channel.send(there.op("hello"))
    await until(lambda: len(there.asked("number")) == 2)
    await there.channel.send(there.op("again"))
    assert there.task is not None and not there.task.done() and len(there.asked("number")) == 2


def test_the_webhook_is_confirmed_to_who_knows_the_token(tmp_path: Path) -> None:
    channel: Any = make(ChannelSettings(name="w", kind="whatsapp", options=RIGHT))
    assert channel.knows_token(VERIFY_TOKEN) and not channel.knows_token("") and not channel.knows_token("\u00e9")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"phone_number_id": "+1 555"}, "it is not the phone number"),
        ({"token": "short"}, "access token of a system user"),
        ({"app_secret": "secret"}, "32 hexadecimal digits"),
        ({"verify_token": "x"}, "16 or more characters"),
        ({"template": "My Template"}, "name of a template"),
        ({"template_language": "english!"}, "such as en or en_US"),
        ({"api": "graph.facebook.com"}, "api should begin with https://"),
        ({"settle": -1.0}, "settle should be a number of seconds"),
        ({"file_limit": 0}, "file_limit should be"),
    ],
    ids=str,
)
def test_a_wrong_setting_says_what_is_right(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ChannelError, match=words):
        make(ChannelSettings(name="w", kind="whatsapp", options=RIGHT | change))


def test_an_address_is_read_as_it_was_written() -> None:
    for address in (ANN, "US.13491208655302741918", "US.ENT.11815799212886844830", "group-Y2FwaV9ncm91cDox"):
        assert str(parse_address(address)) == address
    assert parse_address("group-abc").make_recipient() == {"recipient_type": "group", "to": "abc"}
    assert WhatsAppPlace(ANN).make_recipient() == {"recipient_type": "individual", "to": ANN}


def test_windows_are_known_closed_only_if_they_certainly_are() -> None:
    windows = ServiceWindows(since=0.0)
    assert not windows.is_closed(ANN, DAY_S - 1)  # who wrote before the first run is not known
    assert windows.is_closed(ANN, DAY_S)
    assert windows.note_message(ANN, DAY_S) and not windows.note_message(ANN, DAY_S - 9)
    assert not windows.is_closed(ANN, 2 * DAY_S - 1) and windows.is_closed(ANN, 2 * DAY_S)
    kept = ServiceWindows.load(windows.dump(DAY_S), DAY_S)
    assert not kept.is_closed(ANN, 2 * DAY_S - 1)
    for n in range(MAX_WINDOWS):
        windows.note_message(str(n), DAY_S)
    assert not windows.is_closed("somebody", 2 * DAY_S - 1)  # it may have been forgotten
    assert '"heard":{}' in windows.dump(3 * DAY_S)
    for text in (None, "", "[]", '{"since": "soon"}', '{"since": 1, "heard": {"a": "b"}}'):
        assert not ServiceWindows.load(text, DAY_S).is_closed(ANN, DAY_S)


async def test_the_cursor_of_the_first_run_is_kept(tmp_path: Path) -> None:
    async with whatsapp(tmp_path) as there:
        await there.online()
        assert str(there.inbox.at).startswith('{"since":')
