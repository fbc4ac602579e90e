"""The terminal's list of sessions, and its tabs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from semel.faces.terminal.session_list import SessionList
from semel.faces.terminal.session_rows import find_sessions, format_session, name_session, sort_sessions
from semel.faces.terminal.tab_line import Tab, format_tabs

MINUTE = 60_000
SESSIONS: list[dict[str, Any]] = [
    {"key": "main:web:idle", "at": 9 * MINUTE, "state": "idle", "last": "Done.", "agent": "demo"},
    {"key": "news", "at": 2 * MINUTE, "unread": 3, "last": "Two tests fail.", "agent": "demo"},
    {"key": "here", "at": 1 * MINUTE, "agent": "demo"},
    {"key": "held", "at": 3 * MINUTE, "held": 2, "agent": "demo"},
    {"key": "deploy", "title": "Deploy the garden", "at": 1, "state": "running", "approvals": 1, "agent": "built"},
    {"key": "before", "at": 4 * MINUTE, "agent": "demo"},
]


def test_who_needs_the_person_comes_first_then_where_they_were_then_news() -> None:
    keys = [session["key"] for session in sort_sessions(SESSIONS, ["before", "here"])]
    assert keys == ["held", "deploy", "here", "before", "news", "main:web:idle"]


def test_every_word_of_a_search_must_occur_in_a_session() -> None:
    assert [one["key"] for one in find_sessions(SESSIONS, "GARDEN built")] == ["deploy"]
    assert [one["key"] for one in find_sessions(SESSIONS, "tests demo")] == ["news"]
    assert find_sessions(SESSIONS, "garden demo") == []


async def test_the_list_is_what_its_frames_say_and_has_older_sessions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Exception):
        """There are no more frames."""

    class Client:
        def __init__(self, data_dir: Path):
            pass

        async def __aenter__(self) -> Client:
            return self

        async def __aexit__(self, *error: object) -> None:
            pass

        async def stream_list(self, after: int | None) -> AsyncGenerator[dict[str, Any], None]:
            assert after is None
            yield {"type": "snapshot", "rev": 5, "sessions": [{"key": "a"}, {"key": "b"}], "more": True, "next": "b"}
            changes = [{"op": "gone", "key": "b"}, {"op": "session", "key": "a", "archived": True}]
            yield {"type": "change", "rev": 6, "changes": [*changes, {"op": "session", "key": "c", "approvals": 1}]}
            raise Stopped

        async def list_all(self, path: str, name: str, *, limit: int, after: str) -> list[dict[str, Any]]:
            assert (path, name, after) == ("/v1/sessions", "sessions", "b")
            return [{"key": "old"}]

    seen: list[list[str]] = []
    monkeypatch.setattr("semel.faces.terminal.session_list.AsyncClient", Client)
    session_list = SessionList(Path(), lambda problem: seen.append(sorted(row["key"] for row in session_list.sessions)))
    with pytest.raises(Stopped):
        await session_list.follow()
    assert seen == [["a", "b", "old"], ["c", "old"]]


@pytest.mark.parametrize("width", [30, 54, 104])
def test_a_session_is_one_line_that_fits(width: int) -> None:
    for session in [*SESSIONS, {"key": "x", "title": "漢字" * 40, "last": "a\x1b[31m\nb" * 40}]:
        line = format_session(session, width, 10 * MINUTE)
        assert line.cell_len <= width and "\n" not in line.plain and "\x1b" not in line.plain
    columns = {
        format_session({**SESSIONS[0], "at": at}, width, 60 * MINUTE).plain.find("Done.") for at in (0, 55 * MINUTE)
    }
    assert len(columns) == 1, "the columns stand below each other"


def test_a_line_says_what_a_session_needs_and_since_when() -> None:
    lines = {one["key"]: " ".join(format_session(one, 104, 10 * MINUTE).plain.split()) for one in SESSIONS}
    assert lines["deploy"] == "? Deploy the garden asks for a permission 9 min"
    assert lines["held"] == "? held 2 held: did it arrive? 7 min"
    assert lines["news"] == "● news Two tests fail. 8 min"
    assert lines["main:web:idle"] == "idle Done. 1 min"
    assert name_session({"key": "main:telegram:7"}) == "main:telegram:7"


@pytest.mark.parametrize("width", [60, 80, 160])
def test_tabs_are_shortened_until_they_fit(width: int) -> None:
    tabs = [Tab("a very long title of a session", "?", number == 0) for number in range(6)]
    assert cell_len(format_tabs(tabs, width).plain) <= width
