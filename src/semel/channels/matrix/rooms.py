"""What is known of a room: its name, who is in it by which name, whether it is encrypted.

Read once, when something happens in it for the first time, and kept up to date from what /sync tells.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from semel.channels.matrix.read_client import Reader
from semel.channels.matrix.transport import Json, room_path

FRESH = 40.0
"""Seconds after an answer to /sync, which comes at least every 30 s, for which what it told counts as the present."""
DIRECT = 2
"""Members of a room in which nobody else reads what two people say."""


@dataclass
class Room:
    """`joined`: how many members. `names`: of those who are in it, or wrote there."""

    id: str
    name: str = ""
    alias: str = ""
    joined: int = 0
    encrypted: bool = False
    names: dict[str, str] = field(default_factory=dict)

    @property
    def group(self) -> bool:
        return self.joined > DIRECT

    @property
    def title(self) -> str:
        return self.name or self.alias

    def note(self, events: Sequence[Any]) -> None:
        """State events, in order."""
        for event in events:
            if isinstance(event, dict) and isinstance(event.get("state_key"), str):
                content = event.get("content")
                self._note(event.get("type"), event["state_key"], content if isinstance(content, dict) else {})

    def _note(self, type: Any, key: str, content: Json) -> None:
        match type:
            case "m.room.member":
                self.names[key] = text(content.get("displayname"))
            case "m.room.encryption":
                self.encrypted = True  # it is for ever
            case "m.room.name":
                self.name = text(content.get("name"))
            case "m.room.canonical_alias":
                self.alias = text(content.get("alias"))

    def count(self, summary: Mapping[str, Any]) -> None:
        """A /sync's summary names what changed."""
        joined = summary.get("m.joined_member_count")
        if isinstance(joined, int) and not isinstance(joined, bool):
            self.joined = joined


class Rooms:
    """Those in which something happened since `run` began."""

    def __init__(self, reader: Reader, now: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._now = now
        self._known: dict[str, Room] = {}
        self._told = -math.inf

    def __repr__(self) -> str:
        return f"<Rooms {len(self._known)} known>"

    def known(self, room: str) -> Room | None:
        """As far as the homeserver has told."""
        return self._known.get(room)

    def sure(self, room: str) -> Room | None:
        """What is known of it, if the homeserver told something only just now: then it has told all."""
        return self._known.get(room) if self._now() - self._told < FRESH else None

    def told(self) -> None:
        """An answer to /sync came, and what it says was noted."""
        self._told = self._now()

    def forget(self, room: str) -> None:
        """We are not in it any more."""
        self._known.pop(room, None)

    async def learn(self, id: str) -> Room:
        """The room as it is now. Raises Offline or Denied."""
        if id in self._known:
            return self._known[id]
        room = Room(id)
        members = (await self._reader.about(room_path(id, "joined_members")) or {}).get("joined")
        for user, profile in (members if isinstance(members, dict) else {}).items():
            room.names[user] = text(profile.get("display_name") if isinstance(profile, dict) else "")
        room.joined = len(room.names)
        for type in ("m.room.name", "m.room.canonical_alias", "m.room.encryption"):
            content = await self._reader.state(id, type)
            if content is not None:
                room.note([{"type": type, "state_key": "", "content": content}])
        self._known[id] = room
        return room


def text(value: Any) -> str:
    """A name as people see it, on one line; "" for what is none."""
    return " ".join(value.split())[:200] if isinstance(value, str) else ""
