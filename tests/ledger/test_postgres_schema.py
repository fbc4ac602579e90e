"""Both engines have the same tables, columns and indexes, made from one source."""

from __future__ import annotations

import re

import pytest

from proof.machines.engines import empty_database
from proof.postgres_server import needs_postgres, shared_server
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.cluster import GatewayIdentity

pytestmark = needs_postgres
TYPES = {"INTEGER": "bigint", "TEXT": "text", "BLOB": "bytea", "REAL": "double precision"}
OWN = {"mark", "schema_version", "worker", "member", "active_member"}
"""Tables that only PostgreSQL has: SQLite has one writer, which knows what became of its COMMITs."""


Columns = dict[str, dict[str, tuple[str, bool]]]
"""Of each table: the type of each column, and whether it may be NULL."""
Indexes = dict[str, tuple[str, list[str], bool, bool]]
"""The named indexes: table, columns, whether unique, whether partial."""


def sqlite_catalogue() -> tuple[Columns, Indexes]:
    with Store.in_memory() as store:
        run = store._require_committer()._db.execute
        tables = [name for (name,) in run("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        columns = {
            table: {
                name: (TYPES[kind], not notnull and not key)
                for _, name, kind, notnull, _, key in run(f"PRAGMA table_info({table})")
            }
            for table in tables
        }
        indexes = {}
        for table in tables:
            for _, name, unique, origin, partial in run(f"PRAGMA index_list({table})").fetchall():
                if origin == "c":
                    on = [column for _, _, column in run(f"PRAGMA index_info({name})")]
                    indexes[name] = (table, on, bool(unique), bool(partial))
    return columns, indexes


def test_the_catalogues_are_the_same() -> None:
    database = empty_database().split("/")[3].split("?")[0]
    ask = shared_server().execute
    columns: Columns = {}
    for table, name, kind, nullable in ask(
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
        " WHERE table_schema = 'public' ORDER BY table_name, ordinal_position",
        database,
    ):
        columns.setdefault(table, {})[name] = (kind, nullable == "YES")
    indexes = {
        name: (table, on, unique, partial)
        for name, table, on, unique, partial in ask(
            "SELECT c.relname, t.relname, ARRAY(SELECT a.attname FROM unnest(i.indkey) WITH ORDINALITY k(n, place)"
            " JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.n ORDER BY k.place)::text[], i.indisunique,"
            " i.indpred IS NOT NULL FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace s ON s.oid = t.relnamespace"
            " WHERE s.nspname = 'public' AND NOT EXISTS (SELECT 1 FROM pg_constraint x WHERE x.conindid = c.oid)",
            database,
        )
    }
    expected_columns, expected_indexes = sqlite_catalogue()
    assert {table: found for table, found in columns.items() if table not in OWN} == expected_columns
    assert indexes == expected_indexes


def test_both_engines_allow_the_same_texts_in_the_same_columns() -> None:
    with Store.in_memory() as store:
        run = store._require_committer()._db.execute
        expected = {
            (table, column): set(re.findall(r"'([^']*)'", texts))
            for table, sql in run("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall()
            for column, texts in re.findall(r"CHECK\((\w+) IN \(([^()]*)\)\)", sql)
        }
    database = empty_database().split("/")[3].split("?")[0]
    allowed = shared_server().execute(
        "SELECT c.table_name, c.column_name, d.check_clause FROM information_schema.columns c"
        " JOIN information_schema.domain_constraints n ON n.domain_name = c.domain_name"
        " JOIN information_schema.check_constraints d ON d.constraint_name = n.constraint_name"
        " WHERE c.table_schema = 'public'",
        database,
    )
    assert {(table, column): set(re.findall(r"'([^']*)'", clause)) for table, column, clause in allowed} == expected
    assert ("claim", "outcome") in expected
    with pytest.raises(Exception, match="claim_outcome"):
        shared_server().execute("INSERT INTO claim(outcome) VALUES('lost')", database)


def test_no_table_has_a_list_of_texts_that_each_statement_reads_again() -> None:
    database = empty_database().split("/")[3].split("?")[0]
    checks = shared_server().execute(
        "SELECT conrelid::regclass::text FROM pg_constraint WHERE contype = 'c' AND conrelid <> 0", database
    )
    assert {table for (table,) in checks} <= {"ledger", "active_member"}  # that they have one row


def test_texts_are_compared_by_their_bytes_as_sqlite_does() -> None:
    from semel.ledger.postgres.members import Member

    url = empty_database()
    member = Member(url, GatewayIdentity("one", None, "a-host", "0.2.0"))
    assert member.try_to_take_over()  # the first one adds the tables of a cluster
    member.leave()
    assert member.holder is not None
    member.holder.release()
    database = url.split("/")[3].split("?")[0]
    other = shared_server().execute(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
        " AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'",
        database,
    )
    assert other == []
