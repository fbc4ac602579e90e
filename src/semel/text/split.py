"""Long texts leave in parts (Law 7): where they are cut, and how each part looks on its own.

Parts cover the text exactly and in order. A cut falls, in this order of preference, between paragraphs, lines,
sentences or words, outside code fences before inside; inside a visible character only if it alone is too long. A
fence that is cut is closed at the end of its part and opened again in the next, within the limit.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from semel.text.fences import Fence, fences
from semel.text.graphemes import glued

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
    """The part [lo, hi) of a split text as it is sent: a fence that was cut is opened again and closed."""
    return _Splitter(text, limit, unit).render(lo, hi)


def render_parts(text: str, limit: int, unit: Unit = "char") -> list[tuple[int, int, str]]:
    """Every part of a text with its rendering: (lo, hi, what is sent)."""
    splitter = _Splitter(text, limit, unit)
    return [(lo, hi, splitter.render(lo, hi)) for lo, hi in splitter.cuts()]


@dataclass(frozen=True)
class _Dress:
    """What a cut fence is opened and closed with."""

    head: str
    tail: str
    opening: int  # the length of head, in units
    closing: int


_BARE = _Dress("", "", 0, 0)


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
        """No part is white space alone: platforms refuse those. It belongs to the part before it, or else behind it."""
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
                if hi >= self.visible > lo + 1:  # no part of white space alone: platforms refuse those
                    hi = self.visible - 1
                hi = self._best(lo, hi)
            yield lo, hi
            lo = hi

    def render(self, lo: int, hi: int) -> str:
        body = self.text[lo:hi]
        for shown in (self._dressed(lo, hi, body), self._dressed(lo, hi, body.strip())):
            if measure(shown, self.unit) <= self.limit:
                return shown
        return body.strip()  # it took in white space, and ends in a fence by that

    def _dressed(self, lo: int, hi: int, body: str) -> str:
        tail = self._dress(hi).tail if hi < len(self.text) else ""
        return self._dress(lo).head + body + (tail[1:] if body.endswith(("\n", "\r")) else tail)

    # ------------------------------------------------------------ fences

    def _fence(self, at: int) -> Fence | None:
        """The fence that a cut before text[at] falls into, its first and last line included."""
        n = bisect_right(self.starts, at) - 1
        return self.fences[n] if n >= 0 and self.starts[n] < at < self.fences[n].hi else None

    def _dress(self, at: int) -> _Dress:
        """How a cut here is dressed: not at all outside fences, or where half the limit would go into it."""
        fence = self._fence(at)
        if fence is None or not fence.inner <= at <= fence.close:
            return _BARE
        word = fence.info.split()[:1]
        for info in (word[0] if word else "", ""):
            head, tail = f"{fence.marker}{info}\n", f"\n{fence.marker}"
            costs = measure(head, self.unit), measure(tail, self.unit)
            if sum(costs) * 2 <= self.limit:
                return _Dress(head, tail, *costs)
        return _BARE

    # ------------------------------------------------------------ cuts

    def _fits(self, lo: int, hi: int) -> bool:
        tail = self._dress(hi).closing if hi < len(self.text) else 0
        if tail and self.text[hi - 1] in "\r\n":  # its line break is there already
            tail -= 1
        return self._dress(lo).opening + self.sums[hi] - self.sums[lo] + tail <= self.limit

    def _reach(self, lo: int) -> int:
        """The furthest end that fits; at least one character on."""
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
        whole = (at for at in range(end, lo, -1) if not glued(self.text, at) and self._fits(lo, at))
        return next(whole, end)

    def _last(self, pattern: re.Pattern[str], lo: int, least: int, end: int, inside: bool) -> int | None:
        """The last cut behind such a break, in (least, end]; `inside` fences too."""
        ends = [found.end() for found in pattern.finditer(self.text, lo, end)]
        return next((at for at in reversed(ends) if at > least and self._good(lo, at, inside)), None)

    def _good(self, lo: int, at: int, inside: bool) -> bool:
        if glued(self.text, at) or not self._fits(lo, at):
            return False
        fence = self._fence(at)
        return fence is None or (inside and fence.inner < at < fence.close)
