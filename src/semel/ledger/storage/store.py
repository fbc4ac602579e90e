"""The store: one SQLite file that holds the ledger, with async reads and writes on its own threads.

    store = Store.open(path)
    heard = await store.write(hear, event)         # one transaction: hear(tx, event); durable on return
    rows = await store.read(entries_after, key)    # one consistent snapshot, with every commit before it

No database work runs on the event loop. `apply` and `look` are the same for callers without a loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from semel.ledger.storage import mark, migrate, wal
from semel.ledger.storage.connect import connect
from semel.ledger.storage.errors import LedgerClosed, LedgerReadOnly
from semel.ledger.storage.group_commit import Committer
from semel.ledger.storage.lock import Lock
from semel.ledger.storage.opening import check_readable, open_for_writing, own_mark, prepare
from semel.ledger.storage.reader import Readers
from semel.ledger.storage.refusals import failure
from semel.ledger.storage.sql import Tx, queries
from semel.ledger.storage.work_item import Job
from semel.ledger.storage.writer import Writer

P = ParamSpec("P")
T = TypeVar("T")
READERS = 2


def mark_as_copy(tx: Tx, life: int = 0) -> mark.Mark:
    """Mark this ledger as a copy, however it was made. `life`: the newest incarnation known from elsewhere, 0 if
    none."""
    tx.run("ledger_copied", at=tx.value("ledger_newest"), incarnation=life)
    return own_mark(tx)


def now_ms() -> int:
    """Milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


class Store:
    """An open ledger. Made by `open`, `open_sync` or `in_memory`."""

    def __init__(self, path: Path, committer: Committer | None, lock: Lock | None, *, was_whole: bool = False) -> None:
        self.path = path
        self._committer = committer  # None: opened for reading
        self._lock = lock
        self._was_whole = was_whole  # there was no log beside the file when it was opened
        self._writer: Writer | None = None  # None: no threads, `apply` runs on the caller's
        self._readers: Readers | None = None
        self._closed = False

    def __repr__(self) -> str:
        how = "closed" if self._closed else repr(self._writer or self._committer or "read only")
        return f"<Store {self.path} {how}>"

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        exclusive: bool = True,
        readonly: bool = False,
        marked: bool = False,
        clock: Callable[[], int] = now_ms,
    ) -> Self:
        """Open the ledger with its threads, creating or migrating it first. Blocks: call it before serving.

        `exclusive` takes the gateway's lock. `readonly` (for `doctor`, with or without a running gateway) changes
        nothing and takes no lock. `marked`: keep a mark file, so that an older copy of the ledger is recognised (Law
        14). Raises OldSqlite, LedgerPlace, LedgerInUse, NotALedger, LedgerNewer, LedgerReadOnly, LedgerFull ...
        (semel.ledger.storage.errors).
        """
        if readonly:
            store = cls(check_readable(Path(path), migrate.steps()[-1].version), None, None)
        else:
            store = cls.open_sync(path, exclusive=exclusive, clock=clock)
        if marked:
            store.keep_mark()
        try:
            connections = [connect(store.path, readonly=True) for _ in range(READERS)]
        except BaseException as fault:
            store.close()
            raise failure(fault, store.path) from fault
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
        way: Sequence[migrate.Step] | None = None,
        vfs: str | None = None,
    ) -> Self:
        """Open the ledger without threads: `apply` and `look` run on the caller's thread, on one connection.

        `way` (other migrations) and `vfs` (another disk) are for tests.
        """
        way = way or migrate.steps()
        opened = open_for_writing(Path(path), exclusive=exclusive, clock=clock, way=way, vfs=vfs)
        committer = Committer(opened.db, opened.path, queries(), clock)
        return cls(opened.path, committer, opened.lock, was_whole=opened.was_whole)

    @classmethod
    def in_memory(cls, *, clock: Callable[[], int] = now_ms) -> Self:
        """A ledger without threads that is gone when it is closed: for property tests."""
        path = Path(":memory:")
        db = connect(path)
        prepare(db, path, migrate.steps(), clock())
        return cls(path, Committer(db, path, queries(), clock), None)

    async def write(self, fn: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn(tx, ...)` as one transaction. Returns when it is durable.

        An exception from `fn` undoes the transaction and is raised here. If the caller is cancelled, the transaction
        still happens; only its outcome is lost. Raises LedgerFull, LedgerFailed, LedgerBusy, LedgerDamaged (not
        accepted), LedgerClosed.
        """
        job = Job(fn, args, kwargs, asyncio.get_running_loop())
        self._writer_or_refuse().submit(job)
        assert job.future is not None
        result: T = await job.future
        return result

    async def read(self, fn: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the read-only `fn(tx, ...)` in one snapshot that includes every earlier commit."""
        job = Job(fn, args, kwargs, asyncio.get_running_loop())
        self._readers_or_refuse().submit(job)
        assert job.future is not None
        result: T = await job.future
        return result

    def apply(self, fn: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """`write` for callers without an event loop: blocks until durable, and runs the `tx.after` callbacks on this
        thread.
        """
        job = Job(fn, args, kwargs, None)
        if self._writer is not None:
            job.done = threading.Event()
            self._writer.submit(job)
            job.done.wait()
        else:
            self._committer_or_refuse().commit((job,))
        result: T = job.answer()
        return result

    def apply_all(self, calls: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]]) -> list[Any]:
        """Run several transactions in one commit, without threads. The result of a failed one is its error."""
        jobs = [Job(fn, args, {}, None) for fn, args in calls]
        self._committer_or_refuse().commit(jobs)
        return [job.error if job.error is not None else job.answer() for job in jobs]

    def look(self, fn: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """`read` for a caller without an event loop."""
        job = Job(fn, args, kwargs, None)
        if self._readers is not None:
            job.done = threading.Event()
            self._readers.submit(job)
            job.done.wait()
        else:
            self._committer_or_refuse().look(job)
        result: T = job.answer()
        return result

    def keep_mark(self) -> None:
        """Detect whether this is an older copy of the ledger, and keep a mark file from now on. Raises LedgerError."""
        try:
            own = self.look(own_mark)
            known, used = mark.read(self.path), own.commits > 0
            same = known is not None and known.ledger == own.ledger
            log, base = self._known_log(own, known)
            if (used and not same) or (known is not None and same and known.is_ahead_of(own)):
                # The ledger is behind its mark, or was put here without one.
                own = self.apply(mark_as_copy, known.incarnation if known is not None and same else 0)
            self._committer_or_refuse().keep_mark(mark.MarkFile(self.path, replace(own, log=log, base=base)))
        except BaseException as fault:
            self.close()
            raise failure(fault, self.path) from fault

    def _known_log(self, own: mark.Mark, known: mark.Mark | None) -> tuple[str, tuple[int, int]]:
        """Identity of the current log and position of the database file when it began; ("", (0, 0)) if unknown."""
        log = wal.log_beside(self.path)
        if self._was_whole:
            return log, own.come
        if known is not None and (known.ledger, known.log) == (own.ledger, log):
            return log, known.base
        return "", (0, 0)

    def state(self) -> dict[str, Any]:
        """Numbers for `semel doctor`: commits, failures, the size of the log."""
        return {
            "path": str(self.path),
            **(self._committer.state() if self._committer else {"readonly": True}),
        }

    def close(self) -> None:
        """Finish what was submitted, close the database and release the lock. Closing twice is harmless."""
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _writer_or_refuse(self) -> Writer:
        if self._writer is None:
            self._committer_or_refuse()
            raise RuntimeError("this store was opened without threads: use apply")
        return self._writer

    def _readers_or_refuse(self) -> Readers:
        if self._readers is None:
            raise RuntimeError("this store was opened without threads: use look")
        return self._readers

    def _committer_or_refuse(self) -> Committer:
        if self._closed:
            raise LedgerClosed(path=self.path)
        if self._committer is None:
            raise LedgerReadOnly(path=self.path, why="it was opened for reading")
        return self._committer
