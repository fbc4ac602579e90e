"""Receive mail: first the mails after the cursor, oldest first, then new ones as they arrive.

The cursor holds `uidvalidity` (the mailbox's numbering), `uid` (the last UID read in it), `since` (when this account
was first read, in seconds since the epoch; older mail is not reported) and `old`. If the server renumbers the mailbox
(a new UIDVALIDITY), the mailbox is read again from its first UID. `old` is then the first UID that was unused at that
moment: of the mails below it, only those received after `since` by the server's clock are reported. Repeated mails are
recognized by their Message-ID (Law 1).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, replace
from imaplib import IMAP4
from typing import Any

from imap_tools.errors import MailboxFolderSelectError

from semel.channels.downloads import mark_voice_note
from semel.channels.email import imap_queries
from semel.channels.email.imap_queries import SelectedMailbox, StoredMail
from semel.channels.email.parse import ParsedMail, parse_mail
from semel.channels.email.parse_body import Attachment
from semel.channels.email.settings import EmailSettings
from semel.channels.email.transport import AnswerTooLarge, ImapConnection, MailBox, describe_error, is_transient
from semel.gateway.ports import Denied, Inbox, Incoming, Kept, Missing, Offline, TooLarge

MAILS_PER_PAGE = 20
"""Mails that are put into the inbox in one transaction."""
CLOCK_SKEW_S = 300.0
"""Seconds by which the mail server's clock may be behind ours."""
OVERSIZED_MAIL_BYTES = 1_000_000
"""How many bytes of a mail larger than `mail_limit` are read: the text usually comes first."""
FIRST_FETCH_BYTES = 100_000
"""Bytes of a mail that are fetched before its sender is known to be allowed to speak."""
MAX_FETCH_ATTEMPTS = 3
"""Failed attempts to fetch a mail after which it is reported as unreadable and skipped."""
EMPTY_NEWS_PAUSE_S = 1.0
"""Pause in seconds after a notification without new mail, so that a noisy server does not cause a busy loop."""

_log = logging.getLogger("semel.email")


@dataclass(frozen=True)
class MailboxCursor:
    """How far a mailbox was read; the module's docstring describes the fields."""

    uidvalidity: int
    uid: int
    since: float
    old: int = 0

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str | None) -> MailboxCursor | None:
        """Parse a stored cursor; None if there is none or it is malformed."""
        try:
            data: Any = json.loads(text or "null")
            return cls(int(data["uidvalidity"]), int(data["uid"]), float(data["since"]), int(data.get("old", 0)))
        except (ValueError, TypeError, LookupError):
            return None


class MailboxReceiver:
    """One run of the channel over one connection."""

    def __init__(
        self,
        settings: EmailSettings,
        line: ImapConnection,
        inbox: Inbox,
        on_committed: Callable[[ParsedMail], None],
        failed_fetches: Counter[int],
    ) -> None:
        """`on_committed` is called with each mail after its commit. `failed_fetches`: failures by UID, across runs."""
        self._settings = settings
        self._line = line
        self._inbox = inbox
        self._on_committed = on_committed
        self._failed_fetches = failed_fetches

    async def run(self) -> None:
        """Receive until cancelled. Raises Offline or Denied."""
        selected = await self._select()
        cursor = await self._load_cursor(selected)
        cursor = await self._catch_up(cursor)
        self._inbox.online()
        while True:
            await self._line.call(
                imap_queries.wait_for_news, self._line, self._settings.poll, wait_s=self._settings.poll
            )
            previous, cursor = cursor, await self._catch_up(cursor)
            if cursor == previous:
                await asyncio.sleep(EMPTY_NEWS_PAUSE_S)

    async def _select(self) -> SelectedMailbox:
        return await self._line.call(_open_mailbox, self._settings)

    async def _load_cursor(self, selected: SelectedMailbox) -> MailboxCursor:
        text = await self._inbox.cursor()
        cursor = MailboxCursor.load(text)
        if cursor is None:
            if text is not None:
                _log.warning("the cursor %r of the mailbox cannot be read: it is read from now on", text)
            cursor = MailboxCursor(selected.uidvalidity, selected.next_uid - 1, time.time())
            await self._inbox.put([], cursor.dump())
        elif cursor.uidvalidity != selected.uidvalidity:
            _log.warning("the server renumbered the mailbox %s: it is read again", self._settings.mailbox)
            cursor = MailboxCursor(selected.uidvalidity, 0, cursor.since, selected.next_uid)
        return cursor

    async def _catch_up(self, cursor: MailboxCursor) -> MailboxCursor:
        uids = await self._line.call(imap_queries.list_uids_after, cursor.uid, cursor.old, cursor.since)
        for begin in range(0, len(uids), MAILS_PER_PAGE):
            cursor = await self._put_page(uids[begin : begin + MAILS_PER_PAGE], cursor)
        return cursor

    async def _put_page(self, uids: list[int], cursor: MailboxCursor) -> MailboxCursor:
        """Put these mails and the cursor after them, in one transaction."""
        events, mails = [], []
        for item in await self._line.call(imap_queries.list_stored_mails, uids):
            is_new = item.uid >= cursor.old or not item.at or item.at >= cursor.since - CLOCK_SKEW_S
            letter = await self._fetch_mail(item, cursor.uidvalidity) if is_new else None
            if letter is not None:
                events += await self._to_incoming(letter)
                mails.append(replace(letter, files=(), raw=b""))  # at any time only one mail's files are in memory
        cursor = replace(cursor, uid=uids[-1])
        await self._inbox.put(events, cursor.dump())
        for mail in mails:
            self._on_committed(mail)
        if self._settings.mark_seen:
            await self._line.call(imap_queries.mark_seen, uids)
        return cursor

    async def _fetch_mail(self, item: StoredMail, validity: int) -> ParsedMail | None:
        """Fetch and parse one mail; None if it no longer exists. Of a stranger's mail only the beginning is fetched."""
        if (
            self._failed_fetches[item.uid] >= MAX_FETCH_ATTEMPTS
        ):  # each time, the answer exceeded the limits, which ended the connection
            _log.warning("the mail with UID %d is skipped: the server's answers with it exceed the limits", item.uid)
            reason = "the server's answers with it exceed the limits"
            return ParsedMail("unreadable", f"uid:{validity}:{item.uid}", item.at, reason=reason)
        letter = await self._fetch_beginning(item, min(item.size, FIRST_FETCH_BYTES))
        if isinstance(letter, ParsedMail) and item.size > FIRST_FETCH_BYTES and await self._may_speak(letter):
            max_bytes = item.size if item.size <= self._settings.mail_limit else OVERSIZED_MAIL_BYTES
            letter = await self._fetch_beginning(item, max_bytes)
        if isinstance(letter, ParsedMail) and letter.kind == "unreadable" and item.size > FIRST_FETCH_BYTES:
            return replace(letter, reason=f"{letter.reason}; only its beginning is kept here, all of it in the mailbox")
        if not isinstance(letter, str):
            return letter
        self._failed_fetches[item.uid] += 1
        if self._failed_fetches[item.uid] < MAX_FETCH_ATTEMPTS:
            raise Offline(f"{self._settings.imap} does not send the mail with UID {item.uid}: {letter}")
        return ParsedMail(
            "unreadable", f"uid:{validity}:{item.uid}", item.at, reason=f"the server refuses it: {letter}"
        )

    async def _fetch_beginning(self, item: StoredMail, max_bytes: int) -> ParsedMail | str | None:
        """Call `_fetch_and_parse` in the worker thread and return its result. Raises Offline, and AnswerTooLarge after
        counting it as a failed fetch."""
        try:
            return await self._line.call(_fetch_and_parse, item, self._settings, max_bytes, mail_bytes=max_bytes)
        except AnswerTooLarge:
            self._failed_fetches[item.uid] += 1
            raise

    async def _may_speak(self, letter: ParsedMail) -> bool:
        """Whether the mail's sender may speak here. A mail without a sender is treated like a stranger's."""
        return letter.sender is not None and await self._inbox.known(letter.sender)

    # ------------------------------------------------------------ one mail

    async def _to_incoming(self, letter: ParsedMail) -> list[Incoming]:
        """Convert a parsed mail to events for the inbox, and put its files into the store."""
        if letter.kind == "echo":
            return [Incoming("echo", letter.key, at=letter.at, of=letter.of)]
        if letter.kind == "bounce":
            return []
        if letter.kind == "failed":
            return _failure_events(letter)
        if letter.kind == "unreadable":
            return [Incoming("unreadable", letter.key, at=letter.at, why=letter.reason, raw=letter.raw or b"")]
        return [await self._to_message(letter)]

    async def _to_message(self, letter: ParsedMail) -> Incoming:
        files = letter.files if letter.files and await self._may_speak(letter) else ()
        return Incoming(
            "message",
            letter.key,
            address=letter.address,
            sender=letter.sender,
            text=letter.text,
            at=letter.at,
            of=letter.of,
            group=letter.group,
            mentioned=letter.mentioned,
            files=mark_voice_note(letter.text, [await self._store_file(file) for file in files]),
            title=letter.title,
            data=letter.data,
        )

    async def _store_file(self, file: Attachment) -> Kept | Missing:
        if file.content is None:
            return Missing(file.name, file.reason, file.mime)
        try:
            return await self._inbox.keep(file.name, file.mime, _chunks(file.content), self._settings.mail_limit)
        except TooLarge as error:
            return Missing(file.name, str(error), file.mime)


def _failure_events(letter: ParsedMail) -> list[Incoming]:
    """Return an "echo" event and a "failed" event for a mail of ours that failed after it had been accepted.

    Only an accepted mail can bounce. So the echo confirms the acceptance, in case the SMTP server's answer was lost.
    """
    key = str(letter.data["key"])
    return [
        Incoming("echo", key, at=letter.at, of=letter.of),
        Incoming("failed", letter.key, text=letter.text, at=letter.at, of=key, data=letter.data),
    ]


async def _chunks(content: bytes, size: int = 256 * 1024) -> AsyncIterator[bytes]:
    for begin in range(0, len(content), size):
        yield content[begin : begin + size]
        await asyncio.sleep(0)


def _open_mailbox(box: MailBox, settings: EmailSettings) -> SelectedMailbox:
    """Open the configured mailbox. Raises Denied if it cannot be opened. Runs in the IMAP worker thread."""
    try:
        return imap_queries.open_mailbox(box, settings.mailbox, settings.mark_seen)
    except (MailboxFolderSelectError, IMAP4.readonly) as error:
        reason = describe_error(error, settings)
        if is_transient(reason):
            raise
        raise Denied(
            f"{settings.imap} does not open the mailbox {settings.mailbox!r}: {reason}. Set mailbox to one that the "
            "account has"
        ) from None


def _fetch_and_parse(
    box: MailBox, item: StoredMail, settings: EmailSettings, max_bytes: int
) -> ParsedMail | str | None:
    """Fetch and parse the first `max_bytes` bytes of a mail. Runs in the IMAP worker thread.

    Returns None if the mail no longer exists, or a string that says why the server refuses to send it.
    """
    try:
        raw = imap_queries.fetch_content(box, item.uid, max(max_bytes, 1))
    except IMAP4.abort:
        raise
    except IMAP4.error as error:
        return describe_error(error, settings)
    if raw is None:
        return None
    return parse_mail(raw, settings, at=item.at, size=item.size if max_bytes < item.size else None)
