"""Settings of limits: how much agents may be used in one day."""

from __future__ import annotations

from pydantic import Field, PositiveInt

from semel.gateway.clock import find_zone
from semel.gateway.settings.tables import Table, Zone
from semel.law.limits import MILLION, Limits
from semel.ledger.turns.limits import LimitPolicy


class AmountSettings(Table):
    """The tables `[limits.person]`, `[limits.session]` and `[limits.all]`: the amounts that one day allows."""

    turns: PositiveInt | None = Field(default=None, examples=[50])
    """The most turns that begin on one day."""
    tokens: PositiveInt | None = Field(default=None, examples=[2_000_000])
    """The most tokens that agents report on one day."""
    cost: float | None = Field(default=None, gt=0, allow_inf_nan=False, examples=[5.0])
    """The most that one day costs, in the currency that the agents report (mostly US dollars)."""

    @property
    def limits(self) -> Limits:
        return Limits(self.turns, self.tokens, None if self.cost is None else round(self.cost * MILLION))


class LimitSettings(Table):
    """The table `[limits]` (`semel docs limits`)."""

    tz: Zone = "UTC"
    """The time zone whose midnight begins a new day, like "Europe/Berlin"."""
    person: AmountSettings = Field(default=AmountSettings(), examples=[{"turns": 50, "tokens": 2_000_000, "cost": 5.0}])
    """The most that each person may use on one day. Default: no limit."""
    session: AmountSettings = Field(
        default=AmountSettings(), examples=[{"turns": 100, "tokens": 4_000_000, "cost": 10.0}]
    )
    """The same for each session."""
    all: AmountSettings = Field(default=AmountSettings(), examples=[{"turns": 500, "tokens": 20_000_000, "cost": 50.0}])
    """The same for everybody together."""

    @property
    def policy(self) -> LimitPolicy:
        return LimitPolicy(self.person.limits, self.session.limits, self.all.limits, find_zone(self.tz), self.tz)
