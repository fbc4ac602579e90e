"""The search index: one SQLite file beside the ledger, used by one thread. Losing the file loses nothing.

The index is never authoritative: every hit is read from the ledger before it is shown. The transaction that indexes a
page of changes also stores the rev up to which that session is now indexed. An index that is damaged, missing, or
belongs to another ledger or version is rebuilt.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import apsw

from semel.ledger.search.feed import ChangedPage
from semel.ledger.search.words import SearchQuery, fold_text
from semel.ledger.sqlite.connect import connect
from semel.ledger.sqlite.tx import SqliteTx
from semel.ledger.storage.rows import Row
from semel.ledger.storage.sql import Queries, Tx, read_queries

VERSION = 1
MAX_ROW_ID = (1 << 63) - 1
_DAMAGED = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError, apsw.ConstraintError)
# SQLError: a table is missing. It cannot be a syntax error in a search, because words are always quoted.
_REFUSED = (apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, apsw.BusyError)


class FoundEntry(Row):
    """The position of an entry that a search found."""

    id: int
    session: int
    seq: int
    at: int


class IndexFailed(Exception):
    """The index cannot be used now. The message says why, and what the operator can do."""


class IndexReset(Exception):
    """The index file is new and empty, so everything must be indexed again. `level`: how grave that is in the log."""

    def __init__(self, reason: str, level: int = logging.DEBUG) -> None:
        super().__init__(reason)
        self.level = level


class _IndexOfAnother(Exception):
    """The index file belongs to another ledger, as after a restore, or has the schema of another version."""


@dataclass(frozen=True)
class SearchRequest:
    """The request for one page of a search. `session`: a GLOB pattern that session keys must match.

    `since` <= time of the entry < `until` (ms). With the order "newest", the page begins after the entry `below`: the
    (time, id) of the last entry of the previous page. With the order "best", it begins after the first `skip` entries.
    """

    query: SearchQuery
    order: Literal["newest", "best"] = "newest"
    session: str | None = None
    role: str | None = None
    since: int | None = None
    until: int | None = None
    limit: int = 20
    below: tuple[int, int] = (MAX_ROW_ID, MAX_ROW_ID)
    skip: int = 0


@cache
def index_statements() -> Queries:
    """Return the named SQL statements of the index."""
    return read_queries([("search/queries.sql", _read_resource("queries.sql"))])


@cache
def _read_resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


class Index:
    """The open index. All methods block and must be called on one thread. They may raise IndexFailed or IndexReset."""

    def __init__(self, path: Path, ledger: str) -> None:
        self.path = path
        self.ledger = ledger
        self._db: apsw.Connection | None = None
        self._file_identity: tuple[int, int] | None = None  # device and inode of the open file

    def __repr__(self) -> str:
        return f"<Index {self.path} {'open' if self._db else 'closed'}>"

    # ------------------------------------------------------------ reading

    def revs(self) -> dict[int, int]:
        """Return the rev up to which each session is indexed, by session id."""
        out: dict[int, int] = {}
        with self._reading() as tx:
            while rows := tx.pairs(int, int, "session_revs", after=max(out, default=-1), limit=1000):
                out.update(rows)
        return out

    def rev(self, session: int) -> int:
        """Return the rev up to which a session is indexed; 0 if it is not indexed at all."""
        with self._reading() as tx:
            return tx.value(int, "session_get", id=session) or 0

    def find(self, request: SearchRequest) -> list[FoundEntry]:
        """Return the page of matching entries that a request asks for."""
        parameters: dict[str, Any] = {
            "asked": request.query.to_fts5(), "role": request.role, "since": request.since, "until": request.until,
            "session": request.session, "limit": request.limit,
        }  # fmt: skip
        with self._reading() as tx:
            if request.order == "best":
                return tx.all(FoundEntry, "find_best", **parameters, skip=request.skip)
            return tx.all(FoundEntry, "find_newest", **parameters, at=request.below[0], id=request.below[1])

    def count(self) -> int:
        """Return the number of entries in the index."""
        with self._reading() as tx:
            return tx.number("count_docs")

    # ------------------------------------------------------------ writing

    def index_page(self, session: int, page: ChangedPage) -> bool:
        """Index one page of changes.

        Return whether deleted entries were removed; then `purge_removed` should follow.
        """
        was_dropped = page.erased > 0 and self._remove_entries(session, page.erased)
        with self._transaction() as tx:
            for doc in page.docs:
                if doc.text:
                    tx.run("doc_set", id=doc.id, session=session, seq=doc.seq, at=doc.at, role=doc.role)
                    tx.run("word_set", id=doc.id, text=fold_text(doc.text))
                elif (doc_id := tx.value(int, "doc_id", session=session, seq=doc.seq)) is not None:
                    self._remove_entry(tx, doc_id)
            tx.run("session_set", id=session, key=page.key, rev=page.rev)
        return was_dropped

    def remove_session(self, session: int) -> bool:
        """Remove a session from the index. Return whether it had entries there."""
        was_dropped = self._remove_entries(session, MAX_ROW_ID)
        with self._transaction() as tx:
            tx.run("session_drop", id=session)
        return was_dropped

    def _remove_entries(self, session: int, max_seq: int) -> bool:
        was_dropped = False
        while True:
            with self._transaction() as tx:
                rows = tx.values(int, "docs_upto", session=session, upto=max_seq, limit=1000)
                for row in rows:
                    self._remove_entry(tx, row)
            if not rows:
                return was_dropped
            was_dropped = True

    def purge_removed(self) -> None:
        """Erase the words of removed entries from the database file and its write-ahead log."""
        with self._transaction() as tx:
            tx.run("word_tidy")
        db = self._connection()
        with self._translate_errors():
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _remove_entry(self, tx: Tx, id: int) -> None:
        tx.run("word_drop", id=id)
        tx.run("doc_drop", id=id)

    # ------------------------------------------------------------ the file

    def close(self) -> None:
        if self._db is not None:
            db, self._db = self._db, None
            with suppress(apsw.Error):  # whatever is not written is rebuilt later
                db.close()

    @contextmanager
    def _reading(self) -> Iterator[Tx]:
        db = self._connection()
        with self._translate_errors():
            yield SqliteTx(db.cursor(), index_statements(), 0)

    @contextmanager
    def _transaction(self) -> Iterator[Tx]:
        db = self._connection()
        with self._translate_errors():
            db.execute("BEGIN IMMEDIATE")
            try:
                yield SqliteTx(db.cursor(), index_statements(), 0)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # on a full disk, SQLite has rolled back already
                    with suppress(apsw.Error):
                        db.execute("ROLLBACK")
                raise

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except _IndexOfAnother:
            self._delete_files()
            reason = "the search index belongs to another ledger or another version, and is rebuilt"
            raise IndexReset(reason, logging.INFO) from None
        except _DAMAGED as error:
            self._delete_files()
            raise IndexReset(f"the search index was damaged ({error}) and is rebuilt", logging.WARNING) from error
        except (*_REFUSED, OSError) as error:
            self.close()
            raise self._index_failed(error) from error

    def _index_failed(self, error: BaseException) -> IndexFailed:
        return IndexFailed(
            f"the search index {self.path} cannot be used ({error}). The ledger works without it. "
            "Free some space or repair the disk; search then continues by itself"
        )

    def _connection(self) -> apsw.Connection:
        """Return the connection to the index file. Raises IndexReset if this call has just created the file."""
        if self._db is not None:
            if self._file_identity == _identify_file(self.path):
                return self._db
            self.close()  # somebody removed or replaced the file
        is_new = False
        with self._translate_errors():
            is_new = self._open()
        assert self._db is not None
        if is_new:
            raise IndexReset("the search index is rebuilt")
        return self._db

    def _open(self) -> bool:
        """Open or create the index file. Return True if the file is new, and so without entries.

        Raises _IndexOfAnother if the file belongs to another ledger or another version.
        """
        is_new_file = _create_private(self.path)
        db = apsw.Connection(str(self.path))
        try:
            db.set_busy_timeout(2000)
            for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "secure_delete = ON", "temp_store = MEMORY"):
                db.execute(f"PRAGMA {pragma}")
            db.execute("PRAGMA journal_size_limit = 16777216")
            if not is_new_file and db.pragma("user_version") == VERSION:
                tx = SqliteTx(db.cursor(), index_statements(), 0)
                if tx.value(str, "about_get") == self.ledger:
                    self._db, self._file_identity = db, _identify_file(self.path)
                    return False
            if db.pragma("user_version") or db.pragma("schema_version"):
                raise _IndexOfAnother
            with db:
                db.execute(_read_resource("schema.sql"))
                SqliteTx(db.cursor(), index_statements(), 0).run("about_set", ledger=self.ledger)
                db.execute(f"PRAGMA user_version = {VERSION}")
        except BaseException:
            db.close()
            raise
        self._db, self._file_identity = db, _identify_file(self.path)
        return True

    def _delete_files(self) -> None:
        self.close()
        try:
            for end in ("", "-wal", "-shm", "-journal"):
                Path(f"{self.path}{end}").unlink(missing_ok=True)
        except OSError as error:
            raise self._index_failed(error) from error


def _identify_file(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _create_private(path: Path) -> bool:
    """Create an empty file that only its owner can read. Return False if the file already exists."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


def copy_index(source: Path, target: Path, ledger: str) -> None:
    """Copy the index of `ledger` from `source`, which is only read, to `target`.

    If the source is missing, damaged or belongs to another ledger, the copy is empty: the caller can index everything
    again. Raises IndexFailed if the copy cannot be written.
    """
    if source.exists():
        with (
            suppress(apsw.Error),
            closing(apsw.Connection(str(target))) as copy,
            closing(connect(source, readonly=True)) as index,
            copy.backup("main", index, "main") as backup,
        ):
            backup.step()
    with closing(Index(target, ledger)) as opened:
        for _ in range(3):  # a damaged file is removed, and a new one made
            with suppress(IndexReset):
                opened.revs()
                return
