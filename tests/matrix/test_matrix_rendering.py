"""Markdown as Matrix shows it, and what an event's content is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.channels.matrix import event_content
from semel.channels.matrix.render import ATTRIBUTES, TAGS, render
from semel.channels.matrix.transport import dump
from semel.gateway.ports import Op


def post(text: str, **more: Any) -> Op:
    return Op(**{"key": "k-1", "kind": "post", "address": "!r:t", "text": text, **more})


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain\nlines\n\nand paragraphs", None),
        ("1 < 2 & 3 > 2", None),
        ("**b** *i* ~~s~~ `c<`", "<p><strong>b</strong> <em>i</em> <s>s</s> <code>c&lt;</code></p>"),
        ("*a*\nb", "<p><em>a</em><br>\nb</p>"),
        ("# H\n\n> q", "<h1>H</h1>\n<blockquote>\n<p>q</p>\n</blockquote>"),
        ("3. x\n4. y", '<ol start="3">\n<li>x</li>\n<li>y</li>\n</ol>'),
        ("```py x\n<b>\n```", '<p>py x</p>\n<pre><code class="language-py">&lt;b&gt;\n</code></pre>'),
        ("[t](https://x.y)", '<p><a href="https://x.y">t</a></p>'),
        ("[t](javascript:alert)", None),
        ("![pic](https://x.y/p.png)", '<p><a href="https://x.y/p.png">pic</a></p>'),
        ("<script>x</script> *y*", "<p>&lt;script&gt;x&lt;/script&gt; <em>y</em></p>"),
        ("[t](file:///etc/passwd) *x*", "<p>[t](file:///etc/passwd) <em>x</em></p>"),
        ("[t](/etc/passwd)", None),
        ("[t](/etc/passwd) *x*", "<p>t (/etc/passwd) <em>x</em></p>"),
        ("see main.py, README.md, www.x.org and a@b.com", None),
        ("see https://x.y/a_b_c", '<p>see <a href="https://x.y/a_b_c">https://x.y/a_b_c</a></p>'),
    ],
)
def test_a_text_is_formatted_as_clients_show_it(text: str, html: str | None) -> None:
    rendered = render(text)
    assert (rendered.html, rendered.body) == (html, text)


def test_a_table_is_one() -> None:
    html = render("|a|b|\n|-|:-:|\n|1|2|").html or ""
    assert re.sub(r"\s", "", html) == (
        "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>"
    )


def test_a_person_who_is_named_is_notified_and_nobody_else() -> None:
    rendered = render("ask @ada:example.org, `@not:me.org` or mail a@b:c; @room [x](https://matrix.to/#/@bob:b.org)")
    assert rendered.mentions == ("@ada:example.org", "@bob:b.org")
    assert '<a href="https://matrix.to/#/@ada:example.org">@ada:example.org</a>,' in (rendered.html or "")
    told = event_content.make_message(post("hello @ada:example.org"), "m.text", None)
    assert told["m.mentions"] == {"user_ids": ["@ada:example.org"]}
    assert event_content.make_message(post("@room"), "m.text", None)["m.mentions"] == {}


def test_characters_that_no_client_shows_are_seen_as_pictures() -> None:
    assert render("a\0b\x1b[31mc\td\ne").body == "a␀b␛[31mc\td\ne"


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("ab<>&\"'*_`#[]()!|\\\n -:@/.0"), max_size=80))
def test_nothing_but_the_allowed_tags_comes_out(text: str) -> None:
    for tag, attributes in re.findall(r"<(/?[a-z0-9]+)([^>]*)>", render(text).html or ""):
        assert tag.lstrip("/") in TAGS
        assert set(re.findall(r'([a-z-]+)="', attributes)) <= ATTRIBUTES.get(tag, set())


@settings(max_examples=15, deadline=None)
@given(st.text(alphabet=st.sampled_from('*a"\n\\<ü|`# '), min_size=1, max_size=60))
def test_every_part_fits_into_an_event(piece: str) -> None:
    text = (piece * 2000)[:2000]
    made, changed = (
        event_content.make_message(post(text), "m.text", None),
        event_content.make_edit(post(text, target="$e"), "m.text"),
    )
    assert len(dump(made)) <= event_content.MAX_CONTENT_BYTES and len(dump(changed)) <= event_content.MAX_CONTENT_BYTES
    assert made["body"] == changed["m.new_content"]["body"] == text


@pytest.mark.parametrize("piece", ["*a* ", '"', "ü"])
def test_what_is_too_long_for_its_formatting_goes_plain_and_whole(piece: str) -> None:
    text = (piece * event_content.MAX_TEXT_BYTES).encode()[: event_content.MAX_TEXT_BYTES].decode(errors="ignore")
    made, changed = (
        event_content.make_message(post(text), "m.text", None),
        event_content.make_edit(post(text, target="$e"), "m.text"),
    )
    assert len(dump(made)) <= event_content.MAX_CONTENT_BYTES and len(dump(changed)) <= event_content.MAX_CONTENT_BYTES
    assert made["body"] == changed["m.new_content"]["body"] == text


def test_a_deliberate_repeat_says_that_it_is_one() -> None:
    assert event_content.make_message(post("hello", marked=True), "m.text", None)["body"] == "(repeat) hello"
    assert (
        event_content.make_file_message(post("", marked=True), "m.file", "a.txt", "mxc://a/b", {}, None)["body"]
        == "(repeat) a.txt"
    )


def test_a_file_without_a_caption_is_called_by_its_name() -> None:
    made = event_content.make_file_message(
        post(" "), "m.file", "a *b*.txt", "mxc://a/b", {"size": 1}, {"rel_type": "m.thread"}
    )
    assert (made["body"], made["filename"], made["info"]) == ("a *b*.txt", "a *b*.txt", {"size": 1})
    assert "formatted_body" not in made and made["m.relates_to"] == {"rel_type": "m.thread"}


PICTURES = {
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\0\2": (256, 2),
    b"GIF89a\x03\0\x04\0": (3, 4),
    b"\xff\xd8\xff\xe0\0\x04ab\xff\xc2\0\x11\x08\0\x07\0\x05": (5, 7),
    b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x09\0\0\x04\0\0": (10, 5),
    b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 10 + b"\x20\0\x10\0": (32, 16),
    b"RIFF\0\0\0\0WEBPVP8L" + b"\0" * 5 + b"\x07\xc0\0\0": (8, 4),
}


@pytest.mark.parametrize("data", PICTURES)
def test_a_picture_knows_its_size(data: bytes) -> None:
    assert event_content.image_size(data) == PICTURES[data]


@settings(deadline=None)
@given(st.binary(max_size=60), st.sampled_from(list(PICTURES)), st.integers(0, 40))
def test_what_is_no_picture_has_no_size_and_no_error(noise: bytes, head: bytes, cut: int) -> None:
    for data in (noise, head[:cut], head[:cut] + noise):
        size = event_content.image_size(data)
        assert size is None or len(size) == 2


def test_a_file_is_shown_as_what_it_is() -> None:
    kinds = {"image/png": "m.image", "audio/ogg": "m.audio", "video/mp4": "m.video", "text/plain": "m.file"}
    assert {mime: event_content.msgtype_of(mime) for mime in kinds} == kinds
    assert event_content.msgtype_of("image/svg+xml") == "m.file", "a picture that may hold a program"
