"""Find or create the room for one person, and create it at most once.

Creating a room is not idempotent: after a lost answer, it is unknown whether the room exists. An alias makes it
idempotent: a homeserver reserves an alias for one room, before it creates anything else of the room. So we create the
room with an alias computed from both user ids; a second attempt is refused (M_ROOM_IN_USE), and finds the room of the
first attempt by the alias. The alias is not made canonical, so clients show the person's name instead of it.

Anybody on our homeserver could take that alias first. If the alias leads to a room that we did not create or are not
in, the next alias is tried.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib

from semel.channels.matrix.account import MatrixIdentity, MatrixWriter
from semel.channels.matrix.transport import CLIENT, check_write, query, quote, room_path
from semel.gateway.ports import NotSent, Rejected, Unknown
from semel.text.json_types import Json, list_at

MAX_ALIASES = 5
IN_USE = "M_ROOM_IN_USE"


def alias_of(me: str, user: str, n: int) -> str:
    """Return the local part of the n-th alias (from 0) for the room of these two users."""
    digest = hashlib.blake2b(f"{me}\0{user}".encode("utf-8", "replace"), digest_size=20).digest()
    name = base64.b32encode(digest).decode().lower()
    return f"semel-direct-{name}" + (f"-{n + 1}" if n else "")


class DirectRooms:
    """Finds and creates direct rooms. A found room is remembered until a send there fails."""

    def __init__(self, writer: MatrixWriter) -> None:
        self._writer = writer
        self._rooms: dict[str, str] = {}
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<DirectRooms {len(self._rooms)} people>"

    def forget(self, room: str) -> None:
        """Forget a room where a send failed, so that the next call searches again: we or the person may have left."""
        self._rooms = {user: known_room for user, known_room in self._rooms.items() if known_room != room}

    async def find(self, user: str) -> str | None:
        """Return the id of the room with this person; None if there is none. Raises NotSent or Rejected."""
        async with self._lock:
            return (await self._find(user))[0]

    async def open(self, user: str) -> str:
        """Return the id of the room with this person. Creates it if there is none. Raises NotSent or Rejected."""
        async with self._lock:
            try:
                room, is_listed = await self._find(user)
                me = await self._writer.identify()
                room = room or await self._make(me, user)
                if not is_listed:
                    await self._add_to_list(me, user, room)
                self._rooms[user] = room
                return room
            except Unknown as error:  # if the room was created, the next attempt finds it; no message was sent yet
                raise NotSent(f"the room for {user} may not be ready: {error}") from None

    async def _find(self, user: str) -> tuple[str | None, bool]:
        """Return (the room with this person or None, whether our account data `m.direct` lists that room)."""
        if user in self._rooms:
            return self._rooms[user], True
        me = await self._writer.identify()
        if (room := await self._find_listed(me, user)) is not None:
            return room, True
        for n in range(MAX_ALIASES):
            is_taken, room = await self._find_by_alias(me, user, n)
            if room is not None or not is_taken:
                return room, False
        return None, False

    # ------------------------------------------------------------ finding

    async def _find_listed(self, me: MatrixIdentity, user: str) -> str | None:
        """Return the first room that `m.direct` lists for this person and that both of us are in; None if none is."""
        listed = await self._read_list(me)
        for room in list_at(listed, user):
            if isinstance(room, str) and await self._has_both(me, user, room):
                return room
        return None

    async def _read_list(self, me: MatrixIdentity) -> Json:
        return await self._writer.get_json(self._list_path(me)) or {}

    def _list_path(self, me: MatrixIdentity) -> str:
        return f"{CLIENT}/user/{quote(me.id)}/account_data/m.direct"

    async def _has_both(self, me: MatrixIdentity, user: str, room: str) -> bool:
        """Whether we are in the room, and the user is in it or invited."""
        our_membership = await self._membership(room, me.id)
        return our_membership == "join" and await self._membership(room, user) in ("join", "invite")

    async def _membership(self, room: str, user: str) -> str:
        member = await self._writer.get_json(room_path(room, "state", "m.room.member", user))
        return str((member or {}).get("membership") or "")

    async def _find_by_alias(self, me: MatrixIdentity, user: str, n: int) -> tuple[bool, str | None]:
        """Look up the n-th alias. Returns (whether it is taken, its room or None).

        The room is returned only if we created it and are in it. If the user has left it, they are invited again.
        """
        alias = f"#{alias_of(me.id, user, n)}:{me.server}"
        entry = await self._writer.get_json(f"{CLIENT}/directory/room/{quote(alias)}")
        if entry is None:
            return False, None
        room = str(entry.get("room_id") or "")
        if not room or await self._membership(room, me.id) != "join" or not await self._is_made_by_us(me, room):
            return True, None
        if await self._membership(room, user) not in ("join", "invite"):
            await self._invite(room, user)
        return True, room

    async def _is_made_by_us(self, me: MatrixIdentity, room: str) -> bool:
        """Whether we created the room, by the sender of its creation event or, in old room versions, its content."""
        path = room_path(room, "state", "m.room.create", "")
        creation = await self._writer.get_json(path + query(format="event")) or {}
        return me.id in (creation.get("sender"), creation.get("creator"))

    # ------------------------------------------------------------ making

    async def _make(self, me: MatrixIdentity, user: str) -> str:
        for n in range(MAX_ALIASES):
            body: Json = {
                "preset": "trusted_private_chat",
                "visibility": "private",
                "is_direct": True,
                "invite": [user],
                "room_alias_name": alias_of(me.id, user, n),
                "initial_state": [{"type": "m.room.canonical_alias", "state_key": "", "content": {}}],
            }
            reply = await self._writer.write("POST", f"{CLIENT}/createRoom", body)
            if reply.refusal().code == IN_USE:
                _, room = await self._find_by_alias(me, user, n)
                if room is not None:
                    return room
                continue
            return str(check_write(reply, "room_id")["room_id"])
        raise Rejected(f"no room for {user} can be made: others hold the aliases for it")

    async def _invite(self, room: str, user: str) -> None:
        reply = await self._writer.write("POST", room_path(room, "invite"), {"user_id": user})
        check_write(reply, "")

    async def _add_to_list(self, me: MatrixIdentity, user: str, room: str) -> None:
        """List the room in `m.direct`, for other clients and later look-ups. Ignores failures: the alias suffices."""
        try:
            listed = await self._read_list(me)
            rooms = list_at(listed, user)
            if room not in rooms:
                await self._writer.write("PUT", self._list_path(me), {**listed, user: [*rooms, room]})
        except (NotSent, Unknown):
            pass
