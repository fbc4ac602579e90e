"""Addresses of Matrix conversations.

    !room:example.org                a room, by its id
    !room:example.org:thread-ID      a thread in it; ID is the id of its first message without the "$"
    @ada:example.org                 a person: the direct room with them, found or created
    #room:example.org                a room by its alias, as in semel.toml

Received messages have one of the first two forms. If the second would be too long for an address (because of a long
server name), the thread's messages have the room's address; answers still go into the thread, because the gateway
keeps the thread's id with the answered message.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_ADDRESS_BYTES = 120
"""Maximum bytes of an address (see `ports.Incoming`)."""
_MARK = ":thread-"


@dataclass(frozen=True)
class RoomPlace:
    """A parsed address: a room id, alias or user id, and for a thread the event id of its first message."""

    room: str
    thread: str | None = None

    @property
    def address(self) -> str:
        """The address in text form, as in a session key. It leaves out a thread that would make it too long."""
        if self.thread is None or not self.thread.startswith("$"):
            return self.room
        address = f"{self.room}{_MARK}{self.thread[1:]}"
        return address if len(address.encode("utf-8", "replace")) <= MAX_ADDRESS_BYTES else self.room


def parse_address(address: str) -> RoomPlace:
    """Parse an address. One without a thread is taken as a room, alias or user, whatever it contains."""
    room, mark, thread = address.rpartition(_MARK)
    return RoomPlace(room, f"${thread}") if mark and thread and room.startswith("!") else RoomPlace(address)
