"""A gateway whose ledger is in PostgreSQL: `make test-postgres` runs these tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "cli"))  # the command line as people have it
sys.path.append(str(Path(__file__).parent.parent / "stores"))

from cli_house import SCRIPTED, Cli

from proof.postgres_server import PostgresServer, shared_server
from semel.ledger.storage.location import DatabaseUrl

collect_ignore_glob = [] if os.environ.get("SEMEL_TEST_LEDGER") == "postgres" else ["test_*.py"]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that a test may kill; the tests after it start it again."""
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture
def cli(tmp_path: Path, server: PostgresServer) -> Iterator[Cli]:
    """The command line of a home whose ledger is an empty database."""
    database = server.create_database()
    (tmp_path / "semel.toml").write_text(f'{SCRIPTED}[ledger]\nurl = "{server.url(database)}"\n')
    cli = Cli(tmp_path, tmp_path / "data")
    yield cli
    cli.leave()


@pytest.fixture(scope="module")
def db_server() -> PostgresServer:
    return shared_server()


@pytest.fixture
def database(db_server: PostgresServer) -> Iterator[str]:
    name = db_server.create_database()
    yield name
    db_server.drop_database(name)


@pytest.fixture
def url(db_server: PostgresServer, database: str) -> DatabaseUrl:
    return DatabaseUrl(db_server.url(database))
