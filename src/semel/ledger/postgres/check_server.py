"""Refuse a server on which what was accepted could be lost: too old, not durable, or a standby."""

from __future__ import annotations

from pathlib import Path

from semel.ledger.postgres.errors import DatabaseIsStandby, DatabaseNotDurable, ServerTooOld
from semel.ledger.postgres.wire import Connection

OLDEST_VERSION = 16
DURABLE_SETTINGS = {"fsync": ("on",), "full_page_writes": ("on",), "synchronous_commit": ("on", "remote_apply")}
"""The values of each setting with which a committed transaction survives a crash and, if there is a synchronous
standby, a failover (PostgreSQL documentation, chapter "Reliability and the Write-Ahead Log")."""


def refuse_unfit_server(connection: Connection, path: Path) -> None:
    """Raise ServerTooOld, DatabaseIsStandby or DatabaseNotDurable if the ledger's promises would not hold there."""
    ((number, version),) = connection.execute(
        "SELECT current_setting('server_version_num')::bigint, current_setting('server_version')"
    )
    if number < OLDEST_VERSION * 10_000:
        raise ServerTooOld(path=path, found=version, needed=OLDEST_VERSION)
    ((is_standby,),) = connection.execute("SELECT pg_is_in_recovery()")
    if is_standby:
        raise DatabaseIsStandby(path=path)
    for setting, allowed in DURABLE_SETTINGS.items():
        ((found,),) = connection.execute(f"SELECT current_setting('{setting}')")
        if found not in allowed:
            raise DatabaseNotDurable(path=path, setting=setting, found=found, needed=allowed[0])
