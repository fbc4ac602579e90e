"""The database server's clock, so that gateways on machines with different clocks record one time.

The clock of one machine may be an hour fast. Without this clock, a due time that its gateway has recorded would lie in
the future of the gateway that takes over. The server is asked once in a while. In between, this counts by a clock that
nobody sets.
"""

from __future__ import annotations

import time

from semel.ledger.postgres.wire import Connection

MAX_AGE_S = 60.0  # seconds after which the server is asked again: quartz clocks drift by milliseconds in that time
_READ = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"


class ServerClock:
    """Called, it returns the server's time in milliseconds since the Unix epoch. Any thread may call it."""

    def __init__(self, connection: Connection) -> None:
        self._read = (0, 0.0)  # the server's time, and ours when it was read
        self.synchronize(connection)

    def __call__(self) -> int:
        at, read = self._read
        return at + round((read_steady_clock() - read) * 1000)

    @property
    def is_old(self) -> bool:
        """Whether the server should be asked again."""
        return read_steady_clock() - self._read[1] > MAX_AGE_S

    def synchronize(self, connection: Connection) -> None:
        """Ask the server for its time. No transaction runs on the connection."""
        began = read_steady_clock()
        ((at,),) = connection.execute(_READ)
        self._read = int(at), (began + read_steady_clock()) / 2


def read_steady_clock() -> float:
    """Return the time in seconds on a clock that nobody sets, and that also runs while the machine sleeps, if any."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
