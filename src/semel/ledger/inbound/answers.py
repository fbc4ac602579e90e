"""Record a person's answer to a permission request or a question. Only the first one counts (compare and set)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semel.law import permission_questions as law
from semel.ledger.inbound.hear import Event, Outcome, To, hear
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import permission_requests


@dataclass(frozen=True)
class Answer:
    """Result of an answer.

    `status`: "answered" (now), "repeat" (recorded by this very event), "already" (by another one), "closed" (expired or
    cancelled); or why it is no answer: "unknown", "unseen", "no such option", "no words". `option`: what is recorded.
    """

    status: str
    kind: str = ""
    heard: Outcome | None = None
    option: str | None = None


@dataclass(frozen=True)
class AnswerContext:
    """Where an answer was given (Law 13). `event`: of the answering command; `seen`: the rev that the face had
    shown."""

    face: str = permission_requests.API
    event: int | None = None
    seen: int | None = None


OVER_THE_API = AnswerContext()


def answer(
    tx: Tx, session: int, item: int, option: str | None, by: str, digest: bytes, told: bool = False,
    given: AnswerContext = OVER_THE_API,
) -> Answer:  # fmt: skip
    """Record an answer if the item is still open. `digest` is that of the answer's text (questions).

    `told`: the people who were asked in a chat learn of the answer by another message.
    """
    row = tx.one("item_get", id=item)
    if row is None or row.session != session or row.kind not in ("permission", "ask"):
        return Answer("unknown")
    body = entries.load(row.body)
    if given.face == permission_requests.API and given.seen is not None and given.seen < row.born:
        return Answer("unseen", row.kind)
    if row.kind == "ask" and not (option or "").strip():
        return Answer("no words", row.kind)
    if body.get("state") != "open":
        if body.get("state") != "answered":
            return Answer("closed", row.kind)
        mine = given.event is not None and body.get("event") == given.event
        return Answer("repeat" if mine else "already", row.kind, option=body.get("answer"))
    if row.kind == "permission" and option is not None and option not in _options(body):
        return Answer("no such option", row.kind)
    where = {"face": given.face, "event": given.event, "seen": given.seen}
    entries.set_item(tx, item, live=False, body={"state": "answered", "answer": option, "by": by, **where})
    if not told:
        permission_requests.tell(
            tx, row, law.outcome(option, body.get("options") or (), by, str(body.get("title") or ""))
        )
    heard = _question(tx, row.session, item, option, by, digest) if row.kind == "ask" else None
    return Answer("answered", row.kind, heard, option)


def undelivered(tx: Tx, item: int) -> None:
    """Cancel an answered request: a stop or the turn's end came before the agent received the answer."""
    row = tx.one("item_get", id=item)
    if row is not None and entries.load(row.body).get("state") == "answered":
        entries.set_item(tx, item, body={"state": "cancelled"})
        permission_requests.tell_withdrawn(tx, row)


def _options(body: dict[str, Any]) -> set[str]:
    return {str(o.get("optionId")) for o in body.get("options", [])}


def _question(tx: Tx, session: int, item: int, option: str | None, by: str, digest: bytes) -> Outcome:
    """The answer to a question is an event: the agent reads it in its next turn."""
    row = tx.one("session_by_id", id=session)
    assert row is not None
    event = Event(
        source=f"ask:{row.key}", key=f"item-{item}", kind="answer", text=option or "", digest=digest, sender=by,
        more={"item": item},
    )  # fmt: skip
    return hear(tx, event, [To(row.key, row.agent, row.home)])
