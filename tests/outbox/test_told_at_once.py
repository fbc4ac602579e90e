"""What one step of the outbox gives another channel to do is done at once (found by `python -m proof schedules`)."""

from __future__ import annotations

from pathlib import Path

from outbox_desk import Desk, say

from semel.gateway.outbound.outbox import make_rules
from semel.gateway.ports import Safety
from semel.ledger import people
from semel.ledger.delivery import send_queue
from semel.ledger.people import PersonAccount
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.sql import Tx
from semel.testing import FakeChannel, FrozenClock


def ann(tx: Tx) -> None:
    """Ann was met at "room" of both channels, in direct conversations."""
    for channel in ("mail", "chat"):
        people.save_account(tx, PersonAccount(channel, "ann", "ann", "owner", "added"))
        people.remember_place(tx, channel, "room", "ann", True)


async def test_what_a_start_finds_unknown_and_holds_is_told_on_another_channel_at_once(ledger: Path) -> None:
    mail, chat = FakeChannel("mail", Safety.IDEMPOTENT), FakeChannel("chat", Safety.AT_MOST_ONCE)
    clock = FrozenClock()
    with Store.open_sync(ledger, clock=clock.now) as store:
        store.write_sync(ann)
        store.write_sync(say, "chat:room", ["hello"])
        left = store.write_sync(send_queue.depart, {"chat": send_queue.ChannelCapacity(make_rules(chat.caps), 1)})
        assert len(left.sends) == 1, "it was on its way when the gateway died"
    async with Desk(ledger, mail, chat, clock=clock) as desk:
        await desk.quiet()
        [told] = mail.platform.shown("room")
        assert told.startswith("A message for you on chat may not have arrived")
