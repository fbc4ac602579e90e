"""Spawns: each start of an agent process is recorded before the process exists (Law 10)."""

from __future__ import annotations

from dataclasses import dataclass

from semel.ledger.storage.rows import SpawnRow
from semel.ledger.storage.sql import Tx


@dataclass(frozen=True)
class OrphanedProcess:
    """A process whose end its gateway never recorded."""

    id: int
    session: int
    pid: int | None
    pgid: int | None
    born: str | None


def record_start(tx: Tx, session: int, agent: str, gateway: str, token: bytes) -> int:
    """Record that a process is about to start; return the spawn's id. `token` is the digest of its fencing token."""
    return tx.number("spawn_add", session=session, agent=agent, gateway=gateway, token=token, at=tx.now)


def record_identity(tx: Tx, spawn: int, pid: int, pgid: int, born: str) -> None:
    """Record the identity of a process, by which the next gateway can kill it if this gateway dies."""
    tx.run("spawn_started", id=spawn, pid=pid, pgid=pgid, born=born)


def record_end(tx: Tx, spawn: int, reason: str) -> None:
    """Record that a process has ended; its token is invalid from now on."""
    tx.run("spawn_end", id=spawn, at=tx.now, why=reason)


def list_orphaned(tx: Tx) -> list[OrphanedProcess]:
    """Return the processes whose end is not recorded. They belong to earlier gateways."""
    return [OrphanedProcess(r.id, r.session, r.pid, r.pgid, r.born) for r in tx.all(SpawnRow, "spawns_live")]
