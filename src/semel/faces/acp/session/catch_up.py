"""Choose which rows an editor is shown of those that it lacks: the newest ones, up to a size, and which ones later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from math import inf
from typing import NamedTuple

from semel.faces.acp.editor_profiles import EditorProfile
from semel.text.json_types import Json


class SizeLimits(NamedTuple):
    """How much of a session is shown at once: characters, rows, and messages of people."""

    chars: float
    rows: float = inf
    prompts: float = inf


MISSED_LIMITS = SizeLimits(chars=20_000)
MAX_ENTRIES_BEHIND_LIVE = 1000  # people's messages behind the one that the agent is writing


def choose_rows(rows: Sequence[Json], has_begun: Callable[[Json], bool]) -> tuple[list[Json], list[Json]]:
    """Return (the rows to show, the older ones that are left out), each in order. `rows`: in the order of the view.

    Requests for permission are always shown, and the newest row is, too, however long it is. So is a row of which the
    editor has the beginning (`has_begun`): otherwise it would seem to go on for ever.
    """
    requests = [row for row in rows if is_request(row)]
    others = [row for row in rows if not is_request(row)]
    first = find_first_shown(others, MISSED_LIMITS)
    begun = [row for row in others[:first] if has_begun(row)]
    left_out = [row for row in others[:first] if not has_begun(row)]
    return [*begun, *others[first:], *requests], left_out


def hold_back_said(
    rows: Sequence[Json], entries: dict[int, Json], has_begun: Callable[[Json], bool], profile: EditorProfile
) -> tuple[list[Json], list[Json]]:
    """Return (the rows to show now, those to show later), each in order. `entries`: those of the view, by seq.

    An editor that joins messages would put what somebody else says into the middle of a message that the agent is
    writing, even of a word. There it waits until the message has ended. What was said before is shown before it.
    """
    if not profile.joins_messages or (live := _find_live_message(entries)) is None:
        return list(rows), []
    is_begun, born = has_begun(live), live["born"]
    shown: list[Json] = []
    held_back: list[Json] = []
    for row in rows:
        is_held_back = (is_begun or row["born"] > born) and _is_joined_to_agent(row, profile)
        (held_back if is_held_back else shown).append(row)
    return shown, held_back


def _find_live_message(entries: dict[int, Json]) -> Json | None:
    """Return the entry that the agent is still writing. `entries`: those of the view, oldest first.

    Only the newest ones are looked at: a session may have many.
    """
    newest = islice(reversed(entries.values()), MAX_ENTRIES_BEHIND_LIVE)
    return next((entry for entry in newest if entry.get("live")), None)


def _is_joined_to_agent(row: Json, profile: EditorProfile) -> bool:
    """Whether an editor that joins messages joins this row to the agent's: a person's words, a report, a remark."""
    if "seq" not in row:
        return bool(row["kind"] == "notice")
    return profile.drops_user_text if row["role"] == "user" else bool(row["role"] != "agent")


def find_first_shown(rows: Sequence[Json], limits: SizeLimits) -> int:
    """Return the index of the oldest row that is shown. The newest one always is, however long."""
    chars = prompts = 0
    for index in range(len(rows) - 1, -1, -1):
        row = rows[index]
        chars += count_chars(row)
        if chars > limits.chars or prompts >= limits.prompts or len(rows) - index > limits.rows:
            return min(index + 1, len(rows) - 1)
        prompts += row.get("role") == "user"
    return 0


def describe_left_out(session: str, rows: Sequence[Json] | None = None) -> str:
    """Return a sentence about older rows that are not shown, with the number of messages among them.

    `rows`: None if they are not known.
    """
    count = None if rows is None else sum("seq" in row and not row.get("superseded") for row in rows)
    subject = {None: "Earlier messages are", 0: "Earlier tool calls or thoughts are", 1: "1 earlier message is"}.get(
        count, f"{count} earlier messages are"
    )
    return f"{subject} not shown here. To read what is left out: semel show {session}"


def count_chars(row: Json) -> int:
    """Return how much text an editor gets for a row."""
    return len(row.get("text") or "") + len(row.get("tail") or "")


def is_request(row: Json) -> bool:
    return "seq" not in row and row["kind"] == "permission"
