"""What a /sync left out of a room (`limited`), page by page, the old first.

A room we have been in: forwards from where we were (the `since` of that /sync, or what was put of it already) to where
the timeline begins. Each page is put with a cursor that holds how far it goes, so that a gateway which dies in between
goes on there, and a gap of any length costs a page of memory.

A room that is new to us: a /sync gives the end of its history, whatever `since` was, and always calls it limited. What
was said before we were invited was not said to us; what was said between the invitation and our coming was. Backwards
from the timeline to the invitation, at most `OLDEST` events.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from semel.channels.matrix.read_client import Reader
from semel.channels.matrix.transport import Json, query, room_path

PAGE = 100
OLDEST = 1000
"""Events between an invitation and our coming that are heard."""
_LAZY = json.dumps({"lazy_load_members": True}, separators=(",", ":"))


class Torn(Exception):
    """The homeserver does not tell what was left out; the message says why."""


async def forwards(reader: Reader, room: str, since: str, to: str) -> AsyncIterator[tuple[list[Any], list[Any], str]]:
    """Pages of (state, events, token behind them). Raises Torn, Offline or Denied."""
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
    """The timeline of a room that is new to us, from our invitation on, in order. Raises Torn, Offline or Denied."""
    me = reader.me.id
    whole = list(timeline)
    while _invited(whole, me) is None and before is not None and len(whole) < OLDEST:
        page = await _page(reader, room, dir="b", limit=str(PAGE), filter=_LAZY, **{"from": before})
        whole = _list(page.get("chunk"))[::-1] + whole
        end = page.get("end")
        before = end if isinstance(end, str) and end != before else None
    return after_invitation(whole, me)


def after_invitation(events: list[Any], me: str) -> list[Any]:
    """What stands behind our invitation or our coming, as far as it is here."""
    return events[_invited(events, me) or 0 :]


def enters(event: Any, me: str) -> bool:
    """Whether this is our coming into the room: a member event that made us one."""
    if not _about(event, me) or event["content"].get("membership") != "join":
        return False
    unsigned = event.get("unsigned") if isinstance(event.get("unsigned"), dict) else {}
    before = unsigned.get("prev_content")
    if not isinstance(before, dict):  # not told: a change of our name must not look like our coming
        return "replaces_state" not in unsigned
    return before.get("membership") != "join"


def arrives(events: list[Any], me: str) -> bool:
    """Whether the room is new to us: we came into it, and did not leave it just before."""
    ours = [event["content"].get("membership") for event in events if _about(event, me)]
    return any(enters(event, me) for event in events) and not {"leave", "ban"} & {str(each) for each in ours}


async def came_since(reader: Reader, room: str, since: str) -> bool:
    """Whether we came into the room after that token. Raises Torn, Offline or Denied."""
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
    """Where the last invitation stands that we followed; our coming, where none came before it; None: not here."""
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
        raise Torn(str(page.refusal()))
    return page.data


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
