"""The platforms and the judge of the schedules: what they see that the gateway alone could not tell."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("greenlet")

from proof.schedules import editor_judge, past, words
from proof.schedules.loop import SeededLoop
from proof.schedules.plan import CHANNELS, make
from proof.schedules.platforms import LATE, SETTLE, Platform
from proof.schedules.told import Prompted, Told, count_copies
from proof.schedules.wires import Outside
from semel.gateway.ports import NotSent, Op, Receipt, Safety, Unknown

pytestmark = pytest.mark.proof

Json = dict[str, Any]
OP = Op("key-1", "post", "r0", "a text")


@pytest.fixture
def loop() -> Iterator[SeededLoop]:
    made = SeededLoop(1, 10_000)
    yield made
    made.abandon()
    made.close()


def platform(loop: SeededLoop, **fault: Any) -> Platform:
    return Platform("mail", Safety.RECONCILABLE, Outside(loop, 1), faults={0: fault})


def until(loop: SeededLoop, over: Callable[[], bool]) -> None:
    loop.drive(over)


def at(loop: SeededLoop, seconds: float) -> None:
    loop.call_later(seconds - loop.time(), lambda: None)
    until(loop, lambda: loop.time() >= seconds)


def fault_of(answer: asyncio.Future[Receipt]) -> BaseException | None:
    return answer.exception()


def test_what_is_late_is_not_there_before_its_time_and_is_found_from_it_on(loop: SeededLoop) -> None:
    mail = platform(loop, what="late")
    answer = mail.request(OP)
    until(loop, answer.done)
    assert isinstance(fault_of(answer), Unknown)
    assert mail.find(OP) is None
    at(loop, SETTLE)
    assert LATE < SETTLE and mail.find(OP) == Receipt("mail1")
    assert [post.key for post in mail.log] == ["key-1"] and not mail.late


@pytest.mark.parametrize(("again", "broken"), [(3.0, 1), (5.0, 0)])
def test_an_attempt_before_the_time_that_a_platform_asked_for_is_a_broken_promise(
    loop: SeededLoop, again: float, broken: int
) -> None:
    mail = platform(loop, what="limit", after=4.0)
    answer = mail.request(OP)
    until(loop, answer.done)
    assert isinstance(fault_of(answer), NotSent)
    at(loop, again)
    mail.request(OP)
    assert len(mail.broken) == broken


# ---------------------------------------------------------------- whole runs, of plans made for them

SHAPE: Json = {
    **make(0).shape, "rooms": ["mail"], "narration": "all", "busy": "queue", "side": False, "heartbeat": False,
    "max_len": None, "idle": 600.0, "forgets": dict.fromkeys(CHANNELS, False), "echoes": dict.fromkeys(CHANNELS, False),
    "agent": {"name": "", "memory": "new", "replays": "at once", "repeats": False, "slow": 0.02, "deaf": False,
              "insists": False},
}  # fmt: skip


RUN = """
import json, sys
from proof.schedules.plan import Plan
from proof.schedules.run import Folder, run
from semel.acp_stream.messages import BlockAssembler

told = json.load(sys.stdin)
if told["unfolded"]:
    BlockAssembler._is_copy_of = lambda *_: False
with Folder() as folder:
    verdict = run(Plan(7, told["shape"], tuple(told["actions"])), folder)
    print(json.dumps([verdict.broken, folder.look.execute(told["sql"]).fetchall()]))
"""
"""A process of its own: the schedules put other doors into the gateway than it has."""


def looked(
    *actions: Json, sql: str, agent: Json | None = None, busy: str = "queue", unfolded: bool = False
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """What is broken in a run of these actions, and what its ledger says. `unfolded`: by a gateway with a defect, that
    takes no message for the copy of another."""
    shape = SHAPE | {"agent": SHAPE["agent"] | (agent or {}), "busy": busy}
    told = {"shape": shape, "actions": actions, "sql": sql, "unfolded": unfolded}
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(told), capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    broken, rows = json.loads(done.stdout)
    return broken, [tuple(row) for row in rows]


def test_a_schedule_that_fell_due_while_nobody_was_there_is_told_as_missed() -> None:
    broken, told = looked(
        {"do": "series", "at": 1.0, "room": 0, "every": 90, "downtime": "skip", "for": 400.0},
        {"do": "crash", "when": {"at": 60.0}, "down": 110.0},
        sql="SELECT text FROM entry WHERE more LIKE '%schedule.missed%'",
    )
    assert broken == []
    [(text,)] = told
    assert re.fullmatch(r"Schedule series0: 1 firing \([-0-9: ]+ UTC\) was missed; it is skipped\.", str(text))


def test_what_a_program_wrote_does_not_wake_and_what_nobody_can_read_is_kept() -> None:
    broken, events = looked(
        {"do": "hear", "at": 1.0, "room": 0, "mark": "q1", "bot": True},
        {"do": "garble", "at": 2.0, "room": 0, "mark": "q2"},
        sql="SELECT e.key, h.wakes, q.event IS NOT NULL FROM event e LEFT JOIN hearing h ON h.event = e.id "
        "LEFT JOIN quarantine q ON q.event = e.id ORDER BY e.id",
    )
    assert broken == []
    assert events == [("mail-q1", 0, 0), ("mail-q2", None, 1)]


def test_a_call_behind_a_cancelled_turn_is_refused() -> None:
    broken, claims = looked(
        {"do": "hear", "at": 1.0, "room": 0, "mark": "q1"},
        {"do": "script", "room": 0, "n": 0, "steps": [{"wait": 5.0}, {"say": 0}]},
        {"do": "stop", "at": 3.0, "room": 0},
        sql="SELECT how, outcome, reason FROM claim WHERE text LIKE '%insist%'",
        agent={"insists": True},
    )
    assert broken == []
    assert claims == [("tool", "refused", "its turn was cancelled")]


@pytest.mark.parametrize(
    ("busy", "second", "wait", "faults"),
    [
        ("steer", {"when": {"told": 1}}, 0.0, 0),  # it joins while the text streams
        ("steer", {"at": 2.0}, 5.0, 1),  # it joined before the text began
        ("queue", {"when": {"told": 1}}, 0.0, 1),  # it comes while the text streams, and waits for the next turn
    ],
)
def test_a_copy_is_a_text_of_its_own_only_behind_what_joined_while_the_text_streamed(
    busy: str, second: Json, wait: float, faults: int
) -> None:
    broken, texts = looked(
        {"do": "hear", "at": 1.0, "room": 0, "mark": "q1"},
        {"do": "hear", "room": 0, "mark": "q2", **second},
        {"do": "script", "room": 0, "n": 0, "steps": [{"wait": wait}, {"say": 0, "again": "another id"}]},
        sql="SELECT count(*) FROM entry WHERE role = 'agent' AND text LIKE 'About N0, say0: %' AND NOT partial",
        agent={"name": "semel-demo", "slow": 5.0}, busy=busy, unfolded=True,
    )  # fmt: skip
    assert texts == [(2,)]
    assert len(broken) == faults and all("stands 2 times" in one for one in broken)


def answered(*texts: str) -> Prompted:
    return Prompted(0, 1, "s", ["q1"], False, False, 0.0, told=[Told(text, "block") for text in texts])


def history(*lines: str) -> list[Json]:
    return [{"type": "text", "text": "\n".join([past.HEAD, *lines, "[/semel]"])}]


@pytest.mark.parametrize(
    ("lines", "faults"),
    [
        (("agent: All of it.",), 0),
        (("agent (cut off there): All", "agent: All of it."), 1),
        (("agent (cut off there): All of it.", "agent: All of it."), 1),
        (("agent: All", "agent: All of it."), 1),
        (("agent: Ha.", "agent: Ha."), 0),
        (("agent: Ha.", "agent: Ha.", "agent (cut off there): H"), 1),
        (("agent (cut off there): A", "agent: All of it."), 0),
        (("agent (cut off there): All", "agent (cut off there): All of"), 0),
    ],
)
def test_a_history_tells_each_text_as_often_as_one_answer_said_it(lines: tuple[str, ...], faults: int) -> None:
    """A beginning counts to the text it is of, where that is certain."""
    prompts = [answered("All of it."), answered("Ha.", "Ha."), answered("Another.")]
    assert len([*past.misplaced(history(*lines), prompts, {})]) == faults


@pytest.mark.parametrize(("marks", "faults"), [(["q1", "q2"], 0), (["q1"], 1)])
def test_what_a_retry_says_once_more_is_a_text_of_its_own_if_a_prompt_had_joined(marks: list[str], faults: int) -> None:
    """The lost attempt died before it was given the prompt that joined it: only the retry has its mark."""
    prompts = [answered("Ha.", "Ho."), replace(answered("Ha."), n=1, spawn=2, marks=marks)]
    assert len([*past.misplaced(history("agent: Ha.", "agent: Ho.", "agent: Ha."), prompts, {})]) == faults


def test_what_an_answer_says_twice_is_no_copy_too_many_where_it_was_begun_anew() -> None:
    once, twice = answered("Ha."), answered("Ha.", "Ha.")
    twice.told[1].repeated = True
    assert count_copies([once, once], "Ha.") == 1
    assert count_copies([once, twice], " Ha. ") == count_copies([twice], "Ha.") == 2


@pytest.mark.parametrize(("joined", "rest"), [(5, ["And more."]), (4, []), (None, [])])
def test_what_goes_on_behind_an_echo_is_a_text_of_its_own_if_a_prompt_cut_that_off(
    joined: int | None, rest: list[str]
) -> None:
    echo = {"id": 5, "turn": 1, "how": "block", "outcome": "echo", "text": "Ha. "}
    said = {"id": 6, "turn": 1, "how": "block", "outcome": "said", "text": "And"}
    told = ["Ha.", "Ha. ", "Ha. And more.", "And more besides."]
    assert words.told_behind_echoes([echo, said], {1: {"joined": joined}}, told) == rest


@pytest.mark.parametrize(("cancelled", "evidence_row", "faults"), [
    ("q1", 4, 1),  # the neighbour of the prompt that was cancelled
    ("q2", 4, 0),
    ("q1", 5, 0),  # somebody stopped its turn
])  # fmt: skip
def test_a_message_that_is_withdrawn_beside_a_cancelled_prompt_is_a_broken_promise(
    cancelled: str, evidence_row: int, faults: int
) -> None:
    prompt = SimpleNamespace(mark=cancelled, is_cancelled=True)
    editor: Any = SimpleNamespace(connections=[SimpleNamespace(prompts={1: prompt})])
    turn = {"session": 1, "evidence": "stopped", "evidence_row": evidence_row}
    event = {"id": 7, "key": "mail-q2", "turn": 2, "payload": '{"text": "please look at q2 now"}'}
    entries = [{"session": 1, "seq": 4, "event": 7}, {"session": 1, "seq": 5, "event": None}]
    rows: Any = SimpleNamespace(events=[event, {**event, "id": 8, "turn": None}], turns={2: turn}, entries=entries)
    assert len([*editor_judge.withdrawn([editor], rows)]) == faults
