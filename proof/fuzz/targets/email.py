"""Mail: bytes out of a mailbox -> a letter -> what is put.

Nothing that is sent raises or takes long; what cannot be read is kept as it came; the key is one that is the same
next time; a name that was not proved is marked as such.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from proof.fuzz.house import House
from proof.fuzz.source import Source
from semel.channels.email import address
from semel.channels.email.parse import parse_mail
from semel.channels.email.receive import MailboxCursor, MailboxReceiver
from semel.channels.email.settings import EmailSettings

SETTINGS = EmailSettings("bot@example.org", "imap.example.org", "smtp.example.org", "secret", authserv="mx.example.org")
KINDS = {"message", "echo", "bounce", "failed", "unreadable"}
HEADERS = [
    "From: Ann <ann@example.org>", "From: =?utf-8?q?J=C3=B6rg?= <j@x.y>", "From: a@b.c, d@e.f", "From:",
    "To: bot@example.org", "Cc: <x@y.z>, undisclosed-recipients:;", "Subject: Re: =?utf-8?b?8J+YgA==?= hello",
    "Subject: =?x?q?=?=", "Message-ID: <m1@example.org>", "Message-ID: <" + "x" * 700 + ">",
    "In-Reply-To: <m0@example.org>", "References: <a@b> <c@d> <a@b>", "Date: Sun, 22 Nov 2026 10:00:00 +0000",
    "Date: Mon, 99 Foo 0 25:61:61 +9999",
    "Authentication-Results: mx.example.org; dmarc=pass header.from=example.org",
    "Authentication-Results: mx.example.org; dkim=pass header.d=example.org; spf=pass smtp.mailfrom=ann@example.org",
    "Authentication-Results: other; dmarc=pass", "Auto-Submitted: auto-replied", "Precedence: bulk",
    "List-Id: <l.x.y>", "Return-Path: <>", "X-Failed-Recipients: a@b.c", "MIME-Version: 1.0",
    "Content-Type: text/plain; charset=utf-8", "Content-Type: text/html; charset=utf-7",
    "Content-Type: text/plain; charset=\"\0\"; format=flowed; delsp=yes",
    "Content-Type: multipart/mixed; boundary=b", "Content-Type: multipart/alternative; boundary=\"b\"",
    "Content-Type: multipart/report; report-type=delivery-status; boundary=b", "Content-Type: message/rfc822",
    "Content-Type: message/delivery-status", "Content-Type: text/rfc822-headers",
    "Content-Type: multipart/encrypted; boundary=b", "Content-Type: application/pkcs7-mime; smime-type=signed-data",
    "Content-Type: application/pdf; name*0=\"a\"; name*2=b",
    "Content-Disposition: attachment; filename=\"../a\\\"b.txt\"",
    "Content-Disposition: attachment; filename*=utf-8''%00%ff", "Content-Transfer-Encoding: base64",
    "Content-Transfer-Encoding: quoted-printable", "Content-Transfer-Encoding: uuencode",
    "Final-Recipient: rfc822; ann@example.org", "Action: failed", "Status: 5.1.1", "Diagnostic-Code: smtp; 550 no",
    " folded", "\tmore", ": none", "X" * 300, "Delivered-To: bot@example.org",
]  # fmt: skip
LINES = [
    "", "--b", "--b--", "Hello there,", "> quoted", ">> twice", "On Sun, Ann wrote:", "-- ", "flowed ", "/new",
    "/pair ABCD-EFGH", "SGVsbG8=", "=C3=B6=", "=", "begin 644 x", "end",
    "<p>one<br>two <a href='http://x.y'>link</a>", "<blockquote><div style='display:none'>", "<!-- -->",
    "<script>x</script>", "<table><tr><td>a<td>b</table>", "&nbsp;&#0;&unknown;", "<" * 40, "\x00\x07", "é",
    "x" * 1200, "-----Original Message-----", "From: Bob", "Sent: today", "To: me", "Subject: x",
]  # fmt: skip
_house = House()


def one(data: bytes) -> None:
    source = Source(data)
    raw = _mail(source)
    size = len(raw) + 1000 if source.number(5) == 4 else None
    letter = parse_mail(raw, SETTINGS, at=1_790_000_000.0, size=size)
    assert letter.kind in KINDS and letter.key
    assert letter == parse_mail(raw, SETTINGS, at=1_790_000_000.0, size=size), "read twice, it says two things"
    assert letter.kind != "unreadable" or (letter.raw == raw and letter.reason), "what cannot be read is not kept"
    json.dumps(dict(letter.data))
    if letter.kind == "message":
        assert letter.sender is not None and letter.address
        assert address.parse_address(letter.address.removeprefix(address.UNVERIFIED)) is not None, (
            "nobody can answer there"
        )
        proved = letter.data["verified"] is not False
        assert proved == (not letter.sender.id.startswith(address.UNVERIFIED))
        assert not proved or b"mx.example.org" in raw.lower(), "proved by nobody"
    inbox = _house.fresh()
    told = _house.run(_put(letter, inbox))
    heard = _house.check()
    assert len(heard) == told


async def _put(letter: Any, inbox: Any) -> int:
    line: Any = None
    watch = MailboxReceiver(SETTINGS, line, inbox, lambda letter: None, Counter())
    told = await watch._to_incoming(letter)
    at = MailboxCursor(1, 2, 3.0)
    await inbox.put(told, at.dump())
    assert MailboxCursor.load(await inbox.cursor()) == at
    return len(told)


def _mail(source: Source) -> bytes:
    how = source.number(6)
    if how == 5:
        return source.rest()
    head = [source.pick(HEADERS) for _ in range(source.number(14))]
    lines = ["From: Ann <ann@example.org>", *head] if how else head
    while source.left > 2 and len(lines) < 300:
        lines.append("")
        lines += [source.pick(LINES) for _ in range(source.number(8))]
        if source.number(3) == 2:
            lines += ["--b", *(source.pick(HEADERS) for _ in range(source.number(5)))]
        if source.number(24) == 23:
            lines += [(source.words(3) or "<b>") * 4000]
    return source.pick(["\r\n", "\n", "\r"]).join(lines).encode("utf-8", "replace")


SEEDS = [
    b"\x05From: Ann <ann@example.org>\r\nTo: bot@example.org\r\nSubject: hello\r\nMessage-ID: <m1@example.org>\r\n"
    b"Authentication-Results: mx.example.org; dmarc=pass header.from=example.org\r\n"
    b"Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nhello\r\n"
    b"--b\r\nContent-Type: text/html\r\n\r\n<p>hello\r\n--b--\r\n",
    *(bytes([n % 5, 8, *range(n, n + 30, 2), 3, 1, 2, 9, 4, 2, 5, 6, 7, n]) * 2 for n in range(0, 60, 5)),
    b"\x05Subject: x\n\nno sender", b"\x05\xff\xfe\x00",
    b"\x05From: a@b.c\nContent-Type: multipart/mixed; boundary=x\n\n" + b"--x\n" * 50,
]  # fmt: skip
