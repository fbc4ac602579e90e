"""Read a session's history for `session/load`: the newest part of it, up to a size that an editor draws at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from semel.faces.acp.session.catch_up import count_chars
from semel.faces.client import session_path
from semel.faces.view import SessionView
from semel.text.json_types import Json

if TYPE_CHECKING:
    from semel.faces.client import AsyncClient

MAX_CHARS = 2_000_000
MAX_PROMPTS = 200
MAX_ROWS = 10_000  # of sessions in which hardly any person speaks, such as those of schedules
PAGE_ENTRIES = 1000


async def read_history(client: AsyncClient, key: str, view: SessionView, snapshot: Json) -> tuple[list[Json], bool]:
    """Add older rows to a view that has a snapshot. Return its rows in order, and whether older ones are left out."""
    before = snapshot["before"]
    while view.has_older and not _find_cut(view.ordered()):
        page = await client.get(f"{session_path(key)}/history", after=before, limit=PAGE_ENTRIES)
        view.prepend(page)
        before = page["before"]
    rows = view.ordered()
    cut = _find_cut(rows)
    return rows[cut:], cut > 0 or view.has_older


def _find_cut(rows: list[Json]) -> int:
    """Return the index of the first row that is shown. The newest one always is, however long."""
    size = prompts = 0
    for index in range(len(rows) - 1, -1, -1):
        row = rows[index]
        size += count_chars(row)
        if size > MAX_CHARS or prompts >= MAX_PROMPTS or len(rows) - index > MAX_ROWS:
            return min(index + 1, len(rows) - 1)
        prompts += row.get("role") == "user"
    return 0
