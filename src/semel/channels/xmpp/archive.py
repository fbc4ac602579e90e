"""Read message archives (XEP-0313), the account's own and those of rooms, page by page, and keep the position in each.

A server decides how many messages a page has (Prosody: at most 50, whatever is requested). So only `complete` marks the
last page, never a short page.

The positions are stored as text by the inbox:

    {"own": {"id": "1763...", "at": 1763793600.0}, "rooms": {"lobby@conference.example.org": {"id": "...", "at": ...}}}

`id` is the archive's id of the last message that was put, or "" if the archive was empty. `at` is that message's time
in the archive, in seconds since the epoch; reading continues from it if the archive no longer has the id.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from xml.etree.ElementTree import Element

from semel.channels.xmpp import ns
from semel.channels.xmpp.session import IqRefused, XmppSession
from semel.channels.xmpp.xml import add_child, child_attribute, child_text, find_child, make_element, submit_form
from semel.gateway.ports import Offline

PAGE_SIZE = 50
"""Number of messages that we request per page."""
OWN = ""
"""Key of the account's own archive; the archives of rooms are keyed by address."""


@dataclass(frozen=True)
class ArchivedMessage:
    """One message of an archive. `at`: time of archiving by the server's clock, in seconds since the epoch."""

    id: str
    at: float
    message: Element


@dataclass(frozen=True)
class ArchivePage:
    """One page of messages, oldest first. `first` and `last` are the archive ids of its first and last message."""

    items: tuple[ArchivedMessage, ...]
    first: str
    last: str
    complete: bool


class ArchiveIncomplete(Exception):
    """The archive was not read completely, so a message that was not found may still be in it."""


class Archive:
    """One archive: the account's own if `jid` is None, else that of the room."""

    def __init__(self, session: XmppSession, jid: str | None = None) -> None:
        self.session, self.jid = session, jid

    def __repr__(self) -> str:
        return f"<Archive of {self.jid or self.session.jid}>"

    async def newest(self) -> ArchivedMessage | None:
        """Return the newest message; None if the archive is empty. Raises IqRefused or Offline."""
        page = await self._page(before="", max_items=1)
        return page.items[-1] if page.items else None

    async def after(self, id: str, since: float | None = None) -> AsyncIterator[ArchivePage]:
        """Yield the pages after the message `id` ("": from the beginning), oldest first.

        If the archive no longer has that message, reads from the time `since` (seconds since the epoch) on instead.
        Raises IqRefused or Offline.
        """
        start = None
        while True:
            try:
                page = await self._page(after=id, start=start)
            except IqRefused as no:
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

    async def before(self, since: float, with_: str | None = None, pages: int = 1000) -> AsyncIterator[ArchivedMessage]:
        """Yield the messages since the time `since` (seconds since the epoch), newest first.

        `with_`: in our own archive, yield only messages exchanged with this address. Raises IqRefused or Offline, or
        ArchiveIncomplete if there are older messages after `pages` pages.
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
        raise ArchiveIncomplete(f"{self!r} was not read to its end")

    async def _page(
        self,
        *,
        after: str | None = None,
        before: str | None = None,
        start: float | None = None,
        with_: str | None = None,
        max_items: int = PAGE_SIZE,
    ) -> ArchivePage:
        query_id = secrets.token_hex(8)
        query = make_element("query", ns.ARCHIVE, queryid=query_id)
        fields = {"start": _format_time(start)} if start is not None else {}
        if with_ is not None and self.jid is None:
            fields["with"] = with_
        query.append(submit_form(ns.ARCHIVE, fields))
        rsm = add_child(query, "set", ns.RSM)
        add_child(rsm, "max", ns.RSM, str(max_items))
        if after:
            add_child(rsm, "after", ns.RSM, after)
        if before is not None:
            add_child(rsm, "before", ns.RSM, before or None)
        items: list[ArchivedMessage] = []

        def collect(message: Element) -> None:
            item = self._result(message, query_id)
            if item is not None:
                items.append(item)

        self.session.watchers.append(collect)
        try:
            answer = await self.session.request("set", query, self.jid or "")
        finally:
            self.session.watchers.remove(collect)
        return _parse_page(answer, tuple(items))

    def _result(self, message: Element, query_id: str) -> ArchivedMessage | None:
        """Return the archived message in a result of our query; None for other stanzas and other senders."""
        result = find_child(message, "result", ns.ARCHIVE)
        if result is None or result.get("queryid") != query_id:
            return None
        if message.get("from", "") not in ((self.jid,) if self.jid else ("", self.session.jid)):
            return None
        forwarded = find_child(result, "forwarded", ns.FORWARD)
        inner = find_child(forwarded, "message", ns.CLIENT)
        id = result.get("id", "")
        if inner is None or not id:
            return None
        return ArchivedMessage(id, parse_time(child_attribute(forwarded, "delay", ns.DELAY, "stamp")), inner)


def _parse_page(answer: Element, items: tuple[ArchivedMessage, ...]) -> ArchivePage:
    rsm = find_child(find_child(answer, "fin", ns.ARCHIVE), "set", ns.RSM)
    complete = child_attribute(answer, "fin", ns.ARCHIVE, "complete") in ("true", "1")
    return ArchivePage(items, child_text(rsm, "first", ns.RSM), child_text(rsm, "last", ns.RSM), complete)


def parse_time(stamp: str) -> float:
    """Parse a XEP-0082 time to seconds since the epoch; 0.0 if it is malformed."""
    try:
        at = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    except ValueError:
        return 0.0
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _format_time(at: float) -> str:
    return datetime.fromtimestamp(max(0.0, at), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class ArchivePosition:
    """A position in an archive: directly after the message with this id and time."""

    id: str
    at: float


@dataclass
class ArchiveCursor:
    """The position in each archive; updated as pages are put."""

    positions: dict[str, ArchivePosition] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str | None) -> ArchiveCursor:
        """Parse a stored cursor. A malformed one is treated as empty: reading starts at the present."""
        try:
            data = json.loads(text or "{}")
            positions = {OWN: _parse_position(data["own"])} if "own" in data else {}
            positions |= {room: _parse_position(each) for room, each in data.get("rooms", {}).items()}
        except (ValueError, TypeError, LookupError, AttributeError):
            return cls()
        return cls(positions)

    def keep(self, archives: set[str]) -> None:
        """Drop the positions of all archives but these. If a room is configured again later, its archive is read from
        that time on."""
        self.positions = {name: position for name, position in self.positions.items() if name in archives}

    def __str__(self) -> str:
        rooms = {room: _dump_position(position) for room, position in sorted(self.positions.items()) if room != OWN}
        own = {"own": _dump_position(self.positions[OWN])} if OWN in self.positions else {}
        return json.dumps({**own, "rooms": rooms}, ensure_ascii=False, separators=(",", ":"))


def _parse_position(data: dict[str, Any]) -> ArchivePosition:
    if not isinstance(data["id"], str):
        raise TypeError("an archive's id is a string")
    return ArchivePosition(data["id"], float(data["at"]))


def _dump_position(position: ArchivePosition) -> dict[str, Any]:
    return {"id": position.id, "at": round(position.at, 3)}
