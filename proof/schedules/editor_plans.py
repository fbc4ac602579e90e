"""Plans with editors: the seeds from EDITOR_SEEDS on. The plans of all seeds below stay as they were.

shape["editors"]: [{"room", "client"}]                one editor or two, in one room or in two
{"do": "prompt", "at", "editor", "mark"}              its person asks the agent
{"do": "cancel", "at", "editor"}                      they cancel, several times; now and then right behind a prompt,
                                                      while no prompt of theirs is open, or no gateway runs
{"do": "choose", "editor", "n", "option", "in"}       they answer the n-th request for permission they are asked
{"do": "reopen", "at", "editor", "how"}               `semel acp` is killed and started again; the session is loaded
                                                      or resumed, or a prompt is sent without either
{"do": "stall", "at", "editor", "for"}                the editor reads nothing for so long
"""

from __future__ import annotations

import random
from typing import Any

Json = dict[str, Any]
EDITOR_SEEDS = 1_000_000
CLIENTS = ("zed", "zed", "agent-shell", "agent-shell", "toad", "acpx", "CodeCompanion.nvim", "unheard-of")
FIRST_MARK = 500  # of the prompts of editors: no other message has such a number


def add_editors(chance: random.Random, shape: Json, actions: list[Json], span: float) -> list[Json]:
    """Add editors to a plan's shape. Return what their people do."""
    rooms = range(len(shape["rooms"]))
    shape["editors"] = [
        {"room": chance.choice(rooms), "client": chance.choice(CLIENTS)} for _ in range(chance.choice((1, 1, 2)))
    ]
    shape["deadline"] = chance.choice((2.0, 60.0, 60.0))
    _ask_for_permission(chance, actions)
    marks = iter(range(FIRST_MARK, FIRST_MARK + 100))

    def at() -> float:
        return round(chance.random() * span, 3)

    out: list[Json] = []
    for n in range(len(shape["editors"])):
        out += [
            {"do": "prompt", "at": at(), "editor": n, "mark": f"q{next(marks)}"} for _ in range(chance.randint(2, 4))
        ]
        out += [{"do": "cancel", "at": at(), "editor": n} for _ in range(chance.choice((0, 0, 0, 1)))]
        out += [
            {"do": "reopen", "at": at(), "editor": n, "how": chance.choice(("load", "load", "resume", "prompt"))}
            for _ in range(chance.choice((0, 0, 1, 1, 2)))
        ]
        out += [
            {"do": "stall", "at": at(), "editor": n, "for": round(5 * chance.random(), 3)}
            for _ in range(chance.choice((0, 0, 1)))
        ]
        out += [
            {"do": "choose", "editor": n, "n": k, "option": chance.choice(("once", "no")),
             "in": chance.choice((0.0, 0.3, 1.9, 1.0 + chance.random()))}
            for k in range(4) if chance.random() < 0.7
        ]  # fmt: skip
    crashes = [one["when"]["at"] for one in actions if one["do"] == "crash" and "at" in one["when"]]
    cancelled = {one["editor"] for one in out if one["do"] == "cancel"}
    for n in sorted(set(range(len(shape["editors"]))) - cancelled):
        begun = chance.choice([at(), *(round(crash + 0.3 * chance.random(), 3) for crash in crashes)])
        if chance.random() < 0.7:
            out.append({"do": "prompt", "at": begun, "editor": n, "mark": f"q{next(marks)}"})
            out.append({"do": "cancel", "at": round(begun + chance.choice((0.0, 0.01, 0.3)), 3), "editor": n})
    return out


def add_cancels(chance: random.Random, shape: Json, actions: list[Json], span: float) -> list[Json]:
    """More cancels: at any time, about what others say, and while the gateway is away, as it may come back to another
    turn. Return them."""
    said = [one["at"] for one in actions if one["do"] in ("say", "hear") and "at" in one]
    crashes = [one["when"]["at"] for one in actions if one["do"] == "crash" and "at" in one["when"]]

    def at() -> float:
        begun = chance.choice((chance.random() * span, *chance.sample(said, min(2, len(said))), *crashes))
        return round(begun + chance.choice((0.0, 0.1, 0.7, 1.5 * chance.random())), 3)

    editors = range(len(shape["editors"]))
    return [{"do": "cancel", "at": at(), "editor": n} for n in editors for _ in range(chance.choice((0, 1, 2, 4)))]


def _ask_for_permission(chance: random.Random, actions: list[Json]) -> None:
    """Agents ask in some more of their scripts."""
    for script in [one for one in actions if one["do"] == "script"]:
        for k in range(chance.choice((0, 0, 1))):
            script["steps"].insert(chance.randint(0, len(script["steps"])), {"permit": 10 + k})
