"""Hand one mail to the SMTP server, once, and classify the outcome (Law 7).

Failures before the mail's text is sent are `NotSent`, or `Rejected` if the server refuses an address. After that the
server's answer decides (RFC 5321, 4.2.5): 250 means accepted, 4yz and 5yz mean that the server will not deliver the
mail (`NotSent` or `Rejected`), and without an answer the outcome is `Unknown`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import aiosmtplib
from aiosmtplib import SMTP

from semel.channels.email.settings import EmailSettings
from semel.gateway.ports import Denied, NotSent, Offline, Rejected, Unknown

LOGIN_REPLY_CODES = frozenset({454, 530, 534, 535, 538})
"""Reply codes that concern the login (RFC 4954, 6) and not the mail."""
QUIT_TIMEOUT_S = 3.0
"""Time limit of QUIT in seconds. The mail is accepted by then, so its failure does not matter."""
MIN_UPLOAD_BYTES_PER_S = 50_000
"""Assumed minimum upload rate in bytes per second; it extends the time limit of large mails."""
EHLO_HOST_NAME = "[127.0.0.1]"
"""Host name in EHLO, so that the machine's own name is not disclosed."""
_LOGIN_SETTINGS = ("address", "user", "password", "smtp")


class LoginRefused(NotSent):
    """The server refuses the login."""


async def submit_mail(settings: EmailSettings, tls: ssl.SSLContext, recipients: Sequence[str], mail: bytes) -> None:
    """Make one attempt over a new connection. Raises NotSent, Rejected or Unknown.

    The first of `recipients` is the addressee; the others are our own copies. The server must accept all of them.
    """
    async with _open_client(settings, tls) as client:
        try:
            async with asyncio.timeout(2 * settings.timeout):
                await _connect(client, settings)
                await _send_envelope(client, settings, recipients, mail)
        except TimeoutError:
            raise NotSent(f"{settings.smtp} takes too long to answer") from None
        await _send_content(client, settings, mail)
        await _quit(client, settings)


async def check_login(settings: EmailSettings, tls: ssl.SSLContext) -> None:
    """Log in and out again. Raises Denied if the server refuses the login, Offline if it cannot be used now."""
    async with _open_client(settings, tls) as client:
        try:
            async with asyncio.timeout(2 * settings.timeout):
                await _connect(client, settings)
        except TimeoutError:
            raise Offline(f"{settings.smtp} takes too long to answer") from None
        except LoginRefused as refusal:
            raise Denied(f"{refusal} (mail is received, but none can be sent)", _LOGIN_SETTINGS) from None
        except NotSent as error:
            raise Offline(str(error)) from None
        await _quit(client, settings)


@asynccontextmanager
async def _open_client(settings: EmailSettings, tls: ssl.SSLContext) -> AsyncIterator[SMTP]:
    """Yield a client that is not connected yet, and cut its connection at the end."""
    client = SMTP(
        hostname=settings.smtp.strip("[]"),
        port=settings.port("smtp"),
        use_tls=settings.smtp_tls == "tls",
        start_tls=settings.smtp_tls == "starttls",
        tls_context=tls,
        timeout=settings.timeout,
        local_hostname=EHLO_HOST_NAME,
    )
    try:
        yield client
    finally:
        transport = client.transport
        client.close()
        if isinstance(transport, asyncio.WriteTransport):
            transport.abort()  # otherwise the end of TLS waits for the server, for up to 30 s


async def _quit(client: SMTP, settings: EmailSettings) -> None:
    with suppress(aiosmtplib.SMTPException, OSError):
        await client.quit(timeout=min(QUIT_TIMEOUT_S, settings.timeout))


async def _connect(client: SMTP, settings: EmailSettings) -> None:
    try:
        await client.connect()
        if settings.smtp_login:
            await client.login(settings.login, settings.password)
        else:
            await client.ehlo()
    except aiosmtplib.SMTPAuthenticationError as refusal:
        reason = f"{settings.smtp} refuses the login of {settings.login}: {_describe_error(refusal, settings)}"
        raise (LoginRefused if refusal.code >= 500 else NotSent)(reason) from None
    except (aiosmtplib.SMTPException, OSError, ValueError) as error:
        raise NotSent(f"{settings.smtp}: {_describe_error(error, settings)}") from None


async def _send_envelope(client: SMTP, settings: EmailSettings, recipients: Sequence[str], mail: bytes) -> None:
    """Send MAIL and RCPT, by which the server may refuse the mail before it sees the text."""
    utf8 = not all(recipient.isascii() for recipient in recipients)
    if utf8 and not client.supports_extension("smtputf8"):
        raise Rejected(f"{settings.smtp} takes no address with letters beyond ASCII (SMTPUTF8)")
    options = ["SMTPUTF8"] if utf8 else []
    if client.supports_extension("size"):
        options.append(f"SIZE={len(mail)}")
    encoding = "utf-8" if utf8 else "ascii"
    try:
        await client.mail(settings.address, options=options, encoding=encoding)
        await client.rcpt(recipients[0], encoding=encoding)
    except ValueError as error:
        raise Rejected(f"the address cannot be used: {error}") from None
    except aiosmtplib.SMTPResponseException as refusal:
        raise _classify_refusal(refusal, settings) from None
    except (aiosmtplib.SMTPException, OSError) as failure:
        raise NotSent(f"{settings.smtp}: {_describe_error(failure, settings)}") from None
    for copy_address in recipients[1:]:
        try:
            await client.rcpt(copy_address, encoding=encoding)
        except (aiosmtplib.SMTPException, OSError) as failure:
            raise NotSent(
                f"{settings.smtp} does not take the copy for {copy_address}, without which nobody could tell later "
                f"whether a mail arrived ({_describe_error(failure, settings)}); if it keeps sent mail itself, set "
                'proof = "sent"'
            ) from None


async def _send_content(client: SMTP, settings: EmailSettings, mail: bytes) -> None:
    try:
        await client.data(mail, timeout=settings.timeout + len(mail) / MIN_UPLOAD_BYTES_PER_S)
    except aiosmtplib.SMTPDataError as refusal:
        raise _classify_refusal(refusal, settings) from None
    except aiosmtplib.SMTPException as error:
        raise Unknown(f"no answer to the mail: {error.message}") from None
    except OSError as error:
        raise Unknown(f"no answer to the mail: {error}") from None


def _classify_refusal(
    answer: aiosmtplib.SMTPResponseException, settings: EmailSettings
) -> NotSent | Rejected | Unknown:
    reason = _describe_error(answer, settings)
    if answer.code in LOGIN_REPLY_CODES or 400 <= answer.code < 500:
        return NotSent(f"the mail server does not take it now: {reason}")
    if 500 <= answer.code < 600:
        return Rejected(f"the mail server refuses it: {reason}")
    return Unknown(f"the mail server's answer has no defined meaning: {reason}")


def _describe_answer(answer: aiosmtplib.SMTPResponseException) -> str:
    text = " ".join(answer.message.encode("utf-8", "replace").decode().split())[:300]
    return f"{answer.code} {text}" if answer.code > 0 else text


def _describe_error(error: Exception, settings: EmailSettings) -> str:
    """Describe an error. The password is masked, because a server may repeat it in its answer."""
    message = (
        _describe_answer(error)
        if isinstance(error, aiosmtplib.SMTPResponseException)
        else getattr(error, "message", "")
    )
    description = str(message or error or type(error).__name__)
    return description.replace(settings.password, "***") if settings.password else description


def max_attempt_seconds(settings: EmailSettings) -> float:
    """Return the longest time in seconds that one attempt to send can take."""
    return 3 * settings.timeout + 1.4 * settings.file_limit / MIN_UPLOAD_BYTES_PER_S + QUIT_TIMEOUT_S
