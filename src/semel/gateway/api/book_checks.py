"""Check the books in the background: once a day, and after a start that follows a kill or a power failure.

Each book is read in a transaction of its own, and the check then pauses for as long as that book took. So the check
uses one of the ledger's readers for at most half of the time, and no long transaction stops the writer from moving its
log into the database file. The check never uses the writer, unless it has to tell the owners about a broken law.

The result of the last check is in a file in the data directory. It is not in the ledger, because it is no event, and
because it must be readable without a gateway. The file also keeps the size of the data at the checks of the last days,
from which the growth per day is computed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from semel.gateway.clock import Clock
from semel.gateway.disk_use import measure_store
from semel.gateway.record import LedgerAccess
from semel.ledger.admin import books
from semel.ledger.delivery.owner_notice import notify_owners
from semel.ledger.storage.atomic_files import write_atomically
from semel.ledger.storage.errors import LedgerError
from semel.text.json_types import Json

log = structlog.get_logger("semel.books")

FILE = "last-books.json"
INTERVAL_MS = 86_400_000
START_DELAY_S = 30.0
"""How long a start leaves the ledger to the turns that it resumes."""
RETRY_DELAY_S = 600.0
MIN_PAUSE_S = 0.05
"""The shortest pause between two books."""
NOTICE_KIND = "books.broken"


SIZE_INTERVAL_MS = INTERVAL_MS // 2
"""The least time between two sizes that are kept, and the least over which a growth is computed."""
KEPT_SIZES = 8


@dataclass(frozen=True)
class LastCheck:
    """The result of a check. `at`: when it began (ms). `seconds`: how long it took.

    `laws`, `entries`: how many laws were checked, over how many entries. `broken`: the names of the broken laws.
    `sizes`: (when, in ms; bytes of ledger and stored files) at this check and earlier ones, the oldest first.
    """

    at: int
    seconds: float
    laws: int
    entries: int
    broken: tuple[str, ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()

    def json(self) -> Json:
        """Return the result, without the sizes."""
        return {name: value for name, value in asdict(self).items() if name != "sizes"}

    def measure_growth(self, now: int, size: int) -> int | None:
        """Return by how many bytes a day the data grew up to `now` (ms), when they have `size` bytes.

        Returns `None` if the oldest size is too young to tell.
        """
        if not self.sizes or now - self.sizes[0][0] < SIZE_INTERVAL_MS:
            return None
        at, before = self.sizes[0]
        return round((size - before) * INTERVAL_MS / (now - at))


def add_size(sizes: Sequence[tuple[int, int]], at: int, size: int) -> tuple[tuple[int, int], ...]:
    """Add a size, measured at `at` (ms), and return the newest KEPT_SIZES.

    If the last size is younger than SIZE_INTERVAL_MS, nothing is added.
    """
    if sizes and at - sizes[-1][0] < SIZE_INTERVAL_MS:
        return tuple(sizes)
    return (*sizes, (at, size))[-KEPT_SIZES:]


class BookChecks:
    """Check the books in the background. `after_crash`: the last gateway did not close the ledger, so check soon."""

    def __init__(
        self, record: LedgerAccess, data_dir: Path, clock: Clock, kick: Callable[[], None], *, after_crash: bool
    ) -> None:
        self.record = record
        self.data_dir = data_dir
        self.clock = clock
        self.kick = kick
        self.after_crash = after_crash

    def __repr__(self) -> str:
        return f"<BookChecks {read_last_check(self.data_dir)}>"

    async def run(self) -> None:
        """Check the books whenever a check is due, until cancelled."""
        await self.clock.sleep(START_DELAY_S)
        while True:
            last = read_last_check(self.data_dir)
            if last is not None and not self.after_crash:
                await self.clock.sleep_until(min(last.at, self.clock.now()) + INTERVAL_MS)
            try:
                await self.check()
                self.after_crash = False
            except (LedgerError, OSError) as error:
                log.warning("the books are checked later", why=str(error))
                await self.clock.sleep(RETRY_DELAY_S)

    async def check(self) -> LastCheck:
        """Check all books, store and log the result, and tell the owners about laws that are newly broken.

        Return the result. Raises LedgerError or OSError.
        """
        now = asyncio.get_running_loop().time
        at, begun, broken = self.clock.now(), now(), []
        for name in books.LAWS:
            book_begun = now()
            book = await self.record.read(books.run_book, name)
            if not book.ok:
                broken.append(book.name)
                log.error("a law is broken", book=book.name, law=book.law, rows=len(book.broken))
            await asyncio.sleep(max(MIN_PAUSE_S, now() - book_begun))
        entries = (await self.record.read(books.count_rows))["entries"]
        last_check = read_last_check(self.data_dir)
        disk = await asyncio.to_thread(measure_store, self.record.store, self.data_dir)
        sizes = add_size(last_check.sizes if last_check is not None else (), at, disk.ledger + disk.files)
        check = LastCheck(at, round(now() - begun, 1), len(books.LAWS), entries, tuple(broken), sizes)
        if new := sorted(set(broken) - set(last_check.broken if last_check is not None else ())):
            await self._notify_owners(new)
        await asyncio.to_thread(write_atomically, self.data_dir / FILE, json.dumps(asdict(check)) + "\n")
        if not broken:
            log.info("the books hold", laws=check.laws, entries=entries, seconds=check.seconds)
        return check

    async def _notify_owners(self, broken: list[str]) -> None:
        laws = "a law" if len(broken) == 1 else f"{len(broken)} laws"
        text = (
            f"The books of this gateway found {laws} broken: {', '.join(broken)}. "
            "`semel doctor --laws` lists the rows. Keep a copy of the data directory, and report this."
        )
        sessions = await self.record.write(notify_owners, text, NOTICE_KIND)
        self.kick()
        log.info("the owners were told of the broken laws", sessions=sessions)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the last check; {} if there was none yet."""
        last = read_last_check(self.data_dir)
        if last is None:
            return {}
        return {"semel_books_broken": float(len(last.broken)), "semel_books_checked_timestamp_seconds": last.at / 1000}


def read_last_check(data_dir: Path) -> LastCheck | None:
    """Return the result of the last check in this data directory; None if there is none."""
    try:
        values = json.loads((data_dir / FILE).read_text("utf-8"))
        sizes = tuple((int(at), int(size)) for at, size in values.get("sizes", ()))
        return LastCheck(**{**values, "broken": tuple(values["broken"]), "sizes": sizes})
    except (OSError, ValueError, LookupError, TypeError):
        return None
