"""Recognise notices: an adapter's statements about the run (retries, warnings, errors).

An adapter is the program that speaks ACP for an agent. It sends such statements as typed signals or as prose in the
agent's stream. Prose counts as a notice only if there is evidence besides its wording: the presence or absence of a
message id, its position, or `_meta`. All other text is the agent's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.acp_stream.ops import GrowingItem, Op, ViewItems
from semel.acp_stream.profiles import Profile
from semel.text.json_types import object_at, text_at

RETRY_CAUSES = {
    "limit": "The model's server reports that a limit is used up.",
    "service": "The model's server reports an error, or that it is busy.",
}
"""Why an agent repeats a request, by the category of an AIR failure. The titles of the other categories say it."""


class Notices:
    """The notices in an agent's stream: recognise them, and add them to the view."""

    def __init__(self, view_items: ViewItems, profile: Profile) -> None:
        self.view_items = view_items
        self.profile = profile

    def add(self, text: str, **fields: Any) -> list[Op]:
        node = GrowingItem("notice", {"text": text.strip(), **fields})
        return [self.view_items.add(node), node.end()]

    def classify(self, text: str, mid: str | None, data: Mapping[str, Any], is_first: bool) -> str | None:
        """Return the kind of notice that a message chunk contains; None if it contains text of the agent.

        The kinds are those of `Profile.prose`. `mid`: the chunk's message id. `data`: the whole update. `is_first`: the
        chunk is the turn's first text.
        """
        meta = data.get("_meta")
        if meta and _is_informational(meta):  # few chunks have a `_meta`, and this runs once per chunk
            return "note"
        profile = self.profile
        if profile.unidentified_is_notice and mid is None:
            return "note"
        errors = profile.foreign_id_errors
        if errors is not None and mid is not None and not mid.startswith(profile.model_id) and errors.match(text):
            return "note"
        for pattern, notice_kind in profile.prose:
            if pattern.match(text) and (notice_kind != "queued" or is_first):
                return notice_kind
        return None


def _is_informational(meta: object) -> bool:
    claude = object_at(meta, "claudeCode")
    return claude.get("kind") == "informational" or claude.get("level") == "notice"


def read_signal(meta: object) -> tuple[str, bool] | None:
    """Read a typed signal from the `_meta` of a `session_info_update` or of a prompt's response.

    Return (text, whether it announces a retry); None if there is no signal. Codex sends `_meta.codex.error{message,
    additionalDetails, willRetry}`; agents with JetBrains' AIR capability send `_meta.jetbrains.air.sessionFailure
    {title, category, severity, details?}`. The text of a retry includes its cause, if the signal has it.
    """
    error = object_at(meta, "codex", "error")
    if (message := text_at(error, "message")) is not None:
        if error.get("willRetry") is not True:
            return message, False
        return _add_cause(message, text_at(error, "additionalDetails")), True
    failure = object_at(meta, "jetbrains", "air", "sessionFailure")
    if (title := text_at(failure, "title")) is not None:
        if failure.get("severity") != "warning":
            return title, False
        cause = text_at(failure, "details") or RETRY_CAUSES.get(text_at(failure, "category") or "")
        return _add_cause(title, cause), True
    return None


def read_thread_error(meta: object) -> bool | None:
    """Return whether Codex says that its turn failed; None if `meta`, that of a `session_info_update`, does not say.

    Codex ends such a prompt like one that was answered. But `_meta.codex.threadStatus.type` is then "systemError", and
    a message chunk without an id gives the reason.
    """
    status = text_at(object_at(meta, "codex", "threadStatus"), "type")
    return None if status is None else status == "systemError"


def _add_cause(text: str, cause: str | None) -> str:
    """Add the cause of a retry to its announcement, on a line of its own."""
    return f"{text}\n{cause}" if cause else text


def read_failure_text(meta: object) -> str | None:
    """Return the text of a failure that a prompt's response reports only in its `_meta`; None if there is none."""
    signal = read_signal(meta)
    return signal[0] if signal is not None and not signal[1] else None


def read_retry_text(data: Mapping[str, Any]) -> str | None:
    """Return the text of a notice for Vibe's notification `_session/retrying`; None for other updates.

    The notification is {"sessionId", "category", "detail"}. Vibe sends it each time it repeats a request to its model.
    """
    if data.get("sessionUpdate") != "_session/retrying":
        return None
    detail = data.get("detail") or data.get("message") or data.get("category")
    reason = f" ({detail.rstrip('. ')})" if isinstance(detail, str) and detail else ""
    return f"The agent's model request failed{reason}. The agent is trying again."
