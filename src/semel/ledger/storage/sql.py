"""Named queries, and the transaction that runs them.

The statements on the ledger are in `queries/*.sql`, in blocks:

    -- name: hear_event
    -- What it is for, in one or more lines.
    INSERT INTO event(...) VALUES(:source, ...) RETURNING id

so that one test can look at the plan of each (Law 11). `-- sorts: why` and `-- scans: why` in the description state why
a sort, or a walk over a partial index, stays small.

Wherever SQLite and PostgreSQL have a common way to say something, they use it (`tests/ledger/test_common_sql.py`). So
one set of statements serves both.

A statement that reads returns rows of one class (`semel.ledger.storage.rows`), whose fields are its columns in order.
`{TurnRow}` in a statement stands for the columns of that class, `{TurnRow t}` for the same columns with `t.` before
each. `tests/ledger/test_rows.py` compares every statement with the row class that its caller passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from itertools import takewhile
from typing import Any, NoReturn, TypeVar

from semel.ledger.storage import rows
from semel.ledger.storage.rows import Row

R = TypeVar("R", bound=Row)
S = TypeVar("S", int, str, float, bytes)
T = TypeVar("T", int, str, float, bytes)

_NAME_LINE = re.compile(r"^-- *name: *(.*?) *$", re.M)
_COMMENT_OR_STRING = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", re.S)
_PARAMETER = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")
_COLUMN_LIST = re.compile(r"\{([A-Z]\w*)(?: (\w+))?\}")


class Query:
    """A named SQL statement."""

    __slots__ = ("file", "name", "parameters", "purpose", "sql")

    def __init__(self, name: str, purpose: str, sql: str, file: str) -> None:
        self.name = name
        self.purpose = purpose
        self.sql = sql
        self.file = file
        self.parameters = frozenset(_PARAMETER.findall(_COMMENT_OR_STRING.sub(" ", sql)))

    def __repr__(self) -> str:
        return f"<Query {self.name} ({self.file}) takes {', '.join(sorted(self.parameters)) or 'nothing'}>"

    def parameter_error(self, params: Mapping[str, Any]) -> TypeError:
        """Return a TypeError that names the parameters that are missing from `params` or unknown to the statement."""
        missing = sorted(self.parameters - params.keys())
        unknown = sorted(params.keys() - self.parameters)
        missing_text = f" lacks {', '.join(missing)}" if missing else ""
        unknown_text = f" is given {', '.join(unknown)}, which it does not take" if unknown else ""
        joint = " and" if missing and unknown else ""
        return TypeError(f"query {self.name} in {self.file}{missing_text}{joint}{unknown_text}")


class Queries(dict[str, Query]):
    """All queries by name. Looking up an unknown name raises LookupError, because it is a bug in the caller."""

    def __missing__(self, name: str) -> NoReturn:
        raise LookupError(f"no query is named {name!r}: add a '-- name: {name}' block to ledger/queries/*.sql")


class QueryFileError(Exception):
    """A query file has an invalid block. The message names the file."""


@cache
def queries() -> Queries:
    """Return the ledger's named queries. Their files are read only once."""
    folder = resources.files("semel.ledger").joinpath("queries")
    files = sorted((f.name, f.read_text("utf-8")) for f in folder.iterdir() if f.name.endswith(".sql"))
    return read_queries(files)


def read_queries(files: list[tuple[str, str]]) -> Queries:
    """Return the statements in `files`, which are pairs of a file name and the file's text.

    Raises QueryFileError for a statement without a unique name or without a description. `tests/ledger/test_plans.py`
    checks that each block holds exactly one statement.
    """
    statements = Queries()
    for file, text in files:
        head, *blocks = _NAME_LINE.split(text)
        if any(line.strip() and not line.startswith("--") for line in head.splitlines()):
            raise QueryFileError(f"{file}: SQL before the first '-- name:' line")
        for name, block in zip(blocks[::2], blocks[1::2], strict=True):
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                raise QueryFileError(f"{file}: {name!r} is not a name like hear_event")
            if name in statements:
                raise QueryFileError(f"{file}: {name} is already named in {statements[name].file}")
            statements[name] = _read_block(file, name, block.strip().splitlines())
    return statements


def _read_block(file: str, name: str, lines: list[str]) -> Query:
    comments = list(takewhile(_is_comment, lines))
    purpose = "\n".join(line.removeprefix("--").strip() for line in comments).strip()
    if not purpose:
        raise QueryFileError(f"{file}: {name} does not say what it is for (a '-- ...' line under its name)")
    lines = lines[len(comments) :]
    while lines and (_is_comment(lines[-1]) or not lines[-1]):  # this comment is about the blocks that follow
        lines.pop()
    sql = "\n".join(lines).strip().removesuffix(";")
    return Query(name, purpose, _COLUMN_LIST.sub(_list_columns, sql), file)


def _is_comment(line: str) -> bool:
    return line.startswith("--")


def _list_columns(reference: re.Match[str]) -> str:
    table = f"{reference[2]}." if reference[2] else ""
    row: type[Row] = getattr(rows, reference[1])
    return ", ".join(f"{table}{column}" for column in row.__struct_fields__)


CutText = Callable[[str, str, str, bool, dict[str, Any] | None], tuple[Any, ...]]
"""Cuts a text into the parts to send. Its parameters: the destination, the session's key, the text, whether the text is
a turn's answer, and a file to send instead of the text (or None)."""


class Tx:
    """A transaction, as its body sees it: named queries, the time, and callbacks to run after the commit.

    `now` is in milliseconds since the Unix epoch and does not change inside the body, because the rules in `semel.law`
    take the time as an input. Every call names all parameters of its query. Errors of the database, such as a broken
    constraint, are not translated. Any exception that leaves the body undoes the whole transaction.

    Each engine has a class of its own, which runs the queries.
    """

    __slots__ = ("_callbacks", "cut", "dirty", "now")

    def __init__(self, now: int) -> None:
        self.now = now
        # Set by the gateway, which knows the channels; used by `cutting.cut`.
        self.cut: CutText | None = None
        # Rows that watchers must be sent: (session, kind, id) -> (rev, appended texts, or None for the whole row).
        # Filled by `entries`, rendered by `views.render_changes`.
        self.dirty: dict[tuple[int, str, int], tuple[int, list[str] | None]] = {}
        self._callbacks: list[Callable[[], object]] = []

    def run(self, name: str, /, **params: Any) -> None:
        """Run a statement for its effect."""
        raise NotImplementedError

    def count_changed(self, name: str, /, **params: Any) -> int:
        """Run a statement for its effect. Return the number of rows that it changed.

        Where nobody needs the number, `run` costs less: it need not wait for the database.
        """
        raise NotImplementedError

    def lock(self, name: str, /, **params: Any) -> None:
        """Lock the rows that a statement reads until the transaction ends. Call this before you check and change them.

        An engine with several writers runs the statement with FOR UPDATE. SQLite has one writer, so nothing is run
        (docs/decisions/locks.md).
        """
        raise NotImplementedError

    def one(self, row: type[R], name: str, /, **params: Any) -> R | None:
        """Return the first row as a `row` object, or None if there is no row."""
        raise NotImplementedError

    def get(self, row: type[R], name: str, /, **params: Any) -> R:
        """Return the first row of a statement that always has a row."""
        raise NotImplementedError

    def ask(self, row: type[R], name: str, /, **params: Any) -> Callable[[], list[R]]:
        """Ask for what `all` returns, without waiting. Return a function that returns it.

        For reads that do not depend on one another: where the ledger is a server, all of them are one wait.
        """
        raise NotImplementedError

    def all(self, row: type[R], name: str, /, **params: Any) -> list[R]:
        """Return every row as a `row` object."""
        raise NotImplementedError

    def iterate(self, row: type[R], name: str, /, **params: Any) -> Iterator[R]:
        """Return an iterator over the rows, for results too large for memory. Run no other query while iterating."""
        raise NotImplementedError

    def value(self, kind: type[T], name: str, /, **params: Any) -> T | None:
        """Return the only column of the first row, of type `kind`. Return None if it is NULL or if there is no row."""
        raise NotImplementedError

    def values(self, kind: type[T], name: str, /, **params: Any) -> list[T]:
        """Return the only column of every row, of type `kind`. It is never NULL."""
        raise NotImplementedError

    def pairs(self, first: type[T], second: type[S], name: str, /, **params: Any) -> list[tuple[T, S]]:
        """Return the two columns of every row, of types `first` and `second`. They are never NULL."""
        raise NotImplementedError

    def number(self, name: str, /, **params: Any) -> int:
        """Return the integer that a statement always yields: a count or the id of a new row, for example."""
        raise NotImplementedError

    def exists(self, name: str, /, **params: Any) -> bool:
        """Return whether the statement yields any row."""
        raise NotImplementedError

    def dicts(self, name: str, /, **params: Any) -> list[dict[str, Any]]:
        """Return every row as {column: value}. For statements whose rows are only reported, such as the books."""
        raise NotImplementedError

    def after_commit(self, call: Callable[[], object]) -> None:
        """Register a callback to run once the transaction is durable, for example to publish its changes.

        The callback runs on the caller's event loop, in commit order, before the caller's `await` returns. It never
        runs if the transaction fails.
        """
        self._callbacks.append(call)

    def end(self) -> list[Callable[[], object]]:
        """Refuse further statements. Return the callbacks that were registered with `after_commit`."""
        raise NotImplementedError
