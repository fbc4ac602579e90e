"""The /sync loop, and the order in which events and cursors are put into the inbox.

    /sync from the cursor -> put left-out events, page by page -> put {events, next cursor} at once -> /sync ...

The next /sync begins only after the put has returned. A gateway that is killed at any point gets the same events again;
repeated ones are recognized by their event ids (Law 1).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from semel.channels.matrix import gaps
from semel.channels.matrix.cursor import Cursor
from semel.channels.matrix.invitations import Invitations
from semel.channels.matrix.read_client import Reader
from semel.channels.matrix.resolve_events import EventResolver
from semel.channels.matrix.transport import CLIENT, Json, query
from semel.gateway.ports import Inbox, Incoming, Offline

_log = logging.getLogger("semel.channels.matrix")
POLL = 30.0
"""Seconds for which the homeserver may hold a /sync without news."""
TIMELINE = 50
"""Maximum number of events per room in one answer; further ones are read page by page."""

_NOTHING: Json = {"types": []}
_FILTER: Json = {
    "presence": _NOTHING,
    "account_data": _NOTHING,
    "room": {
        "ephemeral": _NOTHING,
        "account_data": _NOTHING,
        "timeline": {"limit": TIMELINE, "lazy_load_members": True},
        "state": {"lazy_load_members": True, "include_redundant_members": True},
    },
}
_PRESENT: Json = {**_FILTER, "room": {**_FILTER["room"], "timeline": {"limit": 1}, "state": _NOTHING}}
"""Filter of the first /sync, which starts at the present: pending invitations, but no history."""


class Sync:
    """The loop of one run. `cursor` is the cursor that was put last."""

    def __init__(self, reader: Reader, hearing: EventResolver, invitations: Invitations, inbox: Inbox) -> None:
        self.cursor: Cursor
        self._reader = reader
        self._hearing = hearing
        self._invitations = invitations
        self._inbox = inbox

    async def run(self, cursor: Cursor | None) -> None:
        """Until cancelled. Raises Offline, Denied, and what the inbox raises."""
        if cursor is None:
            await self._begin()
        else:
            self.cursor = cursor
        wait = 0.0
        while True:
            answer = await self._ask(self.cursor.since, _FILTER, wait)
            if answer is None:
                await self._begin_anew()
                continue
            await self._take(answer)
            self._hearing.rooms.told()
            if wait == 0.0:
                self._inbox.online()
            wait = POLL

    async def _begin(self, lost: tuple[Incoming, ...] = ()) -> None:
        """Start at the present, with the invitations that are pending. `lost`: events to put with the first cursor."""
        answer = await self._ask(None, _PRESENT, 0.0)
        if answer is None:
            raise Offline("the homeserver does not answer a first /sync")
        await self._invitations.note(_part(answer, "invite"), self._reader.me.id)
        await self._put(lost, self._cursor(answer["next_batch"]))

    async def _begin_anew(self) -> None:
        """Start again at the present, since the homeserver lost our token (it was reinstalled or restored).

        An unreadable event records that messages may be missing.
        """
        _log.error("the homeserver does not know where we were: it is read from now on")
        why = "the homeserver does not know its own token any more: what was said since then may be missing"
        lost = Incoming("unreadable", f"lost:{self.cursor.since}"[:500], raw=self.cursor.dump().encode(), why=why)
        await self._begin((lost,))

    async def _ask(self, since: str | None, filter: Json, wait: float) -> Json | None:
        """The answer to one /sync; None if the homeserver does not know the token. Raises Offline or Denied."""
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
            raise Offline("the homeserver's answer to /sync is none")
        return reply.data

    # ------------------------------------------------------------ one answer

    async def _take(self, answer: Json) -> None:
        joined, left = _part(answer, "join"), _part(answer, "leave")
        heard: list[Incoming] = []
        for room, told in joined.items():
            if isinstance(told, dict):
                heard += await self._room(room, told)
        for room in left:
            self._hearing.rooms.forget(room)
        for room in (*joined, *left):
            self._invitations.gone(room)
        await self._invitations.note(_part(answer, "invite"), self._reader.me.id)
        after = self._cursor(answer["next_batch"])
        if heard or after != self.cursor:
            await self._put(heard, after)
        await self._invitations.answer()

    async def _room(self, room: str, told: Json) -> list[Incoming]:
        """The events of one room that are still to be put, after its left-out ones were put."""
        timeline = told.get("timeline") if isinstance(told.get("timeline"), dict) else {}
        assert isinstance(timeline, dict)
        events = timeline.get("events") if isinstance(timeline.get("events"), list) else []
        assert isinstance(events, list)
        if (known := self._hearing.rooms.known(room)) is not None:
            known.note(_events(told.get("state")))
            known.count(told["summary"] if isinstance(told.get("summary"), dict) else {})
        if timeline.get("limited"):
            before = timeline.get("prev_batch")
            events = await self._close(room, events, before if isinstance(before, str) else None)
        elif gaps.arrives(events, self._reader.me.id):
            events = gaps.after_invitation(events, self._reader.me.id)
        return await self._hearing.hear(room, events) if events else []

    async def _close(self, room: str, events: list[Any], before: str | None) -> list[Any]:
        """Put the left-out events of a room; returns the timeline events that are still to be put."""
        me = self._reader.me.id
        try:
            came = any(gaps.enters(event, me) for event in events)
            if came or await gaps.came_since(self._reader, room, self.cursor.since):
                return await gaps.since_invited(self._reader, room, events, before)
            start = self.cursor.gaps.get(room, self.cursor.since)
            if before is not None:
                async for state, page, behind in gaps.forwards(self._reader, room, start, before):
                    if (known := self._hearing.rooms.known(room)) is not None:
                        known.note(state)
                    heard = await self._hearing.hear(room, page)
                    await self._put(heard, replace(self.cursor, gaps={**self.cursor.gaps, room: behind}))
        except gaps.GapUnreadable as torn:
            _log.error("what was said in %s meanwhile may be missing: %s", room, torn)
            why = f"the homeserver does not tell what was said there since {self.cursor.since}: {torn}"
            key = f"gap:{room}:{self.cursor.since}"[:500]
            await self._put([Incoming("unreadable", key, room, why=why)], self.cursor)
        return gaps.after_invitation(events, me)

    def _cursor(self, since: str) -> Cursor:
        return Cursor(self._reader.me.id, since, {}, dict(self._invitations.waiting))

    async def _put(self, heard: Sequence[Incoming], cursor: Cursor) -> None:
        await self._inbox.put(tuple(heard), cursor.dump())
        self.cursor = cursor


def _part(answer: Json, name: str) -> Mapping[str, Any]:
    rooms = answer.get("rooms")
    part = rooms.get(name) if isinstance(rooms, dict) else None
    return part if isinstance(part, dict) else {}


def _events(part: Any) -> list[Any]:
    events = part.get("events") if isinstance(part, dict) else None
    return events if isinstance(events, list) else []
