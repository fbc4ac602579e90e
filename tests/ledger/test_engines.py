"""What is above the ledger names no engine, and who uses SQLite pays nothing for PostgreSQL."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from semel.ledger import engines
from semel.ledger.storage.errors import EngineMissing
from semel.ledger.storage.location import DatabaseUrl, is_database_uri
from test_floors import PACKAGE, imports, modules

SQLITE_USERS = {
    "ledger/engines.py": "opens the engine that a ledger's place names",
    "ledger/search": "the index is a SQLite file, beside any ledger",
    "ledger/backup": "backups are copies of SQLite's file",
    "ledger/copy_ledger.py": "a copy knows both of its ends",
    "ledger/postgres/transfer.py": "a copy goes through the tables of the one schema, which is SQLite's",
    "testing/conformance": "channels are tested with a ledger in a file",
}
"""Modules and packages that name SQLite's engine, and why."""


def is_in(path: Path, places: set[str]) -> bool:
    inside = path.relative_to(PACKAGE).as_posix()
    return any(inside == place or inside.startswith(f"{place}/") for place in places)


@pytest.mark.parametrize(
    ("engine", "users"),
    [
        ("semel.ledger.sqlite", {"ledger/sqlite", *SQLITE_USERS}),
        (
            "semel.ledger.postgres",
            {"ledger/postgres", "ledger/engines.py", "ledger/copy_ledger.py", "faces/health/database.py"},
        ),
    ],
)
def test_an_engine_is_named_by_itself_and_by_those_who_open_it(engine: str, users: set[str]) -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in modules()
        for line, module in imports(path)
        if module.startswith(engine) and not is_in(path, users)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("library", "users"),
    [
        ("psycopg", {"ledger/postgres"}),
        ("apsw", {"ledger/sqlite", "ledger/search", "ledger/backup", "faces/health", "faces/cli"}),
    ],
)
def test_an_engines_library_is_imported_by_the_engine(library: str, users: set[str]) -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in modules()
        for line, module in imports(path)
        if module.partition(".")[0] == library and not is_in(path, users)
    ]
    assert wrong == []


def test_a_start_on_sqlite_imports_nothing_of_postgresql() -> None:
    code = (
        "import sys, semel.faces.run; print([name for name in sys.modules if 'psycopg' in name or 'postgres' in name])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


def test_the_types_are_the_five_that_are_translated() -> None:
    from semel.ledger.postgres.types import translate_schema
    from semel.ledger.storage.migrations import list_migrations

    for migration in list_migrations():
        translated = translate_schema(migration.sql)
        assert not re.search(r"\b(INTEGER|TEXT|BLOB|REAL|STRICT|ROWID)\b", translated), migration.name
        assert "'" not in re.sub(r"'[^';]*'", "", translated), "a text with a semicolon would be cut"


def test_a_database_is_named_without_its_password() -> None:
    for uri, name in {
        "postgresql://semel:secret@db.example.org:5433/books?sslmode=require": "postgresql://db.example.org:5433/books",
        "postgres://a:secret@h1,h2/books?target_session_attrs=read-write": "postgresql://h1,h2/books",
        "postgresql:///books?host=/run/postgresql": "postgresql:///run/postgresql/books",
    }.items():
        assert is_database_uri(uri)
        assert str(DatabaseUrl(uri)) == name and "secret" not in repr(DatabaseUrl(uri))
    assert not any(map(is_database_uri, ("sqlite:///ledger.db", "postgresql:books", "ledger.db", "postgresql://[")))


def test_without_psycopg_a_ledger_in_a_database_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    place = DatabaseUrl("postgresql://semel@localhost/books")
    with pytest.raises(EngineMissing, match="pip install"):
        engines.open_ledger(place)
    with pytest.raises(EngineMissing, match="pip install"):
        engines.open_readonly(place)
    assert engines.measure_ledger(place).ledger == 0
