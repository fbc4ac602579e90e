"""Match an answer to a permission request, and check that its writer had seen the request (Law 13).

The writer is the person who answers; a *face* is what they answer from: a chat, the page, the terminal or the API. An
answer counts for exactly one request: the one whose notice it replies to, else the one whose number it gives, else the
only open one that had reached the writer. That request must have reached the writer, on the same face, before the
answer was heard. This is decided in the transaction that records the answer, from what the ledger has then:

| face | evidence that a request had reached it |
|---|---|
| a chat | every part of its notice was `sent` to that chat, and none of them failed later |
| page, terminal, API | the `rev` that the face had shown; or the request's own number, which is shown nowhere else |

The platform's own data are evidence, too. An answer does not count if its message number is below that of a part of the
notice, or if it was written long before the notice was sent: then it was written before the request arrived. A reply to
the notice proves that the notice was read.

Any other answer allows nothing and gets an explanation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from semel.law.permission_questions import (
    MAX_NAME_CHARS,
    ChosenOption,
    PermissionRequest,
    choose_option,
    format_numbers,
    list_options,
)
from semel.text.sentences import end_sentence
from semel.text.wellformed import shorten_to_line

CLOCK_SKEW_MS = 120_000
"""How far a platform's clock may be behind ours. An answer counts as written before the notice only if it was written
more than this long before the notice was sent."""

State = Literal["open", "answered", "cancelled", "expired"]
Reply = int | Literal["unknown", "elsewhere"] | None
"""What an answer replies to. A number: the request whose notice has this seq. "unknown": a message that cannot be
found. "elsewhere": a request of another session that has its home in the same chat. None: nothing, or no request."""

NOTHING_ASKED = "No permission request is open here."
GONE = "That request is gone"
NOTHING_DONE = "Nothing was allowed or denied"
UNKNOWN_REPLY = (
    f"{NOTHING_DONE}: the message that you replied to is not known here. Answer with the number of the "
    "option that you mean, like /approve N."
)
ANSWERED_ELSEWHERE = "The owner answers it on the page or in the terminal"
MAX_REASON_CHARS = 200  # characters of a platform's reason
REPLY_ELSEWHERE = f"{NOTHING_DONE}: that request belongs to another conversation. Answer it on the page."
OTHER_NOTICE = "The message that you replied to is not an open request. To answer an open one, reply to it."


@dataclass(frozen=True)
class NoticePart:
    """A part of a request's notice.

    `receipt`: the platform's id of the message. `sent_at`: when the part was first sent, in ms by our clock. `error`:
    why it was not sent, or failed later. `id`: of the part.
    """

    dest: str
    state: str
    failed_later: bool = False
    receipt: str | None = None
    sent_at: int | None = None
    error: str | None = None
    id: int = 0


@dataclass(frozen=True)
class PosedRequest:
    """A request, with its state at the time an answer is heard.

    `first_rev`: the first rev of the view that shows the request. `parts`: the parts of its notice. `ending`: how the
    request ended, in words; "" while it is open. `is_elsewhere`: it belongs to another session, which has its home in
    the same chat, or of which an owner was notified there. `is_owner_notified`: the latter; the notice says that it is
    answered elsewhere, and gives no numbers. `whose`, `session`: the name of the person in whose conversation it is
    then asked, and the key of that conversation's session.
    """

    request: PermissionRequest
    state: State = "open"
    first_rev: int = 0
    parts: tuple[NoticePart, ...] = ()
    ending: str = ""
    is_elsewhere: bool = False
    is_owner_notified: bool = False
    whose: str = ""
    session: str = ""


@dataclass(frozen=True)
class AnswerOrigin:
    """Where and when an answer was written.

    `dest`: the chat in which it was written; None for the page, the terminal and the API. `shown_rev`: the rev that the
    face had shown. `message_id`, `written_at` (ms): the platform's data for the answer. `has_growing_numbers`: the
    platform's message ids end with a number that grows with each message in a chat, ours included.
    """

    dest: str | None
    shown_rev: int | None = None
    message_id: str = ""
    written_at: int | None = None
    has_growing_numbers: bool = False


def name_request(
    posed: Sequence[PosedRequest],
    origin: AnswerOrigin,
    allow: bool,
    number: int | None = None,
    reply: Reply = None,
    replied_item: int | None = None,
) -> ChosenOption | str:
    """Find the request that an answer is for, and return the option that the answer chooses.

    If the answer counts for no request, returns an explanation for the person. `posed`: the open requests and the most
    recently closed ones, oldest first. `allow`: the answer allows; otherwise it denies. `number`: the number that the
    answer gives. `reply`: what the answer replies to. `replied_item`: the item of the request of another session that
    it replies to, if an owner was notified of that.
    """
    own_requests = [posed_request for posed_request in posed if not posed_request.is_elsewhere]
    if reply == "elsewhere":
        return _say_elsewhere([p for p in posed if p.is_owner_notified and p.request.item == replied_item])
    if isinstance(reply, int):
        matching = [posed_request for posed_request in own_requests if posed_request.request.notice_seq == reply]
        if not matching:
            return OTHER_NOTICE if _open(own_requests) else f"{GONE}. {NOTHING_ASKED}"
        if number is not None and number not in matching[-1].request.numbers:
            return _no_such_option(number, matching)
        return _answer(matching[-1], posed, origin, allow, number, gives_number=True, replies_to_notice=True)
    if number is not None:
        return _by_number(posed, origin, allow, number)
    if reply == "unknown":
        return UNKNOWN_REPLY
    return _the_only_one(posed, origin, allow)


def has_reached(
    posed_request: PosedRequest, origin: AnswerOrigin, *, gives_number: bool = False, replies_to_notice: bool = False
) -> bool:
    """Whether a request had reached the writer of an answer before the answer was heard.

    `gives_number`: the answer gives the request's own number. `replies_to_notice`: it replies to the request's notice.
    """
    if origin.dest is None:
        return gives_number if origin.shown_rev is None else posed_request.first_rev <= origin.shown_rev
    if not posed_request.parts or any(part.dest != origin.dest for part in posed_request.parts):
        return False
    if any(part.state != "sent" or part.failed_later for part in posed_request.parts):
        return False
    return replies_to_notice or not any(_written_before(origin, part) for part in posed_request.parts)


def describe_absence(request: PermissionRequest, parts: Sequence[NoticePart]) -> str:
    """Say in sentences that an open request is, or may be, missing in its chat, and where it is answered.

    Return "" if nothing is missing: each of `parts`, those of its notice, was sent or is on its way.
    """
    absent = [part for part in parts if part.failed_later or part.state not in ("queued", "sending", "sent")]
    refused = next((part for part in absent if part.failed_later or part.state == "rejected"), None)
    if not absent:
        return ""
    fate = "may not have reached this chat."
    if refused is not None:
        fate = f"could not be shown in this chat: {format_reason(refused.error)}"
    decided = [part for part in absent if part.state in ("held", "rejected")]
    return f"The open request ({request.title_line}) {fate} {ANSWERED_ELSEWHERE}{_format_decisions(decided)}."


def _format_decisions(parts: Sequence[NoticePart]) -> str:
    """Say how the owner decides about the held and rejected parts of a request's notice, and what each decision does.

    Of a rejected part it is known that it is not there. Return "" without such parts.
    """
    if not parts:
        return ""
    ids = " ".join(f"p{part.id}" for part in parts)
    if any(part.state == "rejected" for part in parts):
        return f", or sends it again: `semel outbox resend {ids}`"
    return (
        f", or decides about the message: `semel outbox arrived {ids}` if it is here, so that it can be answered here; "
        f"`semel outbox resend {ids}` if it is not"
    )


def format_reason(error: str | None) -> str:
    """Return as a sentence why a message was not shown; `error` is what its part recorded."""
    return end_sentence(shorten_to_line(error or "no reason was given", MAX_REASON_CHARS))


def _written_before(origin: AnswerOrigin, part: NoticePart) -> bool:
    """Whether the platform's data show that an answer was written before this part of the notice arrived."""
    if origin.has_growing_numbers and part.receipt is not None:
        chat, _, number = origin.message_id.rpartition("/")
        notice_chat, _, notice_number = part.receipt.rpartition("/")
        if chat == notice_chat and number.isdigit() and notice_number.isdigit():
            return int(number) < int(notice_number)
    if origin.written_at is None or part.sent_at is None:
        return False
    return origin.written_at < part.sent_at - CLOCK_SKEW_MS


# ---------------------------------------------------------------- with a number, and without


def _by_number(posed: Sequence[PosedRequest], origin: AnswerOrigin, allow: bool, number: int) -> ChosenOption | str:
    matching = [posed_request for posed_request in posed if number in posed_request.request.numbers]
    own_requests = [posed_request for posed_request in matching if not posed_request.is_elsewhere]
    others = [
        posed_request
        for posed_request in matching
        if posed_request.is_elsewhere
        and posed_request.state == "open"
        and has_reached(posed_request, origin)
        and not (posed_request.is_owner_notified and own_requests)  # this chat was shown no numbers of it
    ]
    if others:
        statement = _say_elsewhere(others)
        return (
            f"{statement} To answer this conversation's request with that number, reply to it."
            if own_requests
            else statement
        )
    if not own_requests:
        return _no_option_here(posed, origin, number)
    return _answer(own_requests[-1], posed, origin, allow, number, gives_number=True)


def _the_only_one(posed: Sequence[PosedRequest], origin: AnswerOrigin, allow: bool) -> ChosenOption | str:
    """Match an answer without a number to the only open request that had reached its writer, and return its option.

    Returns an explanation if there is no such request or more than one: a person must not allow what they have not
    read.
    """
    open_requests = _open(posed)
    if origin.dest is None and origin.shown_rev is None and open_requests:
        return _say_which(open_requests, allow)
    reached = [posed_request for posed_request in open_requests if has_reached(posed_request, origin)]
    if len(reached) > 1:
        return _say_which(reached, allow)
    if not reached:
        closed = [
            posed_request
            for posed_request in posed
            if posed_request.state != "open" and not posed_request.is_elsewhere and has_reached(posed_request, origin)
        ]
        return _say_gone(closed[-1] if closed else None, posed, origin, names_none=True)
    return _say_elsewhere(reached) if reached[0].is_elsewhere else _answer(reached[0], posed, origin, allow, None)


def _answer(
    posed_request: PosedRequest, posed: Sequence[PosedRequest], origin: AnswerOrigin, allow: bool, number: int | None,
    *, gives_number: bool = False, replies_to_notice: bool = False,
) -> ChosenOption | str:  # fmt: skip
    if posed_request.state != "open":
        return _say_gone(posed_request, posed, origin)
    if not has_reached(posed_request, origin, gives_number=gives_number, replies_to_notice=replies_to_notice):
        return _say_unread(posed_request, origin)
    return choose_option(posed_request.request, allow, number)


# ---------------------------------------------------------------- in words


def _open(posed: Sequence[PosedRequest]) -> list[PosedRequest]:
    return [posed_request for posed_request in posed if posed_request.state == "open"]


def _say_gone(
    closed: PosedRequest | None, posed: Sequence[PosedRequest], origin: AnswerOrigin, *, names_none: bool = False
) -> str:
    """Say that a request is gone, and what else is open. `names_none`: the answer gave no number and was no reply."""
    statement = f"{GONE}: {closed.ending}." if closed is not None and closed.ending else f"{GONE}."
    open_requests = [posed_request for posed_request in _open(posed) if not posed_request.is_elsewhere]
    if not open_requests:
        notified = next((posed_request for posed_request in _open(posed) if posed_request.is_owner_notified), None)
        asked = NOTHING_ASKED if notified is None else f"{NOTHING_ASKED} {_say_where_answered(notified)}"
        return f"{statement} {asked}" if closed is not None else asked
    if closed is None:
        return _say_unread(open_requests[-1], origin)
    absences = [_describe_absence_at(origin, posed_request) for posed_request in open_requests]
    if all(absences):
        if names_none:  # probably meant for the open one; how another one was answered would read as if it just was
            return f"{NOTHING_DONE}. {absences[-1]}"
        return f"{statement} {absences[-1]}"
    return f"{statement} Another request is open now: read it, then answer it with its own number."


def _say_unread(posed_request: PosedRequest, origin: AnswerOrigin) -> str:
    if absence := _describe_absence_at(origin, posed_request):
        return f"{NOTHING_DONE}. {absence}"
    return f"{NOTHING_DONE}: the request had not reached you here when your answer arrived. Read it, then answer it."


def _describe_absence_at(origin: AnswerOrigin, posed_request: PosedRequest) -> str:
    return "" if origin.dest is None else describe_absence(posed_request.request, posed_request.parts)


def _say_which(posed: Sequence[PosedRequest], allow: bool) -> str:
    notified = [posed_request for posed_request in posed if posed_request.is_owner_notified]
    answerable = [posed_request for posed_request in posed if not posed_request.is_owner_notified]
    if not answerable:
        return _say_elsewhere(notified)
    if any(posed_request.is_elsewhere for posed_request in answerable):
        return f"{NOTHING_DONE}: more than one agent asks here. Reply to the request that you mean."
    example = f"/{'approve' if allow else 'deny'} {answerable[0].request.first_number}"
    lines = [line for posed_request in answerable for line in _list_answers(posed_request.request, allow)]
    if notified:
        head = f"{NOTHING_DONE}: more than one agent asks here. Say which, like {example}:"
        lines += [
            f"On the page or in the terminal, in the conversation with {shorten_to_line(other.whose, MAX_NAME_CHARS)}: "
            f"{other.request.summary_line}"
            for other in notified
        ]
        return "\n".join([head, *lines])
    request_words = "for more than one thing; say which" if len(posed) > 1 else "for this; confirm it with its number"
    return "\n".join([f"The agent asks {request_words}, like {example}:", *lines])


def _say_elsewhere(posed: Sequence[PosedRequest]) -> str:
    """Say that an answer is for another session's request, one of `posed`, and where each is answered, if known."""
    notified = [posed_request for posed_request in posed if posed_request.is_owner_notified]
    if not notified or len(notified) < len(posed):
        return REPLY_ELSEWHERE
    return " ".join([f"{NOTHING_DONE} here.", *map(_say_where_answered, notified)])


def _say_where_answered(posed_request: PosedRequest) -> str:
    """Say where a request of another session is answered, of which an owner was notified."""
    whose = shorten_to_line(posed_request.whose, MAX_NAME_CHARS)
    return (
        f"A request is open in the conversation with {whose}: answer it on the page, or in the terminal with "
        f"`semel chat {posed_request.session}`."
    )


def _list_answers(request: PermissionRequest, allow: bool) -> list[str]:
    """Return a line with a request's number and what it asks for and, to allow it, one for each of several options."""
    lines = [f"{request.first_number}: {request.summary_line}"]
    return lines + list_options(request) if allow and len(request.options) > 1 else lines


def _no_option_here(posed: Sequence[PosedRequest], origin: AnswerOrigin, number: int) -> str:
    """Say which options there are instead of `number`, or else what is open and where it is answered."""
    own_requests = [posed_request for posed_request in _open(posed) if not posed_request.is_elsewhere]
    reached = [posed_request for posed_request in own_requests if has_reached(posed_request, origin, gives_number=True)]
    if reached:
        return _no_such_option(number, reached)
    if own_requests:
        return _say_unread(own_requests[-1], origin)
    places = [_say_where_answered(posed_request) for posed_request in _open(posed) if posed_request.is_owner_notified]
    return " ".join([f"There is no option {number} here. {NOTHING_ASKED}", *places])


def _no_such_option(number: int, posed: Sequence[PosedRequest]) -> str:
    numbers = ", ".join(format_numbers(posed_request.request) for posed_request in posed)
    return f"There is no option {number} here; there are {numbers}."
