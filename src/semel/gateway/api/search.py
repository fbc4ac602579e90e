"""Full-text search, in an index file that is updated from the ledger in the background.

No message transaction writes to the index or waits for it. After each commit, the hub reports the changed sessions.
They are indexed after a short pause, or at once if somebody searches. At the start, the revs of index and ledger are
compared, to find changes that the index missed. The index only finds entries: the text of a hit is read from the
ledger.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

import structlog

from semel.gateway.errors import BadRequest, GatewayUnavailable
from semel.gateway.record import LedgerAccess
from semel.ledger.search import feed
from semel.ledger.search.index import FoundEntry, Index, IndexFailed, IndexReset, SearchRequest
from semel.ledger.search.words import BadQuery, SearchQuery, read_query
from semel.ledger.storage.errors import LedgerError
from semel.text.json_types import Json

log = structlog.get_logger("semel.search")

T = TypeVar("T")
Order = Literal["newest", "best"]

INDEX_DELAY_S = 0.5  # seconds from a change until it is indexed, unless somebody searches
CATCH_UP_TIMEOUT_S = 2.0  # seconds that a search waits until all earlier commits are indexed
INDEX_RETRY_S = 5.0  # seconds until the next round after a failed one
MAX_REBUILDS = 3  # how often the index may be rebuilt within one round
ROLES = ("user", "agent", "event", "notice")


class Search:
    """The search index of a ledger. Run `run` as a task. `find` waits a bounded time until the index is up to date."""

    def __init__(self, record: LedgerAccess, path: Path, catch_up_timeout_s: float | None = CATCH_UP_TIMEOUT_S) -> None:
        """Prepare the index without opening it. `path`: its file.

        `catch_up_timeout_s`: how many seconds `find` waits until all earlier commits are indexed; None waits without
        limit.
        """
        self.record = record
        self.path = path
        self._catch_up_timeout_s = catch_up_timeout_s
        self._index: Index | None = None
        self._thread = ThreadPoolExecutor(1, "search-index")
        self._changed: set[int] = set()  # ids of sessions to index in the next round
        self._todo: set[int] = set()  # ids of sessions left in this round
        self._compare_all = True  # the revs of all sessions have to be compared
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
        """The number of sessions whose changes are not indexed yet.

        It is at least 1 until all sessions have been compared.
        """
        return len(self._changed) + len(self._todo) + (self._busy or self._compare_all)

    def note(self, sessions: set[int]) -> None:
        """Queue sessions that a commit changed. The hub calls this after every commit, so it must be quick."""
        self._changed |= sessions
        self._kick.set()

    async def run(self) -> None:
        """Keep the index up to date until cancelled."""
        while True:
            await self._kick.wait()
            await self._pause(INDEX_DELAY_S)
            self._kick.clear()
            waiting, self._waiting = self._waiting, []
            fault = await self._run_round()
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

    async def _run_round(self) -> Exception | None:
        """Bring the index up to date. Return the error that prevented this, or None."""
        self._busy = True
        try:
            await self._index_changed_sessions()
            return None
        except (IndexFailed, LedgerError) as error:
            log.warning("the search index is behind", why=str(error))
            return error
        except Exception as error:
            log.exception("the search index is behind")
            return IndexFailed(f"the search index cannot be filled ({error!r}); the gateway's log holds the reason")
        finally:
            self._changed |= self._todo  # the rest goes into the next round
            self._todo = set()
            self._busy = False

    async def close(self) -> None:
        """Close the index and cancel waiting searches. Closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        for future in self._waiting:
            future.cancel()
        if self._index is not None:
            await self._in_thread(self._index.close)
        self._thread.shutdown(wait=False)

    # ------------------------------------------------------------ filling

    async def _index_changed_sessions(self) -> None:
        if self._compare_all:
            await self._compare()
        # Sessions that change from now on go into the next round, so that this one ends.
        self._todo, self._changed = self._changed, set()
        dropped, resets = False, 0
        while self._todo:
            session = self._todo.pop()
            try:
                dropped |= await self._index_changes(session)
            except IndexReset as error:
                resets += 1
                if resets > MAX_REBUILDS:
                    self._compare_all = True
                    raise IndexFailed(f"the search index was lost several times in a row ({error})") from error
                _log_reset(error)
                await self._compare()
                self._todo, self._changed = self._todo | self._changed, set()
            except BaseException:
                self._todo.add(session)
                raise
        if dropped:
            await self._on_index(lambda index: index.purge_removed())

    async def _compare(self) -> None:
        """Queue all sessions whose rev in the index differs from the rev in the ledger."""
        self._compare_all = True
        indexed_revs = await self._indexed_revs()
        after = -1
        while page := await self.record.read(feed.read_revs, after):
            self._changed.update(session for session, rev in page if indexed_revs.pop(session, -1) != rev)
            after = page[-1][0]
        self._changed.update(indexed_revs)  # sessions that the ledger no longer has
        self._compare_all = False

    async def _indexed_revs(self) -> dict[int, int]:
        try:
            return await self._on_index(lambda index: index.revs())
        except IndexReset as error:
            _log_reset(error)
            return {}

    async def _index_changes(self, session: int) -> bool:
        """Index the changes of one session. Return whether the words of deleted entries were removed from the index."""
        after = await self._on_index(lambda index: index.rev(session))
        dropped = False
        while True:
            page = await self.record.read(feed.read_page, session, after)
            if page is None:
                return await self._on_index(lambda index: index.remove_session(session)) or dropped
            if page.head < after:  # the ledger was restored from a backup older than the index
                await self._on_index(lambda index: index.remove_session(session))
                after = 0
                continue
            dropped |= await self._on_index(lambda index, page=page: index.index_page(session, page))  # type: ignore[misc]
            if not page.more:
                return bool(dropped)
            after = page.rev

    async def _on_index(self, act: Callable[[Index], T]) -> T:
        if self._index is None:
            self._index = Index(self.path, await self.record.read(feed.read_index_name))
        index = self._index
        return await self._in_thread(lambda: act(index))

    async def _in_thread(self, act: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, act)

    # ------------------------------------------------------------ finding

    async def find(
        self, text: str, *, session: str | None = None, role: str | None = None, since: int | None = None,
        until: int | None = None, order: Order = "newest", limit: int = 20, after: str | None = None,
    ) -> Json:  # fmt: skip
        """Return a page of hits: {"hits", "more", "next", "index": {"current", "behind"}}.

        `session`: only sessions whose key equals or matches this pattern (`*`, `?`). `role`: only entries of this role.
        `since`, `until`: only entries with `since` <= time < `until` (ms). `after`: the "next" of the previous page.
        Raises BadRequest, GatewayUnavailable, LedgerError.
        """
        request = _apply_cursor(SearchRequest(_parse_query(text), order, session, role, since, until, limit), after)
        current = await self._wait_until_current()
        found_rows = await self._query(replace(request, limit=limit + 1))
        rows = found_rows[:limit]
        hits = await self.record.read(feed.render_hits, [(r.session, r.seq) for r in rows], request.query.terms)
        if missing := {row.session for row, hit in zip(rows, hits, strict=True) if hit is None}:
            self.note(missing)  # the ledger does not have them: index these sessions again
        more = len(found_rows) > limit and bool(rows)
        out: Json = {"hits": [hit for hit in hits if hit is not None], "more": more, "next": None}
        if more:
            out["next"] = f"{request.skip + limit}" if order == "best" else f"{rows[-1].at}.{rows[-1].id}"
        return {**out, "index": {"current": current, "behind": 0 if current else self.behind}}

    async def _query(self, request: SearchRequest) -> list[FoundEntry]:
        try:
            return await self._on_index(lambda index: index.find(request))
        except IndexReset:
            self._compare_all = True
            self._kick.set()
            return []
        except IndexFailed as error:
            raise GatewayUnavailable(str(error)) from None

    async def _wait_until_current(self) -> bool:
        """Wait a bounded time until all commits so far are indexed. Return whether they are.

        Raises GatewayUnavailable.
        """
        if self._closed:
            raise GatewayUnavailable("the gateway is stopping; try again after the start")
        if not self.behind:
            return True
        caught_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(caught_up)
        self._hurry.set()
        self._kick.set()
        try:
            async with asyncio.timeout(self._catch_up_timeout_s):
                await caught_up
            return True
        except TimeoutError:
            return False
        except IndexFailed as error:
            raise GatewayUnavailable(str(error)) from None


def index_path(ledger: Path | None, data_dir: Path) -> Path:
    """Return the path of the index file.

    It is named after the ledger's file and lies beside it, so both are moved together. The index of a ledger in a
    database (`ledger` is None) lies in the data directory.
    """
    return data_dir / "ledger-search" if ledger is None else ledger.with_name(f"{ledger.name}-search")


def _parse_query(text: str) -> SearchQuery:
    try:
        return read_query(text)
    except BadQuery as error:
        raise BadRequest(f"q: {error}") from None


def _apply_cursor(request: SearchRequest, after: str | None) -> SearchRequest:
    """Check a search request, and return it for the page after the cursor `after` (None: the first page).

    Raises BadRequest.
    """
    if request.role is not None and request.role not in ROLES:
        raise BadRequest(f"role: {request.role!r} is not one of {', '.join(ROLES)}")
    if not 1 <= request.limit <= 100:
        raise BadRequest("limit: a page has 1 to 100 results")
    if after is None:
        return request
    numbers = [int(part) if part.isascii() and part.isdigit() and len(part) < 19 else -1 for part in after.split(".")]
    if min(numbers) < 0 or len(numbers) != (1 if request.order == "best" else 2):
        raise BadRequest("after: give the `next` of the page before, with the same order")
    if request.order == "best":
        return replace(request, skip=numbers[0])
    return replace(request, below=(numbers[0], numbers[1]))


def _log_reset(error: IndexReset) -> None:
    """Log that the index must be filled again: as a warning if its file was damaged."""
    log.log(error.level, "search index", what=str(error))
