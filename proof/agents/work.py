"""One worker: `python -m proof.agents.work FROM TO STEP FOLDER EACH`: behaviours by their numbers, a JSON line a case.

EACH: of the cases with a death, a stop or a message, one of so many is run. PYTHONHASHSEED is 0.
"""

from __future__ import annotations

import gc
import json
import sys

from proof.agents.cases import Case, cases_of, run_case
from proof.agents.measured import BEHAVIOURS
from proof.schedules.chance import settled
from proof.schedules.run import Folder


def line_of(case: Case, folder: Folder) -> dict[str, object]:
    """{"case", "options", "broken", "steps", "seconds", "counts"}."""
    verdict = run_case(case, folder)
    return {"case": str(case), "options": case.options, **vars(verdict)}


def main() -> int:
    begin, end, step = map(int, sys.argv[1:4])
    each = int(sys.argv[5])
    if not settled():
        print("PYTHONHASHSEED is not 0: nothing would replay", file=sys.stderr)
        return 2
    gc.disable()
    gc.freeze()
    names = list(BEHAVIOURS)
    with Folder(sys.argv[4]) as folder:
        for number in range(begin, end, step):
            alone, *others = cases_of(names[number], number)
            told = line_of(alone, folder)
            print(json.dumps(told), flush=True)
            updates = dict(told["counts"])["told"]  # type: ignore[call-overload]
            reached = [case for case in others if case.n <= updates]
            for case in reached[number % each :: each]:
                print(json.dumps(line_of(case, folder)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
