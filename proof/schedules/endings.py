"""Deaths around the end of an answer, under agents that load what they remember (Law 9).

A turn is finished from its agent's memory only if that marks its end and nobody heard of it. So the plan lets an agent
die, or its gateway, at each step of an answer and just behind it; a process may outlive its gateway and bring its turn
to an end that its memory has and no ledger. Some agents mark the end, the others do not: those are asked to go on, and
say more or end without a word.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from proof.schedules.memories import MARKING_AGENT

Json = dict[str, Any]
SHARE = 0.3  # of the plans
RETRYING = ("gemini", "opencode")  # agents that tell a broken text again by a sign of their own


def add_deaths(chance: random.Random, shape: Json, actions: list[Json]) -> None:
    """In a share of the plans: agents that load their memory, and deaths close to the ends of their answers."""
    if chance.random() > SHARE:
        return
    agent = shape["agent"]
    agent["memory"] = "loaded"
    agent["asked on"] = chance.choice(("goes on", "silent", "silent"))
    if agent["name"] not in RETRYING:
        agent["name"] = chance.choice((MARKING_AGENT, MARKING_AGENT, MARKING_AGENT, ""))
    for script in [one for one in actions if one["do"] == "script"]:
        _end_in_death(chance, script["steps"], agent["name"])
    for _ in range(chance.choice((0, 1, 2))):
        when = {"retold": chance.randint(1, 8), "then": round(0.02 * chance.random(), 4), "until": 12.0}
        away = round(chance.choice((0.05, 0.5, 2.0)) * chance.random(), 3)
        actions.append({"do": "blink", "room": chance.randrange(len(shape["rooms"])), "when": when, "for": away})
    for _ in range(chance.choice((1, 1, 2))):
        actions.append(
            {"do": "crash", "when": _moment(chance), "down": round(0.5 + 2 * chance.random(), 3),
             "finishes": chance.random() < 0.7}
        )  # fmt: skip


def _end_in_death(chance: random.Random, steps: list[Json], name: str) -> None:
    if chance.random() < 0.25:
        steps.append({"broken": 7})
    if chance.random() < 0.2 and not any("after" in step for step in steps):
        steps.append({"die": "was killed by SIGKILL", "ended": True})
    elif chance.random() < 0.15:
        steps.insert(chance.randint(0, len(steps)), {"die": "was killed by SIGKILL"})


def _moment(chance: random.Random) -> Json:
    """Within an answer, at its end, or where its prompt was just written."""
    pick: Callable[[], Json] = chance.choice(
        (
            lambda: {"told": chance.randint(1, 30)},
            lambda: {"told": chance.randint(1, 30)},
            lambda: {"retold": chance.randint(1, 8)},
            lambda: {"answer": chance.randint(1, 4)},
            lambda: {"prompt": chance.randint(0, 4)},
        )
    )
    return pick()
