"""Addresses: where a message is, and where one is to go.

    !room:example.org                a room, by its id
    !room:example.org:thread-ID      a thread of it; ID is the id of its first message without the "$"
    @ada:example.org                 a person: the room for the two of us, found or made
    #room:example.org                a room by its alias, as in semel.toml

What is heard has the first two forms. Where the second would be longer than an address may be (a long server name), the
thread's messages are heard at the room itself, and answers go into the thread all the same: what is answered tells it.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 120
"""Bytes of an address (`ports.Incoming`)."""
_MARK = ":thread-"


@dataclass(frozen=True)
class Place:
    """A room's id, alias or person, and the event id of a thread's first message, if it is one."""

    room: str
    thread: str | None = None

    @property
    def address(self) -> str:
        """What people and sessions know it by."""
        if self.thread is None or not self.thread.startswith("$"):
            return self.room
        whole = f"{self.room}{_MARK}{self.thread[1:]}"
        return whole if len(whole.encode("utf-8", "replace")) <= LONGEST else self.room


def place_of(address: str) -> Place:
    """The place that an address names."""
    room, mark, thread = address.rpartition(_MARK)
    return Place(room, f"${thread}") if mark and thread and room.startswith("!") else Place(address)
