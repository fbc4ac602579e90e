"""The servers of a cluster: one, or a primary and a synchronous standby that takes its place."""

from __future__ import annotations

import contextlib

from proof.postgres_server import PostgresServer


class Servers:
    """`primary`: the server that takes writes, another one after each `fail_over`.

    With a standby, a commit is acknowledged once it is on the standby's disk, too. After a failover, the new primary
    accepts alone until `add_standby` (as with Patroni's `synchronous_mode`, without `synchronous_mode_strict`).
    """

    def __init__(self, has_standby: bool) -> None:
        self.primary = PostgresServer()
        self.all = [self.primary]
        self._standby: PostgresServer | None = None
        if has_standby:
            self._standby = PostgresServer(primary=self.primary)
            self.all.append(self._standby)
            self.primary.wait_for_standby()

    def fail_over(self) -> None:
        """Kill the primary, and make the standby the primary."""
        assert self._standby is not None
        self.primary.kill()
        self._standby.promote()
        self.primary, self._standby = self._standby, self.primary

    def add_standby(self) -> None:
        """Throw the data of the killed server away, and make it the standby of the new primary."""
        assert self._standby is not None
        self._standby.follow(self.primary)
        self.primary.wait_for_standby()

    def stop(self) -> None:
        with contextlib.ExitStack() as stack:
            for server in self.all:
                stack.callback(server.stop)
