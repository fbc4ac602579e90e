"""How far each archive was read, as the text that the inbox keeps.

    {"own": {"id": "1763...", "at": 1763793600.0}, "rooms": {"lobby@conference.example.org": {"id": "...", "at": ...}}}

`id` is the archive's id of the last message that was put, "" where the archive was empty. `at` is its time there, in
seconds since the epoch: where the archive has forgotten the id, reading goes on from that time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

OWN = ""
"""The archive of the account itself; the others are those of rooms, by their address."""


@dataclass(frozen=True)
class Mark:
    """Behind this message of one archive."""

    id: str
    at: float


@dataclass
class Cursor:
    """A mark for each archive; it changes as pages are put."""

    marks: dict[str, Mark] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str | None) -> Cursor:
        """Read again. What cannot be read is no cursor: then reading begins at the present."""
        try:
            told = json.loads(text or "{}")
            marks = {OWN: _mark(told["own"])} if "own" in told else {}
            marks |= {room: _mark(each) for room, each in told.get("rooms", {}).items()}
        except (ValueError, TypeError, LookupError, AttributeError):
            return cls()
        return cls(marks)

    def keep(self, archives: set[str]) -> None:
        """Forget the marks of others: a room that is given again later begins at its present then."""
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
