"""The ledger's named statements as PostgreSQL takes them.

Both engines run the texts in `ledger/queries/*.sql`. Four rules make PostgreSQL's text of one: numbers for the names of
parameters, no `INDEXED BY` (PostgreSQL has no such hint), `->>` on a text that holds JSON, and the integers that stand
for truth. A statement for which that is not enough has a second text in `queries.sql` beside this module, which says
why. `tests/ledger/test_postgres_statements.py` prepares every statement, and refuses a second text that is not needed.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

from semel.ledger.storage.sql import Queries, queries, read_queries

_INDEX_HINT = re.compile(r"\s+INDEXED BY \w+")
_JSON_FIELD = re.compile(r"((?:\w+\.)?\w+|coalesce\([^()]*\)) ->> '(?:\$\.)?([\w.\[\]]+)'")
_WRITES = re.compile(r"\b(?:INSERT INTO|UPDATE \w+ SET|DELETE FROM)\b")
_PARAMETER_OR_TEXT = re.compile(r"--[^\n]*|('(?:[^']|'')*')|(?<![:\w]):([A-Za-z_]\w*)")

CONTENT = "content"
"""The parameter that holds a piece of a file: as text, in hex, it would be twice as long."""


class Statement:
    """A statement with numbered parameters, under the name by which each connection prepares it once.

    `parameters`: the names of the parameters, in the order of their numbers. `formats`: of each, 0 for text and 1 for
    bytes that travel as they are; None if all are text. `writes`: it may change something.
    """

    __slots__ = ("columns", "formats", "key", "loaders", "name", "parameters", "sql", "writes")

    def __init__(self, name: str, sql: str) -> None:
        numbers: dict[str, int] = {}

        def number(match: re.Match[str]) -> str:
            if match[2] is None:
                return match[1] or ""  # a quoted text stays, a comment goes
            return f"${numbers.setdefault(match[2], len(numbers) + 1)}"

        self.name = name
        self.key = name.encode()
        self.sql = _PARAMETER_OR_TEXT.sub(number, sql).encode()
        self.parameters = tuple(numbers)
        self.formats = [int(name == CONTENT) for name in numbers] if CONTENT in numbers else None
        self.writes = _WRITES.search(sql) is not None
        # Of its columns, once the server has described them.
        self.columns: list[str] = []
        self.loaders: list[Any] | None = None

    def __repr__(self) -> str:
        return f"<Statement {self.name}({', '.join(self.parameters)})>"


@cache
def statements() -> dict[str, Statement]:
    """Return PostgreSQL's text of every named statement."""
    second = second_texts()
    return {
        name: Statement(name, second[name].sql if name in second else translate(query.sql))
        for name, query in queries().items()
    }


@cache
def locking_statement(name: str) -> Statement:
    """Return the statement that locks the rows which a named statement reads (`Tx.lock`)."""
    return Statement(f"{name}_for_update", f"{translate(queries()[name].sql)} FOR UPDATE")


@cache
def own_statements() -> dict[str, Statement]:
    """Return the statements that only this engine runs."""
    file = resources.files("semel.ledger.postgres").joinpath("own_statements.sql")
    own = read_queries([("postgres/own_statements.sql", file.read_text("utf-8"))])
    return {name: Statement(name, query.sql) for name, query in own.items()}


@cache
def second_texts() -> Queries:
    """Return the statements that have a text of their own for PostgreSQL."""
    file = resources.files("semel.ledger.postgres").joinpath("queries.sql")
    return read_queries([("postgres/queries.sql", file.read_text("utf-8"))])


def translate(sql: str) -> str:
    """Return the text of a shared statement in PostgreSQL's words; its parameters still have names."""
    return _JSON_FIELD.sub(_read_json, _INDEX_HINT.sub("", sql))


def _read_json(match: re.Match[str]) -> str:
    path = ",".join(re.findall(r"\w+", match[2]))
    return f"({match[1]}::jsonb #>> '{{{path}}}')"
