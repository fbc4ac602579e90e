"""Differences between an agent's own memory and the record (Laws 6, 8, 9).

The record holds what people were shown; an agent's history, which it replays when its session is loaded, holds what the
agent believes it said. They differ after a kill, a cancel, or a message that was held back or sent by another session.
The agent's next prompt then describes the difference, once.

Texts are compared without white space, because agents trim, split and join what they said. In a history, a text sent by
tool is the input of a tool call. A text that was shown and then superseded may be in the history or not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from semel.acp_stream import ViewItem
from semel.acp_stream.redelivery import are_failed_starts, without_white_space
from semel.law.echo import QUIET_WORD, is_quiet
from semel.text.message_markup import MarkupProblem, MarkupReader, Said

MAX_QUOTED_CHARS = 1_500  # characters of one text that are quoted to the agent
MIN_REMAINDER_CHARS = 8  # a partly recorded message counts as extra only if it has this many unrecorded characters


@dataclass(frozen=True)
class RecordedMessage:
    """A message of the record.

    `needed`: if the agent's history lacks the message, the difference lists it. `seq`: the number of its entry.
    `typed`: the part of `text` that the history may have; None: all of it.
    """

    seq: int
    role: Literal["agent", "user"]
    text: str
    needed: bool = True
    typed: str | None = None


@dataclass(frozen=True)
class Difference:
    """How a history differs from the record.

    `lacks`: needed messages of the record that the history lacks. `extra`: texts of the history that the record lacks.
    The agent believes that it said the `extra` texts, but they were never delivered.
    """

    lacks: tuple[RecordedMessage, ...] = ()
    extra: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lacks or self.extra)


def find_difference(
    recorded: Sequence[RecordedMessage],
    items: Sequence[ViewItem],
    names: Collection[str] = (),
    *,
    is_whole_chapter: bool = True,
    quiet: Collection[str] = (QUIET_WORD,),
) -> Difference:
    """Compare the record with the history that an agent replayed, and return how they differ.

    `recorded`: the record's messages, oldest first. `items`: the session's view, which contains the replayed history.
    `names`: the destinations that the session may reach besides its home; if there are any, addressing markup in the
    agent's messages is parsed. `is_whole_chapter`: `recorded` reaches back to the chapter's beginning; otherwise, texts
    of the history that precede every recorded text do not count as extra. `quiet`: the quiet words.
    """
    replayed = [i for i in items if i.fields.get("history")]
    history = _History(replayed, names, quiet)
    prompts = "".join(
        without_white_space(i.text) for i in replayed if i.kind == "message" and i.fields.get("role") == "user"
    )
    lacks = [
        message
        for message in sorted(recorded, key=_longest_first)
        if message.needed and not _is_in_history(message, history, prompts)
    ]
    lacks_any = [*lacks, *(message for message in recorded if not message.needed and not history.take(message.text))]
    missing_texts = [without_white_space(message.text) for message in lacks_any if message.role == "agent"]
    order = {message.seq: n for n, message in enumerate(recorded)}
    agent_texts = [without_white_space(message.text) for message in recorded if message.role == "agent"]
    extra = [
        text
        for text in history.find_unrecorded(agent_texts, missing_texts, is_whole_chapter)
        if not _was_quoted(text, prompts)
    ]
    return Difference(tuple(sorted(lacks, key=lambda message: order[message.seq])), tuple(extra))


def quote_text(text: str) -> str:
    """Return a text as a Python string literal, on one line, shortened to MAX_QUOTED_CHARS."""
    quoted = (
        text
        if len(text) <= MAX_QUOTED_CHARS
        else f"{text[:MAX_QUOTED_CHARS]}… ({len(text) - MAX_QUOTED_CHARS} more characters)"
    )
    return repr(quoted)


def _longest_first(message: RecordedMessage) -> int:
    return -len(message.text)


def _is_in_history(message: RecordedMessage, history: _History, prompts: str) -> bool:
    if message.role == "user":
        typed = message.text if message.typed is None else message.typed
        return without_white_space(typed) in prompts or _was_quoted(message.text, prompts)
    return history.take(message.text) or _was_quoted(message.text, prompts)


def _was_quoted(text: str, prompts: str) -> bool:
    """Whether the text is quoted in one of the history's prompts (`prompts`: joined, without white space)."""
    return without_white_space(f": {quote_text(text)}") in prompts


class _History:
    """What the agent said in a history: the texts of its messages, and the inputs of its tool calls.

    `joined`: all these texts in a row, without white space. `take` overwrites the text that it matches with NUL
    characters.
    """

    def __init__(self, replayed: Sequence[ViewItem], names: Collection[str], quiet: Collection[str]) -> None:
        spoken = (i.text for i in replayed if i.kind == "message" and i.fields.get("role") == "agent")
        self.texts = [text for message in spoken for text in _list_texts(message, names) if not is_quiet(text, quiet)]
        self.tool_inputs = [flatten_texts(i.fields.get("input")) for i in replayed if i.kind == "tool"]
        self.joined = "".join(without_white_space(text) for text in self.texts)
        self.oldest_match = len(self.joined)  # where the first text begins that the record has, too

    def take(self, text: str) -> bool:
        """Use up one copy of this text in the history. Returns False if the history has no copy of it left."""
        form = without_white_space(text)
        if not form:
            return True
        offset = self.joined.find(form)
        if offset >= 0:
            self.oldest_match = min(self.oldest_match, offset)
            self.joined = self.joined[:offset] + "\0" * len(form) + self.joined[offset + len(form) :]
            return True
        for n, tool_input in enumerate(self.tool_inputs):
            if form in tool_input:
                self.tool_inputs[n] = tool_input.replace(form, "", 1)
                return True
        for answer in {
            without_white_space(text) for text in self.texts
        }:  # the record has failed attempts and then the answer
            if (
                len(answer) >= MIN_REMAINDER_CHARS
                and form.endswith(answer)
                and are_failed_starts(form[: -len(answer)], answer)
            ):
                return self.take(answer)
        return False

    def find_unrecorded(
        self, agent_texts: Sequence[str], missing_texts: Sequence[str], is_whole_chapter: bool
    ) -> Iterator[str]:
        """Yield the texts of the history that the record lacks. Call it after `take` for every recorded text.

        `agent_texts`: every recorded text of the agent. `missing_texts`: those that the history lacks; the beginning of
        one of them is not yielded. Both are without white space. `is_whole_chapter`: as in `find_difference`.
        """
        offset = 0
        for text in self.texts:
            size = len(without_white_space(text))
            remainder = self.joined[offset : offset + size].replace("\0", "")
            is_in_record = is_whole_chapter or offset >= self.oldest_match
            offset += size
            for recorded in agent_texts:  # an echo is recorded once, but the history may contain it twice
                remainder = remainder.replace(recorded, "") if recorded else remainder
            is_missing_part = any(recorded.startswith(remainder) for recorded in missing_texts)
            if (
                is_in_record
                and remainder
                and not is_missing_part
                and (len(remainder) == size or len(remainder) >= MIN_REMAINDER_CHARS)
            ):
                yield text


def _list_texts(text: str, names: Collection[str]) -> list[str]:
    """Return a message's text for each destination, home first. Text marked as internal is left out."""
    reader = MarkupReader(bool(names), names)
    parts = [*reader.feed(text), *reader.end()]
    home = "".join(p.text for p in parts if isinstance(p, Said) and p.dest is None)
    return [
        home,
        *(p.text for p in parts if isinstance(p, MarkupProblem) or (isinstance(p, Said) and p.dest is not None)),
    ]


def flatten_texts(value: object) -> str:
    """Return all texts in a tool call's input, each without white space, separated by NUL characters."""
    if isinstance(value, str):
        try:
            return flatten_texts(json.loads(value)) if value[:1] in "{[" else without_white_space(value)
        except ValueError:
            return without_white_space(value)
    if isinstance(value, dict):
        return "\0".join(flatten_texts(inner) for inner in value.values())
    if isinstance(value, list):
        return "\0".join(flatten_texts(inner) for inner in value)
    return ""
