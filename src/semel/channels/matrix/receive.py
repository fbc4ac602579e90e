"""The /sync loop, and the order in which events and cursors are put into the inbox.

    /sync from the cursor -> put omitted events, page by page -> put {events, next cursor} -> /sync ...

Events and the cursor after them are put in one transaction. The next /sync begins only after the put has returned. A
gateway that is killed at any point gets the same events again after its restart; they are recognized as repeats by
their event ids (Law 1).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from semel.channels.matrix import gaps
from semel.channels.matrix.account import MatrixReader
from semel.channels.matrix.invitations import Invitations, Invite
from semel.channels.matrix.resolve_events import EventResolver
from semel.channels.matrix.transport import CLIENT, query
from semel.gateway.ports import Inbox, Incoming, Offline
from semel.text.json_types import Json, list_at, object_at

_log = logging.getLogger("semel.channels.matrix")
POLL_S = 30.0
"""Seconds for which the homeserver may hold a /sync without news."""
MAX_TIMELINE_EVENTS = 50
"""Maximum number of events per room in one answer; further ones are read page by page."""

_NOTHING: Json = {"types": []}
_FILTER: Json = {
    "presence": _NOTHING,
    "account_data": _NOTHING,
    "room": {
        "ephemeral": _NOTHING,
        "account_data": _NOTHING,
        "timeline": {"limit": MAX_TIMELINE_EVENTS, "lazy_load_members": True},
        "state": {"lazy_load_members": True, "include_redundant_members": True},
    },
}
_FIRST_FILTER: Json = {**_FILTER, "room": {**_FILTER["room"], "timeline": {"limit": 1}, "state": _NOTHING}}
"""Filter of the first /sync, which starts at the present: pending invitations, but no history."""


@dataclass(frozen=True)
class SyncCursor:
    """The saved position of the account `user` in /sync; it is valid for no other account.

    `since`: the homeserver's token. `gaps`: for rooms of which the /sync from `since` omits events, the token up to
    which the omitted events have been put. `invites`: the unanswered invitations.
    """

    user: str
    since: str
    gaps: Mapping[str, str] = field(default_factory=dict)  # room -> token
    invites: Mapping[str, Invite] = field(default_factory=dict)  # by room

    def dump(self) -> str:
        """Return the cursor as compact JSON; empty fields are left out."""
        data: dict[str, Any] = {"user": self.user, "since": self.since}
        if self.gaps:
            data["gaps"] = dict(self.gaps)
        if self.invites:
            data["invites"] = {room: [invite.sender, invite.encrypted] for room, invite in self.invites.items()}
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def load(cls, text: str, user: str) -> SyncCursor | None:
        """Parse the text of `dump`; None if it is malformed or belongs to another account."""
        try:
            data = json.loads(text)
            invites = {
                room: Invite(str(sender), bool(encrypted))
                for room, [sender, encrypted] in dict(data.get("invites", {})).items()
            }
            gaps = {str(room): str(token) for room, token in dict(data.get("gaps", {})).items()}
            cursor = cls(str(data["user"]), str(data["since"]), gaps, invites)
        except (ValueError, TypeError, AttributeError, LookupError):
            return None
        return cursor if cursor.user == user else None


class Sync:
    """The /sync loop of one run. `cursor` is the cursor that was saved last."""

    def __init__(self, reader: MatrixReader, resolver: EventResolver, invitations: Invitations, inbox: Inbox) -> None:
        self.cursor: SyncCursor
        self._reader = reader
        self._resolver = resolver
        self._invitations = invitations
        self._inbox = inbox

    async def run(self, cursor: SyncCursor | None) -> None:
        """Receive until cancelled. Raises Offline, Denied, and what the inbox raises."""
        if cursor is None:
            await self._start_at_present()
        else:
            self.cursor = cursor
        wait = 0.0
        while True:
            answer = await self._sync(self.cursor.since, _FILTER, wait)
            if answer is None:
                await self._restart_at_present()
                continue
            await self._process_answer(answer)
            self._resolver.rooms.note_sync()
            if wait == 0.0:
                self._inbox.online()
            wait = POLL_S

    async def _start_at_present(self, events: tuple[Incoming, ...] = ()) -> None:
        """Start at the present, with the invitations that are pending. `events` are put with the first cursor."""
        answer = await self._sync(None, _FIRST_FILTER, 0.0)
        if answer is None:
            raise Offline("the homeserver does not answer a first /sync")
        await self._invitations.add(object_at(answer, "rooms", "invite"), self._reader.me.id)
        await self._put(events, self._cursor(answer["next_batch"]))

    async def _restart_at_present(self) -> None:
        """Start again at the present, since the homeserver lost our token (it was reinstalled or restored).

        An unreadable event records that messages may be missing.
        """
        _log.error("the homeserver does not know where we were: it is read from now on")
        reason = "the homeserver does not know its own token any more: what was said since then may be missing"
        loss = Incoming("unreadable", f"lost:{self.cursor.since}"[:500], raw=self.cursor.dump().encode(), why=reason)
        await self._start_at_present((loss,))

    async def _sync(self, since: str | None, filter: Json, wait: float) -> Json | None:
        """Make one /sync and return its answer; None if the homeserver does not know the token `since`.

        `wait`: seconds for which the homeserver may hold the request. Raises Offline or Denied.
        """
        values = {"filter": json.dumps(filter, separators=(",", ":")), "timeout": str(round(wait * 1000))}
        if since is not None:
            values["since"] = since
        patience = wait or 3 * self._reader.link.timeout  # an answer that covers a long time or many rooms is slow
        reply = await self._reader.get(f"{CLIENT}/sync{query(**values)}", patience)
        if reply.status == 400 and since is not None and reply.refusal().code in ("M_UNKNOWN", "M_INVALID_PARAM"):
            return None
        if reply.status >= 300:
            raise Offline(str(reply.refusal()))
        if not isinstance(reply.data.get("next_batch"), str):
            raise Offline("the homeserver's answer to /sync has no next_batch")
        return reply.data

    # ------------------------------------------------------------ one answer

    async def _process_answer(self, answer: Json) -> None:
        joined, left_rooms = object_at(answer, "rooms", "join"), object_at(answer, "rooms", "leave")
        incoming: list[Incoming] = []
        for room, section in joined.items():
            if isinstance(section, dict):
                incoming += await self._process_room(room, section)
        for room in left_rooms:
            self._resolver.rooms.forget(room)
        for room in (*joined, *left_rooms):
            self._invitations.forget(room)
        await self._invitations.add(object_at(answer, "rooms", "invite"), self._reader.me.id)
        next_cursor = self._cursor(answer["next_batch"])
        if incoming or next_cursor != self.cursor:
            await self._put(incoming, next_cursor)
        await self._invitations.answer()

    async def _process_room(self, room: str, section: Json) -> list[Incoming]:
        """Put the events of this room that the answer omits into the inbox. Returns the others, still to be put."""
        timeline = object_at(section, "timeline")
        events = list_at(timeline, "events")
        if (state := self._resolver.rooms.get(room)) is not None:
            state.apply_state(list_at(section, "state", "events"))
            state.apply_summary(object_at(section, "summary"))
        if timeline.get("limited"):
            previous_token = timeline.get("prev_batch")
            events = await self._close_gap(room, events, previous_token if isinstance(previous_token, str) else None)
        elif gaps.is_new_room(events, self._reader.me.id):
            events = gaps.drop_before_invitation(events, self._reader.me.id)
        return await self._resolver.resolve(room, events) if events else []

    async def _close_gap(self, room: str, events: list[Any], previous_token: str | None) -> list[Any]:
        """Read the events between the last answer and this timeline and put them, page by page.

        Returns the timeline events that are still to be put.
        """
        me = self._reader.me.id
        try:
            is_new_room = any(gaps.is_our_join(event, me) for event in events)
            if is_new_room or await gaps.has_joined_since(self._reader, room, self.cursor.since):
                return await gaps.read_since_invitation(self._reader, room, events, previous_token)
            start = self.cursor.gaps.get(room, self.cursor.since)
            if previous_token is not None:
                async for state, page, page_end in gaps.read_forwards(self._reader, room, start, previous_token):
                    if (room_state := self._resolver.rooms.get(room)) is not None:
                        room_state.apply_state(state)
                    incoming = await self._resolver.resolve(room, page)
                    await self._put(incoming, replace(self.cursor, gaps={**self.cursor.gaps, room: page_end}))
        except gaps.GapUnreadable as error:
            _log.error("what was said in %s meanwhile may be missing: %s", room, error)
            reason = f"the homeserver does not tell what was said there since {self.cursor.since}: {error}"
            key = f"gap:{room}:{self.cursor.since}"[:500]
            await self._put([Incoming("unreadable", key, room, why=reason)], self.cursor)
        return gaps.drop_before_invitation(events, me)

    def _cursor(self, since: str) -> SyncCursor:
        return SyncCursor(self._reader.me.id, since, {}, dict(self._invitations.waiting))

    async def _put(self, incoming: Sequence[Incoming], cursor: SyncCursor) -> None:
        await self._inbox.put(tuple(incoming), cursor.dump())
        self.cursor = cursor
