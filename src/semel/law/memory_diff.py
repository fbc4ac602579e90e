"""Differences between an agent's own memory and the record (Laws 6, 8, 9).

The record holds what people were shown; an agent's history holds what the agent believes it said. They differ after a
kill, a cancel, or a message that was held back or sent by another session. The agent is then told the difference, once.

Texts are compared without white space, because agents trim, split and join what they said. In a history, a text sent by
tool is the input of a tool call. A text that was shown and then superseded may be in the history or not.
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

MAX_QUOTED_CHARS = 1_500  # characters of one text that are quoted to the agent
MIN_REMAINDER_CHARS = 8  # a partly known message is extra only if at least this many characters remain


@dataclass(frozen=True)
class RecordedMessage:
    """One message of the record. `needed`: the agent must be told if its history lacks the message."""

    seq: int
    role: Literal["agent", "user"]
    text: str
    needed: bool = True


@dataclass(frozen=True)
class Difference:
    """How a history differs from the record.

    `lacks`: messages in the record but not in the history. `extra`: texts that the agent believes it said, but that
    were never delivered.
    """

    lacks: tuple[RecordedMessage, ...] = ()
    extra: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lacks or self.extra)


def difference(
    recorded: Sequence[RecordedMessage],
    items: Sequence[Item],
    names: Collection[str] = (),
    *,
    whole: bool = True,
    quiet: Collection[str] = (QUIET_WORD,),
) -> Difference:
    """Compare the record (in the order of a prompt's history) with the history that an agent replayed.

    names: the destinations that the session may reach besides home; if there are any, addressing markup is parsed.
    whole: the record reaches back to the chapter's beginning; otherwise nothing older than the record counts as extra.
    quiet: the quiet words.
    """
    past = [i for i in items if i.fields.get("history")]
    history = _History(past, names, quiet)
    asked = "".join(bare(i.text) for i in past if i.kind == "message" and i.fields.get("role") == "user")
    lacks = [one for one in sorted(recorded, key=_longest_first) if one.needed and not _known(one, history, asked)]
    lacks_any = [*lacks, *(one for one in recorded if not one.needed and not history.take(one.text))]
    halves = [bare(one.text) for one in lacks_any if one.role == "agent"]
    order = {one.seq: n for n, one in enumerate(recorded)}
    said = [bare(one.text) for one in recorded if one.role == "agent"]
    extra = [text for text in history.left(said, halves, whole) if not _was_quoted(text, asked)]
    return Difference(tuple(sorted(lacks, key=lambda one: order[one.seq])), tuple(extra))


def quote(text: str) -> str:
    """Quote a text for the agent: on one line, shortened if it is long."""
    cut = (
        text
        if len(text) <= MAX_QUOTED_CHARS
        else f"{text[:MAX_QUOTED_CHARS]}… ({len(text) - MAX_QUOTED_CHARS} more characters)"
    )
    return repr(cut)


def _longest_first(one: RecordedMessage) -> int:
    return -len(one.text)


def _known(one: RecordedMessage, history: _History, asked: str) -> bool:
    if one.role == "user":
        return bare(one.text) in asked or _was_quoted(one.text, asked)
    return history.take(one.text) or _was_quoted(one.text, asked)


def _was_quoted(text: str, asked: str) -> bool:
    """Whether the text was quoted to the agent in an earlier prompt that its history contains."""
    return bare(f": {quote(text)}") in asked


class _History:
    """The agent's messages in a history, joined without white space, and the inputs of its tool calls.

    `spare` is the joined text; characters that are matched with the record are overwritten with NUL.
    """

    def __init__(self, past: Sequence[Item], names: Collection[str], quiet: Collection[str]) -> None:
        spoken = (i.text for i in past if i.kind == "message" and i.fields.get("role") == "agent")
        self.said = [text for whole in spoken for text in _segments(whole, names) if not is_quiet(text, quiet)]
        self.inputs = [flat(i.fields.get("input")) for i in past if i.kind == "tool"]
        self.spare = "".join(bare(text) for text in self.said)
        self.first = len(self.spare)  # offset of the oldest text that the record knows

    def take(self, text: str) -> bool:
        """Whether the history contains this text. If it does, one copy of it is consumed."""
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
        for answer in {bare(text) for text in self.said}:  # people were shown an attempt and then the answer
            if (
                len(answer) >= MIN_REMAINDER_CHARS
                and wanted.endswith(answer)
                and are_attempts(wanted[: -len(answer)], answer)
            ):
                return self.take(answer)
        return False

    def left(self, said: Sequence[str], halves: Sequence[str], whole: bool) -> Iterator[str]:
        """The agent's texts that the record does not account for.

        `said`: every recorded text of the agent. `halves`: recorded texts that the history lacks; a message that is the
        beginning of one of them is no extra.
        """
        at = 0
        for text in self.said:
            size = len(bare(text))
            rest = self.spare[at : at + size].replace("\0", "")
            behind = whole or at >= self.first
            at += size
            for one in said:  # an echo is recorded once, but the history may contain it twice
                rest = rest.replace(one, "") if one else rest
            known = any(one.startswith(rest) for one in halves)
            if behind and rest and not known and (len(rest) == size or len(rest) >= MIN_REMAINDER_CHARS):
                yield text


def _segments(text: str, names: Collection[str]) -> list[str]:
    """The texts of a message by destination, home first. Internal text is left out: nobody was meant to see it."""
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
