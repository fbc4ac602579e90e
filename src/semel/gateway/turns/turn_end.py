"""The end of a turn: its notices, the retry of a failed turn, the correction of held-back texts (Laws 5, 6, 9, 12)."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from semel.acp_stream.notices import read_failure_text
from semel.gateway.ports import Answered
from semel.law import retries
from semel.law import turn as law
from semel.ledger.delivery.cutting import is_local
from semel.ledger.turns import turn_ops
from semel.text.message_markup import MarkupProblem
from semel.text.sentences import join_sentences

LONG_DELAY_S = 30.0  # delays of this many seconds or more are announced in chats, too
LEAST_REASON_CHARS = 8  # a shorter reason may stand in a text by chance
_MARKUP = re.compile(r"[*_`#>]+")
_ERROR_PREFIX = re.compile(r"(?:(?:internal\s+)?error\s*:\s*)+", re.IGNORECASE)
MAX_JITTER_FACTOR = 1.1  # jitter, so that sessions that failed together do not retry together


def retry_delay_s(end: Answered, attempt: int, max_attempts: int) -> float | None:
    """Return the seconds until a failed turn is retried; None if it has failed for good.

    `end`: the failure. `attempt`: the number of the attempt that failed, from 1.
    """
    judgement = retries.judge_failure(failure_reason(end), end.meta)
    delay_s = law.delay_after_failure(
        attempt=attempt,
        is_transient=judgement.is_transient,
        retry_after=judgement.retry_after,
        max_attempts=max_attempts,
    )
    return None if delay_s is None else delay_s * random.uniform(1.0, MAX_JITTER_FACTOR)


def normalize_end(end: Answered, streamed_failure: str | None) -> Answered:
    """Return the answer as an error if the agent reports a failure in another way.

    Some agents report it only in the response's `_meta`, or in the stream (`streamed_failure`: see `Fold.failure`).
    """
    streamed_failure = streamed_failure if end.stop == "end_turn" else None
    failure_text = (read_failure_text(end.meta) or streamed_failure) if end.error is None else None
    return end if failure_text is None else Answered("error", failure_text, end.meta)


def failure_reason(end: Answered) -> str:
    """Return the reason that the agent gave for a failure."""
    return end.error or "it gave no reason"


def make_retry_notice(reason: str, delay_s: float, attempt: int) -> turn_ops.Notice:
    """Return the notice that the turn is retried, and when. It is sent to a chat only if the delay is long.

    `attempt`: the number of the next attempt.
    """
    delay = f"{delay_s:.0f} s" if delay_s < 120 else f"{delay_s / 60:.0f} min"
    kind = "turn.retry" if delay_s >= LONG_DELAY_S else "retry"
    text = join_sentences(f"The agent's turn failed: {reason}", f"It is tried again in {delay} (attempt {attempt}).")
    return turn_ops.Notice(text, kind)


def make_end_notices(event: law.Event, end: Answered, attempt: int, last_text: str = "") -> list[turn_ops.Notice]:
    """Return the notices about the end of a turn; [] if a person stopped it, or if it ended normally.

    `last_text`: the agent's last words at home. If they report the failure themselves, a chat gets no other notice of
    it.
    """
    if event == "cancelled":
        return []
    if event == "errored" and tells_failure(last_text, failure_reason(end)):
        return [turn_ops.Notice("The agent's turn failed, as it says itself.", "failed")]
    if event == "errored":
        tried = f" (tried {attempt} times)" if attempt > 1 else ""
        return [turn_ops.Notice(f"The agent's turn failed: {failure_reason(end)}{tried}", "turn.failed")]
    words = {
        "max_tokens": "The answer was cut off at the model's token limit.",
        "max_turn_requests": "The agent stopped: it reached its limit of model requests in one turn.",
        "refusal": "The model refused to continue.",
    }
    return [turn_ops.Notice(words[end.stop], f"turn.{end.stop}")] if end.stop in words else []


def tells_failure(text: str, reason: str) -> bool:
    """Return whether a text ends with the reason of a failure.

    Some agents both write an error as text and answer with it.
    """
    told, failure = _strip_error_marks(text), _strip_error_marks(reason)
    return len(failure) >= LEAST_REASON_CHARS and told.endswith(failure)


def _strip_error_marks(text: str) -> str:
    """Return a text without emphasis, the word "error" at its beginning, and a full stop at its end."""
    plain = " ".join(_MARKUP.sub(" ", text).split())
    return _ERROR_PREFIX.sub("", plain).rstrip(".! ").casefold()


class Corrections:
    """The correction of a turn's held-back texts. The agent is asked once, and a notice tells people.

    `was_asked`: an earlier attempt of the root may already have been asked.
    """

    def __init__(self, was_asked: bool) -> None:
        self.was_asked = was_asked
        self._reasons: list[str] = []  # the reasons that the agent was given

    def are_due(self, end: Answered, problems: Sequence[MarkupProblem]) -> bool:
        """Return whether to ask the agent to correct the texts in `problems`, now that it has ended its turn."""
        return bool(problems) and not self.was_asked and end.stop in ("end_turn", "max_tokens")

    def note_request(self, problems: Sequence[MarkupProblem]) -> None:
        """Record that the agent is now asked to correct these texts."""
        self.was_asked = True
        self._reasons = [problem.reason for problem in problems]

    def make_notice(self, problems: Sequence[MarkupProblem], home: str | None) -> turn_ops.Notice | None:
        """Return the notice for a chat about held-back texts; None if there are none, or if the home is not a chat."""
        reasons = [problem.reason for problem in problems] or self._reasons
        if not reasons or home is None or is_local(home):
            return None
        return turn_ops.Notice(f"Something the agent wrote was held back: {'; '.join(reasons)}.", "turn.held")
