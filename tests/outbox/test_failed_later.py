"""A platform tells that a message failed which it had taken: it was sent, it failed later, and everybody hears of it
once."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from outbox_desk import Desk, echo
from test_elsewhere import ann, balanced, two

from semel.gateway.ports import Receipt, Safety
from semel.law import delivery, identity
from semel.ledger.admin import books, explain
from semel.ledger.delivery import other_channel, parts, send_queue
from semel.ledger.inbound import channel_batch as rows
from semel.ledger.inbound import hear
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import ClaimRow, EntryRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries, views
from semel.testing import FakeChannel, Fault

ALL = ("chat", "mail")


def report(tx: Tx, of: str, key: str = "b1", text: str = "5.1.1 no such user", channel: str = "chat") -> list[str]:
    """What becomes of such a report, and of its repeats."""
    digest = identity.digest_fields({"of": of, "text": text})
    event = hear.Event(f"channel:{channel}", key, "failed", text, digest, more={"data": {"of": of}}, wakes=False)
    return [
        done.status
        for done in rows.record_batch(tx, channel, event.source, [rows.DeliveryFailureReport(event, of)], None, (), ALL)
    ]


async def sent(desk: Desk, text: str = "The build is red.") -> dict[str, Any]:
    [part] = await desk.say("chat:room", text)
    await desk.quiet()
    found = await desk.part(part)
    assert found["state"] == "sent"
    return found


async def test_it_stays_sent_says_that_it_failed_and_is_told_once(ledger: Path) -> None:
    chat, mail = two()
    async with Desk(ledger, chat, mail) as desk:
        await desk.store.write(ann, "chat", "mail")
        part = await sent(desk)
        assert [await desk.store.write(report, part["receipt"]) for _ in range(3)] == [
            ["failed"], ["duplicate"], ["duplicate"],
        ]  # fmt: skip
        desk.outbox.kick()
        await desk.quiet()
        now = await desk.part(part["id"])
        assert (now["state"], now["receipt"], now["error"]) == ("sent", part["receipt"], "5.1.1 no such user")
        told, there = await desk.notices()
        assert told.text == (
            'A message to chat:room was sent, and failed later: 5.1.1 no such user. It said "The build is red.".'
        )
        assert entries.load(told.more) == {"kind": "delivery.failed", "part": part["id"], "to": "chat:room"}
        assert (told.tell, there.tell) == (1, 0), "the agent is told once, and not woken"
        assert mail.platform.shown("room") == [
            'A message for you on chat could not be delivered: 5.1.1 no such user. It said "The build is red.".'
        ]
        assert len(chat.platform.log) == 1, "nothing is sent again"
        await balanced(desk)


async def test_another_report_about_it_is_news_of_nothing(ledger: Path) -> None:
    chat, _ = two()
    async with Desk(ledger, chat) as desk:
        part = await sent(desk)
        assert await desk.store.write(report, part["receipt"]) == ["failed"]
        assert await desk.store.write(report, part["receipt"], "b2", "no again") == ["quarantined"]
        [odd] = await desk.store.read(rows.list_quarantined, 9)
        event = (await desk.part(part["id"]))["failed"]
        assert odd["why"] == f"it reports that a message failed, p{part['id']}: e{event} reported that before"
        assert len(await desk.notices()) == 1
        await balanced(desk)


@pytest.mark.parametrize("of", ["nobody-knows-this", "key-1-0 ", "KEY-1-0", "m"])
async def test_only_an_exact_id_of_that_channel_counts(ledger: Path, of: str) -> None:
    chat, mail = two()
    async with Desk(ledger, chat, mail) as desk:
        part = await sent(desk)
        assert await desk.store.write(report, of) == ["quarantined"]
        assert await desk.store.write(report, part["key"], "b2", channel="mail") == ["quarantined"]
        assert "failed" not in await desk.part(part["id"])
        assert await desk.notices() == []
        await balanced(desk)


async def test_by_its_key_it_settles_a_part_whose_answer_was_lost(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.DROP)
    async with Desk(ledger, chat) as desk:
        [first, later] = await desk.say("chat:room", "one", "two")
        await desk.quiet()
        assert await desk.states([first, later]) == ["held", "sent"]
        assert await desk.store.write(report, (await desk.part(first))["key"]) == ["failed"]
        now = await desk.part(first)
        assert (now["state"], now["receipt"], now["error"]) == ("sent", now["key"], "5.1.1 no such user")
        assert [n.text.split(":")[1][:16] for n in await desk.notices()] == ["room was held", "room was sent, a"]
        with pytest.raises(delivery.PartStepNotAllowed):
            await desk.decide(first, "resend")
        await balanced(desk)


async def test_the_answer_of_an_attempt_that_comes_after_it_changes_nothing(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.RECONCILABLE)
    chat.platform.fail_next(Fault.HANG_AFTER)
    async with Desk(ledger, chat) as desk:
        [first, later] = await desk.say("chat:room", "one", "two")
        await desk.until(lambda: len(chat.platform.log) == 1)
        assert await desk.store.write(report, (await desk.part(first))["key"]) == ["failed"]
        for what, given in (("receipt", Receipt("m1").id), ("silence", None), ("refused", None)):
            done = send_queue.AttemptOutcome(what, receipt=given, reason="late")  # type: ignore[arg-type]
            assert (
                await desk.store.write(send_queue.record_outcome, first, done, delivery.Rules("reconcilable")) == "sent"
            )
        desk.outbox.kick()
        await desk.clock.advance(chat.caps.timeout + 1)
        await desk.quiet()
        assert await desk.states([first, later]) == ["sent", "sent"], "the line goes on"
        assert len(await desk.notices()) == 1
        await balanced(desk)


async def test_what_did_not_leave_and_what_is_over_has_not_failed_later(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.REJECT, Fault.DROP, Fault.REFUSE)
    async with Desk(ledger, chat) as desk:
        rejected, dropped, waits = await desk.say("chat:room", "one", "two", "three")
        await desk.quiet()
        await desk.decide(dropped, "drop")
        before = len(await desk.notices())
        for part, state in ((rejected, "rejected"), (dropped, "dropped"), (waits, "queued")):
            key = (await desk.part(part))["key"]
            assert await desk.store.write(report, key, f"b{part}") == ["quarantined"]
            now = await desk.part(part)
            assert (now["state"], "failed" in now) == (state, False)
        whys = [odd["why"] for odd in await desk.store.read(rows.list_quarantined, 9)]
        assert [each.rpartition(" ")[2] for each in whys] == ["queued", "dropped", "rejected"]
        assert len(await desk.notices()) == before
        await balanced(desk)


async def test_an_echo_that_relied_on_it_is_spoken_for_once(ledger: Path) -> None:
    chat, _ = two()
    async with Desk(ledger, chat) as desk:
        first, second = await desk.say("chat:room", "one ", "two")
        await desk.quiet()
        await desk.store.write(echo, first)
        for n, part in enumerate((first, second)):
            assert await desk.store.write(report, (await desk.part(part))["key"], f"b{n}") == ["failed"]
        texts = [notice.text for notice in await desk.notices()]
        relied = "A text that repeated it was therefore not sent."
        assert [text.endswith(relied) for text in texts] == [True, False]
        await balanced(desk)


async def test_a_failure_notice_that_bounces_makes_no_other(ledger: Path) -> None:
    chat, mail = two()
    async with Desk(ledger, chat, mail) as desk:
        await desk.store.write(ann, "chat", "mail")
        part = await sent(desk)
        await desk.store.write(report, part["receipt"])
        desk.outbox.kick()
        await desk.quiet()
        [notice] = mail.platform.log
        await desk.clock.advance(other_channel.MIN_NOTICE_INTERVAL_MS / 1000 + 1)
        assert await desk.store.write(report, notice.id, "b2", channel="mail") == ["failed"]
        desk.outbox.kick()
        await desk.quiet()
        assert (len(chat.platform.log), len(mail.platform.log)) == (1, 1)
        await balanced(desk)


async def test_its_story_and_its_delivery_tell_it(ledger: Path) -> None:
    chat, _ = two()
    async with Desk(ledger, chat) as desk:
        good, bad = await desk.say("chat:room", "one ", "two")
        await desk.quiet()
        await desk.store.write(report, (await desk.part(bad))["receipt"])
        event = (await desk.part(bad))["failed"]
        for ref in (f"e{event}", f"p{bad}", "b1"):
            story = await desk.store.read(explain.tell_story, ref)
            assert story is not None
            lines = [line["text"] for line in story["lines"]]
            assert f"p{bad}: failed later, as e{event} reports: 5.1.1 no such user" in lines, lines
            assert lines.count(f"p{bad}: sent, receipt m2") == 1
        story = await desk.store.read(explain.tell_story, f"e{event}")
        assert story is not None
        assert f"it reports that p{bad} failed after it was sent" in [line["text"] for line in story["lines"]]

        def delivery_of(tx: Tx) -> list[Any]:
            claim = tx.get(ClaimRow, "claim_get", id=parts.get(tx, bad).claim)
            entry = tx.get(EntryRow, "entry_get", session=claim.session, seq=claim.seq)
            return list(views.entry_json(tx, entry)["delivery"])

        assert await desk.store.read(delivery_of) == [
            {"to": "chat:room", "state": "sent", "parts": 1, "part": good},
            {"to": "chat:room", "state": "sent", "parts": 1, "part": bad, "failed": True,
             "error": "5.1.1 no such user"},
        ]  # fmt: skip


@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_kill_around_the_commit_tells_it_once(ledger: Path, where: str) -> None:
    chat, mail = two()
    async with Desk(ledger, chat, mail) as desk:
        await desk.store.write(ann, "chat", "mail")
        part = await sent(desk)
    worker = [sys.executable, str(Path(__file__).parent / "failure_worker.py"), str(ledger), part["receipt"], where]
    died = await asyncio.to_thread(subprocess.run, worker, capture_output=True, text=True, timeout=120)
    assert died.returncode == -signal.SIGKILL, died.stderr
    async with Desk(ledger, chat, mail) as desk:
        again = await desk.store.write(report, part["receipt"])
        assert again == (["failed"] if where == "before" else ["duplicate"])
        desk.outbox.kick()
        await desk.quiet()
        assert len(mail.platform.log) == 1
        assert len([n for n in await desk.notices() if "failed later" in n.text]) == 1
    await asyncio.to_thread(_audited, ledger)


def _audited(ledger: Path) -> None:
    store = Store.open(ledger)
    try:
        assert [book for book in store.read_sync(books.audit) if not book.ok] == []
    finally:
        store.close()
