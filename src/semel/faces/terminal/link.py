"""The terminal's connection to the gateway: one event stream, resumed by rev after every break (Law 8)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from semel.faces.client import Client, NoGateway, RequestRefused
from semel.faces.view import View

Json = dict[str, Any]
State = Literal["connecting", "connected", "away", "new"]

RECONNECT_DELAYS_S = (0.1, 0.3, 1.0, 2.0)
SESSION_POLL_S = 2.0  # seconds between two checks whether a new session exists by now


class SessionLink:
    """Keeps the view of one session up to date, and calls `changed(rows, state)` after every change of either."""

    def __init__(self, data_dir: Path, session: str, changed: Callable[[list[Json], State], None]):
        self.data_dir = data_dir
        self.session = session
        self.view = View()
        self.state: State = "connecting"
        self._changed = changed
        self._born = asyncio.Event()  # set after a message was sent: the first one creates the session
        self.client: Client | None = None

    def __repr__(self) -> str:
        return f"<Link {self.session} {self.state} {self.view!r}>"

    async def run(self) -> None:
        """Follow the stream until cancelled, reconnecting with increasing delays. Raises RequestRefused."""
        failures = 0
        while True:
            try:
                async with Client(self.data_dir) as self.client:
                    async for frame in self.client.stream(self.session, self.view.rev):
                        failures = 0
                        self.state = "connected"
                        self._changed(self.view.apply(frame), self.state)
            except NoGateway:
                pass
            except RequestRefused as refused:
                if refused.code != "no-such-session":
                    raise
                await self._wait_for_birth()
                continue
            self._tell("away")
            await asyncio.sleep(RECONNECT_DELAYS_S[min(failures, len(RECONNECT_DELAYS_S) - 1)])
            failures += 1

    async def _wait_for_birth(self) -> None:
        if gone := self.view.forget():  # it was deleted while it was shown
            self.state = "new"
            self._changed(gone, self.state)
        self._tell("new")
        with contextlib.suppress(TimeoutError):  # somebody else may create the session
            await asyncio.wait_for(self._born.wait(), SESSION_POLL_S)
        self._born.clear()

    def _tell(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self._changed([], state)

    async def say(self, text: str, sender: str, busy: str | None = None, id: str | None = None) -> Json:
        """Send a message. Raises NoGateway, RequestRefused or OutcomeUnknown, whose `id` makes a repeat safe."""
        async with Client(self.data_dir) as client:
            heard = await client.say(self.session, text, sender=sender, busy=busy, id=id, seen=self.view.rev)
        self._born.set()
        return heard

    async def stop(self, by: str) -> bool:
        async with Client(self.data_dir) as client:
            return await client.stop(self.session, by)

    async def answer(self, item: int, option: str | None, by: str) -> str:
        async with Client(self.data_dir) as client:
            return await client.answer(self.session, item, option, by, self.view.rev)

    async def older(self) -> list[Json]:
        """Load a page of older history into the view. Returns the new rows; empty if there is no more."""
        first = min(self.view.entries, default=0)
        if not self.view.more or not first:
            return []
        async with Client(self.data_dir) as client:
            return self.view.prepend(await client.history(self.session, first))
