"""Map the ids that senders give to messages to the keys under which we store them.

In an XMPP chat, a correction, reaction or reply refers to a message by the id that its sender chose, which is unique
only per sender. We store messages under the archive's id. This module remembers both ids for the newest messages; older
ones are looked up in the archive (`semel.channels.xmpp.message_lookup`).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

MAX_REMEMBERED_MESSAGES = 5_000
"""Number of newest messages that are remembered."""
OURS = ""
"""The author of our own messages."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Written:
    """The author of a message (`Person.id`, or OURS) and the ids that the author gave it."""

    author: str
    ids: tuple[str, ...]


class _Newest(Generic[K, V]):
    """A map of bounded size that drops its oldest entries."""

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


class MessageIds:
    """The ids of the newest messages of all conversations, and people's reactions to them."""

    def __init__(self, most: int = MAX_REMEMBERED_MESSAGES) -> None:
        self._keys: _Newest[tuple[str, str, str], str] = _Newest(2 * most)
        self._written: _Newest[tuple[str, str], Written] = _Newest(most)
        self._reactions: _Newest[tuple[str, str, str], tuple[str, ...]] = _Newest(most)

    def __repr__(self) -> str:
        return f"<Book of {len(self._written)} messages>"

    def keep(self, address: str, author: str, ids: tuple[str, ...], key: str) -> None:
        """Remember that the author's message with these ids is stored under `key`."""
        self._written.put((address, key), Written(author, ids))
        for id in ids:
            self._keys.put((address, author, id), key)

    def key(self, address: str, author: str, id: str) -> str | None:
        """The key under which this author's message with that id is stored; None if it is not remembered."""
        return self._keys.get((address, author, id))

    def written(self, address: str, key: str) -> Written | None:
        """The author and ids of the message stored under `key`; None if it is not remembered."""
        return self._written.get((address, key))

    def reacted(self, address: str, key: str, author: str, emojis: tuple[str, ...]) -> tuple[str, ...] | None:
        """Replace the author's reactions to a message. Returns the previous ones, None if they are not remembered."""
        place = (address, key, author)
        before = self._reactions.get(place)
        self._reactions.put(place, emojis)
        return before

    def reactions(self, address: str, key: str, author: str) -> tuple[str, ...]:
        return self._reactions.get((address, key, author)) or ()
