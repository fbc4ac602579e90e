"""The reply to a message: the turns that took it, and the rows that these turns have since added to the view.

A turn may be older than a message that joined it, and a request may be answered in the middle of a turn. So a reply
consists of the rows that first appeared after a certain rev: that of the message's entry, or of the request's item. Who
comes in the middle of a turn, without a message, gets all rows of that turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from semel.law.access import APPROVALS
from semel.law.turn import State as TurnState
from semel.ledger.storage.rows import CommandRow, EntryRow, ItemRow, Row, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries, views
from semel.ledger.turns import permission_requests
from semel.ledger.turns.history import MAX_SEARCHED_ENTRIES
from semel.text.json_types import Json

COMMAND = "command"  # the kind of notices that answer a command
ENDED: tuple[TurnState, ...] = ("done", "failed", "cancelled")


class EventPlace(Row):
    """The place of an event in a session: its entry, and the turn that took it (None while the event waits)."""

    session: int
    seq: int
    turn: int | None


@dataclass(frozen=True)
class Reply:
    """The reply to an event, or to a person's answer to a request, as it stands at the rev `rev`.

    `session`: the session's key. `running`: the turn that runs there. `seq`: the event's entry; `at`: its time (ms).
    `turns`: by id, the state of each attempt of the turn that took the event, oldest first; empty while the event
    waits. `rows`: entries and items in order of `born`, the rev with which each first appeared. While the event waits,
    `rows` are the requests that it waits for. After a request, `rows` include older items that changed since. `born`:
    the rev with which the event or the request appeared. `is_command`: the gateway answers the event, by a notice.
    """

    session: str
    running: int | None
    rev: int
    at: int
    turns: dict[int, TurnState]
    rows: list[Json]
    born: int
    seq: int | None = None
    is_command: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the reply is complete, because the turn ended or the gateway answered."""
        if self.is_command and not any(row.get("kind") == COMMAND for row in self.rows):
            return False
        return list(self.turns.values())[-1] in ENDED if self.turns else self.is_command


def read_reply(tx: Tx, event: int) -> Reply | None:
    """Return the reply to an event, as it stands now; None if the event is in no session, or its session was deleted.

    The reply to a command is the gateway's answer. If the command answered a request, the reply also has the rows that
    the asking turn has added since.
    """
    command, place = _find_place(tx, event)
    if place is None:
        return None
    session = tx.get(SessionRow, "session_by_id", id=place.session)
    if session.deleted is not None or place.seq <= session.erased:
        return None
    entry = tx.get(EntryRow, "entry_get", session=place.session, seq=place.seq)
    rows = _list_later(tx, place.turn, entry.born)
    if command is None and place.turn is None and session.turn is not None:
        rows += [views.item_json(tx, item) for item in permission_requests.list_open(tx, session.turn)]
    if command is not None and command.answer is not None:
        rows.append(views.entry_json(tx, tx.get(EntryRow, "entry_get", session=entry.session, seq=command.answer)))
    return _make_reply(tx, entry.session, place.turn, rows, entry.at, entry.born, entry.seq, command is not None)


def _find_place(tx: Tx, event: int) -> tuple[CommandRow | None, EventPlace | None]:
    """Return the event's command, or None, and the event's place.

    For an answer to a request, the turn is the asking one.
    """
    command = tx.one(CommandRow, "command_of_event", event=event)
    if command is None:
        return None, tx.one(EventPlace, "hearing_of_event", event=event)
    item = entries.load(command.result).get("item") if command.name in APPROVALS else None
    request = tx.one(ItemRow, "item_get", id=item) if item is not None else None
    return command, EventPlace(command.session, command.seq, None if request is None else request.turn)


def read_reply_after_request(tx: Tx, session: int, item: int) -> Reply | None:
    """Return the rows that a turn has added since its permission request `item`; None if there is no such request."""
    row = tx.one(ItemRow, "item_get", id=item)
    if row is None or row.session != session or row.kind != permission_requests.KIND or row.turn is None:
        return None
    rows = _list_later(tx, row.turn, row.born)
    older = [item for item in tx.all(ItemRow, "items_of_turn", turn=row.turn) if item.born < row.born < item.rev]
    return _make_reply(tx, session, row.turn, [*map(partial(views.item_json, tx), older), *rows], tx.now, row.born)


def read_reply_of_turn(tx: Tx, session: int, turn: int) -> Reply | None:
    """Return everything that a turn has added to the view; None if the session has no such turn."""
    row = tx.one(TurnRow, "turn_get", id=turn)
    if row is None or row.session != session:
        return None
    return _make_reply(tx, session, turn, _list_later(tx, turn, 0), tx.now, 0)


def _make_reply(
    tx: Tx,
    session: int,
    turn: int | None,
    rows: list[Json],
    at: int,
    born: int,
    seq: int | None = None,
    is_command: bool = False,
) -> Reply:
    row = tx.get(SessionRow, "session_by_id", id=session)
    states = {attempt.id: attempt.state for attempt in _list_attempts(tx, turn)}
    ordered = sorted(rows, key=lambda each: int(each["born"]))
    return Reply(row.key, row.turn, row.rev, at, states, ordered, born, seq, is_command)


def _list_later(tx: Tx, turn: int | None, born: int) -> list[Json]:
    """Return the rows of all attempts of a turn that first appeared after the rev `born`."""
    rows: list[Json] = []
    for attempt in _list_attempts(tx, turn):
        entry_rows = tx.all(EntryRow, "entries_of_turn", turn=attempt.id)
        item_rows = tx.all(ItemRow, "items_of_turn", turn=attempt.id)
        rows += [views.entry_json(tx, row) for row in entry_rows if row.born > born]
        rows += [views.item_json(tx, row) for row in item_rows if row.born > born]
    return rows


def _list_attempts(tx: Tx, turn: int | None) -> list[TurnRow]:
    row = tx.one(TurnRow, "turn_get", id=turn)
    return [] if row is None else tx.all(TurnRow, "turns_of_root", root=row.root)


# ---------------------------------------------------------------- the place of a message in its conversation


@dataclass(frozen=True)
class KnownMessage:
    """An accepted message.

    `session`: its session's key. `is_last`: no person has written anything since, not even /new. `is_deleted`: its
    session was deleted since, together with the reply.
    """

    event: int
    session: str
    is_last: bool
    is_deleted: bool


def find_message(tx: Tx, key: str) -> KnownMessage | None:
    """Return the newest message with this event key, whatever its source; None if there is none."""
    event = tx.value(int, "event_by_key", key=key)
    _, place = (None, None) if event is None else _find_place(tx, event)
    if event is None or place is None:
        return None
    row = tx.get(SessionRow, "session_by_id", id=place.session)
    is_last = not tx.exists("entry_of_person_after", session=row.id, seq=place.seq)
    return KnownMessage(event, row.key, is_last, row.deleted is not None or place.seq <= row.erased)


def list_last_said(tx: Tx, session: str, limit: int) -> list[str]:
    """Return the texts that people wrote among the newest `limit` entries of a session, newest first."""
    row = views.find_session(tx, session)
    if row is None:
        return []
    newest = tx.all(EntryRow, "entries_last", session=row.id, before=row.seq + 1, limit=limit)
    return [entry.text for entry in newest if entry.role == "user"]


class LastReport(Row):
    """The newest report of its kind in a session's chapter.

    `seq`: its entry. If there is none, `text` is "", and `seq` is the first entry that was looked at.
    """

    chapter: int
    seq: int
    text: str


def find_last_report(tx: Tx, session: str, source: str, kind: str) -> LastReport:
    """Return the newest report of this source and kind in a session's chapter, among its newest entries."""
    row = tx.one(SessionRow, "session_by_key", key=session)
    if row is None:
        return LastReport(1, 1, "")
    first = max(row.erased, row.seq - MAX_SEARCHED_ENTRIES) + 1
    found = tx.one(LastReport, "report_last", session=row.id, since=first, source=source, kind=kind)
    return found or LastReport(row.chapter, first, "")
