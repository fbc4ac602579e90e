"""How long it takes from the command to accepting."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.house import House

RUNS = 7


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="semel-bench-") as root:
        one = House(Path(root))
        times = []
        for _ in range(RUNS):
            one.up()
            times.append(one.took)
            one.down()
    first, rest = times[0], sorted(times[1:])
    print(f"{'first start (the ledger is made)':46} {first:6.2f} s")
    print(f"{'start':46} {rest[len(rest) // 2]:6.2f} s median, {rest[0]:.2f}-{rest[-1]:.2f} s")
