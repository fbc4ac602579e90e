"""The cases of a behaviour: it alone, and then with a death, a stop or a message behind each update."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from proof.agents.measured import BEHAVIOURS, dashed
from proof.schedules.plan import CHANNELS, Plan
from proof.schedules.run import Folder, Verdict, run

Json = dict[str, Any]

ROOMS = ("chat", "mail", "hook", "web")
KINDS = ("alone", "agent", "gateway", "stop", "message")
"""What happens behind an update; "alone": nothing."""
ASKED, ASKED_AGAIN = 1.0, 400.0  # virtual seconds; the second time behind everything that a first turn can take
MOST_UPDATES = 60
SEED = 7

NOWHERE = dict.fromkeys(CHANNELS, False)
AGENT: Json = {
    "name": "", "memory": "loaded", "holds": "whole", "replays": "at once", "repeats": True, "slow": 0.02,
    "deaf": False, "insists": False,
}  # fmt: skip
WORLD: Json = {
    "narration": "last", "forgets": NOWHERE, "echoes": NOWHERE, "streams": NOWHERE, "max_len": None, "busy": "queue",
    "idle": 600.0, "most": 2, "side": False, "heartbeat": False, "deadline": 60.0,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One run. `n`: behind which update (from 1) it happens."""

    behaviour: str
    room: str
    kind: str = "alone"
    n: int = 0

    def __str__(self) -> str:
        what = "" if self.kind == "alone" else f", {self.kind} behind update {self.n}"
        return f"{self.behaviour} ({self.room}){what}"

    @property
    def options(self) -> str:
        """What runs it again."""
        behind = "" if self.kind == "alone" else f" --n {self.n}"
        return f"--behaviour {dashed(self.behaviour)} --room {self.room} --kind {self.kind}{behind}"


def plan_of(case: Case) -> Plan:
    """What happens in it."""
    behaviour = BEHAVIOURS[case.behaviour]
    agent: Json = {**AGENT, **behaviour.agent}
    used = [one for one in behaviour.actions if one.get("channel") in (None, case.room)]
    world = {**WORLD, **behaviour.world, "rooms": [case.room]}
    actions: list[Json] = [
        {"do": "say", "at": ASKED, "room": 0, "mark": "q1"},
        {"do": "say", "at": ASKED_AGAIN, "room": 0, "mark": "q2"},
        {"do": "script", "room": 0, "n": 0, "steps": list(behaviour.steps)},
        {"do": "script", "room": 0, "n": 1, "steps": list(behaviour.later)},
        *used,
    ]
    behind = {"told": case.n, "then": 0.0, "until": ASKED_AGAIN - 1}
    match case.kind:
        case "agent":
            agent["deaths"] = [case.n]
        case "gateway":
            actions.append({"do": "crash", "when": {"told": case.n}, "down": 1.0})
        case "stop":
            actions.append({"do": "stop", "when": behind, "room": 0})
        case "message":
            actions.append({"do": "say", "when": behind, "room": 0, "mark": "q3", "busy": "steer"})
    return Plan(SEED, {**world, "agent": agent}, tuple(actions))


def cases_of(behaviour: str, number: int) -> Iterator[Case]:
    """It alone, and what happens behind each update that it can tell. Rooms take turns."""
    rooms = BEHAVIOURS[behaviour].rooms
    yield Case(behaviour, rooms[number % len(rooms)])
    for n in range(1, MOST_UPDATES + 1):
        for kind in KINDS[1:]:
            yield Case(behaviour, rooms[(number + n) % len(rooms)], kind, n)


def run_case(case: Case, folder: Folder, told: Any = None) -> Verdict:
    return run(plan_of(case), folder, told)
