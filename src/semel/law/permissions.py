"""Match an answer to a permission request, and check that its writer had seen the request (Law 13).

An answer counts for exactly one request: the one whose notice it replies to, else the one whose number it gives, else
the only open one that had reached its writer. That request must have reached the writer, on the face they answer from,
before the answer was heard. The recorded facts decide, as they stand in the transaction that records the answer:

| face | evidence that a request had reached it |
|---|---|
| a chat | every part of its notice was `sent` to that chat, and none of them failed later |
| page, terminal, API | the `rev` that the face had shown; or the request's own number, which is shown nowhere else |

The platform's own evidence counts, too: an answer whose message number is below that of a part of the notice, or that
was written long before the notice was sent, arrived late and does not count. A reply to the notice proves that the
notice was read.

Any other answer allows nothing and gets an explanation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from semel.law.permission_questions import Chosen, Request, choose_option, numbers_of

CLOCK_SKEW_MS = 120_000
"""How far a platform's clock may be behind ours. An answer counts as written before the notice only if its time is more
than this before the notice was sent."""

State = Literal["open", "answered", "cancelled", "expired"]
Reply = int | Literal["unknown", "elsewhere"] | None
"""What an answer replies to: the seq of a request's notice; "unknown": a message that cannot be found; "elsewhere": a
request of another session with its home in the same chat; None: nothing, or a message that is not a request."""

NOTHING_ASKED = "No permission request is open here."
GONE = "That request is gone"
NOTHING_DONE = "Nothing was allowed or denied"
UNKNOWN_REPLY = (
    f"{NOTHING_DONE}: the message that you replied to is not known here. Answer with the number of the "
    "option that you mean, like /approve N."
)
REPLY_ELSEWHERE = f"{NOTHING_DONE}: that request belongs to another conversation. Answer it on the page."
OTHER_NOTICE = "The message that you replied to is no open request. To answer an open one, reply to it."


@dataclass(frozen=True)
class NoticePart:
    """One part of a request's notice. `left_at`: when it was first sent, in ms by our clock."""

    dest: str
    state: str
    failed: bool = False
    receipt: str | None = None
    left_at: int | None = None


@dataclass(frozen=True)
class PosedRequest:
    """A request with its state when an answer is heard.

    `born`: the first rev of the view that shows it. `outcome`: how it ended, if it is not open. `elsewhere`: it belongs
    to another session with its home in the same chat.
    """

    request: Request
    state: State = "open"
    born: int = 0
    parts: tuple[NoticePart, ...] = ()
    outcome: str = ""
    elsewhere: bool = False


@dataclass(frozen=True)
class AnswerOrigin:
    """The origin of an answer.

    `dest`: the chat in which it was written; None if it came over the API. `seen`: the rev that the face had shown.
    `id` and `written_at` (ms): the platform's. `numbered`: the platform's message ids end with a number that grows
    within a chat, for our messages, too.
    """

    dest: str | None
    seen: int | None = None
    id: str = ""
    written_at: int | None = None
    numbered: bool = False


def name_request(
    posed: Sequence[PosedRequest], writing: AnswerOrigin, allow: bool, number: int | None = None, reply: Reply = None
) -> Chosen | str:
    """The request that an answer is for and the option it chooses, or an error message for the person.

    `posed`: the open requests and the most recently closed ones, oldest first.
    """
    own = [one for one in posed if not one.elsewhere]
    if reply == "elsewhere":
        return REPLY_ELSEWHERE
    if isinstance(reply, int):
        meant = [one for one in own if one.request.asked == reply]
        if not meant:
            return OTHER_NOTICE if _open(own) else f"{GONE}. {NOTHING_ASKED}"
        if number is not None and number not in meant[-1].request.numbers:
            return _no_such_option(number, meant)
        return _answer(meant[-1], posed, writing, allow, number, named=True, replied=True)
    if number is not None:
        return _by_number(posed, writing, allow, number)
    if reply == "unknown":
        return UNKNOWN_REPLY
    return _the_only_one(posed, writing, allow)


def has_reached(one: PosedRequest, writing: AnswerOrigin, *, named: bool = False, replied: bool = False) -> bool:
    """Whether a request had reached the writer of an answer before the answer was heard.

    `named`: the answer gives the request's own number. `replied`: it replies to the request's notice.
    """
    if writing.dest is None:
        return named if writing.seen is None else one.born <= writing.seen
    if not one.parts or any(part.dest != writing.dest for part in one.parts):
        return False
    if any(part.state != "sent" or part.failed for part in one.parts):
        return False
    return replied or not any(_written_before(writing, part) for part in one.parts)


def _written_before(writing: AnswerOrigin, part: NoticePart) -> bool:
    """Whether the platform's data shows that an answer was written before a part of the notice arrived."""
    if writing.numbered and part.receipt is not None:
        place, _, number = writing.id.rpartition("/")
        notice_place, _, notice_number = part.receipt.rpartition("/")
        if place == notice_place and number.isdigit() and notice_number.isdigit():
            return int(number) < int(notice_number)
    if writing.written_at is None or part.left_at is None:
        return False
    return writing.written_at < part.left_at - CLOCK_SKEW_MS


# ---------------------------------------------------------------- the ways to name one


def _by_number(posed: Sequence[PosedRequest], writing: AnswerOrigin, allow: bool, number: int) -> Chosen | str:
    meant = [one for one in posed if number in one.request.numbers]
    own = [one for one in meant if not one.elsewhere]
    if any(one.elsewhere and one.state == "open" and has_reached(one, writing) for one in meant):
        return (
            f"{REPLY_ELSEWHERE} To answer this conversation's request with that number, reply to it."
            if own
            else REPLY_ELSEWHERE
        )
    if not own:
        return _no_such_option(number, [one for one in _open(posed) if has_reached(one, writing, named=True)])
    return _answer(own[-1], posed, writing, allow, number, named=True)


def _the_only_one(posed: Sequence[PosedRequest], writing: AnswerOrigin, allow: bool) -> Chosen | str:
    """An answer without a number needs exactly one open request: a person must not allow what they have not read."""
    waiting = _open(posed)
    if writing.dest is None and writing.seen is None and waiting:
        return _say_which(waiting)
    read = [one for one in waiting if has_reached(one, writing)]
    if len(read) > 1:
        return _say_which(read)
    if not read:
        closed = [one for one in posed if one.state != "open" and not one.elsewhere and has_reached(one, writing)]
        return _gone(closed[-1] if closed else None, posed)
    return REPLY_ELSEWHERE if read[0].elsewhere else _answer(read[0], posed, writing, allow, None)


def _answer(
    one: PosedRequest, posed: Sequence[PosedRequest], writing: AnswerOrigin, allow: bool, number: int | None, *,
    named: bool = False, replied: bool = False,
) -> Chosen | str:  # fmt: skip
    if one.state != "open":
        return _gone(one, posed)
    if not has_reached(one, writing, named=named, replied=replied):
        return _unread(one)
    return choose_option(one.request, allow, number)


# ---------------------------------------------------------------- in words


def _open(posed: Sequence[PosedRequest]) -> list[PosedRequest]:
    return [one for one in posed if one.state == "open"]


def _gone(one: PosedRequest | None, posed: Sequence[PosedRequest]) -> str:
    told = f"{GONE}: {one.outcome}." if one is not None and one.outcome else f"{GONE}."
    waiting = [other for other in _open(posed) if not other.elsewhere]
    if not waiting:
        return f"{told} {NOTHING_ASKED}" if one is not None else NOTHING_ASKED
    if one is None:
        return _unread(waiting[-1])
    return f"{told} Another request is open now: read it, then answer it with its own number."


def _unread(one: PosedRequest) -> str:
    settled = all(part.state in ("queued", "sending", "sent") and not part.failed for part in one.parts)
    if settled:
        why = "the request had not reached you here when your answer arrived. Read it, then answer it"
    else:
        why = "it is not known whether the request reached you here. Answer it on the page"
    return f"{NOTHING_DONE}: {why}."


def _say_which(posed: Sequence[PosedRequest]) -> str:
    lines = [f"{one.request.first}: {one.request.in_a_line}" for one in posed if not one.elsewhere]
    if len(lines) < len(posed):
        return f"{NOTHING_DONE}: more than one agent asks here. Reply to the request that you mean."
    more = "for more than one thing; say which" if len(lines) > 1 else "for this; confirm it with its number"
    return "\n".join([f"The agent asks {more}, like /approve {posed[0].request.first}:", *lines])


def _no_such_option(number: int, posed: Sequence[PosedRequest]) -> str:
    told = f"There is no option {number} here"
    numbers = ", ".join(numbers_of(one.request) for one in posed if not one.elsewhere)
    return f"{told}; there are {numbers}." if numbers else f"{told}. {NOTHING_ASKED}"
