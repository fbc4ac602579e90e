"""Watch one session, or the list of all: iterators that reconnect by themselves, and yield nothing twice (Law 8).

The stream of one connection may send again what a watcher has, or a snapshot if the changes since are compacted. So the
watcher keeps the view of the session, and yields only what differs from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec

from semel.faces.api_types import Entry, Item, SessionState
from semel.faces.client.connection import Connection, RequestRefused, session_path
from semel.faces.frame_types import SessionListChanges, SessionListSnapshot
from semel.faces.view import SessionView
from semel.text.json_types import Json
from semel.tools.address import NoGateway

T = TypeVar("T")
ListFrame = SessionListSnapshot | SessionListChanges

RECONNECT_DELAYS_S = (0.1, 0.3, 1.0, 2.0)


@dataclass(frozen=True)
class EntryUpdate:
    """A new entry, or the new state of one.

    `appended`: the text that was appended, if nothing else changed. `removed`: the entry left the view, because its
    content was deleted. `rev`: pass it to `watch` as `after` to resume after this update; None if further updates of
    the same change follow.
    """

    entry: Entry
    appended: str = ""
    removed: bool = False
    rev: int | None = None


@dataclass(frozen=True)
class ItemUpdate:
    """A new item, such as a tool call or a permission request, or the new state of one. Fields as in EntryUpdate."""

    item: Item
    appended: str = ""
    removed: bool = False
    rev: int | None = None


@dataclass(frozen=True)
class SessionUpdate:
    """The new state of the session. If its `state` is `deleted`, it is the last update. `rev` as in EntryUpdate."""

    session: SessionState
    rev: int | None = None


Update = EntryUpdate | ItemUpdate | SessionUpdate
Row = tuple[Literal["seq", "id"], int]


async def watch_session(
    connection: Connection, session: str, after: int | None, give_up_after: float | None
) -> AsyncGenerator[Update, None]:
    """Yield the updates of a session until it is deleted. See `AsyncClient.watch`."""
    watcher = _Watcher(connection, session, after)
    try:
        async with aclosing(
            _follow(lambda: connection.stream(session, watcher.view.rev), watcher.take, give_up_after)
        ) as updates:
            async for update in updates:
                yield update
                if isinstance(update, SessionUpdate) and update.session.state == "deleted":
                    return
    except RequestRefused as error:
        if error.code != "no-such-session" or watcher.view.rev is None:
            raise
        yield watcher.mark_deleted()


async def watch_list(
    connection: Connection, after: int | None, give_up_after: float | None
) -> AsyncGenerator[ListFrame, None]:
    """Yield the frames of the list of sessions. See `AsyncClient.watch_sessions`."""
    rev = after

    async def take(frame: Json) -> list[ListFrame]:
        nonlocal rev
        rev = int(frame["rev"])
        if frame["type"] == "snapshot":
            return [msgspec.convert(frame, SessionListSnapshot)]
        return [msgspec.convert(frame, SessionListChanges)] if frame["changes"] else []

    async with aclosing(_follow(lambda: connection.stream_list(rev), take, give_up_after)) as frames:
        async for frame in frames:
            yield frame


async def _follow(
    open_stream: Callable[[], AsyncGenerator[Json, None]],
    take: Callable[[Json], Awaitable[Sequence[T]]],
    give_up_after: float | None,
) -> AsyncGenerator[T, None]:
    """Yield what `take` makes of the frames of a stream, which is opened again whenever its connection breaks.

    `open_stream`: begins a connection after the last frame that was taken. `give_up_after`: seconds without a gateway
    after which NoGateway is raised. Raises RequestRefused for every other reason than that the gateway is stopping.
    """
    loop = asyncio.get_running_loop()
    failures, last_contact = 0, loop.time()
    while True:
        try:
            async with aclosing(open_stream()) as frames:
                async for frame in frames:
                    failures, last_contact = 0, loop.time()
                    for update in await take(frame):
                        yield update
            last_contact = loop.time()  # it answered until now, even if it had nothing to tell
        except (NoGateway, RequestRefused) as error:
            code = error.code if isinstance(error, RequestRefused) else "unavailable"  # what it answers while it stops
            if code != "unavailable" or (give_up_after is not None and loop.time() - last_contact > give_up_after):
                raise
        await asyncio.sleep(RECONNECT_DELAYS_S[min(failures, len(RECONNECT_DELAYS_S) - 1)])
        failures += 1


class _Watcher:
    """Folds frames into a view, and finds out what in them is new."""

    def __init__(self, connection: Connection, session: str, after: int | None):
        self.connection = connection
        self.session = session
        self.view = SessionView()
        self._after = after or 0  # the caller has what changed up to this rev, but the view does not hold it

    async def take(self, frame: Json) -> list[Update]:
        """Apply a frame. Returns the updates that it holds."""
        if frame["type"] == "snapshot":
            return await self._take_snapshot(frame)
        updates = [update for change in frame["changes"] for update in self._take_change(change)]
        self.view.rev = max(self.view.rev or 0, frame["rev"])
        return updates

    def _take_change(self, change: Json) -> list[Update]:
        if self.view.rev is not None and change["rev"] <= self.view.rev:
            return []
        row = self.view.entries.get(change.get("seq", 0)) or self.view.items.get(change.get("id", 0))
        if row is not None and change["rev"] <= row["rev"]:  # it was read after the snapshot
            return []
        before = self.view.session
        rows = self.view.apply({"type": "change", "rev": change["rev"], "changes": [change]})
        if change["op"] == "session":
            return self._session_updates(before, change["rev"])
        appended = change["text"] if change["op"] in ("append", "output") else ""
        return [_make_update(row, appended, change["rev"]) for row in rows]

    async def _take_snapshot(self, frame: Json) -> list[Update]:
        """Apply a snapshot, and return the updates that lead to it from the view so far.

        If there is no view yet, return what changed after the rev that the caller gave.
        """
        before = self.view
        view = SessionView(before.rev, before.session, dict(before.entries), dict(before.items), before.has_older)
        known = before.rev if before.rev is not None else self._after
        if known > frame["rev"]:  # the ledger was replaced by an older one: everything may differ
            known = 0
        removed = [row for row in view.apply(frame) if row.get("gone")]
        await self._add_older_changes(view, frame, known)
        self.view = view  # only now: if the connection broke meanwhile, the next one begins where this one did
        known_rows = {_identify_row(row): row for row in before.ordered()}
        updates: list[Update] = [_make_update(row, "", None, removed=True) for row in removed]
        for row in self.view.ordered():
            previous = known_rows.get(_identify_row(row))
            if row != previous and (previous is not None or row["rev"] > known):
                updates.append(_make_update(row, "", None))
        known_session = before.session if frame["rev"] > known else self.view.session
        return [*updates, *self._session_updates(known_session, frame["rev"])]

    def _session_updates(self, before: Json, rev: int) -> list[Update]:
        if self.view.session == before:
            return []
        return [SessionUpdate(msgspec.convert(self.view.session, SessionState), rev)]

    def mark_deleted(self) -> SessionUpdate:
        """Return the last update of a session that was deleted while the watcher was away."""
        return SessionUpdate(msgspec.convert({**self.view.session, "state": "deleted"}, SessionState), self.view.rev)

    async def _add_older_changes(self, view: SessionView, frame: Json, known: int) -> None:
        """Add to `view` the rows that changed after the rev `known` and that the snapshot leaves out as too old."""
        if not known or not frame["more"]:
            return
        path, before = session_path(self.session), frame["before"]
        entries = await self.connection.list_all(f"{path}/entries", "entries", after=known)
        changed = {entry["seq"]: entry for entry in entries if entry["seq"] < before}
        newest_known = min((seq for seq, entry in changed.items() if entry["born"] > known), default=before)
        while before > newest_known:  # for the items between entries that the caller has not seen
            page = await self.connection.get(f"{path}/history", after=before)
            view.items.update((item["id"], item) for item in page["items"])
            before = page["before"] if page["more"] else 0
        view.entries.update(changed)


def _identify_row(row: Json) -> Row:
    return ("seq", row["seq"]) if "seq" in row else ("id", row["id"])


def _make_update(row: Json, appended: str, rev: int | None, removed: bool = False) -> EntryUpdate | ItemUpdate:
    if "seq" in row:
        return EntryUpdate(msgspec.convert(row, Entry), appended, removed, rev)
    item: Item = msgspec.convert(row, Item)
    return ItemUpdate(item, appended, removed, rev)
