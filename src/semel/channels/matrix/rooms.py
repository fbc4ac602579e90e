"""The state of rooms: name, members and their display names, encryption.

A room's state is read from the homeserver when the first event arrives, and then kept up to date from /sync.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from semel.channels.matrix.read_client import Reader
from semel.channels.matrix.transport import Json, room_path

FRESHNESS_S = 40.0
"""Seconds after an answer to /sync for which the state is trusted as current. An answer comes at least every 30 s."""
DIRECT = 2
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
    def group(self) -> bool:
        return self.joined > DIRECT

    @property
    def title(self) -> str:
        return self.name or self.alias

    def note(self, events: Sequence[Any]) -> None:
        """Apply state events, in order; other events are ignored."""
        for event in events:
            if isinstance(event, dict) and isinstance(event.get("state_key"), str):
                content = event.get("content")
                self._note(event.get("type"), event["state_key"], content if isinstance(content, dict) else {})

    def _note(self, type: Any, key: str, content: Json) -> None:
        match type:
            case "m.room.member":
                self.names[key] = text(content.get("displayname"))
            case "m.room.encryption":
                self.encrypted = True  # encryption cannot be switched off again
            case "m.room.name":
                self.name = text(content.get("name"))
            case "m.room.canonical_alias":
                self.alias = text(content.get("alias"))

    def count(self, summary: Mapping[str, Any]) -> None:
        """Apply the summary of a /sync, which holds the member count if that changed."""
        joined = summary.get("m.joined_member_count")
        if isinstance(joined, int) and not isinstance(joined, bool):
            self.joined = joined


class Rooms:
    """The rooms with events since `run` began."""

    def __init__(self, reader: Reader, now: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._now = now
        self._known: dict[str, Room] = {}
        self._told = -math.inf

    def __repr__(self) -> str:
        return f"<Rooms {len(self._known)} known>"

    def known(self, room: str) -> Room | None:
        """The room's state as last seen; None if it was not read yet."""
        return self._known.get(room)

    def sure(self, room: str) -> Room | None:
        """The room's state if it is certainly current, that is, if a /sync was answered a short time ago; else None."""
        return self._known.get(room) if self._now() - self._told < FRESHNESS_S else None

    def told(self) -> None:
        """Note that a /sync was answered just now and its state applied."""
        self._told = self._now()

    def forget(self, room: str) -> None:
        """Forget a room that we have left."""
        self._known.pop(room, None)

    async def learn(self, id: str) -> Room:
        """The room's state, read from the homeserver if it is not known yet. Raises Offline or Denied."""
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
    """A display name on one line, at most 200 characters; "" if it is not a string."""
    return " ".join(value.split())[:200] if isinstance(value, str) else ""
