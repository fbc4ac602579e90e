"""What was said before: for an agent that continues, or that lost its memory (Laws 4, 9)."""

from __future__ import annotations

from semel.ledger.sql import Tx

STRETCH = 200  # entries looked back over for an agent without memory


def said_in_root(tx: Tx, root: int, home: str | None) -> list[str]:
    """The texts that earlier attempts of a root said to the home."""
    rows = tx.all("claims_of_root", root=root)
    return [r.text for r in rows if r.outcome == "said" and r.text and (r.dest == home or r.how == "recovery")]


def unsent(tx: Tx, root: int, home: str) -> tuple[int, str] | None:
    """(claim, text) of what a root said last, if it was said to its home and never left for there.

    Where only closing texts leave, what a lost attempt said did not. If the attempt after it has nothing to add,
    that was the closing text.
    """
    rows = [
        r for r in tx.all("claims_of_root", root=root) if r.outcome == "said" and r.kind == "text" and r.text.strip()
    ]
    mine = [r for r in rows if r.dest == home or r.how == "recovery"]
    if not mine or tx.value("part_first", claim=mine[-1].id) is not None:
        return None
    return int(mine[-1].id), str(mine[-1].text)


def conversation(tx: Tx, session: int, chapter: int, turn: int) -> list[tuple[str, str]]:
    """(role, text) of this chapter before a turn, in order of turns: each turn's bound events, then what it said.

    Law 4: the record is in order of hearing, a prompt's history in order of turns.
    """
    row = tx.one("session_by_id", id=session)
    assert row is not None
    rows = tx.all("entries_before", session=session, chapter=chapter, before=row.seq + 1, limit=STRETCH)
    keyed = []
    latest = 0
    for e in reversed(rows):  # what no turn owns stands behind the turn before it
        of = e.bound if e.event is not None else (e.turn or latest)
        if of is None or of == turn:
            continue
        latest = max(latest, of)
        keyed.append(((of, 0 if e.event is not None else 1, e.seq), (e.role, e.text)))
    return [pair for _, pair in sorted(keyed)]
