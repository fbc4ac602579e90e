"""Types of the frames of a stream: of one session, and of the list of sessions.

Changes are told apart by `op`, frames by `type`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from semel.faces.api_types import Entry, Item, SessionRow, SessionState


class EntryChange(Entry, tag_field="op", tag="entry"):
    """A new entry, or the new state of one: replace the entry with this `seq`."""


class TextAppended(Struct, tag_field="op", tag="append"):
    """Append `text` to the text of the live entry with this `seq`."""

    rev: int
    seq: int
    text: str


class ItemChange(Struct, tag_field="op", tag="item"):
    """A new item, or the new state of one: replace the item with this `id`.

    The fields of the item are beside `op`; the OpenAPI document adds them, because a msgspec type has one tag only.
    """


class OutputAppended(Struct, tag_field="op", tag="output"):
    """Append `text` to the text of the live item with this `id`."""

    rev: int
    id: int
    text: str


class StateChange(SessionState, tag_field="op", tag="session"):
    """The new state of the session, complete. `deleted`: the session was deleted, and the stream ends."""

    rev: int


Change = EntryChange | TextAppended | ItemChange | OutputAppended | StateChange


class Snapshot(Struct, tag_field="type", tag="snapshot"):
    """The newest part of the view, which replaces what the watcher has. `rev`: what to resume after. `more`: there is
    an earlier part; send `before` (an entry's `seq`) to /v1/sessions/{key}/history to read it.
    """

    rev: int
    session: SessionState
    entries: list[Entry]
    items: list[Item]
    more: bool
    before: int


class Changes(Struct, tag_field="type", tag="change"):
    """What changed, in order. Skip changes whose `rev` is not above the rev of your view. `rev`: what to resume
    after.
    """

    rev: int
    changes: list[Change]


Frame = Snapshot | Changes
"""What the `data` of an event of a stream holds, as JSON."""


# ---------------------------------------------------------------- the list of sessions


class SessionListed(SessionRow, tag_field="op", tag="session"):
    """A new session, or the new state of one: replace the one with this `key`. `rev` is the session's own."""


class SessionGone(Struct, tag_field="op", tag="gone"):
    """The session with this `key` was deleted."""

    key: str


class SessionListSnapshot(Struct, tag_field="type", tag="snapshot", kw_only=True):
    """The sessions, which replace those that the watcher has: the newest, and each older one that needs somebody.

    `rev`: what to resume after. `more`: there are older ones; send `next` as `after` to /v1/sessions to read them.
    """

    rev: int
    sessions: list[SessionRow]
    more: bool
    next: str | None = None


class SessionListChanges(Struct, tag_field="type", tag="change"):
    """What changed in the list. `rev`: what to resume after."""

    rev: int
    changes: list[SessionListed | SessionGone]


SessionListFrame = SessionListSnapshot | SessionListChanges
"""What the `data` of an event of the stream over all sessions holds, as JSON."""

NAMED_UNIONS: dict[str, Any] = {
    "Item": Item,
    "Change": Change,
    "Frame": Frame,
    "SessionListChange": SessionListed | SessionGone,
    "SessionListFrame": SessionListFrame,
}
"""Unions that have a name of their own in the OpenAPI document."""
