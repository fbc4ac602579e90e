"""Law 11: the cost of a message does not grow. No statement walks a table, and none hides from this test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import apsw.ext
import pytest

import semel
from each_case import for_each
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.sql import Query, QueryFileError, queries, read_queries

MAY_SCAN = {"books.sql"}  # the books look at everything: that is what they are for
ALL = sorted(queries().values(), key=lambda query: (query.file, query.name))
HOT = [query for query in ALL if query.file not in MAY_SCAN]


@pytest.fixture(scope="module")
def db() -> Iterator[apsw.Connection]:
    with Store.in_memory() as store:
        yield store._require_committer()._db


def plan(db: apsw.Connection, query: Query) -> list[str]:
    """The lines of EXPLAIN QUERY PLAN (https://sqlite.org/eqp.html)."""
    nothing = dict.fromkeys(query.parameters)
    # An INSERT into a parent table with RETURNING lists its child tables, but looks into them only if a deferred
    # reference is open (OP_FkIfZero), and the schema has none. A DELETE does look: its plan is taken whole.
    db.execute(f"PRAGMA foreign_keys = {'OFF' if query.sql.startswith('INSERT') else 'ON'}")
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query.sql}", nothing)]


def ctes(query: Query) -> set[str]:
    """Names that stand for rows made by the statement itself."""
    return {
        name.lower()
        for name in re.findall(r"(?i)(?:\bWITH(?:\s+RECURSIVE)?|,)\s+(\w+)\s*(?:\([^)]*\))?\s+AS\b", query.sql)
    }


def faults(db: apsw.Connection, query: Query) -> list[str]:
    """What in a plan costs more as the ledger grows, and is not accounted for in the query's description."""
    partial = {
        name
        for name, sql in db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
        if " WHERE " in sql
    }
    wrong = []
    for line in plan(db, query):
        if "TEMP B-TREE" in line and "sorts:" not in query.purpose:
            wrong.append(f"{line} (say '-- sorts: why it stays small', or use an index)")
        if not (scan := re.match(r"SCAN (\S+)(.*)", line)):
            continue
        what, how = scan[1], scan[2]
        is_constant = line.endswith("CONSTANT ROWS")  # of VALUES
        if (
            is_constant
            or what.startswith(("CONSTANT", "(subquery", "(join"))
            or "VIRTUAL TABLE" in how
            or what.lower() in ctes(query)
        ):
            continue
        index = re.search(r"INDEX (\w+)", how)
        if not (index and index[1] in partial and "scans:" in query.purpose):
            wrong.append(f"{line} (only a partial index may be walked, with '-- scans: why it stays small')")
    return wrong


@for_each("query", HOT)
def test_no_statement_walks_a_table_or_sorts_without_saying_why(db: apsw.Connection, query: Query) -> None:
    assert faults(db, query) == []


def is_one_statement(db: apsw.Connection, query: Query) -> bool:
    """Whether the text is one statement, and not none or several."""
    info = apsw.ext.query_info(db, query.sql, dict.fromkeys(query.parameters))
    return bool(info.first_query) and info.query_remaining is None


@pytest.mark.parametrize("sql", ["", "SELECT 1; DELETE FROM event", "SELECT 1;\n-- a\nDELETE FROM event"])
def test_the_test_itself_sees_no_statement_and_two(db: apsw.Connection, sql: str) -> None:
    (query,) = read_queries([("planted.sql", f"-- name: a\n-- why\n{sql};\n")]).values()
    assert not is_one_statement(db, query)


@for_each("query", ALL)
def test_every_statement_is_one_statement_with_the_parameters_it_seems_to_have(
    db: apsw.Connection, query: Query
) -> None:
    assert is_one_statement(db, query)
    cursor = db.cursor()
    names: set[str] = set()

    def stop(cursor: apsw.Cursor, statement: str, bindings: object) -> bool:
        names.update(name for name in cursor.bindings_names if name)
        assert cursor.bindings_count == len(cursor.bindings_names)
        assert None not in cursor.bindings_names, "parameters are named, never '?'"
        return False

    cursor.exec_trace = stop
    with pytest.raises(apsw.ExecTraceAbort):
        cursor.execute(query.sql, dict.fromkeys(query.parameters))
    assert names == query.parameters


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("SELECT id FROM event WHERE sender = :sender", "SCAN event"),
        ("SELECT count(*) AS n FROM event", "SCAN event"),
        ("SELECT key FROM session ORDER BY at", "SCAN session"),
        ("SELECT id FROM entry WHERE session = :session ORDER BY at", "TEMP B-TREE"),
        ("SELECT id FROM spawn WHERE state = 'live'", "SCAN spawn"),
        ("SELECT s.id FROM session s JOIN entry e ON e.session = s.id", "SCAN"),
        ("WITH recent AS (SELECT id FROM event WHERE at > :at) SELECT id FROM recent", "SCAN event"),
    ],
)
def test_the_test_itself_sees_a_walk(db: apsw.Connection, sql: str, fault: str) -> None:
    assert any(fault in line for line in faults(db, Query("planted", "a slow one", sql, "planted.sql")))


def test_no_reference_is_deferred(db: apsw.Connection) -> None:
    schema = " ".join(sql for (sql,) in db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL"))
    assert "DEFER" not in schema.upper()


def test_a_walk_over_a_partial_index_must_say_why(db: apsw.Connection) -> None:
    sql = "SELECT id FROM spawn INDEXED BY spawn_live WHERE state = 'live'"
    assert faults(db, Query("planted", "processes", sql, "planted.sql"))
    assert not faults(db, Query("planted", "processes; scans: one row per live process", sql, "planted.sql"))
    whole = "SELECT id FROM entry INDEXED BY entry_rev"
    assert faults(db, Query("planted", "all; scans: it is not small", whole, "planted.sql"))


# ---------------------------------------------------------------- nothing hides


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT 1;\n-- name: a\n-- why\nSELECT 1", "planted.sql: SQL before the first"),
        ("-- name: a\nSELECT 1", "a does not say what it is for"),
        ("-- name: a\n-- why\nSELECT 1\n-- name: a\n-- why\nSELECT 2", "a is already named in planted.sql"),
        ("-- name: Hear Event\n-- why\nSELECT 1", "'Hear Event' is not a name"),
        ("--name:\n-- why\nSELECT 1", "'' is not a name"),
    ],
)
def test_a_statement_without_a_name_and_a_purpose_is_refused(text: str, why: str) -> None:
    with pytest.raises(QueryFileError, match=re.escape(why)):
        read_queries([("planted.sql", text)])


def test_a_query_file_is_read_as_it_stands() -> None:
    text = (
        "-- about this file\n\n"
        "-- name: a\n-- first\n-- and second\nSELECT ';' -- one\nFROM t WHERE x = :x;\n\n"
        "-- name: b\n-- it\nSELECT 2\n"
    )
    found = read_queries([("planted.sql", text)])
    assert list(found) == ["a", "b"]
    assert found["a"].sql == "SELECT ';' -- one\nFROM t WHERE x = :x"
    assert found["a"].purpose == "first\nand second"
    assert repr(found["a"]) == "<Query a (planted.sql) takes x>"
    with pytest.raises(LookupError, match="no query is named 'c'"):
        found["c"]


def test_parameters_are_not_looked_for_in_text_and_comments() -> None:
    sql = "SELECT 'web:' || :key, ':no', \":neither\" -- :nor\n/* :this */ FROM t WHERE a=:a AND b>:b_2"
    assert Query("planted", "why", sql, "planted.sql").parameters == {"key", "a", "b_2"}


STATEMENT = re.compile(r"\s*(SELECT\s|INSERT\s+INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|WITH\s+\w+\s+AS\s*\()")
KEYWORD = re.compile("SELECT|INSERT|UPDATE|DELETE|WITH")
OUTSIDE = {
    "sqlite/migrate.py",
    "sqlite/tables.py",
    "sqlite/transfer.py",
    "postgres/migrate.py",
    "postgres/moved.py",
    "postgres/server.py",
    "postgres/hints.py",
    "postgres/holder.py",
    "postgres/member_rows.py",
    "postgres/members.py",
    "postgres/server_clock.py",
    "postgres/transfer.py",
}
"""Modules that ask the database about itself, before there is a schema or beside it, or copy tables whole."""
STORES = "stores"
"""The readers of other systems' databases, which read those alone."""


def test_no_statement_stands_outside_the_query_files() -> None:
    found = []
    for file in sorted(Path(semel.__file__).parent.rglob("*.py")):
        if f"{file.parent.name}/{file.name}" in OUTSIDE or file.parent.name == STORES:
            continue
        text = file.read_text("utf-8")
        if not KEYWORD.search(text):
            continue  # parsing is slow
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and STATEMENT.match(node.value):
                found.append(f"{file.name}:{node.lineno}: {node.value[:60]!r}")
    assert found == []
