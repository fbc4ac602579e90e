"""A pooler between gateway and server is named: Semel's locks and prepared statements belong to a connection.

What PgBouncer 1.18 does was seen by hand, and is played here: in each mode, it refuses the startup parameter `options`,
unless it is told to ignore it; it tells each connection a process id of its own; and in transaction mode, one process
of the server serves a connection only until its transaction ends.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from proof.machines.engines import empty_database
from proof.postgres_server import needs_postgres
from semel.faces.health.database import examine_database
from semel.faces.health.finding import Finding
from semel.ledger.engines import join_cluster
from semel.ledger.storage.cluster import GatewayIdentity
from semel.ledger.storage.location import DatabaseUrl

pytestmark = needs_postgres
REFUSAL = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"


@pytest.fixture
def url() -> str:
    return empty_database()


@pytest.fixture
def refusing() -> Iterator[str]:
    """The URL of a pooler that refuses the startup parameter `options`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse_connections, args=(listener,))
        thread.start()
        port = listener.getsockname()[1]
        yield f"postgresql://semel@127.0.0.1:{port}/semel?sslmode=disable&gssencmode=disable"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def refuse_connections(listener: socket.socket) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client:
            client.recv(4096)
            client.sendall(b"E" + struct.pack("!i", len(REFUSAL) + 4) + REFUSAL)


@pytest.fixture
def made_up(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, each connection is told a process id that is not the server's."""
    from semel.ledger.postgres.wire import Connection

    monkeypatch.setattr(Connection, "backend_pid", -1)


@pytest.fixture
def shared(made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process of the server serves all connections."""
    from semel.ledger.postgres import server

    monkeypatch.setattr(server, "read_process", lambda connection: 812)


@pytest.fixture
def moving(made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of the server are given to the connections in turn."""
    from semel.ledger.postgres import server

    processes = iter(range(800, 900))
    monkeypatch.setattr(server, "read_process", lambda connection: next(processes))


def find_problems(url: str) -> list[Finding]:
    return [finding for finding in examine_database(DatabaseUrl(url)) if finding.level != "ok"]


def refuse_everywhere(url: str, why: str) -> None:
    """Start a gateway alone and one of a cluster, and examine the database: each has to name the pooler."""
    from semel.ledger.postgres.errors import DatabasePooled
    from semel.ledger.postgres.store import PostgresStore

    with pytest.raises(DatabasePooled, match=f"through a pooler, such as PgBouncer .*{why}.*name the server itself"):
        PostgresStore.open(url)
    member = join_cluster(DatabaseUrl(url), GatewayIdentity("one", None, "one-host", "0.2.0"))
    with pytest.raises(DatabasePooled, match=why):
        member.try_to_take_over()
    member.leave()
    (problem,) = find_problems(url)
    assert problem.level == "broken" and "name the server itself in url, not the pooler" in problem.text


def test_a_pooler_that_refuses_the_settings_of_a_connection_is_named(refusing: str) -> None:
    refuse_everywhere(refusing, "unsupported startup parameter: options")


@pytest.mark.usefixtures("shared")
def test_a_pooler_that_gives_one_process_to_several_connections_is_named(url: str) -> None:
    refuse_everywhere(url, "one process of the server serves several connections in turn")


@pytest.mark.usefixtures("moving")
def test_a_pooler_that_gives_another_process_to_the_next_transaction_is_named(url: str) -> None:
    refuse_everywhere(url, "one process of the server serves several connections in turn")


@pytest.mark.usefixtures("made_up")
def test_a_proxy_that_keeps_a_connection_s_process_is_used(url: str) -> None:
    from semel.ledger.postgres.store import PostgresStore

    PostgresStore.open(url).close()
    assert not find_problems(url)


def test_settings_that_do_not_reach_the_server_are_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from semel.ledger.postgres import wire

    monkeypatch.setattr(wire, "_OPTIONS", "")
    (problem,) = find_problems(url)
    assert problem.level == "warning" and "does not get the settings of Semel's connections" in problem.text
