"""Erase old content step by step (docs/retention.md): texts, tool output and files.

The rows that the laws count stay, as after the deletion of a session (`semel.ledger.admin.erase`). A session loses its
content from the beginning, entry by entry. Erasing stops before the first entry that is too new or still needed. Each
step is one short transaction, after which all books hold, so a crash between two steps needs no clean-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from semel.ledger.admin import erase
from semel.ledger.storage.rows import Row, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries

ENTRIES_PER_STEP = 256
TURNS_PER_STEP = 32
ITEMS_PER_STEP = 16
CLAIMS_PER_STEP = 512
EVENTS_PER_STEP = 256

Reason = Literal["a message waits", "a command has no answer", "a turn runs", "a message to a platform is not settled"]
"""Why content stays though it is old enough."""


class AgingSession(Row):
    """A session that is not deleted, and so may have old content."""

    id: int
    key: str
    home: str | None


class LoneClaim(Row):
    """A claim. `lone`: 1 if it has neither an entry nor a turn, and was not erased."""

    id: int
    at: int
    lone: int
    text: str


class AgingSize(Row):
    """The number of entries in a range that still have content, and the sizes of their texts and files in bytes."""

    entries: int
    bytes: int
    file_bytes: int


@dataclass(frozen=True)
class Boundary:
    """The limit of an erasure: `seq` is the last entry whose content may be erased.

    `stopped_by`: why the next entry is still needed; None if the next entry is too new, or if there is none.
    """

    seq: int
    stopped_by: Reason | None


@dataclass(frozen=True)
class AgingPlan:
    """A preview of the next run for one session: it will erase the content of entries up to `seq`, of size `size`.

    `key`: the session's key. `stopped_by`: why the run keeps the next old entry; None if it keeps no old entry.
    """

    key: str
    seq: int
    size: AgingSize
    stopped_by: Reason | None


def list_sessions(tx: Tx, after: int, limit: int) -> list[AgingSession]:
    """Return a page of the sessions that are not deleted, ordered by id. `after`: the last id of the previous page."""
    return tx.all(AgingSession, "sessions_to_age", after=after, limit=limit)


def plan_session(tx: Tx, session: int, retain_ms: int) -> AgingPlan | None:
    """Return a preview of the next run for a session.

    Return None if the run would erase nothing and no old entry is still needed. Content is old after `retain_ms`
    milliseconds.
    """
    row = tx.get(SessionRow, "session_by_id", id=session)
    boundary = _find_boundary(tx, row, tx.now - retain_ms, row.seq)
    size = tx.get(AgingSize, "age_size", session=session, lo=row.erased, hi=boundary.seq)
    if not size.entries and boundary.stopped_by is None:
        return None
    return AgingPlan(row.key, boundary.seq, size, boundary.stopped_by)


def age_step(tx: Tx, session: int, retain_ms: int) -> bool:
    """Erase the next piece of a session's content that is older than `retain_ms`.

    Return True if another call may find more to erase.
    """
    row = tx.get(SessionRow, "session_by_id", id=session)
    if row.deleted is not None or tx.one(erase.Erasure, "erasure_get", session=session) is not None:
        return False  # all of it goes
    before = tx.now - retain_ms
    seq = _find_boundary(tx, row, before, min(row.seq, row.erased + ENTRIES_PER_STEP)).seq
    if seq > row.erased:
        _erase_entries(tx, row, seq)
    epoch, turns_left = _erase_turns(tx, row, seq, before)
    claim, claims_left = _erase_lone_claims(tx, row, before)
    if (seq, epoch, claim) == (row.erased, row.aged_epoch, row.aged_claim) and not turns_left:
        return False
    rev = tx.number("age_next_born", session=session, seq=seq) - 1
    tx.run("age_set", id=session, seq=seq, rev=rev, epoch=epoch, claim=claim)
    if row.summary is not None and row.summary <= seq:
        tx.run("session_set_summary", id=session, seq=None)
    entries.touch_session(tx, session)
    return seq > row.erased or turns_left or claims_left


def _find_boundary(tx: Tx, row: SessionRow, before: int, max_seq: int) -> Boundary:
    """Find the last entry, up to the seq `max_seq`, that is older than `before` (ms) and not needed any more."""
    first_kept = tx.value(int, "age_first_kept", session=row.id, lo=row.erased, hi=max_seq, before=before)
    seq: int = max_seq if first_kept is None else first_kept - 1
    reason: Reason | None = None
    for first, why in _list_needed(tx, row, seq):
        if first is not None and first <= seq:
            seq, reason = first - 1, why
    return Boundary(max(seq, row.erased), reason)


def _list_needed(tx: Tx, row: SessionRow, seq: int) -> list[tuple[int | None, Reason]]:
    """Return each reason to keep entries, with the seq of the first entry that must be kept for it (None: no entry)."""
    outgoing = tx.value(int, "age_outgoing", session=row.id, lo=row.erased, hi=seq)
    needed: list[tuple[int | None, Reason]] = [
        (tx.value(int, "age_waiting", session=row.id), "a message waits"),
        (tx.value(int, "age_command", session=row.id), "a command has no answer"),
        (outgoing, "a message to a platform is not settled"),
    ]
    turn = tx.one(TurnRow, "turn_get", id=row.turn) if row.turn is not None else None
    if turn is not None:
        needed.append((tx.value(int, "age_heard_in_root", root=turn.root), "a turn runs"))
        needed.append((tx.value(int, "age_said_in_root", root=turn.root), "a turn runs"))
    return needed


def _erase_entries(tx: Tx, row: SessionRow, seq: int) -> None:
    """Erase the next entries up to `seq`, with their claims, parts, events and files."""
    _erase_claims(tx, tx.pairs(int, str, "age_claims", session=row.id, lo=row.erased, hi=seq))
    erase.erase_entry_range(tx, row.id, row.erased, seq)


def _erase_claims(tx: Tx, claims: list[tuple[int, str]]) -> bool:
    """Erase claims, given as (id, text), with their parts. Return False if a claim had to stay.

    A claim stays if one of its parts is still on its way to a platform.
    """
    all_erased = True
    for claim, text in claims:
        if erase.erase_parts(tx, claim):
            tx.run("erase_claim", id=claim, size=len(text))
        else:
            all_erased = False
    return all_erased


def _erase_turns(tx: Tx, row: SessionRow, seq: int, before: int) -> tuple[int, bool]:
    """Erase the remaining content of old turns: claims without an entry, items, tool output and the content of jobs.

    A turn is erased only if it ended before `before` (ms) and its entries, up to `seq`, are erased. Return the epoch of
    the last erased turn, and True if another call may erase more.
    """
    epoch = row.aged_epoch
    turns = tx.all(TurnRow, "age_turns", session=row.id, limit=TURNS_PER_STEP)
    for turn in turns:
        is_over = turn.ended is not None and turn.ended < before
        if not is_over or tx.number("age_turn_last_seq", turn=turn.id, session=row.id) > seq:
            return epoch, False
        if not _erase_claims(tx, tx.pairs(int, str, "age_turn_claims", root=turn.root, turn=turn.id)):
            return epoch, False
        if not _erase_items(tx, row.id, turn.id):
            return epoch, True
        tx.run("age_turn", id=turn.id)
        tx.run("age_jobs", session=row.id, turn=turn.id)
        epoch = turn.epoch
    return epoch, len(turns) == TURNS_PER_STEP


def _erase_items(tx: Tx, session: int, turn: int) -> bool:
    """Erase some of a turn's items and their output. Return True if the turn has no items left to erase."""
    items = tx.values(int, "age_turn_items", turn=turn, session=session, limit=ITEMS_PER_STEP)
    for item in items:
        tx.run("erase_outputs", item=item, limit=erase.ROWS_PER_STEP)
        tx.run("erase_item", id=item)
    return not items or not tx.values(int, "age_turn_items", turn=turn, session=session, limit=1)


def _erase_lone_claims(tx: Tx, row: SessionRow, before: int) -> tuple[int, bool]:
    """Erase the session's claims that are older than `before` (ms) and have neither an entry nor a turn.

    Return the id of the last claim examined, and True if another call may erase more.
    """
    claims = tx.all(LoneClaim, "age_lone_claims", session=row.id, after=row.aged_claim, limit=CLAIMS_PER_STEP)
    last = row.aged_claim
    for claim in claims:
        if claim.at >= before or (claim.lone and not _erase_claims(tx, [(claim.id, claim.text)])):
            return last, False
        last = claim.id
    return last, len(claims) == CLAIMS_PER_STEP


def age_unreadable(tx: Tx, channel: str, retain_ms: int) -> bool:
    """Erase quarantined events of a channel that are older than `retain_ms`.

    Return True if another call may erase more.
    """
    source = f"retain:{channel}"
    after = int(tx.value(str, "cursor_get", source=source) or 0)
    events = tx.values(
        int, "age_unreadable", channel=channel, after=after, before=tx.now - retain_ms, limit=EVENTS_PER_STEP
    )
    for event in events:
        tx.run("age_event", id=event, at=tx.now)
        tx.run("age_event_conflicts", id=event)
    if events:
        tx.run("cursor_set", source=source, value=str(events[-1]), at=tx.now)
    return len(events) == EVENTS_PER_STEP
