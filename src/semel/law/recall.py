"""Does an agent's history hold the complete answer of an interrupted turn (Law 9)?

A history tells messages, tool calls and rows that no person wrote, but not whether a turn had ended. An answer
counts as complete only if it stands behind the prompt of the turn, is the last thing there, and no tool call
between is open. Text that was cut off by a death is in no agent's history, so what is there was said in full.

A history may also end *before* the interrupted turn, since many agents save a prompt only with its answer: then its
last prompt is an earlier turn's. A short message ("yes") may stand in that one, too, or be the same; taking its answer
would lose the message and say the old answer twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from semel.law.stream import Item
from semel.law.verbatim import normal


def answer(items: Sequence[Item], asked: Sequence[str], before: Sequence[tuple[str, str]] = ()) -> list[Item] | None:
    """The agent's messages of the interrupted turn, or None if its answer is not there or not complete.

    `before`: (role, text) of what was recorded before this turn.
    """
    past = [i for i in items if i.fields.get("history")]
    at = _prompt(past, asked)
    if at is None:
        return None
    after = [i for i in past[at + 1 :] if i.kind in ("message", "tool")]
    if not after or not _is_answer(after[-1]):
        return None
    if any(i.kind == "tool" and i.fields.get("status") in ("pending", "running") for i in after):
        return None
    if any(i.kind == "message" and i.fields.get("role") == "user" for i in after):
        return None
    found = [i for i in after if _is_answer(i)]
    return None if _is_earlier(past[at], found, normal(asked[-1]), before) else found


def _is_earlier(prompt: Item, found: Sequence[Item], wanted: str, before: Sequence[tuple[str, str]]) -> bool:
    """The prompt that was found may be an earlier turn's: it holds what that one asked, and no less."""
    held = normal(prompt.text)
    asked = {normal(text) for role, text in before if role in ("user", "event")}
    rivals = {text for text in asked if text in held and len(text) >= len(wanted)}
    if rivals - {wanted}:
        return True
    said = {normal(text) for role, text in before if role == "agent"}
    return wanted in rivals and normal(found[-1].text) in said


def _is_answer(item: Item) -> bool:
    return item.kind == "message" and item.fields.get("role") == "agent" and bool(item.text.strip())


def _prompt(past: Sequence[Item], asked: Sequence[str]) -> int | None:
    """Where the turn's prompt stands: the last user message that holds the last thing asked."""
    if not asked:
        return None
    wanted = normal(asked[-1])
    for n in range(len(past) - 1, -1, -1):
        item = past[n]
        if item.kind == "message" and item.fields.get("role") == "user":
            return n if wanted and wanted in normal(item.text) else None
    return None
