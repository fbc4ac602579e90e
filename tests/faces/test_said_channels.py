"""What leaves for a chat loses no character of what was said, and nothing in it commands the reader's screen."""

from __future__ import annotations

import json
from collections.abc import Callable
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from functools import cache
from html.parser import HTMLParser

import pytest
from said_judge import MUST_NOT_SHOW, missing
from said_texts import texts

from fewer_cases import list_seeds
from semel.channels import webhook
from semel.channels.email.compose import compose
from semel.channels.email.settings import EmailSettings
from semel.channels.matrix.render import Rendered
from semel.channels.matrix.render import render as matrix
from semel.channels.telegram.render import render as telegram
from semel.channels.xmpp.render import render
from semel.channels.xmpp.xml import clean
from semel.gateway.ports import Op

COUNT = 200
Shown = tuple[str, list[str]]


def test_it_sees_what_is_missing() -> None:
    """The judge itself."""
    for said, shown in LOST:
        assert missing(said, shown) is not None, (said, shown)
    for said, shown in KEPT:
        assert missing(said, shown) is None, (said, shown, missing(said, shown))


# fmt: off
LOST = [
    ("<important> x", "x"), ("List<String> l", "List l"), ("a < b", "a  b"), ("[INFO]: done", ""), ("2 * 3", "2  3"),
    ("a_b_c", "abc"), ("a &amp; b", "a & b"), ("\x1b[31mred", "[31mred"), ("x\u202ey", "xy"),
    ("x\u202ey", "x\u202ey"), ("7. a", "a"), ("one two", "onetwo"), ("a *b", "a b"), ("`<b>`", "b"), ("#5", "5"),
    ("one\ntwo", "onetwo"), ("```\n**a**\n```", "a"), ("\\\\srv", "\\srv"), ("x > y", "x y"), ("~5", "5"),
    ("two one", "one two"), ("[a](b.py)", "a"),
]
KEPT = [
    ("**a** b", "a b"), ("`<b>`", "<b>"), ("# a", "a"), ("- a\n- b", "a\nb"), ("|a|b|\n|-|-|\n|1|2|", "a\tb\n1\t2"),
    ("\\*a", "*a"), ("<https://x.y>", "https://x.y"), ("\x1bx", "\u241bx"), ("a\r\nb", "a\nb"),
    ("```py\n<b>\n```", "<b>"), ("x\u202ey", "x<U+202E>y"), ("---", ""), ("a\n===", "a"), ("> a", "a"),
    ("[a](b.py)", "a (b.py)"), ("7. a", "7. a"),
]
# fmt: on


class Reading(HTMLParser):
    """What a person reads of HTML: its text, blocks apart, numbers of lists, and the addresses that can be followed."""

    BLOCKS = frozenset(
        [
            "p",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "li",
            "ul",
            "ol",
            "pre",
            "blockquote",
            "table",
            "tr",
            "td",
            "th",
            "hr",
            "br",
            "div",
        ]
    )

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.addresses: list[str] = []
        self.lists: list[int | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag in self.BLOCKS:
            self.text.append("\n")
        if tag == "a" and told.get("href"):
            self.addresses.append(str(told["href"]))
        if tag == "ol":
            self.lists.append(int(told.get("start") or 1))
        if tag == "ul":
            self.lists.append(None)
        if tag == "li" and self.lists and self.lists[-1] is not None:
            self.text.append(f"{self.lists[-1]}. ")
            self.lists[-1] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag in self.BLOCKS:
            self.text.append("\n")
        if tag in ("ol", "ul"):
            self.lists.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> Shown:
    reading = Reading()
    reading.feed(page)
    reading.close()
    return "".join(reading.text), reading.addresses


def post(text: str) -> Op:
    return Op(key="k" * 24, kind="post", address="ann@example.org", text=text, session="s", at=1.0)


def in_telegram(text: str) -> Shown:
    shown, entities = telegram(text, 4096)
    return shown, [each["url"] for each in entities if "url" in each]


@cache
def _in_matrix(text: str) -> Rendered:
    return matrix(text)


def in_matrix(text: str) -> Shown:
    rendered = _in_matrix(text)
    return (rendered.body, []) if rendered.html is None else read(rendered.html)


def in_matrix_plain(text: str) -> Shown:
    return _in_matrix(text).body, []


def in_xmpp(text: str) -> Shown:
    return clean(render(text, 100_000)), []


@cache
def _mail_of(text: str) -> EmailMessage:
    settings = EmailSettings(
        address="s@example.org", imap="imap.example.org", smtp="smtp.example.org", password="x", authserv="a"
    )
    return message_from_bytes(compose(post(text), settings, None), policy=default)


def _mail(text: str, kind: str) -> str:
    part = _mail_of(text).get_body((kind,))
    assert part is not None
    return str(part.get_content())


def in_mail_text(text: str) -> Shown:
    return _mail(text, "plain"), []


def in_mail_html(text: str) -> Shown:
    return read(_mail(text, "html").partition("<body>")[2].partition("</body>")[0])


def in_webhook(text: str) -> Shown:
    """A program reads it: it is given exactly what was said."""
    told = json.loads(webhook.make_payload(post(text)))["data"]["text"]
    assert told == text
    return MUST_NOT_SHOW.sub("\ufffd", told), []


FACES = [in_telegram, in_matrix, in_matrix_plain, in_xmpp, in_mail_text, in_mail_html, in_webhook]


@pytest.mark.parametrize("seed", list_seeds(4))
@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_a_channel_shows_every_character_that_was_said(face: Callable[[str], Shown], seed: int) -> None:
    for text in texts(seed, COUNT):
        if text.strip():
            shown, addresses = face(text)
            lost = missing(text, shown, addresses)
            assert lost is None, lost
