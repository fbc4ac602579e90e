"""Turn a room's events into inbox events: look up the originals that they refer to, and download files.

An edit, deletion or reaction gets the address of its original: the room or a thread in it. An edit of another user's
message is ignored; homeservers pass it on, but clients must not apply it (spec, "Event replacements").
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from semel.channels.matrix.address import Place
from semel.channels.matrix.downloads import Fetcher
from semel.channels.matrix.parse import Draft, annotated, place_in, read, unreadable
from semel.channels.matrix.read_client import Reader
from semel.channels.matrix.rooms import Room, Rooms
from semel.channels.matrix.transport import room_path
from semel.gateway.ports import Inbox, Incoming

_log = logging.getLogger("semel.channels.matrix")
REMEMBERED = 10_000
"""Number of events whose author and address are remembered; older ones are requested from the homeserver."""


@dataclass(frozen=True)
class Origin:
    """The author and place of an event. `reaction`: (message id, emoji) if the event is a reaction."""

    sender: str
    place: Place
    reaction: tuple[str, str] | None = None


class EventResolver:
    """Resolves the events of one run."""

    def __init__(self, reader: Reader, rooms: Rooms, inbox: Inbox, fetcher: Fetcher) -> None:
        self.rooms = rooms
        self._reader = reader
        self._inbox = inbox
        self._fetcher = fetcher
        self._origins: OrderedDict[str, Origin] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Hearing {len(self._origins)} events remembered>"

    async def hear(self, room_id: str, events: Sequence[Any]) -> list[Incoming]:
        """The inbox events for a room's events, in order. Raises Offline or Denied."""
        room = self.rooms.known(room_id)
        heard: list[Incoming] = []
        for event in events:
            if room is None:
                room = await self.rooms.learn(room_id)
            draft = self._draft(event, room)
            if draft is not None and (what := await self._finish(draft, room)) is not None:
                heard.append(what)
        return heard

    def _draft(self, event: Any, room: Room) -> Draft | None:
        """Parse one event. A bug of ours makes it unreadable instead of blocking all later events (Law 1)."""
        try:
            room.note([event])
            draft = read(event, room, self._reader.me)
            if isinstance(event, dict) and isinstance(event.get("event_id"), str):
                self._remember(event, room.id)
            return draft
        except Exception as fault:
            _log.exception("an event of %s cannot be read", room.id)
            return Draft(unreadable(event, room, f"the channel failed over it: {type(fault).__name__}"))

    async def _finish(self, draft: Draft, room: Room) -> Incoming | None:
        what = draft.what
        if what.kind == "message":
            if draft.about:
                what = replace(what, mentioned=await self._to_us(draft.about, room))
            if draft.media is not None:
                group = what.address if what.group else ""
                known = what.sender is not None and await self._inbox.known(what.sender, group)
                what = replace(what, files=(await self._fetcher.fetch(draft.media, self._inbox, known),))
            return what
        if what.kind in ("echo", "unreadable"):
            return what
        return await self._where_it_was(what, draft.about[0], room)

    async def _to_us(self, about: Sequence[str], room: Room) -> bool:
        """Whether one of the referenced events is ours: the message replies to us or is in a thread that we began."""
        for id in about:
            origin = await self._origin(id, room)
            if origin is not None and origin.sender == self._reader.me.id:
                return True
        return False

    async def _where_it_was(self, what: Incoming, about: str, room: Room) -> Incoming | None:
        """Give an edit, deletion or reaction the address of its original; None for an edit by somebody else.

        The deletion of a reaction becomes the removal of that reaction.
        """
        origin = await self._origin(about, room)
        if origin is None:
            return what
        assert what.sender is not None
        if what.kind == "edit" and origin.sender != what.sender.id:
            _log.info("an edit by %s of what %s wrote is none", what.sender.id, origin.sender)
            return None
        if what.kind == "delete" and origin.reaction is not None:
            of, emoji = origin.reaction
            below = await self._origin(of, room)
            address = (below or origin).place.address
            return replace(what, kind="reaction", of=of, text=emoji, removed=True, address=address)
        return replace(what, address=origin.place.address)

    async def _origin(self, id: str, room: Room) -> Origin | None:
        """The author and place of an event; None if it is missing or hidden from us. Raises Offline or Denied."""
        if id not in self._origins:
            event = await self._reader.about(room_path(room.id, "event", id))
            if event is None or not isinstance(event.get("sender"), str):
                return None
            self._remember({**event, "event_id": id}, room.id)
        self._origins.move_to_end(id)
        return self._origins[id]

    def _remember(self, event: Any, room: str) -> None:
        """Remember an event's origin. The first version is kept, because a deletion empties later ones."""
        id, sender = event["event_id"], event.get("sender")
        if id in self._origins or not isinstance(sender, str):
            return
        reaction = annotated(event) if event.get("type") == "m.reaction" else None
        self._origins[id] = Origin(sender, place_in(event, room), reaction)
        while len(self._origins) > REMEMBERED:
            self._origins.popitem(last=False)
