"""The terminal's line to the gateway: one stream, resumed by rev for as long as the terminal is open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from semel.faces.client import Client, NoGateway, Refused
from semel.faces.view import View

Json = dict[str, Any]
State = Literal["connecting", "connected", "away", "new"]

PAUSES = (0.1, 0.3, 1.0, 2.0)
LOOK = 2.0  # seconds between two looks for a session that is not there yet


class Link:
    """Holds the view of one session up to date; calls `changed(rows, state)` after every change of either."""

    def __init__(self, data_dir: Path, session: str, changed: Callable[[list[Json], State], None]):
        self.data_dir = data_dir
        self.session = session
        self.view = View()
        self.state: State = "connecting"
        self._changed = changed
        self._born = asyncio.Event()  # a new session exists once something was said in it
        self.client: Client | None = None

    def __repr__(self) -> str:
        return f"<Link {self.session} {self.state} {self.view!r}>"

    async def run(self) -> None:
        """Until cancelled. A gateway that is away is tried again, ever more slowly, for ever."""
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
            except Refused as refused:
                if refused.code != "no-such-session":
                    raise
                await self._wait_for_birth()
                continue
            self._tell("away")
            await asyncio.sleep(PAUSES[min(failures, len(PAUSES) - 1)])
            failures += 1

    async def _wait_for_birth(self) -> None:
        if gone := self.view.forget():  # it was deleted while it was shown
            self.state = "new"
            self._changed(gone, self.state)
        self._tell("new")
        with contextlib.suppress(TimeoutError):  # somebody else may say the first word
            await asyncio.wait_for(self._born.wait(), LOOK)
        self._born.clear()

    def _tell(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self._changed([], state)

    async def say(self, text: str, sender: str, busy: str | None = None, id: str | None = None) -> Json:
        """What became of it. Raises NoGateway, Refused or OutcomeUnknown, whose `id` makes a repeat harmless."""
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
        """The stretch before what the view holds; nothing where that is all."""
        first = min(self.view.entries, default=0)
        if not self.view.more or not first:
            return []
        async with Client(self.data_dir) as client:
            return self.view.prepend(await client.history(self.session, first))
