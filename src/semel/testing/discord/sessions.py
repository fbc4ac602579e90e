"""Sessions of the gateway: the events of each, numbered, and kept to be sent again after a resume.

https://docs.discord.com/developers/events/gateway#resuming
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from semel.text.json_types import Json

GUILDS, GUILD_MESSAGES, GUILD_REACTIONS = 1 << 0, 1 << 9, 1 << 10
DIRECT_MESSAGES, DIRECT_REACTIONS, MESSAGE_CONTENT = 1 << 12, 1 << 13, 1 << 15
KNOWN_INTENTS = 0x3F7FFFF | 1 << 24 | 1 << 25


@dataclass
class Session:
    """One session. `events`: those that are kept, by number. `queue`: payloads for the open connection, None: closed.

    `ends_at`: when it can be resumed no more, by the double's clock; None while it is connected.
    """

    id: str
    intents: int
    seq: int = 0
    events: deque[Json] = field(default_factory=deque)
    queue: asyncio.Queue[Json | int] | None = None
    ends_at: float | None = None

    def dispatch(self, kind: str, data: Json, keep: int) -> None:
        """Number an event, keep it, and send it if there is a connection. `keep`: how many are kept."""
        self.seq += 1
        event = {"op": 0, "t": kind, "s": self.seq, "d": data}
        self.events.append(event)
        while len(self.events) > keep:
            self.events.popleft()
        if self.queue is not None:
            self.queue.put_nowait(event)

    def can_resume(self, seq: int) -> bool:
        """Whether everything after this number is still kept."""
        first = self.events[0]["s"] if self.events else self.seq + 1
        return first <= seq + 1


class Sessions:
    """All sessions of the double's bot. `life_s`: how long one can be resumed. `keep`: how many events it keeps."""

    def __init__(self, now: Callable[[], float], life_s: float = 180.0, keep: int = 10_000) -> None:
        self.life_s = life_s
        self.keep = keep
        self.identified = 0
        self.resumed = 0
        self._now = now
        self._sessions: dict[str, Session] = {}

    def __repr__(self) -> str:
        return f"<Sessions {len(self._sessions)} of them>"

    def open(self, intents: int) -> Session:
        """Begin a session."""
        self.identified += 1
        session = Session(f"session{self.identified:08d}", intents)
        self._sessions[session.id] = session
        return session

    def resume(self, id: str, seq: int) -> Session | None:
        """Return the session if it can be resumed after this number; None if not."""
        session = self._sessions.get(id)
        if session is None or (session.ends_at is not None and session.ends_at <= self._now()):
            return None
        if not session.can_resume(seq):
            return None
        self.resumed += 1
        return session

    def close(self, session: Session, code: int) -> None:
        """Note that a session's connection was closed: by 1000 or 1001, that ends the session."""
        session.queue = None
        session.ends_at = self._now() + self.life_s
        if code in (1000, 1001):
            self._sessions.pop(session.id, None)

    def invalidate(self) -> None:
        """End all sessions: connected ones are told so."""
        for session in self._sessions.values():
            if session.queue is not None:
                session.queue.put_nowait({"op": 9, "d": False})
        self._sessions.clear()

    def push(self, payload: Json | int) -> None:
        """Send a payload to all open connections; a number closes them with that code."""
        for session in list(self._sessions.values()):
            if session.queue is not None:
                session.queue.put_nowait(payload)

    def dispatch(self, kind: str, make: Callable[[Session], Json | None]) -> None:
        """Tell an event to all sessions. `make`: returns it as this session gets it; None if it does not get it."""
        for session in list(self._sessions.values()):
            if session.ends_at is not None and session.ends_at <= self._now():
                del self._sessions[session.id]
            elif (data := make(session)) is not None:
                session.dispatch(kind, data, self.keep)


def may_see(session: Session, kind: str, is_direct: bool) -> bool:
    """Whether a session's intents cover an event (https://docs.discord.com/developers/events/gateway#list-of-intents)."""
    needed: dict[str, tuple[int, int]] = {
        "MESSAGE": (GUILD_MESSAGES, DIRECT_MESSAGES), "MESSAGE_REACTION": (GUILD_REACTIONS, DIRECT_REACTIONS),
        "CHANNEL": (GUILDS, GUILDS), "THREAD": (GUILDS, GUILDS), "GUILD": (GUILDS, GUILDS),
    }  # fmt: skip
    name = next(
        (name for name in ("MESSAGE_REACTION", "MESSAGE", "CHANNEL", "THREAD", "GUILD") if kind.startswith(name)), ""
    )
    intents: Any = needed.get(name)
    return intents is None or bool(session.intents & intents[is_direct])
