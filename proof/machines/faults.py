"""Faults of a PostgreSQL server at the moment of COMMIT, for the rule machines.

`refused`: each transaction is undone at its first COMMIT, and runs again: a function changes nothing but the ledger.
`lost before`, `lost after`: at each transaction's first COMMIT the connection is cut, before it happened or after; the
worker finds out which, and the answer is the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal

Fault = Literal["refused", "lost before", "lost after"]
FAULTS: tuple[Fault, ...] = ("refused", "lost before", "lost after")


@contextlib.contextmanager
def faulty_commits(fault: Fault) -> Iterator[list[int]]:
    """Let each first COMMIT fail so. The list holds how many did."""
    from semel.ledger.postgres.held_sessions import HeldSessions
    from semel.ledger.postgres.wire import Connection, ConnectionLost, ServerError
    from semel.ledger.postgres.worker import Worker

    commit, end, failed, fails_next = Worker._commit, Connection.end, [0], [True]

    def commit_with_fault(self: Worker, connection: Connection, held: HeldSessions) -> None:
        Connection.end = end_with_fault if fails_next[0] else end  # type: ignore[method-assign]
        fails_next[0] = not fails_next[0]
        try:
            commit(self, connection, held)
        finally:
            Connection.end = end  # type: ignore[method-assign]

    def end_with_fault(self: Connection, command: str) -> None:
        Connection.end = end  # type: ignore[method-assign]
        failed[0] += 1
        if fault == "refused":
            end(self, "ROLLBACK")
            raise ServerError("40001", "could not serialize access")
        if fault == "lost after":
            end(self, command)
            fails_next[0] = True  # it is not tried again
        self.close()
        raise ConnectionLost("the connection was cut")

    Worker._commit = commit_with_fault  # type: ignore[method-assign]
    try:
        yield failed
    finally:
        Worker._commit = commit  # type: ignore[method-assign]
