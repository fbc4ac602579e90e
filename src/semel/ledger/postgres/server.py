"""What the server is: refuse one on which what was accepted could be lost; describe it for `semel doctor`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.ledger.postgres.errors import (
    DatabaseIsStandby,
    DatabaseNotDurable,
    DatabaseNotUnicode,
    DatabasePooled,
    ServerTooOld,
)
from semel.ledger.postgres.wire import Connection, ConnectionLost, ServerError
from semel.ledger.storage.store import LedgerSize

OLDEST_VERSION = 16
POOLER_TRIES = 2  # connections that are made to see whether they get the process of another one
DURABLE_SETTINGS = {"fsync": ("on",), "full_page_writes": ("on",), "synchronous_commit": ("on", "remote_apply")}
"""The values of each setting with which a committed transaction survives a crash and, if there is a synchronous
standby, a failover (PostgreSQL documentation, chapter "Reliability and the Write-Ahead Log")."""


def refuse_unfit_server(connection: Connection, path: str) -> None:
    """Raise an error if the ledger's promises would not hold there.

    It is ServerTooOld, DatabaseNotUnicode, DatabaseIsStandby or DatabaseNotDurable.
    """
    ((number, version, is_standby),) = connection.execute(
        "SELECT current_setting('server_version_num')::bigint, current_setting('server_version'), pg_is_in_recovery()"
    )
    if number < OLDEST_VERSION * 10_000:
        raise ServerTooOld(path=path, found=version, needed=OLDEST_VERSION)
    refuse_encoding(connection, path)
    if is_standby:
        raise DatabaseIsStandby(path=path)
    for setting, allowed in DURABLE_SETTINGS.items():
        ((found,),) = connection.execute(f"SELECT current_setting('{setting}')")
        if found not in allowed:
            raise DatabaseNotDurable(path=path, setting=setting, found=found, needed=allowed[0])


def refuse_encoding(connection: Connection, path: str) -> None:
    """Raise DatabaseNotUnicode if the database cannot hold every character."""
    ((encoding,),) = connection.execute("SELECT current_setting('server_encoding')")
    if encoding != "UTF8":
        raise DatabaseNotUnicode(path=path, found=encoding)


def refuse_pooler(connection: Connection, url: str, path: str) -> None:
    """Raise DatabasePooled if a pooler gives the connection's server process to others between transactions.

    PgBouncer answers a connection with a process id that it has made up. One in session mode, and some proxies, do so,
    too, and keep the process; so it is tried whether another connection gets it, or this one gets another. No
    transaction may be open.
    """
    process = read_process(connection)
    if process == connection.backend_pid:
        return
    with contextlib.ExitStack() as opened:
        for _ in range(POOLER_TRIES):
            other = opened.enter_context(contextlib.closing(Connection(url)))
            other.queue("BEGIN")  # its transaction stays open, so it keeps the process
            if read_process(other) == process or read_process(connection) != process:
                raise DatabasePooled(path=path, why="one process of the server serves several connections in turn")


def read_process(connection: Connection) -> int:
    """Return the id of the server's process that runs the connection's statements."""
    ((process,),) = connection.execute("SELECT pg_backend_pid()")
    return int(process)


@dataclass(frozen=True)
class ServerFacts:
    """What `semel doctor` tells of a server.

    `standbys`: how many replicate from it, and how many of these confirm each commit. `oldest_s`: how long its oldest
    transaction has been open. `connections`: how many there are of `most`. `queue_percent`: how full the queue of
    notifications is. `has_settings`: it knows the settings that this program asks for with each connection.
    `timeouts`: which of `TIMEOUTS` hold for this program's connections all the same, with their values.
    """

    version: str
    standbys: int
    confirming: int
    oldest_s: int
    connections: int
    most: int
    queue_percent: int
    has_settings: int
    timeouts: Mapping[str, str] = field(default_factory=dict, kw_only=True)


_FACTS = """SELECT current_setting('server_version'), (SELECT count(*) FROM pg_stat_replication),
  (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
  coalesce(max(extract(epoch FROM now() - a.xact_start)), 0)::bigint, count(*),
  current_setting('max_connections')::bigint,
  CAST(round(pg_notification_queue_usage() * 100) AS bigint),
  current_setting('plan_cache_mode') = 'force_generic_plan'
FROM pg_stat_activity a WHERE a.backend_type = 'client backend'"""


_SIZES = "SELECT pg_database_size(current_database()), coalesce(pg_total_relation_size(to_regclass('blob_piece')), 0)"
TIMEOUTS = ("statement_timeout", "lock_timeout", "idle_session_timeout", "transaction_timeout")
"""Settings that are 0 for this program's connections (`wire`), unless a pooler is in between; but the last one, which
PostgreSQL 16 does not have, is what the operator has set."""
_TIMEOUTS = f"""SELECT name, current_setting(name) FROM pg_settings
WHERE name IN {TIMEOUTS} AND setting <> '0' ORDER BY name"""


def read_facts(connection: Connection, url: str, path: str) -> ServerFacts:
    """Return what the server says of itself. Raises the errors of `refuse_unfit_server` and `refuse_pooler`."""
    refuse_pooler(connection, url, path)
    refuse_unfit_server(connection, path)
    (facts,) = connection.execute(_FACTS)
    return ServerFacts(*facts, timeouts=dict(connection.execute(_TIMEOUTS)))


def measure_database(url: str) -> LedgerSize:
    """Return the sizes of the database; 0 if it does not answer."""
    try:
        with contextlib.closing(Connection(url)) as connection:
            ((size, files),) = connection.execute(_SIZES)
    except (ConnectionLost, ServerError):
        return LedgerSize()
    return LedgerSize(int(size) - int(files), int(files))
