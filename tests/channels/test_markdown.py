"""What Markdown would drop without a trace is there to be read."""

from __future__ import annotations

import pytest

from semel.channels.markdown import follows_no_links, has_scheme, parse, write_out_links


def told(text: str) -> str:
    """Every text of it, in order; a blank between."""
    tokens = parse(text)
    write_out_links(tokens, has_scheme(frozenset({"https"})))
    inner = [child for token in tokens for child in (token.children or [token])]
    return " ".join(each.content for each in inner if each.content)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<important> List<String> <b>x</b>", "<important> List<String> <b>x</b>"),
        ("&lt; &amp; &#x202e;", "&lt; &amp; &#x202e;"),
        ("\\\\server\\x \\*", "\\\\server\\x *"),
        ("so \\[y\\] is, [\\[x\\]](z)", "so \\[y\\] is,  [x]  (z)"),
        ("[INFO]: done", "[INFO]: done"),
        ("| a |\n|---|\n| 1 | 2 | 3 |", "a 1 | 2 | 3"),
        ("> " * 60 + "deep", "> " * 60 + "deep"),
        ("```sh run this\nls\n```", "sh run this ls\n"),
        ('[t](https://e.org "title")', 't  "title"'),
        ("[](https://e.org)", "https://e.org"),
        ("[t](src/x.py:3)", "t  (src/x.py:3)"),
        ("![](img/x.png)", "img/x.png"),
        ("https://e.org/a%20b", "https://e.org/a%20b"),
    ],
)
def test_nothing_of_a_text_is_dropped(text: str, shown: str) -> None:
    assert told(text) == shown


def test_an_item_that_skips_numbers_keeps_its_own() -> None:
    starts = [token.attrGet("start") or 1 for token in parse("1. a\n2. b\n7. c") if token.type == "ordered_list_open"]
    assert starts == [1, 7]


def test_addresses_are_written_out_where_nobody_can_follow_them() -> None:
    tokens = parse("[t](https://e.org) <https://e.org/ä> <a@b.cd>")
    write_out_links(tokens, follows_no_links)
    said = "".join(child.content for child in tokens[1].children or ())
    assert said == "t (https://e.org) https://e.org/ä a@b.cd"


def test_a_table_that_never_ends_costs_no_more_than_its_length() -> None:
    parse("| a | b |\n| - | - |\n" * 4_000 + "| 1 | 2 | 3 |\n" * 4_000)
