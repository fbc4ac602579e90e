"""The ledger's threads, as strands that the seeded loop resumes: the same code, one step at a time.

`semel.ledger.sqlite.threads` is given these in the place of `threading.Thread` and
`queue.SimpleQueue`. A strand lets go where its thread would wait or be overtaken: for work, before a COMMIT and behind
it. A strand of a life that is over is not resumed; its open transaction is undone.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from types import SimpleNamespace
from typing import Any

import apsw
from greenlet import GreenletExit, getcurrent, greenlet

import semel.ledger.sqlite.connect
import semel.ledger.sqlite.open_ledger
import semel.ledger.sqlite.store
import semel.ledger.sqlite.threads
from proof.schedules.loop import LIFE, Life, SeededLoop


class Lasting(apsw.Connection):
    """A connection that is opened once and used by many lives: what SQLite has prepared for it is kept.

    A killed process leaves the same behind: its open transaction undone, and all that was committed in the log.
    """

    def close(self, force: bool = False) -> None:
        if self.in_transaction:
            self.execute("ROLLBACK")

    def end(self) -> None:
        super().close()


class Shelf:
    """The connections to one file, for one run after the other."""

    def __init__(self, ledger: Path) -> None:
        self.writing: list[Lasting] = []
        self.reading: list[Lasting] = []
        self.broom = Lasting(str(ledger))
        found = self.broom.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        self.tables = [name for (name,) in found if name != "ledger" and not name.startswith("sqlite_")]

    def take(self, life: Life, readonly: bool, make: Callable[[], Any], used: dict[Life, list[Lasting]]) -> Lasting:
        """One that this life does not use yet."""
        mine = used.setdefault(life, [])
        kept = self.reading if readonly else self.writing
        for db in kept:
            if db not in mine:
                mine.append(db)
                return db
        db = make()
        kept.append(db)
        mine.append(db)
        return db

    def empty(self) -> None:
        """Nothing has happened: no row is left, but for that which names the ledger."""
        self.broom.execute("BEGIN IMMEDIATE")
        for name in self.tables:
            self.broom.execute(f"DELETE FROM {name}")
        self.broom.execute("COMMIT")
        self.broom.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        for db in (*self.reading, *self.writing, self.broom):
            db.end()


class Stage:
    """What the strands of one run share. `committing(when)` is told of each commit, "before" and "after"."""

    def __init__(self, loop: SeededLoop, shelf: Shelf) -> None:
        self.loop = loop
        self.shelf = shelf
        self.strands: dict[Life, list[Strand]] = {}
        self.connections: dict[Life, list[Lasting]] = {}
        self.committing: Callable[[str], None] = lambda when: None

    def kill(self, life: Life) -> None:
        """The process is gone: what it had not committed is undone."""
        for strand in self.strands.pop(life, []):
            strand.kill()
        for db in self.connections.pop(life, []):
            db.close()


_stage: Stage | None = None


def _on_stage() -> Stage:
    assert _stage is not None, "strands run on a stage"
    return _stage


class Strand:
    """Stands for a `threading.Thread`."""

    def __init__(self, target: Callable[..., None], name: str, daemon: bool, args: tuple[Any, ...] = ()) -> None:
        self.name = name
        self.stage = _on_stage()
        life = LIFE.get()
        assert life is not None
        self.life = life
        self._work = greenlet(self._guarded(target, args))
        self._work.gr_context = contextvars.copy_context()

    def _guarded(self, target: Callable[..., None], args: tuple[Any, ...]) -> Callable[[], None]:
        def run() -> None:
            _running[getcurrent()] = self
            try:
                target(*args)
            finally:
                del _running[getcurrent()]

        return run

    def start(self) -> None:
        self.stage.strands.setdefault(self.life, []).append(self)
        self.ready()

    def ready(self) -> None:
        """It can go on, when the loop says so."""
        self.stage.loop.call_elsewhere(self._resume)

    def _resume(self) -> None:
        if self.life.alive and not self._work.dead:
            self._work.parent = getcurrent()
            self._work.switch()

    def pause(self) -> None:
        """Called on the strand: let go, until it is resumed."""
        if not self.life.alive:
            raise GreenletExit
        self._work.parent.switch()
        if not self.life.alive:
            raise GreenletExit

    def kill(self) -> None:
        if not self._work.dead:
            self._work.parent = getcurrent()
            self._work.throw(GreenletExit)

    def join(self) -> None:
        """Blocks like the real one: everything else stands still until it has ended."""
        for _ in range(10_000):
            if self._work.dead:
                return
            self._resume()
        raise RuntimeError(f"{self.name} does not end")


_running: dict[greenlet, Strand] = {}


class Line:
    """Stands for a `queue.SimpleQueue`."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiting: deque[Strand] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)
        if self._waiting:
            self._waiting.popleft().ready()

    def qsize(self) -> int:
        return len(self._items)

    def get_nowait(self) -> Any:
        if not self._items:
            raise Empty
        return self._items.popleft()

    def get(self, timeout: float | None = None) -> Any:
        strand = _running[getcurrent()]
        waits = False
        while not self._items:
            if waits:
                raise Empty
            self._waiting.append(strand)
            timer = None
            if timeout is not None:
                timer = strand.stage.loop.call_later(timeout, self._late, strand)
                waits = True
            strand.pause()
            if timer is not None:
                timer.cancel()
        return self._items.popleft()

    def _late(self, strand: Strand) -> None:
        if strand in self._waiting:
            self._waiting.remove(strand)
            strand.ready()


class PausingCursor(apsw.Cursor):
    """Between a transaction and its commit, and between the commit and its answers, the loop goes on."""

    def execute(self, statements: str, bindings: Any = None, **more: Any) -> apsw.Cursor:
        if statements == "COMMIT" and (strand := _running.get(getcurrent())) is not None:
            for when in ("before", "after"):
                if when == "after":
                    super().execute(statements)
                strand.stage.committing(when)
                strand.ready()
                strand.pause()
            return self
        return super().execute(statements, bindings, **more)


def _connected(real: Callable[..., apsw.Connection]) -> Callable[..., apsw.Connection]:
    def connect(path: Any, *, readonly: bool = False, vfs: str | None = None) -> apsw.Connection:
        stage, life = _on_stage(), LIFE.get()
        assert life is not None

        def make() -> apsw.Connection:
            db = real(path, readonly=readonly, vfs=vfs)
            if not readonly:
                db.cursor_factory = PausingCursor
            return db

        return stage.shelf.take(life, readonly, make, stage.connections)

    return connect


@contextmanager
def staged(loop: SeededLoop, shelf: Shelf) -> Iterator[Stage]:
    """The ledger's threads are strands of this loop meanwhile."""
    global _stage
    threads = SimpleNamespace(Thread=Strand, Lock=threading.Lock, current_thread=threading.current_thread)
    puts: list[tuple[Any, str, Any]] = [
        (semel.ledger.sqlite.threads, "threading", threads),
        (semel.ledger.sqlite.threads, "SimpleQueue", Line),
        (semel.ledger.sqlite.connect, "apsw", SimpleNamespace(**{**vars(apsw), "Connection": Lasting})),
        (semel.ledger.sqlite.open_ledger, "connect", _connected(semel.ledger.sqlite.open_ledger.connect)),
        (semel.ledger.sqlite.store, "connect", _connected(semel.ledger.sqlite.store.connect)),
    ]
    before = [(where, name, getattr(where, name)) for where, name, _ in puts]
    for where, name, what in puts:
        setattr(where, name, what)
    _stage = Stage(loop, shelf)
    try:
        yield _stage
    finally:
        for where, name, what in before:
            setattr(where, name, what)
        for life in list(_stage.connections):
            life.alive = False
            _stage.kill(life)
        _stage = None
        _running.clear()
