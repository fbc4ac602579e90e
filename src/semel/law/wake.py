"""Which events wake a session, and when the wake is due (Law 2).

A session has at most one pending wake, with one due time. Where it is asked for, a wake waits until nothing
more has come for `debounce`, but never longer than `max_wait` after the first event that set it.
"""

from __future__ import annotations

from dataclasses import dataclass

QUIET_KINDS = frozenset({"exec.started", "exec.progress", "reaction", "edit", "delete", "notice"})
"""Reports of progress and reactions: worth knowing, not worth a turn of their own."""


def wakes(kind: str, *, automatic: bool = False, allowed: bool = False) -> bool:
    """Whether an event of this kind wakes, unless its sender says otherwise.

    automatic: a program sent it, such as a bot or an auto-reply. Two of them that wake each other never end, so
    they wait for the next turn unless the session allows them.
    """
    return kind not in QUIET_KINDS and (allowed or not automatic)


@dataclass(frozen=True)
class Pause:
    """How long a wake waits for more. Milliseconds; `debounce` 0: not at all."""

    debounce: int = 0
    max_wait: int = 0


AT_ONCE = Pause()


@dataclass(frozen=True)
class Wake:
    """A pending wake: when it is due, and when the first event set it. Milliseconds."""

    due: int
    since: int


def woken(now: int, pending: Wake | None, pause: Pause) -> Wake:
    """The pending wake after one more waking event."""
    since = pending.since if pending is not None else now
    if not pause.debounce:
        return Wake(now if pending is None else min(now, pending.due), since)
    if pending is not None and pending.due <= now:
        return pending  # something already asked for a turn at once
    return Wake(min(now + pause.debounce, since + max(pause.debounce, pause.max_wait)), since)


def wait(now: int, wake: Wake) -> int:
    """Milliseconds until a wake is due; 0: now. A clock that was set back delays nothing: then it is due."""
    return max(0, wake.due - now) if now >= wake.since else 0
