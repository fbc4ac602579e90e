"""One worker: `python -m proof.schedules.work FROM TO STEP FOLDER`, a JSON line for each seed; PYTHONHASHSEED is 0."""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

from proof.schedules.chance import settled
from proof.schedules.plan import make
from proof.schedules.run import Folder, Verdict, run

TWICE = 50  # one seed of so many is run twice: it must replay identically


def one(seed: int, folder: Folder) -> dict[str, Any]:
    """A seed's line: {"seed", "broken", "digest", "steps", "seconds", "counts"}."""
    verdict = run(make(seed), folder)
    if verdict.broken or seed % TWICE == 0:
        verdict.broken += _differs(verdict, run(make(seed), folder))
    return vars(verdict)


def _differs(first: Verdict, second: Verdict) -> list[str]:
    if first.digest == second.digest:
        return []
    return [f"it does not replay: {first.digest} after {first.steps} steps, {second.digest} after {second.steps}"]


def main() -> int:
    begin, end, step = map(int, sys.argv[1:4])
    if not settled():
        print("PYTHONHASHSEED is not 0: no seed would replay", file=sys.stderr)
        return 2
    gc.disable()
    gc.freeze()
    with Folder(sys.argv[4]) as folder:
        for seed in range(begin, end, step):
            print(json.dumps(one(seed, folder)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
