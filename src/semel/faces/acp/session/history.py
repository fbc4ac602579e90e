"""Read a session's history for `session/load`: the newest part of it, up to a size that an editor draws at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from semel.faces.acp.session.catch_up import SizeLimits, find_first_shown
from semel.faces.client import session_path
from semel.faces.view import SessionView
from semel.text.json_types import Json

if TYPE_CHECKING:
    from semel.faces.client import AsyncClient

HISTORY_LIMITS = SizeLimits(
    chars=2_000_000, prompts=200,
    rows=10_000,  # of sessions in which hardly any person speaks, such as those of schedules
)  # fmt: skip
PAGE_ENTRIES = 1000


async def read_history(client: AsyncClient, key: str, view: SessionView, snapshot: Json) -> tuple[list[Json], bool]:
    """Add older rows to a view that has a snapshot. Return its rows in order, and whether older ones are left out."""
    before = snapshot["before"]
    while view.has_older and not find_first_shown(view.ordered(), HISTORY_LIMITS):
        page = await client.get(f"{session_path(key)}/history", after=before, limit=PAGE_ENTRIES)
        view.prepend(page)
        before = page["before"]
    rows = view.ordered()
    cut = find_first_shown(rows, HISTORY_LIMITS)
    return rows[cut:], cut > 0 or view.has_older
