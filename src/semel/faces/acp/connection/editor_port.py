"""The connection to an editor, as a session uses it; and the editor's cancels and answers that are on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from semel.faces.acp.editor_profiles import EditorProfile
from semel.text.json_types import Json

CANCEL, ANSWER = "a cancel", "an answer to a permission request"  # what an editor says that is no prompt


class Editor(Protocol):
    """The connection to one editor (`EditorServer`)."""

    profile: EditorProfile
    connection: str  # begins the keys of what this editor sends; no other connection has it
    name: str  # who is named as the sender

    @property
    def is_full(self) -> bool: ...

    def write(self, lines: Sequence[bytes]) -> None: ...

    def ask(self, method: str, params: Json, done: Callable[[Json], None]) -> str: ...

    def cancel_request(self, request: str) -> None: ...

    def forget(self, request: str) -> None: ...


class Deliveries:
    """What an editor said that is no prompt, on its way to the gateway. `changed`: set at each arrival."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], str] = {}
        self.changed = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Deliveries {len(self._tasks)}>"

    def add(self, what: str, task: asyncio.Task[None]) -> None:
        """Note that `task` delivers this: `CANCEL` or `ANSWER`."""
        self._tasks[task] = what
        task.add_done_callback(self._forget)

    def list_pending(self) -> list[str]:
        """Return what has not arrived."""
        return list(self._tasks.values())

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self.changed.set()
