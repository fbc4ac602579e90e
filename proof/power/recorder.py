"""The real store on a recording disk: its writer thread, its groups, its checkpoints; and what callers were told when.

One workload gives the same operations each time (but for the salts of SQLite's log), so that one point can be looked at
again: the clock and the dice are the workload's, a group is handed over while the writer is busy, and the writer idles
when it is told to.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import queue
import random
import stat
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import apsw

from proof.power.disk import Op, PowerDisk
from semel.ledger.sqlite import mark_file, threads
from semel.ledger.sqlite.store import Store
from semel.ledger.sqlite.threads import Writer
from semel.ledger.storage.errors import LedgerError
from semel.ledger.storage.rows import LedgerRow
from semel.ledger.storage.sql import Tx

NAME = "ledger.db"
MARK = NAME + mark_file.MARK_SUFFIX
MUCH = 60  # pages in the log that make the busy writer move it; in life it is 4096
SYNCS = ("full", "normal", "off", "lying")
CYCLES = 6  # of the event loop: an answer that was given has reached its caller by then
PAUSE = object()
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"

Call = tuple[str, Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Recording:
    """`states[n]`: the fingerprint of the whole content behind the n-th acknowledged commit; `names[n]` what it was;
    `commits[n]` how many the ledger itself counted by then."""

    ops: tuple[Op, ...]
    states: tuple[str, ...]
    names: tuple[str, ...]
    commits: tuple[int, ...]


class Recorder:
    """An open store on a recording disk. Used by one thread, whose calls wait."""

    def __init__(self, folder: Path, clock: Callable[[], int], sync: str = "full", seed: int = 0) -> None:
        self.path = folder / NAME
        self.clock = clock
        self.sync = sync
        self.disk = PowerDisk(f"recorder-{id(self)}", lies=sync == "lying")
        self.states: list[str] = []
        self.names: list[str] = []
        self.commits: list[int] = []
        self._names: list[str] = []  # acknowledged since the last state
        self._stack = ExitStack()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="callers", daemon=True)
        self._thread.start()
        dice = random.Random(seed)
        for patch in (
            mock.patch.object(threads, "SimpleQueue", _Queue),
            mock.patch.object(mark_file, "os", _MarkDisk(self.disk)),
            mock.patch.object(threads, "MAX_BACKLOG_PAGES", MUCH),
            mock.patch.object(threads, "_log"),  # of a disk that fails because it is told to
            mock.patch("secrets.token_hex", lambda n=16: dice.randbytes(n).hex()),
        ):
            self._stack.enter_context(patch)
        self.disk.before = self._answers_arrive
        self.store = self._open()
        self._told("the schema")
        self._state()

    def __repr__(self) -> str:
        return f"<Recorder {len(self.disk.ops)} operations, {len(self.states)} commits acknowledged>"

    def _open(self) -> Store:
        store = Store.open_sync(self.path, vfs=self.disk.name, clock=self.clock)
        committer = store._require_committer()
        if self.sync in ("normal", "off"):
            committer._db.execute(f"PRAGMA synchronous = {self.sync}")
        store.keep_mark()
        store._writer = Writer(committer, store.path)
        return store

    def close(self) -> None:
        """Close the store as a gateway that stops does."""
        try:
            self.store.close()
        finally:
            self.disk.before = None
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._stack.close()

    def recording(self) -> Recording:
        return Recording(tuple(self.disk.ops), tuple(self.states), tuple(self.names), tuple(self.commits))

    # ---- what callers do

    def commit(self, name: str, body: Callable[..., Any], *args: Any) -> Any:
        """One transaction, acknowledged when its future resolves."""
        result = self._wait(self._acked(name, body, args))
        self._state()
        return result

    def together(self, calls: Sequence[Call]) -> list[Any]:
        """Transactions of several callers in one commit."""
        begun, go = threading.Event(), threading.Event()
        stall = self._later(self.store.write(_stall, begun, go))
        if not begun.wait(30):
            raise TimeoutError("the writer takes no work")
        futures = [self._later(self._acked(*call)) for call in calls]
        self._answers_arrive()  # all are handed over
        go.set()
        stall.result(30)
        results = [future.result(30) for future in futures]
        self._state()
        return results

    def look(self, body: Callable[..., Any], *args: Any) -> Any:
        """A body that only reads. (There is no second connection: this disk shares no memory.)"""
        return self._wait(self.store.write(body, *args))

    def idle(self) -> None:
        """Nothing comes for a while: the writer moves the log into the file."""
        queue: Any = self.store._writer._queue  # type: ignore[union-attr]
        queue.put(PAUSE)
        self.look(_nothing)

    def reopen(self) -> None:
        """The gateway stops and starts."""
        self.store.close()
        self.store = self._open()

    def refused(self, kind: str, error: apsw.Error, name: str, body: Callable[..., Any], *args: Any) -> None:
        """The disk fails under a commit, and its caller is told that it was not accepted."""
        self.disk.ops.append(Op("doubt", name))
        self.disk.fail(kind, 1, error)
        try:
            self._wait(self.store.write(body, *args))
        except LedgerError:
            self.disk.ops.append(Op("refused", name))
            return
        raise AssertionError(f"{name} was accepted by a disk that fails")

    # ---- how

    async def _acked(self, name: str, body: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        result = await self.store.write(body, *args)
        self._told(name)
        return result

    def _told(self, name: str) -> None:
        self.disk.ack(name, len(self.states))
        self._names.append(name)

    def _state(self) -> None:
        self.states.append(self.look(fingerprint))
        self.commits.append(self.look(_commits))
        self.names.append(" + ".join(self._names))
        self._names = []

    def _later(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop)

    def _wait(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self._later(call).result(60)

    def _answers_arrive(self) -> None:
        """Whatever was answered before is known to its caller: the order of operations and answers is true."""
        if threading.current_thread() is not self._thread:
            self._later(_cycles()).result(60)


async def _cycles() -> None:
    for _ in range(CYCLES):
        await asyncio.sleep(0)


def _stall(tx: Tx, begun: threading.Event, go: threading.Event) -> None:
    begun.set()
    go.wait(30)


def _nothing(tx: Tx) -> None:
    """A transaction that does nothing."""


class _Queue:
    """The writer's queue, where nothing comes for a while exactly when PAUSE was put into it."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.put, self.qsize, self.get_nowait = self._queue.put, self._queue.qsize, self._queue.get_nowait

    def get(self, timeout: float | None = None) -> Any:
        while True:
            item = self._queue.get()
            if item is not PAUSE:
                return item
            if timeout is not None:
                raise queue.Empty


class _MarkDisk:
    """`os` for the mark's module: what the mark writes and syncs is recorded beside the ledger's own operations."""

    def __init__(self, disk: PowerDisk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pwrite(self, file: int, data: bytes, offset: int) -> int:
        self._disk.begins("mark")
        written = os.pwrite(file, data, offset)
        self._disk.ops.append(Op("write", MARK, offset, data))
        return written

    def fsync(self, file: int) -> None:
        self._disk.begins("mark")
        os.fsync(file)
        if stat.S_ISREG(os.fstat(file).st_mode) and not self._disk.lies:
            self._disk.ops.append(Op("sync", MARK))


def _commits(tx: Tx) -> int:
    row = tx.get(LedgerRow, "ledger_get")
    return int(row.commits)


def fingerprint(tx: Tx) -> str:
    """A digest of every row of every table."""
    cursor: Any = tx._cursor
    digest = hashlib.blake2b(digest_size=12)
    for (table,) in cursor.execute(_TABLES).fetchall():
        digest.update(repr((table, cursor.execute(f'SELECT * FROM "{table}"').fetchall())).encode())
    return digest.hexdigest()
