"""Match each tool call from the socket with its announcement in the agent's stream.

A call comes over another pipe than the stream, and may overtake it. So the call waits a moment for its announcement,
and text that the agent wrote before the call is recorded first. The time it waits depends on the agent: some announce
every call, some none.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from semel.gateway.turns.live_agent import LiveAgent
from semel.text.json_types import Json

ANNOUNCEMENT_TIMEOUT_S = 3.0
"""How long a call waits for its announcement."""
FIRST_TURN_TIMEOUT_S = 0.6
"""How long a call waits in a process's first turn, where only the order of texts depends on it, unless the agent's
profile says that it announces calls."""
SILENT_AGENT_TIMEOUT_S = 0.1
"""How long a call waits if its agent is known not to announce calls."""


class Announcements:
    """Match the tool calls of one turn with their announcements, and decide how long each call waits.

    `flush`: returns when everything that the agent has streamed is committed.
    """

    def __init__(self, live: LiveAgent, flush: Callable[[], Awaitable[None]]) -> None:
        self.live = live
        self.flush = flush
        self.over = False
        self._changed = asyncio.Event()  # set when the stream brought something, or the run is over
        self._first_turn = not live.was_prompted  # if so, a call of this process can belong to no other turn
        self._unannounced: list[tuple[str, Json]] = []  # calls that were not announced in time

    def notify(self) -> None:
        """Wake the waiting calls, because the stream brought something new."""
        self._changed.set()

    async def match(self, tool: str | None, name: str, arguments: Json) -> tuple[str | None, int | None]:
        """Wait for the announcement of a call. Return (tool call id, the turn that announced it).

        `tool`: the call's id, if the caller knows it; otherwise the open call with this name and these arguments is
        searched. The id is None if it stays unknown; the turn is None if the call is not announced in time (Law 10).
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout()
        view = self.live.view
        while True:
            self._changed.clear()
            await self.flush()
            call = view.match(name, arguments) if tool is None else tool
            remaining = deadline - loop.time()
            if call in view.calls:
                self.live.announces = True
                return call, view.turns[str(call)]
            if self.over or remaining <= 0:
                if not self.over and self.live.announces is None:
                    self._unannounced.append((name, arguments))
                    if not self._first_turn:
                        self.live.announces = False
                return call, None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await self._changed.wait()

    def end(self) -> None:
        """End the run, so that calls which still wait for their announcement go on without it.

        If it is still unknown whether the agent announces calls, decide it now: it does if one of the calls that had
        waited too long was announced after all.
        """
        if self.live.announces is None and self._unannounced:
            view = self.live.view
            self.live.announces = any(view.was_announced(name, arguments) for name, arguments in self._unannounced)
        self.over = True
        self._changed.set()

    def _timeout(self) -> float:
        if self.live.announces is False or (self._first_turn and self._unannounced):
            return SILENT_AGENT_TIMEOUT_S
        if self._first_turn and self.live.announces is None and not self.live.fold.profile.announces_calls:
            return FIRST_TURN_TIMEOUT_S
        return ANNOUNCEMENT_TIMEOUT_S
