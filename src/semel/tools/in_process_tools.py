"""Semel's tools inside the gateway's process: the same catalogue, handler and texts, without the unix socket.

They serve agents that run inside the gateway, and agents that call the tools over HTTP (`http_tools`). Each call of the
former gets a new id and carries the id of the announced tool call, so that its turn is known for certain (Law 10).
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
    """The tools of one conversation (`semel.agents.model.ToolAccess`).

    handler   the gateway's handler of tool requests
    token     the fencing token of the conversation's spawn
    conn      the id of the connection; by default a new one
    """

    def __init__(self, handler: Handler, token: str, conn: str = "") -> None:
        self.conn = conn or os.urandom(8).hex()
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
        outcome = await self.forward(call_id, name, arguments, raw_arguments, {"callId": tool_call_id})
        if outcomes.is_outcome_known(outcome):
            await self.confirm(call_id)
        return outcomes.render_outcome(outcome, 0.0)

    async def forward(self, call_id: str, name: str, arguments: Json, given: Json, meta: Json) -> Outcome:
        """Hand a validated call to the gateway. A repeat with the same `call_id` gets the first outcome."""
        params = {"conn": self.conn, "call": call_id, "name": name, "arguments": arguments, "given": given}
        return await self._ask("call", {**params, "meta": meta})

    async def confirm(self, call_id: str) -> None:
        """Tell the gateway that the agent has the answer of a call."""
        await self._ask("answered", {"call": call_id})

    async def _ask(self, method: str, params: Json) -> Outcome:
        try:
            return await self._handler(method, {"token": self._token, **params})
        except GatewayError as error:
            return GatewayRefused(str(error))
        except LedgerError as error:
            return GatewayRefused(str(error), failed=True)
