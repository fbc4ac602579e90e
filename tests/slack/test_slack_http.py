"""The Events API over HTTP: signed requests, answered after the commit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from slack_house import ANN, ROOM, SIGNING_SECRET, SlackHouse, slack

from semel.channels.slack.events_http import read_request, sign
from semel.gateway.ports import Offline


@pytest.fixture
async def posted(tmp_path: Path) -> AsyncIterator[SlackHouse]:
    """A channel that Slack posts to."""
    async with slack(tmp_path, signing_secret=SIGNING_SECRET) as house:
        yield house


def test_the_signature_is_the_one_of_slacks_documents() -> None:
    """The example of https://docs.slack.dev/authentication/verifying-requests-from-slack."""
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
        b"%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    secret = "8f742231b10e8888abcd99yyyzzz85a5"
    assert sign(secret, "1531420618", body) == signature
    headers = {
        "X-Slack-Signature": signature, "X-Slack-Request-Timestamp": "1531420618",
        "Content-Type": "application/x-www-form-urlencoded",
    }  # fmt: skip
    request = read_request(secret, headers, body, 1531420600.0)
    assert (request.kind, request.payload["user_name"]) == ("command", "roadrunner")


async def test_the_address_is_confirmed_before_the_channel_runs(posted: SlackHouse) -> None:
    headers, body = posted.double.make_request({"type": "url_verification", "challenge": "abc", "token": "x"})
    assert await posted.channel.receive(posted.inbox, headers, body) == (200, {"challenge": "abc"})


async def test_an_event_is_answered_after_it_is_kept_and_its_repeats_are_one(posted: SlackHouse) -> None:
    await posted.online()
    posted.double.write(posted.direct, ANN, "hello")
    headers, body = posted.double.make_request(posted.double.sent[-1]["payload"])
    posted.inbox.fail = OSError("no space left on device")
    with pytest.raises(OSError, match="no space"):
        await posted.channel.receive(posted.inbox, headers, body)
    for n in range(3):
        again = {**headers, "X-Slack-Retry-Num": str(n), "X-Slack-Retry-Reason": "http_timeout"}
        assert await posted.channel.receive(posted.inbox, again, body) == (200, {})
    assert [event.text for event in posted.inbox.events] == ["hello"]


async def test_a_press_and_a_slash_command_come_as_forms(posted: SlackHouse) -> None:
    from semel.gateway.ports import Button

    await posted.online()
    await posted.channel.send(posted.op("May I?", buttons=(Button("Yes", "/approve 1"),)))
    ts = posted.double.shown(posted.direct)[-1]["ts"]
    pressed = posted.double.press(posted.direct, ts, "Yes", ANN)
    for payload, form in ((pressed, "interaction"), (posted.double.command(ROOM, ANN, "status"), "command")):
        headers, body = posted.double.make_request(payload, form=form)
        assert (await posted.channel.receive(posted.inbox, headers, body))[0] == 200
    assert [event.text for event in posted.inbox.events] == ["", "/approve 1", "/status"]


@pytest.mark.parametrize(
    ("change", "status"),
    [({"X-Slack-Signature": "v0=00"}, 401), ({"X-Slack-Signature": ""}, 401), ({"X-Slack-Signature": "v0=\u00e9"}, 401),
     ({"X-Slack-Request-Timestamp": "1"}, 401), ({"X-Slack-Request-Timestamp": "soon"}, 401)],
)  # fmt: skip
async def test_a_request_that_slack_did_not_sign_is_refused(
    posted: SlackHouse, change: dict[str, str], status: int
) -> None:
    await posted.online()
    posted.double.write(posted.direct, ANN, "hello")
    headers, body = posted.double.make_request(posted.double.sent[-1]["payload"])
    answer = await posted.channel.receive(posted.inbox, {**headers, **change}, body)
    assert answer[0] == status and posted.inbox.events == []


async def test_a_file_that_breaks_off_again_and_again_is_named_as_missing(posted: SlackHouse) -> None:
    await posted.online()
    posted.double.send_file(posted.direct, ANN, "list.txt", b"milk")
    event = posted.double.sent[-1]["payload"]
    event["event"]["files"][0]["size"] = 9  # more than comes: it broke off
    headers, body = posted.double.make_request(event)
    assert (await posted.channel.receive(posted.inbox, headers, body))[0] == 200
    assert "broke off: 4 of 9 bytes" in posted.inbox.events[0].files[0].why


async def test_a_file_whose_server_cannot_be_reached_lets_slack_come_again(posted: SlackHouse) -> None:
    await posted.online()
    posted.double.send_file(posted.direct, ANN, "list.txt", b"milk")
    event = posted.double.sent[-1]["payload"]
    event["event"]["files"][0]["url_private_download"] = "http://127.0.0.1:1/list.txt"
    headers, body = posted.double.make_request(event)
    outcomes = [(await posted.channel.receive(posted.inbox, headers, body))[0] for _ in range(3)]
    assert outcomes == [503, 503, 200]
    assert "it could not be fetched" in posted.inbox.events[0].files[0].why


async def test_what_could_not_be_kept_is_read_again_though_later_events_were_kept(posted: SlackHouse) -> None:
    """Slack gives an event up after some minutes of refusals."""
    await posted.online()
    for text in ("given up", "kept"):
        posted.double.write(posted.direct, ANN, text)
        headers, body = posted.double.make_request(posted.double.sent[-1]["payload"])
        if text == "given up":
            at = json.loads(str(posted.inbox.at))["at"]
            posted.inbox.fail = OSError("no space left on device")
            with pytest.raises(OSError, match="no space"):
                await posted.channel.receive(posted.inbox, headers, body)
        else:
            await posted.channel.receive(posted.inbox, headers, body)
    assert json.loads(str(posted.inbox.at))["at"] == at
    assert posted.task is not None
    with pytest.raises(Offline, match="could not be kept"):
        await posted.task
    posted.task = None
    await posted.online()
    assert sorted(event.text for event in posted.inbox.events) == ["given up", "kept"]


async def test_while_the_channel_does_not_run_slack_is_told_to_come_again(posted: SlackHouse) -> None:
    headers, body = posted.double.make_request({"type": "event_callback", "event": {}})
    assert (await posted.channel.receive(posted.inbox, headers, body))[0] == 503
    headers, body = posted.double.make_request({"type": "other"})
    await posted.online()
    assert (await posted.channel.receive(posted.inbox, headers, body))[0] == 200


async def test_a_channel_with_socket_mode_takes_no_requests(there: SlackHouse) -> None:
    headers, body = there.double.make_request({"type": "event_callback", "event": {}})
    status, problem = await there.channel.receive(there.inbox, headers, body)
    assert (status, json.dumps(problem).count("signing_secret")) == (403, 1)


async def test_what_was_missed_is_read_from_the_history_here_too(posted: SlackHouse) -> None:
    await posted.online()
    await posted.stop()
    posted.double.write(posted.direct, ANN, "missed")
    posted.channel = posted.fresh()
    await posted.online()
    assert [event.text for event in posted.inbox.events] == ["missed"]
    await asyncio.sleep(0)
