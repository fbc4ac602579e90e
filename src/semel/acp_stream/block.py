"""A message or thought while it streams in (a block), with the state for detecting re-deliveries of it.

A *re-delivery* is text that the agent sends again although it belongs in the view once. There are two kinds. A *copy*
repeats text that is already in the view. A *repeated start* is a message that the agent begins again, because its
model's stream broke; the one before it is then a *failed start*, and only the last one counts. The *rivals* of a block
are earlier blocks of its turn that may be failed starts of it. A thought has *sections*: a new one begins after each
chunk that consists of newlines.
"""

from __future__ import annotations

from typing import Any

from semel.acp_stream.ops import Changed, GrowingItem, Op
from semel.acp_stream.redelivery import TextCursor, is_distinctive, is_glued, is_redelivery

MESSAGE = "message"
THOUGHT = "thought"
MAX_EDGE = 16  # how many characters of white space at the ends of a thought a copy of it may lack


class TextBlock(GrowingItem):
    """A message or thought that grows. `mid`: its ACP message id; None if it has none."""

    __slots__ = (
        "alert_chars",
        "all_chunks",
        "first_chunk_size",
        "is_blank",
        "is_plain",
        "lead_chars",
        "mid",
        "paragraph_ended",
        "repeat_cursor",
        "repeat_start",
        "rivals",
        "sealed",
        "section",
        "size",
        "withheld_copy",
    )  # fmt: skip

    def __init__(self, kind: str, fields: dict[str, Any], mid: str | None) -> None:
        super().__init__(kind, fields)
        self.mid = mid
        self.size = 0
        self.first_chunk_size = 0  # the size of the first chunk
        self.sealed = False  # the agent confirmed that it was streamed to its end
        self.all_chunks = Section()  # a thought's chunks (a message's are not kept)
        self.section = self.all_chunks  # a thought's current section
        self.lead_chars: frozenset[str] = frozenset()  # a chunk that begins with one of these leaves the fast path
        self.alert_chars: frozenset[str] = frozenset()  # `lead_chars`, and the first character of the current section
        self.is_blank = True  # nothing but white space so far
        self.is_plain = True  # the fast path may append chunks: nothing has to be compared
        self.paragraph_ended = False  # the last chunk was empty: a paragraph ended
        self.withheld_copy: tuple[str, str] | None = None  # (a withheld chunk, the text after the copy in it)
        self.repeat_cursor: TextCursor | None = None  # compares the text from `repeat_start` on with the block's start
        self.repeat_start = 0
        self.rivals: list[tuple[TextBlock, TextCursor]] = []  # (rival, cursor that compares this block's text with it)

    @property
    def superseded(self) -> bool:
        return bool(self.fields.get("superseded"))

    @property
    def streamed(self) -> bool:
        """Whether the text has come in more than one chunk."""
        return self.size > self.first_chunk_size

    def append(self, text: str) -> None:
        if not self.size:
            self.first_chunk_size = len(text)
        self.pieces.append(text)
        self.size += len(text)
        if self.kind == THOUGHT:
            self.all_chunks.append(text)
            if text.isspace() and "\n" in text:
                self.section = Section(behind_newlines=True)
            elif self.section is not self.all_chunks:
                self.section.append(text)

    def restart(self, text: str) -> None:
        """Replace the whole text. The new text counts as one chunk."""
        self.pieces, self.size, self.withheld_copy = ([text] if text else []), len(text), None
        self.all_chunks = self.section = Section()
        if self.kind == THOUGHT and text:
            self.all_chunks.append(text)


class Section:
    """A section of a thought, as the chunks in which it came. `behind_newlines`: it follows a chunk of newlines."""

    __slots__ = ("behind_newlines", "longest_chunk", "pieces", "size")

    def __init__(self, behind_newlines: bool = False) -> None:
        self.behind_newlines = behind_newlines
        self.pieces: list[str] = []
        self.size = 0
        self.longest_chunk = 0  # characters of its longest chunk

    def append(self, text: str) -> None:
        self.pieces.append(text)
        self.size += len(text)
        self.longest_chunk = max(self.longest_chunk, len(text))

    def find_repeat(self, text: str) -> tuple[str, bool] | None:
        """Decide whether the next chunk, `text`, begins with a copy of this whole section.

        Return None if it does not, else (the text after the copy, whether the wording alone proves the copy). The copy
        may lack the white space at the section's ends, or have newlines there instead. Without that proof, a copy is
        probable in three cases:

        - The section's last word would run into the chunk's first word (`is_glued`), and the section is distinctive.
        - The two words would run together, a chunk of newlines precedes the section, and new text follows the copy.
        - The chunk contains only the section, which is distinctive and came in chunks of at most half its length. The
          section does not end with a single newline, because lists repeat lines.
        """
        if not self.pieces or self.size > len(text) + MAX_EDGE:
            return None
        part, copy = "".join(self.pieces), text.lstrip()
        core = part.strip()
        if not core or not copy.startswith(core):
            return None
        repeated = part.lstrip() if copy.startswith(part.lstrip()) else core
        new = copy[len(repeated) :] if copy[len(core) :].strip() else ""
        if is_redelivery(part, text):
            return new, True
        if is_glued(part, text):
            return (new, False) if is_distinctive(core) or (new and self.behind_newlines and len(core) > 1) else None
        ends = {part, core, part.lstrip(), part.rstrip()}
        if text not in ends and text.strip("\n") not in {end.strip("\n") for end in ends}:
            return None
        is_lines = part.endswith("\n") and not part.endswith("\n\n")
        return ("", False) if self.size >= 2 * self.longest_chunk and is_distinctive(core) and not is_lines else None


def missing_newlines(before: str, after: str) -> int:
    """Return how many newlines (0 to 2) to insert between two chunks so that an empty line separates them.

    An agent that marks the end of a paragraph by an empty chunk does not send these newlines itself.
    """
    have = len(before) - len(before.rstrip("\n")) + len(after) - len(after.lstrip("\n"))
    return max(0, 2 - have)


def supersede(block: TextBlock, by: int, repeated: bool = False) -> list[Op]:
    """Mark the block as superseded, because it is a failed start.

    Return the operation for this; [] if nothing changed. `by`: the id of the later block that replaces it. `repeated`:
    the later block contains this one's whole text.
    """
    marks: dict[str, Any] = {"superseded": True, "superseded_by": by} | ({"repeated": True} if repeated else {})
    marks = {key: value for key, value in marks.items() if not block.fields.get(key)}
    block.fields.update(marks)
    return [Changed(block.id, marks)] if marks else []
