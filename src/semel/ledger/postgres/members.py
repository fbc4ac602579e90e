"""Gateways that share a database: all of them run turns, and one of them, the active one, has the duties.

Each renews its row in `member` by the server's clock, and holds an advisory lock on the connection with which it does
so. A gateway whose lock nobody has held for `BLIP_S` was killed, or its machine is gone; one whose row was not renewed
for `LEASE_S` hangs, or is cut off. The active one *buries* such a gateway: it ends its connections at the server, then
deletes its workers and its row in one transaction, so that none of its transactions commits any more. The active one
also holds the database (`holder.py`). If it is gone, another one buries it and becomes the active one.

The row is renewed on threads of its own, so it is renewed only while the gateway's event loop goes on
(`ClusterWatcher.is_answering`): a gateway whose loop hangs answers nobody, although its threads live.

A name belongs to the gateway that has it, until it has left or would be buried: another one of that name waits.

A gateway that cannot renew its row has to assume that it is buried: `Member.report_to` tells it, early enough that its
agents are ended before another gateway starts some for the same sessions. It counts by its own clock, from the
beginning of the last renewal that succeeded. A member never comes back: a gateway that lost its place joins again,
under a new id.
"""

from __future__ import annotations

import contextlib
import hmac
import threading
import time
from typing import Any

from semel.ledger.postgres.errors import (
    ClusterRefused,
    DatabaseInUse,
    DatabasePooled,
    DatabaseTakenOver,
    explain_not_opened,
    to_ledger_error,
)
from semel.ledger.postgres.holder import Holder, add_workers, is_database_held, name_application
from semel.ledger.postgres.member_rows import (
    LEASE_S,
    MEMBER_LOCK,
    MemberRow,
    find_active,
    has_tables,
    list_members,
    make_tables,
)
from semel.ledger.postgres.migrate import read_version
from semel.ledger.postgres.server import refuse_pooler
from semel.ledger.postgres.server_clock import read_steady_clock
from semel.ledger.postgres.statements import own_statements
from semel.ledger.postgres.wire import Connection, ConnectionLost, ServerError
from semel.ledger.storage.cluster import ClusterGateway, ClusterWatcher, GatewayIdentity
from semel.ledger.storage.errors import LedgerNewer
from semel.ledger.storage.location import DatabaseUrl
from semel.ledger.storage.migrations import list_migrations

RENEWAL_S = 2.0  # seconds between two renewals
TRUST_S = 8.0  # seconds after a renewal for which a gateway trusts that it is not buried
BLIP_S = 1.0  # seconds for which a living gateway may be without its connection, and is not buried
CHECK_S = 0.2  # seconds between two attempts to connect, and between two looks at the clock
LOOK_INTERVAL_S = 0.3  # seconds between two looks at the other gateways
APPLICATION = "semel member"  # the name of members' connections (pg_stat_activity)
_OPTIONS = {"connect_timeout": 2, "tcp_user_timeout": 4000, "application_name": APPLICATION}
"""A member's connection fails within 4 s if the server's machine is gone."""


class Member:
    """Implements `storage.cluster.ClusterMember`."""

    def __init__(self, url: str, identity: GatewayIdentity) -> None:
        self._url = url
        self._path = str(DatabaseUrl(url))
        self._identity = identity
        self.address = identity.address
        self._connection: Connection | None = None
        self.id = 0  # 0: it has not joined yet
        self.holder: Holder | None = None  # while it is the active one
        self.active: ClusterGateway | None = None
        self.problem: str | None = None
        self.may_serve = False
        self._watcher: ClusterWatcher | None = None
        self._renewed_at = 0.0  # when the last renewal began that succeeded, by `read_steady_clock`
        self._free_since: dict[int, float] = {}
        """Member -> when nobody was first seen to hold its lock; 0: the lock of the database."""
        self._noted_gateways: list[ClusterGateway] = []
        self._has_lock = False
        self._hangs = False  # its event loop
        self._hands_over = False  # it is about to end, and does not become the active one any more
        self._left = threading.Event()
        self._disconnects = False  # at the end of `_keep_place`; a gateway that was lost keeps its lock meanwhile

    def __repr__(self) -> str:
        state = "active" if self.holder else "not active"
        return f"<Member {self.id} {self._identity.name!r} of {self._path}, {state}>"

    @property
    def has_taken_over(self) -> bool:
        """See `ClusterMember`."""
        return self.holder is not None

    # ------------------------------------------------------------ taking a place

    def try_to_take_over(self) -> bool:
        """See `ClusterMember`."""
        self.problem, self.may_serve = None, False
        try:
            return self._try_to_take_place(self._connect())
        except ConnectionLost as error:  # the server is restarted, or another one takes its place
            self._disconnect()
            reason = explain_not_opened(error, self._path)
            if isinstance(reason, DatabasePooled):
                raise reason from error
            self.problem = str(reason)
            return False
        except ServerError as error:
            self._disconnect()
            raise to_ledger_error(error, self._path) from error

    def _try_to_take_place(self, connection: Connection) -> bool:
        if not self.id:
            refuse_pooler(connection, self._url, self._path)
        version, newest = read_version(connection, self._path), list_migrations()[-1].version
        if version > newest:
            self.problem = str(LedgerNewer(path=self._path, found=version, known=newest))
        if version != 0 and (self.id == 0 or read_steady_clock() - self._renewed_at > RENEWAL_S):
            self._show_life(connection)
        is_held = is_database_held(connection)
        rows = list_members(connection) if has_tables(connection) else []
        active = find_active(rows)
        self.active = None if active is None else active.gateway
        self.may_serve = (
            is_held and active is not None and active.has_lease and self.id != 0
            and version == newest
        )  # fmt: skip
        return self.problem is None and self._take_over_if_gone(connection, active, is_held)

    def _take_over_if_gone(self, connection: Connection, active: MemberRow | None, is_held: bool) -> bool:
        """Take over if the active gateway is gone. `is_held`: whether a gateway holds the database."""
        is_alive = active is not None and active.has_lease
        if is_held and (active is None or is_alive):
            self._free_since.pop(0, None)
            return False
        if not is_held and is_alive and not self._has_been_free(0):
            return False
        return self._take_over(connection, active)

    def _has_been_free(self, lock: int) -> bool:
        """Whether nobody has held a lock for so long that the gateway which had it must have ended."""
        now = time.monotonic()
        return now - self._free_since.setdefault(lock, now) > BLIP_S

    def _take_over(self, connection: Connection, active: MemberRow | None) -> bool:
        """Take the database from a gateway that is gone, hangs or is cut off."""
        if active is not None:  # whatever its transactions hold would be kept for another minute
            self._end_connections(connection, active.id)
        try:
            self.holder = Holder(self._url, self._path)
        except DatabaseInUse:  # another one was faster
            return False
        return True

    def _end_connections(self, connection: Connection, member: int) -> None:
        connection.read(own_statements()["member_end_connections"], {"application": name_application(member)})

    # ------------------------------------------------------------ the workers

    @property
    def application(self) -> str:
        """The name of the connections on which its workers write."""
        return name_application(self.id)

    def hold_again(self) -> None:
        """Take the database's lock again if its connection was lost, and this gateway is the active one."""
        if (holder := self.holder) is not None:
            holder.hold_again()

    def add_workers(self, count: int) -> list[int]:
        """Let this gateway write with so many workers, and return their ids.

        If it holds the database, it becomes the active one with them (`Holder.take_over`). The ledger's tables must be
        there. Raises DatabaseTakenOver if another gateway has removed this one, and ClusterRefused if another one has
        its name.
        """
        connection = self._connect()
        if self.holder is not None or not self.id:  # an upgrade may have taken longer than the lease
            self._show_life(connection)
        if not self.id:
            raise ClusterRefused(path=self._path, why=self.problem)
        if self.holder is not None:
            return self.holder.take_over(count, self.id)
        connection.queue("BEGIN")
        if not connection.read(own_statements()["member_find"], {"id": self.id}):
            raise DatabaseTakenOver(path=self._path)
        ids = add_workers(connection, self.id, count)
        connection.end("COMMIT")
        return ids

    @property
    def was_released(self) -> bool:
        """Whether the active gateway before this one was not killed; also True if this one is not active."""
        return self.holder is None or self.holder.was_released

    def release(self) -> None:
        """Let another gateway become the active one, if this one is. Its workers are closed."""
        if self.holder is not None:
            self.holder.release()

    def dismiss_others(self) -> None:
        """Let no other gateway write any more: the tables are about to be upgraded. It starts again, and waits."""
        connection = self._connect()
        if has_tables(connection):
            connection.change(own_statements()["member_dismiss_others"], {"id": self.id})

    # ------------------------------------------------------------ keeping the place

    def report_to(self, watcher: ClusterWatcher) -> None:
        """See `ClusterMember`."""
        self._watcher = watcher
        for task in (self._keep_place, self._watch_clock):
            threading.Thread(target=task, name=f"member {task.__name__}", daemon=True).start()

    def _keep_place(self) -> None:
        while not self._left.wait(LOOK_INTERVAL_S):
            try:
                connection = self._connect()
                if not self._has_lock:
                    self._take_lock(connection, self.id)
                assert self._watcher is not None
                self._hangs = not self._watcher.is_answering()
                if read_steady_clock() - self._renewed_at > RENEWAL_S and not self._hangs:
                    reason = self._renew_place(connection)
                    if reason is not None:
                        self._report_loss(reason)
                        return
                self._look_at_others(connection)
            except (ConnectionLost, ServerError):
                self._disconnect()
                self._left.wait(CHECK_S)
        if self._disconnects:
            self._disconnect()

    def _renew_place(self, connection: Connection) -> str | None:
        """Renew the member's row. Return why its place is lost; None if it is not."""
        began = read_steady_clock()
        rows = self._write_renewal(connection)
        if not rows:
            return "another gateway has removed this one, which did not answer in time"
        ((is_active, has_workers),) = rows
        if not has_workers or (self.holder is not None and not is_active):
            return "another gateway has taken over"
        self._renewed_at = began
        return None

    def _look_at_others(self, connection: Connection) -> None:
        is_held = is_database_held(connection)
        rows = list_members(connection)
        if self.holder is None:
            active = find_active(rows)
            if not self._hands_over and self._take_over_if_gone(connection, active, is_held):
                self._begin_duties(connection)
                return
        else:
            if not is_held:  # a worker's next job would see that the connection was lost, but nothing may be written
                self.hold_again()
            for row in [row for row in rows if row.id != self.id and self._is_gone(row)]:
                self._bury_member(connection, row.id)
                connection.end("COMMIT")
                rows.remove(row)
        self._note_gateways([row.gateway for row in rows if row.has_lease])

    def _begin_duties(self, connection: Connection) -> None:
        """Become the active gateway, while its workers go on. Whoever has the duties knows first who lives."""
        assert self.holder is not None and self._watcher is not None
        self.holder.take_over(0, self.id)
        self._note_gateways([row.gateway for row in list_members(connection) if row.has_lease])
        self._watcher.note_active()

    def _is_gone(self, row: MemberRow) -> bool:
        if row.is_held:
            self._free_since.pop(row.id, None)
        return not row.has_lease or (not row.is_held and self._has_been_free(row.id))

    def _bury_member(self, connection: Connection, member: int) -> None:
        """End a member's connections, and remove it with its workers. The caller commits."""
        self._end_connections(connection, member)
        for name in ("member_dismiss", "member_remove"):
            connection.send(own_statements()[name], {"id": member})
        self._free_since.pop(member, None)

    def _note_gateways(self, gateways: list[ClusterGateway]) -> None:
        assert self._watcher is not None
        self.active = next((gateway for gateway in gateways if gateway.is_active), None)
        if gateways != self._noted_gateways:
            self._noted_gateways = gateways
            self._watcher.note_gateways(gateways)

    def _watch_clock(self) -> None:
        """Look at the clock beside `_keep_place`, which may wait for a server that does not answer."""
        while not self._left.wait(CHECK_S):
            if read_steady_clock() > self._renewed_at + TRUST_S:
                why = "its event loop hangs, so nothing was renewed" if self._hangs else "the database has not answered"
                self._report_loss(f"{why} for {TRUST_S:g} s")
                return

    def _report_loss(self, reason: str) -> None:
        if not self._left.is_set():
            self._left.set()
            assert self._watcher is not None
            self._watcher.note_loss(reason)

    def hand_over(self) -> None:
        """See `ClusterMember`."""
        self._hands_over = True
        holder, self.holder = self.holder, None  # before the row changes, which would otherwise look like a loss
        if holder is not None:
            holder.hand_over()

    def leave(self) -> None:
        """See `ClusterMember`."""
        self._disconnects = True
        self._left.set()
        if self._watcher is None:  # no thread keeps the place: it was not opened
            self.release()
            self._disconnect()
        with contextlib.suppress(ConnectionLost, ServerError):  # else the next gateway waits a moment longer
            if self.id:
                with contextlib.closing(Connection(self._url, _OPTIONS)) as connection:
                    for name in ("member_step_down", "member_dismiss", "member_remove"):
                        connection.send(own_statements()[name], {"id": self.id})
                    connection.end("COMMIT")

    # ------------------------------------------------------------ the connection

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._url, _OPTIONS)
            self._has_lock = False
            if self.id:
                self._take_lock(self._connection, self.id)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take_lock(self, connection: Connection, id: int) -> None:
        """Try to take the lock of the member with this id. The server may still keep it for the connection before."""
        ((is_taken,),) = connection.read(own_statements()["member_lock"], {"lock": MEMBER_LOCK, "id": id})
        self._has_lock = bool(is_taken)

    def _show_life(self, connection: Connection) -> None:
        """Renew the member's row, or join: the first time, and if it was away for so long that it was removed."""
        began = read_steady_clock()
        if not (self.id and self._write_renewal(connection)):
            self.id = self._join_cluster(connection)
        self._renewed_at = began

    def _write_renewal(self, connection: Connection) -> list[list[Any]]:
        agents = 0 if self._watcher is None else self._watcher.count_agents()
        renewal = {"id": self.id, "agents": agents, "lease": LEASE_S}
        return connection.read(own_statements()["member_renew"], renewal)

    def _join_cluster(self, connection: Connection) -> int:
        """Return the id under which this gateway has joined; 0, with `problem`, if another one is in its way.

        Gateways join one after the other, and each takes its lock before it is seen: two that start at once with one
        name would else overlook or remove each other.
        """
        connection.queue("BEGIN")
        connection.send(own_statements()["member_lock_joining"], {"lock": MEMBER_LOCK})
        if not has_tables(connection):
            if self.holder is None and is_database_held(connection):  # by one that is about to make them
                connection.end("ROLLBACK")
                return 0
            make_tables(connection)
        rows = list_members(connection)
        gone = [row for row in rows if self._is_gone(row)]
        for row in rows:
            if row not in gone and (conflict := self._find_conflict(row)) is not None:
                self.problem = conflict
                connection.end("ROLLBACK")
                return 0
        for row in gone:
            if row.gateway.name == self._identity.name and not row.gateway.is_active:  # it was this one: it was killed
                self._bury_member(connection, row.id)
        ((id,),) = connection.read(own_statements()["member_join"], {**vars(self._identity), "lease": LEASE_S})
        self._take_lock(connection, id)
        connection.end("COMMIT")
        return int(id)

    def _find_conflict(self, row: MemberRow) -> str | None:
        """Say why this gateway cannot join beside one that lives; None if it can."""
        name, host = row.gateway.name, row.gateway.host
        if row.is_held and not hmac.compare_digest(row.token, self._identity.token):
            return (
                f"the gateway {name} on {host} has another owner.token; copy the file from its data directory into "
                "this one, and restart"
            )
        if name != self._identity.name:
            return None
        if not row.is_held:
            return f"the gateway {name} on {host} was there a moment ago; if it does not come back, this one begins"
        return f"another gateway named {name} lives, on {host}; give each gateway of the cluster a name of its own"
