"""A session's own life, for faces: listed, renamed, put away, begun anew, deleted (docs/sessions.md)."""

from __future__ import annotations

import asyncio
from typing import Any

from semel.gateway.api.erasures import Erasures
from semel.gateway.errors import BadRequest
from semel.gateway.inbound.inbox import Inbox
from semel.gateway.ports import Heard
from semel.gateway.tools.jobs import Jobs
from semel.gateway.transactions import Record
from semel.ledger.transcript import views
from semel.ledger.turns import jobs as job_rows
from semel.ledger.turns import sessions as rows

Json = dict[str, Any]


class Sessions:
    """The part of the gateway's facade that is about sessions as such."""

    record: Record
    inbox: Inbox
    turns: Any
    erasures: Erasures
    schedules: Any
    jobs: Jobs
    _rests: set[asyncio.Task[None]]

    async def _id(self, session: str) -> int:
        raise NotImplementedError

    async def sessions(self, archived: bool = False, before: str | None = None, limit: int = 200) -> list[Json]:
        """Sessions, newest first: those in use, or those that were put away; `before`: those made before this one.

        Raises NoSuchSession.
        """
        edge = 1 << 62 if before is None else await self._id(before)
        return await self.record.read(views.sessions, edge, limit, archived)

    async def session(self, session: str) -> Json:
        """One session. Raises NoSuchSession."""
        return await self.record.read(views.session, await self._id(session))

    async def rename(self, session: str, title: str | None) -> None:
        """Give it a title; None or a blank one: the agent's. Raises NoSuchSession, BadRequest."""
        title = " ".join((title or "").split()) or None
        if title is not None and len(title) > rows.TITLE_MOST:
            raise BadRequest(f"title: at most {rows.TITLE_MOST} characters, this one has {len(title)}")
        await self.record.write(rows.rename, await self._id(session), title)

    async def archive(self, session: str, away: bool = True) -> None:
        """Put it away, or bring it back: it goes on as it was, and is listed only where archived ones are asked for."""
        await self.record.write(rows.archive, await self._id(session), away)

    async def new_chapter(self, session: str, by: str, key: str | None = None) -> Heard:
        """What `/new` does, from a face: an event like it, heard once by its key."""
        await self._id(session)
        return await self.inbox.hear(
            source=f"api:{session}", session=session, key=key, text="/new", sender=by, stable=("text", "sender")
        )

    async def delete(self, session: str) -> None:
        """Nobody sees it any more when this returns, nothing of it runs; its content goes in the background.

        Raises NoSuchSession. What was said in it and has not left yet still leaves (Law 7).
        """
        number = await self._id(session)
        if not await self.record.write(rows.delete, number):
            return
        self.schedules.changed()
        loop = asyncio.get_running_loop()
        ending = loop.create_task(self.turns.abandon(number, "its session was deleted"), name=f"delete {session}")
        rest = loop.create_task(self._rest(number, ending), name=f"erase {session}")
        self._rests.add(rest)
        rest.add_done_callback(self._rests.discard)
        await asyncio.shield(ending)

    async def _rest(self, session: int, ending: asyncio.Task[None]) -> None:
        """Its jobs end after its turn, and its content goes after both: what they still tell goes with it."""
        await asyncio.wait({ending})
        jobs = await self.record.read(job_rows.of_session, session)
        await asyncio.gather(*(self.jobs.end(job) for job in jobs), return_exceptions=True)
        self.erasures.add(session)
