"""Merge the output that an agent states for a tool call, in several fields and updates, into one text (Law 8).

An agent may state one output in several sources. From the richest to the poorest, they are: terminals and
`toolResponse`, `rawOutput`, `content` (`output_fields` ranks them). A *delta* is new output. A *snapshot* is all of the
output so far, or a *window*: only its newest part, which slides forward as the output grows (see `profiles`). The
*known text* is the merged text so far. The rules:

- Within one source, a delta is appended, and a snapshot from `content` or `rawOutput` replaces the known text, even if
  it is shorter. But a snapshot that says itself that it is cut, or that may be a window, replaces nothing: it is joined
  with the known text where the two overlap. An empty snapshot changes nothing.
- Between sources, the richest one stays, in whatever order they come: a summary in `content` never replaces output that
  a terminal printed, and output that a terminal prints replaces such a summary. If one text is the beginning or the end
  of the other, the longer one stays: it has every character of both.

Memory is bounded by `Limits`: the middle of an output that exceeds them is dropped and shown as a gap. The dropped text
is in the operations that the caller has stored.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from semel.acp_stream.ops import Limits
from semel.acp_stream.output_fields import CONTENT, DIRECT, Snapshot

LEAST_WINDOW = 2_000  # characters of the shortest window that was measured: a shorter output is no window yet
PROBE_CHARS = 64  # how many characters are searched for, to find where two texts may overlap
LEAST_OVERLAP = 32  # characters; a shorter overlap may be chance


class OutputChange(NamedTuple):
    """A change of the output. `replaces`: `text` replaces the output; otherwise it is appended.

    `missing`: part of the output is known to be missing.
    """

    text: str
    replaces: bool = False
    missing: bool = False


def is_same_source(rank: int, other: int) -> bool:
    """Return whether two ranks belong to one source. ARGUMENTS and CONTENT do, because both are the field `content`."""
    return max(rank, CONTENT) == max(other, CONTENT)


def format_gap(chars: int) -> str:
    """Return the line that stands for `chars` characters between the beginning and the end of an output."""
    return f"\n[{chars} characters not shown]\n"


class ToolOutput:
    """The output of one tool call, merged from deltas and snapshots."""

    __slots__ = (
        "_gap",
        "_head",
        "_limits",
        "_max_kept",
        "_size",
        "_tail",
        "accounted",
        "headless",
        "rank",
        "snapshot",
        "total",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._max_kept = None if limits.head is None else max(limits.window, limits.head + limits.tail)
        self._head: list[str] = []  # the whole text, until it is longer than `_max_kept`; then its head
        self._tail: deque[str] | None = None
        self._size = 0  # characters in `_tail`
        self._gap = (0, 0)  # the last place where output never arrived: (end of the text before it, start after it)
        self.total = 0  # characters of the known text, dropped ones included
        self.accounted = 0  # how many characters of the text came as deltas; the rest is from a snapshot
        self.headless = False  # the first snapshot said that its beginning was cut
        self.rank = 0  # the rank of the text's source (`output_fields`)
        self.snapshot = ""  # the latest snapshot, if the text is equal to it

    def __repr__(self) -> str:
        return f"<ToolOutput {self.total} chars rank={self.rank}{' bounded' if self._tail is not None else ''}>"

    # ---- reading

    def shown(self) -> tuple[str, int, str]:
        """Return (head, number of characters left out, tail).

        If no character is left out, the head is the whole text.
        """
        head, tail, limits = self._joined_head(), self._joined_tail(), self._limits
        if limits.head is None or self.total <= limits.head + limits.tail:
            return head + tail, 0, ""
        end = (head + tail)[-limits.tail :] if limits.tail else ""
        return head[: limits.head], self.total - limits.head - len(end), end

    def start(self, size: int) -> str:
        """Return the first `size` characters, as far as they were kept."""
        parts: list[str] = []
        for piece in self._head:
            if size <= 0:
                break
            parts.append(piece[:size])
            size -= len(piece)
        return "".join(parts)

    def end(self, size: int) -> str:
        """Return the last `size` characters, as far as they were kept."""
        parts: list[str] = []
        for piece in [*reversed(self._tail or ()), *([] if self._tail is not None else reversed(self._head))]:
            if size <= 0:
                break
            parts.append(piece[-size:])
            size -= len(piece)
        return "".join(reversed(parts))

    def _joined_head(self) -> str:
        if len(self._head) > 1:
            self._head = ["".join(self._head)]
        return self._head[0] if self._head else ""

    def _joined_tail(self) -> str:
        if self._tail is None:
            return ""
        joined = "".join(self._tail)[-max(self._limits.tail, 1) :]
        self._tail = deque([joined])
        self._size = len(joined)
        return joined

    # ---- growing

    def append(self, text: str) -> None:
        """Append text. The amortised cost does not depend on the length of the output."""
        self.total += len(text)
        if self._tail is None:
            self._head.append(text)
            if self._max_kept is not None and self.total > self._max_kept:
                self._drop_middle()
            return
        self._tail.append(text)
        self._size += len(text)
        room = 2 * max(self._limits.tail, 1) + 4096
        while self._size > room and len(self._tail) > 1:
            if self._size - len(self._tail[0]) < self._limits.tail:
                self._joined_tail()
                return
            self._size -= len(self._tail.popleft())
        if self._size > room:
            self._joined_tail()

    def _drop_middle(self) -> None:
        text = self._joined_head()
        self._head = [text[: self._limits.head]]
        tail = text[-self._limits.tail :] if self._limits.tail else ""
        self._tail = deque([tail])
        self._size = len(tail)
        self.snapshot = ""

    def replace(self, text: str) -> None:
        self._head, self._tail, self._size, self.total, self.accounted = [], None, 0, 0, 0
        self._gap = (0, 0)
        self.append(text)

    def apply_delta(self, text: str) -> OutputChange | None:
        """Append a delta, without the part that a snapshot has already brought. Return None if nothing in it is new."""
        if self.accounted < self.total:
            known_text = self._known_text(self.accounted, len(text))
            if known_text is None or text.startswith(known_text):
                size = min(len(text), self.total - self.accounted)
                self.accounted += size
                text = text[size:]
                if not text:
                    return None
        self.append(text)
        self.accounted = self.total
        self.snapshot = ""
        return OutputChange(text)

    def extend(self, text: str) -> OutputChange:
        """Append text from the same source that continues the known text."""
        self.append(text)
        self.snapshot = ""
        return OutputChange(text)

    def is_contradicted_by(self, delta: str) -> bool:
        """Return whether a terminal's first delta contradicts the known text, perhaps only a summary of the output.

        That is so if the known text is a snapshot from a poorer source (`content` or `rawOutput`), and neither text
        begins with the other. The caller then replaces the known text by the delta (`restart`).
        """
        if not self.total or self.accounted or self.rank >= DIRECT:
            return False
        known_text = self._known_text(0, len(delta))
        return known_text is not None and not delta.startswith(known_text)

    def restart(self, delta: str) -> OutputChange:
        """Replace the known text by a terminal's first delta, which contradicts it (`is_contradicted_by`)."""
        self.replace(delta)
        self.accounted, self.rank, self.snapshot = self.total, DIRECT, ""
        return OutputChange(delta, True)

    def _known_text(self, start: int, size: int) -> str | None:
        """Return at most `size` characters of the known text, from the index `start`; None if they were dropped."""
        head = self._joined_head()
        if self._tail is None or start + size <= len(head):
            return head[start : start + size]
        tail = self._joined_tail()
        offset = start - (self.total - len(tail))
        return tail[offset : offset + size] if offset >= 0 else None

    # ---- merging

    def merge(self, snapshot: Snapshot) -> OutputChange | None:
        """Merge a snapshot with the known text. Return the change; None if nothing changes.

        A snapshot may contain the agent's own note that its beginning was cut (`mark`). The note is added to the text
        only where the output before the snapshot is unknown.
        """
        text, rank, missing, window, mark = snapshot
        if not text:
            return None
        if not self.total:
            self.headless = bool(mark)
            return self._set(mark + text, rank, missing)
        new_text = self._find_new_text(text)
        if self._is_replacement(rank, window, missing) and (new_text is None or len(text) < self.total):
            return self._set(text, rank, missing)
        if new_text is not None:
            if not window or len(text) >= self.total:
                self.rank = max(self.rank, rank)
            change = self._join(new_text, text if len(text) >= self.total else "")
            cut = missing and not window and self.total == len(text)  # the known text ends where the snapshot was cut
            return OutputChange(new_text, missing=True) if cut else change
        if window or missing:
            filled = self._fill(text, rank)
            if filled is not None:
                return filled
            overlap = self.find_overlap(text)
            if overlap:
                return self._join(text[overlap:], "")
        if self._is_tail_of(text):
            self.headless = False
            return self._set(text, rank, missing)
        if window and self.rank >= 2 and self._has_same_start(text):
            return self._set(text, rank, missing) if len(text) > self.total and not mark else None
        if window and self.rank < DIRECT:
            before = self.total
            self.append(mark + text)  # it does not overlap with the known text: what lies between never arrived
            self._gap = (before, before + len(mark))
            return OutputChange(mark + text, missing=True)
        poorer = missing and self.rank > 1
        return None if poorer or rank < self.rank else self._set(text, rank, missing)

    def _is_replacement(self, rank: int, window: bool, missing: bool) -> bool:
        """Return whether a snapshot replaces the known text: it has the same source, and is neither cut nor a window.

        While the known text is shorter than LEAST_WINDOW, no snapshot counts as a window. Snapshots of a terminal or of
        `toolResponse` replace nothing. `rank`, `window`, `missing`: as in `Snapshot`.
        """
        slides = window and self.total >= LEAST_WINDOW
        return rank < DIRECT and is_same_source(rank, self.rank) and not missing and not slides

    def _set(self, text: str, rank: int, missing: bool) -> OutputChange:
        replaces = self.total > 0
        self.replace(text)
        self.rank = rank
        self.snapshot = text if self._tail is None else ""
        return OutputChange(text, replaces, missing)

    def _join(self, new_text: str, snapshot: str) -> OutputChange | None:
        if new_text:
            self.append(new_text)
        self.snapshot = snapshot if self._tail is None else ""
        return OutputChange(new_text) if new_text else None

    def _find_new_text(self, text: str) -> str | None:
        """Return the text that the snapshot `text` adds at the end of the known text.

        Return "" if the snapshot adds nothing, because it repeats the whole known text, or its beginning or end. White
        space at the end may differ. Return None if the snapshot neither continues nor repeats the known text.
        """
        if self.snapshot and text.startswith(self.snapshot):
            return text[len(self.snapshot) :]
        if len(text) >= self.total:
            if not text.startswith(self._joined_head()):
                return self._equals_but_for_space(text)
            tail = self._joined_tail()
            return text[self.total :] if text[self.total - len(tail) : self.total] == tail else None
        if self.end(len(text)) == text or self.start(len(text)) == text:
            return ""
        return self._equals_but_for_space(text)

    def _equals_but_for_space(self, text: str) -> str | None:
        """Return "", for no new text, if the text equals the known text except for white space at the end; else None.

        None also if their lengths differ by more than 8 characters, or if a middle of the known text was dropped.
        """
        if abs(len(text) - self.total) > 8 or self._tail is not None:
            return None
        return "" if self._joined_head().rstrip() == text.rstrip() else None

    def _has_same_start(self, text: str) -> bool:
        """Return whether both texts begin with the same 256 characters.

        Then they are probably one output, cut differently.
        """
        return len(text) >= 256 and self.start(256) == text[:256]

    def _is_tail_of(self, text: str) -> bool:
        return self._tail is None and len(text) > self.total and text.endswith(self._joined_head())

    def find_overlap(self, text: str) -> int:
        """Return the offset in `text` at which it continues the known text; 0 if the two texts do not overlap."""
        size = self.total - self._gap[1]
        if size < LEAST_OVERLAP or len(text) < PROBE_CHARS:
            return 0
        known_end = self.end(min(size, len(text)))
        # Less than a window may be kept of a long output: then the window begins before what is kept.
        offset = text.find(known_end[:PROBE_CHARS]) if len(known_end) <= len(text) else -1
        if offset >= 0 and text.startswith(known_end, offset):
            return offset + len(known_end)
        return _overlap_length(known_end, text)

    def _fill(self, text: str, rank: int) -> OutputChange | None:
        """Fill the place where output never arrived (`_gap`), completely or in part, from a snapshot's text.

        `text` must contain all of the known text that follows that place, with other text before it. Otherwise change
        nothing and return None. `rank`: the snapshot's rank.
        """
        before, after = self._gap
        if not after or self._tail is not None:
            return None
        known_text = self._joined_head()
        offset = text.find(known_text[after : after + PROBE_CHARS])
        if offset <= 0 or not text.startswith(known_text[after:], offset):
            return None
        joint = _overlap_length(known_text[:before][-offset:], text[:offset])
        mark = "" if joint else known_text[before:after]
        gap = (0, 0) if joint else (before, after)
        change = self._set(known_text[:before] + mark + text[joint:], rank, bool(gap[1]) or self.headless)
        self._gap, self.snapshot = gap, ""
        return change


def _overlap_length(before: str, text: str) -> int:
    """Return how many characters at the beginning of `text` are also the end of `before`.

    Return 0 if either text is too short to tell.
    """
    if len(text) < PROBE_CHARS or len(before) < LEAST_OVERLAP:
        return 0
    offset = before.find(text[:PROBE_CHARS])
    for _ in range(64):
        if offset < 0:
            return 0
        if text.startswith(before[offset:]):
            return len(before) - offset
        offset = before.find(text[:PROBE_CHARS], offset + 1)
    return 0
