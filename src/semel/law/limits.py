"""Limits of use: how many turns and tokens, and how much cost, one day allows (docs/limits.md).

A limit holds for each person, for each session or for all sessions together. Turns are counted when they begin, tokens
and cost when the agent reports them. So the turns that run when a limit is used up are the only ones that can pass it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from semel.law.wake import PERSON_KINDS

Scope = Literal["person", "session", "all"]
Measure = Literal["turns", "tokens", "cost"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
NEAR_SHARE = 0.8  # the share of a limit at which people are told that it will be used up
MILLION = 1_000_000
OWNER = "owner"  # the person of whoever holds the owner's token: page, terminal, command line, HTTP


@dataclass(frozen=True)
class Amounts:
    """What was used. `cost` is in millionths of the agents' currency."""

    turns: int = 0
    tokens: int = 0
    cost: int = 0

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(self.turns - other.turns, self.tokens - other.tokens, self.cost - other.cost)


@dataclass(frozen=True)
class Limits:
    """The most that one day allows; None: no limit. `cost` is in millionths."""

    turns: int | None = None
    tokens: int | None = None
    cost: int | None = None


UNLIMITED = Limits()


@dataclass(frozen=True)
class Crossing:
    """A limit that is now completely used up or, if `is_used_up` is false, nearly."""

    measure: Measure
    most: int
    used: int
    is_used_up: bool


def find_used_up(used: Amounts, limits: Limits) -> Measure | None:
    """Return the first measure that is used up; None if something is left of each."""
    for measure in MEASURES:
        limit = getattr(limits, measure)
        if limit is not None and getattr(used, measure) >= limit:
            return measure
    return None


def find_crossings(before: Amounts, after: Amounts, limits: Limits) -> list[Crossing]:
    """Return the limits that came near or were used up when `before` became `after`."""
    crossings = []
    for measure in MEASURES:
        limit, old, new = getattr(limits, measure), getattr(before, measure), getattr(after, measure)
        if limit is None or old >= limit:
            continue
        if new >= limit or old < limit * NEAR_SHARE <= new:
            crossings.append(Crossing(measure, limit, new, new >= limit))
    return crossings


def identify_person(source: str, kind: str, person: str | None, account: str | None, role: str | None) -> str | None:
    """Return the person whose limit an event counts toward; None if no person caused it.

    `source`, `kind`: the event's. `person`, `account`, `role`: of its sender, if a channel or a node stated them.
    """
    channel = source.removeprefix("channel:")
    if channel != source:
        return person or (f"{channel}:{account}" if account else channel)
    if kind not in PERSON_KINDS:
        return None
    return source if role not in (None, "owner") else OWNER


def compute_cost(total: int, counted: int | None) -> int:
    """Return what was added to a conversation's cost. `total`: the newest report; `counted`: the one before.

    A total below the earlier one means that the agent began to count anew.
    """
    return total - counted if counted is not None and total >= counted else total


def format_amount(measure: Measure, amount: int) -> str:
    """Format an amount as people read it: "40 turns", "120,000 tokens", "a cost of 1.50"."""
    if measure == "cost":
        return f"a cost of {amount / MILLION:,.2f}"
    return f"{amount:,} {measure if amount != 1 else measure.removesuffix('s')}"
