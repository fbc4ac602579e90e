"""PostgreSQL takes every statement, each in the one text where that is possible, and finds its rows by an index."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from proof.machines.engines import empty_database
from proof.postgres_server import needs_postgres
from semel.ledger.storage.sql import Query, queries

pytestmark = needs_postgres
INT4, BIGINT, TEXT, BYTEA, DOUBLE = 23, 20, 25, 17, 701


@pytest.fixture(scope="module")
def connection() -> Iterator[object]:
    import psycopg

    with psycopg.connect(empty_database(), autocommit=True) as connection:
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET plan_cache_mode = force_generic_plan")
        yield connection


ALL = sorted(queries().values(), key=lambda query: (query.file, query.name))
MAY_SCAN = {"books.sql"}


@pytest.mark.parametrize("query", ALL, ids=lambda query: f"{query.file}:{query.name}")
def test_a_statement_can_be_prepared_and_its_parameters_hold_what_the_columns_hold(
    connection: object, query: Query
) -> None:
    from semel.ledger.postgres.statements import statements

    statement = statements()[query.name]
    pg = connection.pgconn  # type: ignore[attr-defined]
    prepared = pg.prepare(statement.key, statement.sql)
    assert not prepared.error_message, prepared.error_message.decode()
    described = pg.describe_prepared(statement.key)
    domains = dict(connection.execute("SELECT oid, typbasetype FROM pg_type WHERE typtype = 'd'"))  # type: ignore[attr-defined]
    types = [described.param_type(n) for n in range(len(statement.parameters))]
    kinds = {name: domains.get(kind, kind) for name, kind in zip(statement.parameters, types, strict=True)}
    assert set(kinds) == query.parameters
    assert set(kinds.values()) <= {BIGINT, TEXT, BYTEA, DOUBLE}, "CAST(:name AS BIGINT) where PostgreSQL sees an int4"


@pytest.mark.parametrize(
    "query", [query for query in ALL if query.file not in MAY_SCAN], ids=lambda query: f"{query.file}:{query.name}"
)
def test_no_statement_walks_a_table(connection: object, query: Query) -> None:
    from semel.ledger.postgres.statements import statements

    sql = b"EXPLAIN (GENERIC_PLAN) " + statements()[query.name].sql
    plan = "\n".join(line for (line,) in connection.execute(sql).fetchall())  # type: ignore[attr-defined]
    assert "Seq Scan" not in plan or "scans:" in query.purpose, plan


def test_a_second_text_is_needed_and_says_why(connection: object) -> None:
    from semel.ledger.postgres.statements import Statement, second_texts, translate

    for name, second in second_texts().items():
        assert name in queries(), f"{name} is no statement of the ledger"
        assert len(second.purpose) > 20
        assert second.parameters == queries()[name].parameters
        shared = Statement(name, translate(queries()[name].sql))
        prepared = connection.pgconn.prepare(f"shared_{name}".encode(), shared.sql)  # type: ignore[attr-defined]
        assert prepared.error_message, f"{name} needs no second text: PostgreSQL takes the shared one"


@pytest.mark.parametrize(
    ("shared", "postgres"),
    [
        ("SELECT 1 FROM item INDEXED BY item_live WHERE id = :id", "SELECT 1 FROM item WHERE id = $1"),
        ("SELECT :b, :a, :b, ':no'", "SELECT $1, $2, $1, ':no'"),
        ("SELECT e.more ->> 'kind' FROM entry e", "SELECT (e.more::jsonb #>> '{kind}') FROM entry e"),
        ("SELECT a ->> '$.data.from[0].id' FROM t", "SELECT (a::jsonb #>> '{data,from,0,id}') FROM t"),
        ("SELECT 1 -- a :comment\nFROM t", "SELECT 1 \nFROM t"),
    ],
)
def test_the_shared_text_is_turned_mechanically(shared: str, postgres: str) -> None:
    from semel.ledger.postgres.statements import Statement, translate

    assert Statement("planted", translate(shared)).sql.decode() == postgres


def test_what_travels_in_an_array_comes_back_as_it_was() -> None:
    from semel.ledger.postgres.statements import Statement
    from semel.ledger.postgres.wire import Connection

    together = "SELECT * FROM unnest(CAST(:numbers AS bigint[]), CAST(:texts AS text[])) WITH ORDINALITY"
    numbers = [1, None, -(2**63), 2**63 - 1, 0, True]
    texts = ["None", None, 'a "b", {c}', "\\N\\", "", "NULL"]
    connection = Connection(empty_database())
    try:
        rows = connection.read(Statement("together", together), {"numbers": numbers, "texts": [*texts]})
        (number, text, _), *rest = connection.read(
            Statement("again", together), {"numbers": numbers[:5], "texts": ["a\0b"]}
        )
    finally:
        connection.close()
    assert [(number, text) for number, text, _ in rows] == list(zip(numbers, texts, strict=True))
    assert (number, text) == (1, "a\N{SYMBOL FOR NULL}b")
    assert [(number, text) for number, text, _ in rest] == [(number, None) for number in numbers[1:5]]


def test_the_engine_has_no_code_of_its_own_in_the_database() -> None:
    from importlib import resources

    folder = resources.files("semel.ledger.postgres")
    for file in folder.iterdir():
        if file.name.endswith((".py", ".sql")):
            assert not re.search(r"(?i)\bplpgsql\b|CREATE (OR REPLACE )?FUNCTION", file.read_text("utf-8"))


def test_no_transaction_of_the_ledger_sends_a_message() -> None:
    """One that does waits at its commit for every other one that does, in all databases of the server."""
    from importlib import resources

    folder = resources.files("semel.ledger")
    files = [file for part in ("postgres", "queries") for file in folder.joinpath(part).iterdir()]
    texts = {file.name: file.read_text("utf-8") for file in files if file.name.endswith((".py", ".sql"))}
    assert {name for name, text in texts.items() if re.search(r"(?i)\b(pg_)?notify\b", text)} == {"hints.py"}


def test_no_transaction_of_the_ledger_locks_a_table_or_a_number() -> None:
    """Both are held against all others, whatever these write; and a number's lock may outlive what it was for."""
    from semel.ledger.postgres.statements import own_statements, statements

    found = {
        name
        for name, statement in (statements() | own_statements()).items()
        if re.search(rb"(?i)\bLOCK\s+TABLE\b|\bpg_(try_)?advisory", statement.sql)
    }
    assert found == {"member_lock", "member_lock_joining"}  # they are no transactions of the ledger
