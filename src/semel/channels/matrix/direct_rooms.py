"""Find or create the room for one person, and create it at most once.

Creating a room is not idempotent: after a lost answer, it is unknown whether the room exists. Aliases make it so: a
homeserver reserves an alias for one room, before it creates anything else of the room. So we create the room with an
alias computed from both user ids; a second attempt is refused (M_ROOM_IN_USE) and finds the first one's room by the
alias. The alias is not made canonical, so clients show the person's name instead of it.

Anybody on our homeserver could take that alias first. If the alias leads to a room that we did not create or are not
in, the next alias is tried.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib

from semel.channels.matrix.account import Me
from semel.channels.matrix.transport import CLIENT, Json, query, quote, room_path, settle
from semel.channels.matrix.write_client import Writer
from semel.gateway.ports import NotSent, Rejected, Unknown

ALIASES = 5
IN_USE = "M_ROOM_IN_USE"


def alias_of(me: str, other: str, n: int) -> str:
    """The local part of the n-th alias (from 0) for the room of these two users."""
    digest = hashlib.blake2b(f"{me}\0{other}".encode("utf-8", "replace"), digest_size=20).digest()
    name = base64.b32encode(digest).decode().lower()
    return f"semel-direct-{name}" + (f"-{n + 1}" if n else "")


class Direct:
    """Finds and creates direct rooms. A found room is remembered until a send there fails."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._rooms: dict[str, str] = {}
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Direct {len(self._rooms)} people>"

    def forget(self, room: str) -> None:
        """Forget a room, so that the next call looks again: one of the two may have left it."""
        self._rooms = {user: each for user, each in self._rooms.items() if each != room}

    async def find(self, user: str) -> str | None:
        """The room with this person, or None if there is none. Raises NotSent or Rejected."""
        async with self._lock:
            return (await self._find(user))[0]

    async def open(self, user: str) -> str:
        """The room with this person, made if there is none. Raises NotSent or Rejected."""
        async with self._lock:
            try:
                room, marked = await self._find(user)
                me = await self._writer.me()
                room = room or await self._make(me, user)
                if not marked:
                    await self._mark(me, user, room)
                self._rooms[user] = room
                return room
            except Unknown as lost:  # if the room was created, the next attempt finds it; no message was sent yet
                raise NotSent(f"the room for {user} may not be ready: {lost}") from None

    async def _find(self, user: str) -> tuple[str | None, bool]:
        """The room with this person (or None), and whether our account data (`m.direct`) lists it."""
        if user in self._rooms:
            return self._rooms[user], True
        me = await self._writer.me()
        if (room := await self._marked(me, user)) is not None:
            return room, True
        for n in range(ALIASES):
            taken, room = await self._by_alias(me, user, n)
            if room is not None or not taken:
                return room, False
        return None, False

    # ------------------------------------------------------------ finding

    async def _marked(self, me: Me, user: str) -> str | None:
        """The first room that `m.direct` lists for this person and that both of us are in, or None."""
        marked = await self._direct(me)
        rooms = marked.get(user)
        for room in rooms if isinstance(rooms, list) else ():
            if isinstance(room, str) and await self._both(me, user, room):
                return room
        return None

    async def _direct(self, me: Me) -> Json:
        return await self._writer.about(self._data(me)) or {}

    def _data(self, me: Me) -> str:
        return f"{CLIENT}/user/{quote(me.id)}/account_data/m.direct"

    async def _both(self, me: Me, user: str, room: str) -> bool:
        """Whether we are in the room, and the user is in it or invited."""
        ours = await self._membership(room, me.id)
        return ours == "join" and await self._membership(room, user) in ("join", "invite")

    async def _membership(self, room: str, user: str) -> str:
        member = await self._writer.about(room_path(room, "state", "m.room.member", user))
        return str((member or {}).get("membership") or "")

    async def _by_alias(self, me: Me, user: str, n: int) -> tuple[bool, str | None]:
        """Whether the n-th alias is taken, and its room if that is ours. The user is invited again if they left."""
        alias = f"#{alias_of(me.id, user, n)}:{me.server}"
        found = await self._writer.about(f"{CLIENT}/directory/room/{quote(alias)}")
        if found is None:
            return False, None
        room = str(found.get("room_id") or "")
        if not room or await self._membership(room, me.id) != "join" or not await self._ours(me, room):
            return True, None
        if await self._membership(room, user) not in ("join", "invite"):
            await self._invite(room, user)
        return True, room

    async def _ours(self, me: Me, room: str) -> bool:
        """Whether we created the room: by the sender of its creation event, or in old room versions its content."""
        path = room_path(room, "state", "m.room.create", "")
        first = await self._writer.about(path + query(format="event")) or {}
        return me.id in (first.get("sender"), first.get("creator"))

    # ------------------------------------------------------------ making

    async def _make(self, me: Me, user: str) -> str:
        for n in range(ALIASES):
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
                _, room = await self._by_alias(me, user, n)
                if room is not None:
                    return room
                continue
            return str(settle(reply, "room_id")["room_id"])
        raise Rejected(f"no room for {user} can be made: others hold the aliases for it")

    async def _invite(self, room: str, user: str) -> None:
        reply = await self._writer.write("POST", room_path(room, "invite"), {"user_id": user})
        settle(reply, "")

    async def _mark(self, me: Me, user: str, room: str) -> None:
        """List the room in `m.direct`, for other clients and later look-ups. May fail silently: the alias suffices."""
        try:
            marked = await self._direct(me)
            rooms = marked.get(user)
            rooms = [*rooms, room] if isinstance(rooms, list) and room not in rooms else [room]
            await self._writer.write("PUT", self._data(me), {**marked, user: rooms})
        except (NotSent, Unknown):
            pass
