"""Begins and ends turns under a limit, in processes that die before a statement, the first, the second and so on.

    python kill_worker.py LEDGER FOLDER

Each process is a fork with a copy of the ledger. It hears a message, begins its turn and ends it with a report of
usage, and hears one more, which has to wait; SIGKILL strikes before its Nth statement, every fifth N. The last process
ends by itself. Writes [[copy, killed]] as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from semel.law.limits import Limits
from semel.ledger.delivery.claims import Caller
from semel.ledger.inbound import hear
from semel.ledger.sqlite.store import Store
from semel.ledger.turns import finish_turn, limits, turn_ops, turns

sys.path.insert(0, str(Path(__file__).parents[1] / "ledger"))
from statement_killer import kill_everywhere

POLICY = limits.LimitPolicy(person=Limits(turns=2, tokens=10))
SESSION = 1
STEP = 5


def hear_message(store: Store, key: str) -> None:
    sender = {"data": {"from": {"id": "1", "person": "bob"}}}
    event = hear.Event("channel:chat", key, "message", f"text {key}", key.encode(), more=sender)
    store.write_sync(hear.hear, event, [hear.Addressee("s", "main", "chat:1")])


def run_turn(store: Store, lease: str) -> None:
    """Begin a turn if one may begin, and end it."""
    begun = store.write_sync(turns.begin, SESSION, lease, policy=POLICY)
    if isinstance(begun, turns.BegunTurn):
        fence = turns.TurnFence(begun.session, begun.turn, begun.epoch)
        caller = Caller(begun.session, begun.key, begun.turn, begun.root, "start")
        end = finish_turn.End("answered", "end_turn", usage=limits.UsageReport(tokens=5, policy=POLICY))
        store.write_sync(finish_turn.finish, fence, caller, [], turn_ops.Slots(), end)


def go_on(store: Store, lease: str) -> None:
    """What a gateway does with three messages, of which two are within the limit. Every call may be repeated."""
    for key in ("a", "b", "c"):
        hear_message(store, key)
        run_turn(store, lease)


def go_on_killed(copy: Path) -> None:
    go_on(Store.open_sync(copy), "killed")


if __name__ == "__main__":
    print(json.dumps(kill_everywhere(Path(sys.argv[1]), Path(sys.argv[2]), go_on_killed, STEP)))
