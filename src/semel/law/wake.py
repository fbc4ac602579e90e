"""Which events wake a session (Law 2). The rest waits for the next turn."""

from __future__ import annotations

QUIET_KINDS = frozenset({"exec.started", "exec.progress", "reaction", "edit", "delete", "notice"})
"""Reports of progress and reactions: worth knowing, not worth a turn of their own."""


def wakes(kind: str) -> bool:
    """Whether an event of this kind wakes, unless its sender says otherwise."""
    return kind not in QUIET_KINDS
