"""Format the replies to `/status`, `/history`, `/mode` and `/model`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from semel.acp_stream.choices import group_variants, read_choices
from semel.ledger.delivery.parts import MissingCounts, Undelivered
from semel.ledger.inbound.commands import DEFAULT_HISTORY_LINES, LastMessage, MissedMessages, SessionStatus
from semel.ledger.storage.rows import EntryRow
from semel.ledger.transcript.entries import load
from semel.ledger.turns.agent_notices import AgentNotice
from semel.text.wellformed import shorten_to_line
from semel.timing.durations import format_duration

MESSAGE_CHARS = 300  # characters of one message in a history
TITLE_CHARS = 100  # characters of a question, or of what a permission is asked for
NOTICE_CHARS = 200  # characters of what the agent says of itself

_FATES = {
    None: "",
    "rejected": " (did not arrive)",
    "held": " (may not have arrived)",
    "dropped": " (dropped)",
}
_ENDS = {"done": "ended well", "failed": "failed", "cancelled": "was stopped", "lost": "was lost", "running": "runs"}


def format_status(standing: SessionStatus, model: str | None = None, missing: str | None = None) -> str:
    """Return the reply to /status. `standing`: the session's state. `model`: the agent's model if it is configured.

    `missing`: what becomes of the session if its agent is not configured any more.
    """
    row, last = standing.row, standing.last
    state = "a turn runs" if row.turn is not None else "something waits" if row.wake_at is not None else "idle"
    if standing.question is not None:
        state = f"its question waits for an answer: {shorten_to_line(standing.question, TITLE_CHARS)}"
    if standing.retry_in_ms is not None:
        state = f"the turn failed, and is tried again {_format_wait(standing.retry_in_ms)}"
    state += "".join(f"; it asks for a permission: {shorten_to_line(title, TITLE_CHARS)}" for title in standing.asked)
    lines = [f"Session {row.key}" + (f": {row.title}" if row.title else ""), f"Agent: {row.agent}", f"State: {state}"]
    if standing.agent_notice is not None:
        lines.append(_format_agent_notice(standing.agent_notice, standing.now))
    if standing.is_silent:
        lines.append("Nothing came from the agent yet: its key may be refused")
    if missing is not None:
        lines.insert(2, missing[0].upper() + missing[1:])
    if standing.waiting:
        lines.append(f"Waiting: {standing.waiting} message{'s' if standing.waiting > 1 else ''}")
    for name in ("mode", "model"):
        fixed = model if name == "model" else None
        if current := fixed or read_choices(standing.about, name)[0]:
            lines.append(f"{name.capitalize()}: {current}")
    if row.busy is not None:
        lines.append(f"Messages during a turn: {row.busy}")
    if row.chapter > 1:
        lines.append(f"Chapter: {row.chapter}")
    if last is not None:
        end = "ended without a word" if standing.ended_without_a_word else _ENDS[last.state]
        end = end if standing.retry_in_ms is None else "failed"
        lines.append(f"Last turn: t{last.id} {end}" + (f" ({last.error})" if last.error else ""))
        if last.state == "running" and standing.retry_in_ms is None:
            lines[-1] += f", for {_format_age(standing.now - last.started)}"
        without_answer = standing.ended_without_a_word or last.state in ("failed", "cancelled")
        if row.turn is None and last.chapter == row.chapter and without_answer:
            lines[-1] += "; /retry runs it again"
    if standing.undelivered is not None and (
        undelivered := _describe_undelivered(standing.undelivered, standing.missed)
    ):
        lines.append(undelivered)
    return "\n".join(lines)


def _describe_undelivered(undelivered: Undelivered, missed: MissedMessages) -> str:
    """Say what did not reach the session's chat; "" if all did."""
    described = []
    if undelivered.rejected.total:
        described.append(f"{_name_missing(undelivered.rejected)} of the last day did not arrive")
    if undelivered.held.total:
        described.append(f"{_name_missing(undelivered.held)} may not have arrived")
    if undelivered.waiting:
        described.append(f"{_count(undelivered.waiting, 'message')} could not be sent yet")
    if not described:
        return ""
    return f"Delivery here: {', '.join(described)}{_tell_where_shown(undelivered, missed)}"


def _name_missing(counts: MissingCounts) -> str:
    """Return how many of each kind are missing, as a phrase."""
    kinds = (
        (counts.messages, "message"),
        (counts.questions, "question"),
        (counts.requests, "permission request"),
        (counts.notices, "notice"),
    )
    *names, last = [_count(number, noun) for number, noun in kinds if number]
    return f"{', '.join(names)} and {last}" if names else last


def _tell_where_shown(undelivered: Undelivered, missed: MissedMessages) -> str:
    """Return a sentence about where what did not arrive can be read; "" if everything is still being sent."""
    if not undelivered.is_missing:
        return ""
    number = undelivered.held.total + undelivered.rejected.total
    messages = undelivered.held.messages + undelivered.rejected.messages
    if not missed.count:
        return f". The owner can read {'it' if number == 1 else 'them'} on the page"
    history = "/history" if missed.lines <= DEFAULT_HISTORY_LINES else f"/history {missed.lines}"
    if missed.count == messages < number:
        return f". {history} shows the message{'s' if messages > 1 else ''} whole, the page all"
    if missed.count < number:
        return f". {history} shows {missed.count} of them whole; the owner can read all on the page"
    return f". {history} shows {'it' if number == 1 else 'them'} whole"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number > 1 else ''}"


def _format_agent_notice(notice: AgentNotice, now: int) -> str:
    """Say what the agent last said of itself, and how long ago. `now`: in ms since the epoch."""
    since = "" if notice.at is None else f" {_format_age(now - notice.at)} ago"
    return f"The agent said{since}: {shorten_to_line(notice.text, NOTICE_CHARS)}"


def _format_age(age_ms: int) -> str:
    return format_duration(max(1, round(age_ms / 1000)))


def format_choices(
    kind: str, current: str | None, offered: Iterable[str], unattended_modes: Collection[str] = ()
) -> str:
    """Return the reply to /mode or /model (`kind`) alone: what the agent offers, marked with a star what is on.

    A model that is offered in variants has one line. It begins with the variant that is on, or else with the first one.
    `unattended_modes`: the modes in which the agent asks nobody for a permission, which their lines say.
    """
    lines = [f"{kind.capitalize()}s:"]
    for base, variants in group_variants(offered).items():
        ids = [base + variant for variant in variants]
        first = current if current in ids else ids[0]
        others = [variant or base for id, variant in zip(ids, variants, strict=True) if id != first]
        remark = " (asks nobody)" if first in unattended_modes else ""
        remark += f"; also {', '.join(others)}" if others else ""
        lines.append(f"{'*' if first == current else '-'} {first}{remark}")
    return "\n".join(lines)


def _format_wait(wait_ms: int) -> str:
    seconds = math.ceil(wait_ms / 1000)
    if seconds <= 0:
        return "now"
    return f"in {seconds} s" if seconds < 120 else f"in {math.ceil(seconds / 60)} min"


def format_history(messages: Sequence[LastMessage]) -> str:
    """Return the reply to /history: a line for each message, which is cut if it is long.

    Given whole are one alone, and those that did not, or may not have, reached the chat: they can be read nowhere else
    in it.
    """
    if not messages:
        return "Nothing was said in this chapter yet."
    return "\n".join(_format_message(message, len(messages) == 1 or message.is_missed) for message in messages)


def _format_message(message: LastMessage, is_whole: bool) -> str:
    text = message.entry.text if is_whole else shorten_to_line(message.entry.text, MESSAGE_CHARS)
    names = [str(file.get("name") or "without a name") for file in load(message.entry.more).get("files") or ()]
    words = [f"[file {shorten_to_line(name, TITLE_CHARS)}]" for name in names] + ([text] if text else [])
    return f"{_name_author(message.entry)}{_FATES[message.fate]}: {' '.join(words)}"


def _name_author(row: EntryRow) -> str:
    more = load(row.more)
    default = {"event": more.get("kind"), "user": "the owner"}.get(row.role)
    return str(more.get("sender") or default or row.role)
