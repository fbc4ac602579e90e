"""Notices to people and the agent about messages that were not delivered (Laws 5 and 7).

People see the notice, and the agent's next prompt includes it. A notice never wakes the agent: otherwise a failure
could cause the next failure. The parts of one message share a notice, until a turn begins that tells the agent of it.
"""

from __future__ import annotations

from typing import Any

from semel.law.delivery import State
from semel.ledger.storage.rows import EntryRow, OutgoingPart, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.text.sentences import end_sentence

MAX_QUOTE_CHARS = 80
"""Characters of the message that its notice quotes."""
MAX_COMPARED_NOTICES = 20
"""Newest notices that the agent was not told of yet, among which one about the same message is looked for."""

_ADVICE = "It may have arrived: decide with resend, arrived or drop."
_WAS: dict[State, str] = {"rejected": "rejected", "held": "held", "sent": "sent, and failed later"}
_RELIED_ON = "A text that repeated it was therefore not sent."


def add_failure_notice(tx: Tx, part: OutgoingPart, state: State, reason: str | None) -> None:
    """Tell that a part was held or rejected, or that it failed after it was sent.

    `state`: the part's new state. If another part of its message had the same fate and no turn has begun since, that
    notice tells of both. If a later text was not sent because it echoed this part's claim, the notice says so.
    """
    kind = f"delivery.{'failed' if state == 'sent' else state}"
    epoch = tx.get(SessionRow, "session_by_id", id=part.session).epoch
    why = end_sentence(reason or "no reason was given")
    relied = state != "held" and _echo_lost(tx, part)
    found = _find_notice(tx, part, kind, epoch)
    if found is None:
        text = f"A message to {part.dest} was {_WAS[state]}: {why} {quote_part(part)}"
        more = {"kind": kind, "part": part.id, "to": part.dest, "epoch": epoch}
        entries.add_entry(tx, part.session, role="notice", text=_add_remark(text, state, relied), tell=True, more=more)
        return
    notice, first = found
    told = [*_list_parts(entries.load(notice.more)), part.id]
    last = "" if first.error in (None, reason) else "the last time: "  # None: a person has decided about it
    text = f"{len(told)} parts of a message to {part.dest} were {_WAS[state]}: {last}{why} {quote_part(first, False)}"
    text = _add_remark(text, state, relied or notice.text.endswith(_RELIED_ON))
    entries.set_entry(tx, part.session, notice.seq, text=text, more={"parts": told})


def _find_notice(tx: Tx, part: OutgoingPart, kind: str, epoch: int) -> tuple[EntryRow, OutgoingPart] | None:
    """Return the notice that is to tell of the part as well, and the first part of the same message that it tells of.

    No prompt has it yet: each turn that begins, or is taken over, raises the session's `epoch`.
    """
    for row in tx.all(EntryRow, "notices_untold", session=part.session, limit=MAX_COMPARED_NOTICES):
        more = entries.load(row.more)
        if more.get("kind") != kind or more.get("epoch") != epoch or part.id in _list_parts(more):
            continue
        first = tx.one(OutgoingPart, "part_get", id=more["part"])
        if first is not None and first.claim == part.claim:
            return row, first
    return None


def _list_parts(more: dict[str, Any]) -> list[int]:
    return list(more.get("parts") or (more["part"],))


def _add_remark(text: str, state: State, relied: bool) -> str:
    return f"{text.strip()} {_ADVICE if state == 'held' else _RELIED_ON if relied else ''}".strip()


def add_drop_notice(tx: Tx, part: OutgoingPart) -> None:
    """Add a notice that a person dropped a part, if a later text was not sent because it echoed the part's claim."""
    if _echo_lost(tx, part):
        text = f"A message to {part.dest} was dropped. {quote_part(part)} {_RELIED_ON}"
        more = {"kind": "delivery.dropped", "part": part.id, "to": part.dest}
        entries.add_entry(tx, part.session, role="notice", text=text, tell=True, more=more)


def _echo_lost(tx: Tx, part: OutgoingPart) -> bool:
    """Return whether this is the first part of its claim to fail, and echoes relied on the claim (Law 5)."""
    if not tx.exists("claim_said_again", claim=part.claim):
        return False
    return not tx.exists("claim_failed_before", claim=part.claim, id=part.id)


def quote_part(part: OutgoingPart, is_whole: bool = True) -> str:
    """Return a sentence that quotes the part's message, or the beginning of it; "" if the part has no text.

    `is_whole`: the part is all that is quoted from.
    """
    text = " ".join(str(entries.load(part.op).get("text", "")).split())
    if not text:
        return ""
    is_short = is_whole and len(text) <= MAX_QUOTE_CHARS
    return f'It said "{text}".' if is_short else f'It began "{text[:MAX_QUOTE_CHARS]}…".'
