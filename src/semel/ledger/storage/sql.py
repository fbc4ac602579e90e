"""Named queries, and the transaction that runs them.

Every statement of Semel stands in `queries/*.sql`, in blocks:

    -- name: hear_event
    -- What it is for, in one or more lines.
    INSERT INTO event(...) VALUES(:source, ...) RETURNING id

so that one test can look at the plan of each (Law 11). `-- sorts: why` and `-- scans: why` in the description
state why a sort, or a walk over a partial index, stays small.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NoReturn

import apsw

_NAME = re.compile(r"--\s*name:\s*(.*?)\s*$")
_NOT_CODE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", re.S)
_PARAMETER = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")


class Row(tuple[Any, ...]):
    """One row: a tuple whose columns are attributes too (`row.id`). Costs 0.2 us over a plain tuple."""

    __slots__ = ()
    if TYPE_CHECKING:

        def __getattr__(self, column: str) -> Any: ...


class Query:
    """One named statement."""

    __slots__ = ("file", "name", "parameters", "shape", "sql", "why")

    def __init__(self, name: str, why: str, sql: str, file: str) -> None:
        self.name = name
        self.why = why
        self.sql = sql
        self.file = file
        self.parameters = frozenset(_PARAMETER.findall(_NOT_CODE.sub(" ", sql)))
        self.shape: type[Row] | None = None  # the row type, known after the first row

    def __repr__(self) -> str:
        return f"<Query {self.name} ({self.file}) takes {', '.join(sorted(self.parameters)) or 'nothing'}>"

    def misfit(self, params: Mapping[str, Any]) -> TypeError:
        """A TypeError that names the missing and the unknown parameters."""
        missing = sorted(self.parameters - params.keys())
        unknown = sorted(params.keys() - self.parameters)
        lacks = f" lacks {', '.join(missing)}" if missing else ""
        strange = f" is given {', '.join(unknown)}, which it does not take" if unknown else ""
        between = " and" if missing and unknown else ""
        return TypeError(f"query {self.name} in {self.file}{lacks}{between}{strange}")


class Queries(dict[str, Query]):
    """All queries by name. An unknown name is a bug in the caller and raises LookupError."""

    def __missing__(self, name: str) -> NoReturn:
        raise LookupError(f"no query is named {name!r}: add a '-- name: {name}' block to ledger/queries/*.sql")


class QueryFileError(Exception):
    """A query file that cannot be read. The message names the file and the place."""


@cache
def queries() -> Queries:
    """The named queries of the package, read once."""
    folder = resources.files("semel.ledger").joinpath("queries")
    files = sorted((f.name, f.read_text("utf-8")) for f in folder.iterdir() if f.name.endswith(".sql"))
    return read_queries(files)


def read_queries(files: list[tuple[str, str]]) -> Queries:
    """Read (file name, text) pairs. Raises QueryFileError for what is not a named, described statement."""
    found = Queries()
    for file, text in files:
        for query in _blocks(file, text):
            if query.name in found:
                raise QueryFileError(f"{file}: {query.name} is already named in {found[query.name].file}")
            found[query.name] = query
    return found


def _blocks(file: str, text: str) -> Iterator[Query]:
    name, lines = "", list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if match := _NAME.match(line):
            if name:
                yield _block(file, name, lines)
            name, lines = match[1], []
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                raise QueryFileError(f"{file}:{number}: {name!r} is not a name like hear_event")
        elif name:
            lines.append(line)
        elif line.strip() and not line.startswith("--"):
            raise QueryFileError(f"{file}:{number}: SQL before the first '-- name:' line")
    if name:
        yield _block(file, name, lines)


def _block(file: str, name: str, lines: list[str]) -> Query:
    said = 0
    while said < len(lines) and lines[said].startswith("--"):
        said += 1
    why = "\n".join(line.removeprefix("--").strip() for line in lines[:said]).strip()
    sql = "\n".join(lines[said:]).strip()
    if not why:
        raise QueryFileError(f"{file}: {name} does not say what it is for (a '-- ...' line under its name)")
    first, rest = _first_statement(sql)
    if not _NOT_CODE.sub("", first).strip(" \n;"):
        raise QueryFileError(f"{file}: {name} has no statement")
    if re.sub(r"--[^\n]*|/\*.*?\*/", "", rest, flags=re.S).strip():
        raise QueryFileError(f"{file}: {name} has more than one statement; give each its own name")
    return Query(name, why, first.rstrip().removesuffix(";"), file)


def _first_statement(sql: str) -> tuple[str, str]:
    for semicolon in re.finditer(";", sql):
        if apsw.complete(sql[: semicolon.end()]):
            return sql[: semicolon.end()], sql[semicolon.end() :]
    return sql, ""


# SQLite errors that mean the storage failed. After one of these, the state of the whole batch is uncertain.
STORAGE_FAULTS = (
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


Cut = Callable[[str, str, str, bool, dict[str, Any] | None], tuple[Any, ...]]
"""(destination, session key, text, whether it is a turn's answer, file to send instead) -> the parts to send."""


class Tx:
    """What the body of a transaction gets: named queries, the time, and callbacks to run after the commit.

    `now` is in milliseconds since the Unix epoch and does not change inside the body, because law takes time as an
    input. Every call names all parameters of its query. Database errors (`apsw.ConstraintError` ...) are not
    translated; any exception that leaves the body undoes the whole transaction.
    """

    __slots__ = ("_afterwards", "_cursor", "_queries", "cut", "dirty", "fault", "now")

    def __init__(self, cursor: apsw.Cursor, named: Queries, now: int) -> None:
        self.now = now
        # Cuts a text into parts for a destination. Set by the gateway, which knows the channels; used by `cutting.cut`.
        self.cut: Cut | None = None
        # Rows that watchers must be sent: (session, kind, id) -> (rev, appended texts, or None for the whole row).
        # Filled by `entries`, rendered by `views.changes`.
        self.dirty: dict[tuple[int, str, int], tuple[int, list[str] | None]] = {}
        self._cursor: apsw.Cursor | _Ended = cursor
        self._queries = named
        self._afterwards: list[Callable[[], object]] = []
        self.fault: Exception | None = None  # the storage fault that a statement raised

    def run(self, name: str, /, **params: Any) -> int:
        """Run a statement for its effect. Returns the number of rows it changed."""
        return self._execute(self._queries[name], params).connection.changes()

    def one(self, name: str, /, **params: Any) -> Row | None:
        """The first row, or None."""
        query = self._queries[name]
        cursor = self._execute(query, params)
        shape = query.shape or _shape(query, cursor)
        row = cursor.fetchone()
        return None if row is None else tuple.__new__(shape, row)

    def all(self, name: str, /, **params: Any) -> list[Row]:
        """Every row."""
        query = self._queries[name]
        cursor = self._execute(query, params)
        shape = query.shape or _shape(query, cursor)
        new = tuple.__new__
        return [new(shape, row) for row in cursor]

    def each(self, name: str, /, **params: Any) -> Iterator[Row]:
        """Every row, one at a time, for results too large for memory. Run no other query while iterating."""
        query = self._queries[name]
        cursor = self._execute(query, params)
        shape = query.shape or _shape(query, cursor)
        return (tuple.__new__(shape, row) for row in cursor)

    def value(self, name: str, /, **params: Any) -> Any:
        """The first column of the first row, or None."""
        row = self._execute(self._queries[name], params).fetchone()
        return None if row is None else row[0]

    def after(self, call: Callable[[], object]) -> None:
        """Publish: call this once the transaction is durable, on the event loop of the caller.

        The call happens before the caller's `await` returns, in commit order, and never for a failed transaction.
        """
        self._afterwards.append(call)

    def _execute(self, query: Query, params: dict[str, Any]) -> apsw.Cursor:
        if len(params) != len(query.parameters):
            raise query.misfit(params)
        try:
            return self._cursor.execute(query.sql, params)
        except KeyError:
            raise query.misfit(params) from None
        except STORAGE_FAULTS as fault:
            # SQLite may have rolled back the whole batch: a body that swallows this must not go on writing.
            self.fault = fault
            self._cursor = _Ended(fault)
            raise

    def end(self) -> list[Callable[[], object]]:
        """Refuse further statements, and return the callbacks that were registered with `after`."""
        self._cursor = _Ended(RuntimeError("this transaction has ended: its tx was kept and used later"))
        return self._afterwards


class _Ended:
    """Replaces the cursor of a transaction that has ended or failed: `execute` raises the reason."""

    def __init__(self, why: BaseException) -> None:
        self._why = why

    def execute(self, sql: str, params: dict[str, Any]) -> NoReturn:
        raise self._why


def _shape(query: Query, cursor: apsw.Cursor) -> type[Row]:
    """The row type of a query, learned from its first row."""
    try:
        columns = [column[0] for column in cursor.get_description()]
    except apsw.ExecutionCompleteError:
        return Row  # no row: nothing to shape yet
    fields = namedtuple("Row", columns, rename=True)  # type: ignore[misc]
    query.shape = type("Row", (fields, Row), {"__slots__": (), "__module__": __name__})
    return query.shape
