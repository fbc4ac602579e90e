"""What agents in the field send, through a gateway into a real Neovim: each row is on its screen once, and whole.

The rows are those of tests/data/stream_cases.json, which are agent-shell's, and more of the same kinds: all the places
where agents put a tool's output, labels, output that is delivered again and again, calls that run at the same time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from neovim_editor import Neovim
from real_editor import DisplayedCall, Json
from system_house import DEMO, House, opened, script, until

pytestmark = pytest.mark.editors

FIELD: list[Json] = json.loads((Path(__file__).parents[1] / "data/stream_cases.json").read_text())
CASES = [case for case in FIELD if all("sessionUpdate" in update for update in case["updates"])]
IDS = ("toolCallId", "messageId", "terminal_id", "terminalId")
LINES = [f"line {number}\n" for number in range(10)]
WHOLE = "".join(LINES)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened(House(tmp_path_factory.mktemp("house"), DEMO)) as house:
        yield house


@pytest.fixture(scope="module")
def neovim(house: House) -> Iterator[Neovim]:
    editor = Neovim(house)
    try:
        editor.new()
        yield editor
    finally:
        editor.end()


def with_own_ids(value: Any, mark: str) -> Any:
    """The same updates with ids that no other case has."""
    if isinstance(value, dict):
        return {
            key: f"{inner}-{mark}" if key in IDS and isinstance(inner, str) else with_own_ids(inner, mark)
            for key, inner in value.items()
        }
    return [with_own_ids(inner, mark) for inner in value] if isinstance(value, list) else value


def show(editor: Neovim, *steps: Any) -> list[Json]:
    """Run a turn, and return the rows that it has added."""
    before = len(editor.rows())
    editor.begin(script(*steps))
    editor.stopped()
    return editor.rows()[before + 1 :]  # the first one is the prompt


def calls_in(rows: list[Json]) -> list[DisplayedCall]:
    return [Neovim.read_call(row) for row in rows if row["kind"] == "tool"]


def check(neovim: Neovim, rows: list[Json], key: str, expected: Any) -> None:
    kind, _, name = key.partition(":")
    if kind in ("message", "thought"):
        texts = [row["text"] for row in rows if row["kind"] == {"message": "agent"}.get(kind, kind)]
        assert texts == (expected if isinstance(expected, list) else [expected])
    elif kind in ("used", "size"):
        assert str(expected) in neovim.run("return semel.state()")
    elif kind != "percent":
        (call,) = calls_in(rows)
        if kind == "tool":
            assert call.text == expected.rstrip("\n"), name
        elif kind == "command":
            assert f"$ {expected}" in "\n".join(row["text"] for row in rows)
        elif kind == "status":
            assert call.status == {"done": "completed"}.get(expected, expected)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_row_of_the_field_is_on_the_screen_as_a_person_must_see_it(neovim: Neovim, case: Json) -> None:
    rows = show(neovim, *({"update": update} for update in with_own_ids(case["updates"], case["name"])))
    for key, expected in case["expected"].items():
        check(neovim, rows, key, expected)


def update(call: str, **fields: Any) -> Json:
    return {"update": {"sessionUpdate": "tool_call_update", "toolCallId": call, **fields}}


def began(call: str, **fields: Any) -> Json:
    fields = {"title": "make", "kind": "execute", "status": "in_progress", **fields}
    return {"update": {"sessionUpdate": "tool_call", "toolCallId": call, **fields}}


def text_content(text: str) -> list[Json]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def grown(number: int) -> str:
    return "".join(LINES[: number + 1])


DIALECTS = {
    **{
        name: lambda number, name=name: {"_meta": {name: {"terminal_id": "t", "data": LINES[number]}}}
        for name in ("terminal_output", "terminal_output_delta", "terminal-output")
    },
    "toolResponse": lambda number: {"_meta": {"claudeCode": {"toolResponse": {"stdout": grown(number), "stderr": ""}}}},
    "rawOutput": lambda number: {"rawOutput": {"output": grown(number)}},
    "content": lambda number: {"content": text_content(grown(number))},
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_tools_output_is_shown_while_it_runs_and_once_at_its_end(
    neovim: Neovim, dialect: str, tmp_path: Path
) -> None:
    """Five lines, a wait until they are on the screen, five more, and the whole result again at the end."""
    call, gate, before = f"make-{dialect}", tmp_path / "go on", len(neovim.rows())
    write = DIALECTS[dialect]
    pieces = [update(call, **write(number)) for number in range(10)]
    again = update(call, status="completed", content=text_content(WHOLE))
    neovim.begin(script(began(call), *pieces[:5], {"wait": str(gate)}, *pieces[5:], again, again, "Made."))
    shown = DisplayedCall("in_progress", "make", "".join(LINES[:5]).rstrip())
    until(lambda: shown in calls_in(neovim.rows()[before:]), f"five lines of {dialect}")
    gate.touch()
    neovim.stopped()
    rows = neovim.rows()[before + 1 :]
    assert calls_in(rows) == [DisplayedCall("completed", "make", WHOLE.rstrip())]
    assert [row["text"] for row in rows if row["kind"] == "agent"] == ["Made."]


def test_a_label_that_changes_is_the_rows_label(neovim: Neovim) -> None:
    rows = show(
        neovim,
        began("label", title="Bash", status="pending"),
        update("label", title="make test", status="in_progress"),
        update("label", _meta={"terminal_output": {"terminal_id": "label", "data": "ok\n"}}),
        update("label", status="completed", title="make test: passed"),
        "Tested.",
    )
    assert calls_in(rows) == [DisplayedCall("completed", "make test: passed", "ok")]


def test_calls_that_run_at_the_same_time_keep_their_rows_and_their_output(neovim: Neovim) -> None:
    names = ("one", "two", "three")
    lines = [
        update(name, _meta={"terminal_output": {"terminal_id": name, "data": f"{name} {number}\n"}})
        for number in range(20)
        for name in names
    ]
    ends = [update(name, status="completed") for name in reversed(names)]
    rows = show(neovim, *(began(name, title=name) for name in names), *lines, *ends, "All made.")
    assert calls_in(rows) == [
        DisplayedCall("completed", name, "\n".join(f"{name} {number}" for number in range(20))) for name in names
    ]
    assert rows[-1]["text"] == "All made."


def test_a_plan_that_is_told_again_is_one_row(neovim: Neovim) -> None:
    def plan(*states: str) -> Json:
        entries = [{"content": f"Step {i}", "priority": "high", "status": state} for i, state in enumerate(states)]
        return {"update": {"sessionUpdate": "plan", "entries": entries}}

    rows = show(neovim, plan("in_progress", "pending"), "First.", plan("completed", "in_progress"), "Second.")
    assert [row["text"] for row in rows if row["kind"] == "plan"] == ["[x] Step 0\n[>] Step 1"]


def test_a_diff_and_its_place_are_shown(neovim: Neovim) -> None:
    diff = {"type": "diff", "path": "/a.txt", "oldText": "one\ntwo\n", "newText": "one\n2\n"}
    place = {"path": "/a.txt", "line": 2}
    rows = show(neovim, began("edit", title="Edit", kind="edit", locations=[place], content=[diff], status="completed"))
    (row,) = [row for row in rows if row["kind"] == "tool"]
    assert row["text"] == "/a.txt:2\n/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2"


def test_an_update_moves_no_cursor_and_no_unsent_prompt(neovim: Neovim, tmp_path: Path) -> None:
    """The person reads further up, and has begun to write; a call above grows, and text comes below."""
    gate, early = tmp_path / "go on", tmp_path / "early"
    output = {"_meta": {"terminal_output": {"terminal_id": "slow", "data": "\n".join("abcdefgh")}}}
    below, more = ({"text": text, "message": text} for text in ("Below.", "More."))
    steps = ("Read me.", below, {"wait": str(early)}, update("slow", **output), {"wait": str(gate)}, more)
    neovim.begin(script(began("slow"), *steps))
    until(lambda: "Below." in neovim.texts(), "the text")
    neovim.run("vim.api.nvim_put({'unsent'}, 'c', true, true); vim.cmd('wincmd k'); vim.fn.search('^Read me.$', 'bw')")
    early.touch()
    until(lambda: any("h" in call.text.split("\n")[-1:] for call in neovim.calls()), "the output above")
    assert neovim.run("return vim.api.nvim_get_current_line()") == "Read me."
    gate.touch()
    neovim.stopped()
    assert neovim.run("return vim.api.nvim_get_current_line()") == "Read me."
    neovim.run("vim.cmd('wincmd j')")
    assert neovim.run("return vim.api.nvim_get_current_line()") == "unsent"


def test_a_replayed_session_has_the_same_rows(neovim: Neovim, house: House) -> None:
    """All of the above, loaded in another Neovim: the same rows, of which notices have become messages."""
    session = neovim.run("return semel.last")
    other = Neovim(house)
    try:
        other.load(session)
        told = set(neovim.texts("notice"))
        assert [text for text in other.texts() if text not in told] == neovim.texts()
        for kind in ("thought", "plan"):
            assert other.texts(kind) == neovim.texts(kind), kind
        assert other.calls() == neovim.calls()
        assert other.texts("user") == [row["text"] for row in neovim.rows() if row["kind"] == "user"]
    finally:
        other.end()
