"""Collect what an agent reports about its use of tokens and money in one attempt (docs/limits.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.law.limits import MILLION
from semel.ledger.turns.limits import LimitPolicy, UsageReport

TOTAL_KEYS = ("totalTokens", "total_tokens")
PART_KEYS = ("inputTokens", "outputTokens", "cachedReadTokens", "cachedWriteTokens", "input_tokens", "output_tokens")
MAX_REPORTED = 10**12  # a larger number is taken for a mistake of the agent


class UsageCollector:
    """The sum of the reports in one attempt."""

    def __init__(self, policy: LimitPolicy) -> None:
        self.policy = policy
        self._tokens: int | None = None
        self._cost: int | None = None

    def add_answer(self, meta: Mapping[str, Any]) -> None:
        """Add the tokens in the `usage` of an answer to a prompt (ACP `PromptResponse`), if it has any."""
        tokens = read_tokens(meta.get("usage"))
        if tokens is not None:
            self._tokens = (self._tokens or 0) + tokens

    def add_update(self, update: Mapping[str, Any]) -> None:
        """Take the cost of the conversation so far from a `usage_update`, if it states one."""
        cost = update.get("cost") if update.get("sessionUpdate") == "usage_update" else None
        amount = cost.get("amount") if isinstance(cost, Mapping) else None
        if _is_amount(amount):
            self._cost = round(float(amount) * MILLION)  # type: ignore[arg-type]

    def report(self) -> UsageReport:
        """Return the sum of what was reported since the last call."""
        report = UsageReport(self._tokens, self._cost, self.policy)
        self._tokens = self._cost = None
        return report


def read_tokens(usage: object) -> int | None:
    """Return the tokens that a `usage` object states: its total, else the sum of its parts; None if it has neither."""
    if not isinstance(usage, Mapping):
        return None
    numbers = {key: value for key, value in usage.items() if _is_amount(value)}
    total = next((numbers[key] for key in TOTAL_KEYS if key in numbers), None)
    parts = [numbers[key] for key in PART_KEYS if key in numbers]
    return int(total) if total is not None else int(sum(parts)) if parts else None


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_REPORTED
