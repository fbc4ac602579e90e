"""The store of the embedded engine: one SQLite file that holds the ledger.

    store = Store.open(path)

It has one writing thread with group commit, and threads that read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from semel.ledger.sqlite import mark_file
from semel.ledger.sqlite.connect import connect, measure_files
from semel.ledger.sqlite.errors import to_ledger_error
from semel.ledger.sqlite.group_commit import Committer
from semel.ledger.sqlite.open_ledger import Lock, check_readable, open_for_writing, prepare_ledger, read_own_mark
from semel.ledger.sqlite.threads import Readers, Writer
from semel.ledger.storage.errors import LedgerClosed, LedgerReadOnly
from semel.ledger.storage.migrations import Migration, Upgrade, list_migrations
from semel.ledger.storage.sql import Tx, queries
from semel.ledger.storage.store import LedgerSize, LedgerStore, now_ms
from semel.ledger.storage.work import WorkItem

READERS = 2


def mark_as_copy(tx: Tx, incarnation: int = 0) -> mark_file.LedgerMark:
    """Mark this ledger as a restored copy, which the gateway must settle before it uses it (Law 14).

    Return its new mark. `incarnation`: the newest incarnation of this ledger that its mark file knows; 0 if there is
    none.
    """
    tx.run("ledger_copied", at=tx.number("ledger_newest"), incarnation=incarnation)
    return read_own_mark(tx)


class Store(LedgerStore):
    """An open ledger. Create it with `open`, `open_sync` or `in_memory`."""

    def __init__(self, path: Path, committer: Committer | None, lock: Lock | None, *, was_whole: bool = False) -> None:
        self.path = path
        self._committer = committer  # None: opened for reading
        self._lock = lock
        self._was_whole = was_whole  # no log lay beside the file when it was opened
        self._writer: Writer | None = None  # None: no threads; `write_sync` works on the caller's
        self._readers: Readers | None = None
        self._closed = False

    @property
    def file(self) -> Path:
        return self.path

    def __repr__(self) -> str:
        status = "closed" if self._closed else repr(self._writer or self._committer or "read only")
        return f"<Store {self.path} {status}>"

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        exclusive: bool = True,
        readonly: bool = False,
        marked: bool = False,
        clock: Callable[[], int] = now_ms,
        announce: Callable[[Upgrade], object] | None = None,
    ) -> Self:
        """Create or migrate the ledger, open it and start its threads. This blocks, so call it before serving.

        `exclusive`: hold the gateway's lock. `readonly`: change nothing and take no lock; `semel doctor` uses it,
        whether or not a gateway runs. `marked`: keep a mark file, by which an older copy of the ledger is recognised
        (Law 14). `announce` is called before an older ledger is migrated. Raises OldSqlite, LedgerPlace, LedgerInUse,
        NotALedger, LedgerNewer, LedgerReadOnly, LedgerFull and other errors of `semel.ledger.storage.errors`.
        """
        if readonly:
            store = cls(check_readable(Path(path), list_migrations()[-1].version), None, None)
        else:
            store = cls.open_sync(path, exclusive=exclusive, clock=clock, announce=announce)
        if marked:
            store.keep_mark()
        try:
            connections = [connect(store.path, readonly=True) for _ in range(READERS)]
        except BaseException as error:
            store.close()
            raise to_ledger_error(error, store.path) from error
        if store._committer is not None:
            store._writer = Writer(store._committer, store.path)
        store._readers = Readers(connections, store.path, queries(), clock)
        return store

    @classmethod
    def open_sync(
        cls,
        path: Path | str,
        *,
        exclusive: bool = True,
        clock: Callable[[], int] = now_ms,
        migrations: Sequence[Migration] | None = None,
        vfs: str | None = None,
        announce: Callable[[Upgrade], object] | None = None,
        may_be_moved: bool = False,
    ) -> Self:
        """Open the ledger without threads: `write_sync` and `read_sync` run on the caller's thread, on one connection.

        `exclusive`, `announce` and the errors raised: as in `open`. `may_be_moved`: open it even if a copy has taken
        its place. Tests pass `migrations`, to use other migrations, and `vfs`, to simulate another disk.
        """
        migrations = migrations or list_migrations()
        opened = open_for_writing(
            Path(path), exclusive=exclusive, clock=clock, migrations=migrations, vfs=vfs, announce=announce,
            may_be_moved=may_be_moved,
        )  # fmt: skip
        committer = Committer(opened.db, opened.path, queries(), clock)
        return cls(opened.path, committer, opened.lock, was_whole=opened.was_whole)

    @classmethod
    def in_memory(cls, *, clock: Callable[[], int] = now_ms) -> Self:
        """Open a new ledger in memory, without threads, for property tests. Its content is lost when it is closed."""
        path = Path(":memory:")
        db = connect(path)
        prepare_ledger(db, path, list_migrations(), clock())
        return cls(path, Committer(db, path, queries(), clock), None)

    @property
    def has_threads(self) -> bool:
        return self._writer is not None or self._readers is not None

    @property
    def was_closed(self) -> bool:
        return self._was_whole

    def keep_mark(self) -> None:
        """Record each later commit in the ledger's mark file. Raises LedgerError.

        Before that, mark the ledger as a copy if it is behind its mark file, or if it has commits but no mark file of
        its own.
        """
        try:
            ledger_mark = self.read_sync(read_own_mark)
            file_mark = mark_file.read_mark(self.path)
            log, base = self._identify_log(ledger_mark, file_mark)
            if mark_file.is_older_copy(ledger_mark, file_mark):
                is_same_ledger = file_mark is not None and file_mark.ledger == ledger_mark.ledger
                ledger_mark = self.write_sync(
                    mark_as_copy, file_mark.incarnation if file_mark is not None and is_same_ledger else 0
                )
            self._require_committer().keep_mark(mark_file.MarkFile(self.path, replace(ledger_mark, log=log, base=base)))
        except BaseException as error:
            self.close()
            raise to_ledger_error(error, self.path) from error

    def _identify_log(
        self, ledger_mark: mark_file.LedgerMark, file_mark: mark_file.LedgerMark | None
    ) -> tuple[str, tuple[int, int]]:
        """Return the identity of the current write-ahead log, and the database file's position when that log began.

        Return ("", (0, 0)) if they are unknown.
        """
        log = mark_file.identify_log(self.path)
        if self._was_whole:
            return log, ledger_mark.position
        if file_mark is not None and (file_mark.ledger, file_mark.log) == (ledger_mark.ledger, log):
            return log, file_mark.base
        return "", (0, 0)

    def measure(self) -> LedgerSize:
        return LedgerSize(measure_files(self.path))

    def statistics(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            **(self._committer.statistics() if self._committer else {"readonly": True}),
        }

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._writer is not None:
            self._writer.close()
        if self._readers is not None:
            self._readers.close()
        if self._committer is not None:
            self._committer.close()
        if self._lock is not None:
            self._lock.release()

    def _queue_write(self, job: WorkItem) -> None:
        self._require_writer().submit(job)

    def _queue_read(self, job: WorkItem) -> None:
        self._require_readers().submit(job)

    def _write_here(self, job: WorkItem) -> None:
        self._require_committer().commit((job,))

    def _read_here(self, job: WorkItem) -> None:
        self._require_committer().read(job)

    def _require_writer(self) -> Writer:
        if self._writer is None:
            self._require_committer()
            raise RuntimeError("this store was opened without threads: use write_sync")
        return self._writer

    def _require_readers(self) -> Readers:
        if self._readers is None:
            raise RuntimeError("this store was opened without threads: use read_sync")
        return self._readers

    def _require_committer(self) -> Committer:
        if self._closed:
            raise LedgerClosed(path=self.path)
        if self._committer is None:
            raise LedgerReadOnly(path=self.path, why="it was opened for reading")
        return self._committer
