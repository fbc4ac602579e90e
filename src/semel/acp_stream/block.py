"""A block: a message or thought while it streams in, with the state for detecting re-deliveries of it."""

from __future__ import annotations

from typing import Any

from semel.acp_stream.ops import Changed, Ended, Node, Op
from semel.acp_stream.redelivery import Cursor, is_distinctive, is_glued, is_redelivery

MESSAGE = "message"
THOUGHT = "thought"
MAX_EDGE = 16  # characters of white space at the ends of a thought that a copy of it may lack


class Block(Node):
    """A message or thought that grows."""

    __slots__ = (
        "again", "alert", "blank", "break_", "calm", "first", "held", "leads", "mid", "origin", "rivals", "sealed",
        "section", "size", "whole",
    )  # fmt: skip

    def __init__(self, id: int, kind: str, fields: dict[str, Any], mid: str | None) -> None:
        super().__init__(id, kind, fields)
        self.mid = mid
        self.size = 0
        self.first = 0  # the size of the first chunk
        self.sealed = False  # the agent confirmed that it was streamed to its end
        self.whole = Section()  # a thought's chunks (a message's are not kept)
        self.section = self.whole  # a thought's chunks since the last one of newlines only, or its beginning
        self.leads: frozenset[str] = frozenset()  # chunks with these first characters leave the fast path
        self.alert: frozenset[str] = frozenset()  # `leads`, and the first character of the current section
        self.blank = True  # nothing but white space so far
        self.calm = True  # nothing is being compared: chunks are plain concatenation
        self.break_ = False  # an empty chunk came: a paragraph ended
        self.held: tuple[str, str] | None = None  # (a chunk held back as a probable copy, the new text in it)
        self.again: Cursor | None = None  # follows this block's own text from `origin` on
        self.origin = 0
        self.rivals: list[tuple[Block, Cursor]] = []  # earlier blocks of which this one may be another attempt

    @property
    def superseded(self) -> bool:
        return bool(self.fields.get("superseded"))

    @property
    def streamed(self) -> bool:
        """Whether the text came in more than one chunk."""
        return self.size > self.first

    def append(self, text: str) -> None:
        if not self.size:
            self.first = len(text)
        self.pieces.append(text)
        self.size += len(text)
        if self.kind == THOUGHT:
            self.whole.append(text)
            if text.isspace() and "\n" in text:
                self.section = Section(behind_newlines=True)
            elif self.section is not self.whole:
                self.section.append(text)

    def restart(self, text: str) -> None:
        """Replace the text; forget the chunks it came in."""
        self.pieces, self.size, self.held = ([text] if text else []), len(text), None
        self.whole = self.section = Section()
        if self.kind == THOUGHT and text:
            self.whole.append(text)


class Section:
    """A section of a thought, as the chunks in which it came."""

    __slots__ = ("behind_newlines", "longest", "pieces", "size")

    def __init__(self, behind_newlines: bool = False) -> None:
        self.behind_newlines = behind_newlines
        self.pieces: list[str] = []
        self.size = 0
        self.longest = 0  # characters of its longest chunk

    def append(self, text: str) -> None:
        self.pieces.append(text)
        self.size += len(text)
        self.longest = max(self.longest, len(text))

    def told_again(self, text: str) -> tuple[str, bool] | None:
        """If the chunk `text` repeats this whole section: (its new text, whether its wording alone proves a copy).

        Without that proof, the section must run into the copy inside a word; or it must have come in several chunks and
        be repeated exactly, in one chunk at least twice as long as each of them. White space at the section's ends may
        be missing in the copy, or be newlines there. A section of whole lines does not count: lists repeat lines.
        """
        if not self.pieces or self.size > len(text) + MAX_EDGE:
            return None
        part, copy = "".join(self.pieces), text.lstrip()
        core = part.strip()
        if not core or not copy.startswith(core):
            return None
        known = part.lstrip() if copy.startswith(part.lstrip()) else core
        new = copy[len(known) :] if copy[len(core) :].strip() else ""
        if is_redelivery(part, text):
            return new, True
        if is_glued(part, text):
            return (new, False) if is_distinctive(core) or (new and self.behind_newlines and len(core) > 1) else None
        ends = {part, core, part.lstrip(), part.rstrip()}
        if text not in ends and text.strip("\n") not in {each.strip("\n") for each in ends}:
            return None
        is_lines = part.endswith("\n") and not part.endswith("\n\n")
        return ("", False) if self.size >= 2 * self.longest and is_distinctive(core) and not is_lines else None


def missing_newlines(before: str, after: str) -> int:
    """How many newlines to insert for a paragraph break where the agent sent only an empty chunk."""
    have = len(before) - len(before.rstrip("\n")) + len(after) - len(after.lstrip("\n"))
    return max(0, 2 - have)


def supersede(block: Block, repeated: bool = False) -> list[Op]:
    """Mark the block as an attempt that was replaced. `repeated`: a later block contains its whole text."""
    marks = {"superseded": True, "repeated": True} if repeated else {"superseded": True}
    marks = {key: value for key, value in marks.items() if not block.fields.get(key)}
    block.fields.update(marks)
    return [Changed(block.id, marks)] if marks else []


def end(block: Block, **fields: Any) -> list[Op]:
    block.ended = True
    block.fields.update(fields)
    return [Ended(block.id, fields)]
