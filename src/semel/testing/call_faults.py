"""What goes wrong with the calls of a double's interface."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar


@dataclass
class CallFault:
    """What goes wrong with calls of this name ("*": any). `how`: one of `HOWS`, which the double explains.

    `after`: the call takes effect before it fails. `times`: how many calls fail; None: all.
    """

    HOWS: ClassVar[Collection[str]] = ()
    call: str
    how: str
    after: bool = False
    times: int | None = 1

    def __post_init__(self) -> None:
        if self.how not in self.HOWS:
            raise ValueError(f"how is {self.how!r}, and should be one of {', '.join(self.HOWS)}")

    def fits(self, call: str) -> bool:
        """Return whether it strikes a call of this name. The call counts against `times`."""
        if self.call not in ("*", call) or self.times == 0:
            return False
        if self.times is not None:
            self.times -= 1
        return True
