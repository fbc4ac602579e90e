"""Which turn a person means who cancels in an editor while no prompt of the editor's is open.

When a cancel comes, the turn that it is for may have ended, and another person's turn may run. Nobody sees a turn
before their editor has read what came before it, and nobody reacts at once to a turn that they see (REACTION_S). Until
then, a cancel means the turn before. That turn is named to the gateway: if it has ended, nothing is stopped.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semel.faces.acp.connection.editor_port import Editor

REACTION_S = 0.5  # nobody sees a turn and cancels it within this time
READING_INTERVAL_S = 0.05  # between two looks at how far the editor has read
UNSEEN_CANCEL_REMARK = (
    "You cannot have seen the turn that runs now when you cancelled, so it goes on. To stop it, cancel again."
)


class RecentTurns:
    """The turn that runs in a session, the one before it, and since when the editor can show that this has changed."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._turn: int | None = None
        self._before: int | None = None
        self._mark = 0  # written bytes that the editor has read before it can show the running turn
        self._since = -inf  # the time when it had read them; infinite while it has not
        self._reading: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<RecentTurns {self._before}, now {self._turn}>"

    def note_running(self, turn: int | None) -> None:
        """Note which turn runs; None: none."""
        if turn == self._turn:
            return
        if self._since < inf:  # otherwise nobody has seen the one that is over
            self._before = self._turn
        self._turn, self._mark, self._since = turn, self._editor.written_bytes, inf
        self.stop_watching()
        self._watch_reading()

    def find_turn_to_cancel(self) -> int | None:
        """Return the turn that is meant by a cancel that comes now; None: none."""
        return self._turn if asyncio.get_running_loop().time() - self._since >= REACTION_S else self._before

    def stop_watching(self) -> None:
        """Look no longer how far the editor has read."""
        if self._reading is not None:
            self._reading.cancel()

    def _watch_reading(self) -> None:
        loop = asyncio.get_running_loop()
        if self._editor.bytes_read_by_editor >= self._mark:
            self._since = loop.time()
        else:
            self._reading = loop.call_later(READING_INTERVAL_S, self._watch_reading)
