"""Splitting: parts cover the text exactly and in order, each is short enough, none is white space alone (Law 7)."""

from __future__ import annotations

from typing import Any

from proof.fuzz.source import Source
from semel.text.fences import find_fences
from semel.text.split import measure, render_parts

UNITS: list[Any] = ["char", "utf16", "byte"]


def one(data: bytes) -> None:
    source = Source(data)
    unit, limit = source.pick(UNITS), source.pick([1, 2, 3, 5, 8, 13, 20, 40, 100, 300, 1000, 4096])
    text = source.writing()[: 300 if limit < 20 else 3000]
    parts = render_parts(text, limit, unit)
    at = 0
    for lo, hi, shown in parts:
        assert lo == at < hi, "parts that do not join"
        at = hi
        assert shown.strip() or not text.strip(), "a part of white space alone"
        assert measure(shown, unit) <= limit or _indivisible(text[lo:hi], unit, limit), (
            f"longer than {limit}: {shown!r}"
        )
    assert at == len(text), "parts that do not cover the text"
    _dressed(text, parts)


def _indivisible(piece: str, unit: Any, limit: int) -> bool:
    """One character that is longer than the limit by itself."""
    body = piece.strip()
    return len(body) <= 1 or measure(body[0], unit) > limit


def _dressed(text: str, parts: list[tuple[int, int, str]]) -> None:
    """What a part shows beside its text is fences, and no letter of the text is missing."""
    for lo, hi, shown in parts:
        assert text[lo:hi].strip() in shown
    if not list(find_fences(text)):
        assert all(shown in (text[lo:hi], text[lo:hi].strip()) for lo, hi, shown in parts)


SEEDS = [
    bytes([unit, limit, 0]) + text
    for unit in range(3)
    for limit, text in (
        (7, b"One sentence. And another one! A third?\n\nA paragraph.\n```py\nprint(1)\nprint(2)\n```\nThe end."),
        (4, "한국어 漢字 👩‍👩‍👧 e\u0301e\u0301 \U0001f600".encode()),
        (9, b"~~~\n" + b"x" * 300 + b"\n~~~\n   \n\n" + b"word " * 60),
    )
] + [bytes([n, 8, 3, 4, 3, 40, 41, 44, 9]) for n in range(3)]
LONGEST = 2048
