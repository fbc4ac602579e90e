"""The outbox, on fake channels of each class, with a clock that stands still."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from outbox_desk import Desk

from semel.gateway.outbound.outbox import Outbox
from semel.gateway.ports import Op, Receipt, Safety
from semel.ledger.delivery import parts
from semel.ledger.storage.rows import EntryRow
from semel.ledger.transcript import views
from semel.testing import FakeChannel, Fault, Platform

HOUR = 3600.0
EVERY_CLASS = list(Safety)


@pytest.mark.parametrize("safety", EVERY_CLASS)
async def test_parts_leave_in_order_each_once(ledger: Path, safety: Safety) -> None:
    chat = FakeChannel("chat", safety)
    async with Desk(ledger, chat) as desk:
        ids = await desk.say("chat:room", "one", "two", "three") + await desk.say("chat:room", "four")
        await desk.quiet()
        assert chat.platform.shown("room") == ["one", "two", "three", "four"]
        assert await desk.states(ids) == ["sent"] * 4
        assert (await desk.part(ids[0]))["receipt"] == "m1"
        assert set(chat.platform.attempts.values()) == {1}


async def test_sending_is_durable_before_the_first_byte(ledger: Path) -> None:
    seen = []

    class Watching(FakeChannel):
        async def send(self, op: Op) -> Receipt:
            seen.append((await desk.store.read(parts.list_newest))[0]["state"])
            return await super().send(op)

    async with Desk(ledger, Watching("chat", Safety.AT_MOST_ONCE)) as desk:
        await desk.say("chat:room", "hello")
        await desk.quiet()
        assert seen == ["sending"]


async def test_a_stuck_destination_delays_only_itself(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_always(Fault.REFUSE, address="stuck")
    async with Desk(ledger, chat) as desk:
        stuck = await desk.say("chat:stuck", "a", "b")
        await desk.say("chat:free", "c", "d")
        await desk.quiet()
        assert chat.platform.shown("free") == ["c", "d"]
        assert await desk.states(stuck) == ["queued", "queued"]
        assert set(chat.platform.attempts) == {"key-1-0", "key-2-0", "key-2-1"}, "b never overtakes a"


async def test_a_platforms_retry_after_is_never_undercut(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE, Platform(retry_after=120.0))
    chat.platform.fail_next(Fault.LIMIT)
    async with Desk(ledger, chat) as desk:
        await desk.say("chat:room", "hello")
        await desk.pass_time(119.9)
        assert chat.platform.log == []
        await desk.pass_time(0.2)
        assert chat.platform.shown("room") == ["hello"]


async def test_a_platform_that_asks_for_years_is_told_of_at_once(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE, Platform(retry_after=1e9))
    chat.platform.fail_next(Fault.LIMIT)
    async with Desk(ledger, chat) as desk:
        ids = await desk.say("chat:room", "hello", "world")
        await desk.quiet()
        assert await desk.states(ids) == ["rejected", "sent"]


async def test_an_idempotent_channel_gets_the_same_key_again(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.IDEMPOTENT)
    chat.platform.fail_next(Fault.DROP, Fault.ERROR_AFTER, Fault.REFUSE)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.quiet()
        assert await desk.states([part]) == ["unknown"]
        await desk.pass_time(30)
        assert chat.platform.attempts == {"key-1-0": 4}
        assert chat.platform.shown("room") == ["hello"]
        assert await desk.states([part]) == ["sent"]


async def test_an_idempotent_part_in_doubt_is_held_when_its_key_grew_old(ledger: Path) -> None:
    """After the first lost answer, not even "connection refused" makes a repeat safe for ever."""
    chat = FakeChannel("chat", Safety.IDEMPOTENT, key_life=HOUR)
    chat.platform.fail_next(Fault.DROP)
    chat.platform.fail_always(Fault.REFUSE)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.pass_time(0.79 * HOUR)
        assert await desk.states([part]) == ["unknown"]
        await desk.pass_time(0.2 * HOUR)
        assert await desk.states([part]) == ["held"]
        chat.platform.fail_always(None)
        await desk.pass_time(HOUR)
        assert chat.platform.shown("room") == ["hello"]


async def test_a_refused_connection_does_not_age_the_key(ledger: Path) -> None:
    """The key's life begins with the first attempt that may have arrived."""
    chat = FakeChannel("chat", Safety.IDEMPOTENT, key_life=HOUR)
    chat.platform.fail_always(Fault.REFUSE)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.pass_time(2 * HOUR)
        chat.platform.fail_always(None)
        chat.platform.fail_next(Fault.DROP)
        await desk.pass_time(0.5 * HOUR)
        assert await desk.states([part]) == ["sent"]
        assert chat.platform.shown("room") == ["hello"]


async def test_an_idempotent_channel_that_finds_looks_when_the_key_grew_old(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.IDEMPOTENT, key_life=HOUR, finds=True)
    chat.platform.fail_next(Fault.DROP)
    chat.platform.fail_always(Fault.ERROR)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.pass_time(0.95 * HOUR)
        assert await desk.states([part]) == ["sent"]
        assert chat.platform.finds == {"key-1-0": 1}


async def test_a_reconcilable_channel_settles_looks_and_does_not_repeat(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.RECONCILABLE, settle=5.0)
    chat.platform.fail_next(Fault.DROP)
    async with Desk(ledger, chat) as desk:
        ids = await desk.say("chat:room", "hello", "world")
        await desk.pass_time(4.9)
        assert chat.platform.finds == {}, "absence proves nothing before the platform settled"
        assert await desk.states(ids) == ["unknown", "queued"]
        await desk.pass_time(0.2)
        assert chat.platform.shown("room") == ["hello", "world"]
        assert chat.platform.attempts == {"key-1-0": 1, "key-1-1": 1}
        assert (await desk.part(ids[0]))["receipt"] == "m1"


async def test_a_reconcilable_channel_sends_again_what_is_not_there(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.RECONCILABLE)
    chat.platform.fail_next(Fault.LOSE)
    async with Desk(ledger, chat) as desk:
        await desk.say("chat:room", "hello", "world")
        await desk.pass_time(2)
        assert chat.platform.shown("room") == ["hello", "world"]
        assert chat.platform.attempts == {"key-1-0": 2, "key-1-1": 1}


async def test_a_platform_that_cannot_tell_is_asked_again_and_held_at_the_horizon(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.RECONCILABLE)
    chat.platform.fail_next(Fault.LOSE)
    chat.platform.findable = False
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.pass_time(10 * HOUR)
        assert 50 < chat.platform.finds["key-1-0"] < 100
        await desk.clock.advance(61.9 * HOUR)
        await desk.quiet()
        assert await desk.states([part]) == ["unknown"]
        await desk.pass_time(0.5 * HOUR)
        assert await desk.states([part]) == ["held"]
        assert chat.platform.attempts["key-1-0"] == 1


async def test_a_definite_no_to_a_repeat_is_held_and_not_called_rejected(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.IDEMPOTENT)
    chat.platform.fail_next(Fault.DROP, Fault.REJECT)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "hello")
        await desk.pass_time(5)
        assert await desk.states([part]) == ["held"], "the first attempt did arrive"


async def test_the_pace_of_a_channel_is_kept_per_destination(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE, pace=1.0)
    async with Desk(ledger, chat) as desk:
        await desk.say("chat:a", "1", "2", "3")
        await desk.say("chat:b", "1")
        await desk.quiet()
        assert (chat.platform.shown("a"), chat.platform.shown("b")) == (["1"], ["1"])
        await desk.pass_time(0.9)
        await desk.say("chat:b", "2")
        await desk.quiet()
        assert (chat.platform.shown("a"), chat.platform.shown("b")) == (["1"], ["1"])
        await desk.pass_time(0.2)
        assert (chat.platform.shown("a"), chat.platform.shown("b")) == (["1", "2"], ["1", "2"])
        await desk.pass_time(1)
        assert chat.platform.shown("a") == ["1", "2", "3"]


async def test_an_idle_outbox_asks_nothing(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    async with Desk(ledger, chat) as desk:
        await desk.say("chat:room", "hello")
        await desk.quiet()
        before = desk.writes
        await desk.pass_time(24 * HOUR)
        assert desk.writes == before
        assert desk.clock.sleepers == 0


async def test_an_edit_refers_to_what_its_part_became_on_the_platform(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(None, None, Fault.LOSE)
    async with Desk(ledger, chat) as desk:
        [first] = await desk.say("chat:room", "teh")
        await desk.say("chat:room", "the", kind="edit", target_part=first)
        [lost] = await desk.say("chat:room", "lost")
        [orphan] = await desk.say("chat:room", "found", kind="edit", target_part=lost)
        await desk.quiet()
        assert [(p.kind, p.text, p.target) for p in chat.platform.log] == [
            ("post", "teh", None),
            ("edit", "the", "m1"),
        ]
        found = await desk.part(orphan)
        assert found["state"] == "rejected"
        assert found["error"].startswith("the id of the message it refers to is not known: it was never delivered")


@pytest.mark.parametrize("safety", EVERY_CLASS)
@pytest.mark.parametrize("kind", ["edit", "react", "delete"])
async def test_edits_reactions_and_deletions_leave_again_after_a_lost_answer(
    ledger: Path, kind: str, safety: Safety
) -> None:
    chat = FakeChannel("chat", safety, deletes=True)
    async with Desk(ledger, chat) as desk:
        [first] = await desk.say("chat:room", "teh")
        await desk.quiet()
        chat.platform.fail_next(Fault.DROP, Fault.LOSE, Fault.BUG, Fault.REFUSE)
        [part] = await desk.say("chat:room", "the", kind=kind, target_part=first)
        [after] = await desk.say("chat:room", "after")
        await desk.quiet()
        assert await desk.states([part, after]) == ["unknown", "queued"], "what comes behind it waits"
        await desk.pass_time(60)
        assert await desk.states([part, after]) == ["sent", "sent"]
        assert sum(post.kind == kind for post in chat.platform.log) == (1 if safety is Safety.IDEMPOTENT else 2)
        assert {post.target for post in chat.platform.log if post.kind == kind} == {"m1"}
        assert chat.platform.finds == {}, "there is nothing to look for"


async def test_an_edit_that_nobody_answers_is_held_at_the_horizon(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    async with Desk(ledger, chat) as desk:
        [first] = await desk.say("chat:room", "teh")
        await desk.quiet()
        chat.platform.fail_always(Fault.LOSE)
        [part] = await desk.say("chat:room", "the", kind="edit", target_part=first)
        await desk.pass_time(HOUR)
        await desk.clock.advance(71 * HOUR)
        await desk.pass_time(HOUR)
        assert await desk.states([part]) == ["held"]


@pytest.mark.parametrize("kind", ["edit", "react", "file", "delete"])
async def test_what_a_channel_cannot_do_is_rejected_without_an_attempt(ledger: Path, kind: str) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE, edits=False, reactions=False, files=False)
    async with Desk(ledger, chat) as desk:
        [part] = await desk.say("chat:room", "x", kind=kind, target="m1")
        await desk.quiet()
        assert await desk.states([part]) == ["rejected"]
        assert chat.platform.attempts == {}


async def test_watchers_see_each_change_of_a_delivery(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    async with Desk(ledger, chat) as desk:
        await desk.say("chat:room", "hello")
        await desk.quiet()

        def rev(tx: Any) -> tuple[int, int]:
            entry = tx.one(EntryRow, "entry_get", session=1, seq=1)
            return entry.born, entry.rev

        born, rev_now = await desk.store.read(rev)
        assert rev_now == born + 2, "once when it departed, once when it was sent"


async def test_an_entry_names_each_of_several_held_parts(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.DROP, None, Fault.DROP)
    async with Desk(ledger, chat) as desk:
        first, _, third = await desk.say("chat:room", "one", "two", "three")
        await desk.quiet()
        entry = await desk.store.read(lambda tx: views.entry_json(tx, tx.one(EntryRow, "entry_get", session=1, seq=1)))
        held, sent = sorted(entry["delivery"], key=lambda way: str(way["state"]))
        assert (held["state"], held["part"], held["parts"], held["held"]) == ("held", first, 2, [first, third])
        assert (sent["state"], sent["parts"], "held" in sent) == ("sent", 1, False)


async def test_an_outbox_needs_no_channel(ledger: Path) -> None:
    async with Desk(ledger) as desk:
        await desk.quiet()
        assert isinstance(desk.outbox, Outbox)
