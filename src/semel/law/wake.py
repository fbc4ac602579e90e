"""Which events wake a session, and when the wake is due (Law 2).

A session has at most one pending wake, with one due time. With a `Pause`, the wake is due once no further event has
come for `debounce`, but at the latest `max_wait` after the first event.
"""

from __future__ import annotations

from dataclasses import dataclass

QUIET_KINDS = frozenset({"exec.started", "exec.progress", "reaction", "edit", "delete", "notice"})
"""Kinds of events that wait for the next turn instead of causing one."""


def wakes(kind: str, *, automatic: bool = False, allowed: bool = False) -> bool:
    """Whether an event of this kind wakes its session by default.

    automatic: it was sent by a program, such as a bot or an auto-reply. Two programs could wake each other endlessly,
    so their messages wait for the next turn unless the session allows them (`allowed`).
    """
    return kind not in QUIET_KINDS and (allowed or not automatic)


@dataclass(frozen=True)
class Pause:
    """How long a wake waits for further events, in milliseconds. `debounce` 0: no wait."""

    debounce: int = 0
    max_wait: int = 0


NO_PAUSE = Pause()


@dataclass(frozen=True)
class Wake:
    """A pending wake: when it is due, and the time of the first event that set it, in milliseconds."""

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
    """Milliseconds until a wake is due; 0 if it is due now, or if the clock was set back to before its first event."""
    return max(0, wake.due - now) if now >= wake.since else 0
