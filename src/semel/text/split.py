"""Split a long text into parts that fit a platform's limit, and render each part on its own (Law 7).

Parts cover the text exactly and in order. Cuts fall, in this order of preference, between paragraphs, lines, sentences
or words, and outside code fences rather than inside. A visible character is cut only if it alone exceeds the limit. If
a cut falls into a fence, the fence is closed at the end of the part and opened again in the next, within the limit.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from semel.text.fences import CodeFence, find_fences
from semel.text.graphemes import is_inside_grapheme

Unit = Literal["char", "utf16", "byte"]

_PARAGRAPH = re.compile(r"\n(?:[ \t]*\r?\n)+")
_LINE = re.compile(r"(?<=\n)")
_SENTENCE = re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？]\s*")
_WORD = re.compile(r"\s+")
# (pattern after whose matches a text is cut, whether also inside a fence), best first
_BREAKS = ((_PARAGRAPH, False), (_LINE, False), (_LINE, True), (_SENTENCE, True), (_WORD, True))


def measure(text: str, unit: Unit) -> int:
    """Return the length of a text as a platform counts it: in code points, UTF-16 code units or UTF-8 bytes."""
    if unit == "utf16":
        return len(text) + sum(char > "\uffff" for char in text)
    return len(text) if unit == "char" else len(text.encode("utf-8", "surrogatepass"))


def render_parts(
    text: str, limit: int, unit: Unit = "char", first_limit: int | None = None
) -> list[tuple[int, int, str]]:
    """Cut a text into parts and render each in at most `limit` units. Returns (lo, hi, rendering) for each part.

    `first_limit`: that of the first part, if it is lower, as a file's caption is shorter than a message.
    `lo` and `hi` are offsets in code points. In the rendering, a fence that was cut is reopened and closed. An empty
    text has no parts. A character that exceeds the limit by itself becomes a part that is too long. Raises ValueError
    for a limit below 1.
    """
    splitter = _Splitter(text, limit, unit, first_limit)
    parts = [(lo, hi, splitter.render(lo, hi)) for lo, hi in splitter.cuts()]
    if first_limit is not None and parts and measure(parts[0][2], unit) > first_limit:
        # Its white space was joined to the part after it, which has more room.
        return render_parts(text, first_limit, unit)
    return parts


@dataclass(frozen=True)
class _FenceRepair:
    """The lines that close a fence before a cut (`tail`) and reopen it after the cut (`head`)."""

    head: str
    tail: str
    opening: int  # the length of head, in units
    closing: int  # the length of tail, in units


_NO_REPAIR = _FenceRepair("", "", 0, 0)


class _Splitter:
    def __init__(self, text: str, limit: int, unit: Unit, first_limit: int | None = None):
        self.text, self.limit, self.unit = text, limit, unit
        self.first_limit = limit if first_limit is None else min(limit, first_limit)
        if self.first_limit < 1:
            raise ValueError(f"a limit of {self.first_limit} leaves no room; give at least 1")
        self.fences = list(find_fences(text))
        self.fence_starts = [fence.lo for fence in self.fences]
        self.visible_size = len(text.rstrip())
        self.offsets = list(accumulate((measure(char, unit) for char in text), initial=0))

    def cuts(self) -> Iterator[tuple[int, int]]:
        """Yield the parts as offsets [lo, hi).

        Platforms refuse a part that has only white space, so it is joined to the part before it, or else to the one
        after it.
        """
        part: tuple[int, int] | None = None
        for lo, hi in self._list_pieces():
            if part is not None and (self._is_blank(lo, hi) or self._is_blank(*part)):
                lo = part[0]
            elif part is not None:
                yield part
            part = lo, hi
        if part is not None:
            yield part

    def _is_blank(self, lo: int, hi: int) -> bool:
        return not self.text[lo:hi].strip()

    def _list_pieces(self) -> Iterator[tuple[int, int]]:
        lo = 0
        while lo < len(self.text):
            hi = self._furthest_end(lo)
            if hi < len(self.text):
                if hi >= self.visible_size > lo + 1:  # leave a visible character for the last part
                    hi = self.visible_size - 1
                hi = self._best_cut(lo, hi)
            yield lo, hi
            lo = hi

    def render(self, lo: int, hi: int) -> str:
        body = self.text[lo:hi]
        for shown in (self._repair_ends(lo, hi, body), self._repair_ends(lo, hi, body.strip())):
            if measure(shown, self.unit) <= self._limit_from(lo):
                return shown
        return body.strip()  # joined white space moved the end of the part into a fence: there is no room to close it

    def _limit_from(self, lo: int) -> int:
        """Return the limit of the part that begins at `lo`."""
        return self.limit if lo else self.first_limit

    def _repair_ends(self, lo: int, hi: int, body: str) -> str:
        tail = self._repair_at(hi).tail if hi < len(self.text) else ""
        return self._repair_at(lo).head + body + (tail[1:] if body.endswith(("\n", "\r")) else tail)

    # ------------------------------------------------------------ fences

    def _fence_at(self, cut: int) -> CodeFence | None:
        """Return the fence that a cut before text[cut] splits, even in a marker line; None if it splits none."""
        n = bisect_right(self.fence_starts, cut) - 1
        return self.fences[n] if n >= 0 and self.fence_starts[n] < cut < self.fences[n].hi else None

    def _repair_at(self, cut: int) -> _FenceRepair:
        """Return the lines that close and reopen the fence at this cut.

        They are empty if the cut is not in a fence, or if they would take more than half of the limit.
        """
        fence = self._fence_at(cut)
        if fence is None or not fence.inner <= cut <= fence.close:
            return _NO_REPAIR
        word = fence.info.split()[:1]
        for info in (word[0] if word else "", ""):
            head, tail = f"{fence.marker}{info}\n", f"\n{fence.marker}"
            costs = measure(head, self.unit), measure(tail, self.unit)
            if sum(costs) * 2 <= self.first_limit:
                return _FenceRepair(head, tail, *costs)
        return _NO_REPAIR

    # ------------------------------------------------------------ cuts

    def _fits(self, lo: int, hi: int) -> bool:
        tail = self._repair_at(hi).closing if hi < len(self.text) else 0
        if tail and self.text[hi - 1] in "\r\n":  # the text already ends with the line break of the tail
            tail -= 1
        return self._repair_at(lo).opening + self.offsets[hi] - self.offsets[lo] + tail <= self._limit_from(lo)

    def _furthest_end(self, lo: int) -> int:
        """Return the furthest end at which a part from `lo` fits into the limit; at least `lo` + 1."""
        room = self._limit_from(lo) - self._repair_at(lo).opening
        hi = bisect_right(self.offsets, self.offsets[lo] + room) - 1
        while hi > lo + 1 and not self._fits(lo, hi):
            hi -= 1
        return max(hi, lo + 1)

    def _best_cut(self, lo: int, end: int) -> int:
        """Return the offset of the best cut in (lo, end].

        That is at a break (`_BREAKS`) in the last two thirds, else at any break, else between two visible characters,
        else `end`.
        """
        for least in (lo + (end - lo) // 3, lo):
            for pattern, inside in _BREAKS:
                if cut := self._last_cut(pattern, lo, least, end, inside):
                    return cut
        places = (
            place for place in range(end, lo, -1) if not is_inside_grapheme(self.text, place) and self._fits(lo, place)
        )
        return next(places, end)

    def _last_cut(self, pattern: re.Pattern[str], lo: int, least: int, end: int, inside: bool) -> int | None:
        """Return the last good cut in (least, end] that follows a match of `pattern`; None if there is none.

        `inside`: whether cuts inside fences are allowed.
        """
        ends = [match.end() for match in pattern.finditer(self.text, lo, end)]
        return next((cut for cut in reversed(ends) if cut > least and self._is_good_cut(lo, cut, inside)), None)

    def _is_good_cut(self, lo: int, cut: int, inside: bool) -> bool:
        if is_inside_grapheme(self.text, cut) or not self._fits(lo, cut):
            return False
        fence = self._fence_at(cut)
        return fence is None or (inside and fence.inner < cut < fence.close)
