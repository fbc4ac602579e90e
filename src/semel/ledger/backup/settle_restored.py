"""Settle a ledger that was restored from a copy: more may have happened since the copy than it knows (Law 14).

`settle` is one transaction, before anything is accepted or sent. Nothing that may have happened since the copy is
repeated by itself: queued parts become unknown, turns that ran or were due are over, and people and agents are told
once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from semel.law import delivery as law
from semel.law import turn as turn_law
from semel.ledger.delivery import claims, part_transitions, parts, placeholders
from semel.ledger.delivery.cutting import is_local
from semel.ledger.delivery.part_transitions import Move
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.ledger.transcript.views import LIFE_BITS
from semel.ledger.turns import turns
from semel.ledger.turns.end_evidence import Evidence

KIND = "restored"
"""The kind of the notices about a restore."""
RECENT_MS = 7 * 24 * 3600 * 1000
"""A chat with an entry in this time before the copy gets the notice even if nothing there is in doubt."""
SKIPPED_OPTION_NUMBERS = 10_000
"""Option numbers that each session skips: people may have been shown them since the copy (Law 13)."""
PAGE = 1000  # sessions settled at a time


@dataclass(frozen=True)
class Restored:
    """`copied`: when the copy was made, as far as known; `at`: when it was settled (ms). The rest: what is in doubt."""

    incarnation: int
    copied: int
    at: int
    parts: int
    unanswered: int
    sessions: int


@dataclass
class _Doubt:
    """What may have happened in one session since the copy."""

    parts: int = 0
    held: int = 0
    turn: Row | None = None  # the turn that takes all running and waiting events
    unanswered: int = 0
    commands: list[int] = field(default_factory=list)  # events

    def __bool__(self) -> bool:
        return bool(self.parts or self.held or self.turn or self.commands)


def is_copy(tx: Tx) -> bool:
    """Whether this ledger was put back and is not settled yet."""
    row = tx.one("ledger_get")
    return row is not None and row.copied is not None


def last(tx: Tx) -> int:
    """When the last restore was settled (ms), 0 if never: what people did before may already have been answered."""
    row = tx.one("restore_last")
    return 0 if row is None else int(row.at)


def settle(tx: Tx) -> Restored | None:
    """Settle a restored ledger, once. None if it is not a copy."""
    ledger = tx.one("ledger_get")
    if ledger is None or ledger.copied is None:
        return None
    since = int(ledger.copied)
    incarnation = int(tx.value("restore_add", at=tx.now))
    tx.run("ledger_settled", incarnation=incarnation)
    _forget_memories(tx, incarnation)
    doubts: dict[int, _Doubt] = {}
    _let_go_reserved(tx)
    _doubt_parts(tx, since, doubts)
    _end_turns(tx, doubts)
    _note_commands(tx, doubts)
    for code in tx.all("pairings_open"):
        tx.run("pairing_end", id=code.id, state="void", account=None, key=None, name=None)
    told = _tell(tx, since, doubts)
    return Restored(
        incarnation, since, tx.now, sum(d.parts for d in doubts.values()),
        sum(d.unanswered + len(d.commands) for d in doubts.values()), told,
    )  # fmt: skip


def _forget_memories(tx: Tx, incarnation: int) -> None:
    after = 0
    while rows := tx.all("sessions_page", after=after, limit=PAGE):
        rev = (incarnation - 1) << LIFE_BITS
        tx.run("sessions_put_back", first=rows[0].id, last=rows[-1].id, rev=rev, numbers=SKIPPED_OPTION_NUMBERS)
        after = rows[-1].id


# ---------------------------------------------------------------- what was on its way


def _let_go_reserved(tx: Tx) -> None:
    """Hold placeholders: one says nothing, but may hold the whole answer by now, so it is neither filled nor
    removed."""
    for found in tx.all("reserved_all"):
        tx.run("claim_because", id=found.id, reason=placeholders.WITHDRAWN)
        row = parts.get(tx, found.part)
        if row.state in law.IN_LINE:
            move = Move.of(row)
            for event in (*law.doubted(move.state), "hold"):
                move.take(event)
            part_transitions.write(tx, move)


def _doubt_parts(tx: Tx, since: int, doubts: dict[int, _Doubt]) -> None:
    """Each may have left since the copy was made: its channel's class decides."""
    for found in tx.all("parts_in_line"):
        tx.run("part_doubted", id=found.id, since=since)
        row = parts.get(tx, found.id)
        move = Move.of(row)
        for event in law.doubted(move.state):
            move.take(event)
        move.due, move.error = tx.now, f"the ledger was restored from a copy of {utc(since)}: this may be sent already"
        part_transitions.write(tx, move)
        doubts.setdefault(row.session, _Doubt()).parts += move.says


# ---------------------------------------------------------------- what ran, or was due to


def _end_turns(tx: Tx, doubts: dict[int, _Doubt]) -> None:
    """End running and waiting work: it may have been answered since the copy, so none of it is begun by itself.

    In each session one turn takes all of it, and ends with the notice that says so (Law 12).
    """
    for found in tx.all("session_busy"):
        turn = tx.one("turn_get", id=found.turn)
        assert turn is not None
        turns.close_entries(tx, found.id, turn.id)
        for item in tx.all("items_live", session=found.id):
            entries.set_item(tx, item.id, live=False, body=turns.interrupted(item))
        doubts.setdefault(found.id, _Doubt()).turn = turn
        doubts[found.id].unanswered = 1
    due = [found.id for found in tx.all("session_due")]
    for session in {*due, *(session for session, doubt in doubts.items() if doubt.turn is not None)}:
        row, doubt = tx.one("session_by_id", id=session), doubts.setdefault(session, _Doubt())
        assert row is not None
        if doubt.turn is None:
            doubt.turn = turns.add(tx, row, KIND, root=None, attempt=1)
        doubt.unanswered += tx.run("hearing_bind", session=session, turn=doubt.turn.id)
        tx.run("session_clear_wake", id=session)
        # At once: a notice there would let the turn's last text leave before it, and that may have left since.
        tx.run("session_idle", id=session, turn=doubt.turn.id)
        for heard in tx.all("hearing_shown_waiting", turn=doubt.turn.id):
            entries.set_entry(tx, session, heard.seq, more={"waiting": None})


def _fail(tx: Tx, turn: Row, since: int, notice: int) -> None:
    why = f"the ledger was put back from a copy of {utc(since)}: the turn may have been answered since"
    state = turn_law.step("running", "given up")
    seen = Evidence("notice", notice)
    tx.run(
        "turn_end", id=turn.id, state=state, stop=None, error=why, at=tx.now, evidence=seen.kind, row=seen.row
    )  # fmt: skip
    entries.touch_session(tx, turn.session)


def _note_commands(tx: Tx, doubts: dict[int, _Doubt]) -> None:
    for found in tx.all("commands_left"):
        asked = tx.all("commands_open", session=found.session)
        doubts.setdefault(found.session, _Doubt()).commands += [int(row.event) for row in asked]


# ---------------------------------------------------------------- what people and agents are told


def _tell(tx: Tx, since: int, doubts: dict[int, _Doubt]) -> int:
    """Add one notice in each session, sent where people may miss something. Returns the number of sessions told."""
    told, homes, after = 0, set[str](), 0
    for session in doubts:
        doubts[session].held = int(tx.value("parts_held_of", session=session))
    while rows := tx.all("sessions_page", after=after, limit=PAGE):
        for found in rows:
            row = tx.one("session_by_id", id=found.id)
            assert row is not None
            if row.deleted is None and row.seq > 0:
                told += 1
                _tell_session(tx, row, since, doubts.get(row.id, _Doubt()), homes)
        after = rows[-1].id
    return told


def _tell_session(tx: Tx, row: Row, since: int, doubt: _Doubt, homes: set[str]) -> None:
    text = notice(since, tx.now, doubt.parts, doubt.unanswered + len(doubt.commands), doubt.held)
    of = doubt.turn.id if doubt.turn is not None else None
    newest = tx.one("entry_get", session=row.id, seq=row.seq)
    recent = newest is not None and newest.at >= since - RECENT_MS
    leaves = not is_local(row.home) and (bool(doubt) or (recent and row.home not in homes))
    if leaves:
        homes.add(row.home)
        seq = claims.announce(tx, row, text, turn=doubt.turn, kind=KIND, tell=True)
    elif row.home in homes and not doubt:
        return  # it was told together with another session of that home
    else:
        seq = entries.add_entry(tx, row.id, role="notice", text=text, turn=of, tell=True, more={"kind": KIND})
    if doubt.turn is not None:
        _fail(tx, doubt.turn, since, seq)
    for event in doubt.commands:
        tx.run("command_done", event=event, session=row.id, answer=seq)


def notice(since: int, now: int, parts: int, unanswered: int, held: int = 0) -> str:
    """The text for a session. It states only what is known: nothing about what happened after the copy."""
    lines = [
        f"On {utc(now)} the record of this conversation was put back to its state of {utc(since)}. "
        "Messages from between these times may be missing from it."
    ]
    if parts:
        lines.append(
            f"{_many(parts, 'message')} may have reached you already and {'is' if parts == 1 else 'are'} not "
            "sent again without a check."
        )
    if unanswered:
        lines.append(
            f"{_many(unanswered, 'request')} may have been answered already and "
            f"{'is' if unanswered == 1 else 'are'} not started again: if you got no answer, ask again."
        )
    if held:
        lines.append(f"{_many(held, 'message')} that had been held for a decision may have been sent in the meantime.")
    return " ".join(lines)


def _many(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def utc(at: int) -> str:
    """Milliseconds since the Unix epoch as people read it."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at / 1000))
