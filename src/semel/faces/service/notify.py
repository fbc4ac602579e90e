"""Tell systemd that the gateway is ready, alive and stopping (the protocol of sd_notify(3)).

The protocol is one datagram per message to the socket named by `$NOTIFY_SOCKET`: lines of `NAME=value`. Other service
managers set no such variable; then nothing is sent.

The watchdog is fed only by a task that runs on the event loop and gets an answer from the ledger's writing thread. If
either of them hangs, systemd ends the process and starts it again. A disk that refuses writes is no hang: a restart
would not help.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from typing import Self

from semel.ledger.storage.store import LedgerStore

STATUS_INTERVAL_S = 10.0  # how often the status line is renewed at least
STOP_MARGIN_S = 60.0  # how long a stop may take beyond the grace period of running turns

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")

_log = logging.getLogger("semel.service")


class ServiceManager:
    """The service manager that started this process, or nobody.

    `address`: where it listens; "" if there is none. `watchdog_s`: the longest silence that it allows; `None` if it
    does not watch. `environment`: the variables that say so.
    """

    def __init__(
        self, address: str = "", watchdog_s: float | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address  # an abstract socket
        self.watchdog_s = watchdog_s
        self.environment = environment or {}

    def __repr__(self) -> str:
        return f"<ServiceManager {self._address or 'none'!r}, watchdog {self.watchdog_s} s>"

    @classmethod
    def from_environment(cls, env: MutableMapping[str, str] = os.environ) -> Self:
        """Read the manager's variables, and remove them, so that agents do not speak in the gateway's name."""
        own = {name: env.pop(name) for name in VARIABLES if name in env}
        usec = own.get("WATCHDOG_USEC", "")
        is_watched = own.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        watchdog_s = int(usec) / 1e6 if is_watched and usec.isdecimal() and int(usec) else None
        return cls(own.get("NOTIFY_SOCKET", ""), watchdog_s, own)

    def notify(self, **fields: str) -> None:
        """Send one message. A manager that is gone is logged and otherwise ignored."""
        if not self._address:
            return
        message = "\n".join(f"{name}={value}" for name, value in fields.items())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto(message.encode(), self._address)
        except OSError as error:
            _log.warning("the service manager could not be told %s: %s", ", ".join(fields), error)

    def report_waiting(self, text: str) -> None:
        """Report that the gateway is started and alive, and waits to take over from another one."""
        self.notify(READY="1", STATUS=text, WATCHDOG="1")

    @contextlib.asynccontextmanager
    async def supervise(self, store: LedgerStore, describe: Callable[[], str], grace_s: float) -> AsyncIterator[None]:
        """Report that the gateway is ready; then, until the block ends, that it is alive; and then that it stops.

        `describe` returns the status line for the manager. `grace_s`: how long the stop may take for running turns; the
        manager is asked to wait so long.
        """
        self.notify(READY="1", STATUS=describe())
        reports = asyncio.create_task(self._report_status(store, describe)) if self._address else None
        try:
            yield
        finally:
            if reports is not None:
                reports.cancel()
            extension = str(round((grace_s + STOP_MARGIN_S) * 1e6))
            self.notify(STOPPING="1", STATUS="stopping", EXTEND_TIMEOUT_USEC=extension)

    async def _report_status(self, store: LedgerStore, describe: Callable[[], str]) -> None:
        interval = STATUS_INTERVAL_S if self.watchdog_s is None else min(STATUS_INTERVAL_S, self.watchdog_s / 3)
        while True:
            await asyncio.sleep(interval)
            await store.wait_for_writer()
            self.notify(WATCHDOG="1", STATUS=describe())
