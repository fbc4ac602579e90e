"""What a person may give a part; what makes no sense is refused in one line that says what would."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


class BadArgument(Exception):
    """The message says what is wrong with what was given, and what to give."""


def whole(least: int = 1, most: int = 1 << 62) -> Callable[[str], int]:
    """A whole number from `least` to `most`, for argparse's `type`."""

    def read(text: str) -> int:
        if text.removeprefix("-").isdecimal() and least <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")

    return read


def above(least: float) -> Callable[[str], float]:
    """A number above `least` that has an end, for argparse's `type`."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if least < number < math.inf:
            return number
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above {least:g}")

    return read
