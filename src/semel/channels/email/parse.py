"""Parse a raw mail into the record that the channel reports. A pure function: no network, no clock, no files."""

from __future__ import annotations

import email
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from semel.channels.email import address
from semel.channels.email.automatic_mail import automatic
from semel.channels.email.parse_body import TEXT_MOST, Attachment, Body, body, clean
from semel.channels.email.parse_bounce import Bounce, bounce
from semel.channels.email.parse_headers import (
    Mail,
    Mailbox,
    date,
    ids,
    line,
    lines,
    mailboxes,
    normalize_address,
    sender,
    text,
)
from semel.channels.email.quoted_text import new_words
from semel.channels.email.sender_trust import of_our_server, verified
from semel.channels.email.settings import EmailSettings
from semel.gateway.ports import Person
from semel.law.access import read_pairing_message

REFERENCES_MOST = 30
BOUNDARIES_MOST = 200
MAX_COMMAND_CHARS = 2000
"""A longer mail (in characters) is not taken for a command with a signature below it."""
NO_CODE = "[A pairing code. It counts only in a mail whose sender the mail server has verified.]"
"""Text that replaces a pairing code in an unverified mail; otherwise a forged From line could be paired."""
_REPLY = re.compile(r"\s*(?:re|aw|sv|vs|antw|ref|rif|odp|fw|fwd|wg|tr|vb)\s*(?:\[\d+\])?\s*:\s*", re.I)
_BOUNDARY = re.compile(rb"\bboundary\s{0,9}[*0-9]{0,9}=", re.I)
_FORWARD = re.compile(r"\s*(?:fw|fwd|wg|tr|vb)\s*(?:\[\d+\])?\s*:", re.I)
_SIGNATURE = re.compile(
    r"\n+-- ?\n.*\Z|\n+(?:Sent from my|Von meinem|Envoyé de mon|Get Outlook for)\b[^\n]*\s*\Z", re.S
)


@dataclass(frozen=True)
class ParsedMail:
    """One parsed mail. `key` is the event key: the Message-ID, or a hash of the mail if it has none. An "echo" is a
    copy of our own mail; there `key` is the key of the sent part."""

    kind: Literal["message", "echo", "bounce", "failed", "unreadable"]
    key: str
    at: float = 0.0
    address: str = ""
    sender: Person | None = None
    text: str = ""
    of: str | None = None
    group: bool = False
    mentioned: bool = False
    files: tuple[Attachment, ...] = ()
    title: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    raw: bytes = b""  # the mail itself, if it is unreadable
    checked: bool = True  # our server's authentication results are present, or the sender is trusted


def read(raw: bytes, settings: EmailSettings, *, at: float = 0.0, size: int | None = None) -> ParsedMail:
    """Parse a mail. A mail that cannot be parsed is returned with the kind "unreadable"; nothing is raised.

    `raw` is the mail, or its beginning if `size` (in bytes) is larger. `at`: when the mailbox received it.
    """
    if len(_BOUNDARY.findall(raw)) > BOUNDARIES_MOST:  # parsing time is nesting depth times length
        return ParsedMail("unreadable", _hash(raw), at, why="it has too many parts inside one another", raw=raw)
    try:
        mail: Mail = email.message_from_bytes(raw)
        return _read(mail, raw, settings, at, size if size is not None else len(raw))
    except Exception as fault:  # a mail may hold anything, and the next one waits behind it
        return ParsedMail("unreadable", _hash(raw), at, why=f"it could not be read: {type(fault).__name__}", raw=raw)


def _read(mail: Mail, raw: bytes, settings: EmailSettings, at: float, size: int) -> ParsedMail:
    key = key_of(mail, raw)
    at = at or date(line(mail, "date")) or 0.0
    who = sender(mail)
    mine = address.parse_own_message_id(key, settings.domain)
    if mine and who and who.address == normalize_address(settings.address):
        return ParsedMail("echo", mine.key, at, of=key)
    if who is None:
        return ParsedMail("unreadable", key, at, why="it does not say who sent it", raw=raw)
    if told := bounce(
        mail, settings.domain, {normalize_address(each) for each in (settings.address, *settings.aliases)}
    ):
        return _failed(told, key, at, who) if told.final else _bounced(told, key, at)
    return _message(_Sent(mail, key, at, who, settings), size > len(raw) and size)


@dataclass(frozen=True)
class _Sent:
    """A mail from somebody else, with the fields that the rest of the parsing needs."""

    mail: Mail
    key: str
    at: float
    who: Mailbox
    settings: EmailSettings

    @property
    def our_addresses(self) -> set[str]:
        ours = {normalize_address(each) for each in (self.settings.address, *self.settings.aliases)}
        led = [lines(self.mail, name) for name in ("delivered-to", "x-original-to", "envelope-to")]
        return ours | {each.address for values in led for each in mailboxes(values)}

    def proof(self) -> str | None:
        """The method that verified the sender, or None if the sender is unverified."""
        if self.settings.trust_from:
            return "trusted"
        return verified(self.mail, self.who, self.settings.authservs, self.settings.verified_by)


def _message(sent: _Sent, cut: int | bool) -> ParsedMail:
    settings, references = sent.settings, references_of(sent.mail)
    proof = sent.proof()
    prefix = "" if proof else address.UNVERIFIED
    subject = text(sent.mail, "subject")[:300]
    thread = address.conversation(sent.key, references, settings.domain)
    to, cc = (mailboxes(lines(sent.mail, name)) for name in ("to", "cc"))
    ours = sent.our_addresses
    answers_us = any(address.parse_own_message_id(each, settings.domain) for each in references)
    found = body(sent.mail, cut=f"the mail has {size_told(cut)}, which is more than is read" if cut else "")
    said = _words(found, subject, settings, is_reply=bool(references), answers_us=answers_us, cut=bool(cut))
    others = list(dict.fromkeys(each.address for each in (*to, *cc) if each.address not in {*ours, sent.who.address}))
    why = automatic(sent.mail, sent.who.address)
    data = {
        "subject": subject,
        "references": _newest(references),
        **({"others": others[:50]} if others else {}),
        **({"automatic": why} if why else {}),
        "verified": proof or False,
    }
    return ParsedMail(
        kind="message",
        key=sent.key,
        at=sent.at,
        address=prefix + address.address(sent.who.address, thread),
        sender=Person(prefix + sent.who.address, sent.who.name[:200], bot=why is not None),
        text=said if proof or read_pairing_message(said) == (None, False) else NO_CODE,
        of=references[-1] if references and len(references[-1]) <= 512 else None,
        group=bool(others),
        mentioned=answers_us or any(each.address in ours for each in to),
        files=_files(found),
        title=subject,
        data=data,
        checked=bool(proof) or bool(of_our_server(sent.mail, settings.authservs)),
    )


def _words(found: Body, subject: str, settings: EmailSettings, *, is_reply: bool, answers_us: bool, cut: bool) -> str:
    """The message text: the subject if the mail opens a conversation, the body, and notes on omitted content."""
    words, gap = found.text, ""
    if settings.quotes == "trim" and answers_us and not _FORWARD.match(subject):
        words, lines_cut = new_words(words)
        gap = f"[{lines_cut} lines of earlier mail, quoted below this, are left out]" if lines_cut else ""
    words = words.strip()
    if len(words) < MAX_COMMAND_CHARS and _is_for_gateway(bare := _SIGNATURE.sub("", words).strip()):
        return bare  # a signature or a quotation below it is no part of it
    if found.sealed:
        words = f"[This mail is encrypted ({found.sealed}) and cannot be read here]\n\n{words}".strip()
    if len(words) > TEXT_MOST:
        words = f"{words[:TEXT_MOST]}\n\n[The text goes on; the whole of it is in whole-text.txt]"
    if cut or found.cut:
        gap = f"{gap}\n[There is more in this mail than is told here: it is too large]".strip()
    if not words and not is_reply:
        return subject
    opening = f"Subject: {subject}" if subject and not is_reply else ""
    return "\n\n".join(each for each in (opening, words, gap) if each)


def _is_for_gateway(words: str) -> bool:
    """Whether the text is a command or a pairing code."""
    return (words.startswith("/") and "\n" not in words) or read_pairing_message(words) != (None, False)


def _files(found: Body) -> tuple[Attachment, ...]:
    whole = found.text
    if len(whole) <= TEXT_MOST:
        return tuple(found.files)
    return (*found.files, Attachment("whole-text.txt", "text/plain", whole.encode("utf-8", "replace")))


def _failed(told: Bounce, key: str, at: float, who: Mailbox) -> ParsedMail:
    """A final failure of a mail of ours, reported after our server had accepted it."""
    return ParsedMail(
        kind="failed",
        key=key,
        at=at,
        sender=Person(who.address, bot=True),
        text=clean(told.reason()),
        of=told.id,
        data={"key": told.about.key, "recipient": told.recipient, "status": told.status, "from": who.address},
    )


def _bounced(told: Bounce, key: str, at: float) -> ParsedMail:
    """A delivery notice that settles nothing. It is only logged: its sender is unverified, so it must not appear in a
    conversation."""
    return ParsedMail(kind="bounce", key=key, at=at, text=clean(told.text()), of=told.id)


def key_of(mail: Mail, raw: bytes) -> str:
    """The mail's key: its Message-ID, as in receipts and in `of`, or a hash of its content if it has none."""
    found = ids(line(mail, "message-id"))
    return found[0] if found and len(found[0]) <= 512 else _hash(raw)


def references_of(mail: Mail) -> list[str]:
    """The Message-IDs that the mail refers to, oldest first; the mail that it answers is the last."""
    told = [found for value in lines(mail, "references") for found in ids(value)]
    answers = ids(line(mail, "in-reply-to"))[:1]
    own = ids(line(mail, "message-id"))
    return [*(each for each in dict.fromkeys(told) if each not in (*answers, *own)), *answers]


def base_subject(subject: str) -> str:
    """The subject without "Re:", "Fwd:" and their translations (RFC 5256, 2.1)."""
    while found := _REPLY.match(subject):
        subject = subject[found.end() :]
    return subject.strip()


def size_told(size: int) -> str:
    """A size in bytes for people, like `31 MB`."""
    return f"{size / 1_000_000:.0f} MB" if size >= 1_000_000 else f"{size / 1000:.0f} kB"


def _newest(references: list[str]) -> list[str]:
    """The first reference, which names the thread, and the newest ones, to bound the headers of an answer."""
    if len(references) <= REFERENCES_MOST:
        return references
    return [references[0], *references[-(REFERENCES_MOST - 1) :]]


def _hash(raw: bytes) -> str:
    """A hash of the mail without the headers added in transit, so that both copies of a doubled mail hash alike."""
    head, gap, rest = raw.replace(b"\r\n", b"\n").partition(b"\n\n")
    kept = re.sub(
        rb"(?im)^(?:received|x-[^:\n]*|delivered-to|return-path|authentication-results)\s*:.*\n(?:[ \t].*\n)*",
        b"",
        head + b"\n",
    )
    return f"hash:{hashlib.blake2b(kept + gap + rest, digest_size=20).hexdigest()}"
