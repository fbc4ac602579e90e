"""The fewest actions of a plan that still fail: ddmin (Zeller, Hildebrandt 2002), and then one by one."""

from __future__ import annotations

from collections.abc import Callable

from proof.schedules.plan import Plan


def kind(broken: str) -> str:
    """What a violation is about: the same mistake is to be seen in the smaller plan."""
    return broken.split(":")[0].split(" (")[0][:40]


def shrink(plan: Plan, fails: Callable[[Plan], list[str]]) -> tuple[list[int], list[str]]:
    """(numbers of the actions that are kept, what is broken with them). `fails` tells what a plan breaks."""
    first = fails(plan)
    wanted = {kind(one) for one in first}
    best = list(range(len(plan.actions)))
    found = first

    def still(keep: list[int]) -> bool:
        nonlocal found
        broken = fails(plan.only(keep))
        if wanted & {kind(one) for one in broken}:
            found = broken
            return True
        return False

    pieces = 2
    while len(best) > 1:
        size = -(-len(best) // pieces)
        for at in range(0, len(best), size):
            fewer = best[:at] + best[at + size :]
            if still(fewer):
                best, pieces = fewer, max(2, pieces - 1)
                break
        else:
            if size == 1:
                break
            pieces = min(len(best), pieces * 2)
    return best, found
