"""What happens to a message that waits, in words: the same on the command line, in the terminal and on the page."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any

from semel.law.busy import Busy

Json = dict[str, Any]

DOES: dict[Busy, str] = {
    "queue": "a message waits; the next turn takes all that waits, in order",
    "steer": "a message joins the running turn, if its agent reads a second one; else it waits",
    "interrupt": "a message stops the running turn; the next one takes it",
    "collect": "a message waits until nothing more comes; then one turn takes it all",
}
"""What each mode is, for who chooses one. docs/busy.md says more."""

FATES = {
    "queue": "queued",
    "steer": "joins the running turn",
    "interrupt": "interrupts the running turn",
    "collect": "collecting",
}
UNTIL = {"collect": "the agent is asked when nothing more comes"}


def fate(mode: str, place: int | None = None) -> str:
    """`place`: in the line of what waits, from 1."""
    words = FATES.get(mode, mode)
    return f"{words}, {ordinal(place)} in line" if mode == "queue" and place else words


def told(heard: Json) -> str:
    """What became of a message, from the answer to it; empty where it did not wait."""
    if "waiting" not in heard:
        return ""
    why = heard.get("why") or UNTIL.get(heard["waiting"])
    return fate(heard["waiting"], heard.get("place")) + (f": {why}" if why else "")


def line(entries: Iterable[Json]) -> dict[int, int]:
    """The place in the line of each entry that waits, by its seq. The line is in the order of the view."""
    waiting = sorted((entry for entry in entries if entry.get("waiting")), key=lambda entry: int(entry["born"]))
    return {int(entry["seq"]): place for place, entry in enumerate(waiting, 1)}


def soon(at: float) -> str:
    """How long until then (ms since the epoch), for a person who waits."""
    seconds = math.ceil(at / 1000 - time.time())
    if seconds <= 0:
        return "now"
    return f"in {seconds} s" if seconds < 120 else f"in {math.ceil(seconds / 60)} min"


def ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
