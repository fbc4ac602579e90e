"""The connection to an editor, as a session uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from semel.faces.acp.editor_profiles import EditorProfile
from semel.text.json_types import Json


class Editor(Protocol):
    """The connection to one editor (`EditorServer`)."""

    profile: EditorProfile
    key_prefix: str  # begins the key of each prompt of this editor; no other connection has it
    name: str  # who is named as the sender

    @property
    def written_bytes(self) -> int:
        """How many bytes were written to the editor, read or not."""

    @property
    def bytes_read_by_editor(self) -> int:
        """How many of them the editor has read at least."""

    def check_full(self) -> bool:
        """Return whether so much waits for the editor that no more should be written now. If so, the session's `show`
        is called when there is room again.
        """

    def write(self, lines: Sequence[bytes]) -> None:
        """Write lines to the editor, in order and without waiting. Each ends with a newline."""

    def ask(self, method: str, params: Json, done: Callable[[Json], None]) -> str:
        """Send a request to the editor, and return its id. `done`: called with the answer, which may never come."""

    def cancel_request(self, request: str) -> None:
        """Tell the editor that a request needs no answer any more. An answer that comes all the same is still taken."""

    def forget(self, request: str) -> None:
        """Ignore the answer to a request from now on."""
