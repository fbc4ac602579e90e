"""Resolve references between messages: the ids that senders give, and the keys under which messages are stored.

In an XMPP chat, a correction, reaction or reply refers to a message by the id that its sender chose, which is unique
only per sender. We store messages under the archive's id. Both ids of the newest messages are remembered; older
messages are looked up a few archive pages back.
"""

from __future__ import annotations

from dataclasses import dataclass

from semel.channels.recent_map import RecentMap
from semel.channels.xmpp.archive import Archive, ArchivedMessage, ArchiveIncomplete
from semel.channels.xmpp.parse import ParsedStanza, parse_message
from semel.channels.xmpp.rooms import XmppRoom
from semel.channels.xmpp.session import IqRefused, XmppSession

MAX_REMEMBERED_MESSAGES = 5_000
"""Number of newest messages that are remembered."""
MAX_LOOKUP_PAGES = 4
"""Archive pages that are searched. Corrections, reactions and replies usually refer to recent messages."""
OURS = ""
"""The author of our own messages."""


@dataclass(frozen=True)
class MessageOrigin:
    """The author of a message (`Person.id`, or OURS) and the ids that the author gave it."""

    author: str
    ids: tuple[str, ...]


class MessageIds:
    """The ids of the newest messages of all conversations, and people's reactions to them."""

    def __init__(self) -> None:
        self._keys = RecentMap[tuple[str, str, str], str](2 * MAX_REMEMBERED_MESSAGES)
        self._origins = RecentMap[tuple[str, str], MessageOrigin](MAX_REMEMBERED_MESSAGES)
        self._reactions = RecentMap[tuple[str, str, str], tuple[str, ...]](MAX_REMEMBERED_MESSAGES)

    def __repr__(self) -> str:
        return f"<MessageIds of {len(self._origins)} messages>"

    def remember(self, address: str, author: str, ids: tuple[str, ...], key: str) -> None:
        """Remember that the author's message with these ids is stored under `key`."""
        self._origins[address, key] = MessageOrigin(author, ids)
        for id in ids:
            self._keys[address, author, id] = key

    def key(self, address: str, author: str, id: str) -> str | None:
        """Return the key under which this author's message with that id is stored; None if it is not remembered."""
        return self._keys.get((address, author, id))

    def origin(self, address: str, key: str) -> MessageOrigin | None:
        """Return the author and ids of the message stored under `key`; None if it is not remembered."""
        return self._origins.get((address, key))

    def replace_reactions(self, address: str, key: str, author: str, emojis: tuple[str, ...]) -> tuple[str, ...] | None:
        """Replace the author's reactions to a message. Returns the previous ones, None if they are not remembered."""
        before = self._reactions.get((address, key, author))
        self._reactions[address, key, author] = emojis
        return before

    def reactions(self, address: str, key: str, author: str) -> tuple[str, ...]:
        return self._reactions.get((address, key, author)) or ()


class MessageLookup:
    """Looks messages up for one connection."""

    def __init__(self, session: XmppSession, message_ids: MessageIds, rooms: dict[str, XmppRoom]) -> None:
        self.session, self.message_ids, self.rooms = session, message_ids, rooms

    def __repr__(self) -> str:
        return f"<MessageLookup in {self.message_ids!r}>"

    async def key(self, address: str, authors: tuple[str, ...], id: str) -> str | None:
        """Find the key of the message to which one of these authors gave this id; None if not found. Raises Offline."""
        if not id:
            return None
        key = self._key(address, authors, id)
        if key is None and await self._read_back(address, id):
            key = self._key(address, authors, id)
        return key

    async def origin(self, address: str, key: str) -> MessageOrigin | None:
        """Find the author and ids of the message stored under `key`; None if it is not found. Raises Offline."""
        origin = self.message_ids.origin(address, key)
        if origin is None and await self._read_back(address, key.removeprefix(f"{address}/")):
            origin = self.message_ids.origin(address, key)
        return origin

    def learn(self, note: ParsedStanza, key: str) -> None:
        """Remember the author and ids of a message."""
        if note.kind == "own":
            self.message_ids.remember(note.address, OURS, note.ids, own_key(note, key))
        elif note.kind == "message" and note.sender is not None:
            self.message_ids.remember(note.address, note.sender.id, note.ids, key)

    def _key(self, address: str, authors: tuple[str, ...], id: str) -> str | None:
        return next(filter(None, (self.message_ids.key(address, author, id) for author in authors)), None)

    async def _read_back(self, address: str, id: str) -> bool:
        """Search the archive's last MAX_LOOKUP_PAGES pages for a message, and remember those that were read.

        `id`: the id that the author or the archive gave the message. Returns whether the message was found.
        """
        room = self.rooms.get(address)
        if not self.session.settings.archive or (room is not None and not room.archived):
            return False
        archive = Archive(self.session, address if room is not None else None)
        try:
            async for item in archive.before(0.0, with_=address, pages=MAX_LOOKUP_PAGES):
                if id in self._learn_archived(item, room):
                    return True
        except (IqRefused, ArchiveIncomplete):
            pass
        return False

    def _learn_archived(self, item: ArchivedMessage, room: XmppRoom | None) -> tuple[str, ...]:
        """Remember an archived message. Returns all its ids."""
        note = parse_message(item.message, self.session.jid, room)
        if note is None:
            return ()
        self.learn(note, f"{room.jid}/{item.id}" if room is not None else item.id)
        return (*note.ids, item.id)


def own_key(note: ParsedStanza, key: str) -> str:
    """Return the key of our own message: in a chat the id that we gave it, which others use to refer to it; in a room
    `key`, which contains the room's id for it."""
    return key if note.group or not note.ids else note.ids[0]
