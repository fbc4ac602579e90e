"""Create the ledger's tables in a database, or bring them to the newest version. Only forward.

The versions are those of `semel.ledger.storage.migrations`. The table `schema_version` holds the one that the database
has. PostgreSQL runs DDL in transactions: each migration is one transaction, and one that fails changes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from importlib import resources

from semel.ledger.postgres.errors import (
    FORBIDDEN_STATES,
    DatabaseEmpty,
    DatabaseForbidden,
    DatabaseOfAnother,
    DatabaseOlder,
    DatabaseUnfinished,
)
from semel.ledger.postgres.statements import statements
from semel.ledger.postgres.types import translate_schema
from semel.ledger.postgres.wire import Connection, ServerError
from semel.ledger.storage.errors import LedgerNewer, MigrationFailed
from semel.ledger.storage.migrations import Migration, Upgrade, list_migrations

UNFINISHED_TABLE = "unfinished_copy"
"""The table that exists while a ledger is copied into the database (`semel.ledger.postgres.transfer`)."""
_TABLES = """SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p') ORDER BY c.relname"""


def read_version(connection: Connection, path: str) -> int:
    """Return the schema version of the database; 0 if it is empty. Raises DatabaseOfAnother, DatabaseUnfinished."""
    tables = list_table_names(connection)
    if UNFINISHED_TABLE in tables:
        raise DatabaseUnfinished(path=path)
    if "schema_version" in tables and "ledger" in tables:
        ((version,),) = connection.execute("SELECT version FROM schema_version")
        return int(version)
    if tables:
        raise DatabaseOfAnother(path=path, why=", ".join(tables[:3]))
    return 0


def refuse_other_version(connection: Connection, path: str) -> None:
    """Raise DatabaseEmpty, DatabaseOlder or LedgerNewer unless the database is a ledger of the newest version."""
    found, known = read_version(connection, path), list_migrations()[-1].version
    if found == 0:
        raise DatabaseEmpty(path=path)
    if found != known:
        raise (DatabaseOlder if found < known else LedgerNewer)(path=path, found=found, known=known)


def list_table_names(connection: Connection) -> list[str]:
    """Return the names of all tables of the database, ordered."""
    return [str(name) for (name,) in connection.execute(_TABLES)]


def create_tables(connection: Connection, path: str, now: int) -> None:
    """Make the tables of the newest version in a database without tables of a ledger, with the row of a new ledger."""
    _migrate(connection, list_migrations(), path, now)


def migrate_to_newest(
    connection: Connection,
    migrations: Sequence[Migration],
    path: str,
    now: int,
    announce: Callable[[Upgrade], object] | None = None,
) -> None:
    """Migrate the database from its schema version to the newest one.

    `now` (ms): the creation time of a new ledger. `announce` is called before an older ledger is
    changed. Raises LedgerNewer, MigrationFailed, DatabaseForbidden, DatabaseOfAnother.
    """
    found, wanted = read_version(connection, path), migrations[-1].version
    if found > wanted:
        raise LedgerNewer(path=path, found=found, known=wanted)
    if 0 < found < wanted and announce is not None:
        announce(Upgrade(found, wanted, None))
    if found == 0:
        _migrate(connection, migrations, path, now)
    else:
        for migration in migrations[found:]:
            _migrate(connection, [migration], path, now)


def _migrate(connection: Connection, migrations: Sequence[Migration], path: str, now: int) -> None:
    """Run migrations in one transaction."""
    found, wanted = migrations[0].version - 1, migrations[-1].version
    try:
        connection.execute("BEGIN")
        if found == 0:
            _run_script(connection, resources.files("semel.ledger.postgres").joinpath("own.sql").read_text("utf-8"))
        connection.execute("LOCK TABLE schema_version")  # two programs that migrate at once do it one after the other
        ((version,),) = connection.execute("SELECT version FROM schema_version")
        if version != found:
            raise ServerError("55000", "another program brought it forward at the same time; start again")
        for migration in migrations:
            _run_script(connection, translate_schema(migration.sql))
        if found == 0:
            connection.change(statements()["ledger_found"], {"name": secrets.token_hex(8), "at": now})
        connection.execute(f"UPDATE schema_version SET version = {wanted}")
        connection.end("COMMIT")
    except ServerError as error:
        connection.end("ROLLBACK")
        if error.state in FORBIDDEN_STATES:
            raise DatabaseForbidden(path=path, why=error.reason) from error
        raise MigrationFailed(path=path, found=found, wanted=wanted, why=error.reason) from error


def _run_script(connection: Connection, sql: str) -> None:
    """Run statements one by one. None of the schema's texts has a semicolon within it."""
    for statement in sql.split(";"):
        if statement.strip():
            connection.execute(statement)
