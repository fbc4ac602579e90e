"""Read the ledger itself where no gateway runs, for the commands that only read: sessions, show, search, export,
why, limits, outbox list and show, jobs list, schedules list and show, retention.

The ledger is opened read-only: it is neither migrated nor locked, so a gateway may start meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from semel.faces.cli.app import ask_gateway
from semel.faces.cli.printing import print_remark
from semel.faces.client import AsyncClient, GatewayNotTrusted, NoGateway, RequestRefused
from semel.faces.config import ConfigError, locate_to_read
from semel.ledger.storage.location import LedgerLocation, may_exist
from semel.text.json_types import Json
from semel.tools.address import was_killed

if TYPE_CHECKING:
    from semel.gateway.settings import GatewaySettings
    from semel.ledger.turns.limits import LimitPolicy

T = TypeVar("T")

ALL = 1 << 62  # a number of rows that no listing reaches


class OfflineLedger:
    """Answers like `AsyncClient`, from the ledger. Every method may raise RequestRefused or LedgerError."""

    def __init__(self, ledger: LedgerLocation, data_dir: Path):
        from semel.gateway.record import Hub, LedgerAccess
        from semel.ledger.engines import open_readonly

        self._ledger = ledger
        self._data_dir = data_dir
        self._store = open_readonly(ledger)
        self._record = LedgerAccess(self._store, Hub())

    def __repr__(self) -> str:
        return f"<OfflineLedger {self._ledger}>"

    def close(self) -> None:
        self._store.close()

    async def list_sessions(self, archived: bool = False) -> list[Json]:
        from semel.ledger.transcript import session_list

        return await self._record.read(session_list.list_sessions, ALL, ALL, archived)

    async def list_entries(self, session: str, after: int = 0) -> list[Json]:
        from semel.ledger.transcript import views

        entries, _ = await self._record.read(views.read_entries, await self._find_session(session), after, ALL)
        return sorted(entries, key=lambda entry: int(entry["born"]))

    async def read_removed(self, session: str) -> Json | None:
        """Return what retention removed of a session, as `GET /v1/sessions/{key}/entries` does."""
        from semel.ledger.transcript import views

        return await self._record.read(views.read_removed, await self._find_session(session))

    async def search_page(self, words: str, **filters: Any) -> Json:
        """Return a page of hits. The index beside the ledger may be behind, so a copy of it is brought up to date."""
        from semel.gateway.api.search import Search, index_path
        from semel.gateway.errors import BadRequest, GatewayUnavailable
        from semel.ledger.search.feed import read_index_name
        from semel.ledger.search.index import copy_index

        with tempfile.TemporaryDirectory(prefix="semel-search-") as folder:
            copy = Path(folder) / "index"
            name = await self._record.read(read_index_name)
            await asyncio.to_thread(copy_index, index_path(self._store.file, self._data_dir), copy, name)
            search = Search(self._record, copy, catch_up_timeout_s=None)
            indexing = asyncio.create_task(search.run())
            try:
                return await search.find(words, **{name: value for name, value in filters.items() if value is not None})
            except BadRequest as error:
                raise RequestRefused(400, "bad-field", str(error)) from None
            except GatewayUnavailable as error:  # the index needs some room in the temporary directory
                raise RequestRefused(503, "unavailable", str(error)) from None
            finally:
                indexing.cancel()
                await asyncio.gather(indexing, return_exceptions=True)
                await search.close()

    async def export(self, session: str, format: str = "jsonl") -> AsyncGenerator[bytes, None]:
        """Yield the session as a document, in pieces."""
        from semel.faces.documents import FORMATS
        from semel.ledger.admin import export

        document = FORMATS[format]()
        scope = await self._record.read(export.read_scope, await self._find_session(session))
        yield document.page([scope.header])
        read_entries = export.read_entries_with_items if document.shows_items else export.read_entries
        for read_page in (export.read_turns, read_entries, export.read_unsaid_claims):
            after: int | None = 0
            while after is not None:
                records, after = await self._record.read(read_page, scope, after)
                if records and (piece := document.page(records)):
                    yield piece
        yield document.end()

    async def why(self, ref: str) -> Json:
        from semel.ledger.admin import explain

        story = await self._record.read(explain.tell_story, ref)
        if story is None:
            raise RequestRefused(404, "not-found", await self._record.read(explain.describe_unknown, ref))
        return story

    async def list_parts(self, state: str | None, limit: int, before: int | None) -> list[Json]:
        """Return the newest parts, as `GET /v1/parts` does, which describes the parameters."""
        from semel.law.delivery import STATES
        from semel.ledger.delivery import parts

        if state is not None and state not in STATES:
            raise RequestRefused(400, "bad-field", f"state: {state!r} is not one of {', '.join(STATES)}")
        return await self._record.read(parts.list_newest, state, limit, before)

    async def read_part(self, id: int) -> Json:
        from semel.ledger.delivery import parts

        try:
            return await self._record.read(parts.get_json, id)
        except parts.NoSuchPart as error:
            raise RequestRefused(404, "not-found", str(error)) from None

    async def list_jobs(self, session: str | None) -> list[Json]:
        """Return the last jobs of a session, as `GET /v1/sessions/{key}/jobs` does; without one, all that are open."""
        from semel.ledger.turns import jobs

        number = None if session is None else await self._find_session(session)
        return await self._record.read(jobs.list_json, number)

    async def list_schedules(self, session: str | None) -> list[Json]:
        """Return all schedules, or those of a session, as `GET /v1/schedules` does."""
        from semel.ledger.inbound import schedules

        return await self._record.read(schedules.list_json, session)

    async def read_schedule(self, name: str) -> Json:
        """Return one schedule, as `GET /v1/schedules/{name}` does."""
        from semel.gateway.tools.schedules import describe_missing
        from semel.ledger.inbound import schedules

        schedule = await self._record.read(schedules.get_json, name)
        if schedule is None:
            raise RequestRefused(404, "not-found", describe_missing(name))
        return schedule

    async def limits(self, policy: LimitPolicy) -> Json:
        """Return what was used today, all on one page. `policy`: the configured limits, which the ledger lacks."""
        from semel.gateway.api.reads import read_limits
        from semel.gateway.clock import SystemClock

        page = await read_limits(self._record, policy, SystemClock().now(), ALL)
        waiting, lines = page.pop("waiting"), page.pop("limits")
        return {**page, "waiting": waiting, "limits": lines, "more": False}

    async def plan_retention(self, settings: GatewaySettings) -> list[Json]:
        """Return what the next run of retention would remove, as `GET /v1/retention` does."""
        from semel.gateway.api.retention import Retention
        from semel.gateway.clock import SystemClock

        return await Retention(self._record, settings, SystemClock(), lambda: None).plan()

    async def _find_session(self, key: str) -> int:
        from semel.gateway.errors import NoSuchSession

        try:
            return await self._record.find_session(key)
        except NoSuchSession as error:
            raise RequestRefused(404, "no-such-session", str(error)) from None


Reader = AsyncClient | OfflineLedger


def ask_or_read(config: Path | None, data_dir: Path | None, call: Callable[[Reader], Awaitable[T]]) -> T:
    """Return the result of `call`, run with a client of the gateway or, if none runs, with the ledger itself.

    Raises NoGateway if there is no ledger, either.
    """
    try:
        return ask_gateway(config, data_dir, call)
    except GatewayNotTrusted:
        raise
    except ConfigError:
        locate_to_read(config, data_dir)  # says what else could be read
        raise
    except NoGateway:
        data, ledger, mistake = locate_to_read(config, data_dir)
        if not may_exist(ledger):
            raise
        killed = ": the last one was killed, and the next one resumes or ends what ran" if was_killed(data) else ""
        if mistake:
            print_remark(f"{mistake}; the file is not used")
        print_remark(f"no gateway is running{killed}; read from {ledger}")
        return asyncio.run(read_ledger(ledger, data, call))


async def read_ledger(ledger: LedgerLocation, data_dir: Path, call: Callable[[OfflineLedger], Awaitable[T]]) -> T:
    """Return the result of `call`, run with the ledger itself. Raises LedgerError."""
    offline = await asyncio.to_thread(OfflineLedger, ledger, data_dir)
    with contextlib.closing(offline):
        return await call(offline)
