"""The state of rooms: name, members and their display names, encryption.

A room's state is read from the homeserver when the first event arrives, and then kept up to date from /sync.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from semel.channels.matrix.account import MatrixReader
from semel.channels.matrix.transport import room_path
from semel.text.json_types import Json, object_at, value_at

FRESHNESS_S = 40.0
"""Seconds after an answer to /sync for which the state is trusted as current. An answer comes at least every 30 s."""
MAX_DIRECT_MEMBERS = 2
"""Maximum number of members of a direct room; a room with more is a group."""


@dataclass
class Room:
    """The state of one room. `joined`: number of members. `names`: display names by user id, also of former members."""

    id: str
    name: str = ""
    alias: str = ""
    joined: int = 0
    encrypted: bool = False
    names: dict[str, str] = field(default_factory=dict)

    @property
    def is_group(self) -> bool:
        return self.joined > MAX_DIRECT_MEMBERS

    @property
    def title(self) -> str:
        return self.name or self.alias

    def apply_state(self, events: Sequence[Any]) -> None:
        """Apply state events, in order; other events are ignored."""
        for event in events:
            if isinstance(event, dict) and isinstance(event.get("state_key"), str):
                self._apply_one(event.get("type"), event["state_key"], object_at(event, "content"))

    def _apply_one(self, type: Any, key: str, content: Json) -> None:
        match type:
            case "m.room.member":
                self.names[key] = clean_name(content.get("displayname"))
            case "m.room.encryption":
                self.encrypted = True  # encryption cannot be switched off again
            case "m.room.name":
                self.name = clean_name(content.get("name"))
            case "m.room.canonical_alias":
                self.alias = clean_name(content.get("alias"))

    def apply_summary(self, summary: Mapping[str, Any]) -> None:
        """Apply the summary of a /sync, which holds the member count if that changed."""
        joined = summary.get("m.joined_member_count")
        if isinstance(joined, int) and not isinstance(joined, bool):
            self.joined = joined


class Rooms:
    """The states of the rooms that had events since `run` began."""

    def __init__(self, reader: MatrixReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clock = clock
        self._rooms: dict[str, Room] = {}
        self._synced_at = -math.inf

    def __repr__(self) -> str:
        return f"<Rooms {len(self._rooms)} known>"

    def get(self, room: str) -> Room | None:
        """Return the room's state as last seen; None if it was not read yet."""
        return self._rooms.get(room)

    def get_current(self, room: str) -> Room | None:
        """Return the room's state if a /sync was answered less than FRESHNESS_S ago: then it is current. Else None."""
        return self._rooms.get(room) if self._clock() - self._synced_at < FRESHNESS_S else None

    def note_sync(self) -> None:
        """Note that a /sync was answered just now and its state applied."""
        self._synced_at = self._clock()

    def forget(self, room: str) -> None:
        """Forget a room that we have left."""
        self._rooms.pop(room, None)

    async def load(self, id: str) -> Room:
        """Return the room's state. Reads it from the homeserver if it is not known yet. Raises Offline or Denied."""
        if id in self._rooms:
            return self._rooms[id]
        room = Room(id)
        members = object_at(await self._reader.get_json(room_path(id, "joined_members")), "joined")
        room.names = {user: clean_name(value_at(profile, "display_name")) for user, profile in members.items()}
        room.joined = len(room.names)
        for type in ("m.room.name", "m.room.canonical_alias", "m.room.encryption"):
            content = await self._reader.get_state(id, type)
            if content is not None:
                room.apply_state([{"type": type, "state_key": "", "content": content}])
        self._rooms[id] = room
        return room


def clean_name(value: Any) -> str:
    """Return a display name on one line, with at most 200 characters; "" if it is not a string."""
    return " ".join(value.split())[:200] if isinstance(value, str) else ""
