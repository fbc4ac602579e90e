"""Write messages into the ledger of a stopped gateway; read their parts and notices, and check the books."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semel.ledger.admin import books
from semel.ledger.delivery import claims, parts
from semel.ledger.delivery.cutting import Leg
from semel.ledger.inbound.hear import Addressee, open_session
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import EntryRow, SessionRow
from semel.ledger.storage.sql import Tx
from semel.testing.conformance.process import CHANNEL_NAME
from semel.testing.conformance.rig import demand

MAX_ROWS = 100_000


@dataclass(frozen=True)
class SentPart:
    """One part as the ledger records it."""

    address: str
    text: str
    state: str
    attempts: int


def session_key_for(number: int) -> str:
    """Return the key of the session that writes to the address with this number.

    The session has no home, so its notices are not sent anywhere.
    """
    return f"main:conformance:{number}"


def write_messages(ledger: Path, texts: Mapping[str, Sequence[str]]) -> None:
    """Record texts as messages that an agent has said and that are not yet sent.

    `texts`: the texts for each address, in order. The addresses take turns.
    """
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with Store.open_sync(ledger) as store:
        longest = max(map(len, texts.values()))
        for index in range(longest):
            for number, (address, address_texts) in enumerate(texts.items()):
                if index < len(address_texts):
                    store.write_sync(_say_message, number, address, address_texts[index])


def _say_message(tx: Tx, number: int, address: str, text: str) -> None:
    session = open_session(tx, Addressee(session_key_for(number), "main", None))
    dest = f"{CHANNEL_NAME}:{address}"
    op = {"kind": "post", "session": session.key, "address": address, "text": text}
    statement = claims.ClaimRequest(
        "tool", text, dest, is_home=False, legs=(Leg(0, len(text), CHANNEL_NAME, dest, op),)
    )
    claim = claims.say(tx, claims.Caller(session.id, session.key, None, None), statement)
    demand(claim.outcome == "said", f"{text!r} was {claim.outcome}: {claim.reason}")


def read_parts(ledger: Path) -> list[SentPart]:
    """Return all parts, in the order in which they were said."""
    with Store.open_sync(ledger) as store:
        rows = store.read_sync(parts.list_newest, None, MAX_ROWS)
    return [
        SentPart(row["dest"].partition(":")[2], row["text"], row["state"], row["attempts"])
        for row in sorted(rows, key=lambda row: row["id"])
    ]


def read_notices(ledger: Path, number: int) -> list[str]:
    """Return the texts of the notices in the session for the address with this number."""

    def look(tx: Tx) -> list[str]:
        row = tx.one(SessionRow, "session_by_key", key=session_key_for(number))
        if row is None:
            return []
        rows = tx.all(EntryRow, "entries_last", session=row.id, before=2**53, limit=MAX_ROWS)
        return [str(entry.text) for entry in reversed(rows) if entry.role == "notice"]

    with Store.open_sync(ledger) as store:
        return store.read_sync(look)


def read_cursor(ledger: Path) -> str | None:
    """Return the channel's cursor; None if it has none."""

    def look(tx: Tx) -> Any:
        return tx.value(str, "cursor_get", source=f"channel:{CHANNEL_NAME}")

    with Store.open_sync(ledger) as store:
        cursor = store.read_sync(look)
    return None if cursor is None else str(cursor)


def check_books(ledger: Path) -> None:
    """Check the books, as `semel doctor` does. Raises ConformanceError if one does not balance."""
    with Store.open_sync(ledger) as store:
        broken = [book for book in store.read_sync(books.audit) if not book.ok]
    details = "; ".join(f"{book.law} ({book.what}): {book.broken[:3]}" for book in broken)
    demand(not broken, f"the books do not balance: {details}")
