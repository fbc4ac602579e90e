"""Where a session may speak, and in which parts a text leaves for there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from semel.gateway.ports import Channel
from semel.gateway.settings import ChannelSettings, DestinationSettings
from semel.law.split import render_parts
from semel.ledger.speak import Leg

HOME = "home"


@dataclass(frozen=True)
class Place:
    """A resolved destination. `dest` None: it could not be resolved, and `problem` says why."""

    dest: str | None
    home: bool = False
    problem: str = ""


class Places:
    """Destinations by name, and the channels they lead to."""

    def __init__(
        self,
        destinations: Mapping[str, DestinationSettings],
        settings: Mapping[str, ChannelSettings],
        channels: Mapping[str, Channel],
    ) -> None:
        self.destinations = destinations
        self.settings = settings
        self.channels = channels

    def names(self, session: str) -> tuple[str, ...]:
        """The names this session may write, beside its home."""
        return tuple(n for n, d in self.destinations.items() if d.allows(session))

    def resolve(self, session: str, home: str | None, to: str | None) -> Place:
        """What `to` means in this session. None, '' and 'home' are its home."""
        if to is None or to.strip().lower() in ("", HOME):
            return Place(home, True) if home else Place(None, problem=self._no_home(session))
        wanted = to.strip()
        if home is not None and wanted == home:
            return Place(home, True)
        named = self.destinations.get(wanted) or self._by_fold(wanted)
        if named is None or not named.allows(session):
            return Place(None, problem=f"no destination is named {wanted!r} here; {self._reachable(session, home)}")
        return Place(named.resolved, named.resolved == home)

    @staticmethod
    def at(dest: str | None, home: str | None) -> Place:
        """A destination that was resolved before."""
        if dest is None:
            return Place(None, problem="it reached nobody, so nothing can follow it there")
        return Place(dest, dest == home)

    def _by_fold(self, wanted: str) -> DestinationSettings | None:
        same = [d for n, d in self.destinations.items() if n.casefold() == wanted.casefold()]
        return same[0] if len(same) == 1 else None

    def _reachable(self, session: str, home: str | None) -> str:
        names = ([HOME] if home else []) + list(self.names(session))
        return f"the names that exist are: {', '.join(names)}" if names else "no name exists here"

    def _no_home(self, session: str) -> str:
        return f"this session has no home; {self._reachable(session, None)}"

    def outgoing(self, dest: str) -> bool:
        """Whether something must leave for there. A page or terminal has no outgoing leg: the commit delivers."""
        return dest.partition(":")[0] in self.channels

    def narrates_all(self, dest: str) -> bool:
        """Whether every block is delivered there, or only the closing text."""
        channel = self.settings.get(dest.partition(":")[0])
        return channel is not None and channel.narration == "all"

    def legs(self, dest: str, session: str, text: str, op: Mapping[str, Any] | None = None) -> tuple[Leg, ...]:
        """The parts a text leaves in for a destination; none where there is no outgoing leg."""
        name, _, address = dest.partition(":")
        channel = self.channels.get(name)
        if channel is None:
            return ()
        first = {"kind": "post", "session": session, "address": address, **(op or {})}
        caps = channel.caps
        if first["kind"] != "post" or caps.max_len is None:
            return (Leg(0, len(text), name, dest, {**first, "text": text}),)
        rest = {"kind": "post", "session": session, "address": address}
        cut = render_parts(text, caps.max_len, caps.unit)
        return tuple(
            Leg(lo, hi, name, dest, {**(rest if n else first), "text": sent}) for n, (lo, hi, sent) in enumerate(cut)
        )
