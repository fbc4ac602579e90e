"""Hints between the gateways that share a database: LISTEN, and pg_notify after the commit.

A transaction that sends a message waits at its commit for every other one that does, in all databases of the server:
with a slow disk, the ledger made a seventeenth of the commits. So no transaction of the ledger sends any. What was
committed is told to a thread, which sends it on a connection of its own: at most one message in 5 ms, in a transaction
that does not wait for the disk.

A hint is never the truth. One that is lost costs at most two seconds, because every gateway looks at the rows. So what
cannot be sent may be dropped: if too much waits, a single message says that everybody should look at everything. The
listening thread only passes hints on, and is never in a transaction: PostgreSQL keeps messages until the slowest
listener has read them.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from semel.ledger.postgres.statements import Statement
from semel.ledger.postgres.wire import Connection, ConnectionLost, ServerError
from semel.ledger.storage.cluster import Hint

CHANNEL = "semel_hints"
APPLICATION = "semel hints"  # the name of these connections (pg_stat_activity)
BATCH_S = 0.005  # seconds between two messages of a gateway
MAX_PAYLOAD_BYTES = 7_000  # of ids and names in a message, and one more of each; PostgreSQL's limit is 7,999 in all
MAX_WAITING = 2_000  # ids of sessions that wait to be told; with more, all gateways look at everything
RECONNECT_S = 0.2  # seconds between two attempts to connect
STOP_CHECK_S = 0.2  # seconds after which the listening thread sees that it should end
CLOSE_S = 0.9  # seconds that `close` waits for the threads
_SETTINGS = {
    "application_name": APPLICATION,
    "connect_timeout": 2,
    "tcp_user_timeout": 4000,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
}
"""A connection fails within 5 s if the server's machine is gone, also one that only listens."""
_SEND = Statement("hints_send", f"SELECT pg_notify('{CHANNEL}', :message)")
_log = logging.getLogger("semel.ledger")


class PostgresHints:
    """Implements `storage.cluster.ClusterHints`.

    `name`: this gateway's. `has_duties`: whether it has the duties; called on the listening thread.
    """

    def __init__(self, url: str, name: str, has_duties: Callable[[], bool]) -> None:
        self._url = url
        self._name = name
        self._has_duties = has_duties
        self._instance = secrets.token_hex(6)  # a gateway that starts again has the same name
        self._waiting = _Waiting()
        self._unsent: str | None = None  # a message that was taken from what waits
        self._sender_woken = threading.Event()  # something waits, or this is closed
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []

    def __repr__(self) -> str:
        return f"<PostgresHints {self._instance} of {self._name!r}, {self._waiting!r}>"

    def start(self, receive: Callable[[Hint], object]) -> None:
        """See `ClusterHints`."""
        for name, command, work in (
            ("hints sender", "SET synchronous_commit = off", self._send_messages),
            ("hints listener", f"LISTEN {CHANNEL}", partial(self._receive_hints, receive)),
        ):
            self._threads.append(
                threading.Thread(target=self._serve_connection, args=(command, work), name=name, daemon=True)
            )
            self._threads[-1].start()

    def tell_changed(self, sessions: Collection[int]) -> None:
        """See `ClusterHints`."""
        if sessions:
            self._waiting.add_changed(sessions)
            self._sender_woken.set()

    def wake_session(self, gateway: str | None, session: int) -> None:
        """See `ClusterHints`. A gateway that names itself is not told."""
        if gateway != self._name:
            self._waiting.add_woken(gateway, session)
            self._sender_woken.set()

    def tell_duties(self) -> None:
        """See `ClusterHints`."""
        self._waiting.add_duties()
        self._sender_woken.set()

    def close(self) -> None:
        """See `ClusterHints`."""
        self._closed.set()
        self._sender_woken.set()
        end = time.monotonic() + CLOSE_S
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _serve_connection(self, command: str, work: Callable[[Connection], None]) -> None:
        """Do a thread's work on a connection that begins with `command`, and on a new one if it is lost."""
        while not self._closed.is_set():
            try:
                connection = Connection(self._url, _SETTINGS)
                try:
                    connection.execute(command)
                    work(connection)
                finally:
                    connection.close()
            except (ConnectionLost, ServerError):
                self._closed.wait(RECONNECT_S)

    # ------------------------------------------------------------ sending

    def _send_messages(self, connection: Connection) -> None:
        """Send what is told, until this is closed and all is sent."""
        while True:
            self._unsent = self._unsent or self._wait_for_message()
            if self._unsent is None:
                return
            connection.read(_SEND, {"message": self._unsent})  # if it fails, it may have been sent, and is sent again
            self._unsent = None
            self._closed.wait(BATCH_S)

    def _wait_for_message(self) -> str | None:
        """Return the next message as soon as something is told; None if nothing is and this is closed."""
        while not (fields := self._waiting.take_fields()):
            if self._closed.is_set():
                return None
            self._sender_woken.wait()
            self._sender_woken.clear()
        return _dump({"from": self._instance, "name": self._name} | fields)

    # ------------------------------------------------------------ listening

    def _receive_hints(self, receive: Callable[[Hint], object], connection: Connection) -> None:
        """Pass the hints of other gateways on, until this is closed."""
        self._pass_on(receive, Hint(self._name, is_gap=True))
        while not self._closed.is_set():
            for message in connection.wait_for_messages(STOP_CHECK_S):
                self._pass_on(receive, self._read_hint(message))

    def _read_hint(self, message: str) -> Hint:
        """Return what a message means for this gateway. If it cannot be read (another version sent it): nothing."""
        names = {self._name, None} if self._has_duties() else {self._name}
        try:
            fields = json.loads(message)
            if fields["from"] == self._instance:
                return Hint(self._name)
            return Hint(
                sender=str(fields["name"]),
                changed=frozenset(map(int, fields.get("changed", ()))),
                woken=frozenset(int(id) for name, ids in fields.get("woken", ()) if name in names for id in ids),
                duties=bool(fields.get("duties")) and None in names,
                is_gap=bool(fields.get("gap")),
            )
        except Exception:
            return Hint(self._name)

    def _pass_on(self, receive: Callable[[Hint], object], hint: Hint) -> None:
        if self._closed.is_set() or not (hint.changed or hint.woken or hint.duties or hint.is_gap):
            return
        try:
            receive(hint)
        except Exception:  # a lost hint costs two seconds, a lost thread would cost them each time
            _log.exception("a hint of another gateway was lost")


class _Waiting:
    """What was told and is not sent yet: at most `MAX_WAITING` ids. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: set[int] = set()
        self._woken: set[tuple[str | None, int]] = set()  # the gateway that is woken, and a session
        self._flags: set[str] = set()  # "duties", "gap"

    def __repr__(self) -> str:
        return f"{len(self._changed)} changed and {len(self._woken)} woken wait"

    def add_changed(self, sessions: Collection[int]) -> None:
        with self._lock:
            self._changed.update(sessions)
            self._drop_if_too_many()

    def add_woken(self, gateway: str | None, session: int) -> None:
        with self._lock:
            self._woken.add((gateway, session))
            self._drop_if_too_many()

    def add_duties(self) -> None:
        with self._lock:
            self._flags.add("duties")

    def _drop_if_too_many(self) -> None:
        if "gap" in self._flags or len(self._changed) + len(self._woken) > MAX_WAITING:
            self._flags.add("gap")
            self._changed.clear()
            self._woken.clear()

    def take_fields(self) -> dict[str, Any]:
        """Remove and return as much as fits into a message, as its fields; empty if nothing waits."""
        with self._lock:
            fields: dict[str, Any] = {name: True for name in ("gap", "duties") if name in self._flags}
            self._flags.clear()
            free = MAX_PAYLOAD_BYTES
            woken: dict[str | None, list[int]] = {}
            while self._woken and free > 0:
                gateway, session = self._woken.pop()
                free -= len(str(session)) + 1 + (0 if gateway in woken else len(_dump(gateway)) + 5)
                woken.setdefault(gateway, []).append(session)
            changed: list[int] = []
            while self._changed and free > 0:
                changed.append(self._changed.pop())
                free -= len(str(changed[-1])) + 1
        return fields | ({"woken": list(woken.items())} if woken else {}) | ({"changed": changed} if changed else {})


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
