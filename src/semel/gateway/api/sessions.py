"""List, rename, archive and delete sessions, and start new chapters (docs/sessions.md)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from semel.gateway import workspace_search
from semel.gateway.api.composition import Components
from semel.gateway.errors import BadRequest, Conflict, NoSuchSession
from semel.gateway.mcp_servers import check_servers
from semel.gateway.ports import Heard
from semel.law import commands, identity
from semel.ledger.inbound import hear
from semel.ledger.storage.rows import SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import session_list, views
from semel.ledger.transcript.entries import load
from semel.ledger.turns import jobs as job_rows
from semel.ledger.turns import sessions as rows
from semel.text.json_types import Json


class SessionApi(Components):
    """The part of the gateway's API that manages sessions."""

    async def sessions(
        self, archived: bool = False, before: str | None = None, limit: int = 200, folder: str | None = None
    ) -> list[Json]:
        """Return a page of sessions, newest first: the active ones or, if `archived`, the archived ones.

        `before`: the key of a session; only sessions that were created before it are returned. `folder`: only the
        sessions whose agent works in this folder. Raises NoSuchSession.
        """
        edge = 1 << 62 if before is None else await self.record.find_session(before)
        if folder is None:
            rows = await self.record.read(session_list.list_sessions, edge, limit, archived)
        else:
            place = os.path.normpath(folder)
            agents = [name for name, agent in self.settings.agents.items() if str(agent.cwd) == place]
            rows = await self.record.read(session_list.list_sessions_of_folder, place, agents, edge, limit, archived)
        return [self.add_workspace(row) for row in rows]

    def add_workspace(self, session: Json) -> Json:
        """Return a session with the folder in which its agent works, unless the agent is not configured any more."""
        agent = self.settings.agents.get(session["agent"])
        folder = session.get("folder") or (str(agent.cwd) if agent is not None else None)
        return session if folder is None else {**session, "workspace": folder}

    async def find_files(self, session: str, part: str, limit: int = 20) -> list[str]:
        """Return the paths of files in the session's workspace that contain `part`, best first (`workspace_search`).

        A session whose agent is not configured any more has none. Raises NoSuchSession.
        """
        folder = (await self.session(session)).get("workspace")
        if folder is None:
            return []
        return await asyncio.to_thread(workspace_search.find_files, Path(folder), part, limit)

    async def make_session(
        self, session: str, agent: str | None = None, folder: str | None = None
    ) -> tuple[Json, bool]:
        """Make a session before anybody speaks in it. Return it, and whether it is new.

        `agent`: the name of its agent; None takes the one that the key names. `folder`: the absolute path of the folder
        in which the agent works; None takes the agent's own. Asking again changes nothing. Raises BadRequest, Conflict
        if the session exists with another agent or folder, GatewayUnavailable.
        """
        self._check_running()
        try:
            target = self.inbox.make_addressee(identity.check_session_key(session))
        except ValueError as error:
            raise BadRequest(str(error)) from None
        if agent is not None and agent not in self.settings.agents:
            raise BadRequest(f"agent: no agent is named {agent!r}; there are: {', '.join(self.settings.agents)}")
        place = None if folder is None else await asyncio.to_thread(_check_folder, folder)
        try:
            number, is_new = await self.record.write(hear.make_session, target, agent, place, self.spawns.seat_rule)
        except hear.SessionDiffers as error:
            raise Conflict(str(error)) from None
        return self.add_workspace(await self.record.read(session_list.read_session, number)), is_new

    async def start_agent(
        self, session: str, agent: str | None = None, folder: str | None = None, *, awaits_commands: bool = True
    ) -> Json:
        """Start the session's agent without a turn, and return the session with what the agent offers.

        `left_out_servers` of the answer: the names of the MCP servers of a client that the agent does not take.

        A missing session is made first; `agent` and `folder` are those of `make_session`. `awaits_commands`: wait a
        moment for a new agent to list its commands, which come in the stream otherwise. Raises AgentError if the agent
        does not start, and the errors of `make_session`.
        """
        await self.make_session(session, agent, folder)
        await self.controls.start_agent(session, awaits_commands=awaits_commands)
        live = self.spawns.live.get(await self.record.find_session(session))
        left_out = list(live.conversation.left_out_servers) if live is not None else []
        return {**await self.session(session), **({"left_out_servers": left_out} if left_out else {})}

    async def find_or_add_agent(
        self, command: Sequence[str], path: str | None, folder: str | None = None
    ) -> tuple[str, bool]:
        """Return the name of the agent with this command, and whether it is new: then it is kept for the next gateway.

        `path`: the PATH on which a new agent's program is looked up; None: no agent may be added. `folder`: where its
        session will work; it is tried there first. Raises BadRequest, GatewayUnavailable, and AgentError if it does
        not start.
        """
        self._check_running()
        place = None if folder is None else await asyncio.to_thread(_check_folder, folder)
        if self.find_or_make_agent is None:
            for name, configured in self.settings.agents.items():
                if configured.command == tuple(command):
                    return name, False
            raise BadRequest("command: no agent has it, and this gateway takes agents from its settings only")
        settings, agent = await self.find_or_make_agent(command, path, place)
        is_new = settings.name not in self.settings.agents
        if agent is not None:
            self.spawns.add_agent(settings.name, agent)
            self.settings.add_agent(settings)
        return settings.name, is_new

    async def set_mcp_servers(self, session: str, servers: Sequence[Json]) -> None:
        """Replace the MCP servers that the session's agent gets besides Semel's own, from its next start on.

        `servers`: as ACP's McpServer. Raises BadRequest, NoSuchSession.
        """
        number, checked = await self.record.find_session(session), check_servers(servers)
        await asyncio.to_thread(self.mcp_servers.write, number, checked)

    async def session(self, session: str) -> Json:
        """Return one session. Raises NoSuchSession."""
        number = await self.record.find_session(session)
        return self.add_workspace(await self.record.read(session_list.read_session, number))

    async def list_commands(self, session: str | None = None) -> list[Json]:
        """Return the commands that a person may write: the gateway's, then those of a session's agent.

        Each is {"name", "by": "gateway" or "agent", "text": what to write, "usage", "takes", "description"}. Those of
        the agent are what it has reported. Raises NoSuchSession.
        """
        about = {} if session is None else load((await self.record.read(_find_row, session)).about)
        own = [
            {"by": "gateway", "text": f"/{command.name}", **asdict(command)} for command in commands.COMMANDS.values()
        ]
        return own + [_describe_agent_command(offered) for offered in about.get("commands") or ()]

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

    async def new_chapter(self, session: str, by: str | None, key: str | None = None) -> Heard:
        """Start a new chapter, as the command /new does.

        `by`: the sender; None: the owner. `key`: the idempotency key of the command's event.
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
        await asyncio.to_thread(self.mcp_servers.remove, number)
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


def _check_folder(folder: str) -> str:
    """Return the path of a session's folder without "." and "..". Raises BadRequest if it is no directory."""
    path = Path(os.path.normpath(folder))
    if not path.is_absolute() or "\0" in folder:
        raise BadRequest(f"folder: {folder[:200]!r} is not an absolute path")
    if not path.is_dir():
        raise BadRequest(f"folder: {str(path)!r} is not a directory on the gateway's machine")
    return str(path)


def _find_row(tx: Tx, session: str) -> SessionRow:
    row = views.find_session(tx, session)
    if row is None:
        raise NoSuchSession(session)
    return row


def _describe_agent_command(offered: Json) -> Json:
    """Return an agent's command (ACP's AvailableCommand) as `SessionApi.list_commands` does."""
    name = str(offered.get("name", ""))
    text = f"//{name}" if name in commands.COMMANDS else f"/{name}"  # a second slash: it is not the gateway's
    hint = str((offered.get("input") or {}).get("hint") or "")
    described = {"usage": f"{text} {hint}".strip(), "description": str(offered.get("description") or "")}
    return {"by": "agent", "name": name, "text": text, "takes": "text" if hint else "nothing", **described}
