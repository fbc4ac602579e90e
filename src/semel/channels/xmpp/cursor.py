"""The saved position in each archive, stored as text by the inbox.

    {"own": {"id": "1763...", "at": 1763793600.0}, "rooms": {"lobby@conference.example.org": {"id": "...", "at": ...}}}

`id` is the archive's id of the last message that was put, or "" if the archive was empty. `at` is that message's time
in the archive, in seconds since the epoch; reading continues from it if the archive no longer has the id.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

OWN = ""
"""Key of the account's own archive; the archives of rooms are keyed by address."""


@dataclass(frozen=True)
class Mark:
    """The position after this message of an archive."""

    id: str
    at: float


@dataclass
class Cursor:
    """The position in each archive; updated as pages are put."""

    marks: dict[str, Mark] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str | None) -> Cursor:
        """Parse a stored cursor. A malformed one is treated as empty: reading starts at the present."""
        try:
            told = json.loads(text or "{}")
            marks = {OWN: _mark(told["own"])} if "own" in told else {}
            marks |= {room: _mark(each) for room, each in told.get("rooms", {}).items()}
        except (ValueError, TypeError, LookupError, AttributeError):
            return cls()
        return cls(marks)

    def keep(self, archives: set[str]) -> None:
        """Drop the positions of all other archives. A room that is configured again later starts at its present."""
        self.marks = {name: mark for name, mark in self.marks.items() if name in archives}

    def __str__(self) -> str:
        rooms = {room: _told(mark) for room, mark in sorted(self.marks.items()) if room != OWN}
        own = {"own": _told(self.marks[OWN])} if OWN in self.marks else {}
        return json.dumps({**own, "rooms": rooms}, ensure_ascii=False, separators=(",", ":"))


def _mark(told: dict[str, Any]) -> Mark:
    if not isinstance(told["id"], str):
        raise TypeError("an archive's id is a string")
    return Mark(told["id"], float(told["at"]))


def _told(mark: Mark) -> dict[str, Any]:
    return {"id": mark.id, "at": round(mark.at, 3)}
