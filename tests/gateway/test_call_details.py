"""What a watcher gets of a tool call besides its output: the agent's id of it, what it changes, and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway_world import World, script

from semel.acp_stream import Fold
from semel.gateway.turns.call_details import MAX_DIFF_CHARS, MAX_LOCATIONS, pick_item_fields

Json = dict[str, Any]
DIFF = {"type": "diff", "path": "/w/a.py", "oldText": "a = 1\n", "newText": "a = 2\n"}
NEW_FILE = {"type": "diff", "path": "/w/b.py", "oldText": None, "newText": ""}
SHOWN_DIFFS = [{"path": "/w/a.py", "oldText": "a = 1\n", "newText": "a = 2\n"}, {"path": "/w/b.py", "newText": ""}]
OPTIONS = [{"optionId": "y", "name": "Allow", "kind": "allow_once"}]


def update(name: str, /, **fields: Any) -> Json:
    return {"update": {"sessionUpdate": name, "toolCallId": "T-1", **fields}}


async def items_after(world: World, *steps: Any) -> list[Json]:
    await world.ask(script(*steps))
    items: list[Json] = (await world.gateway.history("s", 1 << 60))["items"]
    return items


async def test_a_call_has_its_id_its_diffs_and_its_locations(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        call = update(
            "tool_call", title="Edit a.py", kind="edit", status="in_progress",
            locations=[{"path": "/w/a.py", "line": 3}, {"path": "/w/b.py", "line": None}, "nonsense", {"line": 1}],
        )  # fmt: skip
        result = update("tool_call_update", status="completed", content=[DIFF, NEW_FILE])
        (item,) = await items_after(w, call, result, "Done.")
        assert (item["call"], item["tool_kind"], item["status"]) == ("T-1", "edit", "done")
        assert item["locations"] == [{"path": "/w/a.py", "line": 3}, {"path": "/w/b.py"}]
        assert item["diffs"] == SHOWN_DIFFS


async def test_later_locations_replace_the_earlier_ones(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        call = update("tool_call", title="Read", kind="read", locations=[{"path": "/w/a.py"}])
        moved = update("tool_call_update", status="completed", locations=[{"path": "/w/c.py", "line": 9}])
        (item,) = await items_after(w, call, moved, "Done.")
        assert item["locations"] == [{"path": "/w/c.py", "line": 9}]


async def test_a_permission_request_shows_what_it_is_about(tmp_path: Path) -> None:
    """The stream announced the call without its diff; only the request has it."""
    async with World(tmp_path, permissions="allow") as w:
        call = update("tool_call", title="Edit a.py", kind="edit", status="pending", locations=[{"path": "/w/a.py"}])
        asked = {"toolCall": {"toolCallId": "T-1", "title": "Edit a.py", "content": [DIFF]}, "options": OPTIONS}
        items = await items_after(w, call, {"ask": "session/request_permission", "params": asked}, "Done.")
        request = next(item for item in items if item["kind"] == "permission")
        assert (request["call"], request["tool_kind"]) == ("T-1", "edit")
        assert (request["diffs"], request["locations"]) == (SHOWN_DIFFS[:1], [{"path": "/w/a.py"}])


def test_a_diff_that_is_too_large_says_how_much_is_left_out() -> None:
    large = {"path": "/w/big", "oldText": "x" * MAX_DIFF_CHARS, "newText": "yy"}
    small = {"path": "/w/small", "newText": "z"}
    fields = {"diffs": [large, small], "locations": [{"path": str(n)} for n in range(MAX_LOCATIONS + 1)]}
    picked = pick_item_fields(fields)
    assert picked["diffs"] == [{"path": "/w/big", "left_out": MAX_DIFF_CHARS + 2}, small]
    assert len(picked["locations"]) == MAX_LOCATIONS


def test_a_repeated_location_changes_nothing() -> None:
    fold = Fold()
    data = {"toolCallId": "t", "locations": [{"path": "a"}]}
    assert fold.update({"sessionUpdate": "tool_call", "title": "x", **data})
    assert fold.update({"sessionUpdate": "tool_call_update", **data}) == []
