"""The gateway's services for an in-process agent: the transcript as its memory, and the tools (Laws 4, 10).

The tool calls of such an agent go through the same handler as those of an agent process, also with a fencing token.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from semel.gateway.ports import AgentError, Stretch
from semel.gateway.record import LedgerAccess
from semel.gateway.turns.run import Run
from semel.ledger.turns import history, summary
from semel.ledger.turns.turns import Fenced
from semel.text.json_types import Json

Handler = Callable[[str, Json], Awaitable[Json]]


@dataclass(eq=False, repr=False)
class InProcessServices:
    """The implementation of `semel.gateway.ports.Inside` for one session.

    `running`: returns a session's running turn.
    """

    record: LedgerAccess
    session: int
    running: Callable[[int], Run | None]
    handler: Handler

    async def past(self, room: int) -> history.Past:
        return await self.record.read(history.read_past_turns, self.session, room)

    async def older(self, keep: int, most: int) -> Stretch | None:
        return await self.record.read(history.find_turns_to_summarise, self.session, keep, most)

    async def summarised(self, stretch: Stretch, text: str, more: Json) -> None:
        run = self.running(self.session)
        if run is None or run.is_over:
            raise AgentError("no turn runs that this could be a summary for")
        try:
            await self.record.write(summary.add, run.fence, text, stretch.covers, more)
        except Fenced as error:
            raise AgentError(str(error)) from None

    async def settled(self) -> None:
        run = self.running(self.session)
        if run is not None and not run.is_over:
            await run.live.put_barrier().wait()
        if run is None or run.is_over:  # it ended before it recorded all updates
            raise AgentError("no turn runs that this could be done in")

    async def call(self, method: str, params: Json) -> Json:
        return await self.handler(method, params)
