"""One mail, handed over once, and what can be told of it.

Until the mail's own text goes out, every failure is `NotSent`. Then the server's answer decides (RFC 5321, 4.2.5): 250
is the receipt; 4yz and 5yz say that it has not taken the mail and will not deliver it; no answer is `Unknown`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence

import aiosmtplib
from aiosmtplib import SMTP

from semel.channels.email.settings import EmailSettings
from semel.gateway.ports import NotSent, Rejected, Unknown

ACCOUNT = frozenset({454, 530, 534, 535, 538})
"""Answers that speak of the login (RFC 4954, 6), not of the mail."""
GOODBYE = 3.0
"""Seconds for QUIT: the mail is taken by then, whatever comes of it."""
SLOWEST = 50_000
"""Bytes a second that a mail goes out with at the least."""
OURSELVES = "[127.0.0.1]"
"""What EHLO says: no name of this machine leaves it."""


async def hand_over(settings: EmailSettings, tls: ssl.SSLContext, recipients: Sequence[str], mail: bytes) -> None:
    """One attempt, over a connection of its own. The first recipient is whom it is for; each of the others must be
    taken, too. Raises NotSent, Rejected or Unknown."""
    client = SMTP(
        hostname=settings.smtp.strip("[]"),
        port=settings.port("smtp"),
        use_tls=settings.smtp_tls == "tls",
        start_tls=settings.smtp_tls == "starttls",
        tls_context=tls,
        timeout=settings.timeout,
        local_hostname=OURSELVES,
    )
    try:
        try:
            async with asyncio.timeout(2 * settings.timeout):
                await _connect(client, settings)
                await _address(client, settings, recipients, mail)
        except TimeoutError:
            raise NotSent(f"{settings.smtp} takes too long to answer") from None
        await _send(client, settings, mail)
        try:
            await client.quit(timeout=min(GOODBYE, settings.timeout))
        except (aiosmtplib.SMTPException, OSError):
            pass
    finally:
        client.close()


async def _connect(client: SMTP, settings: EmailSettings) -> None:
    try:
        await client.connect()
        if settings.smtp_login:
            await client.login(settings.login, settings.password)
        else:
            await client.ehlo()
    except aiosmtplib.SMTPAuthenticationError as no:
        raise NotSent(f"{settings.smtp} refuses the login of {settings.login}: {_why(no, settings)}") from None
    except (aiosmtplib.SMTPException, OSError, ValueError) as fault:
        raise NotSent(f"{settings.smtp}: {_why(fault, settings)}") from None


async def _address(client: SMTP, settings: EmailSettings, recipients: Sequence[str], mail: bytes) -> None:
    """MAIL and RCPT: the server may refuse the mail before it has seen it."""
    utf8 = not all(each.isascii() for each in recipients)
    if utf8 and not client.supports_extension("smtputf8"):
        raise Rejected(f"{settings.smtp} takes no address with letters beyond ASCII (SMTPUTF8)")
    options = ["SMTPUTF8"] if utf8 else []
    if client.supports_extension("size"):
        options.append(f"SIZE={len(mail)}")
    encoding = "utf-8" if utf8 else "ascii"
    try:
        await client.mail(settings.address, options=options, encoding=encoding)
        await client.rcpt(recipients[0], encoding=encoding)
    except ValueError as bad:
        raise Rejected(f"the address cannot be used: {bad}") from None
    except aiosmtplib.SMTPResponseException as no:
        raise _refusal(no, settings) from None
    except (aiosmtplib.SMTPException, OSError) as fault:
        raise NotSent(f"{settings.smtp}: {_why(fault, settings)}") from None
    for ours in recipients[1:]:
        try:
            await client.rcpt(ours, encoding=encoding)
        except (aiosmtplib.SMTPException, OSError) as fault:
            raise NotSent(
                f"{settings.smtp} does not take the copy for {ours}, without which nobody could tell later whether a "
                f'mail arrived ({_why(fault, settings)}); if it keeps sent mail itself, set proof = "sent"'
            ) from None


async def _send(client: SMTP, settings: EmailSettings, mail: bytes) -> None:
    try:
        await client.data(mail, timeout=settings.timeout + len(mail) / SLOWEST)
    except aiosmtplib.SMTPDataError as no:
        raise _refusal(no, settings) from None
    except aiosmtplib.SMTPException as fault:
        raise Unknown(f"no answer to the mail: {fault.message}") from None
    except OSError as fault:
        raise Unknown(f"no answer to the mail: {fault}") from None


def _refusal(no: aiosmtplib.SMTPResponseException, settings: EmailSettings) -> NotSent | Rejected | Unknown:
    why = _why(no, settings)
    if no.code in ACCOUNT or 400 <= no.code < 500:
        return NotSent(f"the mail server says not now: {why}")
    if 500 <= no.code < 600:
        return Rejected(f"the mail server refuses it: {why}")
    return Unknown(f"the mail server answers what nobody can tell the meaning of: {why}")


def _said(no: aiosmtplib.SMTPResponseException) -> str:
    text = " ".join(no.message.encode("utf-8", "replace").decode().split())[:300]
    return f"{no.code} {text}" if no.code > 0 else text


def _why(fault: Exception, settings: EmailSettings) -> str:
    """What went wrong, without the password, which a server may repeat to us."""
    said = _said(fault) if isinstance(fault, aiosmtplib.SMTPResponseException) else getattr(fault, "message", "")
    told = str(said or fault or type(fault).__name__)
    return told.replace(settings.password, "***") if settings.password else told


def longest(settings: EmailSettings) -> float:
    """Seconds that one attempt may take."""
    return 3 * settings.timeout + 1.4 * settings.file_limit / SLOWEST + GOODBYE
