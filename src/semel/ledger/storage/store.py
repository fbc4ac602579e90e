"""What the ledger's users see of an engine: a store, with async reads and writes on threads of its own.

    heard = await store.write(hear, event)         # one transaction: hear(tx, event); durable on return
    rows = await store.read(entries_after, key)    # one consistent snapshot, with every commit before it

No database work runs on the event loop. `write_sync` and `read_sync` do the same for callers without an event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.work import WorkItem

P = ParamSpec("P")
T = TypeVar("T")


def now_ms() -> int:
    """Return the current time in milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


def touch(tx: Tx) -> None:
    tx.run("ledger_touch")


def note_restored(tx: Tx) -> None:
    """Mark the ledger as a copy of the past, which the next start settles (Law 14)."""
    tx.run("ledger_copied", at=tx.number("ledger_newest"), incarnation=0)


def do_nothing(tx: Tx) -> None:
    """Change nothing. Such a transaction costs no sync of the disk."""


@dataclass(frozen=True)
class LedgerSize:
    """Sizes in bytes. `files`: what the content of files takes up in the ledger. `ledger`: all else in it."""

    ledger: int = 0
    files: int = 0


class LedgerStore:
    """An open ledger. Each engine has a class of its own, which queues jobs, runs them and delivers their results."""

    async def write(self, fn: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn(tx, ...)` as one transaction. Return its result once the transaction is durable.

        An exception from `fn` undoes the transaction and is raised here. If the caller is cancelled, the transaction
        still happens; only its outcome is lost. Raises LedgerFull, LedgerFailed, LedgerBusy or LedgerDamaged if the
        transaction was not accepted, and LedgerClosed if the ledger is closed.
        """
        job = WorkItem(fn, args, kwargs, asyncio.get_running_loop())
        self._queue_write(job)
        assert job.future is not None
        result: T = await job.future
        return result

    async def read(self, fn: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the read-only function `fn(tx, ...)` in a snapshot that includes every earlier commit.

        Return its result.
        """
        job = WorkItem(fn, args, kwargs, asyncio.get_running_loop())
        self._queue_read(job)
        assert job.future is not None
        result: T = await job.future
        return result

    async def test_write(self) -> None:
        """Write to the disk without changing what the ledger records. Raises the errors that `write` raises."""
        await self.write(touch)

    async def wait_for_writer(self) -> None:
        """Return once all writes queued so far are handled, even if the disk refused them."""
        with contextlib.suppress(LedgerError):
            await self.write(do_nothing)

    def write_sync(self, fn: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Do the same as `write` for a caller without an event loop: block until the transaction is durable.

        The callbacks of `tx.after_commit` run on the caller's thread.
        """
        job = WorkItem(fn, args, kwargs, None)
        if self.has_threads:
            job.done = threading.Event()
            self._queue_write(job)
            job.done.wait()
        else:
            self._write_here(job)
        result: T = job.finish_in_thread()
        return result

    def read_sync(self, fn: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Do the same as `read` for a caller without an event loop."""
        job = WorkItem(fn, args, kwargs, None)
        if self.has_threads:
            job.done = threading.Event()
            self._queue_read(job)
            job.done.wait()
        else:
            self._read_here(job)
        result: T = job.finish_in_thread()
        return result

    def now(self) -> int:
        """Return the time by the clock of all gateways of this ledger, in ms since the Unix epoch.

        It is the machine's, or the database server's. Any thread may call this.
        """
        return now_ms()

    @property
    def file(self) -> Path | None:
        """The ledger's file, beside which its search index lies; None if it is in a database."""
        raise NotImplementedError

    def measure(self) -> LedgerSize:
        """Return the size of the ledger. This blocks."""
        raise NotImplementedError

    @property
    def holds_files(self) -> bool:
        """Whether the content of files belongs into the ledger (`semel.ledger.file_pieces`), not beside it."""
        return False

    @property
    def has_threads(self) -> bool:
        """Whether jobs run on the store's own threads. Otherwise only `write_sync` and `read_sync` may be called."""
        raise NotImplementedError

    @property
    def was_closed(self) -> bool:
        """Whether the last program to use the ledger had closed it cleanly. False after a kill or a power failure."""
        raise NotImplementedError

    def statistics(self) -> dict[str, Any]:
        """Return figures for `semel doctor`: commits, failures and what the engine has to say of itself."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish all submitted jobs and close the ledger. Closing twice is harmless."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _queue_write(self, job: WorkItem) -> None:
        raise NotImplementedError

    def _queue_read(self, job: WorkItem) -> None:
        raise NotImplementedError

    def _write_here(self, job: WorkItem) -> None:
        """Run a write on the caller's thread."""
        raise NotImplementedError

    def _read_here(self, job: WorkItem) -> None:
        """Run a read on the caller's thread."""
        raise NotImplementedError
