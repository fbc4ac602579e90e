"""Choose which of the rows that an editor has missed it is shown: the newest ones, up to a size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from semel.text.json_types import Json

MAX_CHARS = 20_000


def choose_rows(rows: Sequence[Json], has_begun: Callable[[Json], bool]) -> tuple[list[Json], list[Json]]:
    """Return (the rows to show, the older ones that are left out), each in order. `rows`: in the order of the view.

    Requests for permission are always shown, and the newest row is, too, however long it is. So is a row of which the
    editor has the beginning (`has_begun`): otherwise it would seem to go on for ever.
    """
    requests = [row for row in rows if is_request(row)]
    others = [row for row in rows if not is_request(row)]
    size, first = 0, len(others)
    for index in range(len(others) - 1, -1, -1):
        size += count_chars(others[index])
        if size > MAX_CHARS and first < len(others):
            break
        first = index
    begun = [row for row in others[:first] if has_begun(row)]
    left_out = [row for row in others[:first] if not has_begun(row)]
    return [*begun, *others[first:], *requests], left_out


def describe_left_out(session: str, count: int | None = None) -> str:
    """Return a sentence about older messages that are not shown. `count`: how many, if that is known."""
    number = "" if count is None else f"{count} "
    messages = f"{number}earlier message is" if count == 1 else f"{number}earlier messages are"
    return f"{messages[0].upper()}{messages[1:]} not shown here. To read what is left out: semel show {session}"


def count_chars(row: Json) -> int:
    """Return how much text an editor gets for a row."""
    return len(row.get("text") or "") + len(row.get("tail") or "")


def is_request(row: Json) -> bool:
    return "seq" not in row and row["kind"] == "permission"
