"""Full-text search: an index file that follows the ledger in the background.

No message transaction writes to the index or waits for it. After each commit the hub reports the changed sessions; they
are indexed after a short pause, or at once if somebody searches. Changes that were committed while no gateway followed
are found at the start, by comparing the revs of index and ledger. The index only finds entries: the text of a hit
is read from the ledger.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import structlog

from semel.gateway.errors import BadRequest, Busy
from semel.gateway.transactions import Record
from semel.ledger.search import feed
from semel.ledger.search.index import Asked, Index, IndexFailed, IndexReset
from semel.ledger.search.words import BadQuery, read_query
from semel.ledger.storage.errors import LedgerError

log = structlog.get_logger("semel.search")

Json = dict[str, Any]
T = TypeVar("T")
Order = Literal["newest", "best"]

PAUSE = 0.5  # seconds from a change until it is indexed, unless somebody searches
PATIENCE = 2.0  # seconds that a search waits until all earlier commits are indexed
INDEX_RETRY_S = 5.0  # seconds until the next round after a failed one
MAX_REBUILDS = 3  # how often the index may be rebuilt within one round
ROLES = ("user", "agent", "event", "notice")


@dataclass(frozen=True)
class Filters:
    """Filters of a search: session key or pattern (`*`, `?`), role, times in ms (`since` <= at < `until`)."""

    session: str | None = None
    role: str | None = None
    since: int | None = None
    until: int | None = None


class Search:
    """The index of one ledger. `run` it as a task; `find` waits a bounded time for it to catch up."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.path = index_path(record.store.path)
        self._index: Index | None = None
        self._thread = ThreadPoolExecutor(1, "search-index")
        self._changed: set[int] = set()  # ids of sessions to index in the next round
        self._todo: set[int] = set()  # ids of sessions left in this round
        self._all = True  # the revs of all sessions have to be compared
        self._kick = asyncio.Event()
        self._hurry = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._busy = False
        self._closed = False
        record.hub.follow(self.note)
        self._kick.set()

    def __repr__(self) -> str:
        return f"<Search {self.path.name} {self.behind} sessions behind>"

    @property
    def behind(self) -> int:
        """The number of sessions whose changes are not indexed yet; at least 1 until the first comparison is over."""
        return len(self._changed) + len(self._todo) + (self._busy or self._all)

    def note(self, sessions: set[int]) -> None:
        """Note the sessions that a commit changed. Called after every commit, so it only updates a set."""
        self._changed |= sessions
        self._kick.set()

    async def run(self) -> None:
        """Follow the ledger until cancelled."""
        while True:
            await self._kick.wait()
            await self._pause(PAUSE)
            self._kick.clear()
            waiting, self._waiting = self._waiting, []
            fault = await self._round()
            for future in waiting:
                if not future.done():
                    future.set_exception(fault) if fault else future.set_result(None)
                    future.exception()  # mark it as retrieved: the waiter may be gone
            if fault is not None:
                self._kick.set()
                await self._pause(INDEX_RETRY_S)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        self._hurry.clear()

    async def _round(self) -> Exception | None:
        """Bring the index up to date. Returns the error that prevented it, if any."""
        self._busy = True
        try:
            await self._catch_up()
            return None
        except (IndexFailed, LedgerError) as fault:
            log.warning("the search index is behind", why=str(fault))
            return fault
        except Exception as fault:
            log.exception("the search index is behind")
            return IndexFailed(f"the search index cannot be filled ({fault!r}); the gateway's log holds the reason")
        finally:
            self._changed |= self._todo  # the rest goes into the next round
            self._todo = set()
            self._busy = False

    async def close(self) -> None:
        """Close the index and cancel waiting searches. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for future in self._waiting:
            future.cancel()
        if self._index is not None:
            await self._in_thread(self._index.close)
        self._thread.shutdown(wait=False)

    # ------------------------------------------------------------ filling

    async def _catch_up(self) -> None:
        if self._all:
            await self._compare()
        # Sessions that change meanwhile go into the next round, so that this one ends.
        self._todo, self._changed = self._changed, set()
        dropped, lost = False, 0
        while self._todo:
            session = self._todo.pop()
            try:
                dropped |= await self._follow(session)
            except IndexReset as anew:
                lost += 1
                if lost > MAX_REBUILDS:
                    self._all = True
                    raise IndexFailed(f"the search index is lost again and again ({anew})") from anew
                log.info("search index", what=str(anew))
                await self._compare()
                self._todo, self._changed = self._todo | self._changed, set()
            except BaseException:
                self._todo.add(session)
                raise
        if dropped:
            await self._on_index(lambda index: index.tidy())

    async def _compare(self) -> None:
        """Find the sessions whose rev in the index differs from the ledger's."""
        self._all = True
        known = await self._known()
        after = -1
        while page := await self.record.read(feed.revs, after):
            self._changed.update(session for session, rev in page if known.pop(session, -1) != rev)
            after = page[-1][0]
        self._changed.update(known)  # sessions that the ledger no longer has
        self._all = False

    async def _known(self) -> dict[int, int]:
        try:
            return await self._on_index(lambda index: index.revs())
        except IndexReset as anew:
            log.info("search index", what=str(anew))
            return {}

    async def _follow(self, session: int) -> bool:
        """Index the changes of one session. True if words of emptied entries were removed."""
        after = await self._on_index(lambda index: index.rev(session))
        dropped = False
        while True:
            page = await self.record.read(feed.page, session, after)
            if page is None:
                return await self._on_index(lambda index: index.forget(session)) or dropped
            if page.head < after:  # the ledger was restored from a backup older than the index
                await self._on_index(lambda index: index.forget(session))
                after = 0
                continue
            dropped |= await self._on_index(lambda index, page=page: index.take(session, page))  # type: ignore[misc]
            if not page.more:
                return bool(dropped)
            after = page.rev

    async def _on_index(self, act: Callable[[Index], T]) -> T:
        if self._index is None:
            self._index = Index(self.path, await self.record.read(feed.name))
        index = self._index
        return await self._in_thread(lambda: act(index))

    async def _in_thread(self, act: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, act)

    # ------------------------------------------------------------ finding

    async def find(
        self, text: str, where: Filters, *, order: Order = "newest", limit: int = 20, after: str | None = None
    ) -> Json:
        """{"hits", "next", "index": {"current", "behind"}}. Raises BadRequest, Busy, LedgerError."""
        asked = _read(text, where, order, limit, after)
        current = await self._current()
        found = await self._ask(replace(asked, limit=limit + 1))
        rows = found[:limit]
        hits = await self.record.read(feed.hits, [(r.session, r.seq) for r in rows], asked.query.terms)
        self._note_lost(rows, hits)
        out: Json = {"hits": [hit for hit in hits if hit is not None], "next": None}
        if len(found) > limit and rows:
            out["next"] = f"{asked.skip + limit}" if order == "best" else f"{rows[-1].at}.{rows[-1].id}"
        return {**out, "index": {"current": current, "behind": 0 if current else self.behind}}

    def _note_lost(self, rows: list[Any], hits: list[Json | None]) -> None:
        """Reindex the sessions of hits that the ledger does not have."""
        lost = {row.session for row, hit in zip(rows, hits, strict=True) if hit is None}
        if lost:
            self._changed |= lost
            self._kick.set()

    async def _ask(self, asked: Asked) -> list[Any]:
        try:
            return await self._on_index(lambda index: index.find(asked))
        except IndexReset:
            self._all = True
            self._kick.set()
            return []
        except IndexFailed as fault:
            raise Busy(str(fault)) from None

    async def _current(self) -> bool:
        """Wait a bounded time until all commits so far are indexed; return whether they are."""
        if self._closed:
            raise Busy("the gateway is stopping; try again after the start")
        if not self.behind:
            return True
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self._hurry.set()
        self._kick.set()
        try:
            async with asyncio.timeout(PATIENCE):
                await mine
            return True
        except TimeoutError:
            return False
        except IndexFailed as fault:
            raise Busy(str(fault)) from None


def index_path(ledger: Path) -> Path:
    """The index file: next to the ledger and named after it, so that both are moved together."""
    return ledger.with_name(f"{ledger.name}-search")


def _read(text: str, where: Filters, order: Order, limit: int, after: str | None) -> Asked:
    try:
        query = read_query(text)
    except BadQuery as nothing:
        raise BadRequest(f"q: {nothing}") from None
    if where.role is not None and where.role not in ROLES:
        raise BadRequest(f"role: {where.role!r} is not one of {', '.join(ROLES)}")
    if not 1 <= limit <= 100:
        raise BadRequest("limit: a page has 1 to 100 results")
    asked = Asked(query, order, where.session, where.role, where.since, where.until, limit)
    if after is None:
        return asked
    numbers = [int(part) if part.isascii() and part.isdigit() and len(part) < 19 else -1 for part in after.split(".")]
    if min(numbers) < 0 or len(numbers) != (1 if order == "best" else 2):
        raise BadRequest("after: give the `next` of the page before, with the same order")
    return replace(asked, skip=numbers[0]) if order == "best" else replace(asked, below=(numbers[0], numbers[1]))
