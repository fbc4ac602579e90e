"""Find an interrupted turn in an agent's history, and compare it with the record (Law 9).

The *history* is what an agent replays of its own memory; the *record* is what Semel's ledger has.

A history contains messages and tool calls, but seldom the fact that a turn ended. A text at its end is no evidence:
many agents store the words before a tool call but not the call, or store each message of a turn once it is complete, or
half a message. So a turn is finished from a history only under three conditions: the history marks the turn's end (a
profile's `history_end`), contains every tool call of the record, and has no open call. Otherwise the history only
supplements what people were shown: the text that they were not shown is recorded, and the agent is asked to continue.

A history may also end *before* the interrupted turn, because many agents save a prompt only together with its answer.
Then its last prompt belongs to an earlier turn. If that prompt contains or equals a short new message ("yes"), it must
not be taken for the new one: the new message would be lost, and the old answer repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from semel.acp_stream import ViewItem
from semel.acp_stream.redelivery import are_failed_starts, without_white_space
from semel.law.memory_diff import flatten_texts
from semel.text.verbatim import verbatim_form
from semel.text.visible import is_blank

SEMEL_NOTE = re.compile(r"\[semel: .*?\n\[/semel\]", re.DOTALL)
RESUME_PROMPT_START = "[semel: your turn goes on"  # how the prompt of a resumed attempt begins
MIN_CONTAINED_CHARS = 12  # non-blank characters; if a text contains a shorter message, it may do so by chance
MIN_PREFIX_CHARS = 4  # non-blank characters; if a text begins with a shorter message, it may do so by chance


@dataclass(frozen=True)
class Remembered:
    """The part of an agent's history that follows the first prompt of the interrupted turn.

    `items`: the agent's messages and tool calls, in order. `ended`: the history marks the end of the turn.
    `asked_again`: for each further prompt of the turn, the index in `items` of the first item after that prompt.
    """

    items: tuple[ViewItem, ...] = ()
    ended: bool = False
    asked_again: frozenset[int] = frozenset()

    @property
    def messages(self) -> list[ViewItem]:
        """The messages in `items`."""
        return [item for item in self.items if item.kind == "message"]

    @property
    def calls(self) -> list[ViewItem]:
        """The tool calls in `items`."""
        return [item for item in self.items if item.kind == "tool"]

    def is_complete(self, recorded: Sequence[RecordedCall] = (), sent: Sequence[str] = ()) -> bool:
        """Whether the history holds the complete turn.

        It does if it marks the turn's end, has a message, has no open tool call, and lacks none of the tool calls and
        texts of the record. `recorded`: the tool calls in the record. `sent`: the texts that the agent sent with
        Semel's own tools.
        """
        missing, _ = match_calls(recorded, self.calls)
        open_calls = any(is_open(call) for call in self.calls)
        inputs = [flatten_texts(call.fields.get("input")) for call in self.calls]
        has_unknown_text = any(
            not any(without_white_space(text) in text_of_input for text_of_input in inputs) for text in sent
        )
        return self.ended and bool(self.messages) and not (open_calls or missing or has_unknown_text)


@dataclass(frozen=True)
class RecordedCall:
    """A tool call in the record. `call`: the agent's own id of the call, if known."""

    call: str | None
    title: str = ""
    input: object = None


@dataclass(frozen=True)
class RecordedText:
    """A recorded text that the agent wrote for its home in the interrupted turn.

    Its claim may have any outcome: said, echo, quiet or refused. `claim`: the claim's id. `is_cut`: the attempt ended
    before the text was complete.
    """

    claim: int
    text: str
    is_cut: bool = False


@dataclass(frozen=True)
class MessageRemainder:
    """The end of a message in the history that the record lacks.

    `message`: the message's number. `rest`: the text that the record lacks; "" if it lacks nothing. `equal_claim`: the
    id of the claim whose text equals the message, if there is one.
    """

    message: int
    rest: str = ""
    equal_claim: int | None = None


# ---------------------------------------------------------------- finding the turn in a history


def find_turn(
    items: Sequence[ViewItem], prompts: Sequence[str], before: Sequence[tuple[str, str]] = (), *, ended: bool = False
) -> Remembered | None:
    """Return the part of a history that belongs to the interrupted turn.

    Returns None if the history lacks the turn's prompt, or has nothing after that prompt. `items`: the session's view,
    which contains the replayed history. `prompts`: the turn's prompts, oldest first. `before`: the entries recorded
    before this turn, each as (role, text). `ended`: the history marks the end of a turn after its last item.
    """
    past = [item for item in items if item.fields.get("history") and item.kind in ("message", "tool")]
    first_prompt = _first_prompt(past, prompts)
    if first_prompt is None:
        return None
    following: list[ViewItem] = []
    asked_again = set()
    for item in past[first_prompt + 1 :]:
        if _is_prompt(item):
            asked_again.add(len(following))
        elif item.kind == "tool" or _is_said(item):
            following.append(item)
    if not following or _is_earlier(past[first_prompt], following, prompts, before):
        return None
    return Remembered(tuple(following), ended and not _is_prompt(past[-1]), frozenset(asked_again))


def is_open(call: ViewItem) -> bool:
    """Whether a tool call has no result yet."""
    return call.fields.get("status") in ("pending", "running", "no result")


def _first_prompt(past: Sequence[ViewItem], prompts: Sequence[str]) -> int | None:
    """Return the index in `past` of the turn's first prompt; None if it is missing.

    The search goes backwards from the end, over later prompts that were steered into the turn or have resumed it.
    """
    first, remaining = None, [prompt for prompt in prompts if verbatim_form(prompt)]
    for n in range(len(past) - 1, -1, -1):
        if not _is_prompt(past[n]):
            continue
        text = past[n].text
        if RESUME_PROMPT_START in text and any(_quotes(text, prompt) for prompt in prompts):
            first = n
        elif remaining and _contains_message(text, remaining[-1]):
            first = n
            while remaining and _contains_message(text, remaining[-1]):
                remaining.pop()
            if not remaining:
                break
        else:
            break
    return first


def _contains_message(prompt: str, message: str) -> bool:
    return verbatim_form(message) in verbatim_form(prompt)


def _quotes(prompt: str, message: str) -> bool:
    return without_white_space(repr(message)) in without_white_space(prompt) or without_white_space(
        message
    ) in without_white_space(prompt)


def _is_prompt(item: ViewItem) -> bool:
    return item.kind == "message" and item.fields.get("role") == "user"


def _is_said(item: ViewItem) -> bool:
    has_content = not is_blank(item.text) or bool(item.fields.get("content"))
    return item.kind == "message" and item.fields.get("role") == "agent" and has_content


def _is_earlier(
    prompt: ViewItem, following: Sequence[ViewItem], prompts: Sequence[str], before: Sequence[tuple[str, str]]
) -> bool:
    """Whether a prompt belongs to an earlier turn, although it contains a message of this turn (one of `prompts`).

    That is so in two cases. Either the prompt also contains another, earlier message that is at least as long. Or an
    earlier message equals this turn's, and the agent had already said one of the texts that follow the prompt
    (`following`). `before`: as in `find_turn`.
    """
    if RESUME_PROMPT_START in prompt.text:
        return False
    own_form = next(
        (form for message in prompts if (form := verbatim_form(message)) and form in verbatim_form(prompt.text)), ""
    )
    held = verbatim_form(SEMEL_NOTE.sub("", prompt.text)) or verbatim_form(prompt.text)
    earlier = {verbatim_form(text) for role, text in before if role in ("user", "event")}
    rivals = {text for text in earlier if text and text in held and len(text) >= len(own_form)}
    if rivals - {own_form}:
        return True
    said_before = {without_white_space(text) for role, text in before if role == "agent"}
    return own_form in rivals and any(
        message.kind == "message" and message.text.strip() and without_white_space(message.text) in said_before
        for message in following
    )


# ---------------------------------------------------------------- comparing the turn with the record


def match_calls(
    recorded: Sequence[RecordedCall], remembered: Sequence[ViewItem]
) -> tuple[list[RecordedCall], list[ViewItem]]:
    """Compare the tool calls of the record with those of the history (`remembered`).

    Calls are paired one to one: first by id, then by input, then by title. Returns (recorded calls that the history
    lacks, calls in the history that the record lacks).
    """
    missing, extra = list(recorded), list(remembered)
    for field in ("call", "input", "title"):
        for call in list(missing):
            form = _to_text(getattr(call, field))
            same = next((item for item in extra if form and form == _to_text(item.fields.get(field))), None)
            if same is not None:
                missing.remove(call)
                extra.remove(same)
    return missing, extra


def _to_text(value: object) -> str:
    """Return a text or JSON value as a string, for comparisons; "" if it is empty."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str) if value else ""


def compare_messages(messages: Mapping[int, str], written: Sequence[RecordedText]) -> dict[int, MessageRemainder]:
    """Find, for each message of a history, the text at its end that the record lacks.

    Returns the results by the messages' numbers.

    `messages`: the agent's messages by number, in order. `written`: the recorded texts. White space is ignored, and
    each copy of a text accounts for one copy in the history. A message may equal one text, a part of one, or several in
    a row; the history may lack texts, and may break off inside one. A message may continue beyond a text that was cut
    off, or beyond a failed attempt at a text: then the `rest` of the message starts where that text starts. A message
    may also consist of failed attempts at a text and then the complete text: some agents store all that they streamed.
    """
    texts = _Texts(written)
    equal_claims = {n: texts.take_equal(without_white_space(text)) for n, text in messages.items()}
    equal_claims |= {
        n: texts.take_with_attempts(without_white_space(messages[n]))
        for n, claim in equal_claims.items()
        if claim is None
    }
    joined = "".join(map(without_white_space, messages.values()))
    remainders, offset = {}, 0
    for n, text in messages.items():
        offset += len(without_white_space(text))
        ahead = joined[offset : offset + texts.longest]
        remainders[n] = MessageRemainder(
            n, "" if equal_claims[n] is not None else texts.find_remainder(text, ahead), equal_claims[n]
        )
    return remainders


class _Texts:
    """The recorded texts, and how much of each was already matched with messages of the history.

    A *form* is a text without its white space; a text's number `n` is its index in `written`. An *attempt* at a text is
    the beginning of it that was streamed before the model's stream broke and the agent started over.
    """

    def __init__(self, written: Sequence[RecordedText]) -> None:
        self.written = list(written)
        self.forms = [without_white_space(text.text) for text in written]
        self.matched = [0] * len(written)  # characters of each form that were matched
        self.longest = max(map(len, self.forms), default=0)

    def take_equal(self, form: str) -> int | None:
        """Match the first unmatched text whose form is `form`. Returns its claim; None if there is no such text."""
        for n, text_form in enumerate(self.forms):
            if text_form == form and not self.matched[n]:
                self.matched[n] = len(text_form)
                return self.written[n].claim
        return None

    def take_with_attempts(self, form: str) -> int | None:
        """Match an unmatched, complete text with which `form` ends after attempts at that text, and nothing else.

        Returns the text's claim; None if there is no such text.
        """
        for n, text_form in enumerate(self.forms):
            if (
                self.matched[n]
                or self.written[n].is_cut
                or len(text_form) < MIN_CONTAINED_CHARS
                or not form.endswith(text_form)
            ):
                continue
            if are_failed_starts(form[: -len(text_form)], text_form):
                self.matched[n] = len(text_form)
                return self.written[n].claim
        return None

    def find_remainder(self, text: str, following: str = "") -> str:
        """Return the end of the message `text` that the record lacks; "" if it lacks nothing.

        `following`: the text that follows the message in the history, without white space.
        """
        while text and (form := without_white_space(text)):
            if self._take_part(form, following) or (
                len(form) >= MIN_CONTAINED_CHARS and any(form in text_form for text_form in self.forms)
            ):
                return ""
            shorter = self._skip_leading_texts(text)
            if shorter == text:
                return text
            text = shorter
        return text

    def _take_part(self, form: str, following: str) -> bool:
        """Match `form` with the first text whose unmatched rest begins with it. Returns False if no text fits.

        A text may begin with a short form by chance. So a short form that ends inside a word of the text fits only if
        `_breaks_off` confirms it. `following`: as in `find_remainder`.
        """
        for n, recorded in enumerate(self.written):
            if not self._remaining(n).startswith(form):
                continue
            if (
                len(form) >= MIN_PREFIX_CHARS
                or _cuts_between_words(recorded.text, self.matched[n] + len(form))
                or self._breaks_off(n, form, following)
            ):
                self.matched[n] += len(form)
                return True
        return False

    def _breaks_off(self, n: int, form: str, following: str) -> bool:
        """Whether a short message is a piece of text `n` and not another text that begins alike.

        `form`: the message's form, with which the unmatched rest of the text begins. The message is a piece of the text
        if the text was cut off, or if an earlier piece of it was matched. Otherwise, the history must continue with the
        rest of the text; if the history ends with the message, all earlier texts must be matched completely, and there
        must be one. `following`: as in `find_remainder`.
        """
        remaining, upcoming = self._remaining(n), form + following
        if self.written[n].is_cut or self.matched[n]:
            return True
        if following:
            return remaining.startswith(upcoming) or (len(remaining) > len(form) and upcoming.startswith(remaining))
        return n > 0 and all(self.matched[k] == len(self.forms[k]) for k in range(n))

    def _skip_leading_texts(self, text: str) -> str:
        """Match the texts with which a message begins. Returns the rest of the message after them."""
        row, form = self._find_leading_texts(without_white_space(text)), without_white_space(text)
        if self._take_attempts(form):
            return text
        size = sum(len(self._remaining(n)) for n in row)
        if row and size < len(form) and (self.written[row[-1]].is_cut or self._is_torn(row[-1], text, size)):
            # the message continues beyond a text that broke off: the rest starts at the beginning of that text
            n = row.pop()
            size -= len(self._remaining(n))
            if not row and self.matched[n]:
                return _split(self.written[n].text, self.matched[n])[0] + text
        while (
            row
            and len(self._remaining(row[-1])) < MIN_CONTAINED_CHARS
            and not (_cuts_between_words(text, size) or self._begins_another_text(form[size:], row))
        ):
            size -= len(self._remaining(row.pop()))
        for n in row:
            self.matched[n] = len(self.forms[n])
        return _split(text, size)[1]

    def _is_torn(self, n: int, text: str, size: int) -> bool:
        """Whether text `n` is a failed attempt, and the gateway never saw the attempt after it.

        That is so if it is the last recorded text, is not short, and ends inside a word of the message `text`. `size`:
        how many non-blank characters of the message are covered by the texts up to `n`.
        """
        return (
            n == len(self.forms) - 1
            and len(self._remaining(n)) >= MIN_CONTAINED_CHARS
            and not _cuts_between_words(text, size)
        )

    def _take_attempts(self, form: str) -> bool:
        """Match two recorded attempts at the message whose form is `form`. Returns False if they are not found.

        The first attempt broke off, and was recorded as a text of its own because the agent started over under another
        message id. The second was cut off when the turn was interrupted. If both are matched, the `rest` is the whole
        message.
        """
        if "".join(map(self._remaining, range(len(self.forms)))).startswith(form):
            return False  # the message is simply the texts in their order
        for n, second in enumerate(self.forms):
            if (
                self.matched[n]
                or not self.written[n].is_cut
                or len(second) < MIN_PREFIX_CHARS
                or not form.startswith(second)
            ):
                continue
            first = self.forms[n - 1] if n and not (self.matched[n - 1] or self.written[n - 1].is_cut) else ""
            if not first.startswith(second) or not form.startswith(first):
                continue
            rest = form[len(first) :]
            if not (rest.startswith(second) or second.startswith(rest)):  # else the message is the two texts in a row
                self.matched[n - 1], self.matched[n] = len(first), len(second)
                return True
        return False

    def _begins_another_text(self, form: str, row: Sequence[int]) -> bool:
        """Whether the unmatched rest of a text begins with `form`. `row`: the numbers of texts that do not count."""
        return any(self._remaining(n).startswith(form) for n in range(len(self.forms)) if n not in row)

    def _remaining(self, n: int) -> str:
        return self.forms[n][self.matched[n] :]

    def _find_leading_texts(self, form: str) -> list[int]:
        """Return the numbers of the texts that make up the beginning of `form`, in order.

        Of several such sequences, the one that covers most of `form` is returned.
        """
        rows: dict[int, list[int]] = {0: []}
        for n in range(len(self.forms)):
            remaining = self._remaining(n)
            for offset in sorted(rows, reverse=True) if remaining else ():
                if form.startswith(remaining, offset):
                    rows.setdefault(offset + len(remaining), [*rows[offset], n])
        return rows[max(rows)]


def _split(text: str, visible: int) -> tuple[str, str]:
    """Split a text in two, before the non-blank character with the number `visible` (counted from 0)."""
    places = [n for n, char in enumerate(text) if not char.isspace()]
    cut = places[visible] if visible < len(places) else len(text)
    return (text, "") if cut == len(text) else (text[:cut], text[cut:])


def _cuts_between_words(text: str, visible: int) -> bool:
    """Whether a cut after the first `visible` non-blank characters of a text falls between words, not inside one."""
    head, tail = _split(text, visible)
    inside = head[-1:].isalnum() and tail[:1].isalnum()
    return not inside or (tail[0].isupper() and not head[-1].isupper())  # "endStart": a capital begins a joined text
