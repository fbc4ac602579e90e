"""Writes of a transaction that wait for others of their kind, and become one statement.

Transactions of one moment share one (`worker.py`). Some rows are kept here until a statement looks at their table, or
until the COMMIT: those that each of them writes many times, and those that all of them change. These are streamed text,
which is most of what a busy gateway writes; first attempts; and what people used. The amounts of a day are rows that
sessions share.
They are written last and in order, so that two transactions never wait for each other's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from semel.ledger.postgres.statements import Statement, own_statements, statements
from semel.ledger.postgres.wire import Connection

TABLES = {"piece_add": "piece", "entry_grew": "entry", "turn_own_root": "turn", "spent_add": "spent"}
"""The statements that wait, in the order in which they are written, with the table that each writes to."""


class GatheredWrites:
    """The parameters of the statements that wait, by name."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: dict[str, list[Mapping[str, Any]]] = {}

    def __repr__(self) -> str:
        return f"<GatheredWrites { ({name: len(rows) for name, rows in self._waiting.items()}) }>"

    def add(self, name: str, params: Mapping[str, Any]) -> None:
        """Let a statement of `TABLES` wait."""
        self._waiting.setdefault(name, []).append(params)

    def send(self, names: Collection[str] = TABLES) -> None:
        """Let the statements with these names travel with the next round trip."""
        for name in TABLES:
            if name in names:
                send_rows(self._connection, name, statements()[name], self._waiting.pop(name, ()))


def send_rows(connection: Connection, name: str, single: Statement, rows: Sequence[Mapping[str, Any]]) -> None:
    """Let a statement be run with each of the rows: `single`; or the one for many, which costs twice as much."""
    if len(rows) == 1:
        connection.send(single, rows[0])
    elif rows:
        many = own_statements()[f"{name}_many"]
        connection.send(many, {column: [row[column] for row in rows] for column in many.parameters})


def _list_looked_at(sql: bytes) -> frozenset[str]:
    tables = {table.decode() for table in re.findall(rb"\b(?:FROM|JOIN|UPDATE)\s+(\w+)", sql)}
    return frozenset(name for name, table in TABLES.items() if table in tables)


LOOKING = {name: waiting for name, statement in statements().items() if (waiting := _list_looked_at(statement.sql))}
"""The statements that look at the tables of others which wait, with the names of these."""
