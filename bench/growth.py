"""How a ledger grows: bytes for each message, turn and tool call, and what remains after they were aged out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from semel.ledger.admin import age_out
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.delivery.cutting import Leg
from semel.ledger.inbound import hear
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import PartRow
from semel.ledger.storage.sql import Tx
from semel.ledger.storage.store import now_ms
from semel.ledger.turns import finish_turn, show, turn_ops, turns
from semel.ledger.turns.limits import LimitPolicy, UsageReport

MANY = 2_000
MESSAGE, ANSWER = "What is on for today? " * 5, "Nothing that could not wait until tomorrow. " * 10  # 110 and 440 bytes
PAGE_BYTES = 4096
YEAR_MS = 365 * 86_400_000
POLICY = LimitPolicy()
Body = Callable[[Tx, int], None]


def hear_message(tx: Tx, n: int, *, session: str = "main:web:a", home: str = "web:a", wakes: bool = False) -> int:
    event = hear.Event(f"api:{session}", f"key-{n}", "message", MESSAGE, b"%016d" % n, sender="Ada", wakes=wakes)
    return hear.hear(tx, event, [hear.Addressee(session, "main", home)]).addressed[0].session


def run_turn(tx: Tx, n: int, *, home: str = "web:a", output: int = 0) -> None:
    """A message, the turn that answers it, and, if `output`, a tool call with so many bytes of output."""
    session = hear_message(tx, n, home=home, wakes=True)
    begun = turns.begin(tx, session, "bench", policy=POLICY)
    assert isinstance(begun, turns.BegunTurn)
    fence = turns.TurnFence(session, begun.turn, begun.epoch)
    caller = Caller(session, begun.key, begun.turn, begun.root)
    legs = () if home.startswith("web:") else (Leg(0, len(ANSWER), "chat", home, {"kind": "post", "text": ANSWER}),)
    ops: list[turn_ops.Op] = []
    if output:
        ops += [turn_ops.ItemOpen(1, "tool", f"t{n}", started=True), turn_ops.ItemGrow(1, output="x" * output)]
    ops.append(turn_ops.Block(2, (ClaimRequest("block", ANSWER, home, legs=legs),)))
    slots = show.show(tx, fence, caller, ops, turn_ops.Slots())
    usage = UsageReport(tokens=1000, policy=POLICY)
    finish_turn.finish(tx, fence, caller, [], slots, finish_turn.End("answered", "end_turn", usage=usage))
    for part in tx.all(PartRow, "parts_of_claim", claim=slots.claims[2]):
        tx.run("part_depart", id=part.id, state="sending", now=tx.now, marked=0)
        tx.run(
            "part_set", id=part.id, state="sent", due=tx.now, first=tx.now, attempts=1, receipt=f"receipt-{n}",
            error=None, marked=0, failed=None,
        )  # fmt: skip


def _page_turn(tx: Tx, n: int) -> None:
    run_turn(tx, n)


def _chat_turn(tx: Tx, n: int) -> None:
    run_turn(tx, n, home="chat:a")


def _tool_turn(tx: Tx, n: int) -> None:
    run_turn(tx, n, output=1_000)


def _long_tool_turn(tx: Tx, n: int) -> None:
    run_turn(tx, n, output=10_000)


def _message(tx: Tx, n: int) -> None:
    hear_message(tx, n)


CASES: tuple[tuple[str, int, Body], ...] = (
    ("a message that starts no turn", len(MESSAGE), _message),
    ("a message and its answer on the page", len(MESSAGE + ANSWER), _page_turn),
    ("the same, delivered to a chat", len(MESSAGE + ANSWER), _chat_turn),
    ("the same on the page, with 1 kB of tool output", len(MESSAGE + ANSWER) + 1_000, _tool_turn),
    ("the same on the page, with 10 kB of tool output", len(MESSAGE + ANSWER) + 10_000, _long_tool_turn),
)


def measure(body: Body, many: int = MANY) -> tuple[int, int, int]:
    """Return the bytes of the ledger for each call of `body`: full, after all was aged out, and after a VACUUM."""
    shift = [0]
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open_sync(Path(folder) / "ledger.db", clock=lambda: now_ms() + shift[0]) as store,
    ):
        empty = store.read_sync(_used_bytes)
        for start in range(0, many, 100):
            store.write_sync(_repeat, body, range(start, start + 100))
        full = store.read_sync(_used_bytes)
        store.write_sync(_bind_waiting)
        shift[0] = YEAR_MS
        while store.write_sync(age_out.age_step, 1, YEAR_MS // 2):
            pass
        left = store.read_sync(_used_bytes)
        assert store._committer is not None
        store._committer._db.execute("VACUUM")
        packed = store.read_sync(_used_bytes)
    return round((full - empty) / many), round((left - empty) / many), round((packed - empty) / many)


def _repeat(tx: Tx, body: Body, numbers: range) -> None:
    for n in numbers:
        body(tx, n)


def _bind_waiting(tx: Tx) -> None:
    """Let one more turn take what waits, so that nothing is needed any more."""
    if tx.number("session_waiting_count", id=1):
        run_turn(tx, MANY)


def _used_bytes(tx: Tx) -> int:
    """The bytes of the pages in use. Pages of removed content are free, and used again."""
    pages, free = (tx._cursor.execute(f"PRAGMA {name}").get for name in ("page_count", "freelist_count"))
    return PAGE_BYTES * (int(pages) - int(free))


def make_table(many: int = MANY) -> str:
    """Return the table of docs/retention.md."""
    lines = ["| | text | in the ledger | removed | removed, then `VACUUM` |", "|---|---|---|---|---|"]
    for name, text, body in CASES:
        full, left, packed = measure(body, many)
        lines.append(f"| {name} | {text:,} B | {full:,} B | {left:,} B | {packed:,} B |")
    return "\n".join(lines) + "\n"


def main() -> None:
    print(make_table(), end="")


if __name__ == "__main__":
    main()
