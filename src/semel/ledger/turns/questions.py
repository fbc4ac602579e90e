"""Questions of agents (tool `ask`): list the open ones, and close those that a person's message answers.

A question stays open, over turns and restarts, until somebody answers it: by choosing an option
(`semel.ledger.inbound.answers`), or by a message. A message cannot say which question it means, and the agent reads it
as an answer to what it asked; so it closes every open question that its face had shown. It allows nothing (Law 13).
"""

from __future__ import annotations

from semel.ledger.delivery import buttons, part_transitions
from semel.ledger.storage.rows import ItemRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries

KIND = "ask"
"""The kind of a question's item."""


def answer_by_message(tx: Tx, session: int, event: int, text: str, sender: str | None, shown_rev: int | None) -> None:
    """Close the session's open questions with a message that a person wrote to the agent.

    `event`: the message's event. `shown_rev`: the rev up to which its face had shown the session; a newer question
    stays open. None if unknown.
    """
    for item in tx.all(ItemRow, "items_live", session=session):
        if item.kind == KIND and (shown_rev is None or item.born <= shown_rev):
            body = {"state": "answered", "answer": text or None, "by": sender, "event": event, "seen": shown_rev}
            entries.set_item(tx, item.id, live=False, body=body)
            part_transitions.touch_asking_entries(tx, item.id)
            buttons.take_away_buttons(tx, item.id)


def find_newest_open(tx: Tx, session: int) -> str | None:
    """Return the text of the newest question of a session that waits for an answer; None if none does."""
    texts = [item.text for item in tx.all(ItemRow, "items_live", session=session) if item.kind == KIND]
    return texts[-1] if texts else None
