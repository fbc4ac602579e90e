"""The port through which a model agent calls Semel's own tools; `semel.tools.inside.InsideTools` implements it."""

from __future__ import annotations

from typing import Any, Protocol

Json = dict[str, Any]


class Door(Protocol):
    """Semel's own tools (send_message and the others), bound to one conversation."""

    async def greet(self) -> str:
        """Ask the gateway about this session; returns instructions for the system prompt. Call it before `listing`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The destinations besides home, known after `greet`."""

    def listing(self) -> list[Json]:
        """The tools in the format of MCP's tools/list: name, description, inputSchema, annotations."""

    async def call(self, name: str, given: Json, tool: str) -> tuple[str, bool]:
        """Call a tool; returns (text for the model, whether it succeeded). `tool`: the announced tool call's id."""
