"""The evidence that the person who waited can see a turn's end (Law 12).

If a turn would end without anything that they can see, a notice says so (`turn.empty`). So each finished turn names
what they can see:

- `said`, `asked`, `echo`: the claim of words of its agent at home, of a question, or of words that were shown before;
- `recorded`: such a claim, where the home is a chat on no channel that is configured: only the transcript has it;
- `notice`: the entry of Semel's notice about the end;
- `stopped`: the entry by which they stopped it themselves, which is answered where they wrote it;
- `quiet`: nothing, as nobody waits: only a heartbeat asked, and its agent may say so (`row`: the claim, if it did);
- `deleted`: nothing, as its session is deleted;
- `imported`: nothing here: the turn ran in another ledger, which has the evidence.

A reaction, an edit, words for somewhere else and what was refused are no answer to the person who waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from semel.ledger.delivery import claims
from semel.ledger.delivery.cutting import cut, is_local
from semel.ledger.storage.rows import ClaimRow, EvidenceKind, Row, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx

_ANSWERS = frozenset({"text", "file", "ask"})  # kinds of claims that people read as an answer


class PartsFallen(Row):
    """How many parts a claim has, and whether each was refused or given up (NULL without parts)."""

    n: int
    fallen: int | None


@dataclass(frozen=True)
class Evidence:
    """`row`: the id of a claim, or the seq of an entry of the turn's session."""

    kind: EvidenceKind
    row: int | None = None


def find_evidence(tx: Tx, session: SessionRow, turn: TurnRow) -> Evidence | None:
    """The newest claim of the turn's root that its person can see, behind the last message that asked for it."""
    last_asked = tx.value(int, "turn_asked_last", turn=turn.id) or 0
    for claim in reversed(tx.all(ClaimRow, "claims_of_root", root=turn.root)):
        if claim.how == "notice" or claim.kind not in _ANSWERS or claim.outcome not in ("said", "echo"):
            continue
        original = tx.one(ClaimRow, "claim_get", id=claim.echo_of) if claim.outcome == "echo" else claim
        if original is None or original.outcome != "said" or not _is_at_home(original, session):
            continue
        if (original.seq or 0) < last_asked:
            continue
        delivery = _delivery_at_home(tx, original, session)
        if delivery is None:
            continue
        kind: EvidenceKind = "echo" if claim.outcome == "echo" else "asked" if claim.kind == "ask" else "said"
        return Evidence("recorded" if delivery == "recorded" else kind, claim.id)
    return None


def find_quiet(tx: Tx, turn: TurnRow) -> Evidence | None:
    """Evidence of a quiet end, if only heartbeats asked for the turn; None otherwise."""
    if not tx.number("turn_asked_by_heartbeats", turn=turn.id):
        return None
    return Evidence("quiet", tx.value(int, "claim_quiet", root=turn.root, reason=claims.QUIET_REASON))


def _is_at_home(claim: ClaimRow, session: SessionRow) -> bool:
    """Without a home, what a session says at home is said to its own transcript: `session:KEY`."""
    if claim.how == "recovery":
        return True
    if session.home is None:
        return str(claim.dest or "").startswith("session:")
    return bool(claim.dest == session.home)


def _delivery_at_home(tx: Tx, claim: ClaimRow, session: SessionRow) -> Literal["delivered", "recorded"] | None:
    """How far a claim got at home. None: its person cannot see it, as it never left for their chat or was refused
    there.
    """
    if session.home is None or is_local(session.home):
        return "delivered"
    parts = tx.one(PartsFallen, "parts_fallen", claim=claim.id)
    if parts is not None and parts.n:
        return None if parts.fallen else "delivered"
    return None if cut(tx, session.home, session.key, claim.text) else "recorded"
