"""What an agent's history proves about a turn that was interrupted (Law 9).

A history tells messages and tool calls, seldom that a turn had ended. Text that stands last in it is no evidence: many
agents store the words in front of a tool call and not the call, or each of a turn's messages as it is whole, or half of
one. So a turn is finished from a history only if that marks its end (a profile's `history_end`), every tool call that
the record has is in it, and none is open. Otherwise the history only adds to what people were shown: what they were not
shown is recorded, and the agent is asked to go on.

A history may also end *before* the interrupted turn, since many agents save a prompt only with its answer: then its
last prompt is an earlier turn's. That prompt may contain, or equal, a short new message
("yes"); taking the earlier prompt's answer would lose the new message and repeat the old answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from semel.acp_stream import Item
from semel.acp_stream.redelivery import are_attempts, bare
from semel.law.memory_diff import flat
from semel.text.verbatim import normal
from semel.text.visible import is_blank

OURS = re.compile(r"\[semel: .*?\n\[/semel\]", re.DOTALL)
GOES_ON = "[semel: your turn goes on"  # how the prompt of a resumed attempt begins
LEAST = 12  # a message with fewer non-blank characters does not count as known because another text contains it
FEW = 4  # one with fewer is no half of a text only because that begins with it


@dataclass(frozen=True)
class Remembered:
    """What an agent's history holds behind the prompt of the interrupted turn, in order.

    `items`: messages and tool calls. `ended`: the history marks that the turn had ended. `asked_again`: the numbers of
    the items that stand first behind another prompt of the turn.
    """

    items: tuple[Item, ...] = ()
    ended: bool = False
    asked_again: frozenset[int] = frozenset()

    @property
    def messages(self) -> list[Item]:
        """What the agent said."""
        return [one for one in self.items if one.kind == "message"]

    @property
    def calls(self) -> list[Item]:
        """Its tool calls."""
        return [one for one in self.items if one.kind == "tool"]

    def is_complete(self, recorded: Sequence[Call] = (), sent: Sequence[str] = ()) -> bool:
        """Whether this is all of the turn: its end is marked, and no tool call is open or missing.

        `recorded`: the calls that the record has. `sent`: the texts that a tool of ours was called with.
        """
        missing, _ = match_calls(recorded, self.calls)
        open_calls = any(is_open(one) for one in self.calls)
        inputs = [flat(one.fields.get("input")) for one in self.calls]
        unknown = any(not any(bare(text) in given for given in inputs) for text in sent)
        return self.ended and bool(self.messages) and not (open_calls or missing or unknown)


@dataclass(frozen=True)
class Call:
    """A tool call that the record has. `call`: the agent's id of it."""

    call: str | None
    title: str = ""
    input: object = None


@dataclass(frozen=True)
class Written:
    """A text that the agent wrote for its home in the interrupted turn, and that the record has, whatever became of it.

    It was said, or was an echo, a quiet word, or held back. `cut`: its attempt ended before it did.
    """

    claim: int
    text: str
    cut: bool = False


@dataclass(frozen=True)
class Beyond:
    """What a message of the history holds beyond what the record has: `rest`, "" if nothing.

    `whole`: the claim of the text that is this message, word for word.
    """

    message: int
    rest: str = ""
    whole: int | None = None


# ---------------------------------------------------------------- where the turn stands in a history


def find_turn(
    items: Sequence[Item], asked: Sequence[str], before: Sequence[tuple[str, str]] = (), *, ended: bool = False
) -> Remembered | None:
    """What the history holds of the turn that was asked this; None: nothing behind its prompt, or not even that.

    `before`: (role, text) of what was recorded before this turn. `ended`: an end is marked behind all of it.
    """
    past = [one for one in items if one.fields.get("history") and one.kind in ("message", "tool")]
    first = _first_prompt(past, asked)
    if first is None:
        return None
    behind: list[Item] = []
    asked_again = set()
    for one in past[first + 1 :]:
        if _is_prompt(one):
            asked_again.add(len(behind))
        elif one.kind == "tool" or _is_said(one):
            behind.append(one)
    if not behind or _is_earlier(past[first], behind, asked, before):
        return None
    return Remembered(tuple(behind), ended and not _is_prompt(past[-1]), frozenset(asked_again))


def is_open(call: Item) -> bool:
    """Whether a tool call has no end."""
    return call.fields.get("status") in ("pending", "running", "no result")


def _first_prompt(past: Sequence[Item], asked: Sequence[str]) -> int | None:
    """Where the turn begins: its own first prompt. Behind it may stand prompts that were steered in, or asked on."""
    first, left = None, [one for one in asked if normal(one)]
    for n in range(len(past) - 1, -1, -1):
        if not _is_prompt(past[n]):
            continue
        text = past[n].text
        if GOES_ON in text and any(_quotes(text, one) for one in asked):
            first = n
        elif left and _holds(text, left[-1]):
            first = n
            while left and _holds(text, left[-1]):
                left.pop()
            if not left:
                break
        else:
            break
    return first


def _holds(prompt: str, asked: str) -> bool:
    return normal(asked) in normal(prompt)


def _quotes(prompt: str, asked: str) -> bool:
    return bare(repr(asked)) in bare(prompt) or bare(asked) in bare(prompt)


def _is_prompt(item: Item) -> bool:
    return item.kind == "message" and item.fields.get("role") == "user"


def _is_said(item: Item) -> bool:
    told = not is_blank(item.text) or bool(item.fields.get("content"))
    return item.kind == "message" and item.fields.get("role") == "agent" and told


def _is_earlier(prompt: Item, behind: Sequence[Item], asked: Sequence[str], before: Sequence[tuple[str, str]]) -> bool:
    """Whether the prompt belongs to an earlier turn: it contains a recorded message at least as long as this turn's."""
    if GOES_ON in prompt.text:
        return False
    wanted = next((form for one in asked if (form := normal(one)) and form in normal(prompt.text)), "")
    held = normal(OURS.sub("", prompt.text)) or normal(prompt.text)
    earlier = {normal(text) for role, text in before if role in ("user", "event")}
    rivals = {text for text in earlier if text and text in held and len(text) >= len(wanted)}
    if rivals - {wanted}:
        return True
    said = {bare(text) for role, text in before if role == "agent"}
    return wanted in rivals and any(
        one.kind == "message" and one.text.strip() and bare(one.text) in said for one in behind
    )


# ---------------------------------------------------------------- what it lacks, and what it adds


def match_calls(recorded: Sequence[Call], told: Sequence[Item]) -> tuple[list[Call], list[Item]]:
    """(the calls of the record that a history lacks, those of the history that the record lacks).

    Two are the same by their id, else by what is given to them, else by their title, one for one.
    """
    missing, extra = list(recorded), list(told)
    for alike in (_is_same_id, _is_same_input, _is_same_title):
        for one in list(missing):
            same = next((item for item in extra if alike(one, item)), None)
            if same is not None:
                missing.remove(one)
                extra.remove(same)
    return missing, extra


def _is_same_id(one: Call, item: Item) -> bool:
    return one.call is not None and one.call == item.fields.get("call")


def _is_same_input(one: Call, item: Item) -> bool:
    return bool(one.input) and _form(one.input) == _form(item.fields.get("input"))


def _is_same_title(one: Call, item: Item) -> bool:
    return bool(one.title) and one.title == item.fields.get("title")


def _form(given: object) -> str:
    return given if isinstance(given, str) else json.dumps(given, sort_keys=True, default=str)


def compare(messages: Mapping[int, str], written: Sequence[Written]) -> dict[int, Beyond]:
    """Each message of a history, by its number and in order, held against what the agent wrote, copy by copy.

    White space decides nothing. A message may be one text, a part of one, or several of them in a row; the history
    need not tell them all, and may break off in any. Where a message goes on behind a text that was cut off, it is said
    anew, from the beginning of that one; so it is where it goes on behind an attempt that was begun again. And it may
    hold the attempts at a text that was written to its end, in front of that: some agents store all that they streamed.
    """
    texts = _Texts(written)
    whole = {n: texts.take_equal(bare(text)) for n, text in messages.items()}
    whole |= {n: texts.take_retold(bare(messages[n])) for n, claim in whole.items() if claim is None}
    told = "".join(map(bare, messages.values()))
    found, at = {}, 0
    for n, text in messages.items():
        at += len(bare(text))
        behind = told[at : at + texts.longest]
        found[n] = Beyond(n, "" if whole[n] is not None else texts.rest_of(text, behind), whole[n])
    return found


class _Texts:
    """The texts that the agent wrote, and how much of each a history has told."""

    def __init__(self, written: Sequence[Written]) -> None:
        self.written = list(written)
        self.forms = [bare(one.text) for one in written]
        self.told = [0] * len(written)
        self.longest = max(map(len, self.forms), default=0)

    def take_equal(self, form: str) -> int | None:
        """The claim of an untold text that is exactly this."""
        for n, known in enumerate(self.forms):
            if known == form and not self.told[n]:
                self.told[n] = len(known)
                return self.written[n].claim
        return None

    def take_retold(self, form: str) -> int | None:
        """The claim of an untold text, written to its end, that stands here behind nothing but attempts at it."""
        for n, known in enumerate(self.forms):
            if self.told[n] or self.written[n].cut or len(known) < LEAST or not form.endswith(known):
                continue
            if are_attempts(form[: -len(known)], known):
                self.told[n] = len(known)
                return self.written[n].claim
        return None

    def rest_of(self, text: str, behind: str = "") -> str:
        """The end of a message that the record does not have, "" if there is none. `behind`: what the history tells
        after it."""
        while text and (form := bare(text)):
            if self._take_part(form, behind) or (len(form) >= LEAST and any(form in known for known in self.forms)):
                return ""
            shorter = self._without_row(text)
            if shorter == text:
                return text
            text = shorter
        return text

    def _take_part(self, form: str, behind: str) -> bool:
        """Whether this is the beginning of what is left of a text, and no other word that happens to begin alike."""
        for n, one in enumerate(self.written):
            if not self._left(n).startswith(form):
                continue
            if len(form) >= FEW or _parts(one.text, self.told[n] + len(form)) or self._breaks_off(n, form, behind):
                self.told[n] += len(form)
                return True
        return False

    def _breaks_off(self, n: int, form: str, behind: str) -> bool:
        """Whether a history may hold no more of a text than this, or tells the rest behind it."""
        left, ahead = self._left(n), form + behind
        if self.written[n].cut or self.told[n]:
            return True
        if behind:
            return left.startswith(ahead) or (len(left) > len(form) and ahead.startswith(left))
        return n > 0 and all(self.told[k] == len(self.forms[k]) for k in range(n))

    def _without_row(self, text: str) -> str:
        """What of a message stands behind the texts that it begins with."""
        row, form = self._row(bare(text)), bare(text)
        if self._take_attempts(form):
            return text
        size = sum(len(self._left(n)) for n in row)
        if row and size < len(form) and (self.written[row[-1]].cut or self._is_torn(row[-1], text, size)):
            # it goes on there
            n = row.pop()
            size -= len(self._left(n))
            if not row and self.told[n]:
                return _split(self.written[n].text, self.told[n])[0] + text
        while row and len(self._left(row[-1])) < LEAST and not (_parts(text, size) or self._begins(form[size:], row)):
            size -= len(self._left(row.pop()))
        for n in row:
            self.told[n] = len(self.forms[n])
        return _split(text, size)[1]

    def _is_torn(self, n: int, text: str, size: int) -> bool:
        """Whether the text that was written last breaks off inside a word of the message: an attempt at it, whose end
        the gateway saw, and not that it was begun again."""
        return n == len(self.forms) - 1 and len(self._left(n)) >= LEAST and not _parts(text, size)

    def _take_attempts(self, form: str) -> bool:
        """Whether the message is a text that broke off, was begun again, and was cut off in that: it is said anew.

        The first attempt looks like a text of its own, since the agent went on under another id.
        """
        if "".join(map(self._left, range(len(self.forms)))).startswith(form):
            return False  # it holds the texts in their order, as far as it goes
        for n, again in enumerate(self.forms):
            if self.told[n] or not self.written[n].cut or len(again) < FEW or not form.startswith(again):
                continue
            first = self.forms[n - 1] if n and not (self.told[n - 1] or self.written[n - 1].cut) else ""
            if not first.startswith(again) or not form.startswith(first):
                continue
            rest = form[len(first) :]
            if not (rest.startswith(again) or again.startswith(rest)):  # else it holds the two, one behind the other
                self.told[n - 1], self.told[n] = len(first), len(again)
                return True
        return False

    def _begins(self, rest: str, row: Sequence[int]) -> bool:
        """Whether a text that is not in the row begins so."""
        return any(self._left(n).startswith(rest) for n in range(len(self.forms)) if n not in row)

    def _left(self, n: int) -> str:
        return self.forms[n][self.told[n] :]

    def _row(self, form: str) -> list[int]:
        """The texts, in order, with which the message begins: those that reach furthest."""
        rows: dict[int, list[int]] = {0: []}
        for n in range(len(self.forms)):
            known = self._left(n)
            for at in sorted(rows, reverse=True) if known else ():
                if form.startswith(known, at):
                    rows.setdefault(at + len(known), [*rows[at], n])
        return rows[max(rows)]


def _split(text: str, visible: int) -> tuple[str, str]:
    """Split a text before its non-blank character number `visible`, counted from 0."""
    places = [n for n, char in enumerate(text) if not char.isspace()]
    at = places[visible] if visible < len(places) else len(text)
    return (text, "") if at == len(text) else (text[:at], text[at:])


def _parts(text: str, visible: int) -> bool:
    """Whether a cut after the first `visible` non-blank characters does not fall inside a word."""
    head, rest = _split(text, visible)
    inside = head[-1:].isalnum() and rest[:1].isalnum()
    return not inside or (rest[0].isupper() and not head[-1].isupper())  # two texts that were joined
