"""Protocols for everything that the HTTP face calls on the gateway. `semel.gateway.Gateway` implements them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from semel.gateway.api.search import Order
from semel.gateway.ports import Heard
from semel.law.busy import Busy
from semel.ledger.inbound.answers import OVER_THE_API, AnswerContext

Json = dict[str, Any]


class ScheduleFacade(Protocol):
    """Raises `semel.gateway.errors.NotFound`, `BadRequest` and `Conflict`."""

    async def list(self, session: str | None = None) -> list[Json]: ...

    async def show(self, name: str) -> Json: ...

    async def add(
        self,
        name: str,
        text: str,
        *,
        session: str | None = None,
        cron: str | None = None,
        at: str | None = None,
        every: str | None = None,
        tz: str = "UTC",
        downtime: str = "once",
        replace: bool = False,
    ) -> Json: ...

    async def remove(self, name: str) -> None: ...

    async def pause(self, name: str) -> Json: ...

    async def resume(self, name: str) -> Json: ...


class PeopleFacade(Protocol):
    """Raises `semel.gateway.errors.NotFound`, `BadRequest` and `Conflict`."""

    def everybody(self) -> list[Json]: ...

    def refused(self) -> Json: ...

    async def pairings(self) -> list[Json]: ...

    async def add(self, account: str, name: str | None = None, role: str | None = None) -> Json: ...

    async def remove(self, account: str) -> None: ...

    async def pair(self, channel: str, name: str | None = None, role: str | None = None) -> Json: ...


class GatewayFacade(Protocol):
    """Calls raise `semel.gateway.errors.NoSuchSession` for an unknown session, and `BadRequest` for wrong arguments."""

    @property
    def schedules(self) -> ScheduleFacade: ...

    @property
    def people(self) -> PeopleFacade: ...

    async def say(
        self,
        session: str,
        text: str,
        *,
        sender: str | None = None,
        key: str | None = None,
        source: str | None = None,
        busy: Busy | None = None,
        automatic: bool = False,
        seen: int | None = None,
    ) -> Heard: ...

    async def report(
        self,
        session: str,
        kind: str,
        text: str,
        *,
        key: str | None = None,
        data: Json | None = None,
        wakes: bool | None = None,
        source: str | None = None,
        scope: Sequence[str] | None = None,
    ) -> Heard:
        """Report an event. `scope`: patterns of the session keys that a node may report to; `None` for the owner."""

    async def sessions(self, archived: bool = False, before: str | None = None, limit: int = 200) -> list[Json]: ...

    async def session(self, session: str) -> Json: ...

    async def rename(self, session: str, title: str | None) -> None: ...

    async def archive(self, session: str, away: bool = True) -> None: ...

    async def delete(self, session: str) -> None: ...

    async def new_chapter(self, session: str, by: str, key: str | None = None) -> Heard: ...

    async def entries(self, session: str, after: int = 0, limit: int = 1000) -> tuple[list[Json], int]: ...

    def watch(self, session: str, after: int | None) -> AsyncIterator[Json]:
        """A snapshot if `after` is `None` or too old, then changes. Each message holds the rev it leads to."""

    async def history(self, session: str, before: int, limit: int) -> Json: ...

    async def output(self, session: str, item: int) -> str:
        """The whole output of a tool call."""

    async def stop_turn(self, session: str, by: str) -> bool: ...

    async def answer(
        self, session: str, item: int, option: str | None, by: str, *, given: AnswerContext = OVER_THE_API
    ) -> str: ...

    async def set_busy(self, session: str, mode: Busy | None) -> None: ...

    async def set_mode(self, session: str, mode: str) -> None: ...

    async def set_model(self, session: str, model: str) -> None: ...

    async def parts(self, state: str | None, limit: int, before: int | None) -> list[Json]: ...

    async def part(self, id: int) -> Json: ...

    async def resend(self, id: int) -> Json: ...

    async def arrived(self, id: int) -> Json: ...

    async def drop(self, id: int) -> Json: ...

    async def channel_list(self) -> list[Json]: ...

    async def quarantined(self, limit: int = 100, before: int | None = None) -> list[Json]: ...

    async def jobs_of(self, session: str | None = None) -> list[Json]: ...

    async def cancel_job(self, id: str, by: str) -> Json: ...

    async def search(
        self,
        text: str,
        *,
        session: str | None = None,
        role: str | None = None,
        since: int | None = None,
        until: int | None = None,
        order: Order = "newest",
        limit: int = 20,
        after: str | None = None,
    ) -> Json: ...

    def export(self, session: str) -> AsyncIterator[list[Json]]:
        """The records of an export (docs/export.md), in pages."""

    async def import_session(self, file: IO[bytes], key: str | None = None) -> Json: ...

    async def diff_agent(self, session: str) -> Json: ...

    async def why(self, ref: str) -> Json: ...

    async def doctor(self) -> Json: ...

    async def status(self) -> Json: ...

    async def metrics(self) -> dict[str, float]: ...

    async def hook(self, channel: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]: ...

    async def blob(self, id: str) -> tuple[Path, str, str]:
        """(path, name, MIME type) of a stored file."""
