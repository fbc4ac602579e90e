"""Semel's tools for an agent inside the gateway: the same catalogue, handler and texts, without the socket.

Each call gets a new id and carries the id of the announced tool call, so that its turn is known for certain (Law 10).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

from semel.gateway.errors import GatewayError
from semel.ledger.storage.errors import LedgerError
from semel.text.json_types import Json
from semel.tools import catalogue, outcomes
from semel.tools.catalogue import Greeting
from semel.tools.gateway_link import GatewayRefused, Outcome

Handler = Callable[[str, Json], Awaitable[Json]]


class InProcessTools:
    """The tools of one conversation, for an agent inside the gateway (`semel.agents.model.ToolAccess`).

    handler   the gateway's handler of tool requests
    token     the fencing token of the conversation's spawn
    """

    def __init__(self, handler: Handler, token: str) -> None:
        self.conn = os.urandom(8).hex()
        self._handler = handler
        self._token = token
        self._greeting = Greeting()

    def __repr__(self) -> str:
        return f"<InProcessTools {self.conn}>"

    async def greet(self) -> str:
        """Ask the gateway about this session; returns the instructions for the model."""
        self._greeting = outcomes.parse_greeting(await self._ask("hello", {"conn": self.conn}))
        return self._greeting.instructions or catalogue.INSTRUCTIONS

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the destinations besides home."""
        return self._greeting.destinations

    def listing(self) -> list[Json]:
        """Return the tools in the format of MCP's tools/list."""
        return catalogue.list_tools(self._greeting)

    async def call(self, name: str, raw_arguments: Json, tool_call_id: str) -> tuple[str, bool]:
        """Call a tool. Returns (the text for the model, whether the call succeeded).

        `tool_call_id`: the id under which the agent announced this tool call in its stream.
        """
        arguments = catalogue.check_arguments(name, raw_arguments)
        if isinstance(arguments, str):
            return arguments, False
        call_id = f"{self.conn}-{os.urandom(8).hex()}"
        params = {"conn": self.conn, "call": call_id, "name": name, "arguments": arguments, "given": raw_arguments}
        outcome = await self._ask("call", {**params, "meta": {"callId": tool_call_id}})
        if outcomes.is_outcome_known(outcome):
            await self._ask("answered", {"call": call_id})
        return outcomes.render_outcome(outcome, 0.0)

    async def _ask(self, method: str, params: Json) -> Outcome:
        try:
            return await self._handler(method, {"token": self._token, **params})
        except GatewayError as error:
            return GatewayRefused(str(error))
        except LedgerError as error:
            return GatewayRefused(str(error), failed=True)
