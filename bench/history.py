"""What a prompt reads of the past, and what a page reads, in a session of 1,000 and of 100,000 entries (Law 11).

Also with 10,000 other sessions beside it. Both pasts are longer than what a prompt carries, so the same is told.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.scale import fill
from bench.turns import TEXT
from semel.agents.model import history
from semel.gateway.turns import prompt
from semel.law import memory_diff as law
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import views
from semel.ledger.turns import history as history_of

SHORT, LONG, CROWD = 1_000, 100_000, 10_000
ROUNDS = 41
ROOM = 100_000 * history.BYTES_PER_TOKEN * 3 // 4  # bytes of the past that a model is told, with the default `context`

Look = Callable[[Tx, int], Any]


def told_anew(tx: Tx, session: int) -> Any:
    """An ACP agent without memory: the chapter's newest stretch, as its prompt tells it."""
    return prompt.format_history(history_of.read_conversation(tx, session, 1, newest(tx, session)))


def told_always(tx: Tx, session: int) -> Any:
    """A model agent: its whole memory is what fits of the record, in messages."""
    return history.build_messages(history_of.read_past_turns(tx, session, ROOM), "You are an agent.")


def compared(tx: Tx, session: int) -> Any:
    """An agent that loaded a history of its own: the record is held against it. It remembers nothing here."""
    rows, whole = history_of.list_recorded(tx, session)
    return law.find_difference(rows, [], {}, is_whole_chapter=whole, quiet=())


def newest(tx: Tx, session: int) -> int:
    """The session's last turn."""
    row = tx.get(TurnRow, "turn_last", session=session)
    return int(row.id)


LOOKS: dict[str, Look] = {
    "ACP agent without memory": told_anew,
    "model agent": told_always,
    "agent with a memory of its own": compared,
    "page: a snapshot": views.read_snapshot,
    "page: what changed last": lambda tx, session: views.read_changes(tx, session, _rev(tx, session) - 5),
    "page: a stretch from the middle": lambda tx, session: views.read_history(tx, session, 500, 200),
}


def _rev(tx: Tx, session: int) -> int:
    row = tx.get(SessionRow, "session_by_id", id=session)
    return int(row.rev)


def took(store: Store, look: Look) -> float:
    """ms that one look takes."""
    begin = time.perf_counter()
    store.read_sync(look, 1)
    return (time.perf_counter() - begin) * 1000


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as root:
        few, many, crowd = (Path(root) / name for name in ("few.db", "many.db", "crowd.db"))
        fill(few, SHORT, 1, TEXT)
        fill(many, LONG, 1, TEXT)
        fill(crowd, SHORT, 1, TEXT)
        fill(crowd, CROWD * 10, CROWD)
        print(f"the median of {ROUNDS} looks in turn; beside {SHORT:,} entries of 1 KB, which are ms")
        print(f"{'':32}{'ms':>8}{f'{LONG:,} entries':>18}{f'{CROWD:,} sessions beside':>25}")
        with Store.open(few) as a, Store.open(many) as b, Store.open(crowd) as c:
            for name, look in LOOKS.items():
                rounds = [[took(store, look) for store in (a, b, c)] for _ in range(ROUNDS)]
                base = statistics.median(one[0] for one in rounds)
                long, beside = (statistics.median(one[n] / one[0] for one in rounds) for n in (1, 2))
                print(f"{name:32}{base:8.2f}{long:16.2f} x{beside:23.2f} x", flush=True)
