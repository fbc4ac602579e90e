"""List, rename, archive and delete sessions, and start new chapters (docs/sessions.md)."""

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
    """The part of the gateway's facade that manages sessions."""

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
        """Sessions, newest first: the active ones, or only the archived ones.

        `before`: the key of a session; only those created before it are listed. Raises NoSuchSession.
        """
        edge = 1 << 62 if before is None else await self._id(before)
        return await self.record.read(views.sessions, edge, limit, archived)

    async def session(self, session: str) -> Json:
        """One session. Raises NoSuchSession."""
        return await self.record.read(views.session, await self._id(session))

    async def rename(self, session: str, title: str | None) -> None:
        """Set the title; `None` or blank restores the agent's own. Raises NoSuchSession, BadRequest."""
        title = " ".join((title or "").split()) or None
        if title is not None and len(title) > rows.MAX_TITLE_CHARS:
            raise BadRequest(f"title: at most {rows.MAX_TITLE_CHARS} characters, this one has {len(title)}")
        await self.record.write(rows.rename, await self._id(session), title)

    async def archive(self, session: str, away: bool = True) -> None:
        """Archive a session or restore it (`away=False`). It keeps working; only lists of archived sessions show it."""
        await self.record.write(rows.archive, await self._id(session), away)

    async def new_chapter(self, session: str, by: str, key: str | None = None) -> Heard:
        """Start a new chapter, as `/new` does, through an event that is accepted once by its key."""
        await self._id(session)
        return await self.inbox.hear(
            source=f"api:{session}", session=session, key=key, text="/new", sender=by, stable=("text", "sender")
        )

    async def delete(self, session: str) -> None:
        """Delete a session. When this returns it is invisible and no turn runs in it; the content is erased later.

        Parts that were already said but not sent yet are still sent (Law 7). Raises NoSuchSession.
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
        """End the session's jobs after its turn, then erase its content, including their last reports."""
        await asyncio.wait({ending})
        jobs = await self.record.read(job_rows.of_session, session)
        await asyncio.gather(*(self.jobs.end(job) for job in jobs), return_exceptions=True)
        self.erasures.add(session)
