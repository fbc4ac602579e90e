"""Opens copies of an old ledger in processes that die in every state in which a kill can leave the files.

    python kill_worker.py LEDGER FOLDER

Each process is a fork: it upgrades its copy, and SIGKILL strikes before one of its statements. The last process has no
statement left and ends by itself. Writes [statements, [[copy, killed]]] to stdout, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from upgrade_desk import WAY

from semel.ledger.sqlite.store import Store

sys.path.insert(0, str(Path(__file__).parents[1] / "ledger"))
from statement_killer import kill_in_every_state


def upgrade(copy: Path) -> None:
    Store.open_sync(copy, migrations=WAY)


if __name__ == "__main__":
    print(json.dumps(kill_in_every_state(Path(sys.argv[1]), Path(sys.argv[2]), upgrade)))
