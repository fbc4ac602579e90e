"""Record each start of an agent process (a spawn) before the process exists (Law 10)."""

from __future__ import annotations

from dataclasses import dataclass

from semel.ledger.storage.rows import SessionRow, SpawnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.turns import seats


@dataclass(frozen=True)
class OrphanedProcess:
    """An agent process whose end no gateway has recorded.

    `born`: its start time, which identifies it beside the pid.
    """

    id: int
    session: int
    pid: int | None
    pgid: int | None
    born: str | None


def record_start(
    tx: Tx, session: int, agent: str, gateway: str, token: bytes, seat_rule: seats.SeatRule | None = None
) -> int:
    """Record that a process is about to start. Return the spawn's id. `token`: the digest of its fencing token.

    `seat_rule`: gives a session without a seat to this gateway. Raises ServedElsewhere if another one serves it.
    """
    taken = seats.take_seat(tx, tx.get(SessionRow, "session_by_id", id=session), seat_rule, is_wanted_here=True)
    if isinstance(taken, seats.SeatedElsewhere):
        raise seats.ServedElsewhere(taken.seat)
    return tx.number("spawn_add", session=session, agent=agent, gateway=gateway, token=token, at=tx.now)


def record_identity(tx: Tx, spawn: int, pid: int, pgid: int, born: str) -> None:
    """Record the identity of a process: pid, process group and start time.

    If this gateway dies, the next gateway identifies the process by these, and kills it.
    """
    tx.run("spawn_started", id=spawn, pid=pid, pgid=pgid, born=born)


def record_end(tx: Tx, spawn: int, reason: str) -> None:
    """Record that a process has ended, and why. Its fencing token becomes invalid."""
    tx.run("spawn_end", id=spawn, at=tx.now, why=reason)


def list_orphaned(tx: Tx, seat: str | None = None) -> list[OrphanedProcess]:
    """Return the processes whose end is not recorded; earlier gateways started them.

    `seat`: only those of sessions that have this seat, or none.
    """
    rows = tx.all(SpawnRow, "spawns_live") if seat is None else tx.all(SpawnRow, "spawns_live_at", seat=seat)
    return [OrphanedProcess(r.id, r.session, r.pid, r.pgid, r.born) for r in rows]
