"""Texts that tell a person what happens to a message while its session is busy.

The CLI and the terminal use them; the web page has the same texts in web/src/busy_texts.ts. The gateway's answer and
the entries hold only the busy mode (`semel.law.wake`), the place in the queue and the reason.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from semel.faces.api_types import Accepted
from semel.law.wake import Busy
from semel.text.json_types import Json

MODE_DESCRIPTIONS: dict[Busy, str] = {
    "queue": "a message waits; the next turn takes all that waits, in order",
    "steer": "a message joins the running turn, if its agent reads a second one; else it waits",
    "interrupt": "a message stops the running turn; the next one takes it",
    "collect": "a message waits until nothing more comes; then one turn takes it all",
}
"""Each busy mode in one sentence, for the person who chooses one. Details: docs/busy.md."""

WAITING_LABELS = {
    "queue": "queued",
    "steer": "joins the running turn",
    "interrupt": "interrupts the running turn",
    "collect": "collecting",
}
SILENCE_S = 30.0
"""After how many seconds without any change a person is told that the agent is silent."""
WAITING_REASONS = {"collect": "the agent is asked when nothing more comes"}


def format_waiting_state(mode: str, place: int | None = None) -> str:
    """Say how a message waits, like "queued, 2nd in line". `place`: its place in the session's queue, from 1."""
    label = WAITING_LABELS.get(mode, mode)
    return f"{label}, {format_ordinal(place)} in line" if mode == "queue" and place else label


def describe_waiting(accepted: Accepted) -> str:
    """Say how a message waits and why, from the gateway's answer to it. Returns "" if it did not have to wait."""
    if accepted.waiting is None:
        return ""
    reason = accepted.why or WAITING_REASONS.get(accepted.waiting)
    return format_waiting_state(accepted.waiting, accepted.place) + (f": {reason}" if reason else "")


def number_waiting(entries: Iterable[Json]) -> dict[int, int]:
    """Map the seq of each waiting entry to its place in the queue, counted from 1 in the order of the view."""
    waiting = sorted((entry for entry in entries if entry.get("waiting")), key=lambda entry: int(entry["born"]))
    return {int(entry["seq"]): place for place, entry in enumerate(waiting, 1)}


def format_time_left(at: float) -> str:
    """Format the time left until `at` (ms since the epoch): "now", "in 40 s", "in 3 min"."""
    seconds = math.ceil(at / 1000 - time.time())
    if seconds <= 0:
        return "now"
    return f"in {seconds} s" if seconds < 120 else f"in {math.ceil(seconds / 60)} min"


def describe_silence(seconds: float) -> str:
    """Say for how long the agent of a running turn has been silent. Returns "" for less than SILENCE_S."""
    if seconds < SILENCE_S:
        return ""
    return f"nothing new for {seconds:.0f} s" if seconds < 120 else f"nothing new for {seconds / 60:.0f} min"


def format_ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
