"""Make one attempt to send a part: look-ups first, then exactly one visible request.

The request is `PUT .../send/{type}/{Op.key}`. If the same device repeats it, the homeserver creates no second event and
answers with the first one's id. A file is uploaded before; an upload without an event is invisible.

No text is sent to encrypted rooms: it would be readable by the homeservers, while people there believe that it is
encrypted. Deletions are sent, because they have no text.
"""

from __future__ import annotations

import asyncio
import mimetypes
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from semel.channels.matrix import event_content, image_info
from semel.channels.matrix.address import Place, place_of
from semel.channels.matrix.direct_rooms import Direct
from semel.channels.matrix.rooms import Room
from semel.channels.matrix.settings import USER
from semel.channels.matrix.transport import CLIENT, LATER, Json, query, quote, room_path, settle
from semel.channels.matrix.write_client import Writer
from semel.gateway.ports import NotSent, Op, Receipt, Rejected, Unknown

UPLOAD_TIMEOUT_S = 240.0
"""Time limit for the upload of a file, in seconds."""
TYPING_TIMEOUT_MS = 8_000
"""Milliseconds for which the typing indicator is shown; the gateway repeats it while the agent works."""
_KEPT = 200  # uploads whose event may be sent again
_DUPLICATE = "M_DUPLICATE_ANNOTATION"


class Sending:
    """Sends the parts of one account. `known(room)` returns the room's state that `run` holds, or None."""

    def __init__(self, writer: Writer) -> None:
        self.direct = Direct(writer)
        self.settings = writer.settings
        self.known: Callable[[str], Room | None] = unknown
        self._writer = writer
        self._encrypted: set[str] = set()
        self._aliases: dict[str, str] = {}
        self._uploads: OrderedDict[str, str] = OrderedDict()

    async def send(self, op: Op) -> Receipt:
        """Make one attempt to send a part. Raises NotSent, Rejected or Unknown."""
        if op.kind in ("edit", "react", "delete") and not op.target:
            raise Rejected("the message it refers to has no id here")
        place = await self.place(op.address)
        if op.kind == "delete":
            path = room_path(place.room, "redact", op.target or "", op.key)
            return Receipt(str(settle(await self._writer.write("PUT", path, {}), "event_id")["event_id"]))
        await self._readable(place.room)
        if op.kind == "react":
            return await self._react(op, place.room)
        body = await self._content(op, place)
        return Receipt(await self._put(place.room, "m.room.message", op.key, body))

    async def _put(self, room: str, type: str, key: str, body: Json) -> str:
        reply = await self._writer.write("PUT", room_path(room, "send", type, key), body)
        if reply.status == 403:
            self.direct.forget(room)
        return str(settle(reply, "event_id")["event_id"])

    async def _react(self, op: Op, room: str) -> Receipt:
        body = event_content.reaction(op)
        reply = await self._writer.write("PUT", room_path(room, "send", "m.reaction", op.key), body)
        if reply.status == 400 and reply.refusal().code == _DUPLICATE:
            return Receipt(await self._ours(op, room) or str(op.target))
        return Receipt(str(settle(reply, "event_id")["event_id"]))

    async def _ours(self, op: Op, room: str) -> str | None:
        """The event id of our existing reaction with this emoji, or None if it is not found."""
        me = await self._writer.me()
        path = f"/_matrix/client/v1/rooms/{quote(room)}/relations/{quote(str(op.target))}/m.annotation/m.reaction"
        at: dict[str, str] = {}
        for _ in range(20):
            page = await self._writer.about(path + query(limit="100", **at)) or {}
            for event in page.get("chunk") or ():
                if event.get("sender") == me.id and event["content"]["m.relates_to"].get("key") == op.text:
                    return str(event["event_id"])
            if not isinstance(page.get("next_batch"), str):
                return None
            at = {"from": page["next_batch"]}
        return None

    # ------------------------------------------------------------ where

    async def place(self, address: str, make: bool = True) -> Place:
        """Resolve an address to a room id and thread. Creates a direct room if needed. Raises NotSent, Rejected."""
        if address.startswith("#"):
            return Place(await self._by_alias(address))
        if address.startswith("@"):
            if not USER.fullmatch(address):
                raise Rejected(f"{address!r} is no Matrix user; one is like @ada:example.org")
            return Place(await self.direct.open(address))
        if not address.startswith("!"):
            raise Rejected(f"{address!r} is no room (!...), alias (#...) or user (@...)")
        return place_of(address)

    async def _by_alias(self, alias: str) -> str:
        if alias not in self._aliases:
            found = await self._writer.about(f"{CLIENT}/directory/room/{quote(alias)}")
            if found is None or not isinstance(found.get("room_id"), str):
                raise Rejected(f"there is no room {alias}")
            self._aliases[alias] = found["room_id"]
        return self._aliases[alias]

    async def _readable(self, room: str) -> None:
        """Raises Rejected for an encrypted room."""
        known = self.known(room)
        locked = room in self._encrypted or (known is not None and known.encrypted)
        if known is None and not locked:
            locked = await self._writer.about(room_path(room, "state", "m.room.encryption")) is not None
        if locked:
            self._encrypted.add(room)
            raise Rejected("the room is encrypted, and this channel does not send clear text there")

    # ------------------------------------------------------------ what

    async def _content(self, op: Op, place: Place) -> Json:
        text = "m.notice" if self.settings.notices else "m.text"
        if op.kind == "edit":
            return await asyncio.to_thread(event_content.edit, op, text)  # rendering a long text takes up to a second
        related, mentioned = _related(op, place)
        if op.kind == "post":
            return await asyncio.to_thread(event_content.message, op, text, related, mentioned)
        name = op.name or (op.file.name if op.file else "file")
        mime = op.mime or mimetypes.guess_type(name)[0] or "application/octet-stream"
        data = await self._read(op.file)
        info: Json = {"mimetype": mime, "size": len(data)}
        size = image_info.dimensions(data)
        info |= {"w": size[0], "h": size[1]} if size else {}
        mxc = await self._upload(op.key, name, mime, data)
        return event_content.file(op, image_info.kind_of(mime), name, mxc, info, related)

    async def _read(self, file: Path | None) -> bytes:
        if file is None:
            raise Rejected("there is no file in it")
        try:
            if file.stat().st_size > self.settings.file_limit:
                raise Rejected(f"the file is larger than {self.settings.file_limit:,} bytes")
            return await asyncio.to_thread(file.read_bytes)
        except OSError as gone:
            raise Rejected(f"the file cannot be read: {gone.strerror}") from None

    async def _upload(self, key: str, name: str, mime: str, data: bytes) -> str:
        """Upload a file and return its mxc address. A failure is NotSent: an upload without an event is invisible."""
        if key in self._uploads:
            return self._uploads[key]
        path = f"/_matrix/media/v3/upload{query(filename=name)}"
        try:
            reply = await self._writer.write("POST", path, data, mime=mime, timeout=UPLOAD_TIMEOUT_S)
            mxc = str(settle(reply, "content_uri")["content_uri"])
        except Unknown as lost:
            raise NotSent(f"the file did not arrive: {lost}") from None
        self._uploads[key] = mxc
        while len(self._uploads) > _KEPT:
            self._uploads.popitem(last=False)
        return mxc

    # ------------------------------------------------------------ typing

    async def typing(self, address: str) -> None:
        """Show the typing indicator in a room. Addresses of people and aliases are ignored, to create no room."""
        if not address.startswith("!"):
            return
        me = await self._writer.me()
        path = room_path(place_of(address).room, "typing", me.id)
        reply = await self._writer.write("PUT", path, {"typing": True, "timeout": TYPING_TIMEOUT_MS}, timeout=10.0)
        if reply.status >= 300:
            raise NotSent(str(reply.refusal()), LATER)


def _related(op: Op, place: Place) -> tuple[Json | None, str | None]:
    """(`m.relates_to`, the user replied to). In a group, the first part is a reply to the answered message."""
    answers = op.answers
    there = answers is not None and answers.data.get("room") == place.room
    thread = place.thread or (answers.data.get("thread") if answers is not None and there else None)
    if isinstance(thread, str):
        last = answers.id if answers is not None and there else thread
        reply = {"m.in_reply_to": {"event_id": last}, "is_falling_back": True}
        return {"rel_type": "m.thread", "event_id": thread, **reply}, None
    if answers is None or not there or not answers.data.get("group") or op.n:
        return None, None
    return {"m.in_reply_to": {"event_id": answers.id}}, answers.sender or None


def unknown(room: str) -> Room | None:
    """The `known` function while `run` is not running: no room's state is known."""
    return None
