"""Semel's tools for an agent inside the gateway: the same catalogue, handler and texts, without the socket.

Each call gets a new id and carries the id of the announced tool call, so that its turn is known for certain (Law 10).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from semel.gateway.tools.rpc import RpcError
from semel.ledger.storage.errors import LedgerError
from semel.tools import catalogue, words
from semel.tools.catalogue import Greeting
from semel.tools.rpc_client import GatewayRefused, Outcome

Json = dict[str, Any]
Handler = Callable[[str, Json], Awaitable[Json]]


class InsideTools:
    """The tools of one conversation (`semel.agents.model.door.Door`).

    handler   the gateway's handler of tool requests
    token     the fencing token of the conversation's spawn
    """

    def __init__(self, handler: Handler, token: str) -> None:
        self.conn = os.urandom(8).hex()
        self._handler = handler
        self._token = token
        self._greeting = Greeting()

    def __repr__(self) -> str:
        return f"<InsideTools {self.conn}>"

    async def greet(self) -> str:
        """Ask the gateway about this session; returns the instructions for the model."""
        self._greeting = words.parse_greeting(await self._ask("hello", {"conn": self.conn}))
        return self._greeting.instructions or catalogue.INSTRUCTIONS

    @property
    def names(self) -> tuple[str, ...]:
        """The destinations besides home."""
        return self._greeting.names

    def listing(self) -> list[Json]:
        """The tools in the format of MCP's tools/list."""
        return catalogue.list_tools(self._greeting)

    async def call(self, name: str, given: Json, tool: str) -> tuple[str, bool]:
        """Call a tool; returns (text for the model, whether it succeeded). `tool`: the announced tool call's id."""
        arguments = catalogue.check(name, given)
        if isinstance(arguments, str):
            return arguments, False
        id = f"{self.conn}-{os.urandom(8).hex()}"
        params = {"conn": self.conn, "call": id, "name": name, "arguments": arguments, "given": given}
        outcome = await self._ask("call", {**params, "meta": {"callId": tool}})
        if words.settled(outcome):
            await self._ask("answered", {"call": id})
        return words.render_outcome(outcome, 0.0)

    async def _ask(self, method: str, params: Json) -> Outcome:
        try:
            return await self._handler(method, {"token": self._token, **params})
        except RpcError as no:
            return GatewayRefused(no.code, str(no))
        except LedgerError as fault:
            return GatewayRefused("internal", str(fault))
