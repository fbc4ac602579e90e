"""Spawns: each start of an agent process is a row before it is a process (Law 10)."""

from __future__ import annotations

from dataclasses import dataclass

from semel.ledger.storage.sql import Tx


@dataclass(frozen=True)
class Left:
    """A process that its gateway never saw end."""

    id: int
    session: int
    pid: int | None
    pgid: int | None
    born: str | None


def start(tx: Tx, session: int, agent: str, gateway: str, token: bytes) -> int:
    """A process is about to start. `token` is the digest of its fencing token."""
    return int(tx.value("spawn_add", session=session, agent=agent, gateway=gateway, token=token, at=tx.now))


def started(tx: Tx, spawn: int, pid: int, pgid: int, born: str) -> None:
    """Who it is: what the next gateway needs to end it, should this one die."""
    tx.run("spawn_started", id=spawn, pid=pid, pgid=pgid, born=born)


def ended(tx: Tx, spawn: int, why: str) -> None:
    """It is gone; its token is worth nothing from here on."""
    tx.run("spawn_end", id=spawn, at=tx.now, why=why)


def left_behind(tx: Tx) -> list[Left]:
    """What earlier gateways left without an end."""
    return [Left(r.id, r.session, r.pid, r.pgid, r.born) for r in tx.all("spawns_live")]
