"""Make one attempt to send a part (look-ups first, then exactly one visible request), and find a part that was sent.

The request is `PUT .../send/{type}/{Op.key}`. If the same device repeats it, the homeserver creates no second event and
answers with the first one's id. A file is uploaded first; an upload without an event is invisible. With a token and no
`device`, this may be another device than before the start: a part of that time is first looked for in its room.

No text is sent to encrypted rooms: it would be readable by the homeservers, while people there believe that it is
encrypted. Deletions are sent, because they have no text.

`find` searches a room for a part whose send was not confirmed, backwards from its newest event. A part is recognized by
its transaction id, which the homeserver shows only to the sending device, or by the key in the event's content, which
everybody sees. Events older than `since` are not searched; ten minutes of clock difference to the homeserver are
allowed.
"""

from __future__ import annotations

import asyncio
import json
import mimetypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from semel.channels.matrix import event_content
from semel.channels.matrix.account import MatrixWriter
from semel.channels.matrix.address import RoomPlace, parse_address
from semel.channels.matrix.direct_rooms import DirectRooms
from semel.channels.matrix.parse import PART_KEY_FIELD
from semel.channels.matrix.rooms import Room
from semel.channels.matrix.settings import USER
from semel.channels.matrix.transport import CLIENT, MANUAL_RETRY_DELAY_S, check_write, query, quote, room_path
from semel.channels.recent_map import RecentMap
from semel.gateway.ports import NotSent, Op, Receipt, Rejected, Unknown
from semel.text.json_types import Json, value_at

UPLOAD_TIMEOUT_S = 240.0
"""Time limit for the upload of a file, in seconds."""
TYPING_TIMEOUT_MS = 8_000
"""Milliseconds for which the typing indicator is shown; the gateway repeats it while the agent works."""
CLOCK_SKEW_S = 600.0
"""Seconds by which the homeserver's clock may be behind ours; `find` searches from that much earlier."""
_PAGE = "100"
_MAX_REMEMBERED_UPLOADS = 200  # uploads whose event may be sent again
_DUPLICATE = "M_DUPLICATE_ANNOTATION"


class MatrixSender:
    """Sends the parts of one account. `get_room(room_id)` returns the room's state as `run` knows it, or None."""

    def __init__(self, writer: MatrixWriter) -> None:
        self.direct = DirectRooms(writer)
        self.settings = writer.settings
        self.get_room: Callable[[str], Room | None] = no_room_state
        self._writer = writer
        self._encrypted: set[str] = set()
        self._aliases: dict[str, str] = {}
        self._uploads = RecentMap[str, str](_MAX_REMEMBERED_UPLOADS)
        self._created_at = time.time()

    async def send(self, op: Op) -> Receipt:
        """Make one attempt to send a part. Raises NotSent, Rejected or Unknown."""
        if op.kind in ("edit", "react", "delete") and not op.target:
            raise Rejected("the message it refers to has no id here")
        place = await self.resolve_place(op.address)
        if op.kind == "delete":
            path = room_path(place.room, "redact", op.target or "", op.key)
            return Receipt(str(check_write(await self._writer.write("PUT", path, {}), "event_id")["event_id"]))
        await self._check_readable(place.room)
        if op.kind == "react":
            return await self._react(op, place.room)
        if op.kind != "edit" and not self.settings.has_pinned_device and 0 < op.at < self._created_at:
            try:
                if (receipt := await self.find(op, op.at)) is not None:
                    return receipt
            except Unknown as error:
                raise NotSent(str(error)) from None
        body = await self._make_content(op, place)
        return Receipt(await self._put(place.room, "m.room.message", op.key, body))

    async def _put(self, room: str, type: str, key: str, body: Json) -> str:
        reply = await self._writer.write("PUT", room_path(room, "send", type, key), body)
        if reply.status == 403:
            self.direct.forget(room)
        return str(check_write(reply, "event_id")["event_id"])

    async def _react(self, op: Op, room: str) -> Receipt:
        body = event_content.make_reaction(op)
        reply = await self._writer.write("PUT", room_path(room, "send", "m.reaction", op.key), body)
        if reply.status == 400 and reply.refusal().code == _DUPLICATE:
            return Receipt(await self._find_own_reaction(op, room) or str(op.target))
        return Receipt(str(check_write(reply, "event_id")["event_id"]))

    async def _find_own_reaction(self, op: Op, room: str) -> str | None:
        """Return the event id of our existing reaction with this emoji, or None if it is not found."""
        me = await self._writer.identify()
        path = f"/_matrix/client/v1/rooms/{quote(room)}/relations/{quote(str(op.target))}/m.annotation/m.reaction"
        start: dict[str, str] = {}
        for _ in range(20):
            page = await self._writer.get_json(path + query(limit=_PAGE, **start)) or {}
            for event in page.get("chunk") or ():
                if event.get("sender") == me.id and event["content"]["m.relates_to"].get("key") == op.text:
                    return str(event["event_id"])
            if not isinstance(page.get("next_batch"), str):
                return None
            start = {"from": page["next_batch"]}
        return None

    # ------------------------------------------------------------ destination

    async def resolve_place(self, address: str, make: bool = True) -> RoomPlace:
        """Resolve an address to a room id and thread. Creates a direct room if needed. Raises NotSent, Rejected."""
        if address.startswith("#"):
            return RoomPlace(await self._resolve_alias(address))
        if address.startswith("@"):
            if not USER.fullmatch(address):
                raise Rejected(f"{address!r} is not a Matrix user, like @ada:example.org")
            return RoomPlace(await self.direct.open(address))
        if not address.startswith("!"):
            raise Rejected(f"{address!r} is not a room (!...), an alias (#...) or a user (@...)")
        return parse_address(address)

    async def _resolve_alias(self, alias: str) -> str:
        if alias not in self._aliases:
            entry = await self._writer.get_json(f"{CLIENT}/directory/room/{quote(alias)}")
            if entry is None or not isinstance(entry.get("room_id"), str):
                raise Rejected(f"there is no room {alias}")
            self._aliases[alias] = entry["room_id"]
        return self._aliases[alias]

    async def _check_readable(self, room: str) -> None:
        """Raise Rejected for an encrypted room. Raises NotSent if that cannot be looked up."""
        state = self.get_room(room)
        encrypted = room in self._encrypted or (state is not None and state.encrypted)
        if state is None and not encrypted:
            encrypted = await self._writer.get_json(room_path(room, "state", "m.room.encryption")) is not None
        if encrypted:
            self._encrypted.add(room)
            raise Rejected("the room is encrypted, and this channel does not send clear text there")

    # ------------------------------------------------------------ content

    async def _make_content(self, op: Op, place: RoomPlace) -> Json:
        text = "m.notice" if self.settings.notices else "m.text"
        if op.kind == "edit":
            return await asyncio.to_thread(
                event_content.make_edit, op, text
            )  # rendering a long text takes up to a second
        related, mentioned = _make_relation(op, place)
        if op.kind == "post":
            return await asyncio.to_thread(event_content.make_message, op, text, related, mentioned)
        name = op.name or (op.file.name if op.file else "file")
        mime = op.mime or mimetypes.guess_type(name)[0] or "application/octet-stream"
        data = await self._read_file(op.file)
        info: Json = {"mimetype": mime, "size": len(data)}
        size = event_content.image_size(data)
        info |= {"w": size[0], "h": size[1]} if size else {}
        mxc = await self._upload(op.key, name, mime, data)
        return event_content.make_file_message(op, event_content.msgtype_of(mime), name, mxc, info, related)

    async def _read_file(self, file: Path | None) -> bytes:
        if file is None:
            raise Rejected("there is no file in it")
        try:
            if file.stat().st_size > self.settings.file_limit:
                raise Rejected(f"the file is larger than {self.settings.file_limit:,} bytes")
            return await asyncio.to_thread(file.read_bytes)
        except OSError as error:
            raise Rejected(f"the file cannot be read: {error.strerror}") from None

    async def _upload(self, key: str, name: str, mime: str, data: bytes) -> str:
        """Upload a file and return its mxc address. A failure is NotSent: an upload without an event is invisible."""
        if key in self._uploads:
            return self._uploads[key]
        path = f"/_matrix/media/v3/upload{query(filename=name)}"
        try:
            reply = await self._writer.write("POST", path, data, mime=mime, timeout=UPLOAD_TIMEOUT_S)
            mxc = str(check_write(reply, "content_uri")["content_uri"])
        except Unknown as error:
            raise NotSent(f"the file did not arrive: {error}") from None
        self._uploads[key] = mxc
        return mxc

    # ------------------------------------------------------------ look-up

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Find a part and return its receipt; None if it was certainly not sent after `since`.

        `since`: in seconds since the epoch. Raises NotSent, Rejected or Unknown.
        """
        me = await self._writer.identify()
        room = await self._existing_room(op.address)
        if room is None:
            return None
        own_events = json.dumps({"senders": [me.id]}, separators=(",", ":"))
        start: dict[str, str] = {}
        while True:
            path = room_path(room, "messages") + query(dir="b", limit=_PAGE, filter=own_events, **start)
            reply = await self._writer.read(path)
            if reply.status >= 300 or not isinstance(reply.data.get("chunk"), list):
                raise Unknown(f"the homeserver does not show the room: {reply.refusal()}")
            for event in reply.data["chunk"]:
                if _is_part(event, me.id, op.key):
                    return Receipt(str(event["event_id"]))
                if isinstance(event, dict) and event.get("origin_server_ts", 0) / 1000 < since - CLOCK_SKEW_S:
                    return None
            end = reply.data.get("end")
            if not isinstance(end, str) or end == start.get("from"):
                return None
            start = {"from": end}

    async def _existing_room(self, address: str) -> str | None:
        """Return the id of the room at an address; None if there is no direct room yet, so nothing was sent there."""
        if address.startswith("@"):
            return await self.direct.find(address)
        return (await self.resolve_place(address)).room

    # ------------------------------------------------------------ typing

    async def typing(self, address: str) -> None:
        """Show the typing indicator in a room. Addresses of people and aliases are ignored, to create no room."""
        if not address.startswith("!"):
            return
        me = await self._writer.identify()
        path = room_path(parse_address(address).room, "typing", me.id)
        reply = await self._writer.write("PUT", path, {"typing": True, "timeout": TYPING_TIMEOUT_MS}, timeout=10.0)
        if reply.status >= 300:
            raise NotSent(str(reply.refusal()), MANUAL_RETRY_DELAY_S)


def _make_relation(op: Op, place: RoomPlace) -> tuple[Json | None, str | None]:
    """Return (`m.relates_to` or None, the user to mention or None).

    A part for a thread is related to the thread. In a group, the first part of an answer is a reply.
    """
    answers = op.answers
    in_this_room = answers is not None and answers.data.get("room") == place.room
    thread = place.thread or (answers.data.get("thread") if answers is not None and in_this_room else None)
    if isinstance(thread, str):
        answered = answers.id if answers is not None and in_this_room else thread
        reply = {"m.in_reply_to": {"event_id": answered}, "is_falling_back": True}
        return {"rel_type": "m.thread", "event_id": thread, **reply}, None
    if answers is None or not in_this_room or not answers.data.get("group") or op.n:
        return None, None
    return {"m.in_reply_to": {"event_id": answers.id}}, answers.sender or None


def no_room_state(room: str) -> Room | None:
    """Return None: a sender's `get_room` for the time in which `run` does not run and no room's state is known."""
    return None


def _is_part(event: Any, me: str, key: str) -> bool:
    """Whether an event of a room is the part with this `key`, sent by us. `me`: our user id."""
    keys = value_at(event, "unsigned", "transaction_id"), value_at(event, "content", PART_KEY_FIELD)
    return value_at(event, "sender") == me and key in keys
