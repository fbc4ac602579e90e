"""Receive mail: first the mails after the cursor, oldest first, then new ones as they arrive.

The cursor holds `uidvalidity` (the mailbox's numbering), `uid` (the last UID read in it), `since` (when this account
was first read, in seconds since the epoch; older mail is not reported) and `old`. If the server renumbers the mailbox
(a new UIDVALIDITY), everything is read again; of the mails it held at that moment (UIDs below `old`), only those
received after `since` by the server's clock. Mails reported before are recognized by their Message-ID (Law 1).
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

from semel.channels.email import imap_queries
from semel.channels.email.imap_queries import Selected, StoredMail
from semel.channels.email.parse import ParsedMail, read
from semel.channels.email.parse_body import Attachment
from semel.channels.email.settings import EmailSettings
from semel.channels.email.transport import AnswerTooLarge, Line, MailBox, is_passing, told
from semel.gateway.ports import Denied, Inbox, Incoming, Kept, Missing, Offline, TooLarge

PAGE = 20
"""Mails that are put into the inbox in one transaction."""
CLOCK_SKEW_S = 300.0
"""Seconds by which the mail server's clock may be behind ours."""
OVERSIZED_MAIL_BYTES = 1_000_000
"""Bytes that are read of a mail above `mail_limit`; its text usually comes first."""
FIRST_FETCH_BYTES = 100_000
"""Bytes of a mail that are fetched before its sender is known to be allowed to speak."""
TRIES = 3
"""Failed attempts to fetch a mail after which it is reported as unreadable and skipped."""
EMPTY_NEWS_PAUSE_S = 1.0
"""Pause in seconds after a notification without new mail, so that a noisy server does not cause a busy loop."""

_log = logging.getLogger("semel.email")


@dataclass(frozen=True)
class Cursor:
    """How far a mailbox was read."""

    uidvalidity: int
    uid: int
    since: float
    old: int = 0

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str | None) -> Cursor | None:
        """Parse a stored cursor; None if there is none or it is malformed."""
        try:
            told: Any = json.loads(text or "null")
            return cls(int(told["uidvalidity"]), int(told["uid"]), float(told["since"]), int(told.get("old", 0)))
        except (ValueError, TypeError, LookupError):
            return None


class MailboxReceiver:
    """One run of the channel over one connection."""

    def __init__(
        self,
        settings: EmailSettings,
        line: Line,
        inbox: Inbox,
        heard: Callable[[ParsedMail], None],
        refused: Counter[int],
    ) -> None:
        """`heard` is called for each mail after its commit; `refused` counts failed fetches by UID, across runs."""
        self._settings = settings
        self._line = line
        self._inbox = inbox
        self._heard = heard
        self._refused = refused

    async def run(self) -> None:
        """Until cancelled. Raises Offline, Denied."""
        selected = await self._select()
        at = await self._begin(selected)
        at = await self._catch_up(at)
        self._inbox.online()
        while True:
            await self._line.call(
                imap_queries.wait_for_news, self._line, self._settings.poll, waits=self._settings.poll
            )
            before, at = at, await self._catch_up(at)
            if at == before:
                await asyncio.sleep(EMPTY_NEWS_PAUSE_S)

    async def _select(self) -> Selected:
        return await self._line.call(_select, self._settings)

    async def _begin(self, selected: Selected) -> Cursor:
        text = await self._inbox.cursor()
        at = Cursor.load(text)
        if at is None:
            if text is not None:
                _log.warning("the cursor %r of the mailbox cannot be read: it is read from now on", text)
            at = Cursor(selected.validity, selected.next - 1, time.time())
            await self._inbox.put([], at.dump())
        elif at.uidvalidity != selected.validity:
            _log.warning("the mailbox %s was numbered anew: it is read again", self._settings.mailbox)
            at = Cursor(selected.validity, 0, at.since, selected.next)
        return at

    async def _catch_up(self, at: Cursor) -> Cursor:
        uids = await self._line.call(imap_queries.after, at.uid, at.old, at.since)
        for begin in range(0, len(uids), PAGE):
            at = await self._page(uids[begin : begin + PAGE], at)
        return at

    async def _page(self, uids: list[int], at: Cursor) -> Cursor:
        """Put these mails and the cursor after them, in one transaction."""
        told, heard = [], []
        for item in await self._line.call(imap_queries.list_stored_mails, uids):
            new = item.uid >= at.old or not item.at or item.at >= at.since - CLOCK_SKEW_S
            letter = await self._letter(item, at.uidvalidity) if new else None
            if letter is not None:
                told += await self._incoming(letter)
                heard.append(replace(letter, files=(), raw=b""))  # at any time only one mail's files are in memory
        at = replace(at, uid=uids[-1])
        await self._inbox.put(told, at.dump())
        for each in heard:
            self._heard(each)
        if self._settings.mark_seen:
            await self._line.call(imap_queries.mark_seen, uids)
        return at

    async def _letter(self, item: StoredMail, validity: int) -> ParsedMail | None:
        """Fetch and parse one mail; None if it no longer exists. Of a stranger's mail only the beginning is fetched."""
        if self._refused[item.uid] >= TRIES:  # its answer exceeded the limits each time, which ended the connection
            _log.warning("the mail with UID %d is left behind: the server's answers to it have no end", item.uid)
            return ParsedMail(
                "unreadable", f"uid:{validity}:{item.uid}", item.at, why="the server's answers have no end"
            )
        letter = await self._fetched(item, min(item.size, FIRST_FETCH_BYTES))
        if isinstance(letter, ParsedMail) and item.size > FIRST_FETCH_BYTES and await self._may_speak(letter):
            most = item.size if item.size <= self._settings.mail_limit else OVERSIZED_MAIL_BYTES
            letter = await self._fetched(item, most)
        if isinstance(letter, ParsedMail) and letter.kind == "unreadable" and item.size > FIRST_FETCH_BYTES:
            return replace(letter, why=f"{letter.why}; kept is its beginning, all of it lies in the mailbox")
        if not isinstance(letter, str):
            return letter
        self._refused[item.uid] += 1
        if self._refused[item.uid] < TRIES:
            raise Offline(f"{self._settings.imap} does not give out the mail with UID {item.uid}: {letter}")
        return ParsedMail("unreadable", f"uid:{validity}:{item.uid}", item.at, why=f"the server refuses it: {letter}")

    async def _fetched(self, item: StoredMail, most: int) -> ParsedMail | str | None:
        """Fetch and parse the first `most` bytes. Raises Offline; answers above the limits are counted per UID."""
        try:
            return await self._line.call(_fetch, item, self._settings, most, mail=most)
        except AnswerTooLarge:
            self._refused[item.uid] += 1
            raise

    async def _may_speak(self, letter: ParsedMail) -> bool:
        """Whether the sender may speak here. A mail that names no sender is treated like a stranger's."""
        return letter.sender is not None and await self._inbox.known(letter.sender)

    # ------------------------------------------------------------ one mail

    async def _incoming(self, letter: ParsedMail) -> list[Incoming]:
        """The gateway's events for a mail, with its files put into the store."""
        if letter.kind == "echo":
            return [Incoming("echo", letter.key, at=letter.at, of=letter.of)]
        if letter.kind == "bounce":
            return []
        if letter.kind == "failed":
            return _failed(letter)
        if letter.kind == "unreadable":
            return [Incoming("unreadable", letter.key, at=letter.at, why=letter.why, raw=letter.raw or b"")]
        return [await self._message(letter)]

    async def _message(self, letter: ParsedMail) -> Incoming:
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
            files=tuple([await self._file(each) for each in files]),
            title=letter.title,
            data=letter.data,
        )

    async def _file(self, file: Attachment) -> Kept | Missing:
        if file.content is None:
            return Missing(file.name, file.why, file.mime)
        try:
            return await self._inbox.keep(file.name, file.mime, _pieces(file.content), self._settings.mail_limit)
        except TooLarge as much:
            return Missing(file.name, str(much), file.mime)


def _failed(letter: ParsedMail) -> list[Incoming]:
    """A failure, preceded by an echo: only an accepted mail can bounce, so a lost SMTP answer is settled, too."""
    key = str(letter.data["key"])
    return [
        Incoming("echo", key, at=letter.at, of=letter.of),
        Incoming("failed", letter.key, text=letter.text, at=letter.at, of=key, data=letter.data),
    ]


async def _pieces(content: bytes, size: int = 256 * 1024) -> AsyncIterator[bytes]:
    for begin in range(0, len(content), size):
        yield content[begin : begin + size]
        await asyncio.sleep(0)


def _select(box: MailBox, settings: EmailSettings) -> Selected:
    """Runs in the IMAP worker thread: open the configured mailbox. Raises Denied if it cannot be opened."""
    try:
        return imap_queries.open_mailbox(box, settings.mailbox, settings.mark_seen)
    except (MailboxFolderSelectError, IMAP4.readonly) as no:
        why = told(no, settings)
        if is_passing(why):
            raise
        raise Denied(
            f"{settings.imap} does not open the mailbox {settings.mailbox!r}: {why}. Set mailbox to one that the "
            "account has"
        ) from None


def _fetch(box: MailBox, item: StoredMail, settings: EmailSettings, most: int) -> ParsedMail | str | None:
    """Runs in the IMAP worker thread: fetch and parse the first `most` bytes of a mail.

    Returns None if the mail no longer exists, or a string that says why the server refuses to send it.
    """
    try:
        raw = imap_queries.content(box, item.uid, max(most, 1))
    except IMAP4.abort:
        raise
    except IMAP4.error as no:
        return told(no, settings)
    if raw is None:
        return None
    return read(raw, settings, at=item.at, size=item.size if most < item.size else None)
