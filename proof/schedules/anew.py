"""Answers that are begun anew, and odd ones, by agents that keep nothing of what they said (Laws 4, 5, 6 and 12).

An agent dies behind a text that nobody may lose, and is asked once more: it says that text again, and once more behind
a tool call, in the same words. The first of these is the copy of what was said before, the second is an utterance of
its own. The next question comes to a process that knows nothing, so its prompt tells what was said, each text once.
"""

from __future__ import annotations

import random
from typing import Any

Json = dict[str, Any]
SHARE = 0.2  # of the plans whose agents load no memory
IDLE_S = 0.5  # its process is ended so soon: the next one is told of the past


def add_repeats(chance: random.Random, shape: Json, actions: list[Json]) -> None:
    """In a share of the plans: agents without memory, which die in their answers and repeat themselves honestly."""
    agent = shape["agent"]
    if "asked on" in agent or chance.random() > SHARE:
        return
    agent |= {"memory": "new", "repeats": True}
    shape["idle"] = IDLE_S
    for script in [one for one in actions if one["do"] == "script"]:
        if chance.random() < 0.7:
            script["steps"] = _cut_off(chance) if chance.random() < 0.4 else _repeated(chance)
    for _ in range(chance.choice((0, 1, 2))):
        when = {"told": chance.randint(1, 30)}
        actions.append({"do": "crash", "when": when, "down": round(0.5 + chance.random(), 3)})


def add_odd_answers(chance: random.Random, shape: Json, actions: list[Json]) -> None:
    """In a few scripts: an answer of which nothing is seen, and one that stands in a block which is never closed. What
    stands in a block is read where there is another place to write to."""
    if shape["agent"]["memory"] != "new":
        return
    odd: list[Json] = [{"unseen": 0}, *([{"unclosed": 0}] if shape["side"] else [])]
    for script in [one for one in actions if one["do"] == "script"]:
        if chance.random() < 0.08:
            script["steps"] = [chance.choice(odd)]


def _cut_off(chance: random.Random) -> list[Json]:
    """It says one text to its end, perhaps another, and dies."""
    more = [{"say": 1}] if chance.random() < 0.7 else []
    return [{"say": 0}, *more, {"die": "was killed by SIGKILL"}]


def _repeated(chance: random.Random) -> list[Json]:
    more = [{"say": 1}] if chance.random() < 0.5 else []
    return [{"say": 0}, *more, {"tool": 9}, {"say": 0, "repeated": True}]
