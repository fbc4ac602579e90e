"""Ages out a session in processes that die before a statement: every 40th, then the next 40th and so on.

    python age_worker.py LEDGER FOLDER

Each process is a fork with a copy of the ledger. The last one ends by itself. Writes [[copy, killed]] as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from semel.ledger.admin import age_out
from semel.ledger.sqlite.store import Store, now_ms

sys.path.insert(0, str(Path(__file__).parents[1] / "ledger"))
from statement_killer import kill_everywhere

DAY_MS = 86_400_000
STATEMENTS_PER_STEP = 40


def later() -> int:
    return now_ms() + 100 * DAY_MS


def age(store: Store, session: int = 1) -> int:
    """Age out what is older than 90 days. Return the number of steps."""
    steps = 1
    while store.write_sync(age_out.age_step, session, 90 * DAY_MS):
        steps += 1
    return steps


def age_later(copy: Path) -> None:
    age(Store.open_sync(copy, clock=later))


if __name__ == "__main__":
    print(json.dumps(kill_everywhere(Path(sys.argv[1]), Path(sys.argv[2]), age_later, STATEMENTS_PER_STEP)))
