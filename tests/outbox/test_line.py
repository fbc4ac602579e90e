"""Each destination has a line of its own: whoever is put into it takes the next place there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from outbox_desk import Desk

from semel.gateway.ports import Safety
from semel.ledger.admin import books
from semel.ledger.sqlite.connect import connect
from semel.testing import FakeChannel, Fault


def places(ledger: Path) -> list[tuple[str, int, int]]:
    """(destination, place, part) of every part, in the order of the lines."""
    with closing(connect(ledger, readonly=True)) as db:
        return list(db.execute("SELECT dest, line, id FROM part ORDER BY dest, line"))


async def test_each_line_counts_for_itself_and_a_resent_part_joins_its_tail(ledger: Path) -> None:
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    chat.platform.fail_next(Fault.DROP)
    async with Desk(ledger, chat) as desk:
        [held] = await desk.say("chat:room", "one")
        await desk.quiet()
        [two] = await desk.say("chat:room", "two")
        [other] = await desk.say("chat:other", "three")
        await desk.quiet()
        assert await desk.states([held, two, other]) == ["held", "sent", "sent"]
        assert places(ledger) == [("chat:other", 1, other), ("chat:room", 1, held), ("chat:room", 2, two)]
        await desk.decide(held, "resend")
        [four] = await desk.say("chat:room", "four")
        await desk.quiet()
        assert places(ledger) == [
            ("chat:other", 1, other), ("chat:room", 2, two), ("chat:room", 3, held), ("chat:room", 4, four),
        ]  # fmt: skip


async def test_the_books_see_a_place_that_no_line_gave_out(ledger: Path) -> None:
    async with Desk(ledger, FakeChannel("chat", Safety.AT_MOST_ONCE)) as desk:
        [part] = await desk.say("chat:room", "one")
        await desk.quiet()
        assert await broken(desk) == []
        for change in ("UPDATE part SET line = 2", "UPDATE part SET line = 0", "DELETE FROM line"):
            with closing(connect(ledger)) as db:
                db.execute("UPDATE part SET line = 1")
                db.execute(change)
            assert await broken(desk) == [("line", part)], change


async def broken(desk: Desk) -> list[tuple[str, int]]:
    checks = await desk.store.read(books.audit)
    return [(check.name, row["part"]) for check in checks for row in check.broken]
