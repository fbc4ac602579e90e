"""Ways that the plans promise to reach, counted: a check that nothing came to has proven nothing.

Each run counts how often it came each way, from the ledger and from what agents know. A run over as many seeds as the
quick one fails where it never came one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proof.schedules.world import World

IN_LEDGER = {
    "finished from a history": "SELECT count(*) FROM turn WHERE how = 'recall' AND state = 'done'",
    "asked to go on": "SELECT count(*) FROM turn WHERE how = 'resume' AND state = 'done'",
    "asked anew": "SELECT count(*) FROM turn WHERE how = 'restart' AND state = 'done'",
    "given up": "SELECT count(*) FROM turn WHERE state = 'failed' AND attempt > 1",
    "cut off, and marked partial": "SELECT count(*) FROM entry WHERE partial = 1",
    "cut off, and said anew": "SELECT count(*) FROM entry WHERE superseded = 1",
    "known from a history alone": "SELECT count(*) FROM claim WHERE how = 'recovery' AND dest IS NOT NULL",
    "an echo": "SELECT count(*) FROM claim WHERE outcome = 'echo'",
    "said anew, and once more": (
        "SELECT count(*) FROM (SELECT 1 FROM claim c JOIN turn t ON t.id = c.turn WHERE t.how = 'restart' "
        "AND c.how = 'block' GROUP BY c.turn, c.dest, c.digest HAVING sum(outcome = 'echo') AND sum(outcome = 'said'))"
    ),
    "joined a running turn": "SELECT count(*) FROM turn WHERE joined IS NOT NULL",
    "held, and sent once more": "SELECT count(*) FROM part WHERE marked = 1",
    "ended by a notice": "SELECT count(*) FROM turn WHERE evidence = 'notice'",
    "ended by an echo": "SELECT count(*) FROM turn WHERE evidence = 'echo'",
    "stopped where it was asked": "SELECT count(*) FROM turn WHERE evidence = 'stopped'",
}
"""What the plans promise -> how often the ledger of a run has it."""


def count(world: World) -> dict[str, int]:
    """How often one run came each way."""
    found = {way: int(next(iter(world.look.execute(sql)))[0]) for way, sql in IN_LEDGER.items()}
    recalled = {root for (root,) in world.look.execute("SELECT root FROM turn WHERE how = 'recall'")}
    for way, n in (*_of_agents(world, recalled), *_of_editors(world)):
        found[way] = found.get(way, 0) + n
    return found


def _of_editors(world: World) -> Iterator[tuple[str, int]]:
    prompts = [prompt for editor in world.editors.all for one in editor.connections for prompt in one.prompts.values()]
    if world.editors.all:
        yield "cancelled in an editor, and never sent", sum(prompt.is_discarded for prompt in prompts)
        yield "cancelled in an editor without a prompt of its own", len(_stopped_for_others(world))
        yield "cancelled in an editor, and stopped", sum(prompt.is_cancelled and prompt.left for prompt in prompts)


def _stopped_for_others(world: World) -> set[int]:
    """The turns of others that editors stopped."""
    meant = {root for editor in world.editors.all for one in editor.connections for root in one.cancelled_roots}
    names = {editor.profile.name for editor in world.editors.all}
    notices = world.look.execute(
        "SELECT t.root, n.text FROM entry n JOIN turn t ON t.id = n.turn WHERE role = 'notice'"
    )
    return {root for root, text in notices if root in meant and text in {f"Stopped by {name}." for name in names}}


def _of_agents(world: World, recalled: set[int]) -> Iterator[tuple[str, int]]:
    prompts = world.disk.prompts
    marks = [mark for one in prompts for told in one.told if told.unmarked and told.kept for mark in one.marks]
    roots = {
        root
        for mark in marks
        for (root,) in world.look.execute(
            "SELECT t.root FROM event e JOIN hearing h ON h.event = e.id JOIN turn t ON t.id = h.turn "
            "WHERE instr(e.payload, ?)", (f" {mark} ",)
        )
    }  # fmt: skip
    yield "finished from a history, behind an unmarked retry", len(roots & recalled)
    yield "went on without a word", sum(one.resumes and one.end == "end_turn" and not one.told for one in prompts)


def never_reached(ways: Mapping[str, int], seeds: int) -> Iterator[str]:
    """One line for each way that no seed came."""
    for way, n in ways.items():
        if not n:
            yield f"the plans promise to come to {way!r}, and none of {seeds:,} seeds did: nothing was checked there"


def told(ways: Counter[str]) -> str:
    """In a few words: how many were reached, and the rarest of them."""
    rare = sorted(ways.items(), key=lambda one: one[1])[:3]
    return f"{sum(n > 0 for n in ways.values())} of {len(ways)} ({', '.join(f'{n} {way}' for way, n in rare)})"
