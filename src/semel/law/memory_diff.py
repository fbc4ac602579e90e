"""Where an agent's own memory and the record differ (Laws 6, 8, 9).

The record holds what people were shown; an agent's history holds what it believes it said. After a kill or a cancel,
after a message that was held back or sent by another session, the two differ: the agent is told so, once.

A history is compared as text without white space, because agents trim, split and join what they said. A text that a
tool sent stands in a history as the input of a tool call. What was shown and then replaced (superseded) may be there
or not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from semel.acp_stream import Item
from semel.acp_stream.redelivery import are_attempts, bare
from semel.law.echo import QUIET_WORD, is_quiet
from semel.text.message_markup import Problem, Reader, Said

QUOTED = 1_500  # characters of one text that are quoted
LEAST = 8  # visible characters of what is left of a message that is known in part


@dataclass(frozen=True)
class Recorded:
    """One message of the record. `needed`: the agent should remember it; else it may."""

    seq: int
    role: Literal["agent", "user"]
    text: str
    needed: bool = True


@dataclass(frozen=True)
class Difference:
    """`lacks`: recorded, not in the history. `extra`: in the history as said by the agent, and never delivered."""

    lacks: tuple[Recorded, ...] = ()
    extra: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lacks or self.extra)


def difference(
    recorded: Sequence[Recorded],
    items: Sequence[Item],
    names: Collection[str] = (),
    *,
    whole: bool = True,
    quiet: Collection[str] = (QUIET_WORD,),
) -> Difference:
    """Compare the record (in the order of a prompt's history) with what an agent told of its history.

    names: the destinations its session may reach besides home, so that its markup is read as such.
    whole: the record reaches back to the chapter's beginning; else nothing older than it counts as extra.
    quiet: the words that say nothing.
    """
    past = [i for i in items if i.fields.get("history")]
    history = _History(past, names, quiet)
    asked = "".join(bare(i.text) for i in past if i.kind == "message" and i.fields.get("role") == "user")
    lacks = [one for one in sorted(recorded, key=_longest_first) if one.needed and not _known(one, history, asked)]
    lacks_any = [*lacks, *(one for one in recorded if not one.needed and not history.take(one.text))]
    halves = [bare(one.text) for one in lacks_any if one.role == "agent"]
    order = {one.seq: n for n, one in enumerate(recorded)}
    said = [bare(one.text) for one in recorded if one.role == "agent"]
    extra = [text for text in history.left(said, halves, whole) if not _told(text, asked)]
    return Difference(tuple(sorted(lacks, key=lambda one: order[one.seq])), tuple(extra))


def quote(text: str) -> str:
    """A text as the agent is told of it: on one line, and not longer than it helps."""
    cut = text if len(text) <= QUOTED else f"{text[:QUOTED]}… ({len(text) - QUOTED} more characters)"
    return repr(cut)


def _longest_first(one: Recorded) -> int:
    return -len(one.text)


def _known(one: Recorded, history: _History, asked: str) -> bool:
    if one.role == "user":
        return bare(one.text) in asked or _told(one.text, asked)
    return history.take(one.text) or _told(one.text, asked)


def _told(text: str, asked: str) -> bool:
    """It was quoted to the agent in an earlier prompt, which its history holds."""
    return bare(f": {quote(text)}") in asked


class _History:
    """What an agent told that it said: messages one behind the other, and the inputs of its tool calls."""

    def __init__(self, past: Sequence[Item], names: Collection[str], quiet: Collection[str]) -> None:
        spoken = (i.text for i in past if i.kind == "message" and i.fields.get("role") == "agent")
        self.said = [text for whole in spoken for text in _segments(whole, names) if not is_quiet(text, quiet)]
        self.inputs = [flat(i.fields.get("input")) for i in past if i.kind == "tool"]
        self.spare = "".join(bare(text) for text in self.said)
        self.first = len(self.spare)  # where the oldest thing stands that the record knows

    def take(self, text: str) -> bool:
        """Whether this is in it; one copy of it is used up then."""
        wanted = bare(text)
        if not wanted:
            return True
        at = self.spare.find(wanted)
        if at >= 0:
            self.first = min(self.first, at)
            self.spare = self.spare[:at] + "\0" * len(wanted) + self.spare[at + len(wanted) :]
            return True
        for n, given in enumerate(self.inputs):
            if wanted in given:
                self.inputs[n] = given.replace(wanted, "", 1)
                return True
        for answer in {bare(text) for text in self.said}:  # the answer, shown behind an attempt at it
            if len(answer) >= LEAST and wanted.endswith(answer) and are_attempts(wanted[: -len(answer)], answer):
                return self.take(answer)
        return False

    def left(self, said: Sequence[str], halves: Sequence[str], whole: bool) -> Iterator[str]:
        """The texts of which something is left that nobody recorded. `halves`: it may hold a beginning of these."""
        at = 0
        for text in self.said:
            size = len(bare(text))
            rest = self.spare[at : at + size].replace("\0", "")
            behind = whole or at >= self.first
            at += size
            for one in said:  # an echo is recorded once, and may be told twice
                rest = rest.replace(one, "") if one else rest
            known = any(one.startswith(rest) for one in halves)
            if behind and rest and not known and (len(rest) == size or len(rest) >= LEAST):
                yield text


def _segments(text: str, names: Collection[str]) -> list[str]:
    """What a message of the history said to anybody. What stays inside is nobody's loss."""
    reader = Reader(bool(names), names)
    pieces = [*reader.feed(text), *reader.end()]
    home = "".join(p.text for p in pieces if isinstance(p, Said) and p.dest is None)
    return [home, *(p.text for p in pieces if isinstance(p, Problem) or (isinstance(p, Said) and p.dest is not None))]


def flat(given: object) -> str:
    """All texts in a tool call's input, without white space."""
    if isinstance(given, str):
        try:
            return flat(json.loads(given)) if given[:1] in "{[" else bare(given)
        except ValueError:
            return bare(given)
    if isinstance(given, dict):
        return "\0".join(flat(one) for one in given.values())
    if isinstance(given, list):
        return "\0".join(flat(one) for one in given)
    return ""
