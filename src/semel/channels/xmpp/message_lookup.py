"""Which message is meant: by the book, else in the archive, a few pages back."""

from __future__ import annotations

from semel.channels.xmpp.archive import Archive, Item, NotToTheEnd
from semel.channels.xmpp.message_ids import OURS, Book, Written
from semel.channels.xmpp.parse import Note, read
from semel.channels.xmpp.rooms import Room
from semel.channels.xmpp.session import Refused, Session

PAGES = 4
"""How far back it is looked in the archive: corrections, reactions and replies mean recent messages."""


class Lookup:
    """Looks messages up for one connection."""

    def __init__(self, session: Session, book: Book, rooms: dict[str, Room]) -> None:
        self.session, self.book, self.rooms = session, book, rooms

    def __repr__(self) -> str:
        return f"<Lookup in {self.book!r}>"

    async def key(self, address: str, authors: tuple[str, ...], id: str) -> str | None:
        """What is kept under for the message that one of these authors wrote with that id. Raises Offline."""
        if not id:
            return None
        found = self._key(address, authors, id)
        if found is None and await self._read_back(address, id):
            found = self._key(address, authors, id)
        return found

    async def written(self, address: str, key: str) -> Written | None:
        """How the message was written that is kept under `key`. Raises Offline."""
        found = self.book.written(address, key)
        if found is None and await self._read_back(address, key.removeprefix(f"{address}/")):
            found = self.book.written(address, key)
        return found

    def learn(self, note: Note, key: str) -> None:
        """Note who wrote a message, and with which ids."""
        if note.kind == "own":
            self.book.keep(note.address, OURS, note.ids, own_key(note, key))
        elif note.kind == "message" and note.sender is not None:
            self.book.keep(note.address, note.sender.id, note.ids, key)

    def _key(self, address: str, authors: tuple[str, ...], id: str) -> str | None:
        return next(filter(None, (self.book.key(address, author, id) for author in authors)), None)

    async def _read_back(self, address: str, id: str) -> bool:
        """Read the archive backwards until a message with that id, of either kind, is there."""
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
    """What our own message is called: in a chat by the id we gave it (people name it so), in a room by the room's."""
    return key if note.group or not note.ids else note.ids[0]
