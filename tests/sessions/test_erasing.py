"""Law 11: a long session goes in short steps, others write in between, and a kill between any two loses nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from semel.ledger.admin import books, erase
from semel.ledger.delivery.claims import Caller, Say
from semel.ledger.delivery.cutting import Leg
from semel.ledger.inbound import hear
from semel.ledger.storage.store import Store
from semel.ledger.transcript import entries, views
from semel.ledger.turns import sessions, show, turns

WORKER = Path(__file__).parent / "erase_worker.py"
MANY = 3_000


def filled(path: Path, many: int) -> Store:
    """A ledger with a long session: messages, answers that left for a chat, tool output, notices."""
    store = Store.open_sync(path)
    to = [hear.To("s", "main", "chat:room")]
    for start in range(0, many, 100):
        store.apply(_some, to, start, min(100, many - start))
    return store


def _some(tx: Any, to: Any, start: int, count: int) -> None:
    for n in range(start, start + count, 4):
        event = hear.Event("api:s", f"k{n}", "message", f"secret {n}", b"d%d" % n, sender="Ada")
        session = hear.hear(tx, event, to).woken[0]
        begun = turns.begin(tx, session, "g")
        assert isinstance(begun, turns.Begun)
        fence, caller = turns.Fence(session, begun.turn, begun.epoch), Caller(session, "s", begun.turn, begun.root)
        leg = Leg(0, len(f"answer secret {n}"), "chat", "chat:room", {"kind": "post", "text": f"answer secret {n}"})
        ops = [
            show.ItemOpen(1, "tool", f"t{n}", text="secret", started=True),
            show.ItemGrow(1, output=f"secret output {n}"),
            show.Block(2, (Say("block", f"answer secret {n}", "chat:room", legs=(leg,)),)),
            show.Notice(f"a secret notice {n}", "note", tell=True),
        ]
        slots = show.show(tx, fence, caller, ops, show.Slots())
        show.finish(tx, fence, caller, [], slots, show.End("answered", "end_turn", told_upto=1 << 40))
        for part in tx.all("parts_of_claim", claim=slots.claims[2]):
            tx.run("part_depart", id=part.id, state="sending", now=tx.now, marked=0)
            tx.run(
                "part_set", id=part.id, state="sent", due=tx.now, first=tx.now, attempts=1, receipt=f"r{n}", error=None,
                marked=0, failed=None,
            )  # fmt: skip


def balanced(store: Store) -> None:
    assert [book for book in store.look(books.audit) if not book.ok] == []


def secrets_in(store: Store, session: int) -> list[str]:
    """What is left to read of a session."""

    def look(tx: Any) -> list[str]:
        head = tx.one("session_by_id", id=session)
        out = [
            row.text + (row.more or "")
            for n in range(1, head.seq + 1)
            for row in [tx.one("entry_get", session=session, seq=n)]
        ]
        out += [row.text for row in tx.all("erase_claims_next", session=session, before=1 << 62, limit=10**6)]
        out += [str(row.id) for row in tx.all("erase_items_next", session=session, rev=1 << 62, limit=10**6)]
        return [text for text in out if text]

    return store.look(look)


def test_each_step_is_short_and_others_write_in_between(tmp_path: Path) -> None:
    store = filled(tmp_path / "ledger.db", MANY)
    try:
        row = store.look(views.find, "s")
        seq = row.seq
        store.apply(sessions.delete, row.id)
        assert store.look(views.find, "s") is None
        assert store.look(views.sessions) == []
        balanced(store)
        steps = touched = 0
        while True:
            before = store.look(_size, row.id)
            step = store.apply(erase.step, row.id)
            touched = max(touched, before - store.look(_size, row.id))
            store.apply(
                hear.hear, hear.Event("api:o", None, "note", "hi", b"d", wakes=False), [hear.To("o", "main", None)]
            )
            steps += 1
            if step == "done":
                break
        assert steps >= 3 * seq // (4 * erase.ROWS_PER_STEP)
        assert touched <= 4 * erase.ROWS_PER_STEP
        assert secrets_in(store, row.id) == []
        assert store.look(lambda tx: tx.one("session_by_id", id=row.id)).seq == seq  # its numbers stay
        balanced(store)
        again = hear.Event("api:s", "k8", "message", "secret 8", b"d8", sender="Ada")
        assert store.apply(hear.hear, again, [hear.To("s", "main", "chat:room")]).status == "duplicate"
        kept = store.look(lambda tx: tx.one("event_known", source="api:s", key="k8"))
        assert kept.digest == b"d8"
        part = store.look(lambda tx: tx.one("part_by_receipt", receipt="r8"))
        assert part is not None
    finally:
        store.close()


def _size(tx: Any, session: int) -> int:
    """How many rows of it still hold content."""
    claims = sum(1 for row in tx.all("erase_claims_next", session=session, before=1 << 62, limit=10**6) if row.text)
    items = len(tx.all("erase_items_next", session=session, rev=1 << 62, limit=10**6))
    return claims + items


@pytest.mark.storm
def test_a_deletion_that_is_killed_over_and_over_ends(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    store = filled(ledger, 1_200)
    session = store.look(views.find, "s").id
    store.close()
    kills = 0
    while True:
        done = subprocess.run([sys.executable, str(WORKER), str(ledger), "s", "3"], timeout=60, capture_output=True)
        with Store.open_sync(ledger) as store:
            balanced(store)
            assert store.look(views.find, "s") is None
        if done.returncode == 0:
            break
        assert done.returncode == -9, done.stderr
        kills += 1
    assert kills >= 3
    with Store.open_sync(ledger) as store:
        assert secrets_in(store, session) == []
        assert store.look(erase.left) == []


def test_a_session_that_is_used_again_while_it_is_erased_keeps_what_is_new(tmp_path: Path) -> None:
    with filled(tmp_path / "ledger.db", 1_200) as store:
        to = [hear.To("s", "main", "chat:room")]
        number = store.look(views.find, "s").id
        store.apply(sessions.delete, number)
        store.apply(erase.step, number)
        store.apply(hear.hear, hear.Event("api:s", "new", "message", "fresh", b"n", wakes=False), to)
        shown = store.look(views.snapshot, number)
        assert [row["text"] for row in shown["entries"]] == ["fresh"]
        assert (shown["items"], shown["more"]) == ([], False)
        assert store.look(views.since, number, 3) is None  # whoever watched before gets a snapshot, not a mixture
        store.apply(_some, to, 5_000, 4)
        while store.apply(erase.step, number) != "done":
            pass
        assert [row["text"] for row in store.look(views.snapshot, number)["entries"]][:1] == ["fresh"]
        assert any("secret 5000" in text for text in secrets_in(store, number))
        assert not any("secret 8" in text for text in secrets_in(store, number))
        store.apply(sessions.delete, number)
        while store.apply(erase.step, number) != "done":
            pass
        assert secrets_in(store, number) == []
        balanced(store)


def test_entries_know_their_files(tmp_path: Path) -> None:
    with Store.open_sync(tmp_path / "ledger.db") as store:
        number = store.apply(hear.session_of, hear.To("s", "main", None)).id
        more = {"files": [{"id": "a" * 64, "name": "x"}]}
        store.apply(entries.add_entry, number, role="notice", text="", more=more)
        assert [row.blob for row in store.look(lambda tx: tx.all("holdings_of", session=number, lo=0, hi=9))] == [
            "a" * 64
        ]
