"""Notices to people and the agent about messages that were not delivered (Laws 5 and 7).

People see the notice, and the agent's next prompt includes it. A notice never wakes the agent: otherwise a failure
could cause the next failure.
"""

from __future__ import annotations

from semel.law.delivery import State
from semel.ledger.storage.rows import OutgoingPart
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.text.sentences import end_sentence

MAX_QUOTE_CHARS = 80
"""Characters of the message that its notice quotes."""

_ADVICE = "It may have arrived: decide with resend, arrived or drop."
_WAS: dict[State, str] = {"rejected": "rejected", "held": "held", "sent": "sent, and failed later"}
_RELIED_ON = "A text that repeated it was therefore not sent."


def add_failure_notice(tx: Tx, part: OutgoingPart, state: State, reason: str | None) -> None:
    """Add the notice about a part that was held or rejected, or that failed after it was sent.

    `state`: the part's new state. If a later text was not sent because it echoed this part's claim, the notice says so.
    """
    why = end_sentence(reason or "no reason was given")
    text = f"A message to {part.dest} was {_WAS[state]}: {why} {quote_part(part)}"
    if state == "held":
        text = f"{text} {_ADVICE}"
    elif _echo_lost(tx, part):
        text = f"{text} {_RELIED_ON}"
    _add_notice(tx, part, "failed" if state == "sent" else state, text)


def add_drop_notice(tx: Tx, part: OutgoingPart) -> None:
    """Add a notice that a person dropped a part, if a later text was not sent because it echoed the part's claim."""
    if _echo_lost(tx, part):
        _add_notice(tx, part, "dropped", f"A message to {part.dest} was dropped. {quote_part(part)} {_RELIED_ON}")


def _echo_lost(tx: Tx, part: OutgoingPart) -> bool:
    """Return whether this is the first part of its claim to fail, and echoes relied on the claim (Law 5)."""
    if not tx.exists("claim_said_again", claim=part.claim):
        return False
    return not tx.exists("claim_failed_before", claim=part.claim, id=part.id)


def _add_notice(tx: Tx, part: OutgoingPart, state: str, text: str) -> None:
    more = {"kind": f"delivery.{state}", "part": part.id, "to": part.dest}
    entries.add_entry(tx, part.session, role="notice", text=text.strip(), tell=True, more=more)


def quote_part(part: OutgoingPart) -> str:
    """Return a sentence that quotes the part's message, or the beginning of it; "" if the message has no text."""
    text = " ".join(str(entries.load(part.op).get("text", "")).split())
    if not text:
        return ""
    return f'It began "{text[:MAX_QUOTE_CHARS]}…".' if len(text) > MAX_QUOTE_CHARS else f'It said "{text}".'
