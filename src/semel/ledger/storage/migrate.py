"""Schema versions: forward only, each migration in one transaction, no rows lost.

Version 1 is `schema.sql`. Version N is `migrations/000N_why.sql` applied to version N-1. A new ledger runs the same
migrations as an old one, so both end with the same tables. A migration is named after the problem that it fixes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import apsw

from semel.ledger.storage.errors import LedgerError, LedgerNewer, MigrationFailed, NotALedger
from semel.ledger.storage.refusals import failure
from semel.ledger.storage.sql import STORAGE_FAULTS, Queries

APPLICATION_ID = 0x53454D4C  # "SEML": https://sqlite.org/pragma.html#pragma_application_id


@dataclass(frozen=True)
class Step:
    """The migration from `version - 1` to `version`."""

    version: int
    name: str
    sql: str


@cache
def steps() -> tuple[Step, ...]:
    """All migrations, from an empty file to the newest version."""
    ledger = resources.files("semel.ledger")
    files = sorted(
        (f.name, f.read_text("utf-8")) for f in ledger.joinpath("migrations").iterdir() if f.name.endswith(".sql")
    )
    return read_steps(ledger.joinpath("schema.sql").read_text("utf-8"), files)


def read_steps(schema: str, files: Sequence[tuple[str, str]]) -> tuple[Step, ...]:
    """The schema as version 1, and the migrations after it. Raises ValueError for a gap or a wrong file name."""
    found = [Step(1, "schema", schema)]
    for file, sql in files:
        match = re.fullmatch(r"(\d{4})_([a-z0-9_]+)\.sql", file)
        if match is None or int(match[1]) != found[-1].version + 1:
            raise ValueError(f"migrations/{file}: expected {found[-1].version + 1:04}_what_it_mends.sql")
        found.append(Step(int(match[1]), match[2], sql))
    return tuple(found)


def version(db: apsw.Connection, path: Path) -> int:
    """The schema version of an open file, 0 for an empty one. Raises NotALedger; changes nothing."""
    try:
        found: int = db.execute("PRAGMA user_version").get
        application: int = db.execute("PRAGMA application_id").get
        tables: int = db.execute("SELECT count(*) FROM sqlite_schema").get
    except apsw.NotADBError:
        raise NotALedger(path=path, why="it is no SQLite database") from None
    if application == APPLICATION_ID and found > 0:
        return found
    if application or found or tables:
        raise NotALedger(path=path, why="it is another program's SQLite database")
    return 0


def migrate_to_newest(
    db: apsw.Connection, way: Sequence[Step], named: Queries, path: Path, *, name: str, now: int
) -> None:
    """Migrate the file from its current version to the newest one.

    `name` and `now` (ms) become the identity of a ledger that is created here. Raises LedgerNewer, MigrationFailed,
    NotALedger.
    """
    found = version(db, path)
    if found > way[-1].version:
        raise LedgerNewer(path=path, found=found, known=way[-1].version)
    if found == 0:
        _create(db, way, named, path, name, now)
    for step in way[found:] if found else ():
        _migrate(db, step, path)


def _create(db: apsw.Connection, way: Sequence[Step], named: Queries, path: Path, name: str, now: int) -> None:
    # One transaction: a crash inside it leaves an empty file, which the next start treats as new.
    db.execute("BEGIN IMMEDIATE")
    try:
        if version(db, path) == 0:
            for step in way:
                db.execute(step.sql)
            db.execute(named["ledger_found"].sql, {"name": name, "at": now})
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {way[-1].version}")
        db.execute("COMMIT")
    except BaseException:
        _undo(db)
        raise


def _migrate(db: apsw.Connection, step: Step, path: Path) -> None:
    db.execute("PRAGMA foreign_keys = OFF")  # tables may be rebuilt; checked as a whole below
    try:
        db.execute("BEGIN IMMEDIATE")
        if version(db, path) != step.version - 1:
            raise ValueError("another program brought it forward at the same time; start again")
        before = _rows(db)
        _run_inside(db, step.sql)
        _refuse_loss(before, _rows(db))
        if broken := db.execute("PRAGMA foreign_key_check").fetchall():
            raise ValueError(f"{len(broken)} rows would point nowhere, the first in {broken[0][0]}")
        db.execute(f"PRAGMA user_version = {step.version}")
        db.execute("COMMIT")
    except STORAGE_FAULTS as fault:
        _undo(db)
        raise failure(fault, path, db.system_errno) from fault
    except BaseException as fault:
        _undo(db)
        if isinstance(fault, (LedgerError, KeyboardInterrupt)):
            raise
        raise MigrationFailed(path=path, found=step.version - 1, wanted=step.version, why=fault) from fault
    finally:
        db.execute("PRAGMA foreign_keys = ON")


def _run_inside(db: apsw.Connection, sql: str) -> None:
    """Run a migration's statements inside the open transaction; statements that would end it are denied."""
    ends = (apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT, apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH)
    db.authorizer = lambda deed, *about: apsw.SQLITE_DENY if deed in ends else apsw.SQLITE_OK
    try:
        db.execute(sql)
    finally:
        db.authorizer = None


def _undo(db: apsw.Connection) -> None:
    if db.in_transaction:
        db.execute("ROLLBACK")


def _rows(db: apsw.Connection) -> dict[str, int]:
    tables = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'").fetchall()
    return {str(name): db.execute(f'SELECT count(*) FROM "{name}"').get for (name,) in tables}


def _refuse_loss(before: dict[str, int], after: dict[str, int]) -> None:
    # Law 1: rows never expire. A migration that leaves a table with fewer rows than before is wrong.
    for table, count in before.items():
        if after.get(table, 0) < count:
            raise ValueError(f"{count - after.get(table, 0)} rows of {table} would be lost")
