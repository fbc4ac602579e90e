"""Each statement returns exactly the columns, of the types, that the class it is read as declares."""

from __future__ import annotations

import ast
import importlib
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import apsw
import apsw.ext
import pytest

import semel
from semel.ledger.search import index
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import Row
from semel.ledger.storage.sql import Queries, Query, queries

PACKAGE = Path(semel.__file__).parent
CLASSES_BEFORE_NAME = {"one": 1, "get": 1, "all": 1, "each": 1, "value": 1, "values": 1, "pairs": 2}
"""The reading methods of a transaction, and how many types each takes before the name of its statement."""
SCALARS = {"int": int, "str": str, "float": float, "bytes": bytes}
DECLARED = {"INTEGER": int, "TEXT": str, "REAL": float, "BLOB": bytes}


Columns = tuple[tuple[str | None, Any], ...]
"""What is expected of each column: its name (None: any) and its type."""


@dataclass(frozen=True)
class Read:
    """A call that reads a statement."""

    at: str
    query: Query
    columns: Columns
    db: str = "ledger"


def declared_columns(method: str, kinds: list[Any]) -> Columns:
    if issubclass(kinds[0], Row):
        hints = get_type_hints(kinds[0])
        return tuple((name, hints[name]) for name in kinds[0].__struct_fields__)
    return tuple((None, kind | None if method == "value" else kind) for kind in kinds)


@cache
def reads() -> dict[tuple[str, Columns], Read]:
    """Every read in the package. A name that is not written out cannot be checked, so there must be none."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text()
        if "tx" not in source and "Tx(" not in source:
            continue  # nothing is read in it
        tree = ast.parse(source)
        named, db = (index.index_statements(), "index") if path == Path(index.__file__) else (queries(), "ledger")
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if read := read_of(path, call, named, db):
                found.setdefault((read.query.name, read.columns), read)
    return found


def read_of(path: Path, call: ast.Call, named: Queries, db: str) -> Read | None:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in CLASSES_BEFORE_NAME:
        return None
    owner = call.func.value
    if not re.fullmatch(r"(self\.)?_?tx|SqliteTx\(.*\)", ast.unparse(owner)):
        return None
    method, at = call.func.attr, f"{path.relative_to(PACKAGE)}:{call.lineno}"
    count = CLASSES_BEFORE_NAME[method]
    if (path.parent.name, path.name) in (("storage", "sql.py"), ("sqlite", "tx.py")):
        return None
    name = call.args[count]
    assert isinstance(name, ast.Constant), f"{at}: write the name of the statement out"
    module = importlib.import_module("semel." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts))
    kinds = [SCALARS.get(ast.unparse(arg)) or attrgetter(ast.unparse(arg))(module) for arg in call.args[:count]]
    return Read(at, named[name.value], declared_columns(method, kinds), db)


@pytest.fixture(scope="module")
def databases() -> Iterator[dict[str, apsw.Connection]]:
    with Store.in_memory() as store:
        search = apsw.Connection(":memory:")
        search.execute(resources.files("semel.ledger.search").joinpath("schema.sql").read_text("utf-8"))
        yield {"ledger": store._require_committer()._db, "index": search}


def restricted_values(db: apsw.Connection, table: str, column: str) -> set[str] | None:
    """The texts that the schema allows in a column, or None if it allows any."""
    (sql,) = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    allowed = re.search(rf"\b{column} TEXT[^,]*CHECK\({column} IN \(([^)]*)\)\)", sql)
    return set(re.findall(r"'([^']*)'", allowed[1])) if allowed else None


def parts_of(hint: Any) -> tuple[type, bool, set[str] | None]:
    """A column's type as SQLite knows it, whether it may be NULL, and the texts that it may be, if they are listed."""
    kinds = set(get_args(hint)) if get_origin(hint) in (types.UnionType, Union) else {hint}
    (kind,) = kinds - {types.NoneType}
    if get_origin(kind) is Literal:
        return str, types.NoneType in kinds, set(get_args(kind))
    return kind, types.NoneType in kinds, None


def faults(db: apsw.Connection, query: Query, columns: Columns) -> list[str]:
    """How the columns of a statement differ from the ones declared."""
    described = apsw.ext.query_info(db, query.sql, dict.fromkeys(query.parameters)).description_full
    assert described is not None
    names = [name for name, *_ in described]
    if len(names) != len(columns) or names != [name or real for (name, _), real in zip(columns, names, strict=True)]:
        return [f"{query.name} returns {', '.join(names)}"]
    outer = set(re.findall(r"LEFT JOIN (\w+)", query.sql)) - set(
        re.findall(r"(?:FROM|(?<!LEFT )JOIN) (\w+)", query.sql)
    )
    scalar = "(SELECT" in query.sql  # a scalar subquery is NULL if it has no row
    wrong = []
    for (_, hint), (name, declared, _, table, column) in zip(columns, described, strict=True):
        kind, nullable, literal = parts_of(hint)
        if declared and DECLARED[declared] is not kind:
            wrong.append(f"{query.name}.{name} is {declared}, not {kind.__name__}")
        if table is None or column is None:
            continue
        _, _, filled, is_key, _ = db.column_metadata("main", table, column)
        asked_for = re.search(rf"\b{column} (?:IS NOT NULL|= :|> |<= )", query.sql)
        if (table in outer or not (filled or is_key)) and not nullable and not asked_for:
            wrong.append(f"{query.name}.{name} may be NULL")
        if (filled or is_key) and nullable and table not in outer and not scalar and columns[0][0] is not None:
            wrong.append(f"{query.name}.{name} is never NULL")
        if literal is not None and literal != restricted_values(db, table, column):
            wrong.append(f"{query.name}.{name} is none of {sorted(literal)}")
    return wrong


def test_each_statement_returns_the_columns_of_the_class_it_is_read_as(databases: dict[str, apsw.Connection]) -> None:
    assert len(reads()) > 150
    wrong = [
        f"{read.at}: {fault}"
        for read in reads().values()
        for fault in faults(databases[read.db], read.query, read.columns)
    ]
    assert wrong == []


def test_each_statement_is_read_as_one_class() -> None:
    seen: dict[str, Columns] = {}
    for read in reads().values():
        if read.columns[0][0] is not None:
            assert seen.setdefault(read.query.name, read.columns) == read.columns, read.at


class Planted(Row):
    id: int
    agent: str
    title: str | None


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("SELECT id, agent FROM session", "returns id, agent"),
        ("SELECT id, key, title FROM session", "returns id, key, title"),
        ("SELECT agent, id, title FROM session", "returns agent, id, title"),
        ("SELECT id, at AS agent, title FROM session", "agent is INTEGER, not str"),
        ("SELECT id, home AS agent, title FROM session", "agent may be NULL"),
        ("SELECT id, agent, key AS title FROM session", "title is never NULL"),
        ("SELECT t.id, s.agent, s.title FROM turn t LEFT JOIN session s ON s.id = t.session", "agent may be NULL"),
    ],
)
def test_the_test_itself_sees_a_difference(databases: dict[str, apsw.Connection], sql: str, fault: str) -> None:
    (found,) = faults(databases["ledger"], Query("planted", "", sql, "planted.sql"), declared_columns("one", [Planted]))
    assert fault in found
