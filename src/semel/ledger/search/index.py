"""The search index: one SQLite file beside the ledger, on one thread, that may be lost at any time.

The index is never authoritative. It stores, in the same transaction as the words, up to which rev each session is
indexed; every hit is read from the ledger before it is shown. An index that is damaged, missing, or of another ledger
or version is rebuilt.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import apsw

from semel.ledger.search.feed import Page
from semel.ledger.search.words import Query, fold
from semel.ledger.storage.sql import Queries, Row, Tx, read_queries

VERSION = 1
MAX_ROW_ID = (1 << 63) - 1
_DAMAGED = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError, apsw.ConstraintError)
# SQLError: a table is missing. A query of ours is no syntax error: words are always quoted.
_REFUSED = (apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, apsw.BusyError)


class IndexFailed(Exception):
    """The index cannot be used now. The message says why, and what to do."""


class IndexReset(Exception):
    """The index was lost and is empty now: everything must be read again."""


@dataclass(frozen=True)
class Asked:
    """One page of a search. `session` is a GLOB pattern over keys; times in ms; `since` <= at < `until`.

    `below`: newest first, the (at, id) that the last page ended with; `skip`: best first, how many came before.
    """

    query: Query
    order: Literal["newest", "best"] = "newest"
    session: str | None = None
    role: str | None = None
    since: int | None = None
    until: int | None = None
    limit: int = 20
    below: tuple[int, int] = (MAX_ROW_ID, MAX_ROW_ID)
    skip: int = 0


@cache
def statements() -> Queries:
    """The named statements of the index."""
    return read_queries([("searching/queries.sql", _read("queries.sql"))])


@cache
def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


class Index:
    """The open index. Every method blocks and belongs to one thread. Raises IndexFailed, IndexReset."""

    def __init__(self, path: Path, ledger: str) -> None:
        self.path = path
        self.ledger = ledger
        self._db: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None  # device and number of the file that is open

    def __repr__(self) -> str:
        return f"<Index {self.path} {'open' if self._db else 'closed'}>"

    # ------------------------------------------------------------ asking

    def revs(self) -> dict[int, int]:
        """The rev up to which each session is indexed."""
        out: dict[int, int] = {}
        with self._look() as tx:
            while rows := tx.all("session_revs", after=max(out, default=-1), limit=1000):
                out.update((int(row.id), int(row.rev)) for row in rows)
        return out

    def rev(self, session: int) -> int:
        """The rev up to which one session is indexed; 0: not at all."""
        with self._look() as tx:
            row = tx.one("session_get", id=session)
        return 0 if row is None else int(row.rev)

    def find(self, asked: Asked) -> list[Row]:
        """Rows of id, session, seq and at."""
        told: dict[str, Any] = {
            "asked": asked.query.fts(), "role": asked.role, "since": asked.since, "until": asked.until,
            "session": asked.session, "limit": asked.limit,
        }  # fmt: skip
        with self._look() as tx:
            if asked.order == "best":
                return tx.all("find_best", **told, skip=asked.skip)
            return tx.all("find_newest", **told, at=asked.below[0], id=asked.below[1])

    def count(self) -> int:
        """How many entries can be found."""
        with self._look() as tx:
            return int(tx.value("count_docs"))

    # ------------------------------------------------------------ filling

    def take(self, session: int, page: Page) -> bool:
        """Index one page of a session's changes, in one transaction. True: words of deleted entries were dropped."""
        dropped = page.erased > 0 and self._drop_upto(session, page.erased)
        with self._change() as tx:
            for doc in page.docs:
                if doc.text:
                    tx.run("doc_set", id=doc.id, session=session, seq=doc.seq, at=doc.at, role=doc.role)
                    tx.run("word_set", id=doc.id, text=fold(doc.text))
                elif (known := tx.value("doc_id", session=session, seq=doc.seq)) is not None:
                    self._drop(tx, known)
            tx.run("session_set", id=session, key=page.key, rev=page.rev)
        return dropped

    def forget(self, session: int) -> bool:
        """Remove a session from the index. True if it had entries there."""
        dropped = self._drop_upto(session, MAX_ROW_ID)
        with self._change() as tx:
            tx.run("session_drop", id=session)
        return dropped

    def _drop_upto(self, session: int, upto: int) -> bool:
        found = False
        while True:
            with self._change() as tx:
                rows = tx.all("docs_upto", session=session, upto=upto, limit=1000)
                for row in rows:
                    self._drop(tx, row.id)
            if not rows:
                return found
            found = True

    def tidy(self) -> None:
        """Remove dropped words from the file and its log."""
        with self._change() as tx:
            tx.run("word_tidy")
        db = self._opened()
        with self._guarded():
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _drop(self, tx: Tx, id: int) -> None:
        tx.run("word_drop", id=id)
        tx.run("doc_drop", id=id)

    # ------------------------------------------------------------ the file

    def close(self) -> None:
        if self._db is not None:
            db, self._db = self._db, None
            with suppress(apsw.Error):  # whatever it could not write is made again
                db.close()

    @contextmanager
    def _look(self) -> Iterator[Tx]:
        db = self._opened()
        with self._guarded():
            yield Tx(db.cursor(), statements(), 0)

    @contextmanager
    def _change(self) -> Iterator[Tx]:
        db = self._opened()
        with self._guarded():
            db.execute("BEGIN IMMEDIATE")
            try:
                yield Tx(db.cursor(), statements(), 0)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # a full disk has undone it already
                    with suppress(apsw.Error):
                        db.execute("ROLLBACK")
                raise

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGED as fault:
            self._begin_again()
            raise IndexReset(f"the search index was damaged ({fault}) and is made anew") from fault
        except (*_REFUSED, OSError) as fault:
            self.close()
            raise self._failed(fault) from fault

    def _failed(self, fault: BaseException) -> IndexFailed:
        return IndexFailed(
            f"the search index {self.path} cannot be used ({fault}). The ledger does not need it and goes on. "
            "Free some space or mend the disk: searching goes on by itself"
        )

    def _opened(self) -> apsw.Connection:
        """The connection to the current file. Raises IndexReset if the file was just created."""
        if self._db is not None:
            if self._file == _identity(self.path):
                return self._db
            self.close()  # somebody removed or replaced it
        fresh = False
        with self._guarded():
            fresh = self._open()
        assert self._db is not None
        if fresh:
            raise IndexReset("the search index is made anew")
        return self._db

    def _open(self) -> bool:
        """Open the file. True: it is empty, whatever was there before."""
        made = _make_private(self.path)
        db = apsw.Connection(str(self.path))
        try:
            db.set_busy_timeout(2000)
            for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "secure_delete = ON", "temp_store = MEMORY"):
                db.execute(f"PRAGMA {pragma}")
            db.execute("PRAGMA journal_size_limit = 16777216")
            if not made and db.pragma("user_version") == VERSION:
                tx = Tx(db.cursor(), statements(), 0)
                if tx.value("about_get") == self.ledger:
                    self._db, self._file = db, _identity(self.path)
                    return False
            if db.pragma("user_version") or db.pragma("schema_version"):
                raise apsw.CorruptError("it is of another ledger or another version")
            with db:
                db.execute(_read("schema.sql"))
                Tx(db.cursor(), statements(), 0).run("about_set", ledger=self.ledger)
                db.execute(f"PRAGMA user_version = {VERSION}")
        except BaseException:
            db.close()
            raise
        self._db, self._file = db, _identity(self.path)
        return True

    def _begin_again(self) -> None:
        self.close()
        try:
            for end in ("", "-wal", "-shm", "-journal"):
                Path(f"{self.path}{end}").unlink(missing_ok=True)
        except OSError as fault:
            raise self._failed(fault) from fault


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        told = path.stat()
    except OSError:
        return None
    return told.st_dev, told.st_ino


def _make_private(path: Path) -> bool:
    """Create an empty file that only its owner can read. False: it already exists."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True
