"""Notices: an adapter's statements about the run (retries, warnings, errors), sent as typed signals or as prose.

Prose is taken for a notice only if there is evidence besides its wording: the presence or absence of a message id, its
place, or `_meta`. All other text is the agent's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from semel.acp_stream.ops import Began, Board, Ended, Node, Op
from semel.acp_stream.profiles import Profile

Spoken = Literal["note", "retry", "resumed", "queued"]


class Notices:
    def __init__(self, board: Board, profile: Profile) -> None:
        self.board = board
        self.profile = profile

    def tell(self, text: str, **fields: Any) -> list[Op]:
        node = self.board.add(Node(self.board.fresh(), "notice", {"text": text.strip(), **fields}))
        node.ended = True
        return [Began(node.id, "notice", dict(node.fields)), Ended(node.id, {})]

    def spoken(self, text: str, mid: str | None, data: Mapping[str, Any], first: bool) -> str | None:
        """The kind of notice that this message chunk is; None if it is the agent's text. `first`: the turn's first."""
        meta = data.get("_meta")
        if isinstance(meta, dict) and _is_informational(meta):
            return "note"
        profile = self.profile
        if profile.unidentified_is_notice and mid is None:
            return "note"
        errors = profile.foreign_id_errors
        if errors is not None and mid is not None and not mid.startswith(profile.model_id) and errors.match(text):
            return "note"
        for pattern, what in profile.prose:
            if pattern.match(text) and (what != "queued" or first):
                return what
        return None


def _is_informational(meta: Mapping[str, Any]) -> bool:
    claude = meta.get("claudeCode")
    return isinstance(claude, dict) and (claude.get("kind") == "informational" or claude.get("level") == "notice")


def signalled(meta: Mapping[str, Any]) -> tuple[str, bool] | None:
    """A typed signal in `session_info_update._meta`: (text, whether it announces a retry); None if there is none.

    codex: `_meta.codex.error{message, willRetry}`. JetBrains AIR capability:
    `_meta.jetbrains.air.sessionFailure{title, severity, details?}`.
    """
    codex = meta.get("codex")
    error = codex.get("error") if isinstance(codex, dict) else None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return error["message"], error.get("willRetry") is True
    jetbrains = meta.get("jetbrains")
    air = jetbrains.get("air") if isinstance(jetbrains, dict) else None
    failure = air.get("sessionFailure") if isinstance(air, dict) else None
    if isinstance(failure, dict) and isinstance(failure.get("title"), str):
        return failure["title"], failure.get("severity") == "warning"
    return None


def failure(meta: object) -> str | None:
    """The failure that a prompt's response reports in `_meta` and not by its stop reason; None if there is none."""
    found = signalled(meta) if isinstance(meta, dict) else None
    return found[0] if found is not None and not found[1] else None


def retrying(data: Mapping[str, Any]) -> str | None:
    """The text of a `_session/retrying` notification (vibe), handed on as an update of that name."""
    if data.get("sessionUpdate") != "_session/retrying":
        return None
    detail = data.get("detail") or data.get("message") or data.get("category")
    return detail if isinstance(detail, str) and detail else "retrying"
