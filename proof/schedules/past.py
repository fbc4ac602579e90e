"""What an agent without memory is told of the conversation so far, held against what agents said (Law 4).

A prompt's history is in order of turns: what each was asked, then what it said. It tells no text twice: what a lost
attempt had begun to say is left out where it was said in full since.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from proof.schedules.told import Prompted

Json = dict[str, Any]
HEAD = "[semel: this conversation so far"
LINE = re.compile(r"^(user|agent)( \(cut off there\))?: (.*)$", re.M)
LATE = ("after", "insist")
"""Told behind an answer: it may be the next turn's."""
MARK = re.compile(r"\bq\d+\b")


def misplaced(
    content: Sequence[Json], prompts: Sequence[Prompted], roots: Mapping[str, int], refused: Sequence[str] = ()
) -> Iterator[str]:
    """What is wrong with the histories in a prompt. `roots`: each mark to the turn that it is bound to. `refused`: the
    texts that a platform refused."""
    for block in content:
        text = str(block.get("text", ""))
        if text.startswith(HEAD):
            yield from _out_of_order(LINE.findall(text), prompts, roots)
            yield from _told_twice(LINE.findall(text), prompts, refused)


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


def _told_twice(
    lines: list[tuple[str, str, str]], prompts: Sequence[Prompted], refused: Sequence[str]
) -> Iterator[str]:
    """A text that was said to its end, and what an attempt had begun to say of it: no more of them than were said.
    Where each attempt was cut off in it, what each had shown stands. And what an attempt that a later prompt joined
    says once more is no echo of what was said before that, nor of what was refused (Law 5), and nor is a copy."""
    told = [[one.text for one in prompt.told] for prompt in prompts]
    known = {text for texts in told for text in texts}
    said = [text for role, _, text in lines if role == "agent"]
    for whole in dict.fromkeys(text for role, cut, text in lines if role == "agent" and not cut):
        same = [
            text for text in said if text == whole or (whole.startswith(text) and not _is_another(text, whole, known))
        ]
        by = [n for n, texts in enumerate(told) if whole in texts]
        again = sum(told[n].count(whole) for n in by[1:] if _is_joined(prompts[n], prompts))
        joined = [one for n in by if _is_joined(prompts[n], prompts) for one in prompts[n].told]
        again += sum(one.copied and one.text == whole for one in joined)
        if len(same) > max([1, *(texts.count(whole) for texts in told)]) + again + refused.count(whole):
            yield f"law 4: an agent is told {whole!r} {len(same)} times: {same}"


def _is_joined(one: Prompted, prompts: Sequence[Prompted]) -> bool:
    """Whether another prompt joined its turn, behind it or behind that of a lost attempt that it repeats.

    That attempt may have died before it was given the other prompt: then this one alone has the mark of it.
    """
    for same in prompts:
        if same is one or (same.n < one.n and same.marks[:1] == one.marks[:1]):
            behind = [other for other in prompts if other.spawn == same.spawn and other.n > same.n]
            if (behind and behind[0].steered) or not set(one.marks) <= set(same.marks):
                return True
    return False


def _is_another(text: str, whole: str, known: Collection[str]) -> bool:
    """Whether it may be the beginning of what an agent told beside that."""
    return any(one != whole and one.startswith(text) for one in known)
