"""The texts that grow in a transaction: written with one statement for each table, however many sessions stream.

Streaming is most of what a busy gateway writes: a piece of text and the rev of its entry, thirty times a second for
each session. Those of one moment share a transaction (`worker.py`), in which they wait here until a statement looks at
pieces or entries, or until the COMMIT.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from semel.ledger.postgres.statements import own_statements, statements
from semel.ledger.postgres.wire import Connection

_LOOKS = re.compile(rb"\b(?:FROM|JOIN|UPDATE)\s+(?:piece|entry)\b")
_PIECE = ("session", "rev", "entry", "item", "text")


class Growth:
    """The pieces of a transaction that are not sent yet, and the entries that they belong to."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pieces: list[Mapping[str, Any]] = []
        self._revs: dict[tuple[int, int], int] = {}  # the newest one, by session and seq

    def __repr__(self) -> str:
        return f"<Growth {len(self._pieces)} pieces, {len(self._revs)} entries>"

    def add(self, name: str, params: Mapping[str, Any]) -> None:
        """Keep what a statement of `GATHERED` writes."""
        if name == "piece_add":
            self._pieces.append(params)
        else:
            self._revs[params["session"], params["seq"]] = params["rev"]

    def send(self) -> None:
        """Let what is kept travel with the next round trip."""
        if self._pieces:
            columns = {column: [piece[column] for piece in self._pieces] for column in _PIECE}
            self._connection.send(own_statements()["pieces_add"], columns)
            self._pieces.clear()
        if self._revs:
            sessions, seqs = zip(*self._revs, strict=True)
            revs = list(self._revs.values())
            params = {"session": list(sessions), "seq": list(seqs), "rev": revs}
            self._connection.send(own_statements()["entries_grew"], params)
            self._revs.clear()


GATHERED = frozenset({"piece_add", "entry_grew"})
LOOKING = frozenset(name for name, statement in statements().items() if _LOOKS.search(statement.sql)) - GATHERED
"""The statements that look at pieces or entries."""
