"""Parse a raw mail into the record that the channel reports. A pure function: no network, no clock, no files."""

from __future__ import annotations

import email
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from semel.channels.email import address
from semel.channels.email.parse_body import MAX_TEXT_CHARS, Attachment, MailBody, normalize_text, read_body
from semel.channels.email.parse_bounce import Bounce, parse_bounce
from semel.channels.email.parse_headers import (
    Mail,
    Mailbox,
    decode_header_text,
    find_message_ids,
    header_value,
    header_values,
    normalize_address,
    parse_date,
    parse_mailboxes,
    parse_sender,
)
from semel.channels.email.quoted_text import cut_quotation
from semel.channels.email.sender_trust import find_automatic_mark, find_own_results, find_verifying_method
from semel.channels.email.settings import EmailSettings
from semel.gateway.ports import Person
from semel.law.access import read_pairing_message

MAX_REFERENCES = 30
MAX_BOUNDARIES = 200
MAX_COMMAND_CHARS = 2000
"""Maximum characters of a mail that may be a command with a signature below it."""
PAIRING_CODE_REPLACEMENT = "[A pairing code. It counts only in a mail whose sender the mail server has verified.]"
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
    reason: str = ""
    raw: bytes = b""  # the mail itself, if it is unreadable
    authenticated: bool = True  # our server's authentication results are present, or the sender is trusted


def parse_mail(raw: bytes, settings: EmailSettings, *, at: float = 0.0, size: int | None = None) -> ParsedMail:
    """Parse a mail. A mail that cannot be parsed is returned with the kind "unreadable"; nothing is raised.

    `raw`: the mail, or only its beginning; `size` is then the size of the whole mail in bytes. `at`: when the mailbox
    received the mail, in seconds since the epoch; 0.0 if unknown.
    """
    if len(_BOUNDARY.findall(raw)) > MAX_BOUNDARIES:  # parsing time is nesting depth times length
        return ParsedMail("unreadable", _hash_mail(raw), at, reason="its parts are nested too deeply", raw=raw)
    try:
        mail: Mail = email.message_from_bytes(raw)
        return _parse_mail(mail, raw, settings, at, size if size is not None else len(raw))
    except Exception as error:  # one bad mail must not block all later ones (Law 1)
        return ParsedMail(
            "unreadable", _hash_mail(raw), at, reason=f"it could not be read: {type(error).__name__}", raw=raw
        )


def _parse_mail(mail: Mail, raw: bytes, settings: EmailSettings, at: float, size: int) -> ParsedMail:
    key = mail_key(mail, raw)
    at = at or parse_date(header_value(mail, "date")) or 0.0
    author = parse_sender(mail)
    own_id = address.parse_own_message_id(key, settings.domain)
    if own_id and author and author.address == normalize_address(settings.address):
        return ParsedMail("echo", own_id.key, at, of=key)
    if author is None:
        return ParsedMail("unreadable", key, at, reason="it does not say who sent it", raw=raw)
    if notification := parse_bounce(
        mail, settings.domain, {normalize_address(own_address) for own_address in (settings.address, *settings.aliases)}
    ):
        if notification.final:
            return _parse_failure(notification, key, at, author)
        # A report that is not final changes nothing. It is only logged: its sender is unverified, so it is not shown.
        return ParsedMail("bounce", key, at, text=normalize_text(notification.describe()), of=notification.id)
    return _parse_message(_ReceivedMail(mail, key, at, author, settings), size > len(raw) and size)


@dataclass(frozen=True)
class _ReceivedMail:
    """A mail from somebody else, with the fields that the rest of the parsing needs."""

    mail: Mail
    key: str
    at: float
    author: Mailbox
    settings: EmailSettings

    @property
    def our_addresses(self) -> set[str]:
        own_addresses = {normalize_address(mailbox) for mailbox in (self.settings.address, *self.settings.aliases)}
        delivered_to = [header_values(self.mail, name) for name in ("delivered-to", "x-original-to", "envelope-to")]
        return own_addresses | {mailbox.address for values in delivered_to for mailbox in parse_mailboxes(values)}

    def verified_by(self) -> str | None:
        """Return the method that verified the sender; None if the sender is unverified."""
        if self.settings.trust_from:
            return "trusted"
        return find_verifying_method(self.mail, self.author, self.settings.authservs, self.settings.verified_by)


def _parse_message(sent: _ReceivedMail, cut: int | bool) -> ParsedMail:
    settings, references = sent.settings, parse_references(sent.mail)
    method = sent.verified_by()
    prefix = "" if method else address.UNVERIFIED
    subject = decode_header_text(sent.mail, "subject")[:300]
    thread = address.find_thread(sent.key, references, settings.domain)
    to, cc = (parse_mailboxes(header_values(sent.mail, name)) for name in ("to", "cc"))
    own_addresses = sent.our_addresses
    answers_us = any(address.parse_own_message_id(item, settings.domain) for item in references)
    content = read_body(sent.mail, cut=f"the mail has {format_size(cut)}, which is more than is read" if cut else "")
    words = _message_text(content, subject, settings, is_reply=bool(references), answers_us=answers_us, cut=bool(cut))
    other_addresses = list(
        dict.fromkeys(item.address for item in (*to, *cc) if item.address not in {*own_addresses, sent.author.address})
    )
    automatic_by = find_automatic_mark(sent.mail, sent.author.address)
    data = {
        "subject": subject,
        "references": _limit_references(references),
        **({"others": other_addresses[:50]} if other_addresses else {}),
        **({"automatic": automatic_by} if automatic_by else {}),
        "verified": method or False,
    }
    return ParsedMail(
        kind="message",
        key=sent.key,
        at=sent.at,
        address=prefix + address.format_address(sent.author.address, thread),
        sender=Person(prefix + sent.author.address, sent.author.name[:200], bot=automatic_by is not None),
        text=words if method or read_pairing_message(words) == (None, False) else PAIRING_CODE_REPLACEMENT,
        of=references[-1] if references and len(references[-1]) <= 512 else None,
        group=bool(other_addresses),
        mentioned=answers_us or any(item.address in own_addresses for item in to),
        files=_attached_files(content),
        title=subject,
        data=data,
        authenticated=bool(method) or bool(find_own_results(sent.mail, settings.authservs)),
    )


def _message_text(
    content: MailBody, subject: str, settings: EmailSettings, *, is_reply: bool, answers_us: bool, cut: bool
) -> str:
    """Return the message text: the subject if the mail opens a conversation, the body, and notes on omitted content.

    If the mail is a command or a pairing code, the text is only that.
    """
    words, omitted = content.text, ""
    if settings.quotes == "trim" and answers_us and not _FORWARD.match(subject):
        words, lines_cut = cut_quotation(words)
        omitted = f"[{lines_cut} lines of earlier mail, quoted below this, are left out]" if lines_cut else ""
    words = words.strip()
    if len(words) < MAX_COMMAND_CHARS and _is_for_gateway(command := _SIGNATURE.sub("", words).strip()):
        return command  # without the signature or quotation below the command
    if content.encryption:
        words = f"[This mail is encrypted ({content.encryption}) and cannot be read here]\n\n{words}".strip()
    if len(words) > MAX_TEXT_CHARS:
        words = f"{words[:MAX_TEXT_CHARS]}\n\n[The text goes on; the whole of it is in whole-text.txt]"
    if cut or content.is_cut:
        omitted = f"{omitted}\n[This mail is too large: only a part of it is shown here]".strip()
    if not words and not is_reply:
        return subject
    opening = f"Subject: {subject}" if subject and not is_reply else ""
    return "\n\n".join(paragraph for paragraph in (opening, words, omitted) if paragraph)


def _is_for_gateway(words: str) -> bool:
    """Whether the text is a command or a pairing code."""
    return (words.startswith("/") and "\n" not in words) or read_pairing_message(words) != (None, False)


def _attached_files(content: MailBody) -> tuple[Attachment, ...]:
    text = content.text
    if len(text) <= MAX_TEXT_CHARS:
        return tuple(content.files)
    return (*content.files, Attachment("whole-text.txt", "text/plain", text.encode("utf-8", "replace")))


def _parse_failure(notification: Bounce, key: str, at: float, author: Mailbox) -> ParsedMail:
    """Return the record of a mail of ours whose delivery finally failed, after our server had accepted it."""
    return ParsedMail(
        kind="failed",
        key=key,
        at=at,
        sender=Person(author.address, bot=True),
        text=normalize_text(notification.describe_reason()),
        of=notification.id,
        data={
            "key": notification.own_id.key,
            "recipient": notification.recipient,
            "status": notification.status,
            "from": author.address,
        },
    )


def mail_key(mail: Mail, raw: bytes) -> str:
    """Return the mail's event key: its Message-ID in angle brackets or, if it has no usable one, a hash of the mail."""
    message_ids = find_message_ids(header_value(mail, "message-id"))
    return message_ids[0] if message_ids and len(message_ids[0]) <= 512 else _hash_mail(raw)


def parse_references(mail: Mail) -> list[str]:
    """Return the Message-IDs that the mail refers to, oldest first; the mail that it answers is the last."""
    references = [message_id for value in header_values(mail, "references") for message_id in find_message_ids(value)]
    answered = find_message_ids(header_value(mail, "in-reply-to"))[:1]
    own_id = find_message_ids(header_value(mail, "message-id"))
    return [*(reference for reference in dict.fromkeys(references) if reference not in (*answered, *own_id)), *answered]


def base_subject(subject: str) -> str:
    """Return the subject without "Re:", "Fwd:" and their translations (RFC 5256, 2.1)."""
    while prefix := _REPLY.match(subject):
        subject = subject[prefix.end() :]
    return subject.strip()


def format_size(size: int) -> str:
    """Format a size in bytes for people, like `31 MB`."""
    return f"{size / 1_000_000:.0f} MB" if size >= 1_000_000 else f"{size / 1000:.0f} kB"


def _limit_references(references: list[str]) -> list[str]:
    """Return at most MAX_REFERENCES of the references: the first, which names the thread, and the newest ones."""
    if len(references) <= MAX_REFERENCES:
        return references
    return [references[0], *references[-(MAX_REFERENCES - 1) :]]


def _hash_mail(raw: bytes) -> str:
    """Hash the mail without the headers added in transit, so that both copies of a doubled mail hash alike."""
    head, separator, content = raw.replace(b"\r\n", b"\n").partition(b"\n\n")
    stable_headers = re.sub(
        rb"(?im)^(?:received|x-[^:\n]*|delivered-to|return-path|authentication-results)\s*:.*\n(?:[ \t].*\n)*",
        b"",
        head + b"\n",
    )
    return f"hash:{hashlib.blake2b(stable_headers + separator + content, digest_size=20).hexdigest()}"
