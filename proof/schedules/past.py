"""What an agent without memory is told of the conversation so far, held against what agents said (Law 4).

A prompt's history is in order of turns: what each was asked, then what it said. It tells no text twice: what a lost
attempt had begun to say is left out where it was said in full since.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proof.schedules.told import Prompted

Json = dict[str, Any]
HEAD = "[semel: this conversation so far"
LINE = re.compile(r"^(user|agent)( \(cut off there\))?: (.*)$", re.M)
LATE = ("after", "insist")
"""Told behind an answer: it may be the next turn's."""
MARK = re.compile(r"\bq\d+\b")


def misplaced(content: Sequence[Json], prompts: Sequence[Prompted], roots: Mapping[str, int]) -> Iterator[str]:
    """What is wrong with the histories in a prompt. `roots`: each mark to the turn that it is bound to."""
    for block in content:
        text = str(block.get("text", ""))
        if text.startswith(HEAD):
            yield from _out_of_order(LINE.findall(text), prompts, roots)
            yield from _told_twice(LINE.findall(text))


def _out_of_order(
    lines: list[tuple[str, str, str]], prompts: Sequence[Prompted], roots: Mapping[str, int]
) -> Iterator[str]:
    before, newest = "", (0, 0)
    for role, _, text in lines:
        mark = next(iter(MARK.findall(text)), None) if role == "user" else _asked_by(text, prompts)
        if mark not in roots:
            continue
        place = (roots[mark], int(role == "agent"))
        if place < newest:
            yield f"law 4: an agent is told {text!r} behind {before!r}: that is no order of turns"
        before, newest = text, max(newest, place)


def _asked_by(text: str, prompts: Sequence[Prompted]) -> str | None:
    """What was asked when an agent said this; None: more than one question was answered in these words."""
    asked = [one for one in prompts if one.marks]
    marks = {one.marks[0] for one in asked for told in one.told if told.text == text and told.how not in LATE}
    return marks.pop() if len(marks) == 1 else None


def _told_twice(lines: list[tuple[str, str, str]]) -> Iterator[str]:
    said = [text for role, _, text in lines if role == "agent"]
    for role, cut, text in lines:
        whole = next((one for one in said if one != text and one.startswith(text)), None)
        if role == "agent" and cut and whole is not None:
            yield f"law 4: an agent is told {text!r}, where it was cut off, and {whole!r} as well"
