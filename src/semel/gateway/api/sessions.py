"""List, rename, archive and delete sessions, and start new chapters (docs/sessions.md)."""

from __future__ import annotations

import asyncio

from semel.gateway.api.composition import Components
from semel.gateway.errors import BadRequest
from semel.gateway.ports import Heard
from semel.ledger.transcript import views
from semel.ledger.turns import jobs as job_rows
from semel.ledger.turns import sessions as rows
from semel.text.json_types import Json


class SessionApi(Components):
    """The part of the gateway's API that manages sessions."""

    async def sessions(self, archived: bool = False, before: str | None = None, limit: int = 200) -> list[Json]:
        """Return a page of sessions, newest first: the active ones or, if `archived`, the archived ones.

        `before`: the key of a session; only sessions that were created before it are returned. Raises NoSuchSession.
        """
        edge = 1 << 62 if before is None else await self.record.find_session(before)
        return await self.record.read(views.list_sessions, edge, limit, archived)

    async def session(self, session: str) -> Json:
        """Return one session. Raises NoSuchSession."""
        return await self.record.read(views.read_session, await self.record.find_session(session))

    async def rename(self, session: str, title: str | None) -> None:
        """Set the session's title.

        None or a blank title lets the agent choose the title again. Raises NoSuchSession, BadRequest.
        """
        title = " ".join((title or "").split()) or None
        if title is not None and len(title) > rows.MAX_TITLE_CHARS:
            raise BadRequest(f"title: at most {rows.MAX_TITLE_CHARS} characters, this one has {len(title)}")
        await self.record.write(rows.rename, await self.record.find_session(session), title)

    async def archive(self, session: str, away: bool = True) -> None:
        """Archive a session, or restore it if `away` is false. Raises NoSuchSession.

        An archived session works as before, but only lists of archived sessions show it.
        """
        await self.record.write(rows.archive, await self.record.find_session(session), away)

    async def new_chapter(self, session: str, by: str, key: str | None = None) -> Heard:
        """Start a new chapter, as the command /new does.

        `by`: the sender. `key`: the idempotency key of the command's event.
        """
        await self.record.find_session(session)
        return await self.inbox.hear(
            source=f"api:{session}", session=session, key=key, text="/new", sender=by, stable=("text", "sender")
        )

    async def delete(self, session: str) -> None:
        """Delete a session. When this returns, the session is hidden and runs no turn; its content is erased later.

        Parts that were said but not yet sent are still sent (Law 7). Raises NoSuchSession.
        """
        number = await self.record.find_session(session)
        if not await self.record.write(rows.delete, number):
            return
        self.schedules.wake_timer()
        loop = asyncio.get_running_loop()
        ending = loop.create_task(self.turns.abandon(number, "its session was deleted"), name=f"delete {session}")
        deletion = loop.create_task(self._erase_after(ending, number), name=f"erase {session}")
        self._deletions.add(deletion)
        deletion.add_done_callback(self._deletions.discard)
        await asyncio.shield(ending)

    async def _erase_after(self, ending: asyncio.Task[None], session: int) -> None:
        """Wait until the session's turn has ended, end its jobs, then queue the session for erasure.

        The jobs' last reports are erased with it. `ending`: the task that ends the turn.
        """
        await asyncio.wait({ending})
        jobs = await self.record.read(job_rows.list_open_of_session, session)
        await asyncio.gather(*(self.jobs.end(job) for job in jobs), return_exceptions=True)
        self.erasures.add(session)
