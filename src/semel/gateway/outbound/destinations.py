"""Where a session may speak, and in which parts a text leaves for there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from semel.gateway.outbound.attachment_text import tell_file
from semel.gateway.ports import Caps, Channel
from semel.gateway.settings import ChannelSettings, DestinationSettings
from semel.ledger.delivery.cutting import Leg
from semel.text.message_markup import HOME, match_name
from semel.text.split import render_parts

__all__ = ["HOME", "Place", "Places", "can_stream"]


def can_stream(caps: Caps) -> bool:
    """Whether a message there can be reserved, filled, and removed where it stays empty."""
    return caps.edits and caps.deletes


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

    def called(self, session: str, home: str | None) -> dict[str, str]:
        """What a session may write, by resolved destination; the first name is the one told."""
        here = {home or f"session:{session}": HOME}
        for name in self.names(session):
            here.setdefault(self.destinations[name].resolved, name)
        return here

    def resolve(self, session: str, home: str | None, to: str | None) -> Place:
        """What `to` means in this session. None, '' and 'home' are its home."""
        wanted = (to or HOME).strip() or HOME
        if home is not None and wanted == home:
            return Place(home, True)
        name = match_name(wanted, (HOME, *self.names(session)))
        if name == HOME:
            return Place(home, True) if home else Place(None, problem=self._no_home(session))
        if name is None:
            return Place(None, problem=f"no destination is named {wanted!r} here; {self._reachable(session, home)}")
        named = self.destinations[name]
        return Place(named.resolved, named.resolved == home)

    @staticmethod
    def at(dest: str | None, home: str | None) -> Place:
        """A destination that was resolved before."""
        if dest is None:
            return Place(None, problem="it reached nobody, so nothing can follow it there")
        return Place(dest, dest == home)

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

    def streams(self, dest: str) -> bool:
        """Whether what an agent writes is shown there while it is written: by edits of a message that is reserved."""
        name = dest.partition(":")[0]
        own, channel = self.settings.get(name), self.channels.get(name)
        return own is not None and own.stream and channel is not None and can_stream(channel.caps)

    def reserving(self, dest: str, session: str) -> Leg:
        """How the message that is reserved there would leave with its text."""
        name, _, address = dest.partition(":")
        return Leg(0, 0, name, dest, {"kind": "post", "session": session, "address": address})

    def spoken(self, home: str, session: str, text: str) -> tuple[Leg, ...]:
        """The parts of what a turn says at its home: the first one fills what is reserved, where it streams."""
        return self.legs(home, session, text, {"fill": True} if self.streams(home) else None)

    def cut(
        self, dest: str, session: str, text: str, answer: bool, file: Mapping[str, Any] | None = None
    ) -> tuple[Leg, ...]:
        """The parts a text, or a file, leaves in: what a turn answers at its home, or what is told there beside it."""
        if file is not None:
            return self.carrying(dest, session, file)
        return self.spoken(dest, session, text) if answer else self.legs(dest, session, text)

    def refuses(self, dest: str | None, kind: str) -> str:
        """Why a destination cannot take a file, an edit or a reaction at all; "": it can, or nothing has to leave."""
        name = (dest or "").partition(":")[0]
        channel = self.channels.get(name)
        if channel is None:
            return ""
        caps = channel.caps
        cannot = {
            "file": not caps.files and f"{name} takes no files",
            "edit": not caps.edits and f"a message cannot be changed on {name} once it was sent",
            "react": not caps.reactions and f"{name} has no reactions",
        }
        return cannot.get(kind) or ""

    def file_limit(self, dest: str | None) -> int | None:
        """How many bytes of one file a destination takes, where it says so."""
        channel = self.channels.get((dest or "").partition(":")[0])
        return channel.caps.file_limit if channel is not None else None

    def carrying(self, dest: str, session: str, file: Mapping[str, Any]) -> tuple[Leg, ...]:
        """How a file that an agent handed over leaves: as one, or told in words where it cannot be sent."""
        size, limit = int(file.get("size") or 0), self.file_limit(dest)
        stays = self.refuses(dest, "file") or (
            f"it is larger than {limit:,} bytes, the most that can be sent there" if limit and size > limit else ""
        )
        if file.get("id") is None or stays:
            return self.legs(dest, session, "", {"text": tell_file(file, stays)})
        op = {"kind": "file", "file": file["id"], "name": file["name"], "mime": file["mime"]}
        return self.legs(dest, session, "", op)

    def changed(self, dest: str, session: str, text: str, parts: Sequence[int]) -> tuple[Leg, ...] | None:
        """What changes a message that left in `parts`; None: the new text would need more of them, or fewer."""
        if not parts or not self.outgoing(dest):
            return ()
        legs = self.legs(dest, session, text)
        if len(legs) != len(parts):
            return None
        return tuple(
            replace(leg, op={**leg.op, "kind": "edit", "target_part": part})
            for leg, part in zip(legs, parts, strict=True)
        )

    def legs(self, dest: str, session: str, text: str, op: Mapping[str, Any] | None = None) -> tuple[Leg, ...]:
        """The parts a text leaves in for a destination; none where there is no outgoing leg.

        `op` is what the first part is beside a post of its text: the rest of a file's caption follows as posts.
        """
        name, _, address = dest.partition(":")
        channel = self.channels.get(name)
        if channel is None:
            return ()
        first = {"kind": "post", "session": session, "address": address, **(op or {})}
        caps = channel.caps
        if first["kind"] not in ("post", "file") or caps.max_len is None or not text:
            return (Leg(0, len(text), name, dest, {"text": text, **first}),)
        rest = {"kind": "post", "session": session, "address": address}
        most = caps.caption_len if first["kind"] == "file" and caps.caption_len else caps.max_len
        cut = render_parts(text, most, caps.unit)
        return tuple(
            Leg(lo, hi, name, dest, {**(rest if n else first), "text": sent}) for n, (lo, hi, sent) in enumerate(cut)
        )
