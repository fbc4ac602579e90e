"""Find the evidence that the person who waited can see a turn's end (Law 12).

If a turn would end without anything that this person can see, a notice says so (`turn.empty`). So each finished turn
has recorded evidence, of one of these kinds:

- `said`: the claim of a text or a file of the agent, at home;
- `asked`: the claim of a question of the agent, at home;
- `echo`: a claim that repeated a text or a file that was shown before;
- `recorded`: one of these claims, but the home is on no configured channel, so only the transcript has it;
- `notice`: the entry of Semel's notice about the end;
- `stopped`: the entry by which the person stopped the turn (that command is answered where they wrote it);
- `quiet`: nothing, because nobody waits: only heartbeats asked for the turn (`row`: the agent's quiet claim, if any);
- `deleted`: nothing, because the session was deleted;
- `imported`: nothing here, because the turn ran in another ledger, which has the evidence.

A reaction, an edit, a text for another destination and a refused claim do not count as an answer to the person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from semel.law.echo import ClaimWay
from semel.ledger.delivery import claims
from semel.ledger.delivery.cutting import cut, is_local
from semel.ledger.storage.rows import ClaimRow, EvidenceKind, Row, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.turns.ending import Ending

_ANSWERS = frozenset({"text", "file", "ask"})  # kinds of claims that people read as an answer


class PartOutcomes(Row):
    """The number `n` of a claim's parts. `fallen`: 1 if none of them is left: all were rejected or dropped."""

    n: int
    fallen: int


@dataclass(frozen=True)
class Evidence:
    """The evidence of a turn's end. `row`: the id of a claim, or the seq of an entry, as `kind` demands."""

    kind: EvidenceKind
    row: int | None = None


def find_evidence(tx: Tx, session: SessionRow, ending: Ending) -> Evidence | None:
    """Return the newest claim of the turn's root that its person can see at home, as evidence; None if there is none.

    The claim must be newer than the last message that asked for the turn.
    """
    turn, last_asked = ending.turn, ending.last_asked
    if _is_seen_last(session, ending):
        return Evidence("asked" if turn.last_kind == "ask" else "said", turn.last_claim)
    for claim in reversed(tx.all(ClaimRow, "claims_of_root", root=turn.root)):
        if claim.how == "notice" or claim.kind not in _ANSWERS or claim.outcome not in ("said", "echo"):
            continue
        original = tx.one(ClaimRow, "claim_get", id=claim.echo_of) if claim.outcome == "echo" else claim
        if original is None or original.outcome != "said" or not _is_at_home(original.how, original.dest, session):
            continue
        if (original.seq or 0) < last_asked:
            continue
        delivery = _delivery_at_home(tx, original, session)
        if delivery is None:
            continue
        kind: EvidenceKind = "echo" if claim.outcome == "echo" else "asked" if claim.kind == "ask" else "said"
        return Evidence("recorded" if delivery == "recorded" else kind, claim.id)
    return None


def find_fallen(tx: Tx, session: SessionRow, ending: Ending) -> int | None:
    """Return the newest text or file of the turn's root that was to be sent home, if no part of it is left.

    It is no evidence: all its parts were rejected or dropped. Return None if there is none. Call this for a turn
    without evidence.
    """
    for claim in reversed(tx.all(ClaimRow, "claims_of_root", root=ending.turn.root)):
        if claim.how == "notice" or claim.kind not in _ANSWERS - {"ask"} or claim.outcome != "said":
            continue
        if not _is_at_home(claim.how, claim.dest, session) or (claim.seq or 0) < ending.last_asked:
            continue
        parts = tx.one(PartOutcomes, "parts_fallen", claim=claim.id)
        if parts is not None and parts.n and parts.fallen:
            return claim.id
    return None


def find_quiet(tx: Tx, turn: TurnRow) -> Evidence | None:
    """Return the evidence of a quiet end if only heartbeats asked for the turn, else None."""
    if not tx.number("turn_asked_by_heartbeats", turn=turn.id):
        return None
    return Evidence("quiet", tx.value(int, "claim_quiet", root=turn.root, reason=claims.QUIET_REASON))


def _is_seen_last(session: SessionRow, ending: Ending) -> bool:
    """Return whether the newest claim of the turn's root is an answer that needs no delivery: then nothing is read."""
    turn = ending.turn
    return (
        turn.last_outcome == "said"
        and turn.last_how != "notice"
        and turn.last_kind in _ANSWERS
        and is_local(session.home)
        and _is_at_home(turn.last_how, turn.last_dest, session)
        and (turn.last_seq or 0) >= ending.last_asked
        and not turn.has_live_entries  # each of them becomes a claim, too
    )


def _is_at_home(how: ClaimWay | None, dest: str | None, session: SessionRow) -> bool:
    """Return whether a claim was made at its session's home. A session without a home has its transcript instead."""
    if how == "recovery":
        return True
    if session.home is None:
        return str(dest or "").startswith("session:")
    return dest == session.home


def _delivery_at_home(tx: Tx, claim: ClaimRow, session: SessionRow) -> Literal["delivered", "recorded"] | None:
    """Return how a claim reached the session's home; None if the person there cannot see it.

    They cannot see it if it was not sent to their chat, or if all its parts were rejected or dropped.
    """
    if session.home is None or is_local(session.home):
        return "delivered"
    parts = tx.one(PartOutcomes, "parts_fallen", claim=claim.id)
    if parts is not None and parts.n:
        return None if parts.fallen else "delivered"
    return None if cut(tx, session.home, session.key, claim.text) else "recorded"
