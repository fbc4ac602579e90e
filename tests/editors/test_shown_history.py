"""How much of a session's history an editor is shown, and what is said about the rest."""

from __future__ import annotations

from typing import Any

import pytest

from semel.faces.acp.session.catch_up import describe_left_out
from semel.faces.acp.session.history import read_history
from semel.faces.view import SessionView

Json = dict[str, Any]
ENTRY: Json = {"seq": 1, "born": 1, "rev": 1, "role": "agent", "text": "hello"}


@pytest.mark.parametrize(("rows", "words"), [
    (None, "Earlier messages are"),
    ([ENTRY, {"id": 1, "kind": "tool"}], "1 earlier message is"),
    ([{**ENTRY, "superseded": 2}, {"id": 1, "kind": "tool"}], "Earlier tool calls or thoughts are"),
])  # fmt: skip
def test_what_is_left_out_is_counted_in_messages(rows: list[Json] | None, words: str) -> None:
    assert describe_left_out("s", rows) == f"{words} not shown here. To read what is left out: semel show s"


class Archive:
    """The client: it has pages of a session with these entries, and counts how many were asked for."""

    def __init__(self, count: int, **entry: Any) -> None:
        self.entries = [{"seq": seq, "born": seq, "rev": seq, **entry} for seq in range(1, count + 1)]
        self.pages = 0

    def page(self, before: int, limit: int) -> Json:
        first = max(0, before - 1 - limit)
        return {"entries": self.entries[first : before - 1], "items": [], "more": first > 0, "before": first + 1}

    async def get(self, path: str, after: int, limit: int) -> Json:
        self.pages += 1
        return self.page(after, limit)


@pytest.mark.parametrize(
    ("count", "entry", "shown"),
    [
        (1_000, {"role": "agent", "text": "short"}, 1_000),
        (3_000, {"role": "user", "text": "short"}, 200),
        (3_000, {"role": "agent", "text": "x" * 10_000}, 200),
        (100_000, {"role": "event", "text": "short"}, 10_000),
        (3, {"role": "agent", "text": "x" * 3_000_000}, 1),
    ],
    ids=["all of it", "prompts", "characters", "rows", "one long text"],
)
async def test_what_a_load_reads_and_shows_is_bounded_however_long_the_session_is(
    count: int, entry: Json, shown: int
) -> None:
    archive: Any = Archive(count, **entry)
    view, snapshot = SessionView(), {"type": "snapshot", "rev": count, "session": {}, **archive.page(count + 1, 200)}
    view.apply(snapshot)
    rows, is_cut = await read_history(archive, "s", view, snapshot)
    assert [row["seq"] for row in rows] == list(range(count - shown + 1, count + 1))
    assert is_cut == (shown < count) and archive.pages <= 11
