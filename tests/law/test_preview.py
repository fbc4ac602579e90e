"""A preview is the text in one line, without the marks of Markdown, and with everything that only looks like one."""

from __future__ import annotations

import time

import pytest

from semel.text.preview import make_preview


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# Quarterly report\n\nRevenue is **up 5 %**.", "Quarterly report Revenue is up 5 %."),
        ("- [x] wash\n- [ ] dry\n* *fold*", "wash dry fold"),
        ("```python\nprint(1)\n```\nDone.", "print(1) Done."),
        ("> she said ~~no~~ __yes__", "she said no yes"),
        ("see [the list](https://example.org/a_b) and ![a cat](cat.png)", "see the list and a cat"),
        ("| a | b |\n|---|:-:|\n| 1 | 2 |", "a b 1 2"),
        ("above\n\n---\n\nbelow", "above below"),
        ("use `**kwargs` and ``a ` b``", "use **kwargs and a ` b"),
        ("2 * 3 * 4 and snake_case_name, a_b", "2 * 3 * 4 and snake_case_name, a_b"),
        ("List<String> x; a[0](1)", "List<String> x; a0"),
        ("10. step, 3 > 2, -5 °C, #tag", "10. step, 3 > 2, -5 °C, #tag"),
        ("<details>\n<summary>Raw **numbers**</summary>\n\n1\n</details>\nDone.", "Raw numbers 1 Done."),
        ("`<details>` and <details> stay, </details> too", "<details> and <details> stay, </details> too"),
        ("a\u202eb\x1b[31m", "ab[31m"),
        ("", ""),
    ],
)
def test_marks_go_and_words_stay(text: str, shown: str) -> None:
    assert make_preview(text, 200) == shown


def test_a_long_text_ends_in_an_ellipsis() -> None:
    assert make_preview("word " * 100, 10) == "word word…"
    assert make_preview("x" * 10, 10) == "x" * 10
    assert make_preview("\n" * 500 + "late", 10) == "…"


@pytest.mark.parametrize("piece", ["[", "*", "_ *", "`", "| -", "> ", "[](", "- ", "~~", ":-|", "<details><summary>"])
def test_no_text_takes_long(piece: str) -> None:
    started = time.perf_counter()
    make_preview(piece * 5_000, 200)
    assert time.perf_counter() - started < 1
