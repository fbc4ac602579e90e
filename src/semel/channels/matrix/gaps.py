"""Read the events that a /sync left out of a room (`limited`), page by page, oldest first.

If we were in the room before, read forwards from our position (the `since` of that /sync, or the token of the last page
put) to the beginning of the timeline. Each page is put with a cursor that holds its end, so that a killed gateway
continues there, and a gap of any length needs the memory of one page.

If the room is new to us, a /sync gives the end of its history, whatever `since` was, and always marks it as limited.
Messages before our invitation were not addressed to us; messages between the invitation and our join were. So read
backwards from the timeline to the invitation, up to `MAX_EVENTS_SINCE_INVITATION` events.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from semel.channels.matrix.read_client import Reader
from semel.channels.matrix.transport import Json, query, room_path

PAGE = 100
MAX_EVENTS_SINCE_INVITATION = 1000
"""Maximum number of events that are read back to find our invitation to a new room."""
_LAZY = json.dumps({"lazy_load_members": True}, separators=(",", ":"))


class GapUnreadable(Exception):
    """The homeserver does not return the missing events. The message says why."""


async def forwards(reader: Reader, room: str, since: str, to: str) -> AsyncIterator[tuple[list[Any], list[Any], str]]:
    """Pages from the token `since` to the token `to`: (state events, events, token after them).

    Raises GapUnreadable, Offline or Denied.
    """
    at = since
    while True:
        page = await _page(reader, room, dir="f", limit=str(PAGE), to=to, filter=_LAZY, **{"from": at})
        end = page.get("end")
        events = _list(page.get("chunk"))
        if events:
            yield _list(page.get("state")), events, end if isinstance(end, str) else at
        if not isinstance(end, str) or end in (at, to):
            return
        at = end


async def since_invited(reader: Reader, room: str, timeline: list[Any], before: str | None) -> list[Any]:
    """The events of a room that is new to us, from our invitation on, in order. `before`: token before `timeline`.

    Raises GapUnreadable, Offline or Denied.
    """
    me = reader.me.id
    whole = list(timeline)
    while _invited(whole, me) is None and before is not None and len(whole) < MAX_EVENTS_SINCE_INVITATION:
        page = await _page(reader, room, dir="b", limit=str(PAGE), filter=_LAZY, **{"from": before})
        whole = _list(page.get("chunk"))[::-1] + whole
        end = page.get("end")
        before = end if isinstance(end, str) and end != before else None
    return after_invitation(whole, me)


def after_invitation(events: list[Any], me: str) -> list[Any]:
    """The events from our invitation (else our join) on; all events if neither is among them."""
    return events[_invited(events, me) or 0 :]


def enters(event: Any, me: str) -> bool:
    """Whether this event is our join, and not just a change of our profile in the room."""
    if not _about(event, me) or event["content"].get("membership") != "join":
        return False
    unsigned = event.get("unsigned") if isinstance(event.get("unsigned"), dict) else {}
    before = unsigned.get("prev_content")
    if not isinstance(before, dict):  # left out: a change of our name must not look like a join
        return "replaces_state" not in unsigned
    return before.get("membership") != "join"


def arrives(events: list[Any], me: str) -> bool:
    """Whether the room is new to us: these events contain our join, and no leave or ban of ours."""
    ours = [event["content"].get("membership") for event in events if _about(event, me)]
    return any(enters(event, me) for event in events) and not {"leave", "ban"} & {str(each) for each in ours}


async def came_since(reader: Reader, room: str, since: str) -> bool:
    """Whether we joined the room after the token `since`. Raises GapUnreadable, Offline or Denied."""
    me = reader.me.id
    only = json.dumps({"types": ["m.room.member"], "senders": [me]}, separators=(",", ":"))
    at = since
    while True:
        page = await _page(reader, room, dir="f", limit="50", filter=only, **{"from": at})
        if any(enters(event, me) for event in _list(page.get("chunk"))):
            return True
        end = page.get("end")
        if not isinstance(end, str) or end == at:
            return False
        at = end


def _invited(events: list[Any], me: str) -> int | None:
    """The index of the invitation that led to our last join; that of the join if there was no invitation.

    `None` if the events do not contain it.
    """
    came = next((n for n in reversed(range(len(events))) if enters(events[n], me)), None)
    if came is None:
        return None
    unsigned = events[came].get("unsigned")
    before = unsigned.get("prev_content") if isinstance(unsigned, dict) else None
    if not isinstance(before, dict) or before.get("membership") != "invite":
        return came
    return next((n for n in reversed(range(came)) if _about(events[n], me)), None)


def _about(event: Any, me: str) -> bool:
    return (
        isinstance(event, dict)
        and event.get("type") == "m.room.member"
        and event.get("state_key") == me
        and isinstance(event.get("content"), dict)
    )


async def _page(reader: Reader, room: str, **values: str) -> Json:
    page = await reader.get(room_path(room, "messages") + query(**values))
    if page.status >= 300:
        raise GapUnreadable(str(page.refusal()))
    return page.data


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
