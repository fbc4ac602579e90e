"""How a turn or a command ended, in the words with which the editor's prompt is answered."""

from __future__ import annotations

from collections.abc import Iterable

from semel.acp_stream.wire import STOP_REASONS
from semel.text.json_types import Json

TURN_FAILED_KIND = "turn.failed"  # of the notice that a turn failed


def read_stop_reason(ended: Json) -> str:
    """Return ACP's stop reason for how a turn ended (`Ended`)."""
    if ended.get("state") == "cancelled":
        return "cancelled"
    return ended["stop"] if ended.get("stop") in STOP_REASONS else "end_turn"


def has_reply(entries: Iterable[Json], command: Json) -> bool:
    """Return whether Semel has answered this command, which is an entry itself."""
    return any(entry.get("kind") == "command" and entry.get("of") == command["seq"] for entry in entries)


def describe_failure(entries: Iterable[Json], ended: Json) -> str:
    """Return the words in which people are told that a turn failed; if they are not told, its error."""
    turn = ended["turn"]
    notices = (entry["text"] for entry in entries if (entry.get("kind"), entry.get("turn")) == (TURN_FAILED_KIND, turn))
    return str(next(notices, None) or ended.get("error") or "the turn failed")
