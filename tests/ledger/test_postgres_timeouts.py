"""Timeouts that an operator has set for the database: they do not reach a gateway, or `semel doctor` warns."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from proof.postgres_server import needs_postgres, shared_server
from semel.faces.health.database import examine_database
from semel.ledger.storage.location import DatabaseUrl

pytestmark = needs_postgres
SHORT = {"statement_timeout": "200ms", "lock_timeout": "100ms", "idle_session_timeout": "300ms"}
WAIT_S = 0.6  # longer than each of them


@pytest.fixture
def database() -> Iterator[str]:
    name = shared_server().create_database()
    yield name
    shared_server().drop_database(name)


def set_timeouts(database: str, timeouts: dict[str, str]) -> None:
    for name, value in timeouts.items():
        shared_server().execute(f"ALTER DATABASE {database} SET {name} = '{value}'")


def list_warnings(database: str) -> list[str]:
    findings = examine_database(DatabaseUrl(shared_server().url(database)))
    return [f"{finding.text}; {finding.remedy}" for finding in findings if finding.level != "ok"]


def test_timeouts_of_the_database_do_not_reach_a_gateway(database: str) -> None:
    from semel.ledger.postgres.holder import Holder
    from semel.ledger.postgres.store import PostgresStore
    from semel.ledger.postgres.wire import Connection

    url = shared_server().url(database)
    PostgresStore.open(url).close()
    set_timeouts(database, SHORT)
    with PostgresStore.open(url) as store:
        locker = Connection(url)
        locker.queue("BEGIN")
        locker.execute("LOCK TABLE cursor IN EXCLUSIVE MODE")
        end = threading.Timer(WAIT_S, locker.end, ("COMMIT",))
        end.start()
        began = time.monotonic()
        store.write_sync(lambda tx: tx.run("cursor_set", source="a", value="1", at=1))
        assert time.monotonic() - began > WAIT_S / 2, "it waited for the lock"
        end.join()
        locker.close()
        assert isinstance(store._place, Holder)
        store._place.run("SELECT 1")  # its connection was idle, and still holds the database
    assert not list_warnings(database)


def test_doctor_warns_of_a_timeout_that_a_connection_cannot_refuse(database: str) -> None:
    ((has_setting,),) = shared_server().execute("SELECT count(*) FROM pg_settings WHERE name = 'transaction_timeout'")
    if has_setting:  # since PostgreSQL 17
        set_timeouts(database, {"transaction_timeout": "10s"})
    warnings = ["transaction_timeout = 10s holds for Semel's connections: an upgrade"] if has_setting else []
    for warning, words in zip(list_warnings(database), warnings, strict=True):
        assert words in warning and "ALTER ROLE user SET transaction_timeout = 0" in warning


def test_doctor_warns_of_each_timeout_that_holds_because_a_pooler_drops_the_settings(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.ledger.postgres import wire

    set_timeouts(database, SHORT)
    monkeypatch.setattr(wire, "_OPTIONS", "")
    warnings = list_warnings(database)
    assert "does not get the settings" in warnings[0]
    assert [warning.split(" = ")[0] for warning in warnings[1:]] == sorted(SHORT)
