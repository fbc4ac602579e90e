"""Cut a text into the parts in which it leaves. Homes where the commit is the delivery need none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries


@dataclass(frozen=True)
class Leg:
    """A part before it is recorded. It covers text[lo:hi] of the claim; `op` is the channel operation (ports.Op).

    `fill` in `op`: edit the root's placeholder into this text (`semel.ledger.delivery.placeholders`).
    """

    lo: int
    hi: int
    channel: str
    dest: str
    op: dict[str, Any]


def cut(
    tx: Tx, dest: str, key: str, text: str, answer: bool = False, file: dict[str, Any] | None = None
) -> tuple[Leg, ...]:
    """The parts in which a text leaves for `dest`; none if the commit delivers it or its channel is not configured.

    `answer`: a turn says it at its home, so it may fill a placeholder there. `file`: leaves instead of a text.
    """
    if tx.cut is not None:
        return tx.cut(dest, key, text, answer, file)
    return () if is_local(dest) else uncut(dest, key, text)


def cut_claim(tx: Tx, session: Row, claim: Row) -> tuple[Leg, ...]:
    """The parts in which a claim made at the session's home leaves, as an answer."""
    entry = tx.one("entry_get", session=claim.session, seq=claim.seq) if claim.kind == "file" else None
    file = next(iter(entries.load(entry.more).get("files", ())), None) if entry is not None else None
    return cut(tx, session.home, session.key, claim.text, answer=True, file=file)


def uncut(dest: str, key: str, text: str) -> tuple[Leg, ...]:
    channel, _, address = dest.partition(":")
    op = {"kind": "post", "session": key, "address": address, "text": text}
    return (Leg(0, len(text), channel, dest, op),)


LOCAL = ("web", "terminal", "session")  # channels to which the commit itself delivers


def is_local(home: str | None) -> bool:
    """Whether the commit itself delivers to this home: a page, a terminal, or the transcript."""
    channel, _, address = (home or "").partition(":")
    return not address or channel in LOCAL
