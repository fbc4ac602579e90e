"""Agent text is shown as Markdown, and can do nothing but be read."""

from __future__ import annotations

import re
import time

import pytest

from semel.channels.markdown import MAX_FORMATTED_CHARS
from semel.faces.http.markdown import render_html, sanitise


def html(text: str) -> str:
    found = render_html(text)
    assert found is not None
    return found.strip()


def test_what_people_expect_of_markdown_is_there() -> None:
    text = "# T\n\n**b** *i* ~~s~~ `c`\n\n- one\n  - two\n\n3. three\n\n> q\n\n---\n\n```python\nx < 1\n```"
    found = html(text)
    for tag in (
        "<h1>",
        "<strong>",
        "<em>",
        "<s>",
        "<code>",
        "<ul>",
        '<ol start="3">',
        "<blockquote>",
        "<hr>",
    ):
        assert tag in found
    assert '<pre><code class="language-python">x &lt; 1\n</code></pre>' in found


def test_a_table_keeps_its_alignment_without_a_style() -> None:
    found = html("|a|b|\n|:-|-:|\n|1|2|")
    assert '<th align="left">a</th>' in found and '<td align="right">2</td>' in found
    assert "style" not in found


def test_a_single_line_break_stays_a_line_break() -> None:
    assert html("one\ntwo") == "<p>one<br>\ntwo</p>"


def test_links_open_elsewhere_and_tell_nothing() -> None:
    for text in ("[x](https://example.org/a?b=1&c=2)", "https://example.org/a?b=1&c=2"):
        found = html(text)
        assert 'href="https://example.org/a?b=1&amp;c=2"' in found
        assert 'rel="noopener noreferrer nofollow"' in found and 'target="_blank"' in found


@pytest.mark.parametrize("text", ["main.py", "README.md", "see src/app.rs and 10.0.0.1", "a@b.sh"])
def test_a_file_name_is_not_a_link(text: str) -> None:
    assert html(text) == f"<p>{text}</p>"


def test_an_image_is_a_link_and_never_loaded() -> None:
    found = html("![a <cat>](https://evil.example/p.png?secret=1)")
    assert "<img" not in found
    assert re.fullmatch(
        r'<p><a href="https://evil\.example/p\.png\?secret=1"[^>]*>\[image: a &lt;cat&gt;]</a></p>', found
    )


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg/onload=alert(1)>",
        "<iframe src=//evil.example></iframe>",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](java\tscript:alert(1))",
        "[x](&#106;avascript:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "[x](vbscript:x)",
        "![x](javascript:alert(1))",
        "![x](data:image/svg+xml;base64,PHN2Zz4=)",
        '[x](https://a "onmouseover=alert(1)")',
        "<a href='javascript:alert(1)'>x</a>",
        "[x](//evil.example/a)",
        "[x](/v1/sessions)",
        "`<script>`\n\n    <script>",
        "<style>*{display:none}</style>",
        "<form action=/v1/login><input name=token></form>",
        "```x onclick=alert(1)\ny\n```",
        "</div></main><h1>",
    ],
)
def test_nothing_active_gets_through(text: str) -> None:
    found = html(text)
    tags = set(re.findall(r"<\s*([a-z0-9]+)", found))
    assert not tags & {
        "script",
        "img",
        "svg",
        "iframe",
        "style",
        "form",
        "input",
        "div",
        "main",
        "object",
        "math",
    }
    attributes = {name for tag in re.findall(r"<[a-z0-9]+([^>]*)>", found) for name in re.findall(r"([a-z]+)=\"", tag)}
    assert attributes <= {"href", "title", "rel", "target", "class", "start", "align"}
    for address in re.findall(r'href="([^"]*)"', found):
        assert address.startswith(("https://", "http://", "mailto:")), address


@pytest.mark.parametrize(
    ("raw", "left"),
    [
        ("<script>x</script>a", "a"),
        ("<img src=http://evil.example/x onerror=y>a", "a"),
        ("<p style='position:fixed' id=send onclick=x>a</p>", "<p>a</p>"),
        ("<iframe src=x></iframe><object data=x></object>a", "a"),
    ],
)
def test_the_sanitiser_does_not_rely_on_the_markdown_in_front_of_it(raw: str, left: str) -> None:
    assert sanitise(raw) == left


@pytest.mark.parametrize(
    "address", ["javascript:x", "data:text/html,x", "vbscript:x", "/v1/sessions", "//evil.example"]
)
def test_the_sanitiser_takes_an_address_it_does_not_know_away(address: str) -> None:
    found = sanitise(f"<a href='{address}'>a</a>")
    assert "href" not in found and found.endswith(">a</a>")


def test_a_text_that_is_too_long_is_left_as_it_is() -> None:
    assert render_html("x" * (MAX_FORMATTED_CHARS + 1)) is None
    assert render_html("x" * MAX_FORMATTED_CHARS) is not None


@pytest.mark.parametrize(
    "piece",
    [
        "[",
        "![",
        "*a ",
        "**a*b",
        "> ",
        "- ",
        "`",
        "<",
        "](",
        "|a",
        "_a_ ",
        "http://",
        "&",
        "~~a",
        "\\",
        "[a](",
        "***",
    ],
)
def test_no_text_makes_the_page_hang(piece: str) -> None:
    begun = time.process_time()
    render_html(piece * (20_000 // len(piece)))
    assert time.process_time() - begun < 10
