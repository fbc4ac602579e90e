"""The ledger of a gateway that is down: what it is to say is written into it, and what became of that is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semel.ledger.admin import books
from semel.ledger.delivery import claims, parts
from semel.ledger.delivery.cutting import Leg
from semel.ledger.inbound.hear import To, session_of
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.store import Store
from semel.testing.conformance.process import NAME
from semel.testing.conformance.rig import demand

MOST = 100_000


@dataclass(frozen=True)
class Part:
    """One part, as the ledger has it: `address` and `text` of what was to leave, its state, how often it was tried."""

    address: str
    text: str
    state: str
    attempts: int


def session_for(number: int) -> str:
    """The session that speaks at the so-manieth address. It has no home there: what is told of it stays in it."""
    return f"main:conformance:{number}"


def fill(ledger: Path, texts: Mapping[str, Sequence[str]]) -> None:
    """So many messages of an agent, by address, in their order, as said and not yet sent."""
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with Store.open_sync(ledger) as store:
        longest = max(map(len, texts.values()))
        for n in range(longest):
            for number, (address, all) in enumerate(texts.items()):
                if n < len(all):
                    store.apply(_say, number, address, all[n])


def _say(tx: Tx, number: int, address: str, text: str) -> None:
    session = session_of(tx, To(session_for(number), "main", None))
    dest = f"{NAME}:{address}"
    op = {"kind": "post", "session": session.key, "address": address, "text": text}
    what = claims.Say("tool", text, dest, home=False, legs=(Leg(0, len(text), NAME, dest, op),))
    made = claims.say(tx, claims.Caller(session.id, session.key, None, None), what)
    demand(made.outcome == "said", f"{text!r} was {made.outcome}: {made.reason}")


def outcome(ledger: Path) -> list[Part]:
    """Every part, in the order in which it was said."""
    with Store.open_sync(ledger) as store:
        found = store.look(parts.newest, None, MOST)
    return [
        Part(one["dest"].partition(":")[2], one["text"], one["state"], one["attempts"])
        for one in sorted(found, key=lambda one: one["id"])
    ]


def notices(ledger: Path, number: int) -> list[str]:
    """What people were told in that session."""

    def look(tx: Tx) -> list[str]:
        row = tx.one("session_by_key", key=session_for(number))
        if row is None:
            return []
        rows = tx.all("entries_last", session=row.id, before=2**53, limit=MOST)
        return [str(entry.text) for entry in reversed(rows) if entry.role == "notice"]

    with Store.open_sync(ledger) as store:
        return store.look(look)


def cursor(ledger: Path) -> str | None:
    """How far the channel was read."""

    def look(tx: Tx) -> Any:
        return tx.value("cursor_get", source=f"channel:{NAME}")

    with Store.open_sync(ledger) as store:
        found = store.look(look)
    return None if found is None else str(found)


def balanced(ledger: Path) -> None:
    """The books, as `semel doctor` runs them. Raises ConformanceError."""
    with Store.open_sync(ledger) as store:
        broken = [book for book in store.look(books.audit) if not book.ok]
    told = "; ".join(f"{book.law} ({book.what}): {book.broken[:3]}" for book in broken)
    demand(not broken, f"the books do not balance: {told}")
