"""Markdown in each platform's dialect: what people see is what the agent wrote, and nothing active.

Nothing raises, the same text gives the same, limits hold; a text without markup keeps every letter; entities lie
within the text; XML is well-formed; HTML holds no script, no foreign address and no handler; a mail read back is the
text that was written.
"""

from __future__ import annotations

import email
import json
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

from proof.fuzz.source import Source
from semel.channels.email import render
from semel.channels.email.compose import _text_to_send, compose
from semel.channels.email.parse import parse_mail
from semel.channels.email.settings import EmailSettings
from semel.channels.matrix import event_content as matrix_content
from semel.channels.matrix.render import ATTRIBUTES, SCHEMES, TAGS
from semel.channels.matrix.render import render as matrix
from semel.channels.telegram.render import render as telegram
from semel.channels.telegram.send import MAX_CAPTION_UNITS, MAX_TEXT_UNITS, make_call
from semel.channels.webhook import make_payload
from semel.channels.xmpp import send
from semel.channels.xmpp.render import render as xmpp
from semel.channels.xmpp.xml import clean
from semel.faces.documents.markdown import contain_markdown
from semel.faces.http import markdown as page
from semel.gateway.ports import Op, Rejected

MAIL = EmailSettings("bot@example.org", "imap.example.org", "smtp.example.org", "secret", authserv="mx.example.org")
ENTITIES = {"bold", "italic", "strikethrough", "code", "pre", "text_link", "blockquote"}
MOST = 4096
"""Characters, as many as Telegram takes in one message: each input is rendered several times."""
PLAIN = re.compile(r"[^`*_~\[\]()<>&\\!|#:@/\-+=.\d]*")
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
STAND_IN = re.compile("[\u2400-\u2421\ufffd]|<U\\+[0-9A-F]{4}>")
ACTIVE = {"script", "style", "iframe", "object", "embed", "img", "svg", "form", "input", "link", "meta", "base"}


def one(data: bytes) -> None:
    source = Source(data)
    which = source.number(6)
    text = source.writing()[:MOST]
    [_telegram, _matrix, _xmpp, _mail, _page, _documents][which](text, source)


def _letters(text: str) -> str:
    return "".join(char for char in text if char.isalnum())


def _replaced(text: str) -> str:
    """The text with one U+FFFD for each character that nobody can see."""
    return UNSEEN.sub("\ufffd", text.replace("\r\n", "\n"))


def _keeps(text: str, shown: str) -> None:
    """No letter is lost where there is no markup to remove."""
    if PLAIN.fullmatch(text):
        assert _letters(STAND_IN.sub("", shown)) == _letters(text), "letters of the text are gone"


def _telegram(text: str, source: Source) -> None:
    most = source.pick([MAX_TEXT_UNITS, MAX_CAPTION_UNITS, 10])
    shown, entities = telegram(text, most)
    assert telegram(text, most) == (shown, entities)
    assert len(shown.encode("utf-16-le", "surrogatepass")) <= 2 * most or shown == _replaced(text.strip())
    _keeps(text, shown)
    raw = shown.encode("utf-16-le", "surrogatepass")
    for each in entities:
        lo, hi = each["offset"] * 2, (each["offset"] + each["length"]) * 2
        assert each["type"] in ENTITIES and 0 <= lo < hi <= len(raw)
        under = raw[lo:hi].decode("utf-16-le")  # an entity that begins inside of a character raises
        assert under and under == under.strip(), f"an entity over {under!r}"
    assert len(entities) <= 100
    spans = [(each["offset"], each["offset"] + each["length"]) for each in entities]
    assert not any(a < c < b < d for a, b in spans for c, d in spans), "entities that overlap"
    try:
        call = make_call(_op(text, "-100"), {}, plain=False, previews=False)
    except Rejected:
        assert not shown.strip()
        return
    json.dumps(call.params).encode("ascii")


def _op(text: str, address: str) -> Op:
    return Op("key-1", "post", address, text, at=1_790_000_000.0)


def _matrix(text: str, source: Source) -> None:
    rendered = matrix(text)
    assert matrix(text) == rendered
    assert not UNSEEN.search(rendered.body), "a control character is sent"
    assert STAND_IN.sub("\ufffd", rendered.body) == STAND_IN.sub("\ufffd", _replaced(text)), (
        "the body says something else"
    )
    if rendered.html is not None:
        _inactive(rendered.html, TAGS, SCHEMES | {""}, ATTRIBUTES)
        _keeps(text, _words_of(rendered.html))
    told = matrix_content.make_message(_op(text[: matrix_content.MAX_TEXT_BYTES // 4], "!r:x"), "m.text", None)
    assert len(matrix_content.dump(told)) <= 65_000
    assert all(re.fullmatch(r"@[^\s:]+:\S+", user) for user in rendered.mentions)


def _xmpp(text: str, source: Source) -> None:
    body = xmpp(clean(text), send.MAX_BODY_BYTES)
    assert xmpp(clean(text), send.MAX_BODY_BYTES) == body
    assert len(body.encode()) <= send.MAX_BODY_BYTES or body == clean(text)
    _keeps(text, body)
    stanza = send.build_message(
        _op(text, "ann@x.y"), bool(source.number(2)), send.MessageReferences(thread=text[:50], url="http://x")
    )
    again = ElementTree.fromstring(ElementTree.tostring(stanza))
    assert again.findtext("{jabber:client}body") == body, "the body changes on the wire"


def _mail(text: str, source: Source) -> None:
    try:
        raw = compose(_op(text, "ann@example.org"), MAIL, None)
    except Rejected:
        return
    assert compose(_op(text, "ann@example.org"), MAIL, None) == raw, "a retry has other bytes"
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    head = raw.partition(b"\r\n\r\n")[0].decode("ascii")
    names = re.findall(r"(?m)^([A-Za-z-]+):", head)
    assert len(names) == len(set(names)) and {"From", "To", "Message-ID"} <= set(names)
    told = email.message_from_bytes(raw)
    plain = next(part for part in told.walk() if part.get_content_type() == "text/plain")
    decoded: Any = plain.get_payload(decode=True)
    said = decoded.decode("utf-8").replace("\r\n", "\n")
    assert said.rstrip("\n") == _text_to_send(_op(text, "")).rstrip("\n"), "the mail says something else"
    assert parse_mail(raw, MAIL).kind == "echo", "our own mail is not known again"
    html = render.render_page(text.encode("utf-8", "replace").decode())
    if html is not None:
        _inactive(
            html.partition("<body>")[2],
            render._TAGS | {"body", "html"},
            {"http", "https", "mailto", "tel", "xmpp", "matrix", ""},
        )


def _page(text: str, source: Source) -> None:
    html = page.render_html(text.encode("utf-8", "replace").decode())
    assert html is not None, "it is too short to be shown as plain text"
    _inactive(html, page.ALLOWED_TAGS, page.ALLOWED_SCHEMES, page.ALLOWED_ATTRIBUTES)
    _keeps(text, _words_of(html))
    page.sanitise(text.encode("utf-8", "replace").decode())


def _documents(text: str, source: Source) -> None:
    kept = contain_markdown(text)
    assert _letters(kept) == _letters(text)
    assert not re.search(r"(?m)^#{1,2} ", re.sub(r"(?ms)^ {0,3}(```|~~~).*?(^ {0,3}\1|\Z)", "", kept)), (
        "a heading breaks out"
    )
    json.loads(make_payload(_op(text, "x")))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _read(html: str) -> _Reader:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader


def _words_of(html: str) -> str:
    return "".join(_read(html).text)


def _inactive(html: str, tags: set[str], schemes: set[str], attributes: Any = None) -> None:
    for tag, told in _read(html).tags:
        assert tag in tags and tag not in ACTIVE, f"<{tag}> in what is shown"
        for name, value in told.items():
            assert not name.startswith("on") and name not in ("src", "srcdoc", "action", "formaction"), name
            if name == "href":
                assert (value or "").partition(":")[0].lower() in schemes, f"a link to {value!r}"


_TEXTS = [
    "# Head\n\nSome **bold** _text_ with `code`, ~~no~~ and a [link](https://x.y/z \"t\").\n\n"
    "1. one\n2. two\n   - deep\n\n> quoted\n\n---\n",
    "```py\nprint('<b>')\n```\n| a | b |\n|---|:-:|\n| 1 | **2** |\n",
    "<script>alert(1)</script> <img src=x onerror=y> &amp; &#x3c;",
    "[x](javascript:alert(1)) ![pic](https://e.v/i.png) <https://a.b> https://c.d/e_f_ main.py @ann:x.y",
    "plain words only\nand a line",
    "👩‍👩‍👧😀 **é\u0301** \u202e abc\x00\x07 \ud800".encode("utf-8", "replace").decode(),
    "- a\n- b\n\n  c\n\n\t- d\n" * 4,
]  # fmt: skip
SEEDS = [bytes([which, 0]) + text.encode() for which in range(6) for text in _TEXTS] + [
    bytes([which, 3, 3, n, n + 1, n + 2, 1, 2]) for which in range(6) for n in (40, 52)
]
LONGEST = 8192
