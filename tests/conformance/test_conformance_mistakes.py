"""The suite catches each wrong name for an outcome, and each mistake in hearing, in a channel of somebody else's."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import SkipTest

import pytest
from careless import CarelessFindingRig, CarelessRig, CarelessSlowRig, rig_with
from rig_pigeon import PLUGIN, PigeonRig

from semel.testing.conformance import ConformanceError, Rig, attempts, catching_up, checks, lookups, process, storm

pytestmark = pytest.mark.channels

TWICE = "they would see it twice"
MISTAKES = {
    "a refused connection is unknown": "the connection was refused: send should raise NotSent",
    "a time-out is not sent": TWICE,
    "a broken connection is not sent": TWICE,
    "half an answer is not sent": TWICE,
    "5xx is not sent": TWICE,
    "500 is not sent": TWICE,
    "502 is not sent": TWICE,
    "503 is not sent": TWICE,
    "504 is not sent": TWICE,
    "5xx is no": "People see it, and would be told that it failed",
    "503 with Retry-After is no": "nobody refused it for good",
    "429 is unknown": "429 is 'not now'",
    "429 is no": "it would never leave again",
    "429 needs a Retry-After": "429 is 'not now'",
    "429 needs a body": "429 is 'not now'",
    "Retry-After is ignored": "retry_after=None",
    "redirects are followed": "Switch off the retries and redirects of your client library",
    "redirects are followed by GET": "the redirect was followed",
    "redirects are receipts": "Nobody sees it, and it would never leave again",
    "a definite no is not sent": "the platform refused it for good",
    "a definite no is unknown": "the platform refused it for good",
    "a definite no has no reason": "without a reason, which the person is shown",
    "every 200 is a receipt": "a 200 that names no message",
    "an unreadable 200 is not sent": TWICE,
    "an unreadable 200 is no": "People see it, and would be told that it failed",
}

LOOKUP = "a_lookup_without_a_clear_answer_does_not_prove_that_nothing_was_sent"
LOOKUP_MISTAKES = {
    "a lost lookup is not sent": "the lookup got no answer, and the connection breaks, and find returned None",
    "a refused lookup is not sent": 'HTTP 429 with the body b\'{"error": "the pigeons rest"}\', and find returned None',
    "an unreadable lookup is not sent": "the lookup got an answer that breaks off, and find returned None",
}
REFUSED = "a_refusal_in_the_words_of_the_platform_is_rejected"
REFUSED_CONNECTION = "a_refused_connection_is_provably_not_sent"
FOUND = "what_was_sent_is_found_and_what_was_not_is_not_across_pages"
SPEAKING = (REFUSED, "what_send_says_of_an_attempt_is_true", REFUSED_CONNECTION)
HEARING_MISTAKES = {
    "online before the backlog": "online() was called before 27 of 27 missed messages were put",
    "the backlog is lost": "27 of 27 missed messages were not put",
    "its own posts are messages": "the channel put what it had sent itself",
    "the cursor is never saved": "the cursor stayed '0': each start would read everything since then again",
    "the cursor is saved before the messages": "`await inbox.put(messages, cursor)`",
    "a failed put is ignored": "`await inbox.put(messages, cursor)`",
}
HEARING = (
    "what_the_channel_sent_is_not_put_as_a_message_of_a_person",
    "online_is_called_only_once_everything_missed_was_put",
    "what_a_failed_put_did_not_keep_is_put_again",
)

OUTAGE = "run_ends_with_offline_when_the_platform_is_lost"


async def _held(rig: Rig, home: Path, names: Sequence[str] = SPEAKING) -> str:
    """The first promise that is broken, "" for none, by the checks with these names."""
    for check in checks(type(rig)):
        if check.__name__ in names:
            try:
                await check(rig, home / check.__name__)
            except ConformanceError as broken:
                return str(broken)
    return ""


async def test_a_channel_without_a_mistake_passes(tmp_path: Path) -> None:
    assert await _held(rig_with(""), tmp_path, [*SPEAKING, *HEARING, OUTAGE]) == ""


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_each_wrong_name_for_an_outcome_is_caught(mistake: str, tmp_path: Path) -> None:
    assert MISTAKES[mistake] in await _held(rig_with(mistake), tmp_path)


@pytest.mark.parametrize("mistake", LOOKUP_MISTAKES)
async def test_a_lookup_that_takes_a_bad_answer_for_absence_is_caught(mistake: str, tmp_path: Path) -> None:
    said = await _held(rig_with(mistake, CarelessFindingRig), tmp_path, [LOOKUP])
    assert LOOKUP_MISTAKES[mistake] in said and TWICE in said


async def test_a_find_that_does_not_find_is_told_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lookups, "LATE_S", 2.0)
    said = await _held(rig_with("settle is too short", CarelessFindingRig), tmp_path, [FOUND])
    assert re.search(r"after `settle` \(0.5 s\), and finds it \d\.\d s later", said), said
    said = await _held(rig_with("another key is looked up", CarelessFindingRig), tmp_path, [FOUND])
    assert "neither after `settle` (0.5 s) nor 2 s later. Does send pass `op.key` on unchanged" in said


async def test_a_message_that_is_shown_late_is_held_against_settle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown = CarelessRig.shown
    receipts: dict[str, float] = {}

    async def shown_late(rig: CarelessRig, address: str) -> Sequence[str]:
        now = time.monotonic()
        return [text for text in await shown(rig, address) if receipts.setdefault(text, now) < now - 1.0]

    monkeypatch.setattr(CarelessRig, "shown", shown_late)
    assert await _held(rig_with(""), tmp_path, [REFUSED_CONNECTION]) == ""
    said = await _held(rig_with("", CarelessFindingRig), tmp_path, [REFUSED_CONNECTION])
    assert "after its receipt, and `settle` is 0.5 s" in said
    monkeypatch.setattr(attempts, "SHOWN_TIMEOUT_S", 0.2)
    assert "send returned a receipt for" in await _held(rig_with(""), tmp_path, [REFUSED_CONNECTION])


@pytest.mark.parametrize("mistake", HEARING_MISTAKES)
async def test_each_mistake_of_a_channel_that_hears_is_caught(mistake: str, tmp_path: Path) -> None:
    assert HEARING_MISTAKES[mistake] in await _held(rig_with(mistake), tmp_path, HEARING)


async def test_a_cursor_that_never_advances_is_named_at_once(tmp_path: Path) -> None:
    async with asyncio.timeout(process.WAIT_TIMEOUT_S / 2):
        told = await _held(rig_with("the cursor never advances"), tmp_path, HEARING)
        assert "puts the same messages again and again" in told and "`await inbox.put(messages, cursor)`" in told


async def test_a_channel_that_is_never_online_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "WAIT_TIMEOUT_S", 2.0)
    monkeypatch.setattr(process, "NEXT_ONLINE_TIMEOUT_S", 0.5)
    first, later = [await _held(rig_with("online is never called"), tmp_path, [name]) for name in (HEARING[0], OUTAGE)]
    assert "did not come online: not within 2 s: call inbox.online() in run" in first
    assert "did not come online: not within 0.5 s, after 2 s in an earlier check" in later
    assert await _held(rig_with(""), tmp_path, [OUTAGE]) == ""
    assert PigeonRig.kind not in process._kinds_never_online


OUTAGE_MISTAKES = {
    "run reconnects": "and run went on: the channel would be shown as online through an outage",
    "a lost platform is denied": "it should raise Offline",
    "run raises": "run raised KeyError('letters') while the platform was there",
}


@pytest.mark.parametrize("mistake", OUTAGE_MISTAKES)
async def test_a_run_that_does_not_end_with_offline_is_caught(
    mistake: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(catching_up, "OUTAGE_S", 1.0)
    assert OUTAGE_MISTAKES[mistake] in await _held(rig_with(mistake), tmp_path, [OUTAGE])


async def test_a_run_that_fails_is_named_at_once(tmp_path: Path) -> None:
    async with asyncio.timeout(process.WAIT_TIMEOUT_S / 2):
        assert "run raised KeyError('letters')" in await _held(rig_with("run raises"), tmp_path, HEARING)


async def test_a_refusal_inside_a_200_is_told_from_a_receipt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The rig says that the platform does so; without its words, nobody could tell the two apart."""
    rig = rig_with("")
    monkeypatch.setattr(CarelessRig, "definite", 200)
    assert "send should come to Rejected, not Unknown('no JSON')" in await _held(rig, tmp_path, [REFUSED])
    monkeypatch.setattr(PigeonRig, "refusal", Rig.refusal)
    assert "define `refusal`" in await _held(rig, tmp_path, [REFUSED])
    monkeypatch.setattr(CarelessRig, "definite", 400)
    with pytest.raises(SkipTest, match="the rig defines no `refusal`"):
        await _held(rig, tmp_path, [REFUSED])


NOT_NOW = "a_not_now_in_the_words_of_the_platform_is_not_sent"


async def test_a_not_now_inside_a_200_is_told_from_a_refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert await _held(rig_with("", CarelessSlowRig), tmp_path, [NOT_NOW]) == ""
    said = await _held(rig_with("a not now inside a 200 is no", CarelessSlowRig), tmp_path, [NOT_NOW])
    assert "send should come to NotSent, not Rejected('slow_down'). Nobody sees it" in said
    said = await _held(rig_with("its wait is ignored", CarelessSlowRig), tmp_path, [NOT_NOW])
    assert "retry_after=None, and not 7" in said
    monkeypatch.setattr(CarelessRig, "not_accepted", {200})
    assert "define `not_now`" in await _held(rig_with("", CarelessSlowRig), tmp_path, [NOT_NOW])


async def test_a_rig_that_refuses_inside_a_200_is_asked_for_its_not_now(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert NOT_NOW not in [check.__name__ for check in checks(CarelessRig)]
    monkeypatch.setattr(CarelessRig, "definite", 200)
    with pytest.raises(SkipTest, match="the rig defines no `not_now`"):
        await _held(rig_with(""), tmp_path, [NOT_NOW])


class CarelessPigeonRig(PigeonRig):
    kind = "careless-pigeon"
    paths = (PLUGIN, PLUGIN.with_name("plugin_careless"))


class ForgetfulPigeonRig(CarelessPigeonRig):
    kind = "forgetful-pigeon"


async def test_a_key_that_changes_is_named_within_seconds(tmp_path: Path) -> None:
    name = "what_the_platform_tells_three_times_is_heard_once"
    async with asyncio.timeout(process.WAIT_TIMEOUT_S / 2):
        said = await _held(ForgetfulPigeonRig(), tmp_path, [name])
    assert re.search(r"under two keys: '\w+ 1' under 'letter-1-[0-9a-f-]+' and under 'letter-1-[0-9a-f-]+'", said), said
    assert "must be the platform's own id" in said


@pytest.mark.storm
async def test_a_small_storm_catches_a_5xx_that_is_called_not_sent(tmp_path: Path) -> None:
    with pytest.raises(ConformanceError, match="Does send raise NotSent for an answer that settles nothing"):
        await storm(CarelessPigeonRig(), tmp_path, messages=72, kills=1)


async def test_a_check_that_waits_says_what_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "REPORT_INTERVAL_S", 0.01)

    async def never() -> bool:
        return False

    with pytest.raises(ConformanceError, match="the pigeon did not come: not within"):
        await process.wait_until(never, "the pigeon did not come", 0.2)
    assert "conformance: waiting, for 0 of 0.2 s; if in vain: the pigeon did not come\n" in capsys.readouterr().err
