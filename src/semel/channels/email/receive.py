"""Reading the mailbox: what lies behind the cursor, oldest first, then what comes.

The cursor is {"uidvalidity", "uid", "since", "old"}: the last UID that was read, in which numbering of the mailbox,
and when this account was first read (seconds since the epoch): what lay there before that is not told. A mailbox that
was numbered anew is read again; of what it held then (UIDs below `old`), what came since, by the server's clock. What
was heard before is folded by its Message-ID (Law 1).
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
from semel.channels.email.imap_queries import Lying, Selected
from semel.channels.email.parse import Letter, read
from semel.channels.email.parse_body import Attachment
from semel.channels.email.settings import EmailSettings
from semel.channels.email.transport import Endless, Line, MailBox, is_passing, told
from semel.gateway.ports import Denied, Inbox, Incoming, Kept, Missing, Offline, TooLarge

PAGE = 20
"""Mails that are put together."""
SKEW = 300.0
"""Seconds by which the mail server's clock may differ from ours."""
BEGINNING = 1_000_000
"""Bytes of a mail that are read where the whole of it is too large: its text stands first."""
FIRST = 100_000
"""Bytes of a mail that are fetched before it is known whether its sender may speak."""
TRIES = 3
"""Runs in which the server may refuse to give a mail out, before it is left behind as unreadable."""
PAUSE = 1.0
"""Seconds after news that brought no mail: a server that tells of nothing all the time is not asked all the time."""

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
        """None: there is none, or none that can be read."""
        try:
            told: Any = json.loads(text or "null")
            return cls(int(told["uidvalidity"]), int(told["uid"]), float(told["since"]), int(told.get("old", 0)))
        except (ValueError, TypeError, LookupError):
            return None


class Watch:
    """One run of the channel over one connection."""

    def __init__(
        self, settings: EmailSettings, line: Line, inbox: Inbox, heard: Callable[[Letter], None], refused: Counter[int]
    ) -> None:
        """`heard` is called for each mail that was put; `refused` counts, by UID, what the server did not give out."""
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
                await asyncio.sleep(PAUSE)

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
        """Put these, and the cursor behind them."""
        told, heard = [], []
        for item in await self._line.call(imap_queries.lying, uids):
            new = item.uid >= at.old or not item.at or item.at >= at.since - SKEW
            letter = await self._letter(item, at.uidvalidity) if new else None
            if letter is not None:
                told += await self._incoming(letter)
                heard.append(replace(letter, files=(), raw=b""))  # of a page's files, one mail's are in memory
        at = replace(at, uid=uids[-1])
        await self._inbox.put(told, at.dump())
        for each in heard:
            self._heard(each)
        if self._settings.mark_seen:
            await self._line.call(imap_queries.mark_seen, uids)
        return at

    async def _letter(self, item: Lying, validity: int) -> Letter | None:
        """None: it was moved away meanwhile. Of what a stranger wrote, no more is fetched than its beginning."""
        if self._refused[item.uid] >= TRIES:  # it ended the connection each time
            _log.warning("the mail with UID %d is left behind: the server's answers to it have no end", item.uid)
            return Letter("unreadable", f"uid:{validity}:{item.uid}", item.at, why="the server's answers have no end")
        letter = await self._fetched(item, min(item.size, FIRST))
        if isinstance(letter, Letter) and item.size > FIRST and await self._may_speak(letter):
            most = item.size if item.size <= self._settings.mail_limit else BEGINNING
            letter = await self._fetched(item, most)
        if isinstance(letter, Letter) and letter.kind == "unreadable" and item.size > FIRST:
            return replace(letter, why=f"{letter.why}; kept is its beginning, all of it lies in the mailbox")
        if not isinstance(letter, str):
            return letter
        self._refused[item.uid] += 1
        if self._refused[item.uid] < TRIES:
            raise Offline(f"{self._settings.imap} does not give out the mail with UID {item.uid}: {letter}")
        return Letter("unreadable", f"uid:{validity}:{item.uid}", item.at, why=f"the server refuses it: {letter}")

    async def _fetched(self, item: Lying, most: int) -> Letter | str | None:
        """Its first bytes. Raises Offline; counts those answers that end the connection."""
        try:
            return await self._line.call(_fetch, item, self._settings, most, mail=most)
        except Endless:
            self._refused[item.uid] += 1
            raise

    async def _may_speak(self, letter: Letter) -> bool:
        """Of what names nobody, no more is kept than of a stranger's: anybody may have sent it."""
        return letter.sender is not None and await self._inbox.known(letter.sender)

    # ------------------------------------------------------------ one mail

    async def _incoming(self, letter: Letter) -> list[Incoming]:
        """As the gateway takes it, its files in the store."""
        if letter.kind == "echo":
            return [Incoming("echo", letter.key, at=letter.at, of=letter.of)]
        if letter.kind == "bounce":
            return []
        if letter.kind == "failed":
            return _failed(letter)
        if letter.kind == "unreadable":
            return [Incoming("unreadable", letter.key, at=letter.at, why=letter.why, raw=letter.raw or b"")]
        return [await self._message(letter)]

    async def _message(self, letter: Letter) -> Incoming:
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


def _failed(letter: Letter) -> list[Incoming]:
    """Only a server that had taken a mail can say that it failed: an answer that was lost is settled by it, too."""
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
    """In the thread. Raises Denied where there is no such mailbox."""
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


def _fetch(box: MailBox, item: Lying, settings: EmailSettings, most: int) -> Letter | str | None:
    """In the thread: its first `most` bytes, read. None: it is gone. A string: why the server refuses it."""
    try:
        raw = imap_queries.content(box, item.uid, max(most, 1))
    except IMAP4.abort:
        raise
    except IMAP4.error as no:
        return told(no, settings)
    if raw is None:
        return None
    return read(raw, settings, at=item.at, size=item.size if most < item.size else None)
