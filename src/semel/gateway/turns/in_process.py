"""The gateway's services for an in-process agent: the transcript as its memory, and the tools (Laws 4, 10).

It has no state of its own. The tool calls of such an agent go through the same handler, with the same fencing token, as
those of an agent process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from semel.gateway.ports import AgentError, Stretch
from semel.gateway.transactions import Record
from semel.gateway.turns.run import Run
from semel.gateway.turns.run_context import FlushBarrier
from semel.ledger.turns import history, summary
from semel.ledger.turns.turns import Fenced

Json = dict[str, Any]
Handler = Callable[[str, Json], Awaitable[Json]]


class Inside:
    """See `semel.gateway.ports.Inside`. Of one session; `running` finds its running turn."""

    def __init__(self, record: Record, session: int, running: Callable[[int], Run | None], handler: Handler) -> None:
        self._record = record
        self._session = session
        self._running = running
        self._handler = handler

    def __repr__(self) -> str:
        return f"<Inside of session {self._session}>"

    async def past(self, room: int) -> history.Past:
        return await self._record.read(history.remembered, self._session, room)

    async def older(self, keep: int, most: int) -> Stretch | None:
        return await self._record.read(history.older, self._session, keep, most)

    async def summarised(self, stretch: Stretch, text: str, more: Json) -> None:
        run = self._running(self._session)
        if run is None or run.over:
            raise AgentError("no turn runs that this could be a summary for")
        try:
            await self._record.write(summary.add, run.fence, text, stretch.covers, more)
        except Fenced as fault:
            raise AgentError(str(fault)) from None

    async def settled(self) -> None:
        run = self._running(self._session)
        if run is not None and not run.over:
            mark = FlushBarrier(asyncio.get_running_loop().create_future())
            run.live.signals.put_nowait(mark)
            await mark.done
        if run is None or run.over:  # it broke off before it could record what was told
            raise AgentError("no turn runs that this could be done in")

    async def call(self, method: str, params: Json) -> Json:
        return await self._handler(method, params)
