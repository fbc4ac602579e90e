"""Record a person's answer to a permission request or a question. Only the first answer counts (compare and set)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semel.law import permission_questions as law
from semel.ledger.delivery import buttons, part_transitions
from semel.ledger.inbound.hear import Addressee, Event, HeardOutcome, hear
from semel.ledger.storage.rows import ItemRow, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import permission_requests


@dataclass(frozen=True)
class AnswerResult:
    """The result of recording an answer.

    `status` of a valid answer: "answered" (recorded now), "repeat" (this same event, or this key, was recorded before),
    "already" (another answer was recorded before) or "closed" (the request had expired or was cancelled). `status` of
    an invalid answer: "unknown", "unseen", "no such option" or "no words". `option`: the recorded answer. `outcome`:
    the event of an answer to a question. `options`: the ids that "no such option" could have named.
    """

    status: str
    kind: str = ""
    outcome: HeardOutcome | None = None
    option: str | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class AnswerContext:
    """The face and the event by which an answer was given (Law 13). `event`: the command that contained the answer.

    `seen`: the rev up to which `face` had shown the session. `key`: the answer's idempotency key, if it has no event.
    """

    face: str = permission_requests.API
    event: int | None = None
    seen: int | None = None
    key: str | None = None


OVER_THE_API = AnswerContext()


def record_answer(
    tx: Tx, session: int, item: int, option: str | None, by: str, digest: bytes, is_announced: bool = False,
    context: AnswerContext = OVER_THE_API,
) -> AnswerResult:  # fmt: skip
    """Record an answer if the request or question `item` is still open. Return the result.

    `option`: the id of the chosen option, or the text that answers a question. `by`: who answered. `digest`: for a
    question, the digest of the answer's text. `is_announced`: the caller tells the chat about the answer, so this
    function adds no notice.
    """
    row = tx.one(ItemRow, "item_get", id=item)
    if row is None or row.session != session or row.kind not in ("permission", "ask"):
        return AnswerResult("unknown")
    body = entries.load(row.body)
    if context.face == permission_requests.API and context.seen is not None and context.seen < row.born:
        return AnswerResult("unseen", row.kind)
    if row.kind == "ask" and not (option or "").strip():
        return AnswerResult("no words", row.kind)
    if body.get("state") != "open":
        if body.get("state") != "answered":
            return AnswerResult("closed", row.kind)
        status = "repeat" if _is_repeat(body, option, by, context) else "already"
        return AnswerResult(status, row.kind, option=body.get("answer"))
    if row.kind == "permission" and option is not None and option not in (options := _option_ids(body)):
        return AnswerResult("no such option", row.kind, options=options)
    where = {"face": context.face, "event": context.event, "seen": context.seen}
    where |= {"key": context.key} if context.key is not None else {}
    entries.set_item(tx, item, live=False, body={"state": "answered", "answer": option, "by": by, **where})
    part_transitions.touch_asking_entries(tx, item)
    buttons.take_away_buttons(tx, item)
    is_outside = context.face == permission_requests.API and "announced" in body
    text = law.format_outcome(option, body.get("options") or (), by, str(body.get("title") or ""), is_outside)
    permission_requests.add_outcome_notice(tx, row, text, is_announced)
    outcome = _hear_answer(tx, row.session, item, option, by, digest) if row.kind == "ask" else None
    return AnswerResult("answered", row.kind, outcome, option)


def _is_repeat(body: dict[str, Any], option: str | None, by: str, context: AnswerContext) -> bool:
    """Return whether the recorded answer is this one: of the same event or key or, without these, in the same words."""
    if context.event is not None or context.key is not None:
        given = (("event", context.event), ("key", context.key))
        return any(value is not None and body.get(name) == value for name, value in given)
    return body.get("key") is None and (body.get("answer"), body.get("by")) == (option, by)


def cancel_undelivered(tx: Tx, item: int) -> None:
    """Cancel an answered request whose answer did not reach the agent before a stop or the turn's end."""
    row = tx.one(ItemRow, "item_get", id=item)
    if row is not None and entries.load(row.body).get("state") == "answered":
        entries.set_item(tx, item, body={"state": "cancelled"})
        buttons.take_away_buttons(tx, item)
        permission_requests.add_withdrawal_notice(tx, row)


def _option_ids(body: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(o.get("optionId")) for o in body.get("options", []))


def _hear_answer(tx: Tx, session: int, item: int, option: str | None, by: str, digest: bytes) -> HeardOutcome:
    """Accept the answer to a question as an event, which the agent gets in its next turn.

    Return the event's outcome.
    """
    row = tx.get(SessionRow, "session_by_id", id=session)
    event = Event(
        source=f"ask:{row.key}", key=f"item-{item}", kind="answer", text=option or "", digest=digest, sender=by,
        more={"item": item},
    )  # fmt: skip
    return hear(tx, event, [Addressee(row.key, row.agent, row.home)])
