"""`semel why` tells each attempt to send a part: when it began, and what came of it."""

from __future__ import annotations

from pathlib import Path

from outbox_desk import WHY_HELD, Desk, kill

from semel.gateway.ports import Safety
from semel.ledger.admin import erase, explain
from semel.ledger.delivery import parts
from semel.ledger.storage.rows import ClaimEntry
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.testing import FakeChannel, Fault

Story = list[tuple[float, str]]
ASKED = ", marked as a repeat that a person asked for"


async def story_of(desk: Desk, part: int, began: int) -> Story:
    """The lines of a part's story: seconds since `began`, and the text without the part's id."""
    story = await desk.store.read(explain.tell_story, f"p{part}")
    assert story is not None
    lines = [
        line for line in story["lines"] if line["text"].startswith(f"p{part}: ") and "queued, key" not in line["text"]
    ]
    return [((line["at"] - began) / 1000, line["text"].partition(": ")[2]) for line in lines]


async def test_a_part_that_was_sent_again_keeps_its_first_attempt(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.LOSE)
    async with Desk(ledger, chat) as desk:
        began = desk.clock.now()
        [part] = await desk.say("chat:room", "hello")
        await desk.pass_time(600)
        outcome = f"attempt 1: nobody knows whether it arrived, so it was held: {Fault.LOSE.value}; {WHY_HELD}"
        held = (0.0, outcome)
        assert await story_of(desk, part, began) == [(0.0, "attempt 1 began"), held, (0.0, "held")]
        chat.platform.fail_next(Fault.REFUSE)
        await desk.decide(part, "resend")
        await desk.quiet()
        resent = [
            (600.0, "a person had it sent again; its tries are counted from here"),
            (600.0, f"attempt 2 began{ASKED}"),
            (600.0, "attempt 2: not sent, to be tried again: connection refused"),
        ]
        assert (await story_of(desk, part, began))[2:6] == [*resent, (600.0, "queued, marked as a repeat")]
        await desk.pass_time(600)
        *earlier, (third, beginning), outcome, receipt = await story_of(desk, part, began)
        assert earlier == [(0.0, "attempt 1 began"), held, *resent]
        assert beginning == f"attempt 3 began{ASKED}"
        assert [outcome, receipt] == [(third, "attempt 3: sent"), (third, "sent, receipt m1")]
        assert (await desk.store.read(parts.get_json, part))["attempts"] == 2


async def test_each_decision_to_send_again_is_told_where_it_was_made(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.REFUSE, Fault.LOSE, Fault.REFUSE, Fault.LOSE)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.pass_time(600)
        await desk.decide(part, "resend")
        await desk.pass_time(600)
        await desk.decide(part, "resend")
        await desk.pass_time(600)
        texts = [text for _, text in await story_of(desk, part, 0)]
        begun = [text for text in texts if " began" in text or "a person" in text]
        assert begun == [
            "attempt 1 began", "attempt 2 began", "a person had it sent again", f"attempt 3 began{ASKED}",
            f"attempt 4 began{ASKED}", "a person had it sent again; its tries are counted from here",
            f"attempt 5 began{ASKED}",
        ]  # fmt: skip


async def test_a_decision_is_told_with_who_made_it_and_when(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.LOSE, Fault.LOSE, Fault.LOSE)
    async with Desk(ledger, chat) as desk:
        began = desk.clock.now()
        [given_up], [found], [resent] = [await desk.say("chat:room", text) for text in ("one", "two", "three")]
        await desk.pass_time(600)
        await desk.decide(given_up, "drop", "anna")
        await desk.decide(found, "arrived", "anna")
        await desk.pass_time(60)
        await desk.decide(resent, "resend", "ben")
        await desk.quiet()
        assert (await story_of(desk, given_up, began))[-1] == (600.0, "dropped; anna dropped it")
        assert (await story_of(desk, found, began))[-1] == (600.0, "sent; anna said that it arrived")
        again = (660.0, "ben had it sent again; its tries are counted from here")
        assert again in await story_of(desk, resent, began)


async def test_a_decision_that_was_not_kept_is_told_from_the_attempts(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.LOSE)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.pass_time(600)
        await desk.decide(part, "resend", "anna")
        await desk.quiet()

        def forget_decisions(tx: Tx) -> None:  # as in a ledger that an older Semel wrote
            for entry in tx.all(ClaimEntry, "entries_of_claim", claim=parts.get(tx, part).claim):
                entries.set_entry(tx, entry.session, entry.seq, more={"decisions": None})

        await desk.store.write(forget_decisions)
        told = [text for _, text in await story_of(desk, part, 0) if "had it sent again" in text]
        assert told == ["a person had it sent again; its tries are counted from here"]


async def test_a_repeat_that_the_operator_allows_is_no_decision_of_a_person(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.LOSE)
    async with Desk(ledger, chat, resend_unknown=["chat"]) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.pass_time(600)
        begun = [text for _, text in await story_of(desk, part, 0) if " began" in text or "a person" in text]
        assert begun == ["attempt 1 began", "attempt 2 began, marked as a repeat"]


async def test_each_retry_is_told_with_its_reason(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.REFUSE, Fault.LIMIT, Fault.REJECT)
    async with Desk(ledger, chat) as desk:
        began = desk.clock.now()
        [part] = await desk.say("chat:room", "hello")
        await desk.quiet()
        [*_, (waited, state), (due, words)] = await story_of(desk, part, began)
        assert (waited, state) == (0.0, "queued")
        assert 0 < due <= 1 and words == "the next attempt is not before this time"
        await desk.pass_time(600)
        story = await story_of(desk, part, began)
        assert [text for _, text in story] == [
            "attempt 1 began",
            "attempt 1: not sent, to be tried again: connection refused",
            "attempt 2 began",
            "attempt 2: not sent, to be tried again: 429 Too Many Requests",
            "attempt 3 began",
            "attempt 3: rejected: 403 Forbidden",
            "rejected",
        ]
        times = [at for at, _ in story]
        assert times == sorted(times) and len({times[0], times[2], times[4]}) == 3


async def test_of_many_attempts_the_first_and_the_newest_are_told(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(*[Fault.REFUSE] * 30)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.pass_time(24 * 3600)
        texts = [text for _, text in await story_of(desk, part, 0)]
        begun = [int(text.split()[1]) for text in texts if text.endswith(" began")]
        assert begun == [1, *range(13, 32)]
        [omitted] = [text for text in texts if "not listed" in text]
        assert omitted.startswith("11 attempts in between") and texts.index(omitted) == 2
        assert texts[-1] == "sent, receipt m1"


async def test_a_part_that_is_sent_at_once_costs_no_row_of_its_own(ledger: Path) -> None:
    async with Desk(ledger, FakeChannel("chat", Safety.AT_MOST_ONCE)) as desk:
        began = desk.clock.now()
        [part] = await desk.say("chat:room", "hello")
        await desk.quiet()
        assert await story_of(desk, part, began) == [(0.0, "attempt 1 of 1 began"), (0.0, "sent, receipt m1")]


async def test_an_attempt_during_which_the_gateway_was_killed_is_told(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.HANG)
    desk = Desk(ledger, chat)
    await desk.__aenter__()
    began = desk.clock.now()
    [part] = await desk.say("chat:room", "hello")
    await desk.until(lambda: len(chat.platform.attempts) == 1)
    await kill(desk)
    async with Desk(ledger, chat, clock=desk.clock) as again:
        await again.quiet()
        [beginning, outcome, *_] = await story_of(again, part, began)
        assert beginning == (0.0, "attempt 1 began")
        assert outcome[1] == "attempt 1: nobody knows whether it arrived: the gateway stopped before the answer came"


async def test_erasing_what_was_said_erases_what_platforms_said_about_it(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.REJECT)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.quiet()

        def erase_part(tx: Tx) -> None:
            erase.erase_parts(tx, parts.get(tx, part).claim)

        await desk.store.write(erase_part)
        assert [text for _, text in await story_of(desk, part, 0)] == [
            "attempt 1 began",
            "attempt 1: rejected",
            "rejected",
        ]
