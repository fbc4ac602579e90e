"""Extract the text and the files from a mail's body (RFC 2045-2049).

Malformed or hostile input raises nothing: it is read as far as possible, within limits on parts, depth and bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, TypeVar

from semel.channels.email.parse_headers import Mail, decode_bytes, decode_words
from semel.channels.html_to_text import MAX_HTML_CHARS, convert_html

Value = TypeVar("Value")

MAX_TEXT_CHARS = 60_000
"""Maximum characters of a mail's text in the message; a longer text is cut there, and attached whole as a file."""
MAX_TEXT_PART_BYTES = 4_000_000
"""Bytes that are decoded of one text part."""
MAX_FILES = 50
MAX_PARTS = 500
MAX_PART_DEPTH = 30

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
    """A file of a mail. If `content` is None, `reason` says why it is missing."""

    name: str
    mime: str
    content: bytes | None = None
    reason: str = ""


@dataclass
class MailBody:
    """The texts and files of a mail. `encryption` names the encryption ("" if the mail is not encrypted)."""

    texts: list[str] = field(default_factory=list)
    files: list[Attachment] = field(default_factory=list)
    encryption: str = ""
    parts: int = 0
    is_cut: bool = False  # a limit was exceeded, and content left out

    @property
    def text(self) -> str:
        return "\n\n".join(text for text in self.texts if text.strip())


def read_body(mail: Mail, *, cut: str = "") -> MailBody:
    """Extract the text and files of a mail.

    `cut`: why `mail` is only the beginning of a mail; "" if it is complete. If `mail` is incomplete, its files are
    listed without content, with this reason.
    """
    content = MailBody()
    _read_part(mail, content, cut, 0)
    return content


def _read_part(part: Mail, content: MailBody, cut: str, depth: int) -> None:
    content.parts += 1
    if content.parts > MAX_PARTS or depth > MAX_PART_DEPTH:
        content.is_cut = True
        return
    kind = part.get_content_type()
    if encryption := _encryption_of(part, kind):
        content.encryption = content.encryption or encryption
    inner = _inner_parts(part)
    if kind == "message/rfc822" or (inner is None and not _is_text(part, kind)):
        _read_file_part(part, kind, content, cut)
    elif inner is None:
        _read_text_part(part, kind, content)
    elif kind == "multipart/alternative":
        _read_alternatives(inner, content, cut, depth)
    else:
        for inner_part in inner:
            _read_part(inner_part, content, cut, depth + 1)


def _inner_parts(part: Mail) -> list[Mail] | None:
    payload: Any = part.get_payload()
    return [item for item in payload if isinstance(item, Message)] if isinstance(payload, list) else None


def _encryption_of(part: Mail, kind: str) -> str:
    if kind == "multipart/encrypted":
        return "PGP"
    if kind in _PKCS7:
        return "S/MIME, signed and wrapped" if _type_parameter(part, "smime-type") == "signed-data" else "S/MIME"
    return ""


def _is_text(part: Mail, kind: str) -> bool:
    disposition = _tolerate(part.get_content_disposition, None)
    return kind in ("text/plain", "text/html") and disposition != "attachment" and not _declared_name(part)


def _read_alternatives(parts: list[Mail], content: MailBody, cut: str, depth: int) -> None:
    """Read a multipart/alternative: take the plain text if it is not blank, else the HTML as text.

    Files of all alternatives, such as calendar invitations, are kept.
    """
    alternatives: list[MailBody] = []
    for part in parts:
        alternative = MailBody(parts=content.parts)
        _read_part(part, alternative, cut, depth + 1)
        content.parts = alternative.parts
        content.is_cut = content.is_cut or alternative.is_cut
        alternatives.append(alternative)
    candidates = [
        (part, alternative) for part, alternative in zip(parts, alternatives, strict=True) if alternative.text.strip()
    ]
    candidates.sort(key=lambda pair: pair[0].get_content_type() != "text/plain")
    if candidates:
        content.texts += candidates[0][1].texts
    for alternative in alternatives:
        content.encryption = content.encryption or alternative.encryption
        for file in alternative.files:
            _add_file(content, file)


def _read_text_part(part: Mail, kind: str, body_so_far: MailBody) -> None:
    content = _decode_content(part)
    body_so_far.is_cut = body_so_far.is_cut or len(content) > MAX_TEXT_PART_BYTES
    text = decode_bytes(content[:MAX_TEXT_PART_BYTES], _tolerate(part.get_content_charset, None))
    if kind == "text/html":
        body_so_far.is_cut = body_so_far.is_cut or len(text) > MAX_HTML_CHARS
        text = convert_html(text)
    elif _type_parameter(part, "format") == "flowed":
        text = join_flowed_lines(text, _type_parameter(part, "delsp") == "yes")
    body_so_far.texts.append(normalize_text(text))


def _read_file_part(part: Mail, kind: str, body_so_far: MailBody, cut: str) -> None:
    if kind in _SIGNATURES or kind == "application/pgp-encrypted":
        return
    name = safe_file_name(_declared_name(part), kind)
    if cut:
        _add_file(body_so_far, Attachment(name, kind, None, cut))
        return
    content: bytes | None = _decode_content(part)
    if kind == "message/rfc822":  # an attached mail; it may have headers that can be parsed but not serialized
        content = _tolerate(lambda: b"".join(each.as_bytes() for each in _inner_parts(part) or []), None)
    if content is None:
        _add_file(body_so_far, Attachment(name, kind, None, "it could not be read"))
    elif content or _declared_name(part):
        _add_file(body_so_far, Attachment(name, kind, content))


def _add_file(content: MailBody, file: Attachment) -> None:
    if len(content.files) < MAX_FILES:
        content.files.append(file)
    else:
        content.is_cut = True


def normalize_text(text: str) -> str:
    """Normalize line breaks to "\\n"; remove control characters, trailing white space and blank lines at both ends."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\ufeff", "")
    return _CONTROL.sub("", "\n".join(line.rstrip() for line in text.split("\n"))).strip("\n")


def join_flowed_lines(text: str, delete_space: bool) -> str:
    """Join the lines of format=flowed text (RFC 3676) and return the text.

    A line that ends in a space is joined to the next one if both have the same quote depth. `delete_space`: remove
    that space.
    """
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


def safe_file_name(written_name: str, mime: str) -> str:
    """Return a safe file name: without folders or leading dots, at most 150 characters. It is derived from `mime` if
    nothing of `written_name` is left."""
    name = _CONTROL.sub("", written_name).replace("\\", "/").rpartition("/")[2].strip().lstrip(".")
    name = re.sub(r'[<>:"|?*\n\t]', "_", name)
    if not name:
        return _NAMES.get(mime) or f"file.{re.sub('[^a-z0-9]', '', mime.rpartition('/')[2])[:10] or 'bin'}"
    stem, dot, end = name.rpartition(".")
    return name if len(name) <= 150 else f"{(stem or name)[:130]}{dot}{end[:19] if stem else ''}"


def _declared_name(part: Mail) -> str:
    return _tolerate(lambda: decode_words(part.get_filename() or ""), "file")


def _type_parameter(part: Mail, name: str) -> str:
    return _tolerate(lambda: str(part.get_param(name, "")).lower(), "")


def _tolerate(getter: Callable[[], Value], fallback: Value) -> Value:
    """Return what a getter of the email package returns, or `fallback` if a malformed header makes the getter raise."""
    try:
        return getter()
    except Exception:
        return fallback


def _decode_content(part: Mail) -> bytes:
    """Return the part's decoded bytes. A broken transfer encoding is decoded as far as possible."""
    try:
        payload = part.get_payload(decode=True)
    except Exception:
        payload = str(part.get_payload()).encode("utf-8", "surrogateescape")
    return payload if isinstance(payload, bytes) else b""
