"""From events to what is put: originals that an event refers to are looked up, files are fetched.

An edit, a deletion or a reaction is heard where its original stands, in the room or in a thread of it. An edit of what
somebody else wrote is none (spec, "Event replacements"): homeservers let it pass, clients must not.
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
"""Events whose writer and place are remembered; of older ones the homeserver is asked."""


@dataclass(frozen=True)
class Origin:
    """Who wrote an event, and where. `reaction`: to which message, and which emoji."""

    sender: str
    place: Place
    reaction: tuple[str, str] | None = None


class Hearing:
    """One run's way from events to the inbox."""

    def __init__(self, reader: Reader, rooms: Rooms, inbox: Inbox, fetcher: Fetcher) -> None:
        self.rooms = rooms
        self._reader = reader
        self._inbox = inbox
        self._fetcher = fetcher
        self._origins: OrderedDict[str, Origin] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Hearing {len(self._origins)} events remembered>"

    async def hear(self, room_id: str, events: Sequence[Any]) -> list[Incoming]:
        """What people did, in order. Raises Offline or Denied."""
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
        """What the event tells. A fault of ours over it must not stop everything behind it."""
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
        """Whether it replies to us, or stands in a thread that we began."""
        for id in about:
            origin = await self._origin(id, room)
            if origin is not None and origin.sender == self._reader.me.id:
                return True
        return False

    async def _where_it_was(self, what: Incoming, about: str, room: Room) -> Incoming | None:
        """An edit, a deletion or a reaction."""
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
        """None: it is not there, or not for us. Raises Offline or Denied."""
        if id not in self._origins:
            event = await self._reader.about(room_path(room.id, "event", id))
            if event is None or not isinstance(event.get("sender"), str):
                return None
            self._remember({**event, "event_id": id}, room.id)
        self._origins.move_to_end(id)
        return self._origins[id]

    def _remember(self, event: Any, room: str) -> None:
        """The first sight holds: later ones may have been emptied by a deletion."""
        id, sender = event["event_id"], event.get("sender")
        if id in self._origins or not isinstance(sender, str):
            return
        reaction = annotated(event) if event.get("type") == "m.reaction" else None
        self._origins[id] = Origin(sender, place_in(event, room), reaction)
        while len(self._origins) > REMEMBERED:
            self._origins.popitem(last=False)
