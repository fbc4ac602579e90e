"""The rows of the gateways that share a database (`members.py`), and the tables that hold them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from semel.ledger.postgres.errors import DatabaseEmpty, to_ledger_error
from semel.ledger.postgres.holder import ACTIVE_TABLE
from semel.ledger.postgres.migrate import list_table_names, read_version
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
    f"CREATE TABLE IF NOT EXISTS {ACTIVE_TABLE}(only_row boolean PRIMARY KEY DEFAULT true CHECK(only_row), "
    "member bigint REFERENCES member(id))",
    f"INSERT INTO {ACTIVE_TABLE}(member) VALUES(NULL) ON CONFLICT DO NOTHING",
)
_LIST = f"""SELECT m.id, m.name, m.address, m.host, m.version, CAST(extract(epoch FROM m.joined) * 1000 AS bigint),
  CAST((extract(epoch FROM m.until) - {LEASE_S}) * 1000 AS bigint), m.until > clock_timestamp(), a.member IS NOT NULL,
  m.serves, m.agents, m.room, EXISTS(SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE l.locktype = 'advisory' AND l.classid = {MEMBER_LOCK} AND l.objid = m.id AND l.objsubid = 2 AND l.granted
    AND d.datname = current_database()), m.token,
  CAST(({LEASE_S} - extract(epoch FROM m.until - clock_timestamp())) * 1000 AS bigint)
FROM member m LEFT JOIN {ACTIVE_TABLE} a ON a.member = m.id ORDER BY m.id"""


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
    return [
        MemberRow(row[0], _read_gateway(row), has_lease=bool(row[7]), is_held=bool(row[12]), token=str(row[13]))
        for row in connection.execute(_LIST)
    ]


def find_active(rows: list[MemberRow]) -> MemberRow | None:
    return next((row for row in rows if row.gateway.is_active), None)


def has_tables(connection: Connection) -> bool:
    found = connection.execute(
        "SELECT 1 FROM information_schema.columns WHERE table_schema = current_schema() "
        "AND table_name = 'worker' AND column_name = 'member'"
    )
    return bool(found) and ACTIVE_TABLE in list_table_names(connection)


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


def _read_gateway(row: list[Any]) -> ClusterGateway:
    _, name, address, host, version, joined, seen, _, is_active, serves, agents, room, *_, silent_ms = row
    return ClusterGateway(
        name, address, host, version, bool(is_active), joined, seen, bool(serves), int(agents), int(room),
        max(0.0, round(silent_ms / 1000, 1)),
    )  # fmt: skip
