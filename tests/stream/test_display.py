"""Output as a terminal would show it, in whatever pieces it comes."""

from __future__ import annotations

import importlib
import time
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from semel.acp_stream.display import Display, render_terminal

module = importlib.import_module("semel.acp_stream.display")


TERMINAL = st.lists(st.sampled_from(["ab", "c", "10%", "\r", "\n", "\r\n", "\x08", "\x1b[K", "\x1b[1K", "\x1b[2K",
    "\x1b[31m", "\x1b[2D", "\x1b[C", "\x1b[3G", "\x1b]0;title\x07", "\x1b", "[", " "]), max_size=60)  # fmt: skip


@given(TERMINAL, st.data(), st.sampled_from([4, 8192]))
def test_in_whatever_pieces_it_comes_it_is_displayed_as_the_whole(pieces: list[str], data: Any, longest: int) -> None:
    text = "".join(pieces)
    with mock.patch.object(module, "MAX_MUTABLE_CHARS", longest):
        growing, shown, at = Display(), "", 0
        while at < len(text):
            size = data.draw(st.integers(1, 9))
            kept, fresh = growing.feed(text[at : at + size])
            assert kept <= len(shown)
            shown = shown[:kept] + fresh
            at += size
        assert shown == render_terminal(text)


def test_a_long_progress_bar_costs_no_more_than_its_length() -> None:
    def seconds(steps: int) -> float:
        growing, began = Display(), time.process_time()
        for step in range(steps):
            growing.feed(f"\r\x1b[32m{step % 100:3}% {'=' * (step % 80)}>\x1b[K")
        return time.process_time() - began

    seconds(1_000)
    assert seconds(80_000) < 12 * max(seconds(20_000), 0.02)


def test_a_line_without_end_is_held_in_bounded_memory() -> None:
    growing = Display()
    shown = sum(len(growing.feed("x" * 1000)[1]) for _ in range(3000))
    assert shown == 3_000_000 and len(growing._line) <= 8192
