"""Find the message that a correction, reaction or reply refers to: by remembered ids, or a few archive pages back."""

from __future__ import annotations

from semel.channels.xmpp.archive import Archive, Item, NotToTheEnd
from semel.channels.xmpp.message_ids import OURS, MessageIds, Written
from semel.channels.xmpp.parse import Note, read
from semel.channels.xmpp.rooms import Room
from semel.channels.xmpp.session import Refused, Session

PAGES = 4
"""Archive pages that are searched. Corrections, reactions and replies usually refer to recent messages."""


class Lookup:
    """Looks messages up for one connection."""

    def __init__(self, session: Session, book: MessageIds, rooms: dict[str, Room]) -> None:
        self.session, self.book, self.rooms = session, book, rooms

    def __repr__(self) -> str:
        return f"<Lookup in {self.book!r}>"

    async def key(self, address: str, authors: tuple[str, ...], id: str) -> str | None:
        """The key of the message with this id by one of these authors; None if it is not found. Raises Offline."""
        if not id:
            return None
        found = self._key(address, authors, id)
        if found is None and await self._read_back(address, id):
            found = self._key(address, authors, id)
        return found

    async def written(self, address: str, key: str) -> Written | None:
        """The author and ids of the message stored under `key`; None if it is not found. Raises Offline."""
        found = self.book.written(address, key)
        if found is None and await self._read_back(address, key.removeprefix(f"{address}/")):
            found = self.book.written(address, key)
        return found

    def learn(self, note: Note, key: str) -> None:
        """Remember the author and ids of a message."""
        if note.kind == "own":
            self.book.keep(note.address, OURS, note.ids, own_key(note, key))
        elif note.kind == "message" and note.sender is not None:
            self.book.keep(note.address, note.sender.id, note.ids, key)

    def _key(self, address: str, authors: tuple[str, ...], id: str) -> str | None:
        return next(filter(None, (self.book.key(address, author, id) for author in authors)), None)

    async def _read_back(self, address: str, id: str) -> bool:
        """Read the archive backwards to a message with that id (the author's or the archive's). Whether found."""
        room = self.rooms.get(address)
        if not self.session.settings.archive or (room is not None and not room.archived):
            return False
        archive = Archive(self.session, address if room is not None else None)
        try:
            async for item in archive.before(0.0, with_=address, pages=PAGES):
                ids = self._learn_item(item, room)
                if id in ids:
                    return True
        except (Refused, NotToTheEnd):
            pass
        return False

    def _learn_item(self, item: Item, room: Room | None) -> tuple[str, ...]:
        note = read(item.message, self.session.jid, room)
        if note is None:
            return ()
        self.learn(note, f"{room.jid}/{item.id}" if room is not None else item.id)
        return (*note.ids, item.id)


def own_key(note: Note, key: str) -> str:
    """The key of our own message: in a chat the id we gave it (others refer to it by that), in a room the room's id."""
    return key if note.group or not note.ids else note.ids[0]
