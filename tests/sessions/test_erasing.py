"""Law 11: a long session goes in short steps, others write in between, and a kill between any two loses nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from semel.ledger.admin import books, erase
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.delivery.cutting import Leg
from semel.ledger.inbound import hear
from semel.ledger.inbound.hear import KnownEvent
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import EntryRow, PartRow, SessionRow
from semel.ledger.transcript import entries, session_list, views
from semel.ledger.turns import finish_turn, sessions, show, turn_ops, turns

WORKER = Path(__file__).parent / "erase_worker.py"
MANY = 3_000


def filled(path: Path, many: int) -> Store:
    """A ledger with a long session: messages, answers that left for a chat, tool output, notices."""
    store = Store.open_sync(path)
    to = [hear.Addressee("s", "main", "chat:room")]
    for start in range(0, many, 100):
        store.write_sync(_some, to, start, min(100, many - start))
    return store


def _some(tx: Any, to: Any, start: int, count: int) -> None:
    for n in range(start, start + count, 4):
        event = hear.Event("api:s", f"k{n}", "message", f"secret {n}", b"d%d" % n, sender="Ada")
        session = hear.hear(tx, event, to).woken_sessions[0]
        begun = turns.begin(tx, session, "g")
        assert isinstance(begun, turns.BegunTurn)
        fence, caller = turns.TurnFence(session, begun.turn, begun.epoch), Caller(session, "s", begun.turn, begun.root)
        leg = Leg(0, len(f"answer secret {n}"), "chat", "chat:room", {"kind": "post", "text": f"answer secret {n}"})
        ops = [
            turn_ops.ItemOpen(1, "tool", f"t{n}", text="secret", started=True),
            turn_ops.ItemGrow(1, output=f"secret output {n}"),
            turn_ops.Block(2, (ClaimRequest("block", f"answer secret {n}", "chat:room", legs=(leg,)),)),
            turn_ops.Notice(f"a secret notice {n}", "note", tell=True),
        ]
        slots = show.show(tx, fence, caller, ops, turn_ops.Slots())
        finish_turn.finish(
            tx, fence, caller, [], slots, finish_turn.End("answered", "end_turn", last_prompted_seq=1 << 40)
        )
        for part in tx.all(PartRow, "parts_of_claim", claim=slots.claims[2]):
            tx.run("part_depart", id=part.id, state="sending", now=tx.now, marked=0)
            tx.run(
                "part_set", id=part.id, state="sent", due=tx.now, first=tx.now, attempts=1, receipt=f"r{n}", error=None,
                marked=0, failed=None,
            )  # fmt: skip


def balanced(store: Store) -> None:
    assert [book for book in store.read_sync(books.audit) if not book.ok] == []


def secrets_in(store: Store, session: int) -> list[str]:
    """What is left to read of a session."""

    def look(tx: Any) -> list[str]:
        head = tx.one(SessionRow, "session_by_id", id=session)
        out = [
            row.text + (row.more or "")
            for n in range(1, head.seq + 1)
            for row in [tx.one(EntryRow, "entry_get", session=session, seq=n)]
        ]
        out += [
            text for _, text in tx.pairs(int, str, "erase_claims_next", session=session, before=1 << 62, limit=10**6)
        ]
        out += map(str, tx.values(int, "erase_items_next", session=session, rev=1 << 62, limit=10**6))
        return [text for text in out if text]

    return store.read_sync(look)


def test_each_step_is_short_and_others_write_in_between(tmp_path: Path) -> None:
    store = filled(tmp_path / "ledger.db", MANY)
    try:
        row = store.read_sync(views.find_session, "s")
        seq = row.seq
        store.write_sync(sessions.delete, row.id)
        assert store.read_sync(views.find_session, "s") is None
        assert store.read_sync(session_list.list_sessions) == []
        balanced(store)
        steps = touched = 0
        while True:
            before = store.read_sync(_size, row.id)
            step = store.write_sync(erase.erase_step, row.id)
            touched = max(touched, before - store.read_sync(_size, row.id))
            store.write_sync(
                hear.hear,
                hear.Event("api:o", None, "note", "hi", b"d", wakes=False),
                [hear.Addressee("o", "main", None)],
            )
            steps += 1
            if step == "done":
                break
        assert steps >= 3 * seq // (4 * erase.ROWS_PER_STEP)
        assert touched <= 4 * erase.ROWS_PER_STEP
        assert secrets_in(store, row.id) == []
        assert store.read_sync(lambda tx: tx.one(SessionRow, "session_by_id", id=row.id)).seq == seq  # its numbers stay
        balanced(store)
        again = hear.Event("api:s", "k8", "message", "secret 8", b"d8", sender="Ada")
        assert store.write_sync(hear.hear, again, [hear.Addressee("s", "main", "chat:room")]).status == "duplicate"
        kept = store.read_sync(lambda tx: tx.one(KnownEvent, "event_known", source="api:s", key="k8"))
        assert kept.digest == b"d8"
        part = store.read_sync(lambda tx: tx.value(int, "part_by_receipt", receipt="r8"))
        assert part is not None
    finally:
        store.close()


def _size(tx: Any, session: int) -> int:
    """How many rows of it still hold content."""
    claims = sum(
        1 for _, text in tx.pairs(int, str, "erase_claims_next", session=session, before=1 << 62, limit=10**6) if text
    )
    items = len(tx.values(int, "erase_items_next", session=session, rev=1 << 62, limit=10**6))
    return claims + items


@pytest.mark.storm
def test_a_deletion_that_is_killed_over_and_over_ends(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    store = filled(ledger, 1_200)
    session = store.read_sync(views.find_session, "s").id
    store.close()
    kills = 0
    while True:
        done = subprocess.run([sys.executable, str(WORKER), str(ledger), "s", "3"], timeout=60, capture_output=True)
        with Store.open_sync(ledger) as store:
            balanced(store)
            assert store.read_sync(views.find_session, "s") is None
        if done.returncode == 0:
            break
        assert done.returncode == -9, done.stderr
        kills += 1
    assert kills >= 3
    with Store.open_sync(ledger) as store:
        assert secrets_in(store, session) == []
        assert store.read_sync(erase.list_unfinished) == []


def test_a_session_that_is_used_again_while_it_is_erased_keeps_what_is_new(tmp_path: Path) -> None:
    with filled(tmp_path / "ledger.db", 1_200) as store:
        to = [hear.Addressee("s", "main", "chat:room")]
        number = store.read_sync(views.find_session, "s").id
        store.write_sync(sessions.delete, number)
        store.write_sync(erase.erase_step, number)
        store.write_sync(hear.hear, hear.Event("api:s", "new", "message", "fresh", b"n", wakes=False), to)
        shown = store.read_sync(views.read_snapshot, number)
        assert [row["text"] for row in shown["entries"]] == ["fresh"]
        assert (shown["items"], shown["more"]) == ([], False)
        assert (
            store.read_sync(views.read_changes, number, 3) is None
        )  # whoever watched before gets a snapshot, not a mixture
        store.write_sync(_some, to, 5_000, 4)
        while store.write_sync(erase.erase_step, number) != "done":
            pass
        assert [row["text"] for row in store.read_sync(views.read_snapshot, number)["entries"]][:1] == ["fresh"]
        assert any("secret 5000" in text for text in secrets_in(store, number))
        assert not any("secret 8" in text for text in secrets_in(store, number))
        store.write_sync(sessions.delete, number)
        while store.write_sync(erase.erase_step, number) != "done":
            pass
        assert secrets_in(store, number) == []
        balanced(store)


def test_entries_know_their_files(tmp_path: Path) -> None:
    with Store.open_sync(tmp_path / "ledger.db") as store:
        number = store.write_sync(hear.open_session, hear.Addressee("s", "main", None)).id
        more = {"files": [{"id": "a" * 64, "name": "x"}]}
        store.write_sync(entries.add_entry, number, role="notice", text="", more=more)
        held = store.read_sync(lambda tx: tx.values(str, "holdings_of", session=number, lo=0, hi=9))
        assert held == ["a" * 64]
