"""A machine that counts: how many lives it had, how many steps they took."""

from __future__ import annotations

from typing import ClassVar

from hypothesis.stateful import RuleBasedStateMachine, invariant


class Counted(RuleBasedStateMachine):
    """`lives` and `steps` of all machines of this process; whoever runs them sets them back."""

    lives: ClassVar[int] = 0
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        Counted.lives += 1

    @invariant()
    def count(self) -> None:
        Counted.steps += 1
