"""The transaction on a SQLite connection: named queries, run by a cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import starmap
from typing import Any, NoReturn

import apsw

from semel.ledger.storage.sql import Queries, R, S, T, Tx

# SQLite errors that mean the storage failed. After one of these, the state of the whole batch is uncertain.
STORAGE_ERRORS = (
    apsw.FullError,
    apsw.IOError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.PermissionsError,
    apsw.NoMemError,
    apsw.BusyError,
    apsw.InterruptError,
    apsw.ProtocolError,
)


class SqliteTx(Tx):
    """A transaction on an open cursor. `storage_error`: the storage fault that a statement raised, if one did."""

    __slots__ = ("_cursor", "_queries", "storage_error")

    def __init__(self, cursor: apsw.Cursor, statements: Queries, now: int) -> None:
        super().__init__(now)
        self._cursor: apsw.Cursor | _EndedCursor = cursor
        self._queries = statements
        self.storage_error: Exception | None = None

    def run(self, name: str, /, **params: Any) -> None:
        self._execute(name, params)

    def count_changed(self, name: str, /, **params: Any) -> int:
        return self._execute(name, params).connection.changes()

    def lock(self, name: str, /, **params: Any) -> None:
        query = self._queries[name]  # nothing is run: there is one writer
        if params.keys() != query.parameters:
            raise query.parameter_error(params)

    def one(self, row: type[R], name: str, /, **params: Any) -> R | None:
        values = self._execute(name, params).fetchone()
        return None if values is None else row(*values)

    def get(self, row: type[R], name: str, /, **params: Any) -> R:
        values = self._execute(name, params).fetchone()
        assert values is not None, f"{name} has no row for {params}"
        return row(*values)

    def ask(self, row: type[R], name: str, /, **params: Any) -> Callable[[], list[R]]:
        rows = self.all(row, name, **params)
        return lambda: rows

    def all(self, row: type[R], name: str, /, **params: Any) -> list[R]:
        return list(starmap(row, self._execute(name, params)))

    def iterate(self, row: type[R], name: str, /, **params: Any) -> Iterator[R]:
        return starmap(row, self._execute(name, params))

    def value(self, kind: type[T], name: str, /, **params: Any) -> T | None:
        values = self._execute(name, params).fetchone()
        return None if values is None else values[0]

    def values(self, kind: type[T], name: str, /, **params: Any) -> list[T]:
        return [value for (value,) in self._execute(name, params)]

    def pairs(self, first: type[T], second: type[S], name: str, /, **params: Any) -> list[tuple[T, S]]:
        return list(self._execute(name, params))

    def number(self, name: str, /, **params: Any) -> int:
        ((number,),) = self._execute(name, params)
        return int(number)

    def exists(self, name: str, /, **params: Any) -> bool:
        return self._execute(name, params).fetchone() is not None

    def dicts(self, name: str, /, **params: Any) -> list[dict[str, Any]]:
        cursor = self._execute(name, params)
        return [dict(zip((column[0] for column in cursor.get_description()), row, strict=True)) for row in cursor]

    def _execute(self, name: str, params: dict[str, Any]) -> apsw.Cursor:
        query = self._queries[name]
        if len(params) != len(query.parameters):
            raise query.parameter_error(params)
        try:
            return self._cursor.execute(query.sql, params)
        except KeyError:
            raise query.parameter_error(params) from None
        except STORAGE_ERRORS as error:
            # SQLite may have rolled back the whole batch: a body that swallows this must not go on writing.
            self.storage_error = error
            self._cursor = _EndedCursor(error)
            raise

    def end(self) -> list[Callable[[], object]]:
        """Refuse further statements. Return the callbacks that were registered with `after_commit`."""
        self._cursor = _EndedCursor(RuntimeError("this transaction has ended: its tx was kept and used later"))
        return self._callbacks


class _EndedCursor:
    """A stand-in for the cursor of a transaction that ended or failed. Its `execute` raises an error that says so."""

    def __init__(self, reason: BaseException) -> None:
        self._reason = reason

    def execute(self, sql: str, params: dict[str, Any]) -> NoReturn:
        raise self._reason
