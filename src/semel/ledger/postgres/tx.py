"""The transaction on a PostgreSQL connection: reads wait for the server, writes travel with the next read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import starmap
from typing import Any

from semel.ledger.postgres.held_sessions import HeldSessions
from semel.ledger.postgres.statements import Statement, locking_statement, statements
from semel.ledger.postgres.wire import Connection
from semel.ledger.storage.sql import R, S, T, Tx, queries


class NotShared(Exception):
    """A transaction locks more rows than were locked before it began, so it is run in a transaction of its own.

    Others that share one have changed rows already: two such would lock and change the same rows in different orders.
    """


class PostgresTx(Tx):
    """A transaction on a connection. `error`: why a statement failed, if one did; nothing can follow it.

    `has_written`: it may have changed something. `is_shared`: others run in the same transaction of the server.
    """

    __slots__ = ("_connection", "_held", "_is_shared", "_statements", "error", "has_written")

    def __init__(
        self, connection: Connection, now: int, held: HeldSessions | None = None, *, is_shared: bool = False
    ) -> None:
        super().__init__(now)
        self._is_shared = is_shared
        self._held = held
        self._connection = connection
        self._statements = statements()
        self.error: BaseException | None = None
        self.has_written = False

    def run(self, name: str, /, **params: Any) -> None:
        statement = self._check(name, params)
        if self._answer(name, params) is None:
            self._connection.send(statement, params)

    def count_changed(self, name: str, /, **params: Any) -> int:
        statement = self._check(name, params)
        try:
            if self._held is not None:
                self._held.prepare(name, params)
            return self._connection.change(statement, params)
        except BaseException as error:
            self.error = error
            raise

    def lock(self, name: str, /, **params: Any) -> None:
        self._check(name, params)
        if self._is_shared:
            self.error = NotShared(f"{name} locks more")
            raise self.error
        self._connection.send(locking_statement(name), params)

    def one(self, row: type[R], name: str, /, **params: Any) -> R | None:
        rows = self._read(name, params)
        return row(*rows[0]) if rows else None

    def get(self, row: type[R], name: str, /, **params: Any) -> R:
        rows = self._read(name, params)
        assert rows, f"{name} has no row for {params}"
        return row(*rows[0])

    def ask(self, row: type[R], name: str, /, **params: Any) -> Callable[[], list[R]]:
        read_rows = self._ask(name, params)
        return lambda: list(starmap(row, read_rows()))

    def all(self, row: type[R], name: str, /, **params: Any) -> list[R]:
        return list(starmap(row, self._read(name, params)))

    def iterate(self, row: type[R], name: str, /, **params: Any) -> Iterator[R]:
        return starmap(row, self._read(name, params))

    def value(self, kind: type[T], name: str, /, **params: Any) -> T | None:
        rows = self._read(name, params)
        return rows[0][0] if rows else None

    def values(self, kind: type[T], name: str, /, **params: Any) -> list[T]:
        return [value for (value,) in self._read(name, params)]

    def pairs(self, first: type[T], second: type[S], name: str, /, **params: Any) -> list[tuple[T, S]]:
        return [(one, other) for one, other in self._read(name, params)]

    def number(self, name: str, /, **params: Any) -> int:
        ((number,),) = self._read(name, params)
        return int(number)

    def exists(self, name: str, /, **params: Any) -> bool:
        return bool(self._read(name, params))

    def dicts(self, name: str, /, **params: Any) -> list[dict[str, Any]]:
        rows = self._read(name, params)
        columns = self._statements[name].columns
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def end(self) -> list[Callable[[], object]]:
        if self.error is None:
            self.error = RuntimeError("this transaction has ended: its tx was kept and used later")
        return self._callbacks

    def _read(self, name: str, params: dict[str, Any]) -> list[list[Any]]:
        return self._ask(name, params)()

    def _ask(self, name: str, params: dict[str, Any]) -> Callable[[], list[list[Any]]]:
        statement = self._check(name, params)
        answer = self._answer(name, params)
        if answer is not None:
            return lambda: answer
        read_rows = self._connection.ask(statement, params)

        def read() -> list[list[Any]]:
            try:
                rows = read_rows()
                return rows if self._held is None else self._held.check_found(name, params, rows)
            except BaseException as error:
                self.error = error
                raise

        return read

    def _answer(self, name: str, params: dict[str, Any]) -> list[list[Any]] | None:
        """Return the rows of a statement that a held session answers; None if it goes to the server."""
        if self._held is None:
            return None
        try:
            answer = self._held.answer(name, params)
            if answer is None:
                self._held.prepare(name, params)
        except BaseException as error:
            self.error = error
            raise
        return answer

    def _check(self, name: str, params: dict[str, Any]) -> Statement:
        if self.error is not None:
            raise self.error
        query = queries()[name]
        statement = self._statements[name]
        if params.keys() != query.parameters:
            raise query.parameter_error(params)
        self.has_written = self.has_written or statement.writes
        return statement
