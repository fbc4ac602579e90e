"""What an agent's history proves about a turn that was interrupted (Law 9).

A history contains messages and tool calls, but seldom the fact that a turn ended. A text at its end is no evidence:
many agents store the words before a tool call but not the call, or store each message of a turn once it is complete,
or half a message. So a turn is finished from a history only if the history marks its end (a profile's `history_end`),
contains every tool call of the record, and has no open call. Otherwise the history only supplements what people were
shown: the text that they were not shown is recorded, and the agent is asked to continue.

A history may also end *before* the interrupted turn, because many agents save a prompt only together with its answer.
Then its last prompt belongs to an earlier turn. That prompt may contain, or equal, a short new message ("yes"); to take
its answer would lose the new message and repeat the old answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from semel.acp_stream import Item
from semel.acp_stream.redelivery import are_attempts, bare
from semel.law.memory_diff import flat
from semel.text.verbatim import verbatim_form
from semel.text.visible import is_blank

SEMEL_NOTE = re.compile(r"\[semel: .*?\n\[/semel\]", re.DOTALL)
RESUME_PROMPT_START = "[semel: your turn goes on"  # how the prompt of a resumed attempt begins
MIN_CONTAINED_CHARS = 12  # non-blank characters: a shorter message is not known merely because a text contains it
MIN_PREFIX_CHARS = 4  # a shorter message is no part of a text merely because the text begins with it


@dataclass(frozen=True)
class Remembered:
    """The part of an agent's history that follows the prompt of the interrupted turn.

    `items`: messages and tool calls, in order. `ended`: the history marks the end of the turn. `asked_again`: indexes
    of the items that come first after a further prompt of the turn.
    """

    items: tuple[Item, ...] = ()
    ended: bool = False
    asked_again: frozenset[int] = frozenset()

    @property
    def messages(self) -> list[Item]:
        """The agent's messages."""
        return [one for one in self.items if one.kind == "message"]

    @property
    def calls(self) -> list[Item]:
        """The agent's tool calls."""
        return [one for one in self.items if one.kind == "tool"]

    def is_complete(self, recorded: Sequence[Call] = (), sent: Sequence[str] = ()) -> bool:
        """Whether the history holds the complete turn: its end is marked, and no tool call is open or missing.

        `recorded`: the tool calls in the record. `sent`: the texts that the agent sent with Semel's own tools.
        """
        missing, _ = match_calls(recorded, self.calls)
        open_calls = any(is_open(one) for one in self.calls)
        inputs = [flat(one.fields.get("input")) for one in self.calls]
        unknown = any(not any(bare(text) in given for given in inputs) for text in sent)
        return self.ended and bool(self.messages) and not (open_calls or missing or unknown)


@dataclass(frozen=True)
class Call:
    """A tool call in the record. `call`: the agent's id of the call, if known."""

    call: str | None
    title: str = ""
    input: object = None


@dataclass(frozen=True)
class Written:
    """A recorded text that the agent wrote for its home in the interrupted turn, whatever its outcome.

    It may have been said, an echo, a quiet word, or held back. `cut`: the attempt ended before the text was complete.
    """

    claim: int
    text: str
    cut: bool = False


@dataclass(frozen=True)
class MessageRemainder:
    """The part of a message in the history that the record lacks: `rest`, "" if it lacks nothing.

    `message`: the message's number. `whole`: the claim whose text equals the message, if there is one.
    """

    message: int
    rest: str = ""
    whole: int | None = None


# ---------------------------------------------------------------- where the turn stands in a history


def find_turn(
    items: Sequence[Item], asked: Sequence[str], before: Sequence[tuple[str, str]] = (), *, ended: bool = False
) -> Remembered | None:
    """Find the interrupted turn in a history. None if its prompt is missing or nothing follows it.

    `asked`: the turn's prompts. `before`: (role, text) of the entries recorded before this turn. `ended`: the history
    marks the end of a turn after its last item.
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
    """Whether a tool call has no result yet."""
    return call.fields.get("status") in ("pending", "running", "no result")


def _first_prompt(past: Sequence[Item], asked: Sequence[str]) -> int | None:
    """The index of the turn's first prompt. Later prompts may have been steered into the turn or have resumed it."""
    first, left = None, [one for one in asked if verbatim_form(one)]
    for n in range(len(past) - 1, -1, -1):
        if not _is_prompt(past[n]):
            continue
        text = past[n].text
        if RESUME_PROMPT_START in text and any(_quotes(text, one) for one in asked):
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
    return verbatim_form(asked) in verbatim_form(prompt)


def _quotes(prompt: str, asked: str) -> bool:
    return bare(repr(asked)) in bare(prompt) or bare(asked) in bare(prompt)


def _is_prompt(item: Item) -> bool:
    return item.kind == "message" and item.fields.get("role") == "user"


def _is_said(item: Item) -> bool:
    told = not is_blank(item.text) or bool(item.fields.get("content"))
    return item.kind == "message" and item.fields.get("role") == "agent" and told


def _is_earlier(prompt: Item, behind: Sequence[Item], asked: Sequence[str], before: Sequence[tuple[str, str]]) -> bool:
    """Whether the prompt belongs to an earlier turn: it contains an earlier message at least as long as this turn's."""
    if RESUME_PROMPT_START in prompt.text:
        return False
    wanted = next((form for one in asked if (form := verbatim_form(one)) and form in verbatim_form(prompt.text)), "")
    held = verbatim_form(SEMEL_NOTE.sub("", prompt.text)) or verbatim_form(prompt.text)
    earlier = {verbatim_form(text) for role, text in before if role in ("user", "event")}
    rivals = {text for text in earlier if text and text in held and len(text) >= len(wanted)}
    if rivals - {wanted}:
        return True
    said = {bare(text) for role, text in before if role == "agent"}
    return wanted in rivals and any(
        one.kind == "message" and one.text.strip() and bare(one.text) in said for one in behind
    )


# ---------------------------------------------------------------- what it lacks, and what it adds


def match_calls(recorded: Sequence[Call], told: Sequence[Item]) -> tuple[list[Call], list[Item]]:
    """Return (recorded calls that the history lacks, calls in the history that the record lacks).

    Calls are paired one to one: first by id, then by input, then by title.
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


def compare(messages: Mapping[int, str], written: Sequence[Written]) -> dict[int, MessageRemainder]:
    """Compare each message of a history with the recorded texts, copy by copy, and find what the record lacks.

    `messages`: by number, in order. White space is ignored. A message may equal one text, a part of one, or several in
    a row; the history need not contain every text and may break off inside one. If a message continues beyond a text
    that was cut off, or beyond an attempt that was begun again, its `rest` starts at the beginning of that text. A
    message may also contain failed attempts at a text followed by the complete text: some agents store all that they
    streamed.
    """
    texts = _Texts(written)
    whole = {n: texts.take_equal(bare(text)) for n, text in messages.items()}
    whole |= {n: texts.take_retold(bare(messages[n])) for n, claim in whole.items() if claim is None}
    told = "".join(map(bare, messages.values()))
    found, at = {}, 0
    for n, text in messages.items():
        at += len(bare(text))
        behind = told[at : at + texts.longest]
        found[n] = MessageRemainder(n, "" if whole[n] is not None else texts.rest_of(text, behind), whole[n])
    return found


class _Texts:
    """The recorded texts, and how many non-blank characters of each were already matched in the history."""

    def __init__(self, written: Sequence[Written]) -> None:
        self.written = list(written)
        self.forms = [bare(one.text) for one in written]
        self.told = [0] * len(written)
        self.longest = max(map(len, self.forms), default=0)

    def take_equal(self, form: str) -> int | None:
        """Match an unmatched text that equals `form`. Returns its claim, or None."""
        for n, known in enumerate(self.forms):
            if known == form and not self.told[n]:
                self.told[n] = len(known)
                return self.written[n].claim
        return None

    def take_retold(self, form: str) -> int | None:
        """Match an unmatched, complete text that ends `form` and is preceded only by attempts at it. Returns its claim,
        or None."""
        for n, known in enumerate(self.forms):
            if self.told[n] or self.written[n].cut or len(known) < MIN_CONTAINED_CHARS or not form.endswith(known):
                continue
            if are_attempts(form[: -len(known)], known):
                self.told[n] = len(known)
                return self.written[n].claim
        return None

    def rest_of(self, text: str, behind: str = "") -> str:
        """The end of a message that the record lacks, "" if it lacks nothing. `behind`: the text that follows in the
        history, without white space."""
        while text and (form := bare(text)):
            if self._take_part(form, behind) or (
                len(form) >= MIN_CONTAINED_CHARS and any(form in known for known in self.forms)
            ):
                return ""
            shorter = self._without_row(text)
            if shorter == text:
                return text
            text = shorter
        return text

    def _take_part(self, form: str, behind: str) -> bool:
        """Match `form` as the next part of a text. False if there is none, or if it may be a coincidence: a short form
        that ends inside a word."""
        for n, one in enumerate(self.written):
            if not self._left(n).startswith(form):
                continue
            if (
                len(form) >= MIN_PREFIX_CHARS
                or _cuts_between_words(one.text, self.told[n] + len(form))
                or self._breaks_off(n, form, behind)
            ):
                self.told[n] += len(form)
                return True
        return False

    def _breaks_off(self, n: int, form: str, behind: str) -> bool:
        """Whether the history may break off in text `n` after `form`, or continues with the rest of the text."""
        left, ahead = self._left(n), form + behind
        if self.written[n].cut or self.told[n]:
            return True
        if behind:
            return left.startswith(ahead) or (len(left) > len(form) and ahead.startswith(left))
        return n > 0 and all(self.told[k] == len(self.forms[k]) for k in range(n))

    def _without_row(self, text: str) -> str:
        """Match the texts with which a message begins, and return what follows them."""
        row, form = self._row(bare(text)), bare(text)
        if self._take_attempts(form):
            return text
        size = sum(len(self._left(n)) for n in row)
        if row and size < len(form) and (self.written[row[-1]].cut or self._is_torn(row[-1], text, size)):
            # the message continues beyond a text that broke off: its rest starts at that text's beginning
            n = row.pop()
            size -= len(self._left(n))
            if not row and self.told[n]:
                return _split(self.written[n].text, self.told[n])[0] + text
        while (
            row
            and len(self._left(row[-1])) < MIN_CONTAINED_CHARS
            and not (_cuts_between_words(text, size) or self._begins(form[size:], row))
        ):
            size -= len(self._left(row.pop()))
        for n in row:
            self.told[n] = len(self.forms[n])
        return _split(text, size)[1]

    def _is_torn(self, n: int, text: str, size: int) -> bool:
        """Whether the last recorded text breaks off inside a word of the message: an attempt whose end
        the gateway saw, but not the attempt that followed."""
        return (
            n == len(self.forms) - 1
            and len(self._left(n)) >= MIN_CONTAINED_CHARS
            and not _cuts_between_words(text, size)
        )

    def _take_attempts(self, form: str) -> bool:
        """Whether the message is one text with two recorded attempts: one that broke off, and one that was cut off.

        The first attempt was recorded as a text of its own, because the agent continued under another message id. Both
        are matched, and the message is said in full.
        """
        if "".join(map(self._left, range(len(self.forms)))).startswith(form):
            return False  # the message is simply the texts in their order
        for n, again in enumerate(self.forms):
            if self.told[n] or not self.written[n].cut or len(again) < MIN_PREFIX_CHARS or not form.startswith(again):
                continue
            first = self.forms[n - 1] if n and not (self.told[n - 1] or self.written[n - 1].cut) else ""
            if not first.startswith(again) or not form.startswith(first):
                continue
            rest = form[len(first) :]
            if not (rest.startswith(again) or again.startswith(rest)):  # else the message is the two texts in a row
                self.told[n - 1], self.told[n] = len(first), len(again)
                return True
        return False

    def _begins(self, rest: str, row: Sequence[int]) -> bool:
        """Whether an unmatched text outside of the row begins with `rest`."""
        return any(self._left(n).startswith(rest) for n in range(len(self.forms)) if n not in row)

    def _left(self, n: int) -> str:
        return self.forms[n][self.told[n] :]

    def _row(self, form: str) -> list[int]:
        """The longest sequence of texts, in order, with which the message begins."""
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


def _cuts_between_words(text: str, visible: int) -> bool:
    """Whether a cut after the first `visible` non-blank characters does not fall inside a word."""
    head, rest = _split(text, visible)
    inside = head[-1:].isalnum() and rest[:1].isalnum()
    return not inside or (rest[0].isupper() and not head[-1].isupper())  # "endStart": two texts that were joined
