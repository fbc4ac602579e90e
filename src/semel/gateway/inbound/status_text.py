"""The text replies to `/status` and `/history`."""

from __future__ import annotations

from collections.abc import Sequence

from semel.gateway.inbound.model_choices import choices
from semel.ledger.inbound.commands import Standing
from semel.ledger.storage.sql import Row
from semel.ledger.transcript.entries import load
from semel.text.shorten import shorten_to_line

MESSAGE_CHARS = 300  # characters of one message in a history

_ENDS = {"done": "ended well", "failed": "failed", "cancelled": "was stopped", "lost": "was lost", "running": "runs"}


def status(now: Standing, model: str | None = None) -> str:
    """The reply to `/status`. `model`: the agent's model if its configuration fixes it."""
    row, last = now.row, now.last
    state = "a turn runs" if row.turn is not None else "something waits" if row.wake_at is not None else "idle"
    lines = [f"Session {row.key}" + (f": {row.title}" if row.title else ""), f"Agent: {row.agent}", f"State: {state}"]
    if now.waiting:
        lines.append(f"Waiting: {now.waiting} message{'s' if now.waiting > 1 else ''}")
    for name in ("mode", "model"):
        fixed = model if name == "model" else None
        if current := fixed or choices(now.about, name)[0]:
            lines.append(f"{name.capitalize()}: {current}")
    if row.busy is not None:
        lines.append(f"What is said during a turn: {row.busy}")
    if row.chapter > 1:
        lines.append(f"Chapter: {row.chapter}")
    if last is not None:
        lines.append(f"Last turn: t{last.id} {_ENDS[last.state]}" + (f" ({last.error})" if last.error else ""))
    return "\n".join(lines)


def history(rows: Sequence[Row]) -> str:
    """The reply to `/history`: the last messages, one per line; long ones are shortened visibly."""
    if not rows:
        return "Nothing was said in this chapter yet."
    return "\n".join(f"{_who(row)}: {shorten_to_line(row.text, MESSAGE_CHARS)}" for row in rows)


def _who(row: Row) -> str:
    more = load(row.more)
    return str(more.get("sender") or (more.get("kind") if row.role == "event" else None) or row.role)
