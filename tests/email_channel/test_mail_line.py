"""The connection to the mailbox: pushed, bounded, ended promptly, and honest about what is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from imap_script import DROP, HANG, imap
from letters import mail, settings
from smtp_script import smtp

from semel.channels.email import make, receive, transport
from semel.faces.channel_check import check_channel
from semel.gateway.ports import Channel, Denied, Offline, Op, Unknown
from semel.testing.inbox import KeptInbox


def channel(port: int, **more: Any) -> Channel:
    usual: dict[str, Any] = {"imap_tls": "none", "allow_plaintext": True, "imap_port": port, "timeout": 5.0}
    return make("mail", settings(**(usual | more)))


@pytest.fixture(autouse=True)
def short_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "CLOSE_STEP_TIMEOUT_S", 0.2)


@contextlib.asynccontextmanager
async def running(one: Channel, inbox: KeptInbox) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(one.run(inbox))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def no_threads() -> None:
    """Those of our connections have ended, or are about to."""
    async with asyncio.timeout(10):
        while any(each.name.startswith("semel-imap") for each in threading.enumerate()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_the_first_run_begins_at_the_present(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path)
    async with imap(mails=[bytes(mail("old"))]) as server, running(channel(server.port), inbox):
        await inbox.wait_online()
        assert json.loads(inbox.at or "")["uid"] == 1
        server.add(bytes(mail("new", message_id="<2@people.org>")))
        [letter] = await inbox.wait(1)
    assert letter.key == "<2@people.org>"
    assert json.loads(inbox.at or "")["uid"] == 2
    assert "STORE" not in " ".join(server.commands)


async def test_a_clock_of_the_server_that_is_slow_loses_no_mail(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path)
    async with (
        imap(mails=[bytes(mail("old"))], clock="01-Jan-2020 10:00:00 +0000") as server,
        running(channel(server.port), inbox),
    ):
        await inbox.wait_online()
        server.add(bytes(mail("new", message_id="<2@people.org>")))
        await inbox.wait(1)
        cursor = json.loads(inbox.at or "")
    assert [each.key for each in inbox.events] == ["<2@people.org>"]
    inbox.at = json.dumps({**cursor, "uidvalidity": 6})
    async with imap(mails=server.mails, clock=server.clock) as again, running(channel(again.port), inbox):
        await inbox.wait_online(2)
        again.add(bytes(mail("newer", message_id="<3@people.org>")))
        await inbox.wait(2)
    assert [each.key for each in inbox.events] == ["<2@people.org>", "<3@people.org>"]


async def test_news_that_come_in_one_piece_with_the_leave_to_wait_are_not_missed(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path)
    async with imap(late=bytes(mail())) as server, running(channel(server.port, poll=1000.0), inbox):
        await inbox.wait(1)


async def test_news_that_come_before_the_leave_to_wait_are_not_missed(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path)
    async with imap(early=bytes(mail())) as server, running(channel(server.port, poll=1000.0), inbox):
        await inbox.wait(1)


async def test_news_that_come_while_another_mail_is_fetched_are_not_missed(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path)
    async with (
        imap(meanwhile=bytes(mail("two", message_id="<2@people.org>"))) as server,
        running(channel(server.port, poll=1000.0), inbox),
    ):
        await inbox.wait_online()
        server.add(bytes(mail("one")))
        await inbox.wait(2)


async def test_a_server_that_tells_of_nothing_all_the_time_is_not_asked_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive, "EMPTY_NEWS_PAUSE_S", 0.2)
    inbox = KeptInbox(tmp_path)
    nothing = "+ go on\r\n* OK still here\r\n{tag} OK done"
    async with imap(steps={"IDLE": nothing, "": "* OK what"}) as server, running(channel(server.port), inbox):
        await inbox.wait_online()
        begin = time.monotonic()
        await asyncio.sleep(1)
        looks = server.commands.count("IDLE")
        assert 2 <= looks <= 1 + (time.monotonic() - begin) / 0.2
        server.add(bytes(mail("new")))
        await inbox.wait(1)


async def test_a_server_without_idle_is_asked_again_and_again(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path)
    async with imap(idle=False) as server, running(channel(server.port, poll=1.0), inbox):
        await inbox.wait_online()
        server.mails.append(bytes(mail()))
        await inbox.wait(1)
    assert "IDLE" not in server.commands


async def test_a_run_that_is_cancelled_says_goodbye_and_ends_its_thread_at_once(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path)
    async with imap() as server, running(channel(server.port, poll=1000.0), inbox) as task:
        await server.waiting.wait()
        begin = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - begin < 5
        assert server.commands[-1] == "LOGOUT"
        await server.ended.wait()
    await no_threads()


@pytest.mark.parametrize(
    "step", ["connect", "CAPABILITY", "LOGIN", "EXAMINE", "UID SEARCH", "UID FETCH", "IDLE", "LOGOUT"]
)
async def test_a_server_that_hangs_holds_nobody_who_leaves(tmp_path: Path, step: str) -> None:
    inbox = KeptInbox(tmp_path, json.dumps({"uidvalidity": 7, "uid": 0, "since": 0}))
    async with (
        imap(mails=[bytes(mail())], steps={step: HANG}) as server,
        running(channel(server.port, timeout=300.0, poll=1000.0), inbox) as task,
    ):
        await server.waiting.wait()
        begin = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - begin < 20  # of 300: it was cut, not waited for
    await no_threads()


@pytest.mark.parametrize("step", ["connect", "LOGIN", "EXAMINE", "UID SEARCH", "UID FETCH", "IDLE"])
@pytest.mark.parametrize("fault", [HANG, DROP])
async def test_a_server_that_is_lost_is_offline_within_the_time_out(tmp_path: Path, step: str, fault: str) -> None:
    inbox = KeptInbox(tmp_path, json.dumps({"uidvalidity": 7, "uid": 0, "since": 0}))
    async with imap(mails=[bytes(mail())], steps={step: fault}) as server:
        with pytest.raises(Offline):
            await asyncio.wait_for(channel(server.port, timeout=2.0 if step == "IDLE" else 0.3).run(inbox), 30)
    assert json.loads(inbox.at or "")["uid"] == (1 if step == "IDLE" else 0)
    await no_threads()


@pytest.mark.parametrize(
    ("step", "answer", "what", "told"),
    [
        ("LOGIN", "{tag} NO [AUTHENTICATIONFAILED] wrong: a secret", Denied, "app password"),
        ("LOGIN", "{tag} NO [UNAVAILABLE] the database sleeps", Offline, "sleeps"),
        ("LOGIN", "{tag} BAD what is a secret", Denied, "refuses the login"),
        ("EXAMINE", "{tag} NO no such mailbox", Denied, "Set mailbox"),
        ("EXAMINE", "{tag} NO [SERVERBUG] see the log", Offline, "see the log"),
        ("UID SEARCH", "{tag} NO later", Offline, "later"),
        ("UID SEARCH", "nonsense", Offline, "localhost"),
        ("UID SEARCH", "* SEARCH one two\r\n{tag} OK done", Offline, "not understood"),
        ("CAPABILITY", "{tag} OK nothing", Offline, "localhost"),
        ("IDLE", "{tag} BAD not today", Offline, "IDLE"),
        ("connect", "* BYE busy", Offline, "busy"),
    ],
)
async def test_what_is_wrong_is_told_without_the_password(
    tmp_path: Path, step: str, answer: str, what: type[Exception], told: str
) -> None:
    async with imap(steps={step: answer}) as server:
        with pytest.raises(what, match=told) as error:
            await asyncio.wait_for(channel(server.port).run(KeptInbox(tmp_path)), 30)
    assert "a secret" not in str(error.value)
    await no_threads()


@pytest.mark.parametrize(
    ("steps", "is_refused", "told"),
    [
        ({}, False, ""),
        ({"AUTH": "535 5.7.8 wrong: a secret"}, True, "refuses the login"),
        ({"AUTH": "454 4.7.0 later"}, False, "later"),
        ({"connect": "554 nobody"}, False, "nobody"),
    ],
)
async def test_a_new_account_is_tried_where_mail_is_sent_too(
    steps: dict[str, str], is_refused: bool, told: str
) -> None:
    async with imap() as mailbox, smtp(**steps) as server:
        options = {"smtp_tls": "none", "smtp_port": server.port, "timeout": 5.0}
        check = await check_channel(channel(mailbox.port, **options))
    assert check.refused is is_refused and told in check.problem and bool(told) == bool(check.problem)
    assert ("password" in check.settings) is is_refused
    assert "a secret" not in check.problem and server.mails == []


async def test_nobody_listens_is_offline(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(Offline, match="localhost"):
            await channel(taken.getsockname()[1]).run(KeptInbox(tmp_path))
    with pytest.raises(Offline, match="looked up"):
        await channel(1, imap="nobody.invalid").run(KeptInbox(tmp_path))


async def test_a_mail_that_the_server_never_gives_out_is_left_behind_after_three_runs(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, json.dumps({"uidvalidity": 7, "uid": 0, "since": 0}))
    async with imap(mails=[b"broken", bytes(mail())]) as server:
        one, server.broken = channel(server.port), 1
        for _ in range(2):
            with pytest.raises(Offline, match="UID 1: broken"):
                await one.run(inbox)
        async with running(one, inbox):
            left, heard = await inbox.wait(2)
    assert (left.kind, left.key, heard.kind) == ("unreadable", "uid:7:1", "message")
    assert "the server refuses it" in left.why


@pytest.mark.parametrize("how", ["literal", "lines", "slow"])
async def test_a_mail_whose_answer_has_no_end_is_left_behind_after_three_runs(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MAX_OVERHEAD_BYTES", 200_000)
    monkeypatch.setattr(transport, "MIN_DOWNLOAD_BYTES_PER_S", 1e9)
    inbox = KeptInbox(tmp_path, json.dumps({"uidvalidity": 7, "uid": 0, "since": 0}))
    async with imap(mails=[b"x" * 100, bytes(mail())], endless=how) as server:
        one = channel(server.port, timeout=0.2 if how == "slow" else 5.0)
        for _ in range(3):
            with pytest.raises(Offline, match="more than 1 s for an answer" if how == "slow" else "larger than any"):
                await asyncio.wait_for(one.run(inbox), 60)
        async with running(one, inbox):
            left, heard = await inbox.wait(2)
    assert (left.kind, left.key, heard.kind) == ("unreadable", "uid:7:1", "message")
    assert "exceed the limits" in left.why
    await no_threads()


async def test_a_mail_that_was_moved_away_meanwhile_is_passed_over(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, json.dumps({"uidvalidity": 7, "uid": 0, "since": 0}))
    async with imap(mails=[b"", bytes(mail())]) as server, running(channel(server.port), inbox):
        [heard] = await inbox.wait(1)
    assert heard.key == "<1@people.org>"


def report(action: bytes, recipient: bytes = b"ada@people.org") -> bytes:
    return (
        b"From: MAILER-DAEMON@mx.example.org\r\nMessage-ID: <" + action + b"@mx>\r\n"
        b"In-Reply-To: <semel.0f9a@example.org>\r\n"
        b"Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n"
        b"--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx\r\n\r\n"
        b"Final-Recipient: rfc822; " + recipient + b"\r\nAction: " + action + b"\r\nStatus: 5.1.1\r\n\r\n--b--\r\n"
    )


async def test_a_bounce_is_a_failure_of_the_mail_and_stands_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = KeptInbox(tmp_path, json.dumps({"uidvalidity": 7, "uid": 0, "since": 0}))
    async with imap(mails=[report(b"failed")] * 3) as server, running(channel(server.port), inbox):
        await inbox.wait_online()
    echo, failed = inbox.events
    assert (echo.kind, echo.key, echo.of) == ("echo", "0f9a", "<semel.0f9a@example.org>"), "the server had taken it"
    assert (failed.kind, failed.key, failed.of) == ("failed", "<failed@mx>", "0f9a")
    assert (failed.text, failed.sender) == ("ada@people.org: 5.1.1", None)
    assert inbox.repeats["<failed@mx>"] == 2
    assert "could not be delivered to ada@people.org: 5.1.1" in caplog.text


async def test_a_mail_that_is_late_has_not_failed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inbox = KeptInbox(tmp_path, json.dumps({"uidvalidity": 7, "uid": 0, "since": 0}))
    async with imap(mails=[report(b"delayed")]) as server, running(channel(server.port), inbox):
        await inbox.wait_online()
    assert inbox.events == [], "anybody may have mailed it"
    assert json.loads(inbox.at or "")["uid"] == 1
    assert "was not delivered to ada@people.org yet" in caplog.text


async def test_a_copy_of_ours_that_bounces_is_no_failure_of_the_mail(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, json.dumps({"uidvalidity": 7, "uid": 0, "since": 0}))
    one = report(b"failed", b"Semel@example.org")
    async with imap(mails=[one]) as server, running(channel(server.port), inbox):
        await inbox.wait_online()
    assert (inbox.events, json.loads(inbox.at or "")["uid"]) == ([], 1)


async def test_a_disk_that_is_full_moves_no_cursor(tmp_path: Path) -> None:
    inbox = KeptInbox(tmp_path, json.dumps({"uidvalidity": 7, "uid": 0, "since": 0}))
    inbox.fail = OSError(28, "no space")
    async with imap(mails=[bytes(mail())]) as server:
        with pytest.raises(OSError, match="no space"):
            await channel(server.port).run(inbox)
        assert json.loads(inbox.at or "")["uid"] == 0
        async with running(channel(server.port), inbox):
            await inbox.wait(1)


async def test_what_cannot_be_looked_up_is_not_said_to_be_absent() -> None:
    op = Op("k", "post", "ada@people.org", "x")
    for step, answer in (("connect", DROP), ("LOGIN", "{tag} NO wrong"), ("UID SEARCH", "{tag} NO no"), ("LIST", DROP)):
        async with imap(steps={step: answer}) as server:
            with pytest.raises(Unknown):
                await channel(server.port).find(op, 0.0)
    await no_threads()


async def test_a_proof_that_has_no_place_proves_nothing() -> None:
    async with imap() as server:
        with pytest.raises(Unknown, match="set sent"):
            await channel(server.port, proof="sent").find(Op("k", "post", "ada@people.org", "x"), 0.0)
