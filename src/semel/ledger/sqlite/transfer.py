"""The ends of a copy of a ledger where one is a SQLite file (`semel.ledger.copy_ledger`).

The new ledger is written to `ledger.db.new` and renamed at the end. From the beginning to the end, `ledger.db.copying`
exists; while it does, no gateway starts there. The old ledger gets the note `ledger.db.moved`, which names its copy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import apsw

from semel.ledger.sqlite import mark_file
from semel.ledger.sqlite.connect import connect
from semel.ledger.sqlite.migrate import APPLICATION_ID
from semel.ledger.sqlite.open_ledger import (
    MOVED_SUFFIX,
    check_readable,
    copying_flag_path,
    lock_ledger,
    make_folder,
    moved_note_path,
    read_moved_to,
    read_own_mark,
    refuse_network_file_system,
    restoring_flag_path,
)
from semel.ledger.sqlite.store import Store
from semel.ledger.sqlite.tx import SqliteTx
from semel.ledger.storage.atomic_files import sync_folder, write_atomically
from semel.ledger.storage.errors import CopyTargetInUse, LedgerRestoring
from semel.ledger.storage.migrations import list_migrations
from semel.ledger.storage.sql import Tx, queries
from semel.ledger.storage.transfer import CopySource, CopyTarget, LedgerReader, RowValues, Table

T = TypeVar("T")

_LEDGER_SUFFIXES = ("", "-wal", "-journal", mark_file.MARK_SUFFIX, MOVED_SUFFIX)
"""Of the files that tell of a ledger in a place."""
_CACHE_KIB = 64 * 1024


class ReferenceBroken(Exception):
    """Rows of the copy point to rows that are not there. The message names a table."""


class _FileReader(LedgerReader):
    """Reads on a connection of its own."""

    failures = (apsw.Error, OSError, ReferenceBroken)

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._db: apsw.Connection | None = None

    @property
    def db(self) -> apsw.Connection:
        assert self._db is not None
        return self._db

    def count_rows(self, table: Table) -> int:
        count: int = self.db.execute(f'SELECT count(*) FROM "{table.name}"').get
        return count

    def read_rows(self, table: Table) -> Iterator[RowValues]:
        sql = f'SELECT {table.column_list} FROM "{table.name}" ORDER BY {table.key_list}'
        yield from self.db.cursor().execute(sql)

    def run(self, fn: Callable[[Tx], T]) -> T:
        return fn(SqliteTx(self.db.cursor(), queries(), self._clock()))

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


class SqliteSource(_FileReader, CopySource):
    """A ledger in a file, opened and held as by a gateway: it is recognised if it is an older copy (Law 14)."""

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        self._path = check_readable(path, list_migrations()[-1].version)
        self._store = Store.open_sync(self._path, clock=clock, may_be_moved=True)
        self._store.keep_mark()
        self.moved_to = read_moved_to(self._path)
        self._db = connect(self._path, readonly=True)
        self._db.execute("BEGIN")

    def mark_moved(self, target: str) -> None:
        _write_durably(moved_note_path(self._path), target)

    def close(self) -> None:
        super().close()
        self._store.close()


class SqliteTarget(_FileReader, CopyTarget):
    """A file that becomes a ledger. Raises CopyTargetInUse if there is one, or a remainder of one."""

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        self._path = path.expanduser().resolve()
        make_folder(self._path.parent)
        refuse_network_file_system(self._path.parent)
        self._lock = lock_ledger(self._path)
        try:
            self.is_unfinished = copying_flag_path(self._path).exists()
            self._refuse_used_place()
        except BaseException:
            self._lock.release()
            raise
        self.replaced = 0
        self._new = self._path.with_name(f"{self._path.name}.new")
        self._index_texts: list[str] = []

    def _refuse_used_place(self) -> None:
        if restoring_flag_path(self._path).exists():
            raise LedgerRestoring(path=self._path)
        if self.is_unfinished:
            return
        found = [self._path.with_name(self._path.name + suffix) for suffix in _LEDGER_SUFFIXES]
        found = [path for path in found if path.exists()]
        if found:
            raise CopyTargetInUse(path=self._path, why=f"{found[0].name} is there", name=self._path.name)

    def begin(self, source: str) -> None:
        _write_durably(copying_flag_path(self._path), source)
        # While the flag is there, a file in the ledger's place is the copy whose last step was interrupted.
        for path in (self._path, mark_file.mark_path(self._path), self._new):
            path.unlink(missing_ok=True)
        os.close(os.open(self._new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        self._db = connect(self._new)
        # No journal: an interrupted copy is begun anew.
        for pragma in ("page_size = 4096", "journal_mode = OFF", "synchronous = OFF", f"cache_size = -{_CACHE_KIB}"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("PRAGMA foreign_keys = OFF")  # checked at the end
        for migration in list_migrations():
            self._db.execute(migration.sql)
        self._drop_indexes()

    def _drop_indexes(self) -> None:
        """Drop the indexes. They are built from all rows at the end, by one sort for each."""
        indexes = self.db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
        for name, sql in indexes.fetchall():
            self._index_texts.append(str(sql))
            self.db.execute(f'DROP INDEX "{name}"')

    def write_rows(self, table: Table, rows: Iterable[RowValues]) -> None:
        places = ", ".join("?" for _ in table.columns)
        with self.db:
            self.db.executemany(f'INSERT INTO "{table.name}"({table.column_list}) VALUES({places})', rows)

    def complete(self) -> None:
        with self.db:
            for sql in self._index_texts:
                self.db.execute(sql)
        if lost := self.db.execute("PRAGMA foreign_key_check").fetchall():
            raise ReferenceBroken(f"{len(lost)} rows point nowhere, the first in {lost[0][0]}")
        self.db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self.db.execute(f"PRAGMA user_version = {list_migrations()[-1].version}")
        self.db.close()  # before the file is opened otherwise: closing a descriptor drops SQLite's locks
        _sync_file(self._new)
        self._db = connect(self._new, readonly=True)

    def finish(self) -> None:
        mark = self.run(read_own_mark)
        _FileReader.close(self)
        mark_file.MarkFile(self._path, mark).close()  # without it, the ledger would be taken for an older copy
        self._new.rename(self._path)
        sync_folder(self._path.parent)
        copying_flag_path(self._path).unlink()
        sync_folder(self._path.parent)

    def close(self) -> None:
        super().close()
        self._lock.release()


def _write_durably(path: Path, text: str) -> None:
    write_atomically(path, f"{text}\n")
    sync_folder(path.parent)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
