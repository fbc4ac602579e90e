"""Copy a ledger to another place, between SQLite and PostgreSQL in either direction.

    hold both -> the books of the source hold -> mark the target as unfinished -> copy every table -> read the target
    back and compare row for row -> the same books hold there -> copy the files -> mark the source as moved -> remove
    the target's mark

No gateway may run on either, and none can start until the end. Whatever interrupts the copy, at most one of the two can
be used afterwards: the source until it is marked as moved, then the target (Law 14). Repeating the command begins
anew.

A table's digest is the BLAKE2b-128 of its rows in the order of the key, each encoded as a MessagePack array. The
source's digest is of the rows as the target's engine stores them (`CopyTarget.adapt_rows`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from semel.ledger.admin import books
from semel.ledger.copy_files import ContentDiffers, FileCopy, ObjectsUnreadable, ReadObject, check_objects, copy_files
from semel.ledger.engines import require_engine
from semel.ledger.sqlite.tables import list_tables
from semel.ledger.storage.errors import CopyFailed, CopySourceBroken, CopyTargetInUse, LedgerMoved
from semel.ledger.storage.location import DatabaseUrl, LedgerLocation
from semel.ledger.storage.rows import LedgerRow
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.transfer import CopySource, CopyTarget, LedgerReader, RowValues, Table

ROWS_PER_REPORT = 10_000
BLOBS = "blobs"

Report = Callable[[str, int], object]
"""Is told of the progress: what is being done, and how many rows more are done. Each row is told of twice."""


@dataclass(frozen=True)
class TableCopy:
    """A table in both ledgers. `digest`: of its rows, in hex."""

    table: str
    rows: int
    digest: str


@dataclass(frozen=True)
class LedgerCopy:
    """A finished copy.

    `name`: the ledger's own. `replaced`: in how many texts U+0000 became U+2400. `books`: how many hold in both.
    """

    name: str
    source: str
    target: str
    tables: tuple[TableCopy, ...]
    replaced: int
    books: int
    files: FileCopy

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)


def copy_ledger(
    source: LedgerLocation,
    target: LedgerLocation,
    data_dirs: tuple[Path, Path],
    *,
    clock: Callable[[], int],
    report: Report = lambda stage, rows: None,
    announce: Callable[[int], object] = lambda rows: None,
    read_object: ReadObject | None = None,
) -> LedgerCopy:
    """Copy the ledger at `source` and its files to the empty place `target`, and mark the source as moved.

    `data_dirs`: the data directories of both, which hold the files; they may be the same. `announce` is told how many
    rows there are. `read_object`: reads files that are in object storage; None if there is none. Raises LedgerError:
    then the source is as it was, and no gateway starts on what there is of the target.
    """
    with closing(_open_source(source, clock)) as old, closing(_open_target_of(old, source, target, clock)) as new:
        with _failing_as_ledger_error(source, target, old, new):
            announce(sum(old.count_rows(table) for table in list_tables()))
            check_objects(old, read_object)
            before = _check_books(old, source)
            new.begin(str(source))
            tables = tuple(_copy_table(old, new, table, report) for table in list_tables())
            report("indexes", 0)
            new.complete()
            for table, copied in zip(list_tables(), tables, strict=True):
                _compare_table(new, table, copied, report)
            report("books", 0)
            _compare_books(before, new.run(_read_books))
            report("files", 0)
            files = copy_files(old, new, data_dirs[0] / BLOBS, data_dirs[1] / BLOBS, read_object)
            old.mark_moved(str(target))
            new.finish()
        name = old.run(lambda tx: tx.get(LedgerRow, "ledger_get")).name
        return LedgerCopy(name, str(source), str(target), tables, new.replaced, len(before.checks), files)


def _open_source(location: LedgerLocation, clock: Callable[[], int]) -> CopySource:
    if isinstance(location, DatabaseUrl):
        require_engine(location)
        from semel.ledger.postgres.transfer import PostgresSource

        return PostgresSource(location.uri, clock)
    from semel.ledger.sqlite.transfer import SqliteSource

    return SqliteSource(location, clock)


def _open_target_of(
    old: CopySource, source: LedgerLocation, target: LedgerLocation, clock: Callable[[], int]
) -> CopyTarget:
    """Open the target. Raises LedgerMoved if the source has been copied before, unless that copy is unfinished here."""
    if old.moved_to not in (None, str(target)):
        raise LedgerMoved(path=source, target=old.moved_to)
    try:
        new = _open_target(target, clock)
    except CopyTargetInUse:
        if old.moved_to is not None:
            raise LedgerMoved(path=source, target=old.moved_to) from None
        raise
    if old.moved_to is not None and not new.is_unfinished:  # somebody emptied the target
        new.close()
        raise LedgerMoved(path=source, target=old.moved_to)
    return new


def _open_target(location: LedgerLocation, clock: Callable[[], int]) -> CopyTarget:
    if isinstance(location, DatabaseUrl):
        require_engine(location)
        from semel.ledger.postgres.transfer import PostgresTarget

        return PostgresTarget(location.uri, clock)
    from semel.ledger.sqlite.transfer import SqliteTarget

    return SqliteTarget(location, clock)


@contextmanager
def _failing_as_ledger_error(
    source: LedgerLocation, target: LedgerLocation, old: CopySource, new: CopyTarget
) -> Iterator[None]:
    failures: tuple[type[Exception], ...] = (
        *old.failures, *new.failures, ContentDiffers, ObjectsUnreadable, OSError,
    )  # fmt: skip
    try:
        yield
    except failures as error:
        why = " ".join(str(error).split())
        raise CopyFailed(path=source, target=target, why=why) from error


# ---------------------------------------------------------------- rows


class _Digest:
    """The digest of the rows that pass by, and their number."""

    def __init__(self, stage: str, report: Report) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._stage = stage
        self._report = report
        self.rows = 0

    def follow(self, rows: Iterable[RowValues]) -> Iterator[RowValues]:
        encode, update = msgspec.msgpack.Encoder().encode, self._hash.update
        for row in rows:
            update(encode(row))
            self.rows += 1
            if self.rows % ROWS_PER_REPORT == 0:
                self._report(self._stage, ROWS_PER_REPORT)
            yield row
        self._report(self._stage, self.rows % ROWS_PER_REPORT)

    def finish(self, table: Table) -> TableCopy:
        return TableCopy(table.name, self.rows, self._hash.hexdigest())


def _copy_table(old: CopySource, new: CopyTarget, table: Table, report: Report) -> TableCopy:
    digest = _Digest(f"copy {table.name}", report)
    new.write_rows(table, digest.follow(new.adapt_rows(table, old.read_rows(table))))
    return digest.finish(table)


def _compare_table(new: CopyTarget, table: Table, copied: TableCopy, report: Report) -> None:
    digest = _Digest(f"check {table.name}", report)
    for _ in digest.follow(new.read_rows(table)):
        pass
    found = digest.finish(table)
    if found != copied:
        raise ContentDiffers(f"the table {table.name} differs: {copied.rows} rows became {found.rows}, or other ones")


# ---------------------------------------------------------------- books


@dataclass(frozen=True)
class _Books:
    checks: tuple[books.BookCheck, ...]
    counts: dict[str, int]


def _read_books(tx: Tx) -> _Books:
    return _Books(tuple(books.audit(tx, max_rows=1)), books.count_rows(tx))


def _check_books(old: LedgerReader, source: LedgerLocation) -> _Books:
    """Return the source's books. Raises CopySourceBroken if one does not hold."""
    found = old.run(_read_books)
    broken = [check.name for check in found.checks if not check.ok]
    if broken:
        raise CopySourceBroken(path=source, broken=", ".join(broken))
    return found


def _compare_books(before: _Books, after: _Books) -> None:
    broken = [check.name for check in after.checks if not check.ok]
    if broken:
        raise ContentDiffers(f"these books do not hold in the copy: {', '.join(broken)}")
    if after != before:
        raise ContentDiffers(f"the books differ: {before.counts} became {after.counts}")
