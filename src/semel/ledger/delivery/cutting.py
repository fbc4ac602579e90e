"""How what is said is cut into the parts that it leaves in, and where the commit delivers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries


@dataclass(frozen=True)
class Leg:
    """One part to be: it covers text[lo:hi] of the claim. `op` is what the channel is given (ports.Op).

    `fill` in `op`: the message that is reserved for the root becomes this text (`semel.ledger.delivery.placeholders`).
    """

    lo: int
    hi: int
    channel: str
    dest: str
    op: dict[str, Any]


def cut(
    tx: Tx, dest: str, key: str, text: str, answer: bool = False, file: dict[str, Any] | None = None
) -> tuple[Leg, ...]:
    """The parts in which a text leaves for there; none where the commit delivers, or by no channel that is configured.

    `answer`: a turn says it at its home; it may fill what is reserved there. `file`: it leaves instead of a text.
    """
    if tx.cut is not None:
        return tx.cut(dest, key, text, answer, file)
    return () if is_local(dest) else uncut(dest, key, text)


def cut_claim(tx: Tx, session: Row, claim: Row) -> tuple[Leg, ...]:
    """The parts in which what was said at home leaves from there, as an answer."""
    entry = tx.one("entry_get", session=claim.session, seq=claim.seq) if claim.kind == "file" else None
    file = next(iter(entries.load(entry.more).get("files", ())), None) if entry is not None else None
    return cut(tx, session.home, session.key, claim.text, answer=True, file=file)


def uncut(dest: str, key: str, text: str) -> tuple[Leg, ...]:
    channel, _, address = dest.partition(":")
    op = {"kind": "post", "session": key, "address": address, "text": text}
    return (Leg(0, len(text), channel, dest, op),)


LOCAL = ("web", "terminal", "session")  # homes whose delivery is the commit


def is_local(home: str | None) -> bool:
    """Whether what is recorded is delivered there by that."""
    channel, _, address = (home or "").partition(":")
    return not address or channel in LOCAL
