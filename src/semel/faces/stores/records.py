"""What a reader of another system's store yields, and the report of what it collapsed, left out and could not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from semel.faces.stores.chat_addresses import convert_address
from semel.law.identity import CUSTOMARY_NAME, escape_address

MAX_NAMED = 200
"""How many unreadable places a report names; the others are counted."""


class BadStore(Exception):
    """The store as a whole cannot be read. The message says what to do."""


@dataclass(frozen=True)
class StoredMessage:
    """A message of a conversation.

    `id`: identifies it among all messages of its system. `stretch`: the part of the conversation that the agent sees at
    once there; a new one becomes a chapter. `sender`: who wrote it, for people. `at`: ms since 1970. `kind`: an event's
    kind. `files`: names of files that came with it. `undelivered`: why it did not reach its chat; None if it did, or if
    the store does not say. `to`: the destination, if it is not the conversation's own.
    """

    id: str
    role: Literal["user", "agent", "event", "notice"]
    text: str
    at: int
    stretch: str
    sender: str | None = None
    kind: str = "message"
    files: tuple[str, ...] = ()
    undelivered: str | None = None
    to: str | None = None


@dataclass(frozen=True)
class StoredConversation:
    """A conversation. `origin` identifies it, system included; `key`: of the session that it becomes.

    `read_messages` yields its messages in order; each call reads the store again.
    """

    origin: str
    key: str
    title: str | None
    read_messages: Callable[[], Iterator[StoredMessage]]


@dataclass(frozen=True)
class StoredPerson:
    """An account that may talk there. `role`: there, if it is more than a member's."""

    channel: str
    account: str
    name: str | None
    role: str | None = None


@dataclass(frozen=True)
class StoredSchedule:
    """A schedule. `form`: cron, at or every; `spec`: its value as Semel writes it. `session`: a key, or None.

    `enabled`: whether it fires there.
    """

    name: str
    text: str
    form: Literal["cron", "at", "every"]
    spec: str
    tz: str
    session: str | None
    enabled: bool = True


@dataclass
class StoreReport:
    """What was collapsed and left out, counted by kind, and what could not be read, by place.

    `unread`: pairs (place, reason), at most MAX_NAMED; `more_unread`: how many there are beyond that.
    """

    collapsed: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    unread: list[tuple[str, str]] = field(default_factory=list)
    more_unread: int = 0

    def name_unread(self, place: str, reason: str) -> None:
        if len(self.unread) < MAX_NAMED:
            self.unread.append((place, reason))
        else:
            self.more_unread += 1

    def count_unread(self) -> int:
        return len(self.unread) + self.more_unread


class StoreReader(Protocol):
    """Reads one store. What it meets on the way is in `report`.

    `system`: openclaw, hermes or nanoclaw. `version`: of the store's format, in words.
    """

    system: str
    version: str
    report: StoreReport

    def read_conversations(self) -> Iterator[StoredConversation]: ...

    def read_people(self) -> Iterator[StoredPerson]: ...

    def read_schedules(self) -> Iterator[StoredSchedule]: ...


def chat_key(channel: str, address: str, agent: str = CUSTOMARY_NAME) -> str:
    """Return the key of the session of a chat, as a channel makes it: `main:telegram:-100`.

    A chat that Semel's channel cannot have becomes a session on the page.
    """
    kind, place = convert_address(channel, address)
    if place is None:
        return page_session_key(f"{kind}-{address}", agent)
    return f"{escape_address(agent)}:{escape_address(kind)}:{escape_address(place)}"[:200]


def page_session_key(name: str, agent: str = CUSTOMARY_NAME) -> str:
    """Return the key of a session on the page."""
    return chat_key("web", name, agent)
