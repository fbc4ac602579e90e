"""The cost of an update does not grow with what came before it (law 11)."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from stream_help import Update, call, content, response, result, say, terminal, think

from fewer_cases import cross
from semel.acp_stream import PROFILES, Fold, Limits

FEW, TIMES = 1_000, 8
SLACK = 3.5  # a quadratic fold would take 8 times what is expected

PATTERNS: dict[str, Callable[[int], Update]] = {
    "a message of different chunks": lambda n: say(f"word {n} and another "),
    "a message of one chunk again and again": lambda n: say("the same words again "),
    "a message that always begins like itself": lambda n: say("the same" if n % 2 else "the same words "),
    "a message of one letter": lambda n: say("a"),
    "a thought of one letter": lambda n: think("a"),
    "a thought with a section mark every other chunk": lambda n: think("\n\n" if n % 2 else "the same words"),
    "a thought whose section never ends": lambda n: think("\n\n" if n == 0 else "ha"),
    "messages under ever new ids": lambda n: say("the same words again", f"m{n}"),
    "thoughts and messages by turns": lambda n: (say if n % 2 else think)("word "),
    "terminal deltas": lambda n: terminal(f"line {n} of the output\n"),
    "the same terminal delta": lambda n: terminal("tick\n"),
    "deltas beside poorer snapshots": lambda n: terminal("tick\n") if n % 2 else result(content=content("x")),
    "deltas beside windows": lambda n: (
        terminal("tick tock\n") if n % 2 else result(content=content("...\n\n" + "tick tock\n" * 20))
    ),
    "ever other snapshots": lambda n: result(_meta=response(f"{n} other output of the command " * 3)),
    "ever new calls": lambda n: call(f"t{n}"),
}


def took(fold: Fold, pattern: Callable[[int], Update], count: int) -> float:
    updates = [pattern(n) for n in range(count)]
    begin = time.process_time()
    for update in updates:
        fold.update(update)
    return time.process_time() - begin


@pytest.mark.parametrize(("pattern", "name"), cross(PATTERNS, ["careful", "codex-zed", "opencode"]))
def test_time_is_linear_in_updates(pattern: str, name: str) -> None:
    limits = Limits(head=2_000, tail=2_000, window=20_000)
    best = float("inf")
    for _ in range(4):
        few = took(Fold(PROFILES[name], limits), PATTERNS[pattern], FEW)
        many = took(Fold(PROFILES[name], limits), PATTERNS[pattern], FEW * TIMES)
        best = min(best, many / max(few, 1e-4))
        if best < TIMES * SLACK:
            return
    pytest.fail(f"{TIMES} times the updates took {best:.0f} times the time")


def test_cumulative_content_costs_its_own_size() -> None:
    """An update that brings 200 KB may cost what 200 KB cost, not what all before it did."""
    text = "".join(f"line {n}\n" for n in range(20_000))
    fold = Fold()
    fold.update(call())
    begin = time.process_time()
    for n in range(1, 501):
        fold.update(result(status="in_progress", content=content(text[: n * 400])))
    assert time.process_time() - begin < 2.0
    assert fold.calls.by_id["t"].output.total == 200_000


def test_a_replay_of_a_long_history_is_linear() -> None:
    def replayed(count: int) -> float:
        fold = Fold()
        fold.prompt("go")
        for n in range(count):
            fold.update(say(f"Answer number {n} of the long history.", f"m{n}"))
        fold.end("end_turn")
        begin = time.process_time()
        for n in range(count):
            fold.update(say(f"Answer number {n} of the long history."), replay=True)
            fold.update(say(f"Unknown answer {n}."), replay=True)
        fold.settle()
        return time.process_time() - begin

    best = min(replayed(2_000) / max(replayed(250), 1e-4) for _ in range(3))
    assert best < TIMES * SLACK
