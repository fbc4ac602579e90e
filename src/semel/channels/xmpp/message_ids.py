"""Which id a message was written with, and which one it is kept under.

On XMPP a correction, a reaction or a reply in a chat names a message by the id that its sender gave it, which is
unique for nobody but them; what we keep it under is the archive's id. This remembers both, for the newest messages;
what is older is looked up in the archive (`semel.channels.xmpp.message_lookup`).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

MOST = 5_000
"""Messages that are remembered."""
OURS = ""
"""The author of what we said ourselves."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Written:
    """How a message was written: by whom (`Person.id`, or OURS), and with which ids."""

    author: str
    ids: tuple[str, ...]


class _Newest(Generic[K, V]):
    """A map that forgets the oldest."""

    def __init__(self, most: int) -> None:
        self._most, self._map = most, OrderedDict[K, V]()

    def __len__(self) -> int:
        return len(self._map)

    def put(self, key: K, value: V) -> None:
        self._map[key] = value
        self._map.move_to_end(key)
        while len(self._map) > self._most:
            self._map.popitem(last=False)

    def get(self, key: K) -> V | None:
        return self._map.get(key)


class Book:
    """The newest messages of all conversations, and what people reacted to them with."""

    def __init__(self, most: int = MOST) -> None:
        self._keys: _Newest[tuple[str, str, str], str] = _Newest(2 * most)
        self._written: _Newest[tuple[str, str], Written] = _Newest(most)
        self._reactions: _Newest[tuple[str, str, str], tuple[str, ...]] = _Newest(most)

    def __repr__(self) -> str:
        return f"<Book of {len(self._written)} messages>"

    def keep(self, address: str, author: str, ids: tuple[str, ...], key: str) -> None:
        """That message, written with those ids, is kept under `key`."""
        self._written.put((address, key), Written(author, ids))
        for id in ids:
            self._keys.put((address, author, id), key)

    def key(self, address: str, author: str, id: str) -> str | None:
        """What the message is kept under that this author wrote with that id."""
        return self._keys.get((address, author, id))

    def written(self, address: str, key: str) -> Written | None:
        """How the message was written that is kept under `key`."""
        return self._written.get((address, key))

    def reacted(self, address: str, key: str, author: str, emojis: tuple[str, ...]) -> tuple[str, ...] | None:
        """These are this author's reactions to it now; what they were before, None where that is not known."""
        place = (address, key, author)
        before = self._reactions.get(place)
        self._reactions.put(place, emojis)
        return before

    def reactions(self, address: str, key: str, author: str) -> tuple[str, ...]:
        return self._reactions.get((address, key, author)) or ()
