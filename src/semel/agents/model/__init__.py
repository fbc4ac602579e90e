"""Agents of kind "model": a loop over a model's API in the gateway's own process, through pydantic-ai.

Such an agent has no process and no memory of its own: each request to the model is built from the ledger's entries
(docs/decisions/model-agents.md). Importing this package does not import pydantic-ai, which takes up to two seconds
and 80 MB; `ModelAgent` imports it when it is checked or opened for the first time.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from semel.gateway.ports import AgentError, Conversation, Launch
from semel.gateway.settings import AgentSettings
from semel.installation import find_install_command
from semel.text.json_types import Json

if TYPE_CHECKING:
    from semel.agents.model.mcp_trial import ServerTrial
    from semel.agents.model.provider import ConfiguredModel

__all__ = ["ModelAgent", "ToolAccess"]


class ToolAccess(Protocol):
    """Semel's own tools (send_message and the others) for one conversation.

    Implemented by `semel.tools.in_process_tools`.
    """

    async def greet(self) -> str:
        """Ask the gateway about this session. Return instructions for the system prompt. Call this before `listing`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the destinations that the session may address besides its home. Known only after `greet`."""

    def listing(self) -> list[Json]:
        """Return the tools as MCP's tools/list does, each with name, description, inputSchema and annotations."""

    async def call(self, name: str, given: Json, tool: str) -> tuple[str, bool]:
        """Call a tool. Return (text for the model, whether the call succeeded).

        `given`: the arguments. `tool`: the id under which the tool call was announced to the gateway.
        """


class ModelAgent:
    """A configured model agent (`semel.gateway.ports.Agent`).

    - `door`: returns Semel's own tools (send_message and the others) for a conversation. If it is None, or returns
      None, the conversation has none of them.
    - `hidden`: names of variables that are never passed on from the gateway's environment to the agent's commands.
    """

    process = False  # a conversation is an object in the gateway, not a process of 60-500 MB

    def __init__(
        self,
        settings: AgentSettings,
        door: Callable[[Launch], ToolAccess | None] | None = None,
        *,
        hidden: Collection[str] = (),
    ) -> None:
        if settings.model is None:
            raise ValueError(f"agent {settings.name!r} names no model")
        self.name = settings.name
        self.settings = settings
        self._door = door
        self._hidden = hidden
        self._models: ConfiguredModel | None = None
        self._loading = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<ModelAgent {self.name} {self.settings.model}>"

    def check(self) -> None:
        """Import pydantic-ai and create the model, without sending a request. Blocks for seconds. Raises AgentError."""
        if importlib.util.find_spec("pydantic_ai") is None:
            how = find_install_command("model")
            raise AgentError(f'agent {self.name!r} is of kind "model", which needs pydantic-ai: {how}')
        if self.settings.mcp and importlib.util.find_spec("fastmcp") is None:
            how = find_install_command("model")
            raise AgentError(f"agent {self.name!r} has MCP servers, which need pydantic-ai's part for them: {how}")
        provider: Any = importlib.import_module("semel.agents.model.provider")
        importlib.import_module("semel.agents.model.conversation")
        self._models = provider.ConfiguredModel(self.settings)

    def describe_key(self) -> str:
        """Say which API key is sent where, or why none. Call it after `check`."""
        assert self._models is not None
        return self._models.server.key_remark

    async def ask(self, prompt: str) -> str:
        """Send one request with one tool, without history. Return the answer. Raises AgentError."""
        if self._models is None:
            await asyncio.to_thread(self.check)
        assert self._models is not None
        return await self._models.ask(prompt)

    async def try_servers(self, cwd: Path) -> list[ServerTrial]:
        """Connect to all MCP servers of the agent at once, and disconnect. Call it after `check`.

        `cwd`: the folder in which their commands run.
        """
        if not self.settings.mcp:
            return []
        trial: Any = await asyncio.to_thread(importlib.import_module, "semel.agents.model.mcp_trial")
        trials: list[ServerTrial] = await trial.try_servers(self.name, self.settings.mcp, cwd)
        return trials

    async def open(self, launch: Launch) -> Conversation:
        """Open a conversation that reads the session's history from the ledger, and return it. Raises AgentError."""
        if launch.inside is None:
            raise AgentError(f"agent {self.name!r} runs inside the gateway only")
        workspace = launch.folder or self.settings.cwd
        if not workspace.is_dir():
            raise AgentError(f"the workspace of agent {self.name!r} is not a directory: {workspace}")
        async with self._loading:
            if self._models is None:
                await asyncio.to_thread(self.check)
        assert self._models is not None
        from semel.agents.model.conversation import ModelConversation

        door = self._door(launch) if self._door is not None else None
        try:
            models = self._models.copy_to(workspace)
            conversation = await ModelConversation.open(models, launch.inside, door, launch.spawn, self._hidden)
            conversation.left_out_servers = [server["name"] for server in launch.mcp_servers]  # it has its own `mcp`
            return conversation
        except AgentError:
            raise
        except Exception as error:
            raise AgentError(f"agent {self.name!r} could not begin: {type(error).__name__}: {error}") from error
