"""An editor's cancels and answers to permission requests that are on their way to the gateway."""

from __future__ import annotations

import asyncio

CANCEL, ANSWER = "a cancel", "an answer to a permission request"  # what an editor says that is no prompt


class Deliveries:
    """What an editor said that is no prompt, on its way to the gateway. `changed`: set at each arrival."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], str] = {}
        self.changed = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Deliveries {len(self._tasks)}>"

    def add(self, kind: str, task: asyncio.Task[None]) -> None:
        """Note that `task` delivers a cancel or an answer. `kind`: `CANCEL` or `ANSWER`."""
        self._tasks[task] = kind
        task.add_done_callback(self._forget)

    def list_pending(self) -> list[str]:
        """Return the kind of each that has not arrived."""
        return list(self._tasks.values())

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self.changed.set()
