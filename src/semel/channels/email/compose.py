"""Compose the bytes of a mail from an `Op`.

Every retry gives the same bytes: nothing here reads a clock or uses random numbers. Headers cannot be injected: control
characters are removed from names and subjects, and addresses and ids are accepted only in a strict form.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.charset import BASE64, QP, Charset
from email.generator import BytesGenerator
from email.header import Header
from email.message import Message
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.policy import compat32
from email.utils import formatdate
from io import BytesIO
from pathlib import Path
from typing import Any

from semel.channels.email import address as threads
from semel.channels.email.parse import base_subject
from semel.channels.email.parse_body import safe_file_name
from semel.channels.email.render import render_page
from semel.channels.email.settings import EmailSettings
from semel.gateway.ports import REPEAT_PREFIX, Answers, Op, Rejected
from semel.text.visible import visible
from semel.text.wellformed import shorten_to_line

MAX_SUBJECT_CHARS = 200

_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_ID = re.compile(r"<[^<>\s]{1,600}>")
_MIME = re.compile(r"[a-z0-9!#$&^_.+-]{1,100}/[a-z0-9!#$&^_.+-]{1,100}", re.I)
_POLICY = compat32.clone(linesep="\r\n", max_line_length=76)


@dataclass(frozen=True)
class AnsweredMail:
    """The mail that is being answered. `references` are the Message-IDs in its References, oldest first."""

    id: str
    subject: str = ""
    references: tuple[str, ...] = ()


def read_answered(answers: Answers | None) -> AnsweredMail | None:
    """Return the mail that `answers` names, as the gateway recorded it; None if it names no mail."""
    if answers is None or not _ID.fullmatch(answers.id):
        return None
    references: Any = answers.data.get("references", ())
    message_ids = (
        [reference for reference in references if isinstance(reference, str)]
        if isinstance(references, list | tuple)
        else []
    )
    subject = answers.data.get("subject", "")
    return AnsweredMail(answers.id, subject if isinstance(subject, str) else "", tuple(message_ids))


def compose(op: Op, settings: EmailSettings, answers: AnsweredMail | None) -> bytes:
    """Return the bytes of the complete mail. Raises Rejected for a bad address or an unreadable file.

    `answers`: the mail that it answers, or None.
    """
    recipient_address = threads.parse_address(op.address)
    if recipient_address is None:
        raise Rejected(f"{op.address!r} is not a mail address")
    mail = _build_body(op)
    repeat = REPEAT_PREFIX if op.marked else ""
    subject = f"Re: {base_subject(answers.subject)}" if answers and answers.subject.strip() else settings.subject
    headers: list[tuple[str, str | Header]] = [
        ("From", _format_mailbox(settings.display_name, settings.address)),
        ("To", f"<{recipient_address.recipient}>"),
        ("Subject", _encode_header_text(repeat + subject, "Subject")),
        ("Date", formatdate(op.at)),
        ("Message-ID", threads.message_id(op.key, recipient_address, settings.domain)),
        *_thread_headers(answers),
        # Against automatic replies: RFC 3834, then the header of older programs, then Microsoft's (MS-OXCMAIL).
        ("Auto-Submitted", "auto-replied" if answers else "auto-generated"),
        ("Precedence", "auto_reply"),
        ("X-Auto-Response-Suppress", "OOF, AutoReply"),
    ]
    return _serialize(mail, headers)


def _build_body(op: Op) -> Message:
    text = _text_to_send(op)
    text_part = _build_text_part(text, op.key) if text.strip() or op.kind != "file" else None
    if op.kind != "file":
        assert text_part is not None
        return text_part
    message = MIMEMultipart("mixed", boundary=_derive_boundary(op.key, "mixed"))
    for part in (text_part, _build_file_part(op)):
        if part is not None:
            message.attach(part)
    return message


def _text_to_send(op: Op) -> str:
    text = visible(op.text.encode("utf-8", "replace").decode("utf-8"))
    return f"{REPEAT_PREFIX}{text}" if op.marked else text


def _build_text_part(text: str, key: str) -> Message:
    """Build the part with the text as written, and with an HTML alternative unless the text is too long for one."""
    html = render_page(text)
    if html is None:
        return _build_part(text, "plain")
    message = MIMEMultipart("alternative", boundary=_derive_boundary(key, "alternative"))
    message.attach(_build_part(text, "plain"))
    message.attach(_build_part(html, "html"))
    return message


def _build_part(text: str, kind: str) -> Message:
    """Build a part of the type `text/{kind}`. Its lines have at most 76 characters, so that no relay re-encodes it."""
    charset = Charset("utf-8")
    charset.body_encoding = BASE64 if sum(char > "\x7f" for char in text) > len(text) / 3 else QP
    return MIMEText(text, kind, charset)  # type: ignore[arg-type]


def _build_file_part(op: Op) -> Message:
    if op.file is None:
        raise Rejected("there is no file to send")
    try:
        content = Path(op.file).read_bytes()
    except OSError as error:
        raise Rejected(f"the file cannot be read: {error.strerror}") from None
    mime = op.mime if op.mime and _MIME.fullmatch(op.mime) else "application/octet-stream"
    if mime.startswith(("multipart/", "message/")):  # may not be sent as base64 (RFC 2045, 6.4)
        mime = "application/octet-stream"
    part = MIMEBase(*mime.lower().split("/"))
    part.set_payload(base64.encodebytes(content).decode("ascii"))
    part["Content-Transfer-Encoding"] = "base64"
    name = safe_file_name(op.name or op.file.name, mime)
    plain = name.isascii() and '"' not in name
    part.add_header("Content-Disposition", "attachment", filename=name if plain else ("utf-8", "", name))
    return part


def _thread_headers(answers: AnsweredMail | None) -> Sequence[tuple[str, str]]:
    if answers is None:
        return ()
    references = [reference for reference in answers.references if _ID.fullmatch(reference) and reference != answers.id]
    return (("In-Reply-To", answers.id), ("References", " ".join([*references, answers.id])))


def _format_mailbox(name: str, address: str) -> str | Header:
    clean_name = " ".join(_ODD.sub(" ", name).split())
    if not clean_name:
        return address
    if clean_name.isascii():
        quoted = re.sub(r'(["\\])', r"\\\1", clean_name)
        return f'"{quoted}" <{address}>'
    header = Header(clean_name, "utf-8", header_name="From", maxlinelen=76)
    header.append(f"<{address}>", "us-ascii")
    return header


def _encode_header_text(text: str, name: str) -> str | Header:
    clean_text = shorten_to_line(_ODD.sub(" ", text), MAX_SUBJECT_CHARS)
    return (
        clean_text
        if clean_text.isascii() and "=?" not in clean_text
        else Header(clean_text, "utf-8", header_name=name, maxlinelen=76)
    )


def _serialize(mail: Message, headers: Sequence[tuple[str, str | Header]]) -> bytes:
    """Serialize the mail with `headers` in their order, before the headers of its body."""
    body_headers = mail._headers  # type: ignore[attr-defined]
    mail._headers = []  # type: ignore[attr-defined]
    for name, value in headers:
        mail[name] = value  # type: ignore[assignment]
    mail._headers += body_headers  # type: ignore[attr-defined]
    buffer = BytesIO()
    BytesGenerator(buffer, mangle_from_=False, policy=_POLICY).flatten(mail)
    return buffer.getvalue()


def _derive_boundary(key: str, subtype: str) -> str:
    """Derive a MIME boundary from the part's key: as unlikely as a random one, but the same on every retry."""
    return f"semel-{hashlib.sha256(f'{subtype} {key}'.encode()).hexdigest()[:32]}"
