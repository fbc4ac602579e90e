"""The text replies to `/status` and `/history`, and the modes and models that an agent reported."""

from __future__ import annotations

from collections.abc import Sequence

from semel.ledger.inbound.commands import SessionStatus
from semel.ledger.storage.rows import EntryRow
from semel.ledger.transcript.entries import load
from semel.text.json_types import Json
from semel.text.wellformed import shorten_to_line

MESSAGE_CHARS = 300  # characters of one message in a history

_ENDS = {"done": "ended well", "failed": "failed", "cancelled": "was stopped", "lost": "was lost", "running": "runs"}


def format_status(standing: SessionStatus, model: str | None = None) -> str:
    """Return the reply to /status. `standing`: the session's state. `model`: the agent's model if it is configured."""
    row, last = standing.row, standing.last
    state = "a turn runs" if row.turn is not None else "something waits" if row.wake_at is not None else "idle"
    lines = [f"Session {row.key}" + (f": {row.title}" if row.title else ""), f"Agent: {row.agent}", f"State: {state}"]
    if standing.waiting:
        lines.append(f"Waiting: {standing.waiting} message{'s' if standing.waiting > 1 else ''}")
    for name in ("mode", "model"):
        fixed = model if name == "model" else None
        if current := fixed or read_choices(standing.about, name)[0]:
            lines.append(f"{name.capitalize()}: {current}")
    if row.busy is not None:
        lines.append(f"Messages during a turn: {row.busy}")
    if row.chapter > 1:
        lines.append(f"Chapter: {row.chapter}")
    if last is not None:
        lines.append(f"Last turn: t{last.id} {_ENDS[last.state]}" + (f" ({last.error})" if last.error else ""))
    return "\n".join(lines)


def format_history(rows: Sequence[EntryRow]) -> str:
    """Return the reply to /history: one line for each message; long ones are shortened visibly."""
    if not rows:
        return "Nothing was said in this chapter yet."
    return "\n".join(f"{_author(row)}: {shorten_to_line(row.text, MESSAGE_CHARS)}" for row in rows)


def _author(row: EntryRow) -> str:
    more = load(row.more)
    return str(more.get("sender") or (more.get("kind") if row.role == "event" else None) or row.role)


def read_choices(about: Json, kind: str) -> tuple[str | None, dict[str, str]]:
    """Return (the current id or None, {id: name}) of the modes or models that an agent reported.

    `about`: the session's data about its agent. `kind`: "mode" or "model". The agent reports them as ACP session modes
    ("availableModes"), models ("availableModels") or config options ("options").
    """
    reported = about.get(f"{kind}s")
    reported = reported if isinstance(reported, dict) else {}
    offered: dict[str, str] = {}
    for choice in reported.get(f"available{kind.capitalize()}s") or reported.get("options") or ():
        id = choice.get(f"{kind}Id") or choice.get("value") or choice.get("id")
        if id:
            offered[str(id)] = str(choice.get("name") or id)
    current = about.get(kind) or reported.get(f"current{kind.capitalize()}Id") or reported.get("currentValue")
    return (None if current is None else str(current)), offered


def find_choice(choice: str, offered: dict[str, str]) -> str | None:
    """Return the id of the choice that a person means; None if no choice, or more than one, matches.

    `choice`: an id or a name, in any letter case. `offered`: {id: name}.
    """
    if choice in offered:
        return choice
    same = [id for id, offered_name in offered.items() if choice.casefold() in (id.casefold(), offered_name.casefold())]
    return same[0] if len(same) == 1 else None
