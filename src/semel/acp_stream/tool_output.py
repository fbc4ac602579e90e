"""Merges the statements of a tool call's output, from several sources and updates, into one text (Law 8).

An agent may state one output in several sources: `toolResponse` and terminals (the richest), `rawOutput`, `content`.
The rule:

- Within one source the protocol's own meaning holds. Deltas append. `content` and `rawOutput` replace: the newest
  statement is the output, even if it is shorter. It replaces nothing if it is empty, if it says itself that it is cut,
  or if it may be the newest part of a growing output (a sliding window, see `profiles`): then it is joined where it
  overlaps.
- Across sources the richest one stays, whichever comes last: a summary in `content` never replaces what a terminal
  printed, and what a terminal prints replaces such a summary. Where one statement holds the other (as its beginning or
  its end), the longer one stays: it has every character of both.

Memory is bounded by `Limits`: beyond them, the middle is dropped and shown as a gap. The dropped text is in the
operations that the caller stored.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from semel.acp_stream.dialect import CONTENT, DIRECT
from semel.acp_stream.ops import Limits

LEAST_WINDOW = 2_000  # characters of the shortest sliding window that was measured: a shorter output has not slid yet
PROBE_CHARS = 64  # characters of a window's beginning that are looked for in what is known
LEAST_OVERLAP = 32


class Change(NamedTuple):
    """`text` replaces the output if `whole`, else joins its end.

    `missing`: something is known to be lacking.
    """

    text: str
    whole: bool = False
    missing: bool = False


def is_same_source(rank: int, other: int) -> bool:
    """Content is one source, whether it came with the result or before it."""
    return max(rank, CONTENT) == max(other, CONTENT)


class Output:
    __slots__ = (
        "_gap",
        "_head",
        "_keep",
        "_limits",
        "_size",
        "_tail",
        "headless",
        "rank",
        "seen",
        "snapshot",
        "total",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._keep = None if limits.head is None else max(limits.window, limits.head + limits.tail)
        self._head: list[str] = []  # the whole, until it outgrows `_keep`; then the head
        self._tail: deque[str] | None = None
        self._size = 0  # characters in `_tail`
        self._gap = (0, 0)  # the last place where something never came: (end before it, start after it)
        self.total = 0
        self.seen = 0  # how much of the text the deltas have accounted for
        self.headless = False  # the first thing ever said began with "the beginning was cut"
        self.rank = 0  # how good the source of the text is
        self.snapshot = ""  # the latest snapshot, if the text is exactly that

    def __repr__(self) -> str:
        return f"<Output {self.total} chars rank={self.rank}{' bounded' if self._tail is not None else ''}>"

    # ---- as it stands

    def shown(self) -> tuple[str, int, str]:
        """(head, characters missing in between, tail), within the limits; all of it in `head` if it fits."""
        head, tail, limits = self._joined_head(), self._joined_tail(), self._limits
        if limits.head is None or self.total <= limits.head + limits.tail:
            return head + tail, 0, ""
        end = (head + tail)[-limits.tail :] if limits.tail else ""
        return head[: limits.head], self.total - limits.head - len(end), end

    def start(self, size: int) -> str:
        """The first characters."""
        parts: list[str] = []
        for piece in self._head:
            if size <= 0:
                break
            parts.append(piece[:size])
            size -= len(piece)
        return "".join(parts)

    def end(self, size: int) -> str:
        """The last characters, as far as they are kept."""
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
        """Text joins the end. O(1) amortised."""
        self.total += len(text)
        if self._tail is None:
            self._head.append(text)
            if self._keep is not None and self.total > self._keep:
                self._let_go()
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

    def _let_go(self) -> None:
        whole = self._joined_head()
        self._head = [whole[: self._limits.head]]
        tail = whole[-self._limits.tail :] if self._limits.tail else ""
        self._tail = deque([tail])
        self._size = len(tail)
        self.snapshot = ""

    def replace(self, text: str) -> None:
        self._head, self._tail, self._size, self.total, self.seen = [], None, 0, 0, 0
        self._gap = (0, 0)
        self.append(text)

    def delta(self, text: str) -> Change | None:
        """One piece of a delta stream.

        Beside snapshots of the same output it may say what is known already.
        """
        if self.seen == self.total:
            self.append(text)
            self.seen = self.total
            self.snapshot = ""
            return Change(text)
        known = self._known(self.seen, len(text))
        if known is None or text.startswith(known):
            size = min(len(text), self.total - self.seen)
            self.seen += size
            if size == len(text):
                return None
            text = text[size:]
        self.append(text)
        self.seen = self.total
        self.snapshot = ""
        return Change(text)

    def extend(self, text: str) -> Change:
        """Append a further chunk from the source of the present text."""
        self.append(text)
        self.snapshot = ""
        return Change(text)

    def is_contradicted_by(self, delta: str) -> bool:
        """Whether the present text comes from a poorer source than deltas and does not begin with this first delta."""
        if not self.total or self.seen or self.rank >= DIRECT:
            return False
        known = self._known(0, len(delta))
        return known is not None and not delta.startswith(known)

    def restart(self, delta: str) -> Change:
        """Replace the text by the first delta of a richer source."""
        self.replace(delta)
        self.seen, self.rank, self.snapshot = self.total, DIRECT, ""
        return Change(delta, True)

    def _known(self, start: int, size: int) -> str | None:
        """The text from `start` on, at most `size` characters; None where it was let go."""
        head = self._joined_head()
        if self._tail is None or start + size <= len(head):
            return head[start : start + size]
        tail = self._joined_tail()
        at = start - (self.total - len(tail))
        return tail[at : at + size] if at >= 0 else None

    # ---- merging

    def merge(self, text: str, rank: int, window: bool = False, missing: bool = False, mark: str = "") -> Change | None:
        """Merge a snapshot of the output. Returns the change, or None if the snapshot adds nothing.

        `window`: it may be only the newest part. `missing`: it says itself that it is cut. `mark`: the agent's note
        that the beginning is missing; it is kept only if the beginning really is.
        """
        if not text:
            return None
        if not self.total:
            self.headless = bool(mark)
            return self._set(mark + text, rank, missing)
        rest = self._beyond(text)
        if self._is_replacement(rank, window, missing) and (rest is None or len(text) < self.total):
            return self._set(text, rank, missing)
        if rest is not None:
            if not window or len(text) >= self.total:
                self.rank = max(self.rank, rank)
            change = self._join(rest, text if len(text) >= self.total else "")
            cut = missing and not window and self.total == len(text)  # all that is known is what was left of it
            return Change(rest, missing=True) if cut else change
        if window or missing:
            filled = self._fill(text, rank)
            if filled is not None:
                return filled
            overlap = self._overlap(text)
            if overlap:
                return self._join(text[overlap:], "")
        if self._is_tail_of(text):
            self.headless = False
            return self._set(text, rank, missing)
        if window and self.rank >= 2 and self._same_start(text):
            return self._set(text, rank, missing) if len(text) > self.total and not mark else None
        if window and self.rank < DIRECT:
            before = self.total
            self.append(mark + text)  # nothing in common with what is known: what lies between never came
            self._gap = (before, before + len(mark))
            return Change(mark + text, missing=True)
        poorer = missing and self.rank > 1
        return None if poorer or rank < self.rank else self._set(text, rank, missing)

    def _is_replacement(self, rank: int, window: bool, missing: bool) -> bool:
        """Whether a snapshot of this source replaces the present text as a whole."""
        slides = window and self.total >= LEAST_WINDOW
        return rank < DIRECT and is_same_source(rank, self.rank) and not missing and not slides

    def _set(self, text: str, rank: int, missing: bool) -> Change:
        whole = self.total > 0
        self.replace(text)
        self.rank = rank
        self.snapshot = text if self._tail is None else ""
        return Change(text, whole, missing)

    def _join(self, rest: str, snapshot: str) -> Change | None:
        if rest:
            self.append(rest)
        self.snapshot = snapshot if self._tail is None else ""
        return Change(rest) if rest else None

    def _beyond(self, text: str) -> str | None:
        """What of `text` is new, if it is the known text, part of its beginning or end, or goes on from it."""
        if self.snapshot and text.startswith(self.snapshot):
            return text[len(self.snapshot) :]
        if len(text) >= self.total:
            if not text.startswith(self._joined_head()):
                return self._but_for_space(text)
            tail = self._joined_tail()
            return text[self.total :] if text[self.total - len(tail) : self.total] == tail else None
        if self.end(len(text)) == text or self.start(len(text)) == text:
            return ""
        return self._but_for_space(text)

    def _but_for_space(self, text: str) -> str | None:
        """The same text with other white space at its end is the same text."""
        if abs(len(text) - self.total) > 8 or self._tail is not None:
            return None
        return "" if self._joined_head().rstrip() == text.rstrip() else None

    def _same_start(self, text: str) -> bool:
        """The same output told again in other words (cut differently)?"""
        return len(text) >= 256 and self.start(256) == text[:256]

    def _is_tail_of(self, text: str) -> bool:
        return self._tail is None and len(text) > self.total and text.endswith(self._joined_head())

    def _overlap(self, text: str) -> int:
        """How many characters at the beginning of `text` are known: up to the end of what is known."""
        size = self.total - self._gap[1]
        if size < LEAST_OVERLAP or len(text) < PROBE_CHARS:
            return 0
        known = self.end(min(size, len(text)))
        at = text.find(known[:PROBE_CHARS]) if size <= len(text) else -1
        if at >= 0 and text.startswith(known, at):
            return at + len(known)
        return _overlap_length(known, text)

    def _fill(self, text: str, rank: int) -> Change | None:
        """Fill the last gap from a wider window that contains the missing text. None if the window does not fit."""
        before, after = self._gap
        if not after or self._tail is not None:
            return None
        whole = self._joined_head()
        at = text.find(whole[after : after + PROBE_CHARS])
        if at <= 0 or not text.startswith(whole[after:], at):
            return None
        joint = _overlap_length(whole[:before][-at:], text[:at])
        mark = "" if joint else whole[before:after]
        gap = (0, 0) if joint else (before, after)
        change = self._set(whole[:before] + mark + text[joint:], rank, bool(gap[1]) or self.headless)
        self._gap, self.snapshot = gap, ""
        return change

    def overlap(self, text: str) -> int:
        """For sources that flip between deltas and windows: the overlap, if `text` is a window."""
        return self._overlap(text)


def _overlap_length(known: str, text: str) -> int:
    """How many characters at the beginning of `text` are the end of `known`; 0 if too few to tell."""
    if len(text) < PROBE_CHARS or len(known) < LEAST_OVERLAP:
        return 0
    at = known.find(text[:PROBE_CHARS])
    for _ in range(64):
        if at < 0:
            return 0
        if text.startswith(known[at:]):
            return len(known) - at
        at = known.find(text[:PROBE_CHARS], at + 1)
    return 0
