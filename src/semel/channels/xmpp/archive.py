"""Read message archives (XEP-0313), the account's own and those of rooms, page by page to the last one.

A server decides how many messages a page has (Prosody: at most 50, whatever is requested). So only `complete` marks the
last page, never a short page.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.etree.ElementTree import Element

from semel.channels.xmpp.session import Refused, Session
from semel.channels.xmpp.xml import (
    ARCHIVE,
    CLIENT,
    DELAY,
    FORWARD,
    MESSAGE,
    RSM,
    add,
    child,
    form,
    make,
    said,
)
from semel.gateway.ports import Offline

PAGE = 50
"""Number of messages that we request per page."""


@dataclass(frozen=True)
class Item:
    """One message of an archive. `at`: time of archiving by the server's clock, in seconds since the epoch."""

    id: str
    at: float
    message: Element


@dataclass(frozen=True)
class Page:
    """One page of messages, oldest first. `first` and `last` are the ids at which the previous and next pages join."""

    items: tuple[Item, ...]
    first: str
    last: str
    complete: bool


class NotToTheEnd(Exception):
    """The archive was not read completely, so a message that was not found may still be in it."""


class Archive:
    """One archive: the account's own if `jid` is None, else that of the room."""

    def __init__(self, session: Session, jid: str | None = None) -> None:
        self.session, self.jid = session, jid

    def __repr__(self) -> str:
        return f"<Archive of {self.jid or self.session.jid}>"

    async def newest(self) -> Item | None:
        """The newest message, or None if the archive is empty. Raises Refused, Offline."""
        page = await self._page(before="", most=1)
        return page.items[-1] if page.items else None

    async def after(self, id: str, since: float | None = None) -> AsyncIterator[Page]:
        """All pages after the message `id` ("": from the beginning), oldest first.

        If the archive no longer has that message, the pages from the time `since` on. Raises Refused, Offline.
        """
        start = None
        while True:
            try:
                page = await self._page(after=id, start=start)
            except Refused as no:
                if no.condition != "item-not-found" or not id or since is None or start is not None:
                    raise
                id, start = "", since
                continue
            yield page
            if page.complete:
                return
            if not page.last or page.last == id:
                raise Offline(f"{self!r} gives the same page again")
            id = page.last

    async def before(self, since: float, with_: str | None = None, pages: int = 1000) -> AsyncIterator[Item]:
        """Messages since that time, newest first; in our own archive, only those with the address `with_`.

        Raises Refused or Offline, or NotToTheEnd if `pages` pages did not reach the end.
        """
        id = ""
        for _ in range(pages):
            page = await self._page(before=id, start=since, with_=with_)
            for item in reversed(page.items):
                yield item
            if page.complete:
                return
            if not page.first or page.first == id:
                break
            id = page.first
        raise NotToTheEnd(f"{self!r} was not read to its end")

    async def _page(
        self,
        *,
        after: str | None = None,
        before: str | None = None,
        start: float | None = None,
        with_: str | None = None,
        most: int = PAGE,
    ) -> Page:
        query_id = secrets.token_hex(8)
        iq = make("iq", CLIENT, type_="set", **({"to": self.jid} if self.jid else {}))
        query = add(iq, "query", ARCHIVE, queryid=query_id)
        fields = {"start": _stamp(start)} if start is not None else {}
        if with_ is not None and self.jid is None:
            fields["with"] = with_
        query.append(form(ARCHIVE, fields))
        rsm = add(query, "set", RSM)
        add(rsm, "max", RSM, str(most))
        if after:
            add(rsm, "after", RSM, after)
        if before is not None:
            add(rsm, "before", RSM, before or None)
        found: list[Item] = []

        def heard(message: Element) -> None:
            item = self._result(message, query_id)
            if item is not None:
                found.append(item)

        self.session.watchers.append(heard)
        try:
            answer = await self.session.ask(iq)
        finally:
            self.session.watchers.remove(heard)
        return _page(answer, tuple(found))

    def _result(self, message: Element, query_id: str) -> Item | None:
        """The archived message in a result of our query; None for other stanzas and other senders."""
        result = child(message, "result", ARCHIVE)
        if result is None or result.get("queryid") != query_id:
            return None
        if message.get("from", "") not in ((self.jid,) if self.jid else ("", self.session.jid)):
            return None
        forwarded = child(result, "forwarded", FORWARD)
        inner = forwarded.find(MESSAGE) if forwarded is not None else None
        id = result.get("id", "")
        if forwarded is None or inner is None or not id:
            return None
        delay = child(forwarded, "delay", DELAY)
        return Item(id, when(delay.get("stamp", "")) if delay is not None else 0.0, inner)


def _page(answer: Element, items: tuple[Item, ...]) -> Page:
    fin = child(answer, "fin", ARCHIVE)
    rsm = child(fin, "set", RSM) if fin is not None else None
    first, last = (said(rsm, "first", RSM), said(rsm, "last", RSM)) if rsm is not None else ("", "")
    complete = fin is not None and fin.get("complete") in ("true", "1")
    return Page(items, first, last, complete)


def when(stamp: str) -> float:
    """Parse a XEP-0082 time to seconds since the epoch; 0.0 if it is malformed."""
    try:
        at = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    except ValueError:
        return 0.0
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(max(0.0, at), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
