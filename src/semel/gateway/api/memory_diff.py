"""Compare an agent's own history of a session with the transcript (`semel show --diff-agent`)."""

from __future__ import annotations

from typing import Any

from semel.gateway.errors import Conflict
from semel.gateway.ports import AgentError
from semel.gateway.turns.agent_pool import AgentPool
from semel.gateway.turns.scheduler import Turns
from semel.ledger.storage.sql import Tx

Json = dict[str, Any]

NEVER_PROMPTED = "the agent was never asked in this chapter, so it remembers nothing of it"
NO_REPLAY = "this agent does not tell what it remembers when its session is opened again"
MEMORY_IS_TRANSCRIPT = "its memory is the record: it is given the entries anew with each prompt"


class MemoryComparison:
    """Restarts the session's agent, lets it replay its history, and compares that with the transcript."""

    def __init__(self, turns: Turns, spawns: AgentPool) -> None:
        self.turns = turns
        self.spawns = spawns

    async def difference(self, session: int) -> Json:
        """{"compared", "why"?, "lacks": [{"seq", "role", "text"}], "extra": [text]}.

        `lacks`: entries that the agent does not remember. `extra`: texts only the agent has. `why`: the reason if
        `compared` is false. Raises Conflict while a turn runs, or if the agent cannot be started.
        """
        return await self.turns.alone(session, self._difference)

    async def _difference(self, session: int) -> Json:
        row = await self.turns.deps.record.read(_session, session)
        if self.turns.deps.agents[row.agent].kind == "model":
            return _not(MEMORY_IS_TRANSCRIPT)
        if row.memory is None:
            return _not(NEVER_PROMPTED)
        await self.spawns.end(session, "its memory is compared with the record")
        try:
            live = await self.spawns.take(session, row.key, row.agent, row.memory)
        except AgentError as fault:
            raise Conflict(f"the agent could not be started: {fault}") from None
        try:
            if live.conversation.restored != "loaded":
                return _not(NO_REPLAY)
            found = await self.turns.asking.difference(live)
        finally:
            await self.spawns.give_back(live)
        lacks = [{"seq": one.seq, "role": one.role, "text": one.text} for one in found.lacks]
        return {"compared": True, "lacks": lacks, "extra": list(found.extra)}


def _not(why: str) -> Json:
    return {"compared": False, "why": why, "lacks": [], "extra": []}


def _session(tx: Tx, session: int) -> Any:
    return tx.one("session_by_id", id=session)
