"""A connection to PostgreSQL below psycopg's cursors: statements prepared by name, in a pipeline.

psycopg's cursors cost two to three times the processor time of the calls of libpq that they make, and their pipeline
sends every statement at once. Here a statement whose result nobody looks at waits in libpq's buffer and travels with
the next one that is read, or with COMMIT (docs/decisions/postgres-engine.md). An error of a waiting statement is raised
by the one that it travels with; it undoes the transaction, as any error does.

Outside BEGIN and COMMIT, each wait for a result ends an implicit transaction of all that was sent since the last wait.

Parameters and results are text, except for the content of files on its way in. A connection belongs to one thread.
"""

from __future__ import annotations

import re
import select
from collections.abc import Callable, Mapping
from types import MappingProxyType, NoneType
from typing import Any

import psycopg
from psycopg import pq

from semel.ledger.postgres.statements import CONTENT, Statement
from semel.text.wellformed import NUL_SYMBOL

CONNECT_TIMEOUT_S = 10
_BAD = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_ABORTED)
# Plans that do not depend on bound values or on a table's size at the first use, as with SQLite: each statement has one
# way through its indexes. None of the timeouts that an operator may have set (docs/postgres.md, "Timeouts"): they would
# give up a commit, refuse who only waits for a lock, or end the idle connection that holds the database. But who stops
# within a transaction is cut off: its locks would stay. And if a gateway's machine is gone, the server releases the
# locks of its connections after 25 s, not after the usual 2 hours.
_OPTIONS = (
    "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off -c idle_in_transaction_session_timeout=60s "
    "-c statement_timeout=0 -c lock_timeout=0 -c idle_session_timeout=0 "
    "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
)
_NUL_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
JSON_COLUMNS = frozenset({"about", "body", "more", "op", "payload"})
"""The columns that hold JSON. A statement's parameter for one has its name."""
_SETTINGS: dict[str, Any] = {
    "client_encoding": "UTF8",
    "connect_timeout": CONNECT_TIMEOUT_S,
    "application_name": "semel",
}


class ServerError(Exception):
    """The server refused a statement. `state`: its SQLSTATE (PostgreSQL documentation, appendix A)."""

    def __init__(self, state: str, reason: str) -> None:
        super().__init__(f"{reason} (SQLSTATE {state})")
        self.state = state
        self.reason = reason


class ConnectionLost(Exception):
    """The connection ended. Nobody knows what became of a COMMIT that was under way."""


class Connection:
    """A connection in pipeline mode. Raises ConnectionLost if the server cannot be reached."""

    def __init__(self, url: str, settings: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Connect. `settings`: more parameters of libpq (PostgreSQL documentation, "Parameter Key Words")."""
        try:
            self._owner = psycopg.connect(url, autocommit=True, options=_OPTIONS, **{**_SETTINGS, **settings})
        except psycopg.Error as error:
            raise ConnectionLost(" ".join(str(error).split())) from error
        self._pg = self._owner.pgconn
        self._pg.nonblocking = 1
        self._pg.enter_pipeline_mode()
        self._prepared: set[bytes] = set()
        # What has no result yet: the name that is being prepared; the list for a result that was asked for; else None.
        self._sent: list[bytes | list[pq.abc.PGresult] | None] = []
        self._poll = select.poll()
        self._poll.register(self._pg.socket, select.POLLIN)
        self.trips = 0  # how often this connection has waited for the server
        self._has_begun = False

    def __repr__(self) -> str:
        return f"<Connection {self.trips} round trips, {len(self._sent)} statements wait>"

    @property
    def backend_pid(self) -> int:
        return self._pg.backend_pid

    def send(self, statement: Statement, params: Mapping[str, Any]) -> None:
        """Let a statement wait in the pipeline. It travels with the next one that is read."""
        values = [
            None if (value := params[name]) is None else b"%d" % value if type(value) is int
            else value if name == CONTENT else encode(value, is_json=name in JSON_COLUMNS)
            for name in statement.parameters
        ]  # fmt: skip
        try:
            if statement.key not in self._prepared:
                self._pg.send_prepare(statement.key, statement.sql)
                self._sent.append(statement.key)
                self._prepared.add(statement.key)
            self._pg.send_query_prepared(statement.key, values, statement.formats)
        except psycopg.Error as error:
            raise ConnectionLost(str(error)) from error
        self._sent.append(None)

    def read(self, statement: Statement, params: Mapping[str, Any]) -> list[list[Any]]:
        """Send what waits and a statement, and return its rows. Raises ServerError, ConnectionLost."""
        return self.ask(statement, params)()

    def ask(self, statement: Statement, params: Mapping[str, Any]) -> Callable[[], list[list[Any]]]:
        """Let a statement wait in the pipeline. Return a function that returns its rows, and waits for them if need be.

        It raises ServerError, ConnectionLost.
        """
        self.send(statement, params)
        results: list[pq.abc.PGresult] = []
        self._sent[-1] = results

        def read_rows() -> list[list[Any]]:
            if not results and self._sent:
                self._collect()
            if not results:
                raise ServerError("25P02", "a statement before this one has failed")
            return _load_result(statement, results[0])

        return read_rows

    def change(self, statement: Statement, params: Mapping[str, Any]) -> int:
        """Send what waits and a statement, and return the number of rows that it changed."""
        self.send(statement, params)
        return self._collect().command_tuples or 0

    def execute(self, sql: str) -> list[list[Any]]:
        """Run a statement without parameters that is not prepared: BEGIN, or one about the server. Return its rows."""
        self.queue(sql)
        result = self._collect()
        return _load_rows(result, _find_loaders(result))

    def queue(self, sql: str) -> None:
        """Let a statement without parameters wait in the pipeline."""
        self._has_begun = self._has_begun or sql.startswith("BEGIN")
        try:
            self._pg.send_query_params(sql.encode(), None)
        except psycopg.Error as error:
            raise ConnectionLost(str(error)) from error
        self._sent.append(None)

    def end(self, command: str) -> None:
        """Send what waits and `COMMIT` or `ROLLBACK`; return once the server has answered.

        If a statement has failed, the transaction is rolled back and its ServerError is raised, also by COMMIT. Raises
        ConnectionLost: then the outcome of a COMMIT is unknown.
        """
        error: ServerError | None = None
        if not self._has_begun:  # COMMIT without BEGIN makes the server log a warning
            self.queue("BEGIN")
        self.queue(command)
        self._has_begun = False
        try:
            result = self._collect(sync=True)
            if command == "COMMIT" and result.command_status != b"COMMIT":
                error = ServerError("25P02", "the transaction was rolled back")
        except ServerError as failure:
            error = failure
        if self._pg.transaction_status != pq.TransactionStatus.IDLE:
            self.queue("ROLLBACK")
            self._collect(sync=True)
        if error is not None and command == "COMMIT":
            raise error

    def wait_for_messages(self, timeout_s: float) -> list[str]:
        """Return what was sent on the channels that this connection listens to, as soon as there is something.

        After `timeout_s` seconds without a message, return none. No transaction is open. Raises ConnectionLost.
        """
        try:
            return [message.payload for message in self._owner.notifies(timeout=timeout_s, stop_after=1)]
        except psycopg.Error as error:
            raise ConnectionLost(str(error)) from error

    def close(self) -> None:
        self._owner.close()

    def __del__(self) -> None:
        if hasattr(self, "_owner"):
            self._owner.close()  # as SQLite's connections do; psycopg would warn instead

    # ---------------------------------------------------------------- results

    def _collect(self, sync: bool = False) -> pq.abc.PGresult:
        """Wait for the results of all that was sent. Return the last one. Raises the first error.

        `sync`: what was sent ends a transaction.
        """
        sync = sync or not self._has_begun
        try:
            if sync:
                self._pg.pipeline_sync()
            else:
                self._pg.send_flush_request()
            self._flush()
            self.trips += 1
            return self._take_results(sync)
        except psycopg.Error as error:
            raise ConnectionLost(str(error)) from error

    def _take_results(self, sync: bool) -> pq.abc.PGresult:
        sent, self._sent = self._sent, []
        result: pq.abc.PGresult | None = None
        error: ServerError | None = None
        for waiting in sent:
            result = self._next_result()
            if result is None or result.status in _BAD:
                error = error or self._read_error(result)
                if isinstance(waiting, bytes):
                    self._prepared.discard(waiting)
            elif isinstance(waiting, list):
                waiting.append(result)
            if result is not None:
                self._pg.get_result()  # the end of this statement's results, which came with them
        if sync:
            self._next_result()
        if error is not None:
            raise error
        assert result is not None
        return result

    def _read_error(self, result: pq.abc.PGresult | None) -> ServerError:
        if self._pg.status != pq.ConnStatus.OK:
            raise ConnectionLost(self._pg.get_error_message() or "the server closed the connection")
        if result is None:
            raise ConnectionLost("the server closed the connection")
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"25P02").decode()
        reason = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"the pipeline was aborted").decode()
        if state.startswith(("57P", "08")):  # the server ends this connection
            raise ConnectionLost(reason)
        return ServerError(state, reason)

    def _next_result(self) -> pq.abc.PGresult | None:
        while self._pg.is_busy():
            self._poll.poll()
            self._pg.consume_input()
        return self._pg.get_result()

    def _flush(self) -> None:
        while self._pg.flush():
            select.select([self._pg.socket], [self._pg.socket], [])
            self._pg.consume_input()


# ---------------------------------------------------------------- values


def _load_result(statement: Statement, result: pq.abc.PGresult) -> list[list[Any]]:
    if statement.loaders is None:
        statement.columns = [(result.fname(n) or b"").decode() for n in range(result.nfields)]
        statement.loaders = _find_loaders(result)
    return _load_rows(result, statement.loaders)


def _find_loaders(result: pq.abc.PGresult) -> list[Callable[[bytes], Any]]:
    return [_LOADERS.get(result.ftype(n), bytes.decode) for n in range(result.nfields)]


def _load_rows(result: pq.abc.PGresult, loaders: list[Callable[[bytes], Any]]) -> list[list[Any]]:
    get = result.get_value
    return [
        [
            None if (value := get(row, column)) is None else load(value)
            for column, load in enumerate(loaders)
        ]
        for row in range(result.ntuples)
    ]  # fmt: skip


def encode(value: Any, *, is_json: bool = False) -> bytes | None:
    """Return a parameter as text."""
    if value is None:
        return None
    if isinstance(value, str):
        return (replace_nul(value, is_json=is_json) if is_json or "\0" in value else value).encode()
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, bytes):
        return b"\\x" + value.hex().encode()
    if isinstance(value, float):
        return repr(value).encode()
    if isinstance(value, list):
        return b"{%s}" % _encode_elements(value).encode()
    raise TypeError(f"a {type(value).__name__} cannot be stored")


def replace_nul(text: str, *, is_json: bool) -> str:
    """Return the text without U+0000, which PostgreSQL's text cannot hold; and JSON without its escape.

    The gateway replaces both in what comes from outside (`semel.text.wellformed.scrub`); the same rule holds here for
    every other way in. PostgreSQL's functions for JSON refuse the escape. In other texts it is six characters.
    """
    text = text.replace("\0", NUL_SYMBOL) if "\0" in text else str(text)
    return _NUL_ESCAPE.sub(rf"\1{NUL_SYMBOL}", text) if is_json and "\\u0000" in text else text


def _encode_elements(values: list[Any]) -> str:
    """Return the elements of an array (PostgreSQL documentation, "Array Input and Output Syntax")."""
    if set(map(type, values)) <= {int, NoneType}:
        return str(values)[1:-1].replace("None", "NULL")
    return ",".join(map(_encode_element, values))


def _encode_element(value: int | str | None) -> str:
    if not isinstance(value, str):
        return "NULL" if value is None else f"{value:d}"
    return '"' + value.replace("\0", NUL_SYMBOL).replace("\\", "\\\\").replace('"', '\\"') + '"'


_types = psycopg.adapters.types
_LOADERS: dict[int, Callable[[bytes], Any]] = {
    _types["bool"].oid: lambda value: int(value == b"t"),  # SQLite has no booleans either: rows hold 0 and 1
    _types["bytea"].oid: lambda value: bytes.fromhex(value[2:].decode()),
    _types["float8"].oid: float,
    **{_types[name].oid: int for name in ("int2", "int4", "int8", "numeric")},  # numeric: the sum of a column of int8
}
"""How the values of a type are read; those of every other type are text."""
