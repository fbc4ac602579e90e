"""Settle a ledger that was restored from a backup, because more may have happened since the backup than it knows (Law
14).

`settle_copy` is one transaction, which runs before anything is accepted or sent. Nothing that may have happened since
the backup is repeated automatically: queued parts become unknown, turns that were running or due are ended, and people
and agents are told once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.law import delivery as law
from semel.law import turn as turn_law
from semel.ledger import people
from semel.ledger.delivery import claims, part_transitions, parts, placeholders, reservations
from semel.ledger.delivery.cutting import is_local
from semel.ledger.delivery.part_transitions import PartMove
from semel.ledger.storage.rows import EntryRow, HomeSession, LedgerRow, OpenCommand, RestoreRow, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.transcript.views import LIFE_BITS
from semel.ledger.turns import close_output, turns, withdrawals
from semel.ledger.turns.end_evidence import Evidence
from semel.ledger.turns.turns import WaitingEntry
from semel.timing.walltime import format_utc

KIND = "restored"
"""The kind of the notices about a restore."""
RECENT_MS = 7 * 24 * 3600 * 1000
"""A chat in which nothing is in doubt still gets the notice if its newest entry is at most this much older than the
backup."""
SKIPPED_OPTION_NUMBERS = 10_000
"""Option numbers that each session skips: people may have been shown them since the backup (Law 13)."""
PAGE = 1000  # sessions settled at a time


@dataclass(frozen=True)
class SettledRestore:
    """The result of `settle_copy`.

    `copied`: when the backup was made, as far as known; `at`: when it was settled (ms). `parts`: how many messages may
    have been sent since the backup. `unanswered`: how many events, commands and running turns may have been answered
    since. `sessions`: how many sessions were told.
    """

    incarnation: int
    copied: int
    at: int
    parts: int
    unanswered: int
    sessions: int


@dataclass
class _SessionDoubts:
    """The facts about one session that are in doubt, because they may have changed since the backup."""

    parts: int = 0
    held: int = 0
    turn: TurnRow | None = None  # the turn that takes all running and waiting events
    unanswered: int = 0
    commands: list[int] = field(default_factory=list)  # their events

    def __bool__(self) -> bool:
        return bool(self.parts or self.held or self.turn or self.commands)


def is_unsettled_copy(tx: Tx) -> bool:
    """Return whether this ledger was restored from a backup and is not settled yet."""
    row = tx.one(LedgerRow, "ledger_get")
    return row is not None and row.copied is not None


def last_settled_at(tx: Tx) -> int:
    """Return when the last restore was settled (ms); 0 if the ledger was never restored.

    Anything that people did before that time may already have been answered.
    """
    row = tx.one(RestoreRow, "restore_last")
    return 0 if row is None else row.at


def settle_copy(tx: Tx) -> SettledRestore | None:
    """Settle a restored ledger, once. Return a summary of what was in doubt; None if there is no restore to settle."""
    ledger = tx.one(LedgerRow, "ledger_get")
    if ledger is None or ledger.copied is None:
        return None
    since = int(ledger.copied)
    incarnation = tx.number("restore_add", at=tx.now)
    tx.run("ledger_settled", incarnation=incarnation)
    _reset_sessions(tx, incarnation)
    doubts: dict[int, _SessionDoubts] = {}
    _withdraw_placeholders(tx)
    _mark_parts_unknown(tx, since, doubts)
    _end_turns(tx, doubts)
    _collect_commands(tx, doubts)
    for code in tx.all(people.PairingCode, "pairings_open"):
        tx.run("pairing_end", id=code.id, state="void", account=None, key=None, name=None)
    session_count = _notify_sessions(tx, since, doubts)
    return SettledRestore(
        incarnation, since, tx.now, sum(d.parts for d in doubts.values()),
        sum(d.unanswered + len(d.commands) for d in doubts.values()), session_count,
    )  # fmt: skip


def _reset_sessions(tx: Tx, incarnation: int) -> None:
    after, rev = 0, (incarnation - 1) << LIFE_BITS
    while rows := tx.values(int, "sessions_page", after=after, limit=PAGE):
        for session in rows:
            tx.run("session_put_back", id=session, rev=rev, numbers=SKIPPED_OPTION_NUMBERS)
        after = rows[-1]


# ---------------------------------------------------------------- queued parts


def _withdraw_placeholders(tx: Tx) -> None:
    """Withdraw the open placeholders, and drop those of their parts that still wait. Change only the record.

    On the platform, a placeholder may have been filled since the backup: it may now be a message that people have read.
    So it is neither filled nor deleted there.
    """
    for claim, part in tx.pairs(int, int, "reserved_all"):
        tx.run("claim_because", id=claim, reason=placeholders.WITHDRAWN)
        row = parts.get(tx, part)
        if row.state in law.IN_LINE:
            move = PartMove.of(row)
            for event in (*law.events_of_restore(move.state), "hold"):
                move.take(event)
            part_transitions.write_move(tx, move)


def _mark_parts_unknown(tx: Tx, since: int, doubts: dict[int, _SessionDoubts]) -> None:
    """Make queued parts unknown, because they may have been sent since the backup.

    Their channel's safety class decides.
    """
    for part in tx.values(int, "parts_in_line"):
        tx.run("part_doubted", id=part, since=since)
        row = parts.get(tx, part)
        if reservations.is_open(entries.load(row.op)):  # its place may have been reserved and filled since the copy
            reservations.forget(tx, row)
        move = PartMove.of(row)
        for event in law.events_of_restore(move.state):
            move.take(event)
        move.due, move.error = (
            tx.now,
            f"the ledger was restored from a copy of {format_utc(since)}: this may have been sent already",
        )
        part_transitions.write_move(tx, move)
        doubts.setdefault(row.session, _SessionDoubts()).parts += move.carries_claim


# ---------------------------------------------------------------- turns and commands


def _end_turns(tx: Tx, doubts: dict[int, _SessionDoubts]) -> None:
    """End running turns and bind waiting events without starting a turn: all may have been answered since the backup.

    In each of these sessions, one turn gets all waiting events, and `_notify_session` ends that turn with a notice (Law
    12).
    """
    for session_row in tx.all(HomeSession, "session_busy"):
        turn = tx.get(TurnRow, "turn_get", id=session_row.turn)
        close_output.close_entries(tx, session_row.id, turn)
        for item in entries.list_items_of_turns(tx, session_row.id):
            entries.set_item(tx, item.id, live=False, body=close_output.interruption_body(item))
        doubts.setdefault(session_row.id, _SessionDoubts()).turn = turn
        doubts[session_row.id].unanswered = 1
    due = tx.values(int, "session_due")
    for session in {*due, *(session for session, doubt in doubts.items() if doubt.turn is not None)}:
        row, doubt = tx.one(SessionRow, "session_by_id", id=session), doubts.setdefault(session, _SessionDoubts())
        assert row is not None
        if doubt.turn is None:
            doubt.turn = turns.add_turn(tx, row, KIND, root=None, attempt=1)
        doubt.unanswered += tx.count_changed("hearing_bind", session=session, turn=doubt.turn.id)
        tx.run("session_clear_wake", id=session)
        # Before the notice: in a session with a running turn, a notice first sends the turn's last text, which may
        # already have been sent since the copy.
        withdrawals.free_session(tx, row, doubt.turn.id)
        for entry in tx.all(WaitingEntry, "hearing_shown_waiting", turn=doubt.turn.id):
            entries.set_entry(tx, session, entry.seq, more={"waiting": None})


def _fail_turn(tx: Tx, turn: TurnRow, since: int, notice: int) -> None:
    error = f"the ledger was restored from a copy of {format_utc(since)}: the turn may have been answered since"
    state = turn_law.step("running", "given up")
    evidence = Evidence("notice", notice)
    tx.run(
        "turn_end", id=turn.id, state=state, stop=None, error=error, at=tx.now, evidence=evidence.kind,
        row=evidence.row, tokens=None, cost=None,
    )  # fmt: skip
    entries.touch_session(tx, turn.session)


def _collect_commands(tx: Tx, doubts: dict[int, _SessionDoubts]) -> None:
    for session in tx.values(int, "commands_left"):
        open_commands = tx.all(OpenCommand, "commands_open", session=session)
        doubts.setdefault(session, _SessionDoubts()).commands += [row.event for row in open_commands]


# ---------------------------------------------------------------- notices


def _notify_sessions(tx: Tx, since: int, doubts: dict[int, _SessionDoubts]) -> int:
    """Tell each session that the ledger was restored. Return the number of sessions.

    The notice is recorded in the transcript. It is also sent to the session's home on a platform if the session has
    something in doubt, or if its newest entry is recent (RECENT_MS). If two sessions share a home, it gets only one
    notice, unless the second session has doubts of its own. Deleted and empty sessions are skipped.
    """
    session_count, homes, after = 0, set[str](), 0
    for session in doubts:
        doubts[session].held = tx.number("parts_held_of", session=session)
    while rows := tx.values(int, "sessions_page", after=after, limit=PAGE):
        for session in rows:
            row = tx.get(SessionRow, "session_by_id", id=session)
            if row.deleted is None and row.seq > 0:
                session_count += 1
                _notify_session(tx, row, since, doubts.get(row.id, _SessionDoubts()), homes)
        after = rows[-1]
    return session_count


def _notify_session(tx: Tx, row: SessionRow, since: int, doubt: _SessionDoubts, homes: set[str]) -> None:
    text = render_notice(since, tx.now, doubt.parts, doubt.unanswered + len(doubt.commands), doubt.held)
    turn_id = doubt.turn.id if doubt.turn is not None else None
    newest = tx.one(EntryRow, "entry_get", session=row.id, seq=row.seq)
    is_recent = newest is not None and newest.at >= since - RECENT_MS
    is_sent = row.home is not None and not is_local(row.home) and (bool(doubt) or (is_recent and row.home not in homes))
    if is_sent and row.home is not None:
        homes.add(row.home)
        seq = claims.add_home_notice(tx, row, text, turn=doubt.turn, kind=KIND, tell=True)
    elif row.home in homes and not doubt:
        return  # its home got the notice for another session
    else:
        seq = entries.add_entry(tx, row.id, role="notice", text=text, turn=turn_id, tell=True, more={"kind": KIND})
    if doubt.turn is not None:
        _fail_turn(tx, doubt.turn, since, seq)
    for event in doubt.commands:
        tx.run("command_done", event=event, session=row.id, answer=seq)


def render_notice(since: int, now: int, parts: int, unanswered: int, held: int = 0) -> str:
    """Return the text of a session's notice. `since` (when the backup was made) and `now` are in ms.

    `parts`, `unanswered`, `held`: the numbers of things in doubt. The text states only what is known.
    """
    lines = [
        f"On {format_utc(now)} the record of this conversation was restored to its state of {format_utc(since)}. "
        "Messages from between these times may be missing from it."
    ]
    if parts:
        lines.append(
            f"{_count_noun(parts, 'message')} may have reached you already and {'is' if parts == 1 else 'are'} not "
            "sent again without a check."
        )
    if unanswered:
        lines.append(
            f"{_count_noun(unanswered, 'request')} may have been answered already and "
            f"{'is' if unanswered == 1 else 'are'} not started again: if you got no answer, ask again."
        )
    if held:
        lines.append(
            f"{_count_noun(held, 'message')} that had been held for a decision may have been sent in the meantime."
        )
    return " ".join(lines)


def _count_noun(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
