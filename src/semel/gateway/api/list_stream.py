"""The live list of all sessions, and what the owner has seen of them (docs/decisions/list-stream.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from semel.gateway.api.sessions import SessionApi
from semel.gateway.errors import BadRequest
from semel.ledger.transcript import session_list
from semel.ledger.turns import sessions as rows
from semel.text.json_types import Json

LIST_FRAME_INTERVAL_S = 0.25  # seconds between two looks at the sessions that changed
MAX_SENT_ROWS = 5_000  # rows of which a watcher remembers what it was sent
UNSHOWN_FIELDS = ("rev", "seq")  # numbers that grow while nothing of a row looks different


class SentRows:
    """What a watcher was sent of each session, as a digest, so that a row which looks as it did is not sent again."""

    def __init__(self) -> None:
        self._digests: dict[str, int] = {}

    def note_sent(self, key: str, row: Json | None) -> bool:
        """Record that a row is sent. Return whether it looks different from the last one.

        `row`: None if the session is gone.
        """
        if len(self._digests) > MAX_SENT_ROWS:
            self._digests.clear()
        shown = None if row is None else {name: value for name, value in row.items() if name not in UNSHOWN_FIELDS}
        digest = hash(msgspec.json.encode(shown))
        looks_different = self._digests.get(key) != digest
        self._digests[key] = digest
        return looks_different


class ListApi(SessionApi):
    """The part of the gateway's API that follows all sessions at once."""

    async def mark_seen(self, session: str, rev: int) -> None:
        """Record that the owner has seen the session up to a rev of its view. An earlier rev than before is no news.

        Raises NoSuchSession, BadRequest.
        """
        number = await self.record.find_session(session)
        if rev < 0:
            raise BadRequest(f"rev: {rev} is no rev; they begin at 0")
        try:
            is_news = await self.record.write(rows.mark_seen, number, rev)
        except rows.RevNotReached as error:
            raise BadRequest(f"rev: {error}") from None
        if is_news:
            self.record.tell_listed(number)

    async def watch_list(self, after: int | None = None, limit: int = 200) -> AsyncIterator[Json]:
        """Yield the frames of a live list of the sessions.

        The first frame is a snapshot of the `limit` newest sessions that are not archived, and of each older one that
        needs somebody; or, if the changes after the rev `after` are still known, these changes. Then come the rows that
        change, in frames that are at least LIST_FRAME_INTERVAL_S apart.
        """
        feed, sent = self.list_feed, SentRows()
        changed = feed.join()
        try:
            # Keep no reference to a frame that is yielded: a snapshot is large, and a watcher may be slow.
            frames = [await self._read_frame(after, limit, sent)]
            while True:
                rev = int(frames[0]["rev"])
                yield frames.pop()
                while not frames:
                    await asyncio.sleep(LIST_FRAME_INTERVAL_S)
                    await changed.wait()
                    changed.clear()
                    frame = await self._read_frame(rev, limit, sent)
                    rev = int(frame["rev"])
                    if frame.get("changes") != []:
                        frames.append(frame)
                    del frame
        finally:
            feed.leave(changed)

    async def _read_frame(self, after: int | None, limit: int, sent: SentRows) -> Json:
        """Return the frame that leads from the rev `after` to the present. It holds what differs from `sent`."""
        rev = self.list_feed.rev  # taken before the rows are read, which then have every change up to it
        numbers = None if after is None else self.list_feed.list_changed(after)
        if numbers is None:
            listed, has_more = await self.record.read(session_list.read_snapshot, limit)
            for row in listed:
                sent.note_sent(row["key"], row)
            oldest = listed[limit - 1]["key"] if has_more else None
            page = {"sessions": [self.add_workspace(row) for row in listed], "more": has_more, "next": oldest}
            return {"type": "snapshot", "rev": rev, **page}
        found = await self.record.read(session_list.read_rows, numbers)
        news = [(key, row) for key, row in found if sent.note_sent(key, row)]
        return {"type": "change", "rev": rev, "changes": [self._make_change(key, row) for key, row in news]}

    def _make_change(self, key: str, row: Json | None) -> Json:
        return {"op": "gone", "key": key} if row is None else {"op": "session", **self.add_workspace(row)}
