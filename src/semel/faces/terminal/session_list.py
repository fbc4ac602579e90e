"""The live list of all sessions: one event stream, resumed by rev after every break."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from semel.faces.client import AsyncClient, NoGateway, RequestRefused
from semel.faces.terminal.link import RECONNECT_DELAYS_S
from semel.text.json_types import Json


class SessionList:
    """Keeps the sessions that are not archived. Calls `on_change(problem)` after every change of list or connection.

    `problem`: why the list may be old; "" while it is live.
    """

    def __init__(self, data_dir: Path, on_change: Callable[[str], None]):
        self._data_dir = data_dir
        self._on_change = on_change
        self._rows: dict[str, Json] = {}
        self._rev: int | None = None

    def __repr__(self) -> str:
        return f"<SessionList {len(self._rows)} rev={self._rev}>"

    @property
    def sessions(self) -> list[Json]:
        """The sessions as in `GET /v1/sessions`, in no certain order."""
        return list(self._rows.values())

    async def follow(self) -> None:
        """Follow the stream until cancelled, reconnecting with increasing delays."""
        failures = 0
        while True:
            problem = "the list may be old: the gateway is away; trying again …"
            try:
                async with AsyncClient(self._data_dir) as client, aclosing(client.stream_list(self._rev)) as frames:
                    async for frame in frames:
                        failures = 0
                        await self._apply(frame, client)
                        self._on_change("")
            except NoGateway:
                pass
            except RequestRefused as error:
                problem = f"the list may be old: {error}"
            self._on_change(problem)
            await asyncio.sleep(RECONNECT_DELAYS_S[min(failures, len(RECONNECT_DELAYS_S) - 1)])
            failures += 1

    async def _apply(self, frame: Json, client: AsyncClient) -> None:
        """Apply a frame of the stream. Its rev counts once all of it is applied."""
        if frame["type"] == "snapshot":
            older = await self._load_older(frame, client)
            self._rows = {row["key"]: row for row in (*older, *frame["sessions"])}
        else:
            for change in frame["changes"]:
                self._rows.pop(change["key"], None)
                if change["op"] == "session" and not change.get("archived"):
                    self._rows[change["key"]] = change
        self._rev = int(frame["rev"])

    async def _load_older(self, frame: Json, client: AsyncClient) -> list[Json]:
        """Load the sessions that a snapshot leaves out as too old."""
        if not frame["more"]:
            return []
        return await client.list_all("/v1/sessions", "sessions", limit=1000, after=frame["next"])
