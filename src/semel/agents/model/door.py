"""The port by which a model agent uses Semel's own tools: `semel.tools.inside` implements it."""

from __future__ import annotations

from typing import Any, Protocol

Json = dict[str, Any]


class Door(Protocol):
    """The send_message family, for one conversation."""

    async def greet(self) -> str:
        """Ask what this conversation may do; the instructions to put before a model. Call it before `listing`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The destinations besides home, as `greet` was told them."""

    def listing(self) -> list[Json]:
        """The tools, as MCP's tools/list has them: name, description, inputSchema."""

    async def call(self, name: str, given: Json, tool: str) -> tuple[str, bool]:
        """One call of a tool. `tool`: the id its tool call was announced with. (What the model reads, went well)."""
