"""A block: a message or a thought while it grows, and what is being compared with it."""

from __future__ import annotations

from typing import Any

from .evidence import Cursor, telling
from .ops import Changed, Ended, Node, Op

MESSAGE = "message"
THOUGHT = "thought"


class Block(Node):
    """A message or thought that grows."""

    __slots__ = ("again", "alert", "break_", "calm", "first", "mid", "origin", "rivals", "sealed", "section", "size")

    def __init__(self, id: int, kind: str, fields: dict[str, Any], mid: str | None) -> None:
        super().__init__(id, kind, fields)
        self.mid = mid
        self.size = 0
        self.first = 0  # the size of the first chunk
        self.sealed = False  # it is known to have been streamed to its end
        self.section: list[str] | None = None  # a thought's pieces since the last one of white space only
        self.alert: frozenset[str] = frozenset()  # a chunk that starts so is looked at closely
        self.calm = True  # nothing is being compared: chunks are plain concatenation
        self.break_ = False  # an empty chunk came: a paragraph ended
        self.again: Cursor | None = None  # follows this block's own text from `origin` on
        self.origin = 0
        self.rivals: list[tuple[Block, Cursor]] = []  # earlier blocks that this one may be a further attempt at

    @property
    def superseded(self) -> bool:
        return bool(self.fields.get("superseded"))

    @property
    def streamed(self) -> bool:
        """Did it come in more than one chunk?"""
        return self.size > self.first

    def append(self, text: str) -> None:
        if not self.size:
            self.first = len(text)
        self.pieces.append(text)
        self.size += len(text)
        if self.kind == THOUGHT:
            if text.isspace() and "\n" in text:
                self.section = []
            elif self.section is not None:
                self.section.append(text)


def section_again(section: str, pieces: int, rest: str) -> bool:
    """A summary's section came again: the streamed whole of it, or its only piece with more behind it."""
    if pieces > 1:
        return telling(section)
    return len(section) > 1 and bool(rest) and not rest.startswith(section)


def missing_newlines(before: str, after: str) -> int:
    """How many newlines make a paragraph break between the two, where the agent sent only an empty chunk."""
    have = len(before) - len(before.rstrip("\n")) + len(after) - len(after.lstrip("\n"))
    return max(0, 2 - have)


def supersede(block: Block, repeated: bool = False) -> list[Op]:
    """`repeated`: a later block has every character of it."""
    marks = {"superseded": True, "repeated": True} if repeated else {"superseded": True}
    marks = {key: value for key, value in marks.items() if not block.fields.get(key)}
    block.fields.update(marks)
    return [Changed(block.id, marks)] if marks else []


def end(block: Block, **fields: Any) -> list[Op]:
    block.ended = True
    block.fields.update(fields)
    return [Ended(block.id, fields)]
