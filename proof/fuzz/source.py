"""Decisions read from bytes: what turns a fuzzer's bytes into a structure, the same for the same bytes."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

BIG = 40_000
"""Characters of a text that is blown up: long enough to show a cost that grows faster than the text."""

WORDS = [
    "", "a", "ha", " ", "\n", "\n\n", "\t", "\r\n", "\r", "\x00", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u200d",
    "\u202e", "\ufeff", "\ufffd", "é", "e\u0301", "\u0301", "ﬁ", "İ", "ß", "漢字", "한", "\u1100", "😀", "👩‍👩‍👧",
    "\U0010ffff", "\ud800", "\udc00", "`", "``", "```", "~~~", "```py\n", "\n```\n", "*", "**", "_", "~~", "#", "# ",
    "> ", "- ", "1. ", "10) ", "|", "\n|---|\n", "[", "](", ")", "![", "<", ">", "</", "&", "&amp;", "&#0;", "\\",
    "/", "//", ":", "://", "http://x.y", "javascript:", "data:", "@", "@bot", "@bot:x.y", "#1", "0", "1", "-1",
    "9" * 30, "1e999", "$", "%", "%00", "%2e%2e", "..", "../", "~", "=", "==", "?", ";", ",", ".", "'", '"', "(",
    "{", "}", "{}", "---\n", "===\n", "<message to=\"ops\">", "<message to='nobody'>", "<message", "</message>",
    "<internal>", "</internal>", "NO_REPLY", "/new", "/stop", "/steer x", "/approve 1", "word",
    "The quick brown fox ", "jumps over. ",
]  # fmt: skip

ODD: list[Any] = [
    None, True, False, 0, -1, 1, 7, 1.5, -0.0, 1e308, float("inf"), float("nan"), 2**31, 2**53, 2**63, 2**64, -(2**70),
    10**30, 10**400, "", " ", "x", "0", "-1", "null", "\x00", "\ud800", "é😀", "\n", "x" * 600, [], {}, [[]], [None],
    {"": {}}, {"type": "text"}, {"id": 1}, ["x", 1], {"a": [{"b": {}}]},
]  # fmt: skip


class Source:
    """When the bytes run out, everything is the first choice."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def number(self, below: int) -> int:
        """From 0 to below it; one byte, or two where one is not enough."""
        if self.at >= len(self.data):
            return 0
        self.at += 1
        value = self.data[self.at - 1]
        if below > 256 and self.at < len(self.data):
            self.at += 1
            value = value * 256 + self.data[self.at - 1]
        return value % below

    def pick(self, choices: Any) -> Any:
        return choices[self.number(len(choices))]

    def take(self, most: int) -> bytes:
        """The next bytes as they are."""
        piece = self.data[self.at : self.at + most]
        self.at += len(piece)
        return piece

    def rest(self) -> bytes:
        return self.take(self.left)

    def words(self, most: int = 8, words: list[str] = WORDS) -> str:
        """A short text of odd pieces."""
        return "".join(self.pick(words) for _ in range(self.number(most + 1)))

    def writing(self, words: list[str] = WORDS) -> str:
        """All that is left, as a text: odd pieces, or the bytes as UTF-8; now and then one piece many times."""
        how = self.number(8)
        if how < 3:
            return self.rest().decode("utf-8", "replace")
        if how < 4:
            piece = self.words(6, words)
            many = (piece * (BIG // max(1, len(piece))))[:BIG]
            return self.words(4, words) + many + self.words(4, words)
        if how < 5:
            return self.rest().decode("latin-1")
        return "".join(self.pick(words) for _ in range(min(self.left, 2000)))

    def cuts(self, whole: Any) -> list[Any]:
        """A text or bytes in pieces, which joined are the whole."""
        edges = sorted({0, len(whole), *(self.number(len(whole) + 1) for _ in range(self.number(6)))})
        return [whole[lo:hi] for lo, hi in pairwise(edges)] or [whole]

    def value(self, depth: int = 0) -> Any:
        """A JSON value; some of its numbers and strings no store takes."""
        what = self.number(10)
        if what < 5 or depth > 3:
            return copy.deepcopy(self.pick(ODD))
        if what < 7:
            return self.words()
        if what < 8:
            return [self.value(depth + 1) for _ in range(self.number(4))]
        return {self.words(2): self.value(depth + 1) for _ in range(self.number(4))}

    def mutated(self, template: Any, most: int = 4) -> Any:
        """A copy of JSON with a few values replaced, removed, doubled or moved."""
        whole = [copy.deepcopy(template)]
        for _ in range(self.number(most + 1)):
            places = list(_places(whole))
            inside, key = places[self.number(len(places))]
            self._change(inside, key, places)
        return whole[0]

    def _change(self, inside: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
        how, value = self.number(7), inside[key]
        if how == 6 and isinstance(value, int) and not isinstance(value, bool):
            inside[key] = value + self.pick([1, -1])
        elif how < 3:
            inside[key] = self.value()
        elif how == 3 and (isinstance(inside, dict) or len(inside) > 1):
            del inside[key]
        elif how == 4 and isinstance(inside, list):
            inside.insert(key, copy.deepcopy(value))
        else:
            other, where = places[self.number(len(places))]
            inside[key] = copy.deepcopy(other[where])


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everywhere in a JSON value that holds one: (dict or list, key)."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def plain(value: Any) -> bytes:
    """As JSON on a wire; what Python writes and JSON does not know (NaN, Infinity) included."""
    return json.dumps(value).encode("ascii")


def given(source: Source, templates: list[Any]) -> bytes:
    """A body: the bytes as they are, or one of the templates with a few odd values in it."""
    if source.number(5) == 4:
        return source.rest()
    return plain(source.mutated(source.pick(templates)))
