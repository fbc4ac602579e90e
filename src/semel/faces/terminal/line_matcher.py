"""Match the lines of two texts in bounded time.

The time of difflib grows with the square of the number of lines: it takes 10 s for 10,000 lines with a change in every
seventh. So large texts are divided at the lines that each of them has once (Bram Cohen's "patience diff"), and difflib
compares what lies between two of these. The lines of a part that is still too large count as changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher

MAX_COMPARED_PAIRS = 250_000  # of an old and a new line, that difflib may compare for one diff: about 0.1 s


class LineMatcher(SequenceMatcher[str]):
    """A SequenceMatcher of lines in bounded time. `is_coarse`: whether equal lines may count as changed."""

    def __init__(self, old: Sequence[str], new: Sequence[str]):
        self.is_coarse = False
        self._pairs_left = MAX_COMPARED_PAIRS
        self._old, self._new = old, new
        super().__init__(None, old, new)

    def get_matching_blocks(self) -> list[Match]:
        """Return the blocks of equal lines, in order; the last one is empty and stands behind both texts."""
        old_end, new_end = len(self._old), len(self._new)
        if old_end * new_end <= MAX_COMPARED_PAIRS:
            return super().get_matching_blocks()
        start = _count_equal(self._old, self._new)
        end = _count_equal(self._old[start:][::-1], self._new[start:][::-1])
        matches = [Match(0, 0, start)]
        old, new = start, start  # where the next part begins
        for old_line, new_line in [*self._list_anchors(start, end), (old_end - end, new_end - end)]:
            matches += self._compare(old, old_line, new, new_line)
            matches.append(Match(old_line, new_line, 1))
            old, new = old_line + 1, new_line + 1
        matches[-1] = Match(old_end - end, new_end - end, end)
        return [*_join_adjacent(matches), Match(old_end, new_end, 0)]

    def _list_anchors(self, start: int, end: int) -> Sequence[tuple[int, int]]:
        """List the most lines that both texts have once between their equal ends, and in the same order."""
        old, new = self._old[start : len(self._old) - end], self._new[start : len(self._new) - end]
        counts = Counter(new)
        places = {line: place for place, line in enumerate(new, start) if counts[line] == 1}
        counts = Counter(old)
        pairs = [(place, places[line]) for place, line in enumerate(old, start) if counts[line] == 1 and line in places]
        return _find_longest_increasing(pairs)

    def _compare(self, old: int, old_end: int, new: int, new_end: int) -> Iterator[Match]:
        """Compare a part of both texts by difflib, unless it has more pairs of lines than may still be compared."""
        old_lines, new_lines = self._old[old:old_end], self._new[new:new_end]
        size = len(old_lines) * len(new_lines)
        if size > self._pairs_left:
            self.is_coarse |= not set(old_lines).isdisjoint(new_lines)
            return
        self._pairs_left -= size
        if size:
            blocks = SequenceMatcher(None, old_lines, new_lines).get_matching_blocks()
            yield from (Match(old + block.a, new + block.b, block.size) for block in blocks)


def _count_equal(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many lines at the start of two texts are equal."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(old), len(new)))


def _find_longest_increasing(pairs: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Return the longest subsequence of pairs whose second numbers increase (patience sorting)."""
    lowest: list[int] = []  # by length: the lowest second number that ends an increasing subsequence of that length
    ends: list[int] = []  # by length: the place of its pair
    before: list[int] = []  # by place: the place of the pair before it in its subsequence; -1 for the first
    for place, (_, number) in enumerate(pairs):
        length = bisect_left(lowest, number)
        before.append(ends[length - 1] if length else -1)
        lowest[length : length + 1] = [number]
        ends[length : length + 1] = [place]
    backwards, place = [], ends[-1] if ends else -1
    while place >= 0:
        backwards.append(pairs[place])
        place = before[place]
    return backwards[::-1]


def _join_adjacent(matches: Sequence[Match]) -> Sequence[Match]:
    """Join blocks that touch each other, and leave out empty ones."""
    joined: list[Match] = []
    for match in matches:
        last = joined[-1] if joined else None
        if last and (last.a + last.size, last.b + last.size) == (match.a, match.b):
            joined[-1] = Match(last.a, last.b, last.size + match.size)
        elif match.size:
            joined.append(match)
    return joined
