"""Resolve destinations, and split texts and files into the parts that leave for them (legs).

A session may address its home and the named destinations that `DestinationSettings.allow` grants it. Only destinations
on a channel have legs; at a page or a terminal, the committed transcript is the delivery.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from semel.gateway.outbound.attachment_text import describe_file
from semel.gateway.ports import Caps, Channel
from semel.gateway.settings import ChannelSettings, DestinationSettings
from semel.ledger.delivery.cutting import Leg
from semel.text.message_markup import HOME, match_name
from semel.text.split import render_parts

__all__ = ["HOME", "Place", "Places", "can_stream"]


def can_stream(caps: Caps) -> bool:
    """Whether the channel can post a placeholder, fill it by edits, and delete it if it stays empty."""
    return caps.edits and caps.deletes


@dataclass(frozen=True)
class Place:
    """A resolved destination. If `dest` is None it could not be resolved, and `problem` says why."""

    dest: str | None
    home: bool = False
    problem: str = ""


class Places:
    """Resolves destination names, and knows what each destination's channel can do."""

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
        """The destination names that this session may write, without 'home'."""
        return tuple(n for n, d in self.destinations.items() if d.allows(session))

    def called(self, session: str, home: str | None) -> dict[str, str]:
        """The names a session may write, by resolved destination. Of several names the first is used."""
        here = {home or f"session:{session}": HOME}
        for name in self.names(session):
            here.setdefault(self.destinations[name].resolved, name)
        return here

    def resolve(self, session: str, home: str | None, to: str | None) -> Place:
        """Resolve the destination `to` in this session. None, '' and 'home' mean its home."""
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
        """The place of an already resolved destination."""
        if dest is None:
            return Place(None, problem="it reached nobody, so nothing can follow it there")
        return Place(dest, dest == home)

    def _reachable(self, session: str, home: str | None) -> str:
        names = ([HOME] if home else []) + list(self.names(session))
        return f"the names that exist are: {', '.join(names)}" if names else "no name exists here"

    def _no_home(self, session: str) -> str:
        return f"this session has no home; {self._reachable(session, None)}"

    def outgoing(self, dest: str) -> bool:
        """Whether the destination is on a channel, so that parts are sent. At a page the commit delivers."""
        return dest.partition(":")[0] in self.channels

    def narrates_all(self, dest: str) -> bool:
        """Whether every block is delivered to this destination, instead of only the closing text."""
        channel = self.settings.get(dest.partition(":")[0])
        return channel is not None and channel.narration == "all"

    def streams(self, dest: str) -> bool:
        """Whether text is previewed at this destination while it is written, by editing a placeholder message."""
        name = dest.partition(":")[0]
        own, channel = self.settings.get(name), self.channels.get(name)
        return own is not None and own.stream and channel is not None and can_stream(channel.caps)

    def reserving(self, dest: str, session: str) -> Leg:
        """The leg of the placeholder message for a streamed text."""
        name, _, address = dest.partition(":")
        return Leg(0, 0, name, dest, {"kind": "post", "session": session, "address": address})

    def spoken(self, home: str, session: str, text: str) -> tuple[Leg, ...]:
        """The legs of a turn's text at its home. If it streams there, the first leg fills the placeholder."""
        return self.legs(home, session, text, {"fill": True} if self.streams(home) else None)

    def cut(
        self, dest: str, session: str, text: str, answer: bool, file: Mapping[str, Any] | None = None
    ) -> tuple[Leg, ...]:
        """The legs of a text or file. `answer`: the text is a turn's answer at its home, not a notice."""
        if file is not None:
            return self.carrying(dest, session, file)
        return self.spoken(dest, session, text) if answer else self.legs(dest, session, text)

    def refuses(self, dest: str | None, kind: str) -> str:
        """Why a destination cannot take a file, an edit or a reaction; "" if it can, or if nothing has to be sent."""
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
        """The largest file in bytes that a destination takes; None if no limit is known."""
        channel = self.channels.get((dest or "").partition(":")[0])
        return channel.caps.file_limit if channel is not None else None

    def carrying(self, dest: str, session: str, file: Mapping[str, Any]) -> tuple[Leg, ...]:
        """The legs of a file: the file itself, or its description in words if it cannot be sent."""
        size, limit = int(file.get("size") or 0), self.file_limit(dest)
        stays = self.refuses(dest, "file") or (
            f"it is larger than {limit:,} bytes, the most that can be sent there" if limit and size > limit else ""
        )
        if file.get("id") is None or stays:
            return self.legs(dest, session, "", {"text": describe_file(file, stays)})
        op = {"kind": "file", "file": file["id"], "name": file["name"], "mime": file["mime"]}
        return self.legs(dest, session, "", op)

    def changed(self, dest: str, session: str, text: str, parts: Sequence[int]) -> tuple[Leg, ...] | None:
        """The legs that edit a message sent as `parts`; None if the new text needs a different number of parts."""
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
        """Split a text into the legs for a destination; () if the destination is not on a channel.

        `op` overrides fields of the first leg, for example to send a file with the text as its caption. The rest of a
        long text follows as posts.
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
