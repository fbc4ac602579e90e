"""Gateways that share a database: one is active, the others wait and take over from it.

The active one holds the database (`holder.py`), and renews its row in `member` by the server's clock. Another one takes
over if the database is held no longer (the gateway was killed, or its machine is gone), or if the row was not renewed
for `LEASE_S` seconds (the gateway hangs, or is cut off). Whoever takes over dismisses the workers of the gateway before
it, so that none of their transactions commits any more.

A gateway that cannot renew its row has to assume that another one takes over: `Member.guard` tells it, early enough
that its agents are ended before the other gateway starts its own. It counts by its own clock, from the beginning of the
last renewal that succeeded. A member never comes back: a gateway that lost its place joins again, under a new id.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from semel.ledger.postgres.errors import DatabaseEmpty, DatabaseInUse, DatabaseNotOpened, to_ledger_error
from semel.ledger.postgres.holder import ACTIVE_TABLE, LOCK, Holder
from semel.ledger.postgres.migrate import list_table_names, read_version
from semel.ledger.postgres.server_clock import read_steady_clock
from semel.ledger.postgres.statements import Statement
from semel.ledger.postgres.wire import Connection, ConnectionLost, ServerError
from semel.ledger.storage.cluster import ClusterGateway, GatewayIdentity
from semel.ledger.storage.location import DatabaseUrl

RENEWAL_S = 2.0  # seconds between two renewals
LEASE_S = 10.0  # seconds after a renewal for which no other gateway takes over, if the database is held
TRUST_S = 8.0  # seconds after a renewal for which a gateway trusts that no other one has taken over
BLIP_S = 1.0  # seconds for which a living gateway may be without its connection, and no other one takes over
CHECK_S = 0.2  # seconds between two attempts to connect, and between two looks at the clock
APPLICATION = "semel member"  # the name of members' connections (pg_stat_activity)
_OPTIONS = {"connect_timeout": 2, "tcp_user_timeout": 4000, "application_name": APPLICATION}
"""A member's connection fails within 4 s if the server's machine is gone."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS member(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    'name text COLLATE "C" NOT NULL, address text COLLATE "C", host text COLLATE "C" NOT NULL, '
    'version text COLLATE "C" NOT NULL, joined timestamptz NOT NULL, until timestamptz NOT NULL)',
    f"CREATE TABLE IF NOT EXISTS {ACTIVE_TABLE}(only_row boolean PRIMARY KEY DEFAULT true CHECK(only_row), "
    "member bigint REFERENCES member(id))",
    f"INSERT INTO {ACTIVE_TABLE}(member) VALUES(NULL) ON CONFLICT DO NOTHING",
)
_JOIN = Statement(
    "member_join",
    f"""INSERT INTO member(name, address, host, version, joined, until) VALUES(:name, :address, :host, :version,
    clock_timestamp(), clock_timestamp() + interval '{LEASE_S} s') RETURNING id""",
)
_RENEW = Statement(
    "member_renew",
    f"""UPDATE member SET until = clock_timestamp() + interval '{LEASE_S} s' WHERE id = :id
    RETURNING EXISTS(SELECT 1 FROM {ACTIVE_TABLE} a WHERE a.member = member.id)""",
)
_ACTIVATE = Statement("member_activate", f"UPDATE {ACTIVE_TABLE} SET member = :id")
_LEAVE = Statement("member_leave", f"UPDATE {ACTIVE_TABLE} SET member = NULL WHERE member = :id")
_REMOVE = Statement("member_remove", "DELETE FROM member WHERE id = :id")
_REMOVE_OLD = Statement(
    "member_remove_old",
    f"""DELETE FROM member m WHERE m.until < clock_timestamp() - interval '1 day'
    AND NOT EXISTS(SELECT 1 FROM {ACTIVE_TABLE} a WHERE a.member = m.id)""",
)
_LIST = f"""SELECT m.id, m.name, m.address, m.host, m.version, CAST(extract(epoch FROM m.joined) * 1000 AS bigint),
  CAST((extract(epoch FROM m.until) - {LEASE_S}) * 1000 AS bigint), m.until > clock_timestamp(), a.member IS NOT NULL
FROM member m LEFT JOIN {ACTIVE_TABLE} a ON a.member = m.id ORDER BY m.id"""
_IS_HELD = f"""SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
WHERE l.locktype = 'advisory' AND l.objid = {LOCK} AND l.granted AND d.datname = current_database()"""
_END_CONNECTIONS = f"""SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
AND application_name LIKE 'semel%' AND application_name <> '{APPLICATION}'"""


class Member:
    """Implements `storage.cluster.ClusterMember`."""

    def __init__(self, url: str, identity: GatewayIdentity) -> None:
        self._url = url
        self._path = str(DatabaseUrl(url))
        self._identity = identity
        self._connection: Connection | None = None
        self._id = 0  # 0: it has not joined yet
        self.holder: Holder | None = None  # while it is the active one
        self.active: ClusterGateway | None = None
        self.problem: str | None = None
        self._renewed_at = 0.0  # when the last renewal began that succeeded, by `read_steady_clock`
        self._free_since: float | None = None  # when the database was first seen to be held by nobody
        self._trusted_until = 0.0
        self._left = threading.Event()

    def __repr__(self) -> str:
        return f"<Member {self._id} {self._identity.name!r} of {self._path}, {'active' if self.holder else 'waiting'}>"

    # ------------------------------------------------------------ waiting

    def try_to_take_over(self) -> bool:
        """See `ClusterMember`."""
        self.problem = None
        try:
            return self._try_to_take_over()
        except ConnectionLost as error:  # the server is restarted, or another one takes its place
            self._disconnect()
            self.problem = str(DatabaseNotOpened(path=self._path, why=error))
            return False
        except ServerError as error:
            self._disconnect()
            raise to_ledger_error(error, self._path) from error

    def _try_to_take_over(self) -> bool:
        connection = self._connect()
        is_new = read_version(connection, self._path) == 0
        connection.end("COMMIT")
        if not is_new and read_steady_clock() - self._renewed_at > RENEWAL_S:
            self._show_life(connection)
        ((holders,),) = connection.execute(_IS_HELD)
        rows = [] if is_new else connection.execute(_LIST)
        connection.end("COMMIT")
        (active, is_alive) = next(((_read_gateway(row), bool(row[7])) for row in rows if row[8]), (None, False))
        self.active = active
        if holders and (active is None or is_alive):
            self._free_since = None
            return False
        if not holders and is_alive and not self._has_been_free():
            return False
        return self._take_over(active)

    def _has_been_free(self) -> bool:
        """Whether nobody has held the database for so long that the active gateway must have ended."""
        now = time.monotonic()
        self._free_since = self._free_since or now
        return now - self._free_since > BLIP_S

    def _take_over(self, active: ClusterGateway | None) -> bool:
        """Take the database from a gateway that is gone, hangs or is cut off."""
        if active is not None:  # whatever its transactions hold would be kept for another minute
            connection = self._connect()
            connection.execute(_END_CONNECTIONS)
            connection.end("COMMIT")
        try:
            self.holder = Holder(self._url, self._path)
        except DatabaseInUse:  # another one was faster
            return False
        return True

    # ------------------------------------------------------------ the active gateway

    def activate(self) -> None:
        """Record that this gateway is the active one. It holds the database, and the ledger's tables are there."""
        connection = self._connect()
        self._show_life(connection)
        connection.send(_REMOVE_OLD, {})
        connection.send(_ACTIVATE, {"id": self._id})
        connection.end("COMMIT")

    def guard(self, when_lost: Callable[[str], Any]) -> None:
        """See `ClusterMember`."""
        self._trusted_until = self._renewed_at + TRUST_S
        for task in (self._renew_lease, self._watch_clock):
            threading.Thread(target=task, args=(when_lost,), name=f"member {task.__name__}", daemon=True).start()

    def _renew_lease(self, when_lost: Callable[[str], Any]) -> None:
        while not self._left.wait(RENEWAL_S):
            try:
                if not self._show_life(self._connect()):
                    self._report_loss(when_lost, "another gateway has taken over")
                    return
                self._trusted_until = self._renewed_at + TRUST_S
            except (ConnectionLost, ServerError):
                self._disconnect()
                self._left.wait(CHECK_S)

    def _watch_clock(self, when_lost: Callable[[str], Any]) -> None:
        """Look at the clock beside `_renew_lease`, which may wait for a server that does not answer."""
        while not self._left.wait(CHECK_S):
            if read_steady_clock() > self._trusted_until:
                self._report_loss(when_lost, f"the database has not answered for {TRUST_S:g} s")
                return

    def _report_loss(self, when_lost: Callable[[str], Any], reason: str) -> None:
        if not self._left.is_set():
            self._left.set()
            when_lost(reason)

    def leave(self) -> None:
        """See `ClusterMember`."""
        self._left.set()
        with contextlib.suppress(ConnectionLost, ServerError):  # else the next gateway waits a moment longer
            if self._id:
                connection = Connection(self._url, _OPTIONS)
                connection.send(_LEAVE, {"id": self._id})
                connection.send(_REMOVE, {"id": self._id})
                connection.end("COMMIT")
                connection.close()

    # ------------------------------------------------------------ the connection

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._url, _OPTIONS)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _show_life(self, connection: Connection) -> bool:
        """Join, or renew the member's row. Return whether this gateway is the active one."""
        if not self._id:
            has_tables = ACTIVE_TABLE in list_table_names(connection)
            connection.end("COMMIT")
            if not has_tables:
                _make_tables(connection)
            ((self._id,),) = connection.read(_JOIN, vars(self._identity))
        began = read_steady_clock()
        rows = connection.read(_RENEW, {"id": self._id})
        connection.end("COMMIT")
        self._renewed_at = began
        if not rows:  # it was away for so long that it was removed
            self._id = 0
        return rows == [[1]]


def _make_tables(connection: Connection) -> None:
    connection.queue("BEGIN")
    connection.execute("LOCK TABLE schema_version")  # gateways that start at once make the tables one after the other
    for statement in _TABLES:
        connection.execute(statement)
    connection.end("COMMIT")


def list_gateways(url: str) -> list[ClusterGateway]:
    """Return the gateways of a database that live, in the order in which they joined. Raises LedgerError."""
    path = str(DatabaseUrl(url))
    try:
        connection = Connection(url)
        try:
            if read_version(connection, path) == 0:
                raise DatabaseEmpty(path=path)
            rows = connection.execute(_LIST) if ACTIVE_TABLE in list_table_names(connection) else []
        finally:
            connection.close()
    except (ConnectionLost, ServerError) as error:
        raise to_ledger_error(error, path) from error
    return [_read_gateway(row) for row in rows if row[7]]


def _read_gateway(row: list[Any]) -> ClusterGateway:
    _, name, address, host, version, joined, seen, _, is_active = row
    return ClusterGateway(name, address, host, version, bool(is_active), joined, seen)
