"""Search a room for a part whose send was not confirmed, backwards from its newest event.

A part is recognized by its transaction id, which the homeserver shows only to the sending device, or by the key in the
event's content, which everybody sees. Events older than `since` are not searched; ten minutes of clock difference to
the homeserver are allowed.
"""

from __future__ import annotations

import json
from typing import Any

from semel.channels.matrix.parse import KEY
from semel.channels.matrix.send import Sending
from semel.channels.matrix.transport import query, room_path
from semel.channels.matrix.write_client import Writer
from semel.gateway.ports import Op, Receipt, Unknown

CLOCK_SKEW_S = 600.0
PAGE = "100"


async def find(writer: Writer, sending: Sending, op: Op, since: float) -> Receipt | None:
    """The part's receipt, or None if it was certainly not sent since then. Raises NotSent, Rejected or Unknown."""
    me = await writer.me()
    room = await _room(sending, op.address)
    if room is None:
        return None
    only = json.dumps({"senders": [me.id]}, separators=(",", ":"))
    at: dict[str, str] = {}
    while True:
        reply = await writer.read(room_path(room, "messages") + query(dir="b", limit=PAGE, filter=only, **at))
        if reply.status >= 300 or not isinstance(reply.data.get("chunk"), list):
            raise Unknown(f"the homeserver does not show the room: {reply.refusal()}")
        for event in reply.data["chunk"]:
            if _is(event, me.id, op.key):
                return Receipt(str(event["event_id"]))
            if isinstance(event, dict) and event.get("origin_server_ts", 0) / 1000 < since - CLOCK_SKEW_S:
                return None
        end = reply.data.get("end")
        if not isinstance(end, str) or end == at.get("from"):
            return None
        at = {"from": end}


def _is(event: Any, me: str, key: str) -> bool:
    if not isinstance(event, dict) or event.get("sender") != me:
        return False
    return key in (_field(event.get("unsigned"), "transaction_id"), _field(event.get("content"), KEY))


def _field(part: Any, name: str) -> Any:
    return part.get(name) if isinstance(part, dict) else None


async def _room(sending: Sending, address: str) -> str | None:
    """The id of the room to search. `None` if the direct room does not exist, so nothing can have been sent there."""
    if address.startswith("@"):
        return await sending.direct.find(address)
    return (await sending.place(address)).room
