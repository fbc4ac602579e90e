"""The emoji with which people answer a request or a question where a reaction to its message is a button.

An emoji stands for an option only on the message that offers it, so it cannot answer another request (Law 13).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MAX_OFFERED = 10
"""How many emoji are offered under one message: each is a reaction that is sent."""
STYLE_EMOJI = {"allow": "✅", "deny": "❌"}
OTHER_EMOJI = "🔵🟡🟣🟠🟤⚪⚫🔶🔷⭐"  # none that is green or red: those would look like yes and no
NUMBER_EMOJI = (*(f"{n}\ufe0f\u20e3" for n in range(1, 10)), "🔟")
_VARIATION_SELECTOR = "\ufe0f"  # whether one follows an emoji depends on the client


def choose_for_request(buttons: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return an emoji of its own for each button of a permission request; () if there are too many buttons.

    It has no number emoji: its options are numbered on from those of the session's earlier requests.
    """
    if len(buttons) > MAX_OFFERED:
        return ()
    free, emoji = dict(STYLE_EMOJI), []
    others = iter(OTHER_EMOJI)
    for button in buttons:
        emoji.append(free.pop(str(button.get("style")), "") or next(others))
    return tuple(emoji)


def choose_for_question(buttons: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the number of each option of a question as an emoji; () if there are too many options."""
    return NUMBER_EMOJI[: len(buttons)] if len(buttons) <= MAX_OFFERED else ()


def is_same_emoji(one: str, other: str) -> bool:
    """Return whether two reactions are the same emoji."""
    return one.replace(_VARIATION_SELECTOR, "") == other.replace(_VARIATION_SELECTOR, "")


def is_number(emoji: str) -> bool:
    """Return whether a reaction is one of those that stand for the options of a question."""
    return any(is_same_emoji(number, emoji) for number in NUMBER_EMOJI)
