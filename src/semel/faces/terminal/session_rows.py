"""The list of sessions in the switcher: who needs the person comes first, then the sessions they were in, then news."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from semel.text.json_types import Json
from semel.text.visible import visible
from semel.timing.durations import format_duration

AGE_CELLS = 6  # of the column that says when
MAX_TITLE_CELLS = 48
UNITS_S = (86_400, 3_600, 60)


def name_session(session: Json) -> str:
    """Return the title of a session, or else its key without "AGENT:web:", as on the page."""
    key = str(session["key"])
    agent, _, rest = key.partition(":web:")
    title = " ".join(str(session.get("title") or "").split())
    return visible(title or (rest if rest and ":" not in agent else key))


def describe_need(session: Json) -> str:
    """Say what a session needs of the person; "" if nothing."""
    if session.get("approvals"):
        return "asks for a permission"
    if session.get("questions"):
        return "asks a question"
    if held := session.get("held"):
        return f"{held} held: did it arrive?" if held > 1 else "held: did it arrive?"
    return "the last turn failed" if session.get("failed") else ""


def sort_sessions(sessions: Sequence[Json], visited: Sequence[str]) -> list[Json]:
    """Sort sessions for the switcher. `visited`: the keys of those that the person was in, the newest last."""
    places = {key: place for place, key in enumerate(visited)}

    def rank(session: Json) -> tuple[bool, int, bool, int]:
        place = places.get(session["key"], -1)
        return not describe_need(session), -place, not session.get("unread"), -int(session.get("at") or 0)

    return sorted(sessions, key=rank)


def find_sessions(sessions: Sequence[Json], query: str) -> list[Json]:
    """Return the sessions whose title, key, agent or last text has every word of the query; case does not matter."""
    words = query.casefold().split()
    fields = ("title", "key", "agent", "last")
    return [
        session
        for session in sessions
        if all(word in " ".join(str(session.get(name) or "") for name in fields).casefold() for word in words)
    ]


def format_session(session: Json, width: int, now_ms: int, *, is_current: bool = False) -> Text:
    """Format a session as one line of at most `width` cells: a sign, its name, what is to be known of it, and when."""
    need, state = describe_need(session), session.get("state")
    sign, style = ("?", "bold yellow") if need else ("◐", "cyan") if state == "running" else (" ", "")
    sign, style = ("●", "bold") if sign == " " and session.get("unread") else (sign, style)
    age = "here" if is_current else format_age(now_ms - int(session.get("at") or now_ms))
    age = f"{age:>{AGE_CELLS}}"
    room = max(width - cell_len(age) - 5, 8)
    name_cells = min(room // 2, MAX_TITLE_CELLS)
    line = Text(f"{sign} ", style)
    line.append(_fit(name_session(session), name_cells), "bold" if need or session.get("unread") else "")
    fact = need or " ".join(visible(str(session.get("last") or "")).split())
    line.append(f"  {_fit(fact, max(room - name_cells - 2, 0))}", "yellow" if need else "dim")
    return line.append(f" {age}", "dim")


def format_age(age_ms: int) -> str:
    """Format how long ago something was, in its largest unit: "now", "5 min", "2 h", "3 d"."""
    age_s = age_ms // 1000
    unit_s = next((unit_s for unit_s in UNITS_S if age_s >= unit_s), 0)
    return format_duration(age_s - age_s % unit_s) if unit_s else "now"


def _fit(text: str, cells: int) -> str:
    """Cut or pad a text to so many cells."""
    if cell_len(text) > cells > 0:
        return f"{set_cell_size(text, cells - 1)}…"
    return set_cell_size(text, cells)
