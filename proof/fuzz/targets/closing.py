"""Closing text: what a block says, and whether it was said before (Laws 5 and 8).

The pieces of a block do not depend on how it streams in; only markup is removed, so every character of a piece stood
in the text, in order, and none but markup and padding is missing; without other destinations text is text; fences are
text. The verbatim form is a fixed point (but for prose that reads as a fence once it is trimmed), and a held block is
an echo exactly where the forms are equal.
"""

from __future__ import annotations

import re
from typing import Any

from proof.fuzz.source import Source
from semel.law import commands
from semel.law.access import read_pairing_message
from semel.law.echo import is_quiet
from semel.text.fences import find_fences
from semel.text.graphemes import nfc
from semel.text.message_markup import Internal, MarkupProblem, MarkupReader, Piece, Said
from semel.text.verbatim import EchoHold, verbatim_digest, verbatim_form
from semel.text.visible import is_blank

NAMES = ("ops", "ann", "Ops & Co")
MARKS = [
    '<message to="ops">', "<message to='ann'>", "<message to=ops>", '<message to="nobody">', "<message>",
    "</message>", "<MESSAGE TO=\"ops\" x='1'>", '<message to="Ops &amp; Co">', "<internal>", "</internal>",
    "<internal/>", "<mess", '<message to="ops"/>', "<message to=", "<message to=\"a\" to='b'>", "```\n", "```", "`",
    "``", "~~~\n", "\n", "\r\n", " ", "  \n", "\t", "text ", "body", "é", "\ud800", "<", ">", "</", "\\", "&#x41;",
    "\u00a0", "x" * 600, "`" * 70,
]  # fmt: skip


def one(data: bytes) -> None:
    source = Source(data)
    which, most = source.number(4), source.pick([400, 400, 400, 800, 800, 800, 1500, 1500, 1500, 4000, 4000, 40_000])
    cuts = Source(source.take(8))
    text = (source.writing(MARKS) if which < 3 else source.writing())[:most]
    _marked(cuts, text)
    _as_written(cuts, text[:200])
    _held(cuts, text[:800])
    _commands(text)


def _marked(source: Source, text: str) -> None:
    assert _pieces([text], False) == ([Said(None, text)] if text else []), "without destinations, text is text"
    whole = _joined(_pieces([text], True))
    assert _joined(_pieces(source.cuts(text), True)) == whole, "the pieces depend on the chunks"
    at = 0
    for piece in whole:
        assert isinstance(piece, Said | Internal | MarkupProblem)
        assert not isinstance(piece, Said) or piece.dest in (None, *NAMES)
    home = "".join(piece.text for piece in whole if isinstance(piece, Said) and piece.dest is None)
    for char in home:  # in order, each once
        at = text.find(char, at) + 1
        assert at, "home text that was not written"
    if "<" not in text:
        assert home == text, "text without a tag was changed"
    kept = sum(len(piece.text) for piece in whole)
    assert kept <= len(text)
    if not re.search("<(message|internal)", text, re.IGNORECASE):
        assert home == text, "text without markup was changed"


def _as_written(source: Source, text: str) -> None:
    """Three texts whose meaning is plain: a tag in a code span, one in a fence, and one that addresses."""
    inner = re.sub(r"[`~\\\\\r\n]", "", text)
    before = source.pick(["", "See ", "one\ntwo "])
    for plain in (f"{before}`x {inner} x` after", f"{before.rstrip()}\n```\n{inner}\n```\nafter"):
        assert _joined(_pieces(source.cuts(plain), True)) == [Said(None, plain)], "markup in what is code"
    body = inner.replace("<", "")
    if not is_blank(body):
        pieces = _pieces(source.cuts(f'{before}<message to="ops">{body}</message>'), True)
        elsewhere = [piece for piece in pieces if not isinstance(piece, Said) or piece.dest is not None]
        assert elsewhere == [Said("ops", body.strip(), True)], "the body is not what was addressed"
        home = "".join(piece.text for piece in pieces if isinstance(piece, Said) and piece.dest is None)
        assert home.strip() == before.strip(), "the rest does not go home"
    hidden = _pieces(source.cuts(f'{before}<message to="ops">a<internal>{body}</internal>b</message>'), True)
    assert Internal(body) in hidden, "what is internal is not"
    assert Said("ops", "ab", True) in hidden, "what is internal was said"


def _pieces(chunks: list[str], addressed: bool) -> list[Piece]:
    reader = MarkupReader(addressed, NAMES)
    found: list[Piece] = []
    for chunk in chunks:
        found += reader.feed(chunk)
        assert reader.waiting <= 600 + 1100
    return found + reader.end()


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Home text in one piece, as far as nothing stands between."""
    out: list[Any] = []
    for piece in pieces:
        home = isinstance(piece, Said) and piece.dest is None
        if home and out and isinstance(out[-1], Said) and out[-1].dest is None:
            out[-1] = Said(None, out[-1].text + piece.text)
        else:
            out.append(piece)
    return out


def _held(source: Source, text: str) -> None:
    form = verbatim_form(text)
    if not _reads_as_fence(text):
        assert verbatim_form(form) == form, "the verbatim form is not a fixed point"
        assert verbatim_digest(text) == verbatim_digest(form)
    assert isinstance(is_quiet(text), bool)
    known = [verbatim_form(one) for one in ("NO_REPLY", text if source.number(2) else text[: source.number(300)] + "x")]
    shown = [_hold(known, chunks) for chunks in ([text], source.cuts(text))]
    for out, echo in shown:
        assert (echo is not None) == bool(form and form in known), "an echo is an equal form, and nothing else"
        assert out == ("" if echo is not None else text), "what is held comes out as it was"


def _reads_as_fence(text: str) -> bool:
    """Whether prose, trimmed, begins as a fence does (it was indented as code, or by what Markdown calls no space)."""
    text = nfc(text)
    at, prose = 0, []
    for fence in find_fences(text):
        prose.append(text[at : fence.lo])
        at = fence.hi
    return any(each.split()[:1] and each.split()[0].startswith(("```", "~~~")) for each in [*prose, text[at:]])


def _hold(known: list[str], chunks: list[str]) -> tuple[str, str | None]:
    hold = EchoHold(known)
    out = "".join([hold.feed(chunk) for chunk in chunks])
    ended = hold.end()
    return out + ended.text, ended.echo


def _commands(text: str) -> None:
    found = commands.read_command(text)
    if isinstance(found, commands.AgentMessage):
        assert found.text in text
        assert text.startswith("/") or found.text == text
    read_pairing_message(text)


_HEAD = b"\x00\x05" + bytes([3, 1, 9, 20, 33, 2, 5, 11])
SEEDS = [
    _HEAD + b"\x00" + b'All done.\n<message to="ops">\n  deployed & well\n</message>\n<internal>no</internal> Bye.',
    _HEAD + b'\x00```\n<message to="ops">in a fence</message>\n```\n`<internal>` in a span',
    _HEAD + b'\x00<message to="nobody">lost</message> <message to="ops">never closed',
    _HEAD + b"\x00/stop the presses", _HEAD + b"\x00NO_REPLY ", _HEAD + "\0e\u0301 \u1100\u1161".encode(),
    _HEAD + b"\x05" + bytes(range(0, 200, 3)), _HEAD + b"\x03\x05\x00\x01\x02\x03\x04\x05",
    b"\x00\x07" + bytes(8) + b"\x03\x03\x0d\x0e\x0f\x01\x02", _HEAD + b"\x06" + bytes(range(80)),
]  # fmt: skip
