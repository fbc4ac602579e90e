"""Turn a room's events into inbox events: look up the originals that they refer to, and download files.

An edit, deletion or reaction gets the address of its original: the room or a thread in it. An edit of another user's
message is ignored; homeservers pass it on, but clients must not apply it (spec, "Event replacements").
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from semel.channels.matrix.account import MatrixReader
from semel.channels.matrix.address import RoomPlace
from semel.channels.matrix.downloads import MatrixFetcher
from semel.channels.matrix.parse import MatrixDraft, find_place, make_unreadable, parse_annotation, parse_event
from semel.channels.matrix.rooms import Room, Rooms
from semel.channels.matrix.transport import room_path
from semel.channels.recent_map import RecentMap
from semel.gateway.ports import Inbox, Incoming

_log = logging.getLogger("semel.channels.matrix")
MAX_REMEMBERED_EVENTS = 10_000
"""Number of events whose author and address are remembered; older ones are requested from the homeserver."""


@dataclass(frozen=True)
class Origin:
    """The author and place of an event. `reaction`: (message id, emoji) if the event is a reaction."""

    sender: str
    place: RoomPlace
    reaction: tuple[str, str] | None = None


class EventResolver:
    """Resolves the events of one run."""

    def __init__(self, reader: MatrixReader, rooms: Rooms, inbox: Inbox, fetcher: MatrixFetcher) -> None:
        self.rooms = rooms
        self._reader = reader
        self._inbox = inbox
        self._fetcher = fetcher
        self._origins = RecentMap[str, Origin](MAX_REMEMBERED_EVENTS)

    def __repr__(self) -> str:
        return f"<EventResolver {len(self._origins)} events remembered>"

    async def resolve(self, room_id: str, events: Sequence[Any]) -> list[Incoming]:
        """Convert a room's events to inbox events, in order. Ignored ones are left out. Raises Offline or Denied."""
        room = self.rooms.get(room_id)
        resolved: list[Incoming] = []
        for event in events:
            if room is None:
                room = await self.rooms.load(room_id)
            draft = self._parse(event, room)
            if draft is not None and (incoming := await self._resolve_draft(draft, room)) is not None:
                resolved.append(incoming)
        return resolved

    def _parse(self, event: Any, room: Room) -> MatrixDraft | None:
        """Parse one event; None if it is ignored. If our code fails, the event is unreadable, and later ones are not
        blocked (Law 1)."""
        try:
            room.apply_state([event])
            draft = parse_event(event, room, self._reader.me)
            if isinstance(event, dict) and isinstance(event.get("event_id"), str):
                self._remember(event, room.id)
            return draft
        except Exception as error:
            _log.exception("an event of %s cannot be read", room.id)
            return MatrixDraft(make_unreadable(event, room, f"the channel failed over it: {type(error).__name__}"))

    async def _resolve_draft(self, draft: MatrixDraft, room: Room) -> Incoming | None:
        incoming = draft.incoming
        if incoming.kind == "message":
            if draft.references:
                incoming = replace(incoming, mentioned=await self._is_addressed_to_us(draft.references, room))
            if draft.media is not None:
                group = incoming.address if incoming.group else ""
                sender_known = incoming.sender is not None and await self._inbox.known(incoming.sender, group)
                incoming = replace(incoming, files=(await self._fetcher.fetch(draft.media, self._inbox, sender_known),))
            return incoming
        if incoming.kind in ("echo", "unreadable"):
            return incoming
        return await self._resolve_target(incoming, draft.references[0], room)

    async def _is_addressed_to_us(self, references: Sequence[str], room: Room) -> bool:
        """Whether one of the referenced events is ours: the message replies to us or is in a thread that we began."""
        for id in references:
            origin = await self._find_origin(id, room)
            if origin is not None and origin.sender == self._reader.me.id:
                return True
        return False

    async def _resolve_target(self, incoming: Incoming, target: str, room: Room) -> Incoming | None:
        """Return an edit, deletion or reaction with the address of its original; None for an edit by somebody else.

        `target`: the original's event id. The deletion of a reaction becomes the removal of that reaction.
        """
        origin = await self._find_origin(target, room)
        if origin is None:
            return incoming
        assert incoming.sender is not None
        if incoming.kind == "edit" and origin.sender != incoming.sender.id:
            _log.info("ignored an edit by %s of a message by %s", incoming.sender.id, origin.sender)
            return None
        if incoming.kind == "delete" and origin.reaction is not None:
            message, emoji = origin.reaction
            message_origin = await self._find_origin(message, room)
            address = (message_origin or origin).place.address
            return replace(incoming, kind="reaction", of=message, text=emoji, removed=True, address=address)
        return replace(incoming, address=origin.place.address)

    async def _find_origin(self, id: str, room: Room) -> Origin | None:
        """Find the author and place of an event of this room; None if it is missing or hidden from us.

        None also if it is one of another room: a reaction or an edit must not reach that room's conversation. Raises
        Offline or Denied.
        """
        if id not in self._origins:
            event = await self._reader.get_json(room_path(room.id, "event", id))
            if event is None or not isinstance(event.get("sender"), str):
                return None
            self._remember({**event, "event_id": id}, room.id)
        self._origins.move_to_end(id)
        origin = self._origins[id]
        return origin if origin.place.room == room.id else None

    def _remember(self, event: Any, room: str) -> None:
        """Remember who sent an event and where. The first version is kept, because a deletion empties later ones."""
        id, sender = event["event_id"], event.get("sender")
        if id in self._origins or not isinstance(sender, str):
            return
        reaction = parse_annotation(event) if event.get("type") == "m.reaction" else None
        self._origins[id] = Origin(sender, find_place(event, room), reaction)
