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
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from semel.channels.email import address as threads
from semel.channels.email import imap_queries
from semel.channels.email.compose import Answered, answered, compose
from semel.channels.email.parse import ParsedMail, key_of, references_of
from semel.channels.email.parse_headers import Mail, ids, line, normalize_address, text
from semel.channels.email.receive import MailboxReceiver
from semel.channels.email.send import hand_over, max_attempt_seconds
from semel.channels.email.settings import EmailSettings
from semel.channels.email.transport import Line, MailBox, connect_imap, finish
from semel.channels.markdown import MAX_FORMATTED_CHARS
from semel.gateway.ports import Caps, Denied, Inbox, Offline, Op, Receipt, Rejected, Safety, Unknown

T = TypeVar("T")

MAX_REMEMBERED_THREADS = 2000
"""Threads whose newest mail is remembered; for others the mailbox is searched."""
MAX_SEARCHED_MAILS = 200
"""Newest mails of a person that are searched for the newest mail of a thread."""
LOOKUP_TIMEOUT_S = 20.0
"""Time limit of that search in seconds."""
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
        self._threads: OrderedDict[str, Answered] = OrderedDict()  # address -> the thread's newest mail
        self._refused: Counter[int] = Counter()
        self._context: ssl.SSLContext | None = None
        self._looking = asyncio.Semaphore(MAX_LOOKUP_CONNECTIONS)
        self._warned = False

    def __repr__(self) -> str:
        return f"<EmailChannel {self.name} as {self.settings.address}, {len(self._threads)} threads known>"

    # ------------------------------------------------------------ hearing

    async def run(self, inbox: Inbox) -> None:
        """See `ports.Channel.run`."""
        connection = await connect_imap(self.settings, await self._tls())
        try:
            await MailboxReceiver(self.settings, connection, inbox, self._heard, self._refused).run()
        finally:
            await finish(connection.close())

    def _heard(self, letter: ParsedMail) -> None:
        if letter.kind == "bounce":  # a delay of a mail of ours; the notice may be forged and settles nothing
            _log.warning("channel %s: %s (%s)", self.name, letter.text, letter.of)
        if letter.kind == "failed":
            _log.warning("channel %s: a mail could not be delivered to %s (%s)", self.name, letter.text, letter.of)
        if letter.kind != "message":
            return
        if not letter.checked and not self._warned:
            self._warned = True
            _log.warning(
                "channel %s: a mail came without an Authentication-Results line of %s, so its sender counts as a "
                "stranger. If that is so of every mail, authserv is not the name that your server writes there "
                "(docs/email.md)",
                self.name,
                ", ".join(sorted(self.settings.authservs)) or "any server",
            )
        told: Any = letter.data.get("references", ())
        self._remember(letter.address, Answered(letter.key, str(letter.data.get("subject", "")), tuple(told)))

    def _remember(self, address: str, newest: Answered) -> None:
        self._threads[address] = newest
        self._threads.move_to_end(address)
        while len(self._threads) > MAX_REMEMBERED_THREADS:
            self._threads.popitem(last=False)

    # ------------------------------------------------------------ speaking

    async def send(self, op: Op) -> Receipt:
        """Hand one mail to the server, once. The receipt's id is the Message-ID. See `ports.Channel.send`."""
        if op.kind not in ("post", "file"):
            raise Rejected(f"a mail that was sent cannot be changed: there is no {op.kind}")
        to = threads.place(op.address)
        if to is None:
            raise Rejected(f"{op.address!r} is no mail address")
        settings = self.settings
        answers = answered(op.answers) or await self._newest(op.address, to)
        mail = await asyncio.to_thread(compose, op, settings, answers)
        if len(mail) > 1.5 * settings.file_limit + 1_000_000:
            raise Rejected(f"the mail has {len(mail):,} bytes; file_limit is {settings.file_limit:,}")
        recipients = [to.recipient]
        if settings.proof == "bcc" and normalize_address(to.recipient) != normalize_address(settings.address):
            recipients.append(settings.address)
        await hand_over(settings, await self._tls(), recipients, mail)
        return Receipt(threads.message_id(op.key, to, settings.domain))

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Search our own mailboxes for the mail's copy. See `ports.Channel.find`."""
        to = threads.place(op.address)
        if to is None:
            return None
        settings = self.settings
        id = threads.message_id(op.key, to, settings.domain)
        places = [settings.mailbox, *([settings.sent] if settings.sent else [])]
        try:
            found = await self._ask(_find, settings, places, id, since)
        except (Offline, Denied) as no:
            raise Unknown(str(no)) from None
        return Receipt(id) if found else None

    async def _newest(self, address: str, to: threads.Place) -> Answered | None:
        """The newest mail of a thread, which a post answers if the gateway names no mail. `None` if none is found."""
        if to.thread is None:
            return None
        if address in self._threads:
            return self._threads[address]
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT_S):
                found = await self._ask(_newest_of, self.settings, to)
        except (Offline, Denied, TimeoutError) as no:
            _log.warning("channel %s: the thread of %s cannot be looked up: %s", self.name, address, no)
            return None
        if found is not None:
            self._remember(address, found)
        return found

    async def _ask(self, work: Callable[..., T], *given: Any) -> T:
        """Run `work(mailbox, *given)` over a separate IMAP connection. Raises Offline or Denied."""
        async with self._looking:
            connection: Line = await connect_imap(self.settings, await self._tls())
            try:
                return await connection.call(work, *given)
            finally:
                await finish(connection.close())

    async def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = await asyncio.to_thread(ssl.create_default_context, cafile=self.settings.ca_file)
        return self._context


def _find(box: MailBox, settings: EmailSettings, places: list[str], id: str, since: float) -> str | None:
    """Runs in the IMAP worker thread. The mailbox that holds the mail's copy, or None.

    Raises Denied if the mailbox of sent mail is unknown, so that a missing copy would prove nothing.
    """
    if settings.proof == "sent" and not settings.sent and not imap_queries.special(box, ("\\sent", "\\all")):
        raise Denied(f"{settings.imap} does not say which mailbox holds sent mail: set sent to its name")
    return imap_queries.find(box, places, id, since)


def _newest_of(box: MailBox, settings: EmailSettings, to: threads.Place) -> Answered | None:
    """Runs in the IMAP worker thread. The newest mail of that person in that mail thread, or None."""
    for raw in imap_queries.newest_headers(box, settings.mailbox, to.recipient, MAX_SEARCHED_MAILS):
        mail: Mail = email.message_from_bytes(raw)
        references = references_of(mail)
        if threads.conversation(key_of(mail, raw), references, settings.domain) == to.thread and ids(
            line(mail, "message-id")
        ):
            return Answered(key_of(mail, raw), text(mail, "subject"), tuple(references))
    return None
