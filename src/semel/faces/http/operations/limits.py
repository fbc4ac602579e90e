"""Operations: what was used today, and the limits."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct
from starlette.responses import Response

from semel.faces.http.routing import ApiCall, Page, Param, Returns, Router, page_response

router = Router("limits")

Scope = Literal["person", "session", "all"]


class UsedAmounts(Struct):
    """Turns that began, tokens and cost that agents reported. `cost` is in the agents' currency."""

    turns: int
    tokens: int
    cost: float


class MostAmounts(Struct):
    """The limits of one day; null: no limit."""

    turns: int | None
    tokens: int | None
    cost: float | None


class LimitLine(Struct):
    """What one person, one session or all together used (for all, `subject` is empty). `unreported`: attempts whose
    agent reported no tokens.
    """

    scope: Scope
    subject: str
    used: UsedAmounts
    most: MostAmounts
    unreported: int


class WaitingSession(Struct):
    """A session whose messages wait, because a limit is used up. `until`, `since`: milliseconds since 1970."""

    session: str
    scope: Scope
    subject: str
    measure: Literal["turns", "tokens", "cost"]
    until: int
    since: int


class LimitsToday(Page):
    """`day` is the date in the time zone `tz`; it ends at `ends` (milliseconds since 1970)."""

    day: str
    tz: str
    ends: int
    limits: list[LimitLine]
    waiting: list[WaitingSession]


@router.route("GET", "/v1/limits", Returns("What was used today.", LimitsToday))
async def list_limits(
    call: ApiCall,
    limit: Annotated[int, Param("Maximum number of lines.", minimum=1, maximum=1000)] = 200,
    after: Annotated[str, Param("The `next` of the page before.")] = "",
) -> Response:
    """List what was used today, with the limits, and the sessions that wait for the next day."""
    today = await call.gateway.limits(limit + 1, after)
    waiting = today.pop("waiting")[:limit]
    return page_response("limits", today.pop("limits"), limit, "scope", "subject", **today, waiting=waiting)
