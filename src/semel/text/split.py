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

from semel.text.fences import Fence, fences
from semel.text.graphemes import is_inside_grapheme

Unit = Literal["char", "utf16", "byte"]

_PARAGRAPH = re.compile(r"\n(?:[ \t]*\r?\n)+")
_LINE = re.compile(r"(?<=\n)")
_SENTENCE = re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？]\s*")
_WORD = re.compile(r"\s+")
_BREAKS = ((_PARAGRAPH, False), (_LINE, False), (_LINE, True), (_SENTENCE, True), (_WORD, True))


def measure(text: str, unit: Unit) -> int:
    """The length of a text as a platform counts it: code points, UTF-16 code units or UTF-8 bytes."""
    if unit == "utf16":
        return len(text) + sum(char > "\uffff" for char in text)
    return len(text) if unit == "char" else len(text.encode("utf-8", "surrogatepass"))


def split(text: str, limit: int, unit: Unit = "char") -> list[tuple[int, int]]:
    """Cut a text so that each part, rendered, is at most `limit` units long: offsets [lo, hi) in code points.

    An empty text has no parts. A character that is longer than the limit by itself stands alone. Raises ValueError
    for a limit below 1.
    """
    return list(_Splitter(text, limit, unit).cuts())


def render_part(text: str, lo: int, hi: int, limit: int, unit: Unit = "char") -> str:
    """The part [lo, hi) of a split text as it is sent: a fence that was cut is reopened and closed within the part."""
    return _Splitter(text, limit, unit).render(lo, hi)


def render_parts(text: str, limit: int, unit: Unit = "char") -> list[tuple[int, int, str]]:
    """Every part of a text with its rendering: (lo, hi, what is sent)."""
    splitter = _Splitter(text, limit, unit)
    return [(lo, hi, splitter.render(lo, hi)) for lo, hi in splitter.cuts()]


@dataclass(frozen=True)
class _FenceRepair:
    """The lines that reopen and close a fence at a cut."""

    head: str
    tail: str
    opening: int  # the length of head, in units
    closing: int


_NO_REPAIR = _FenceRepair("", "", 0, 0)


class _Splitter:
    def __init__(self, text: str, limit: int, unit: Unit):
        if limit < 1:
            raise ValueError(f"a limit of {limit} leaves no room; give at least 1")
        self.text, self.limit, self.unit = text, limit, unit
        self.fences = list(fences(text))
        self.starts = [fence.lo for fence in self.fences]
        self.visible = len(text.rstrip())
        self.sums = list(accumulate((measure(char, unit) for char in text), initial=0))

    def cuts(self) -> Iterator[tuple[int, int]]:
        """The parts as offsets [lo, hi).

        Platforms refuse a part of white space alone, so white space joins the part before it, or else the one after.
        """
        at: tuple[int, int] | None = None
        for lo, hi in self._pieces():
            if at is not None and (self._blank(lo, hi) or self._blank(*at)):
                lo = at[0]
            elif at is not None:
                yield at
            at = lo, hi
        if at is not None:
            yield at

    def _blank(self, lo: int, hi: int) -> bool:
        return not self.text[lo:hi].strip()

    def _pieces(self) -> Iterator[tuple[int, int]]:
        lo = 0
        while lo < len(self.text):
            hi = self._reach(lo)
            if hi < len(self.text):
                if hi >= self.visible > lo + 1:  # leave a visible character for the last part
                    hi = self.visible - 1
                hi = self._best(lo, hi)
            yield lo, hi
            lo = hi

    def render(self, lo: int, hi: int) -> str:
        body = self.text[lo:hi]
        for shown in (self._dressed(lo, hi, body), self._dressed(lo, hi, body.strip())):
            if measure(shown, self.unit) <= self.limit:
                return shown
        return body.strip()  # white space that joined the part moved its end into a fence: no room to close it

    def _dressed(self, lo: int, hi: int, body: str) -> str:
        tail = self._dress(hi).tail if hi < len(self.text) else ""
        return self._dress(lo).head + body + (tail[1:] if body.endswith(("\n", "\r")) else tail)

    # ------------------------------------------------------------ fences

    def _fence(self, at: int) -> Fence | None:
        """The fence that a cut before text[at] falls into, its first and last line included."""
        n = bisect_right(self.starts, at) - 1
        return self.fences[n] if n >= 0 and self.starts[n] < at < self.fences[n].hi else None

    def _dress(self, at: int) -> _FenceRepair:
        """How a fence is closed and reopened at this cut. Nothing is added outside of fences, or if that would take
        more than half of the limit."""
        fence = self._fence(at)
        if fence is None or not fence.inner <= at <= fence.close:
            return _NO_REPAIR
        word = fence.info.split()[:1]
        for info in (word[0] if word else "", ""):
            head, tail = f"{fence.marker}{info}\n", f"\n{fence.marker}"
            costs = measure(head, self.unit), measure(tail, self.unit)
            if sum(costs) * 2 <= self.limit:
                return _FenceRepair(head, tail, *costs)
        return _NO_REPAIR

    # ------------------------------------------------------------ cuts

    def _fits(self, lo: int, hi: int) -> bool:
        tail = self._dress(hi).closing if hi < len(self.text) else 0
        if tail and self.text[hi - 1] in "\r\n":  # the text already ends with the line break of the tail
            tail -= 1
        return self._dress(lo).opening + self.sums[hi] - self.sums[lo] + tail <= self.limit

    def _reach(self, lo: int) -> int:
        """The furthest end of a part that fits; at least one character after `lo`."""
        room = self.limit - self._dress(lo).opening
        hi = bisect_right(self.sums, self.sums[lo] + room) - 1
        while hi > lo + 1 and not self._fits(lo, hi):
            hi -= 1
        return max(hi, lo + 1)

    def _best(self, lo: int, end: int) -> int:
        """The best cut in (lo, end]: one in its later two thirds, else any, else between two characters."""
        for least in (lo + (end - lo) // 3, lo):
            for pattern, inside in _BREAKS:
                if cut := self._last(pattern, lo, least, end, inside):
                    return cut
        whole = (at for at in range(end, lo, -1) if not is_inside_grapheme(self.text, at) and self._fits(lo, at))
        return next(whole, end)

    def _last(self, pattern: re.Pattern[str], lo: int, least: int, end: int, inside: bool) -> int | None:
        """The last permitted cut after a match of `pattern`, in (least, end]. `inside`: cuts inside fences, too."""
        ends = [found.end() for found in pattern.finditer(self.text, lo, end)]
        return next((at for at in reversed(ends) if at > least and self._good(lo, at, inside)), None)

    def _good(self, lo: int, at: int, inside: bool) -> bool:
        if is_inside_grapheme(self.text, at) or not self._fits(lo, at):
            return False
        fence = self._fence(at)
        return fence is None or (inside and fence.inner < at < fence.close)
