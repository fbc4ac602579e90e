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
from semel.channels.email.parse_body import file_name
from semel.channels.email.render import page
from semel.channels.email.settings import EmailSettings
from semel.channels.words import REPEAT_PREFIX
from semel.gateway.ports import Answers, Op, Rejected
from semel.text.shorten import shorten_to_line
from semel.text.visible import visible

SUBJECT_MOST = 200

_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_ID = re.compile(r"<[^<>\s]{1,600}>")
_MIME = re.compile(r"[a-z0-9!#$&^_.+-]{1,100}/[a-z0-9!#$&^_.+-]{1,100}", re.I)
_POLICY = compat32.clone(linesep="\r\n", max_line_length=76)


@dataclass(frozen=True)
class Answered:
    """The mail that is being answered. `references` are the Message-IDs in its References, oldest first."""

    id: str
    subject: str = ""
    references: tuple[str, ...] = ()


def answered(answers: Answers | None) -> Answered | None:
    """The answered mail as the gateway recorded it, or None if the op answers no mail."""
    if answers is None or not _ID.fullmatch(answers.id):
        return None
    told: Any = answers.data.get("references", ())
    known = [each for each in told if isinstance(each, str)] if isinstance(told, list | tuple) else []
    subject = answers.data.get("subject", "")
    return Answered(answers.id, subject if isinstance(subject, str) else "", tuple(known))


def compose(op: Op, settings: EmailSettings, answers: Answered | None) -> bytes:
    """The complete mail. Raises Rejected for a bad address or an unreadable file."""
    to = threads.place(op.address)
    if to is None:
        raise Rejected(f"{op.address!r} is no mail address")
    mail = _body(op)
    repeat = REPEAT_PREFIX if op.marked else ""
    subject = f"Re: {base_subject(answers.subject)}" if answers and answers.subject.strip() else settings.subject
    headers: list[tuple[str, str | Header]] = [
        ("From", _mailbox(settings.display_name, settings.address)),
        ("To", f"<{to.recipient}>"),
        ("Subject", _words(repeat + subject, "Subject")),
        ("Date", formatdate(op.at)),
        ("Message-ID", threads.message_id(op.key, to, settings.domain)),
        *_thread(answers),
        # Against automatic replies: RFC 3834, then the header of older programs, then Microsoft's (MS-OXCMAIL).
        ("Auto-Submitted", "auto-replied" if answers else "auto-generated"),
        ("Precedence", "auto_reply"),
        ("X-Auto-Response-Suppress", "OOF, AutoReply"),
    ]
    return _written(mail, headers)


def _body(op: Op) -> Message:
    text = _text(op)
    said = _build_text_part(text, op.key) if text.strip() or op.kind != "file" else None
    if op.kind != "file":
        assert said is not None
        return said
    whole = MIMEMultipart("mixed", boundary=_boundary(op.key, "mixed"))
    for part in (said, _file(op)):
        if part is not None:
            whole.attach(part)
    return whole


def _text(op: Op) -> str:
    text = visible(op.text.encode("utf-8", "replace").decode("utf-8"))
    return f"{REPEAT_PREFIX}{text}" if op.marked else text


def _build_text_part(text: str, key: str) -> Message:
    """The text as written, with an HTML alternative unless the text is too long for one."""
    html = page(text)
    if html is None:
        return _part(text, "plain")
    both = MIMEMultipart("alternative", boundary=_boundary(key, "alternative"))
    both.attach(_part(text, "plain"))
    both.attach(_part(html, "html"))
    return both


def _part(text: str, kind: str) -> Message:
    """A text part, encoded in lines of at most 76 characters, so that no relay has to re-encode it."""
    charset = Charset("utf-8")
    charset.body_encoding = BASE64 if sum(char > "\x7f" for char in text) > len(text) / 3 else QP
    return MIMEText(text, kind, charset)  # type: ignore[arg-type]


def _file(op: Op) -> Message:
    if op.file is None:
        raise Rejected("there is no file to send")
    try:
        content = Path(op.file).read_bytes()
    except OSError as fault:
        raise Rejected(f"the file cannot be read: {fault.strerror}") from None
    mime = op.mime if op.mime and _MIME.fullmatch(op.mime) else "application/octet-stream"
    if mime.startswith(("multipart/", "message/")):  # these have a body of their own form
        mime = "application/octet-stream"
    part = MIMEBase(*mime.lower().split("/"))
    part.set_payload(_base64(content))
    part["Content-Transfer-Encoding"] = "base64"
    name = file_name(op.name or op.file.name, mime)
    plain = name.isascii() and '"' not in name
    part.add_header("Content-Disposition", "attachment", filename=name if plain else ("utf-8", "", name))
    return part


def _base64(content: bytes) -> str:
    return base64.encodebytes(content).decode("ascii")


def _thread(answers: Answered | None) -> Sequence[tuple[str, str]]:
    if answers is None:
        return ()
    known = [each for each in answers.references if _ID.fullmatch(each) and each != answers.id]
    return (("In-Reply-To", answers.id), ("References", " ".join([*known, answers.id])))


def _mailbox(name: str, address: str) -> str | Header:
    bare = " ".join(_ODD.sub(" ", name).split())
    if not bare:
        return address
    if bare.isascii():
        quoted = re.sub(r'(["\\])', r"\\\1", bare)
        return f'"{quoted}" <{address}>'
    told = Header(bare, "utf-8", header_name="From", maxlinelen=76)
    told.append(f"<{address}>", "us-ascii")
    return told


def _words(text: str, name: str) -> str | Header:
    bare = shorten_to_line(_ODD.sub(" ", text), SUBJECT_MOST)
    return bare if bare.isascii() and "=?" not in bare else Header(bare, "utf-8", header_name=name, maxlinelen=76)


def _written(mail: Message, headers: Sequence[tuple[str, str | Header]]) -> bytes:
    """Serialize the mail with `headers` in their order, before the headers of its body."""
    own = mail._headers  # type: ignore[attr-defined]
    mail._headers = []  # type: ignore[attr-defined]
    for name, value in headers:
        mail[name] = value  # type: ignore[assignment]
    mail._headers += own  # type: ignore[attr-defined]
    into = BytesIO()
    BytesGenerator(into, mangle_from_=False, policy=_POLICY).flatten(mail)
    return into.getvalue()


def _boundary(key: str, what: str) -> str:
    """A MIME boundary derived from the part's key: as unlikely as a random one, but the same on every retry."""
    return f"semel-{hashlib.sha256(f'{what} {key}'.encode()).hexdigest()[:32]}"
