"""Which of several gateways serves a session (docs/decisions/cluster.md).

Its agent runs at one gateway, whose name is the session's seat. A gateway begins a turn only in a session that has its
seat there, and looks at the seat in the transaction that begins the turn. So a session's turns run at one gateway at a
time, also while gateways come and go. A gateway without a cluster ignores seats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from msgspec import structs

from semel.ledger.delivery import claims
from semel.ledger.storage.rows import SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries

AWAY_KIND = "gateway.away"
MAX_NAMED_SESSIONS = 3


@dataclass(frozen=True)
class SeatRule:
    """How a gateway of a cluster decides who serves a session. `name`: its own name.

    `choose`: called with a session's row, and whether this gateway wants to serve it because somebody asks for that
    here. It returns the name of the gateway that is to serve it; None leaves the decision to another gateway.
    `note_given`: called with the name of a gateway that is given a session. Both are called in the thread that writes.
    """

    name: str
    choose: Callable[[SessionRow, bool], str | None]
    note_given: Callable[[str], object] = lambda _: None


@dataclass(frozen=True)
class SeatedElsewhere:
    """Another gateway serves the session, or decides who does. `seat`: its name; None: the one with the duties."""

    session: int
    seat: str | None


class ServedElsewhere(Exception):
    """The session is served by another gateway."""

    def __init__(self, seat: str | None) -> None:
        super().__init__(f"the session is served by the gateway {seat or 'that has the duties'}")


def take_seat(
    tx: Tx, row: SessionRow, rule: SeatRule | None, *, is_wanted_here: bool = False
) -> SessionRow | SeatedElsewhere:
    """Decide who serves a session, and record it. Return the session's row if this gateway does."""
    if rule is None:
        return row
    seat = rule.choose(row, is_wanted_here)
    if seat is not None and seat != row.seat:
        if row.seat is not None:
            tx.run("spawns_end_of_session", session=row.id, at=tx.now, why="its gateway was gone")
        tx.run("session_set_seat", id=row.id, seat=seat)
        rule.note_given(seat)
        row = structs.replace(row, seat=seat, away=None)
    if seat != rule.name:
        return SeatedElsewhere(row.id, seat)
    if row.away is not None:
        tx.run("session_set_seat", id=row.id, seat=seat)
    return row


def free_seat(tx: Tx, session: int, name: str) -> None:
    """Let the session's next turn begin at any gateway. Its agent has ended at the gateway `name`, which serves it.

    Nothing is changed while a turn runs.
    """
    row = tx.get(SessionRow, "session_by_id", id=session)
    if row.seat == name and row.turn is None:
        tx.run("session_set_seat", id=session, seat=None)


def list_work(tx: Tx, lease: str, rule: SeatRule) -> tuple[list[SessionRow], list[SessionRow]]:
    """Return the sessions in which this gateway has something to do, and those in which another one has.

    That is a turn that another lease left behind, a wake that is due, or a command without an answer. `lease`: the
    lease of this gateway. A session without a seat is left out if this gateway does not decide who serves it.
    """
    own, others = [], []
    for row in _list_unfinished(tx, lease):
        seat = rule.choose(row, False)
        if seat == rule.name or seat != row.seat:  # `take_seat` records what this gateway has decided
            own.append(row)
        elif seat is not None:
            others.append(row)
    return own, others


def _list_unfinished(tx: Tx, lease: str) -> Iterable[SessionRow]:
    rows = {row.id: row for row in tx.all(SessionRow, "sessions_left", lease=lease)}
    rows |= {row.id: row for row in tx.all(SessionRow, "sessions_due_now", now=tx.now)}
    for session in tx.values(int, "commands_left"):
        if session not in rows:
            rows[session] = tx.get(SessionRow, "session_by_id", id=session)
    return rows.values()


def may_move(row: SessionRow, moving: Collection[str]) -> bool:
    """Whether another gateway may serve a session: nothing of it is tied to the machine of the one that does.

    `moving`: the agents whose sessions may go on at another gateway.
    """
    return row.agent in moving or (row.memory is None and row.folder is None)


@dataclass(frozen=True)
class MissingGateway:
    """A gateway that is gone, though sessions wait for it. `sessions`: how many. `newest`: the keys of the newest."""

    gateway: str
    sessions: int
    newest: tuple[str, ...]

    def describe(self) -> str:
        keys = ", ".join(self.newest) + (", ..." if self.sessions > len(self.newest) else "")
        waits, its, go = ("session waits", "its agent works", "It goes")
        if self.sessions != 1:
            waits, its, go = ("sessions wait", "their agents work", "They go")
        where = f"the gateway {self.gateway}, which is gone and on whose machine {its}"
        return f"{self.sessions} {waits} for {where} ({keys}). {go} on once it is back"


def list_missing_gateways(tx: Tx, living: Collection[str], moving: Collection[str]) -> list[MissingGateway]:
    """Return the gateways that do not live and for which sessions wait. `moving`: as in `may_move`."""
    waiting: dict[str, list[SessionRow]] = {}
    for row in _list_unfinished(tx, "of no gateway"):
        if row.seat is not None and row.seat not in living and not may_move(row, moving):
            waiting.setdefault(row.seat, []).append(row)
    return [
        MissingGateway(
            seat, len(rows), tuple(row.key for row in sorted(rows, key=lambda row: -row.id)[:MAX_NAMED_SESSIONS])
        )
        for seat, rows in sorted(waiting.items())
    ]


def find_session_row(tx: Tx, key: str) -> SessionRow | None:
    """Return the row of the session with this key, also if it was deleted; None if there is no such session."""
    return tx.one(SessionRow, "session_by_key", key=key)


def notify_away(tx: Tx, session: int, seat: str) -> None:
    """Notify people, once, that a session waits for the gateway that serves it. `seat`: the gateway that is away."""
    row = tx.get(SessionRow, "session_by_id", id=session)
    if row.seat != seat or row.away is not None or row.deleted is not None:
        return
    tx.run("session_note_away", id=session, at=tx.now)
    text = (
        f"This conversation waits for the gateway {seat}, on whose machine its agent works and which does not answer. "
        "It goes on once that gateway is back. /new begins anew at another one."
    )
    claims.add_home_notice(tx, row, text, turn=None, kind=AWAY_KIND, tell=False)
    entries.touch_session(tx, session)
