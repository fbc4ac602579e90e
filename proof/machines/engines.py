"""The engine that tests and machines run on: SQLite in memory, or PostgreSQL where SEMEL_TEST_LEDGER=postgres.

PostgreSQL's is one database for each process, which is emptied for each ledger: that takes a millisecond, and a new
database a hundred.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from proof.machines.held import note_what_is_held, refuse_wider_locks, sanitizer_sql
from proof.postgres_server import PostgresServer, shared_server
from semel.ledger.sqlite.store import Store
from semel.ledger.sqlite.tx import SqliteTx
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.store import LedgerStore, now_ms

ENGINE = os.environ.get("SEMEL_TEST_LEDGER", "sqlite")


def open_ledger(clock: Callable[[], int] = now_ms) -> LedgerStore:
    """A new ledger without threads. At most one at a time is open in a process."""
    if ENGINE == "sqlite":
        return Store.in_memory(clock=clock)
    from semel.ledger.postgres.store import PostgresStore

    store = PostgresStore.open_sync(empty_database(), clock=clock)
    assert store._worker is not None
    # What is tested is the laws, with thousands of commits; the durability of one is tested where servers are killed.
    store._worker._require_connection().execute("SET synchronous_commit = off")
    return store


def open_threaded_ledger(folder: Path, clock: Callable[[], int] = now_ms, *, again: bool = False) -> LedgerStore:
    """A new ledger with threads of its own; SQLite's is a file in `folder`. `again`: the one that was closed last."""
    if ENGINE == "sqlite":
        return Store.open(folder / "ledger.db", clock=clock)
    from semel.ledger.postgres.store import PostgresStore

    server, name, _ = _database(os.getpid())
    return PostgresStore.open(server.url(name) if again else empty_database(), clock=clock)


_END_HOLDERS = """SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l
JOIN pg_database d ON d.oid = l.database WHERE l.locktype = 'advisory' AND d.datname = current_database()"""


def empty_database() -> str:
    """The URL of this process's database, emptied.

    A gateway that was closed a moment ago may still hold it: the server ends a closed connection a little later.
    """
    server, name, command = _database(os.getpid())
    server.execute(_END_HOLDERS, name)
    server.execute(command, name)
    return server.url(name)


@cache
def _database(process: int) -> tuple[PostgresServer, str, str]:
    """The server, the database of a process with the ledger's tables, and the statements that empty it."""
    from semel.ledger.postgres.store import PostgresStore

    server = shared_server()
    name = server.create_database(suffix=f"_{process}")
    with PostgresStore.open_sync(server.url(name)):
        pass
    server.execute(sanitizer_sql(), name)
    _watch_locks()
    tables = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = '{}'"
    kept = ("schema_version", "ledger")
    emptied = [table for (table,) in server.execute(tables.format("r"), name) if table not in kept]
    sequences = [sequence for (sequence,) in server.execute(tables.format("S"), name)]
    commands = [
        "SET session_replication_role = replica",  # references are not checked
        *(f"DELETE FROM {table}" for table in emptied),
        *(f"SELECT setval('{sequence}', 1, false)" for sequence in sequences),
        "UPDATE ledger SET incarnation = 1, commits = 0, copied = NULL",
        "DROP TABLE IF EXISTS active_member, member",  # the first gateway of a cluster makes them
    ]
    return server, name, ";".join(commands)


@cache
def _watch_locks() -> None:
    note_what_is_held()
    refuse_wider_locks()


def rows(tx: Tx, sql: str) -> list[Any]:
    """The rows of a question of an auditor (the ledger itself runs named statements only), in SQLite's words."""
    if isinstance(tx, SqliteTx):
        return tx._cursor.execute(sql, {}).fetchall()
    from semel.ledger.postgres.statements import translate

    return [tuple(row) for row in tx._connection.execute(translate(sql))]  # type: ignore[attr-defined]


def list_tables(tx: Tx) -> list[str]:
    sql = "SELECT name FROM sqlite_master WHERE type = 'table'"
    if not isinstance(tx, SqliteTx):
        sql = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    return [str(name) for (name,) in rows(tx, sql)]
