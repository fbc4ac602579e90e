"""A mail may hold anything: reading one never fails, never hangs, and tells only what the gateway can take."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from letters import PASSED, heard, raw, settings

from semel.channels.email.address import parse_address
from semel.channels.email.parse import ParsedMail, parse_mail
from semel.channels.html_to_text import convert_html
from semel.law.identity import check_event_key

HEADERS = (
    *("From", "To", "Cc", "Subject", "Message-ID", "References", "In-Reply-To", "Date", "Content-Type", "X"),
    *("Content-Transfer-Encoding", "Content-Disposition", "Authentication-Results", "Auto-Submitted", "MIME-Version"),
)
VALUES = (
    *(
        "ada@people.org",
        "Ada <ada@people.org>",
        "<",
        ">",
        '"',
        "(",
        ")",
        ";",
        ",",
        "=",
        "=?",
        "?=",
        "group:",
        "@",
        "..",
    ),
    *("=?utf-8?b?w4Q=?=", "=?utf-8?q?=C3?=", "=?rot13?q?x?=", "multipart/mixed", "multipart/alternative"),
    *("multipart/report", "message/rfc822", "message/delivery-status", "text/plain", "text/html", "; boundary=b"),
    *("text/rfc822-headers", '; boundary="', "; charset=", "utf-16", "unicode_escape", "idna", "punycode"),
    *("; name*0*=utf-8''%C3", "; name*1=x", "; filename*=x''%", "base64", "quoted-printable", "x-uuencode", "7bit"),
    *("attachment", "inline", "<semel.a.0123456789abcdef@example.org>", "<1@people.org>", PASSED, "/", "\\"),
    *("Sat, 99 Nov 99999 10:00:00 +9999", "\t", " ", "\x00", "\xff", "\r\n ", "\u20ac", "\ud800"),
    "application/pkcs7-mime",
)
BODIES = (
    "--b\r\n",
    "--b--\r\n",
    "\r\n",
    "words ",
    "<p>",
    "<a href='",
    "<!--",
    "&#",
    "SGVs",
    "=C3=",
    "> ",
    "begin 644 x\r\n",
)

line = st.builds(
    lambda name, values: f"{name}: {''.join(values)}\r\n",
    st.sampled_from(HEADERS),
    st.lists(st.sampled_from(VALUES) | st.text(max_size=5), max_size=6),
)
mails = st.builds(
    lambda lines, body, tail: ("".join(lines) + "\r\n" + "".join(body)).encode("utf-8", "surrogatepass") + tail,
    st.lists(line, max_size=10),
    st.lists(st.sampled_from(BODIES) | line | st.text(max_size=20), max_size=15),
    st.binary(max_size=30),
)


def check(letter: ParsedMail) -> None:
    """It can be put."""
    check_event_key(letter.key)
    if letter.kind == "unreadable":
        assert letter.reason
        return
    for words in (letter.text, letter.title, letter.address, letter.sender.name if letter.sender else ""):
        words.encode("utf-8")
        assert "\0" not in words
    assert "\n" not in letter.title
    if letter.kind == "message":
        assert letter.sender is not None and letter.sender.id
        if letter.address.isascii():
            assert parse_address(letter.address) is not None
    for file in letter.files:
        assert "/" not in file.name and file.name not in ("", ".", "..")


@hypothesis_settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mails)
def test_any_mail_is_read(one: bytes) -> None:
    check(parse_mail(one, settings()))


@hypothesis_settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read(one: bytes) -> None:
    check(parse_mail(one, settings()))
    letter = parse_mail(one, settings(trust_from=True), size=10**9)
    check(letter)
    assert letter.kind != "unreadable" or letter.raw == one


def test_a_good_mail_with_any_byte_changed_is_read() -> None:
    good = (
        f"Authentication-Results: {PASSED}\r\nFrom: =?utf-8?q?=C3=84da?= <ada@people.org>\r\nTo: semel@example.org\r\n"
        "Subject: Engines\r\nMessage-ID: <1@people.org>\r\nReferences: <0@people.org>\r\nMIME-Version: 1.0\r\n"
        'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\nContent-Type: text/html; charset=utf-8\r\n'
        "Content-Transfer-Encoding: quoted-printable\r\n\r\n<p>H=C3=A4llo</p>\r\n--b\r\n"
        "Content-Type: application/pdf\r\n"
        "Content-Disposition: attachment; filename*=utf-8''%C3%A4.pdf\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        "JVBERg==\r\n--b--\r\n"
    ).encode()
    assert heard(good).text == "Hällo"
    dice = random.Random(6)
    for _ in range(200):
        odd = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            odd[dice.randrange(len(odd))] = dice.randrange(256)
        check(parse_mail(bytes(odd), settings()))
        check(parse_mail(good[: dice.randrange(len(good))], settings(), size=len(good)))


@hypothesis_settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from("<>/=\"'!-& abpdiv#;\n\xa0") | st.characters(), max_size=200))
def test_any_html_is_read(html: str) -> None:
    shown = convert_html(html)
    assert "\0" not in shown


def test_html_that_was_made_to_take_long_does_not() -> None:
    for piece in (
        "<div>",
        "<b id=1><p>",
        "<!--",
        "<a href='",
        "&",
        "<ul><li>",
        "<blockquote>",
        "</div>",
        "<x ",
        "<svg>",
    ):
        convert_html(piece * (100_000 // len(piece)))  # each took minutes with a parser that repairs


def test_text_that_was_made_to_take_long_does_not() -> None:
    for kind, body in (
        ("text/plain", b"a" + b"\n" * 100_000 + b"b"),
        ("text/plain; format=flowed", b"words \n" * 50_000),
        ("text/plain", b"-" * 200_000),
        ("text/plain", b"On " + b"x" * 200_000 + b"\n> y"),
        ("text/plain", b"> \n" * 50_000),
        ("text/plain", b"From: x\n\n" * 20_000),
    ):
        headers = f"In-Reply-To: <semel.a@example.org>\nContent-Type: {kind}"
        check(heard(raw(headers, body)))
