"""Migrate the ledger's schema, only forward. Each migration is one transaction, and no rows are lost.

Before the first migration, the ledger is copied to `<ledger>.version-N`, so that an operator can go back to it
(docs/upgrade.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import apsw

from semel.ledger.sqlite.errors import to_ledger_error
from semel.ledger.sqlite.tx import STORAGE_ERRORS
from semel.ledger.storage.atomic_files import sync_folder
from semel.ledger.storage.errors import (
    LedgerError,
    LedgerNewer,
    MigrationFailed,
    NotALedger,
    UpgradeNotCopied,
)
from semel.ledger.storage.migrations import Migration, Upgrade
from semel.ledger.storage.sql import Queries

APPLICATION_ID = 0x53454D4C  # "SEML": https://sqlite.org/pragma.html#pragma_application_id
PAGES_PER_COPY_STEP = 1024


def read_version(db: apsw.Connection, path: Path) -> int:
    """Return the schema version of an open file; 0 if the file is empty. Change nothing. Raises NotALedger."""
    try:
        schema_version: int = db.execute("PRAGMA user_version").get
        application_id: int = db.execute("PRAGMA application_id").get
        tables: int = db.execute("SELECT count(*) FROM sqlite_schema").get
    except apsw.NotADBError:
        raise NotALedger(path=path, why="it is not a SQLite database") from None
    if application_id == APPLICATION_ID and schema_version > 0:
        return schema_version
    if application_id or schema_version or tables:
        raise NotALedger(path=path, why="it is another program's SQLite database")
    return 0


def migrate_to_newest(
    db: apsw.Connection, migrations: Sequence[Migration], statements: Queries, path: Path, *, name: str, now: int,
    announce: Callable[[Upgrade], object] | None = None,
) -> None:  # fmt: skip
    """Migrate the file from its current schema version to the newest one.

    A new ledger gets the name `name` and the creation time `now` (ms). `announce` is called before an older ledger is
    changed. Raises LedgerNewer, MigrationFailed, NotALedger, UpgradeNotCopied.
    """
    schema_version = read_version(db, path)
    if schema_version > migrations[-1].version:
        raise LedgerNewer(path=path, found=schema_version, known=migrations[-1].version)
    if schema_version == 0:
        _create(db, migrations, statements, path, name, now)
    elif schema_version < migrations[-1].version:
        copy = copy_path(path, schema_version)
        upgrade = Upgrade(schema_version, migrations[-1].version, copy)
        if announce is not None:
            announce(upgrade)
        _keep_copy(db, path, copy, upgrade)
        for migration in migrations[schema_version:]:
            _migrate(db, migration, path)


def copy_path(path: Path, schema_version: int) -> Path:
    """Return the path at which a ledger of this schema version is kept when it is migrated."""
    return path.with_name(f"{path.name}.version-{schema_version}")


def _keep_copy(db: apsw.Connection, path: Path, kept: Path, upgrade: Upgrade) -> None:
    """Copy the ledger to `kept` before it is migrated, and sync the copy. Raises UpgradeNotCopied.

    The copy gets its final name only once it is complete. A copy that an interrupted upgrade left behind is replaced.
    """
    draft = kept.with_name(f"{kept.name}.new")
    try:
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        copy = apsw.Connection(str(draft))
        try:
            with copy.backup("main", db, "main") as backup:
                while not backup.done:
                    backup.step(PAGES_PER_COPY_STEP)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        finally:
            copy.close()
        draft.rename(kept)
        sync_folder(path.parent)
    except (apsw.Error, OSError) as error:
        draft.unlink(missing_ok=True)
        raise UpgradeNotCopied(path=path, found=upgrade.found, wanted=upgrade.wanted, why=error) from error


def _create(
    db: apsw.Connection, migrations: Sequence[Migration], statements: Queries, path: Path, name: str, now: int
) -> None:
    # One transaction: a crash inside it leaves an empty file, which the next start treats as new.
    db.execute("BEGIN IMMEDIATE")
    try:
        if read_version(db, path) == 0:
            for migration in migrations:
                db.execute(migration.sql)
            db.execute(statements["ledger_found"].sql, {"name": name, "at": now})
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {migrations[-1].version}")
        db.execute("COMMIT")
    except BaseException:
        _roll_back(db)
        raise


def _migrate(db: apsw.Connection, migration: Migration, path: Path) -> None:
    db.execute("PRAGMA foreign_keys = OFF")  # a migration may rebuild tables; the references are checked below
    try:
        db.execute("BEGIN IMMEDIATE")
        if read_version(db, path) != migration.version - 1:
            raise ValueError("another program upgraded it at the same time; start again")
        before = _count_rows(db)
        _run_in_transaction(db, migration.sql)
        _refuse_loss(before, _count_rows(db))
        if broken := db.execute("PRAGMA foreign_key_check").fetchall():
            raise ValueError(f"{len(broken)} rows would point nowhere, the first in {broken[0][0]}")
        db.execute(f"PRAGMA user_version = {migration.version}")
        db.execute("COMMIT")
    except STORAGE_ERRORS as error:
        _roll_back(db)
        raise to_ledger_error(error, path, db.system_errno) from error
    except BaseException as error:
        _roll_back(db)
        if isinstance(error, (LedgerError, KeyboardInterrupt)):
            raise
        raise MigrationFailed(path=path, found=migration.version - 1, wanted=migration.version, why=error) from error
    finally:
        db.execute("PRAGMA foreign_keys = ON")


def _run_in_transaction(db: apsw.Connection, sql: str) -> None:
    """Run a migration's statements inside the open transaction. Deny statements that would end that transaction."""
    ends = (apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT, apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH)
    db.authorizer = lambda deed, *about: apsw.SQLITE_DENY if deed in ends else apsw.SQLITE_OK
    try:
        db.execute(sql)
    finally:
        db.authorizer = None


def _roll_back(db: apsw.Connection) -> None:
    if db.in_transaction:
        db.execute("ROLLBACK")


def _count_rows(db: apsw.Connection) -> dict[str, int]:
    tables = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'").fetchall()
    return {str(name): db.execute(f'SELECT count(*) FROM "{name}"').get for (name,) in tables}


def _refuse_loss(before: dict[str, int], after: dict[str, int]) -> None:
    # Law 1: rows never expire. A migration that leaves a table with fewer rows than before is wrong.
    for table, count in before.items():
        if after.get(table, 0) < count:
            raise ValueError(f"{count - after.get(table, 0)} rows of {table} would be lost")
