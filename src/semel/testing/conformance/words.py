"""Texts that are known again, whatever a platform puts around them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence


class Words:
    """Numbered texts of one run, such as "k3f9a2c1 17"."""

    def __init__(self, letter: str) -> None:
        self.token = f"{letter}{secrets.token_hex(4)}"
        self._found = re.compile(rf"{self.token} \d+(?!\d)")
        self._next = 0

    def __repr__(self) -> str:
        return f"<Words {self.token}, {self._next} of them>"

    def new(self) -> str:
        """The next of them."""
        self._next += 1
        return f"{self.token} {self._next}"

    def some(self, count: int) -> list[str]:
        return [self.new() for _ in range(count)]

    def among(self, texts: Iterable[str]) -> Sequence[str]:
        """Those of ours that stand in these texts, in their order; one for each text that has any."""
        return [found[0] for text in texts if (found := self._found.search(text))]
