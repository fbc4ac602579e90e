"""A database is made a ledger, brought forward, or refused in words that say what to do; nothing else is changed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from proof.postgres_server import PostgresServer, needs_postgres, shared_server
from semel.ledger.admin import books
from semel.ledger.storage.errors import LedgerNewer, LedgerReadOnly, MigrationFailed
from semel.ledger.storage.migrations import Migration, Upgrade, list_migrations
from semel.ledger.storage.rows import LedgerRow

pytestmark = needs_postgres


@pytest.fixture
def database() -> Iterator[str]:
    name = shared_server().create_database()
    yield name
    shared_server().drop_database(name)


def test_an_empty_database_becomes_a_ledger_and_stays_the_same_one(database: str) -> None:
    from semel.ledger.postgres.store import PostgresStore

    url = shared_server().url(database)
    with PostgresStore.open(url, clock=lambda: 7) as store:
        made = store.read_sync(lambda tx: tx.get(LedgerRow, "ledger_get"))
        assert (made.at, made.incarnation) == (7, 1)
        assert all(book.ok for book in store.read_sync(books.audit))
    with PostgresStore.open(url) as store:
        assert store.read_sync(lambda tx: tx.get(LedgerRow, "ledger_get")) == made


def test_an_older_ledger_is_brought_forward_and_keeps_its_rows(database: str) -> None:
    from semel.ledger.postgres.store import PostgresStore

    url, all_versions = shared_server().url(database), list_migrations()
    with PostgresStore.open_sync(url, migrations=all_versions[:4]) as store:
        store.write_sync(lambda tx: tx.run("cursor_set", source="a", value="kept", at=1))
    announced = list[Upgrade]()
    with PostgresStore.open(url, announce=announced.append) as store:
        assert store.read_sync(lambda tx: tx.value(str, "cursor_get", source="a")) == "kept"
    assert announced == [Upgrade(4, all_versions[-1].version, None)]
    assert shared_server().execute("SELECT version FROM schema_version", database) == [(all_versions[-1].version,)]


def test_reading_changes_nothing_and_says_what_is_not_there(database: str) -> None:
    from semel.ledger.postgres.errors import DatabaseEmpty, DatabaseOlder
    from semel.ledger.postgres.store import PostgresStore

    url, all_versions = shared_server().url(database), list_migrations()
    with pytest.raises(DatabaseEmpty, match="made by the first 'semel up'"):
        PostgresStore.open_readonly(url)
    PostgresStore.open_sync(url, migrations=all_versions[:4]).close()
    with pytest.raises(DatabaseOlder, match="has version 4"):
        PostgresStore.open_readonly(url)
    with PostgresStore.open(url) as gateway, PostgresStore.open_readonly(url) as reader:
        gateway.write_sync(lambda tx: tx.run("cursor_set", source="a", value="new", at=1))
        assert reader.read_sync(lambda tx: tx.value(str, "cursor_get", source="a")) == "new"
        with pytest.raises(LedgerReadOnly):
            reader.write_sync(lambda tx: tx.run("cursor_set", source="a", value="newer", at=2))


def test_a_ledger_whose_gateway_was_killed_was_not_closed(database: str) -> None:
    from semel.ledger.postgres.store import PostgresStore

    url = shared_server().url(database)
    with PostgresStore.open(url) as store:
        assert store.was_closed, "it is new"
        store.write_sync(lambda tx: tx.run("cursor_set", source="a", value="1", at=1))
    with PostgresStore.open(url) as store:
        assert store.was_closed
        store.write_sync(lambda tx: tx.run("cursor_set", source="a", value="2", at=1))
        shared_server().execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'semel'"
        )  # as if it were killed: it cannot say goodbye
    with PostgresStore.open(url) as store:
        assert not store.was_closed


def test_a_migration_that_fails_changes_nothing(database: str) -> None:
    from semel.ledger.postgres.store import PostgresStore

    url, newest = shared_server().url(database), list_migrations()[-1].version
    PostgresStore.open_sync(url).close()
    bad = Migration(newest + 1, "bad", "CREATE TABLE half(id INTEGER) STRICT; SELECT nothing FROM nowhere")
    with pytest.raises(MigrationFailed, match=f"from version {newest} to version {newest + 1}"):
        PostgresStore.open_sync(url, migrations=(*list_migrations(), bad))
    PostgresStore.open_sync(url).close()
    assert shared_server().execute("SELECT 1 FROM pg_class WHERE relname = 'half'", database) == []


def test_a_newer_ledger_is_refused(database: str) -> None:
    from semel.ledger.postgres.store import PostgresStore

    PostgresStore.open_sync(shared_server().url(database)).close()
    shared_server().execute("UPDATE schema_version SET version = 99", database)
    with pytest.raises(LedgerNewer, match=r"has version 99; this Semel knows versions up to \d+"):
        PostgresStore.open(shared_server().url(database))


def test_a_database_of_another_program_is_left_as_it_is(database: str) -> None:
    from semel.ledger.postgres.errors import DatabaseOfAnother
    from semel.ledger.postgres.store import PostgresStore

    shared_server().execute("CREATE TABLE invoices(id int)", database)
    with pytest.raises(DatabaseOfAnother, match=r"other tables \(invoices\)"):
        PostgresStore.open(shared_server().url(database))
    tables = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    assert shared_server().execute(tables, database) == [("invoices",)]


@pytest.mark.parametrize("right", ["CREATE", "USAGE"])
def test_a_user_that_may_not_make_tables_is_told_which_right_it_needs(database: str, right: str) -> None:
    from semel.ledger.postgres.errors import DatabaseForbidden
    from semel.ledger.postgres.store import PostgresStore

    role = f"reader_{right.lower()}"
    shared_server().execute(f"CREATE ROLE {role} LOGIN")
    url = shared_server().url(database).replace("semel@", f"{role}@")
    shared_server().execute(f"REVOKE {right} ON SCHEMA public FROM PUBLIC", database)
    try:
        with pytest.raises(DatabaseForbidden, match=r"GRANT CREATE, USAGE ON SCHEMA public TO USER") as refused:
            PostgresStore.open(url)
        assert "upgraded" not in str(refused.value)
        shared_server().execute(f"GRANT CREATE, USAGE ON SCHEMA public TO {role}", database)
        PostgresStore.open(url).close()
        shared_server().execute(f"REVOKE SELECT ON schema_version FROM {role}", database)
        with pytest.raises(DatabaseForbidden, match="permission denied for table schema_version"):
            PostgresStore.open_readonly(url)
    finally:
        shared_server().drop_database(database)
        shared_server().execute(f"DROP ROLE {role}")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_character_is_refused(encoding: str) -> None:
    from semel.ledger.postgres.errors import DatabaseNotUnicode
    from semel.ledger.postgres.store import PostgresStore

    name = f"t_{encoding.lower()}"
    shared_server().execute(f"CREATE DATABASE {name} ENCODING {encoding} TEMPLATE template0")
    try:
        for open_store in (PostgresStore.open, PostgresStore.open_sync, PostgresStore.open_readonly):
            with pytest.raises(DatabaseNotUnicode, match=f"has the encoding {encoding}") as refused:
                open_store(shared_server().url(name))
        assert "createdb --encoding UTF8 --template template0 NAME" in str(refused.value)
        assert shared_server().execute("SELECT 1 FROM pg_class WHERE relname = 'ledger'", name) == []
    finally:
        shared_server().drop_database(name)


@pytest.mark.parametrize(("setting", "value"), [("synchronous_commit", "off"), ("synchronous_commit", "local")])
def test_a_database_that_does_not_wait_for_its_log_is_refused(database: str, setting: str, value: str) -> None:
    from semel.ledger.postgres.errors import DatabaseNotDurable
    from semel.ledger.postgres.store import PostgresStore

    shared_server().execute(f"ALTER DATABASE {database} SET {setting} = {value}")
    with pytest.raises(DatabaseNotDurable, match=f"has {setting} = {value}: .*Set it to on"):
        PostgresStore.open(shared_server().url(database))


@pytest.fixture
def careless() -> Iterator[PostgresServer]:
    server = PostgresServer("fsync = off")
    yield server
    server.stop()


def test_a_server_without_fsync_is_refused(careless: PostgresServer) -> None:
    from semel.ledger.postgres.errors import DatabaseNotDurable
    from semel.ledger.postgres.store import PostgresStore

    with pytest.raises(DatabaseNotDurable, match="has fsync = off"):
        PostgresStore.open(careless.url())
    assert careless.execute("SELECT 1 FROM pg_class WHERE relname = 'ledger'") == []


def test_a_standby_and_an_old_server_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from semel.ledger.postgres.errors import DatabaseIsStandby, ServerTooOld
    from semel.ledger.postgres.server import refuse_unfit_server

    class Answers:
        """A server that says of itself what it is told to."""

        def __init__(self, version: int, is_standby: int) -> None:
            self.version, self.is_standby = version, is_standby

        def execute(self, sql: str) -> list[list[object]]:
            if "server_version" in sql:
                return [[self.version * 10_000 + 4, f"{self.version}.4", self.is_standby]]
            return [["UTF8"]] if "server_encoding" in sql else [["on"]]

    refuse_unfit_server(Answers(16, 0), "db/semel")  # type: ignore[arg-type]
    with pytest.raises(DatabaseIsStandby, match="target_session_attrs=read-write"):
        refuse_unfit_server(Answers(18, 1), "db/semel")  # type: ignore[arg-type]
    with pytest.raises(ServerTooOld, match=r"runs on PostgreSQL 15\.4; Semel needs version 16"):
        refuse_unfit_server(Answers(15, 0), "db/semel")  # type: ignore[arg-type]


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    from semel.ledger.postgres.errors import DatabaseNotOpened
    from semel.ledger.postgres.store import PostgresStore

    with pytest.raises(
        DatabaseNotOpened, match=r"The database postgresql:///nowhere/semel cannot be opened"
    ) as refused:
        PostgresStore.open("postgresql://semel:secret@/semel?host=/nowhere")
    assert "secret" not in str(refused.value)


def test_the_time_in_a_ledger_is_the_servers(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from semel.ledger.postgres import server_clock
    from semel.ledger.postgres.store import PostgresStore

    monkeypatch.setattr(time, "time_ns", lambda: 0)  # this machine's clock shows 1970
    with PostgresStore.open(shared_server().url(database)) as store:
        began = time.time() * 1000
        assert began - 1000 < store.now() < began + 60_000
        assert began - 1000 < store.write_sync(lambda tx: tx.now) < began + 60_000
        monkeypatch.setattr(server_clock, "MAX_AGE_S", -1.0)  # it is asked again before each transaction
        assert began - 1000 < store.write_sync(lambda tx: tx.now) < began + 60_000
