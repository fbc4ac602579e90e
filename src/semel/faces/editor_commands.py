"""The agents of editors' commands (`semel acp -- COMMAND`): find one, or try a new command and keep it.

A new command is kept only after its program has answered `initialize`, in the editor's folder. So a command that is
missing, ends at once or does not speak ACP leaves nothing behind: no agent, no file, no session.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from semel.agents.acp import AcpAgent
from semel.faces.build_agents import build_acp_agent, build_workplace
from semel.faces.config.editor_agents import describe_editor_agent, find_agent, is_kept, keep_editor_agent
from semel.faces.config.load import GatewayConfig
from semel.gateway.errors import BadRequest
from semel.gateway.ports import AgentError
from semel.gateway.settings import AgentSettings
from semel.tools.exec.background import JobEnvironment


async def try_agent(agent: AcpAgent, folder: str | None) -> None:
    """Start the agent in this folder, initialize it, and end it. Raises AgentError.

    Without a folder, a temporary one is used: the agent's own workspace is made when its command is kept.
    """
    with contextlib.ExitStack() as stack:
        place = folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="semel-check-"))
        async with agent.copy_to(Path(place)).initialized(None):
            pass


class EditorCommands:
    """Finds the agent of an editor's command, or keeps and makes one. `try_agent`: tries a new one; tests replace it.

    `workplaces`: where the background jobs of each agent run, by the agent's name; a new agent's place is added.
    """

    def __init__(
        self,
        config: GatewayConfig,
        workplaces: dict[str, JobEnvironment],
        try_agent: Callable[[AcpAgent, str | None], Awaitable[None]] = try_agent,
    ) -> None:
        self._config = config
        self._workplaces = workplaces
        self._try_agent = try_agent

    def __repr__(self) -> str:
        return f"<EditorCommands of {self._config.gateway.data_dir}>"

    async def find_or_make_agent(
        self, command: Sequence[str], path: str | None, folder: str | None = None
    ) -> tuple[AgentSettings, AcpAgent | None]:
        """See `FindOrMakeAgent`. Raises BadRequest, and AgentError if a new command does not start as an agent.

        A program that an editor finds on another PATH than before is looked up there from its next start on.
        """
        settings = self._config.gateway
        known = find_agent(command, settings.agents)
        if known is not None and (path is None or is_kept(known, path, settings.data_dir)):
            return known, None
        if self._config.cluster.name:
            raise BadRequest(
                "command: no agent of the configuration has it, and the gateways of a cluster take agents from their "
                "configuration only: add it there, under [agents.NAME], on each machine"
            )
        if path is None:
            raise BadRequest(
                "command: no agent has it, and one is added on the gateway's machine only (its unix socket)"
            )
        made = await asyncio.to_thread(describe_editor_agent, command, path, settings.data_dir, settings.agents)
        if known is None:
            await self._try(made, folder)
        await asyncio.to_thread(keep_editor_agent, made, settings.data_dir)
        self._workplaces[made.name] = build_workplace(made, self._config)
        return made, build_acp_agent(made, self._config)

    async def _try(self, settings: AgentSettings, folder: str | None) -> None:
        try:
            await self._try_agent(build_acp_agent(settings, self._config), folder)
        except AgentError as error:
            raise AgentError(f"{error}. Nothing is kept of this command: it must be that of an ACP agent") from None
