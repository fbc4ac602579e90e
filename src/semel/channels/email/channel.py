"""The email channel: one mail account, read by IMAP and sent from by SMTP.

Its safety class is reconcilable: the Message-ID contains the part's key, and a copy of each mail reaches our own
account (as a blind copy, or in the provider's Sent mailbox). If the SMTP server's answer is lost, the copy is searched
for by its Message-ID.
"""

from __future__ import annotations

import asyncio
import email
import logging
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from semel.channels.email import address as threads
from semel.channels.email import imap_queries
from semel.channels.email.compose import AnsweredMail, compose, read_answered
from semel.channels.email.parse import ParsedMail, mail_key, parse_references
from semel.channels.email.parse_headers import (
    Mail,
    decode_header_text,
    find_message_ids,
    header_value,
    normalize_address,
)
from semel.channels.email.receive import MailboxReceiver
from semel.channels.email.send import check_login, max_attempt_seconds, submit_mail
from semel.channels.email.settings import EmailSettings
from semel.channels.email.transport import ImapConnection, MailBox, connect_imap, run_to_end
from semel.channels.markdown import MAX_FORMATTED_CHARS
from semel.channels.recent_map import RecentMap
from semel.gateway.ports import Caps, Denied, Inbox, Offline, Op, Receipt, Rejected, Safety, Unknown

T = TypeVar("T")

MAX_REMEMBERED_THREADS = 2000
"""Threads whose newest mail is remembered; for others the mailbox is searched."""
MAX_SEARCHED_MAILS = 200
"""To find the newest mail of a thread, at most this many of the person's newest mails are searched."""
LOOKUP_TIMEOUT_S = 20.0
"""Time limit in seconds for finding the newest mail of a thread."""
MAX_LOOKUP_CONNECTIONS = 2
"""Concurrent connections for searches in the mailbox."""

_log = logging.getLogger("semel.email")


class EmailChannel:
    """One configured mail account."""

    def __init__(self, name: str, settings: EmailSettings) -> None:
        self.name = name
        self.settings = settings
        self.caps = Caps(
            safety=Safety.RECONCILABLE,
            max_len=MAX_FORMATTED_CHARS,
            settle=settings.settle,
            finds=True,
            pace=settings.pace,
            timeout=LOOKUP_TIMEOUT_S + max_attempt_seconds(settings),
            threads=True,
            files=True,
            file_limit=settings.file_limit,
            dialect="html",
        )
        self._threads = RecentMap[str, AnsweredMail](MAX_REMEMBERED_THREADS)  # address -> the thread's newest mail
        self._failed_fetches: Counter[int] = Counter()
        self._cached_tls: ssl.SSLContext | None = None
        self._lookup_slots = asyncio.Semaphore(MAX_LOOKUP_CONNECTIONS)
        self._has_warned = False

    def __repr__(self) -> str:
        return f"<EmailChannel {self.name} as {self.settings.address}, {len(self._threads)} threads known>"

    # ------------------------------------------------------------ receiving

    async def run(self, inbox: Inbox) -> None:
        """See `ports.Channel.run`."""
        connection = await connect_imap(self.settings, await self._tls_context())
        try:
            await MailboxReceiver(self.settings, connection, inbox, self._log_and_remember, self._failed_fetches).run()
        finally:
            await run_to_end(connection.close())

    async def check(self) -> None:
        """Log in where mail is sent. See `ports.Channel`."""
        await check_login(self.settings, await self._tls_context())

    def _log_and_remember(self, letter: ParsedMail) -> None:
        if letter.kind == "bounce":  # not final, and perhaps forged: changes no part's state
            _log.warning("channel %s: %s (%s)", self.name, letter.text, letter.of)
        if letter.kind == "failed":
            _log.warning("channel %s: a mail could not be delivered to %s (%s)", self.name, letter.text, letter.of)
        if letter.kind != "message":
            return
        if not letter.authenticated and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "channel %s: a mail came without an Authentication-Results line of %s, so its sender counts as a "
                "stranger. If that is so of every mail, authserv is not the name that your server writes there "
                "(`semel docs email`)",
                self.name,
                ", ".join(sorted(self.settings.authservs)) or "any server",
            )
        references = tuple(letter.data["references"])
        self._threads[letter.address] = AnsweredMail(letter.key, letter.title, references)

    # ------------------------------------------------------------ sending

    async def send(self, op: Op) -> Receipt:
        """Hand one mail to the server, once. The receipt's id is the Message-ID. See `ports.Channel.send`."""
        if op.kind not in ("post", "file"):
            raise Rejected(f"a mail that was sent cannot be changed: there is no {op.kind}")
        recipient_address = threads.parse_address(op.address)
        if recipient_address is None:
            raise Rejected(f"{op.address!r} is not a mail address")
        settings = self.settings
        answers = read_answered(op.answers) or await self._find_answered_mail(op.address, recipient_address)
        mail = await asyncio.to_thread(compose, op, settings, answers)
        if len(mail) > 1.5 * settings.file_limit + 1_000_000:
            raise Rejected(f"the mail has {len(mail):,} bytes; file_limit is {settings.file_limit:,}")
        recipients = [recipient_address.recipient]
        if settings.proof == "bcc" and normalize_address(recipient_address.recipient) != normalize_address(
            settings.address
        ):
            recipients.append(settings.address)
        await submit_mail(settings, await self._tls_context(), recipients, mail)
        return Receipt(threads.message_id(op.key, recipient_address, settings.domain))

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Search our own mailboxes for the mail's copy. See `ports.Channel.find`."""
        recipient_address = threads.parse_address(op.address)
        if recipient_address is None:
            return None
        settings = self.settings
        id = threads.message_id(op.key, recipient_address, settings.domain)
        mailboxes = [settings.mailbox, *([settings.sent] if settings.sent else [])]
        try:
            mailbox = await self._run_lookup(_find_copy, settings, mailboxes, id, since)
        except (Offline, Denied) as error:
            raise Unknown(str(error)) from None
        return Receipt(id) if mailbox else None

    async def _find_answered_mail(self, address: str, recipient_address: threads.MailPlace) -> AnsweredMail | None:
        """Find the newest mail of a thread, which a post answers if the gateway names no other mail.

        `address`: the thread's address; `recipient_address`: the same, parsed. Returns None if the thread has no mail.
        """
        if recipient_address.thread is None:
            return None
        if address in self._threads:
            return self._threads[address]
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT_S):
                newest = await self._run_lookup(_find_newest_mail, self.settings, recipient_address)
        except (Offline, Denied, TimeoutError) as error:
            _log.warning("channel %s: the thread of %s cannot be looked up: %s", self.name, address, error)
            return None
        if newest is not None:
            self._threads[address] = newest
        return newest

    async def _run_lookup(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return the result of `work(mailbox, *arguments)`, run over a separate IMAP connection.

        Raises Offline or Denied.
        """
        async with self._lookup_slots:
            connection: ImapConnection = await connect_imap(self.settings, await self._tls_context())
            try:
                return await connection.call(work, *arguments)
            finally:
                await run_to_end(connection.close())

    async def _tls_context(self) -> ssl.SSLContext:
        if self._cached_tls is None:
            self._cached_tls = await asyncio.to_thread(ssl.create_default_context, cafile=self.settings.ca_file)
        return self._cached_tls


def _find_copy(box: MailBox, settings: EmailSettings, mailboxes: list[str], id: str, since: float) -> str | None:
    """Return the name of the mailbox that holds a copy of the mail `id`; None if none does. Runs in the worker thread.

    `mailboxes`: the mailboxes to search besides the usual ones. `since`: when the mail was sent, in seconds since the
    epoch. Raises Denied if the copy should be in the mailbox of sent mail, but the server does not say which one that
    is: then not finding the copy would prove nothing.
    """
    if (
        settings.proof == "sent"
        and not settings.sent
        and not imap_queries.find_special_mailboxes(box, ("\\sent", "\\all"))
    ):
        raise Denied(f"{settings.imap} does not say which mailbox holds sent mail: set sent to its name")
    return imap_queries.find_mail(box, mailboxes, id, since)


def _find_newest_mail(
    box: MailBox, settings: EmailSettings, recipient_address: threads.MailPlace
) -> AnsweredMail | None:
    """Return the newest mail in the thread `recipient_address` that its person sent; None if there is none.

    Runs in the IMAP worker thread.
    """
    for raw in imap_queries.fetch_newest_headers(
        box, settings.mailbox, recipient_address.recipient, MAX_SEARCHED_MAILS
    ):
        mail: Mail = email.message_from_bytes(raw)
        references = parse_references(mail)
        if threads.find_thread(
            mail_key(mail, raw), references, settings.domain
        ) == recipient_address.thread and find_message_ids(header_value(mail, "message-id")):
            return AnsweredMail(mail_key(mail, raw), decode_header_text(mail, "subject"), tuple(references))
    return None
