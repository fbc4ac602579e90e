"""Read the events that a /sync left out of a room (`limited`), page by page, oldest first.

If we were in the room before, read forwards from our position (the `since` of that /sync, or the pagination token of
the last page that was recorded) to the beginning of the timeline. Each page is recorded with a cursor that holds its
end, so that a killed gateway continues there, and a gap of any length needs the memory of one page.

If the room is new to us, a /sync gives the end of its history, whatever `since` was, and always marks it as limited.
Messages before our invitation were not addressed to us; messages between the invitation and our join were. So read
backwards from the timeline to the invitation, up to `MAX_EVENTS_SINCE_INVITATION` events.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from semel.channels.matrix.account import MatrixReader
from semel.channels.matrix.transport import query, room_path
from semel.text.json_types import Json, list_at, object_at

EVENTS_PER_PAGE = 100
MAX_EVENTS_SINCE_INVITATION = 1000
"""Maximum number of events that are read back to find our invitation to a new room."""
_LAZY = json.dumps({"lazy_load_members": True}, separators=(",", ":"))


class GapUnreadable(Exception):
    """The homeserver does not return the missing events. The message says why."""


async def read_forwards(
    reader: MatrixReader, room: str, since: str, end_position: str
) -> AsyncIterator[tuple[list[Any], list[Any], str]]:
    """Read the pages between two pagination tokens. Yields (state events, events, position after them) for each page.

    Raises GapUnreadable, Offline or Denied.
    """
    position = since
    while True:
        page = await _read_page(
            reader, room, dir="f", limit=str(EVENTS_PER_PAGE), to=end_position, filter=_LAZY, **{"from": position}
        )
        end = page.get("end")
        events = list_at(page, "chunk")
        if events:
            yield list_at(page, "state"), events, end if isinstance(end, str) else position
        if not isinstance(end, str) or end in (position, end_position):
            return
        position = end


async def read_since_invitation(
    reader: MatrixReader, room: str, timeline: list[Any], position: str | None
) -> list[Any]:
    """Return the events of a room that is new to us, from our invitation on, in order.

    `timeline`: the events of the /sync. `position`: the pagination token before them.
    Raises GapUnreadable, Offline or Denied.
    """
    me = reader.me.id
    events = list(timeline)
    while _find_invitation(events, me) is None and position is not None and len(events) < MAX_EVENTS_SINCE_INVITATION:
        page = await _read_page(reader, room, dir="b", limit=str(EVENTS_PER_PAGE), filter=_LAZY, **{"from": position})
        events = list_at(page, "chunk")[::-1] + events
        end = page.get("end")
        position = end if isinstance(end, str) and end != position else None
    return drop_before_invitation(events, me)


def drop_before_invitation(events: list[Any], me: str) -> list[Any]:
    """Return the events from our invitation (or else our join) on; all events if neither is among them."""
    return events[_find_invitation(events, me) or 0 :]


def is_our_join(event: Any, me: str) -> bool:
    """Whether this event is our join, and not just a change of our profile in the room."""
    if not _is_our_membership(event, me) or event["content"].get("membership") != "join":
        return False
    unsigned = object_at(event, "unsigned")
    previous = unsigned.get("prev_content")
    if not isinstance(previous, dict):  # not given: do not take a change of our name for a join
        return "replaces_state" not in unsigned
    return previous.get("membership") != "join"


def is_new_room(events: list[Any], me: str) -> bool:
    """Whether the room is new to us: these events contain our join, and no leave or ban of ours."""
    memberships = [event["content"].get("membership") for event in events if _is_our_membership(event, me)]
    return any(is_our_join(event, me) for event in events) and not {"leave", "ban"} & {
        str(membership) for membership in memberships
    }


async def has_joined_since(reader: MatrixReader, room: str, since: str) -> bool:
    """Whether we joined the room after the position `since`. Raises GapUnreadable, Offline or Denied."""
    me = reader.me.id
    own_memberships = json.dumps({"types": ["m.room.member"], "senders": [me]}, separators=(",", ":"))
    position = since
    while True:
        page = await _read_page(reader, room, dir="f", limit="50", filter=own_memberships, **{"from": position})
        if any(is_our_join(event, me) for event in list_at(page, "chunk")):
            return True
        end = page.get("end")
        if not isinstance(end, str) or end == position:
            return False
        position = end


def _find_invitation(events: list[Any], me: str) -> int | None:
    """Return the index of the invitation that led to our last join; that of the join if there was no invitation.

    Returns None if the events do not contain the join, or not the invitation that led to it.
    """
    join = next((n for n in reversed(range(len(events))) if is_our_join(events[n], me)), None)
    if join is None:
        return None
    previous = object_at(events[join], "unsigned", "prev_content")
    if previous.get("membership") != "invite":
        return join
    return next((n for n in reversed(range(join)) if _is_our_membership(events[n], me)), None)


def _is_our_membership(event: Any, me: str) -> bool:
    return (
        isinstance(event, dict)
        and event.get("type") == "m.room.member"
        and event.get("state_key") == me
        and isinstance(event.get("content"), dict)
    )


async def _read_page(reader: MatrixReader, room: str, **values: str) -> Json:
    page = await reader.get(room_path(room, "messages") + query(**values))
    if page.status >= 300:
        raise GapUnreadable(str(page.refusal()))
    return page.data
