"""Notices about the end of a turn, and the decision whether a failed turn is retried (Laws 6, 9)."""

from __future__ import annotations

import random

from semel.acp_stream.notices import failure
from semel.gateway.ports import Answered
from semel.law import transient_errors
from semel.law import turn as law
from semel.ledger.turns import show

LONG = 30.0  # delays from this many seconds on are announced in chats, too
MAX_JITTER_FACTOR = 1.1  # jitter: sessions that failed together do not retry together


def retry_delay_s(end: Answered, attempt: int, most: int) -> float | None:
    """Seconds until a turn that failed in its `attempt` is retried; None if it has failed for good."""
    failed = transient_errors.judge_failure(why(end), end.meta)
    wait = law.after_failure(attempt=attempt, passing=failed.passing, retry_after=failed.retry_after, most=most)
    return None if wait is None else wait * random.uniform(1.0, MAX_JITTER_FACTOR)


def as_told(end: Answered) -> Answered:
    """The end as the agent meant it: it may tell of its failure only in `_meta`."""
    told = failure(end.meta) if end.error is None else None
    return end if told is None else Answered("error", told, end.meta)


def why(end: Answered) -> str:
    """What an agent gave as the reason of a failure."""
    return end.error or "it gave no reason"


def retry_notice(why: str, wait: float, attempt: int) -> show.Notice:
    """People see that it goes on, and when; in a chat, where that is long enough to wonder."""
    when = f"{wait:.0f} s" if wait < 120 else f"{wait / 60:.0f} min"
    kind = "turn.retry" if wait >= LONG else "retry"
    failed = f"The agent's turn failed: {why.rstrip('. ')}."
    return show.Notice(f"{failed} It is tried again in {when} (attempt {attempt}).", kind)


def notices(event: law.Event, end: Answered, attempt: int) -> list[show.Notice]:
    """What people are told of the end of a turn that nobody stopped."""
    if event == "cancelled":
        return []
    if event == "errored":
        tried = f" (tried {attempt} times)" if attempt > 1 else ""
        return [show.Notice(f"The agent's turn failed: {why(end)}{tried}", "turn.failed")]
    words = {
        "max_tokens": "The answer was cut off at the model's token limit.",
        "max_turn_requests": "The agent stopped: it reached its limit of model requests in one turn.",
        "refusal": "The model refused to go on.",
    }
    return [show.Notice(words[end.stop], f"turn.{end.stop}")] if end.stop in words else []
