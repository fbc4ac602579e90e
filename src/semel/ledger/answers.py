"""A person answers: a permission request or a question, each once (compare and set)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semel.law import requests as law
from semel.ledger import entries, requests
from semel.ledger.hear import Event, Outcome, To, hear
from semel.ledger.sql import Tx


@dataclass(frozen=True)
class Answer:
    """`status`: answered now, already answered, or closed (expired, cancelled, unknown option)."""

    status: str
    kind: str = ""
    heard: Outcome | None = None


def answer(tx: Tx, session: int, item: int, option: str | None, by: str, digest: bytes, told: bool = False) -> Answer:
    """Record an answer if the item is still open. `digest` is that of the answer's text (questions).

    `told`: those who were asked in a chat learn of it by other words than these.
    """
    row = tx.one("item_get", id=item)
    if row is None or row.session != session or row.kind not in ("permission", "ask"):
        return Answer("unknown")
    body = entries.load(row.body)
    if body.get("state") != "open":
        return Answer("already" if body.get("state") == "answered" else "closed", row.kind)
    if row.kind == "permission" and option is not None and option not in _options(body):
        return Answer("no such option", row.kind)
    entries.set_item(tx, item, live=False, body={"state": "answered", "answer": option, "by": by})
    if not told:
        requests.tell(tx, row, law.outcome(option, body.get("options") or (), by, str(body.get("title") or "")))
    heard = _question(tx, row.session, item, option, by, digest) if row.kind == "ask" else None
    return Answer("answered", row.kind, heard)


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
