"""The rows of the gateways that share a database (`members.py`), and the tables that hold them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from semel.ledger.postgres.errors import DatabaseEmpty, to_ledger_error
from semel.ledger.postgres.migrate import list_table_names, read_version
from semel.ledger.postgres.statements import own_statements
from semel.ledger.postgres.wire import Connection, ConnectionLost, ServerError
from semel.ledger.storage.cluster import GIVEN_UP_AFTER_S, ClusterGateway
from semel.ledger.storage.location import DatabaseUrl

LEASE_S = GIVEN_UP_AFTER_S  # after a renewal
MEMBER_LOCK = 0x53454D4D  # "SEMM": the first number of each member's advisory lock; the second one is its id

_TABLES = (
    "CREATE TABLE IF NOT EXISTS member(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    'name text COLLATE "C" NOT NULL, address text COLLATE "C", host text COLLATE "C" NOT NULL, '
    'version text COLLATE "C" NOT NULL, joined timestamptz NOT NULL, until timestamptz NOT NULL)',
    "ALTER TABLE member ADD COLUMN IF NOT EXISTS serves boolean NOT NULL DEFAULT false",
    "ALTER TABLE member ADD COLUMN IF NOT EXISTS agents integer NOT NULL DEFAULT 0",
    "ALTER TABLE member ADD COLUMN IF NOT EXISTS room integer NOT NULL DEFAULT 1",
    "ALTER TABLE member ADD COLUMN IF NOT EXISTS token text COLLATE \"C\" NOT NULL DEFAULT ''",
    "ALTER TABLE worker ADD COLUMN IF NOT EXISTS member bigint",
    "CREATE TABLE IF NOT EXISTS active_member(only_row boolean PRIMARY KEY DEFAULT true CHECK(only_row), "
    "member bigint REFERENCES member(id))",
    "INSERT INTO active_member(member) VALUES(NULL) ON CONFLICT DO NOTHING",
)


@dataclass(frozen=True)
class MemberRow:
    """A member. `has_lease`: its row was renewed in time. `is_held`: it holds its lock.

    `token`: as in GatewayIdentity.
    """

    id: int
    gateway: ClusterGateway
    has_lease: bool
    is_held: bool
    token: str


def list_members(connection: Connection) -> list[MemberRow]:
    rows = connection.read(own_statements()["members"], {"lease": LEASE_S, "lock": MEMBER_LOCK})
    return [
        MemberRow(id, _read_gateway(*gateway), bool(has_lease), bool(is_held), token)
        for id, has_lease, is_held, token, *gateway in rows
    ]


def _read_gateway(
    name: str, address: str | None, host: str, version: str, is_active: int, joined: int, seen: int, serves: int,
    agents: int, room: int, silent_s: float,
) -> ClusterGateway:  # fmt: skip
    return ClusterGateway(
        name, address, host, version, bool(is_active), joined, seen, bool(serves), agents, room, silent_s
    )


def find_active(rows: list[MemberRow]) -> MemberRow | None:
    return next((row for row in rows if row.gateway.is_active), None)


def has_tables(connection: Connection) -> bool:
    found = connection.execute(
        "SELECT 1 FROM information_schema.columns WHERE table_schema = current_schema() "
        "AND table_name = 'worker' AND column_name = 'member'"
    )
    return bool(found) and "active_member" in list_table_names(connection)


def make_tables(connection: Connection) -> None:
    """Make the tables in the transaction under way."""
    connection.execute("LOCK TABLE schema_version")  # gateways of an earlier version make them, too
    for statement in _TABLES:
        connection.execute(statement)


def list_gateways(url: str) -> list[ClusterGateway]:
    """Return the gateways of a database that live, in the order in which they joined. Raises LedgerError."""
    path = str(DatabaseUrl(url))
    try:
        with contextlib.closing(Connection(url)) as connection:
            if read_version(connection, path) == 0:
                raise DatabaseEmpty(path=path)
            rows = list_members(connection) if has_tables(connection) else []
    except (ConnectionLost, ServerError) as error:
        raise to_ledger_error(error, path) from error
    return [row.gateway for row in rows if row.has_lease]
