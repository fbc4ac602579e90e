"""Semel's tools for an agent inside the gateway: the same catalogue, handler and words, without a socket between.

Each call has an id that is minted once and the id of the tool call it is, so that its lineage is certain (Law 10).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from semel.gateway.tools.rpc import RpcError
from semel.ledger.storage.errors import LedgerError
from semel.tools import catalogue, words
from semel.tools.catalogue import Greeting
from semel.tools.rpc_client import Outcome, Refused

Json = dict[str, Any]
Handler = Callable[[str, Json], Awaitable[Json]]


class InsideTools:
    """The tools of one conversation. `handler` is the gateway's; `token` the fencing token of its spawn."""

    def __init__(self, handler: Handler, token: str) -> None:
        self.conn = os.urandom(8).hex()
        self._handler = handler
        self._token = token
        self._greeting = Greeting()

    def __repr__(self) -> str:
        return f"<InsideTools {self.conn}>"

    async def greet(self) -> str:
        """What the gateway says about this session; the instructions for the model."""
        self._greeting = words.greeting(await self._ask("hello", {"conn": self.conn}))
        return self._greeting.instructions or catalogue.INSTRUCTIONS

    @property
    def names(self) -> tuple[str, ...]:
        """The destinations besides home."""
        return self._greeting.names

    def listing(self) -> list[Json]:
        """As MCP's tools/list has them."""
        return catalogue.listing(self._greeting)

    async def call(self, name: str, given: Json, tool: str) -> tuple[str, bool]:
        """(What the model reads, whether it went well). `tool` is the announced tool call."""
        arguments = catalogue.check(name, given)
        if isinstance(arguments, str):
            return arguments, False
        id = f"{self.conn}-{os.urandom(8).hex()}"
        params = {"conn": self.conn, "call": id, "name": name, "arguments": arguments, "given": given}
        outcome = await self._ask("call", {**params, "meta": {"callId": tool}})
        if words.settled(outcome):
            await self._ask("answered", {"call": id})
        return words.for_agent(outcome, 0.0)

    async def _ask(self, method: str, params: Json) -> Outcome:
        try:
            return await self._handler(method, {"token": self._token, **params})
        except RpcError as no:
            return Refused(no.code, str(no))
        except LedgerError as fault:
            return Refused("internal", str(fault))
