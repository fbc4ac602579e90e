"""Resolve destinations, and split texts and files into legs: the parts to send to a destination.

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
from semel.law.identity import escape_address
from semel.ledger.delivery.buttons import with_buttons, with_reactions
from semel.ledger.delivery.cutting import Leg, is_local
from semel.text.message_markup import HOME, match_name
from semel.text.split import render_parts

__all__ = ["HOME", "Destinations", "ResolvedDestination", "can_stream"]


def can_stream(caps: Caps) -> bool:
    """Return whether the channel can post a placeholder, fill it by edits, and delete it if it stays empty."""
    return caps.edits and caps.deletes


@dataclass(frozen=True)
class ResolvedDestination:
    """A resolved destination. `dest`: CHANNEL:ADDRESS; None if there is none, for the reason in `problem`.

    `home`: whether it is the session's home.
    """

    dest: str | None
    home: bool = False
    problem: str = ""


@dataclass(eq=False, repr=False)
class Destinations:
    """Resolve the names of destinations, and cut texts and files into legs that a destination's channel can send."""

    destinations: Mapping[str, DestinationSettings]
    settings: Mapping[str, ChannelSettings]
    channels: Mapping[str, Channel]

    def names(self, session: str) -> tuple[str, ...]:
        """Return the names of the destinations that this session may address, without "home"."""
        return tuple(n for n, d in self.destinations.items() if d.allows(session))

    def names_by_destination(self, session: str, home: str | None) -> dict[str, str]:
        """Return {destination: its first name} for all destinations that the session may address, its home included."""
        names = {home or f"session:{session}": HOME}
        for name in self.names(session):
            names.setdefault(self.destinations[name].resolved, name)
        return names

    def resolve(self, session: str, home: str | None, to: str | None) -> ResolvedDestination:
        """Resolve the destination that this session calls `to`. None, "" and "home" name its home."""
        requested = (to or HOME).strip() or HOME
        if home is not None and requested == home:
            return ResolvedDestination(home, True)
        name = match_name(requested, (HOME, *self.names(session)))
        if name == HOME:
            problem = f"this session has no home; {self._describe_reach(session, None)}"
            return ResolvedDestination(home, True) if home else ResolvedDestination(None, problem=problem)
        if name is None:
            return ResolvedDestination(
                None, problem=f"no destination is named {requested!r} here; {self._describe_reach(session, home)}"
            )
        destination = self.destinations[name]
        return ResolvedDestination(destination.resolved, destination.resolved == home)

    @staticmethod
    def place_of(dest: str | None, home: str | None) -> ResolvedDestination:
        """Return the `ResolvedDestination` of a message that was sent to `dest` before.

        If `dest` is None, the message was sent nowhere: the result has no destination, and its `problem` says why.
        `home`: the session's home, to compare with `dest`; None if the session has none.
        """
        if dest is None:
            return ResolvedDestination(None, problem="it reached nobody, so nothing can follow it there")
        return ResolvedDestination(dest, dest == home)

    def _describe_reach(self, session: str, home: str | None) -> str:
        names = ([HOME] if home else []) + list(self.names(session))
        return f"the names that exist are: {', '.join(names)}" if names else "no names are allowed here"

    def is_on_channel(self, dest: str) -> bool:
        """Return whether the destination is on a channel, so that parts must be sent to it."""
        return dest.partition(":")[0] in self.channels

    def is_read(self, home: str | None) -> bool:
        """Return whether people read, now or later, what is recorded or sent for this home of a session."""
        return home is not None and (is_local(home) or self.is_on_channel(home))

    def narrates_all(self, dest: str) -> bool:
        """Return whether every block is sent to this destination, and not only the closing text."""
        channel = self.settings.get(dest.partition(":")[0])
        return channel is not None and channel.narration == "all"

    def streams(self, dest: str) -> bool:
        """Return whether a text is previewed at this destination, in a placeholder message, while it is written."""
        name = dest.partition(":")[0]
        channel_settings, channel = self.settings.get(name), self.channels.get(name)
        return (
            channel_settings is not None
            and channel_settings.stream
            and channel is not None
            and can_stream(channel.caps)
        )

    def placeholder_leg(self, dest: str, session: str) -> Leg:
        """Return the leg that posts the placeholder message for a streamed text."""
        name, _, address = dest.partition(":")
        return Leg(0, 0, name, dest, {"kind": "post", "session": session, "address": address})

    def cut_answer(self, home: str, session: str, text: str) -> tuple[Leg, ...]:
        """Return the legs of a turn's answer at home.

        If texts are previewed there, the first leg fills the placeholder.
        """
        return self.cut_legs(home, session, text, {"fill": True} if self.streams(home) else None)

    def make_claim_legs(
        self, dest: str, session: str, text: str, answer: bool, file: Mapping[str, Any] | None = None
    ) -> tuple[Leg, ...]:
        """Return the legs of `file` if it is given, else those of `text`.

        `answer`: the text is a turn's answer at its home.
        """
        if file is not None:
            return self.cut_file(dest, session, file)
        return self.cut_answer(dest, session, text) if answer else self.cut_legs(dest, session, text)

    def find_problem(self, dest: str | None, kind: str) -> str:
        """Return why a destination cannot take a file, an edit or a reaction; "" if it can, or is not on a channel.

        `kind`: "file", "edit" or "react".
        """
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
        """Return the maximum size in bytes of a file for this destination; None if no limit is known."""
        channel = self.channels.get((dest or "").partition(":")[0])
        return channel.caps.file_limit if channel is not None else None

    def find_empty_file_problem(self, dest: str | None) -> str:
        """Return why a destination cannot take a file of 0 bytes; "" if it can, or is not on a channel."""
        name = (dest or "").partition(":")[0]
        channel = self.channels.get(name)
        return (
            "" if channel is None or channel.caps.empty_files else f"it is empty, and {name} takes no file of 0 bytes"
        )

    def cut_file(self, dest: str, session: str, file: Mapping[str, Any]) -> tuple[Leg, ...]:
        """Return the legs that send a file or, if the destination cannot take the file, its description in words."""
        size, limit = int(file.get("size") or 0), self.file_limit(dest)
        problem = self.find_problem(dest, "file") or (
            f"it is larger than {limit:,} bytes, the most that can be sent there" if limit and size > limit else ""
        )
        if not problem and file.get("size") == 0:
            problem = self.find_empty_file_problem(dest)
        if file.get("id") is None or problem:
            return self.cut_legs(dest, session, "", {"text": describe_file(file, problem)})
        op = {"kind": "file", "file": file["id"], "name": file["name"], "mime": file["mime"]}
        return self.cut_legs(dest, session, "", op)

    def cut_edit(self, dest: str, session: str, text: str, parts: Sequence[int]) -> tuple[Leg, ...] | None:
        """Return the legs that change a sent message to `text`; None if the text needs another number of parts.

        `parts`: the ids of the message's parts. Return () if nothing has to be sent.
        """
        if not parts or not self.is_on_channel(dest):
            return ()
        legs = self.cut_legs(dest, session, text)
        if len(legs) != len(parts):
            return None
        return tuple(
            replace(leg, op={**leg.op, "kind": "edit", "target_part": part})
            for leg, part in zip(legs, parts, strict=True)
        )

    def is_answered_by_reactions(self, dest: str | None, session: str) -> bool:
        """Return whether a reaction answers a request or question of this session at `dest`.

        It does not if what people do there reaches another session, or if it is not certain what they react to.
        """
        name, _, address = (dest or "").partition(":")
        channel = self.channels.get(name)
        is_own = session.endswith(f":{name}:{escape_address(address)}")
        if channel is None or not is_own or not channel.caps.button_reactions or not channel.caps.reactions:
            return False
        can_press = getattr(channel, "can_press", None)
        return can_press is None or bool(can_press(address))

    def cut_with_buttons(
        self,
        dest: str | None,
        session: str,
        text: str,
        buttons: Sequence[Mapping[str, Any]],
        emoji: Sequence[str] = (),
    ) -> tuple[Leg, ...]:
        """Return the legs of a text with these buttons under it (`Button` as JSON objects).

        `emoji`: the reactions that stand for the buttons, where reactions are buttons.
        """
        channel = self.channels.get((dest or "").partition(":")[0])
        are_taken_away = channel is not None and channel.caps.edits and channel.caps.button_edits
        legs = self.cut_legs(dest, session, text)
        if emoji:
            answers = [str(button["answer"]) for button in buttons]
            offered = list(zip(emoji, answers, strict=True))
            is_shown = channel is not None and not channel.caps.one_reaction
            return with_reactions(legs, offered, is_shown=is_shown, are_taken_away=are_taken_away)
        if channel is not None and channel.caps.button_reactions:
            return legs
        return with_buttons(legs, [dict(button) for button in buttons], are_taken_away=are_taken_away)

    def cut_legs(
        self, dest: str | None, session: str, text: str, op: Mapping[str, Any] | None = None
    ) -> tuple[Leg, ...]:
        """Split a text into the legs for a destination. Return () if there is none, or if it is not on a channel.

        `op`: fields that replace those of the first leg's operation, for example to send a file with the text as its
        caption. The rest of a long text is sent in posts after it.
        """
        name, _, address = (dest or "").partition(":")
        channel = self.channels.get(name)
        if channel is None or dest is None:
            return ()
        following = {"kind": "post", "session": session, "address": address}
        first = {**following, **(op or {})}
        caps = channel.caps
        if first["kind"] == "file" and caps.caption_len == 0 and text:
            rest = self.cut_legs(dest, session, text)
            return (Leg(0, 0, name, dest, {"text": "", **first}), *rest)
        if first["kind"] not in ("post", "file") or caps.max_len is None or not text:
            return (Leg(0, len(text), name, dest, {"text": text, **first}),)
        parts = render_parts(text, caps.max_len, caps.unit, caps.caption_len if first["kind"] == "file" else None)
        return tuple(
            Leg(lo, hi, name, dest, {**(following if n else first), "text": sent})
            for n, (lo, hi, sent) in enumerate(parts)
        )
