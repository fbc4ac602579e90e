"""Extract the text and the files from a mail's body (RFC 2045-2049).

Malformed or hostile input raises nothing: it is read as far as possible, within limits on parts, depth and bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from semel.channels.email.html_to_text import MAX_HTML_CHARS as MOST_HTML
from semel.channels.email.html_to_text import readable
from semel.channels.email.parse_headers import Mail, decoded, to_text

TEXT_MOST = 60_000
"""Characters of a mail's text in the message; of a longer one, the whole text is attached as a file, too."""
MAX_TEXT_PART_BYTES = 4_000_000
"""Bytes that are decoded of one text part."""
FILES_MOST = 50
PARTS_MOST = 500
DEEPEST = 30

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_SIGNATURES = frozenset(
    (
        "application/pkcs7-signature",
        "application/x-pkcs7-signature",
        "application/pgp-signature",
        "application/pgp-keys",
    )
)
_PKCS7 = ("application/pkcs7-mime", "application/x-pkcs7-mime")
_NAMES = {
    "text/calendar": "invite.ics",
    "message/rfc822": "mail.eml",
    "text/html": "mail.html",
    "text/plain": "text.txt",
}


@dataclass(frozen=True)
class Attachment:
    """A file of a mail. If `content` is None, `why` says why it is missing."""

    name: str
    mime: str
    content: bytes | None = None
    why: str = ""


@dataclass
class Body:
    """The texts and files of a mail. `sealed` names the encryption ("" if the mail is not encrypted)."""

    texts: list[str] = field(default_factory=list)
    files: list[Attachment] = field(default_factory=list)
    sealed: str = ""
    parts: int = 0
    cut: bool = False  # a limit was exceeded, and content left out
    seen: int = 0  # files in the mail, also those above the limit

    @property
    def text(self) -> str:
        return "\n\n".join(each for each in self.texts if each.strip())


def body(mail: Mail, *, cut: str = "") -> Body:
    """Read a mail's body. `cut`: why files are missing, if `mail` is only the beginning of a mail."""
    found = Body()
    _walk(mail, found, cut, 0)
    return found


def _walk(part: Mail, found: Body, cut: str, depth: int) -> None:
    found.parts += 1
    if found.parts > PARTS_MOST or depth > DEEPEST:
        found.cut = True
        return
    kind = part.get_content_type()
    if sealed := _sealed(part, kind):
        found.sealed = found.sealed or sealed
    inner = _inner(part)
    if kind == "message/rfc822" or (inner is None and not _is_text(part, kind)):
        _keep(part, kind, found, cut)
    elif inner is None:
        _read_text_part(part, kind, found)
    elif kind == "multipart/alternative":
        _choose(inner, found, cut, depth)
    else:
        for each in inner:
            _walk(each, found, cut, depth + 1)


def _inner(part: Mail) -> list[Mail] | None:
    payload: Any = part.get_payload()
    return [each for each in payload if isinstance(each, Message)] if isinstance(payload, list) else None


def _sealed(part: Mail, kind: str) -> str:
    if kind == "multipart/encrypted":
        return "PGP"
    if kind in _PKCS7:
        return "S/MIME, signed and wrapped" if _parameter(part, "smime-type") == "signed-data" else "S/MIME"
    return ""


def _is_text(part: Mail, kind: str) -> bool:
    return kind in ("text/plain", "text/html") and _disposition(part) != "attachment" and not _told_name(part)


def _choose(parts: list[Mail], found: Body, cut: str, depth: int) -> None:
    """multipart/alternative: take the plain text if it is not blank, else the HTML as text.

    Files of all alternatives, such as calendar invitations, are kept.
    """
    ways: list[Body] = []
    for each in parts:
        way = Body(parts=found.parts, seen=found.seen)
        _walk(each, way, cut, depth + 1)
        found.parts = way.parts
        found.cut = found.cut or way.cut
        ways.append(way)
    said = [(each, way) for each, way in zip(parts, ways, strict=True) if way.text.strip()]
    said.sort(key=lambda pair: pair[0].get_content_type() != "text/plain")
    if said:
        found.texts += said[0][1].texts
    for way in ways:
        found.sealed = found.sealed or way.sealed
        for file in way.files:
            _add(found, file)


def _read_text_part(part: Mail, kind: str, found: Body) -> None:
    content = _content(part)
    found.cut = found.cut or len(content) > MAX_TEXT_PART_BYTES
    text = to_text(content[:MAX_TEXT_PART_BYTES], _charset(part))
    if kind == "text/html":
        found.cut = found.cut or len(text) > MOST_HTML
        text = readable(text)
    elif _parameter(part, "format") == "flowed":
        text = unflowed(text, _parameter(part, "delsp") == "yes")
    found.texts.append(clean(text))


def _keep(part: Mail, kind: str, found: Body, cut: str) -> None:
    if kind in _SIGNATURES or kind == "application/pgp-encrypted":
        return
    name = file_name(_told_name(part), kind)
    if cut:
        _add(found, Attachment(name, kind, None, cut))
        return
    content = _inner_bytes(part) if kind == "message/rfc822" else _content(part)
    if content is None:
        _add(found, Attachment(name, kind, None, "it could not be read"))
    elif content or _told_name(part):
        _add(found, Attachment(name, kind, content))


def _add(found: Body, file: Attachment) -> None:
    found.seen += 1
    if len(found.files) < FILES_MOST:
        found.files.append(file)
    else:
        found.cut = True


def clean(text: str) -> str:
    """Normalize line breaks to "\\n"; remove control characters, trailing white space and blank lines at both ends."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\ufeff", "")
    return _CONTROL.sub("", "\n".join(line.rstrip() for line in text.split("\n"))).strip("\n")


def unflowed(text: str, delete_space: bool) -> str:
    """Join the lines of format=flowed text (RFC 3676): one that ends in a space continues at the same quote depth."""
    lines: list[list[str]] = []
    flows: int | None = None  # quote depth of the line to be continued
    for line in text.replace("\r\n", "\n").split("\n"):
        depth = len(line) - len(line.lstrip(">"))
        words = line[depth:].removeprefix(" ")
        soft = words.endswith(" ") and words != "-- "
        goes_on = flows == depth and words != "-- "
        flows = depth if soft else None
        if soft and delete_space:
            words = words[:-1]
        if goes_on:
            lines[-1].append(words)
        else:
            lines.append([">" * depth + (" " if depth else ""), words])
    return "\n".join("".join(pieces) for pieces in lines)


def file_name(told: str, mime: str) -> str:
    """A safe file name: without folders or leading dots, at most 150 characters. Derived from `mime` if `told` is
    empty."""
    name = _CONTROL.sub("", told).replace("\\", "/").rpartition("/")[2].strip().lstrip(".")
    name = re.sub(r'[<>:"|?*\n\t]', "_", name)
    if not name:
        return _NAMES.get(mime) or f"file.{re.sub('[^a-z0-9]', '', mime.rpartition('/')[2])[:10] or 'bin'}"
    stem, dot, end = name.rpartition(".")
    return name if len(name) <= 150 else f"{(stem or name)[:130]}{dot}{end[:19] if stem else ''}"


def _told_name(part: Mail) -> str:
    try:
        return decoded(part.get_filename() or "")
    except Exception:  # parameters that the standard library cannot put together (RFC 2231)
        return "file"


def _disposition(part: Mail) -> str:
    try:
        return part.get_content_disposition() or ""
    except Exception:
        return ""


def _parameter(part: Mail, name: str) -> str:
    try:
        value = part.get_param(name, "")
    except Exception:
        return ""
    return value.lower() if isinstance(value, str) else ""


def _charset(part: Mail) -> str | None:
    try:
        return part.get_content_charset()
    except Exception:
        return None


def _content(part: Mail) -> bytes:
    """The part's decoded bytes; a broken transfer encoding is decoded as far as possible."""
    try:
        payload = part.get_payload(decode=True)
    except Exception:
        payload = str(part.get_payload()).encode("utf-8", "surrogateescape")
    return payload if isinstance(payload, bytes) else b""


def _inner_bytes(part: Mail) -> bytes | None:
    try:
        return b"".join(each.as_bytes() for each in _inner(part) or [])
    except Exception:  # some headers can be parsed but not serialized
        return None
