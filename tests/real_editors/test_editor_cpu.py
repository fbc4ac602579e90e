"""The CPU time of a real Neovim for long streams, through a gateway and beside that for the agent without Semel.

`make test-editors ARGS="tests/real_editors/test_editor_cpu.py -s"` prints the times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from neovim_editor import Neovim
from real_editor import Json
from system_house import House, opened

from semel.testing import scripted_agent

pytestmark = pytest.mark.editors

CHUNKS = 10_000
REDELIVERIES = 500  # the bytes on the wire grow with the square of it
LINES = [f"line {number} of the output ".ljust(99, ".") + "\n" for number in range(CHUNKS)]
TEXT = "".join(LINES)


def cumulative() -> Iterator[Json]:
    """A call that sends all of its output again with every line."""
    call = {"toolCallId": "again", "title": "make", "kind": "execute"}
    for number in range(REDELIVERIES):
        content = [{"type": "content", "content": {"type": "text", "text": "".join(LINES[: number + 1])}}]
        status = "completed" if number == REDELIVERIES - 1 else "in_progress"
        kind = "tool_call_update" if number else "tool_call"
        yield {"update": {"sessionUpdate": kind, **call, "status": status, "content": content}}


SCRIPTS: dict[str, list[Any]] = {
    "stream a text": [{"text": TEXT, "chunks": CHUNKS}],
    "stream an output": [{"tool": "make", "output": LINES}, "Made."],
    "deliver an output again and again": [*cumulative(), "Made."],
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of an agent that knows these scripts: a prompt with them would be as long as the streams."""
    path = tmp_path_factory.mktemp("scripts") / "scripts.json"
    path.write_text(json.dumps([{"when": when, "steps": steps} for when, steps in SCRIPTS.items()]))
    return scripted_agent.command(script=path)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, agent: list[str]) -> Iterator[House]:
    config = f"[agents.demo]\ncommand = {json.dumps(agent)}\n"
    with opened(House(tmp_path_factory.mktemp("house"), config)) as house:
        yield house


def measure(house: House, prompt: str, command: list[str] | None = None) -> tuple[float, list[Json]]:
    """Return the seconds of CPU that Neovim has needed for a prompt and its answer, and what it shows."""
    editor = Neovim(house, command)
    try:
        editor.new()
        before = editor.cpu_s()
        editor.begin(prompt)
        assert editor.stopped() == "end_turn"
        used = editor.cpu_s() - before
        return used, editor.rows()
    finally:
        editor.end()


def test_a_text_in_10000_chunks_costs_neovim_what_it_costs_without_semel(house: House, agent: list[str]) -> None:
    used, rows = measure(house, "stream a text")
    direct, direct_rows = measure(house, "stream a text", agent)
    print(f"{CHUNKS} chunks of text: {used:.2f} s of CPU, {direct:.2f} s without Semel")
    assert rows[-1]["text"] == direct_rows[-1]["text"] == TEXT
    assert used < 1.5 * direct + 0.5


def test_an_output_in_10000_pieces_costs_neovim_less_than_a_second(house: House, agent: list[str]) -> None:
    """Without Semel it shows no output at all: the agent writes it where only some editors look."""
    used, rows = measure(house, "stream an output")
    direct, direct_rows = measure(house, "stream an output", agent)
    print(f"{CHUNKS} pieces of output: {used:.2f} s of CPU, {direct:.2f} s without Semel, which shows none of it")
    text = Neovim.read_call(rows[-2]).text
    head, tail = text.split("\n[", 1)[0], text.rpartition(" characters not shown]\n")[2]
    assert TEXT.startswith(head) and TEXT.rstrip().endswith(tail) and min(len(head), len(tail)) > 8_000
    assert LINES[0] not in direct_rows[-2]["text"]
    assert used < 1.0 + direct


def test_an_output_that_comes_again_and_again_costs_neovim_less_than_without_semel(
    house: House, agent: list[str]
) -> None:
    used, rows = measure(house, "deliver an output again and again")
    direct, direct_rows = measure(house, "deliver an output again and again", agent)
    print(f"an output delivered {REDELIVERIES} times: {used:.2f} s of CPU, {direct:.2f} s without Semel")
    whole = "".join(LINES[:REDELIVERIES])
    assert direct_rows[-2]["text"] == whole.rstrip("\n")
    assert Neovim.read_call(rows[-2]).text.startswith(whole[:10_000])
    assert used < direct
