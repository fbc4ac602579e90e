"""Notify a chat that an answer, a question or a request did not, or may not, have arrived there (Laws 7, 12).

What is held may not have arrived. What was rejected did not. Its chat is notified of that, too: its person waits for
the answer, or an agent waits for theirs.

The chat is notified as soon as it can be. The notice is a message of its own: what is held is never sent twice. A
session gets one notice about its held answers until they are settled, and one about each held or rejected question or
permission request that is still open. An owner's session gets one, too, about a request of another session, if the
notice of that request is missing there. The notice's own fate does not matter: if it is held, no further one follows.

A notice about rejected answers names those of the last day that were rejected since the last such notice, once no part
of them is in line. If that notice was rejected, too, the next one names its answers as well, and waits until something
arrives in the chat.

Whoever reads of such a permission request in the chat cannot answer it there, because it may not have reached them
(Law 13). The notice says where it is answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from semel.law.permissions import format_reason
from semel.ledger import people
from semel.ledger.delivery import claims
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.delivery.cutting import cut, single_part
from semel.ledger.delivery.parts import NEWEST_REJECTED, REJECTED_COUNTED_MS
from semel.ledger.storage.rows import ClaimKind, ItemRow, RestoreRow, Row, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.transcript.part_requests import OWNER_KIND
from semel.text.visible import squeeze_to_line
from semel.timing.walltime import format_utc

KIND = "delivery.unsure"
"""The kind of the notice."""
REASON_PREFIX = "held in "
"""How the reason of the notice's claim begins. The key of the session follows; then, for a question or a request, " #"
and the seq of its entry. About what was rejected, it ends with REJECTED_SUFFIX."""
REJECTED_SUFFIX = " rejected"


class HeldAnswers(Row):
    """The answers of a session that are held at its home. `messages`: how many. `first`: when the oldest came (ms)."""

    session: int
    key: str
    messages: int
    first: int


class RejectedAnswer(Row):
    """An answer of a session, said by `claim`, of which a part was rejected at its home.

    `first`: when it came. `ended`: when it was rejected, both in ms. `error`: why. `in_line`: 1 if a part of it is
    still to be sent. `has_sent`: 1 if a part of it arrived.
    """

    session: int
    key: str
    claim: int
    first: int
    ended: int
    error: str | None
    in_line: int
    has_sent: int


class NewestNotices(Row):
    """When the newest notice was added, and the newest that was not rejected, in ms; None if there is none."""

    newest: int | None
    standing: int | None


class MissingRequest(Row):
    """A question, or a notice about a permission request, that is held or was rejected at the home of its session.

    `kind`: of its claim; that of a question is "ask". `seq`, `more`: of its entry. `first`: when it came (ms). `part`,
    `error`: its first part that is missing, and why.
    """

    session: int
    key: str
    seq: int
    more: str | None
    kind: ClaimKind
    first: int
    part: int
    error: str | None


@dataclass(frozen=True)
class DueNotice:
    """A notice that a chat does not have yet. `reason`: of its claim. `claims`: the rejected answers that it names.

    `first`: when the oldest of what it tells of came (ms).
    """

    session: int
    key: str
    reason: str
    text: str
    first: int
    claims: frozenset[int] = frozenset()


def list_chats_to_notify(tx: Tx) -> list[str]:
    """Return the homes of sessions at which something is missing of which nobody was notified there."""
    newest = {"newest": NEWEST_REJECTED, "restored": _find_restore(tx)}
    dests: dict[str, None] = {}
    for state in ("held", "rejected"):
        dests |= dict.fromkeys(tx.values(str, "homes_with_missing_messages", state=state, **newest))
    return [dest for dest in dests if _list_due(tx, dest) or _has_rejected_to_notify(tx, dest)]


def notify_chat(tx: Tx, dest: str, has_arrival: bool = False) -> bool:
    """Add to each session with the home `dest` the notices about what is missing there, unless it has them already.

    `has_arrival`: something arrived at `dest` since the last notice there was rejected, if it was. Return False if
    a notice is left, which is added once something arrives.
    """
    rejected, are_all_added = _list_rejected(tx, dest, has_arrival)
    for notice in _list_due(tx, dest) + rejected:
        _add_notice(tx, Caller(notice.session, notice.key, None, None), dest, notice)
    return are_all_added


def add_rejected_notice(tx: Tx, caller: Caller, dest: str, claim: int) -> int | None:
    """Add to the caller's session, with the home `dest`, the notice about its rejected answers, for a turn that ends.

    Return the seq of its entry; None if the answer of `claim` is not among those that still need one.
    """
    rejected, _ = _list_rejected(tx, dest, has_arrival=True)
    notice = next((notice for notice in rejected if claim in notice.claims), None)
    return None if notice is None else _add_notice(tx, caller, dest, notice)


def is_missing_still(tx: Tx, dest: str, reason: str) -> bool:
    """Return whether what a notice at `dest` tells of is still held, or open. `reason`: of its claim.

    What was rejected for a chat did not arrive, whatever a person decides later: such a notice of answers stays true.
    """
    is_of_answers = " #" not in reason
    if is_of_answers and reason.endswith(REJECTED_SUFFIX):
        return True
    return any(notice.reason == reason for notice in _list_missing(tx, dest))


def _add_notice(tx: Tx, caller: Caller, dest: str, notice: DueNotice) -> int:
    request = ClaimRequest(
        "notice", notice.text, dest, more={"kind": KIND},
        legs=tuple(cut(tx, dest, notice.key, notice.text) or single_part(dest, notice.key, notice.text)),
    )  # fmt: skip
    return claims.queue_notice(tx, caller, request, notice.reason, tell_there=False)


def _list_due(tx: Tx, dest: str) -> list[DueNotice]:
    return [notice for notice in _list_missing(tx, dest) if not _has_notice(tx, dest, notice.reason, notice.first)]


def _list_missing(tx: Tx, dest: str) -> list[DueNotice]:
    """Return the notices about held answers, and about held or rejected requests that are open: also those
    that the chat already has.
    """
    newest = {"dest": dest, "newest": NEWEST_REJECTED, "restored": _find_restore(tx)}
    is_owner = any(person.role == "owner" for person in people.list_people_at(tx, dest))
    missing = []
    for held in tx.all(HeldAnswers, "held_answers_at", **newest):
        text = _describe_answers(held, tx.now, is_owner)
        missing.append(DueNotice(held.session, held.key, REASON_PREFIX + held.key, text, held.first))
    for state in ("held", "rejected"):
        for request in tx.all(MissingRequest, "missing_requests_at", state=state, **newest):
            reason = f"{REASON_PREFIX}{request.key} #{request.seq}" + (REJECTED_SUFFIX if state == "rejected" else "")
            if text := _describe_request(tx, request, is_owner, is_rejected=state == "rejected"):
                missing.append(DueNotice(request.session, request.key, reason, text, request.first))
    return missing


def _list_rejected(tx: Tx, dest: str, has_arrival: bool) -> tuple[list[DueNotice], bool]:
    """Return the notices about answers that were rejected, and whether none is left after them."""
    since = max(tx.now - REJECTED_COUNTED_MS, _find_restore(tx))
    answers: dict[str, list[RejectedAnswer]] = {}
    for answer in tx.all(RejectedAnswer, "rejected_answers_at", dest=dest, since=since, newest=NEWEST_REJECTED):
        answers.setdefault(answer.key, []).append(answer)
    notices, are_all_added = [], True
    for key, rejected in answers.items():
        reason = REASON_PREFIX + key + REJECTED_SUFFIX
        earlier = tx.one(NewestNotices, "notices_newest", dest=dest, reason=reason, since=since)
        newest, standing = (earlier.newest, earlier.standing) if earlier is not None else (None, None)
        missing = [answer for answer in rejected if standing is None or answer.ended > standing]
        if not missing:
            continue
        if any(answer.in_line for answer in missing) or (newest != standing and not has_arrival):
            are_all_added = False
        else:
            named = frozenset(answer.claim for answer in missing)
            text, first = _describe_rejected(missing, tx.now), missing[0].first
            notices.append(DueNotice(missing[0].session, key, reason, text, first, named))
    return notices, are_all_added


def _has_rejected_to_notify(tx: Tx, dest: str) -> bool:
    notices, are_all_added = _list_rejected(tx, dest, has_arrival=True)
    return bool(notices) or not are_all_added


def _has_notice(tx: Tx, dest: str, reason: str, since: int) -> bool:
    return tx.exists("claim_noticed", dest=dest, reason=reason, since=since - 1)


def _find_restore(tx: Tx) -> int:
    """Return when the ledger was last restored from a backup (ms); 0 if never. The chats were notified of it then."""
    restored = tx.one(RestoreRow, "restore_last")
    return 0 if restored is None else restored.at


# ---------------------------------------------------------------- in words
# No notice quotes what is held: that would send a short message again.


def _describe_answers(held: HeldAnswers, now: int, is_owner: bool) -> str:
    """Say which answers may be missing. `is_owner`: an owner reads the notice."""
    at = _format_time(held.first, now)
    if held.messages == 1:
        return f"An answer of {at} may not have arrived here. /history shows it; {_say_who_decides(is_owner, 'it')}."
    return (
        f"{held.messages} answers since {at} may not have arrived here. /history shows them; "
        f"{_say_who_decides(is_owner, 'them')}."
    )


def _describe_rejected(answers: list[RejectedAnswer], now: int) -> str:
    """Say which answers did not arrive, or not whole, and why; of several reasons, the newest."""
    at, newest = _format_time(answers[0].first, now), max(answers, key=lambda answer: answer.ended)
    why = format_reason(newest.error)
    if len(answers) == 1:
        which = "A part of an answer" if newest.has_sent else "An answer"
        return f"{which} of {at} could not be delivered here: {why} /history shows it whole."
    which = f"{len(answers)} answers since {at}"
    if any(answer.has_sent for answer in answers):
        which += ", or parts of them,"
    last = "" if len({answer.error for answer in answers}) == 1 else "the last time: "
    return f"{which} could not be delivered here: {last}{why} /history shows them whole."


def _describe_request(tx: Tx, request: MissingRequest, is_owner: bool, is_rejected: bool) -> str:
    """Say that a question or a permission request is, or may be, missing, and how it is answered.

    Return "" if it is a question that is over, or a notice about a permission request that is not open, or not its
    first notice.
    """
    at = _format_time(request.first, tx.now)
    fate = f"could not be shown here: {format_reason(request.error)}" if is_rejected else "may not have arrived here."
    decision = _say_who_decides(is_owner, "it")
    if is_rejected and is_owner:
        decision = f"send it again with `semel outbox resend p{request.part}`"
    if request.kind == "ask":
        return f"A question of {at} {fate} {_say_how_answered(decision)}" if _is_question_open(tx, request) else ""
    if entries.load(request.more).get("kind") == OWNER_KIND:
        return _describe_other_request(tx, request, at, fate)
    if not _announces_open_request(tx, request):
        return ""
    missing = f"The agent waits for a permission, but its request of {at} {fate}"
    if not is_owner:
        return f"{missing} /status shows what it asks for; the owner answers it on the page or in the terminal."
    return (
        f"{missing} /status shows what it asks for. Answer it on the page, or in the terminal with "
        f"`semel chat {request.key}`; to answer it here, first {decision}."
    )


def _say_how_answered(decision: str) -> str:
    return f"/history shows it, and a message to the agent answers it; {decision}."


def _describe_other_request(tx: Tx, notice: MissingRequest, at: str, fate: str) -> str:
    """Say that a request of another session, of which an owner was to be notified, is missing; "" if it is not open."""
    item = tx.one(ItemRow, "item_get", id=entries.load(notice.more).get("item"))
    is_open = item is not None and item.live and not _is_stopped(tx, item)
    session = tx.one(SessionRow, "session_by_id", id=item.session) if item is not None and is_open else None
    if item is None or session is None:
        return ""
    whose = squeeze_to_line(str(entries.load(item.body).get("whose") or ""))
    return (
        f"A permission request of {at} in the conversation with {whose} {fate} Answer it on the page, or in the "
        f"terminal with `semel chat {session.key}`; you cannot answer here."
    )


def _is_question_open(tx: Tx, held: MissingRequest) -> bool:
    item = tx.one(ItemRow, "item_get", id=entries.load(held.more).get("item"))
    return item is not None and bool(item.live)


def _announces_open_request(tx: Tx, request: MissingRequest) -> bool:
    items = tx.all(ItemRow, "items_live", session=request.session)
    return any(entries.load(item.body).get("announced") == request.seq and not _is_stopped(tx, item) for item in items)


def _is_stopped(tx: Tx, item: ItemRow) -> bool:
    """Return whether a person stopped the turn of a request.

    The stop is recorded before it is answered, and the request's end maybe only after that.
    """
    turn = tx.one(TurnRow, "turn_get", id=item.turn)
    return turn is not None and turn.stopped is not None


def _say_who_decides(is_owner: bool, pronoun: str) -> str:
    if is_owner:
        return f"decide about sending {pronoun} again with `semel outbox`, or on the page"
    return f"an owner decides about sending {pronoun} again"


def _format_time(at: int, now: int) -> str:
    said, today = (datetime.fromtimestamp(time / 1000, UTC) for time in (at, now))
    return f"{said:%H:%M} UTC" if said.date() == today.date() else format_utc(at)
