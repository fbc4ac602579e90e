"""Entries, items and session states as JSON objects for watchers (Law 8).

A watcher that has seen rev R gets every row with a higher rev. The row is sent whole, or only its appended text if the
watcher already has the beginning. Snapshots and changes are rendered by the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial

import msgspec

from semel.law.delivery import State as PartState
from semel.law.limits import MILLION
from semel.law.turn import State as TurnState
from semel.ledger.storage.rows import EntryRow, ItemRow, Row, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import part_requests
from semel.ledger.transcript.entries import load
from semel.text.json_types import Json

LIFE_BITS = 32
"""How many low bits of a rev count changes. The bits above hold the ledger's incarnation, so that a rev from before a
restore is recognised as invalid."""


class ClaimDelivery(Row):
    """The `n` parts of an utterance that are at one destination and in one state.

    `ids`: their ids as a JSON list. `part`: the first id. `failed`: 1 if a part failed after it was sent.
    """

    dest: str
    state: PartState
    failed: int
    n: int
    part: int
    error: str | None
    ids: str


class ShownEntry(EntryRow):
    """An entry with what its view tells besides.

    `source`, `key`: the identity of its event (Law 1). The columns that begin with "ended": how the turn for which the
    event asked has ended; None if it has not. `tokens`, `cost`: what the agent reported for that turn, the cost in
    millionths. `echoes`: how often its claim was repeated. `has_parts`: 1 if its claim has parts.
    """

    source: str | None
    key: str | None
    ended_turn: int | None
    ended_state: TurnState | None
    ended_stop: str | None
    ended_error: str | None
    tokens: int | None
    cost: int | None
    echoes: int
    has_parts: int


class SessionStanding(Row):
    """How many events wait in a session, and when its running turn is tried again (ms); None if that is not put off."""

    waiting: int
    retry_at: int | None


class RemovedEntries(Row):
    """What retention removed of a session: the content of entries up to `upto`, lastly `at` (ms); None if unknown."""

    upto: int
    at: int | None


def entry_json(tx: Tx, row: EntryRow) -> Json:
    """Return an entry as a JSON object for watchers and the API. "at" is in ms. A missing field is false or null."""
    return _ask_entry_json(tx, row)()


def _list_entry_json(tx: Tx, rows: Iterable[EntryRow]) -> list[Json]:
    return [read_json() for read_json in [_ask_entry_json(tx, row) for row in rows]]


def _ask_entry_json(tx: Tx, row: EntryRow) -> Callable[[], Json]:
    if row.event is not None or row.claim is not None:
        return _ask_shown_json(tx, row.session, row.seq)
    return partial(_row_json, tx, row)


def _ask_shown_json(tx: Tx, session: int, seq: int) -> Callable[[], Json]:
    read_entry = tx.ask(ShownEntry, "entry_shown", session=session, seq=seq)
    return lambda: _shown_json(tx, read_entry()[0])


def _shown_json(tx: Tx, row: ShownEntry) -> Json:
    out = _row_json(tx, row)
    _add_event(row, out)
    if row.echoes:
        out["echoes"] = row.echoes
    if row.has_parts:
        parts = tx.all(ClaimDelivery, "delivery_of_claim", claim=row.claim)
        missing = any(p.state in ("held", "rejected") for p in parts)
        is_over = missing and row.claim is not None and part_requests.is_over(tx, row.claim)
        out["delivery"] = [_delivery_json(p, is_over) for p in parts]
    return out


def _row_json(tx: Tx, row: EntryRow) -> Json:
    text = row.text
    if row.live:
        pieces = tx.values(str, "pieces_of_entry", session=row.session, seq=row.seq, after=row.base)
        text += "".join(pieces)
    out: Json = {"seq": row.seq, "born": row.born, "rev": row.rev, "at": row.at, "role": row.role, "text": text}
    if row.live:
        out["live"] = True
    if row.partial:
        out["partial"] = True
    if row.superseded:
        out["superseded"] = True
    if row.turn is not None:
        out["turn"] = row.turn
    if row.event is not None:
        out["event"] = row.event
    if row.claim is not None:
        out["claim"] = row.claim
    if row.more:
        out.update(load(row.more))
    return out


def _add_event(row: ShownEntry, out: Json) -> None:
    """Add the event's source and key, by which a client knows what it said itself, and how the event's turn ended."""
    if row.source is not None:
        out["source"] = row.source
    if row.key is not None:
        out["key"] = row.key
    if row.ended_turn is not None:
        end = {
            "turn": row.ended_turn, "state": row.ended_state, "stop": row.ended_stop, "error": row.ended_error,
            "tokens": row.tokens, "cost": None if row.cost is None else row.cost / MILLION,
        }  # fmt: skip
        out["ended"] = {name: value for name, value in end.items() if value is not None}


def _delivery_json(row: ClaimDelivery, is_over: bool) -> Json:
    """Return the delivery state of an utterance's parts at one destination as a JSON object.

    If several parts wait for a person's decision, "held" lists their ids; "rejected", those of several rejected parts.
    `is_over`: they ask about something that is over. Then "over" says that what is held or was rejected cannot be sent
    again.
    """
    out: Json = {"to": row.dest, "state": row.state, "parts": row.n, "part": row.part}
    if row.failed:
        out["failed"] = True
    if row.error:
        out["error"] = row.error
    if is_over and row.state in ("held", "rejected"):
        out["over"] = True
    if row.state in ("held", "rejected") and row.n > 1:
        out[row.state] = sorted(msgspec.json.decode(row.ids, type=list[int]))
    return out


def item_json(tx: Tx, row: ItemRow) -> Json:
    """Return an item (a tool call, a thought, a plan, a permission request) as a JSON object."""
    text = row.text
    if row.live:
        text += "".join(tx.values(str, "pieces_of_item", item=row.id, after=row.base))
    out: Json = {"id": row.id, "born": row.born, "rev": row.rev, "kind": row.kind, "text": text}
    if row.live:
        out["live"] = True
    if row.turn is not None:
        out["turn"] = row.turn
    if row.name is not None:
        out["name"] = row.name
        if row.kind == "tool":
            out["call"] = row.name
    body = load(row.body)
    unset = {name for name in ("tail", "gap", "coloured") if body.get(name) is None}
    out.update({name: value for name, value in body.items() if name not in unset})
    return out


def session_json(tx: Tx, row: SessionRow) -> Json:
    """Return a session as a JSON object.

    "state" is "deleted", "running" (a turn runs), "waiting" (waking events wait for a turn) or "idle".
    """
    return ask_session_json(tx, row)()


def ask_session_json(tx: Tx, row: SessionRow) -> Callable[[], Json]:
    """Ask for what `session_json` returns. Return a function that returns it."""
    read_standing = tx.ask(SessionStanding, "session_standing", id=row.id, turn=row.turn)
    return lambda: _session_json(row, read_standing()[0])


def _session_json(row: SessionRow, standing: SessionStanding) -> Json:
    state = "running" if row.turn is not None else ("waiting" if row.wake_at is not None else "idle")
    if row.deleted is not None:
        state = "deleted"
    out: Json = {"key": row.key, "state": state, "waiting": standing.waiting, "agent": row.agent, "home": row.home}
    if row.turn is not None:
        out["turn"] = row.turn
        if standing.retry_at is not None:
            out["retry_at"] = standing.retry_at
    if row.busy is not None:
        out["busy"] = row.busy
    if row.title:
        out["title"] = row.title
    if row.folder is not None:
        out["folder"] = row.folder
    if row.seat is not None:
        out["gateway"] = row.seat
    if row.archived is not None:
        out["archived"] = True
    if row.chapter > 1:
        out["chapter"] = row.chapter
    return {**load(row.about), **out}


def render_changes(tx: Tx, unseen: Collection[int] = ()) -> list[tuple[int, Json]]:
    """Return the changes of this transaction as (session id, JSON object), ordered by rev within each session.

    `unseen`: leave out these sessions, because nobody watches them.
    """
    ordered: list[tuple[int, int, Callable[[], Json]]] = []
    for (session, kind, number), (rev, appended) in tx.dirty.items():
        if session not in unseen:
            ordered.append((session, rev, _ask_change(tx, session, kind, number, rev, appended)))
    ordered.sort(key=lambda c: (c[0], c[1]))
    return [(session, read_change()) for session, _, read_change in ordered]


def _ask_change(
    tx: Tx, session: int, kind: str, number: int, rev: int, appended: list[str] | None
) -> Callable[[], Json]:
    """Ask for what a change needs. Return a function that returns the change."""
    if kind == "session":
        read_session = ask_session_json(tx, tx.get(SessionRow, "session_by_id", id=session))
        return lambda: {"op": "session", "rev": rev, **read_session()}
    if appended is not None:
        op, place = ("append", "seq") if kind == "entry" else ("output", "id")
        return lambda: {"op": op, "rev": rev, place: number, "text": "".join(appended)}
    if kind == "entry":
        read_entry = _ask_shown_json(tx, session, number)
        return lambda: {"op": "entry", **read_entry()}
    read_item = tx.ask(ItemRow, "item_get", id=number)
    return lambda: {"op": "item", **item_json(tx, read_item()[0])}


# ---------------------------------------------------------------- reading


def find_session(tx: Tx, key: str) -> SessionRow | None:
    """Return the session with the key `key`; None if it does not exist or was deleted."""
    row = tx.one(SessionRow, "session_by_key", key=key)
    return None if row is None or row.deleted is not None else row


def read_entries(tx: Tx, session: int, after: int, limit: int) -> tuple[list[Json], int]:
    """Return a page of the entries that changed after the rev `after`, in order of change, as JSON objects.

    The second value is the `after` for the next page.
    """
    session_row = tx.get(SessionRow, "session_by_id", id=session)
    rows = tx.all(EntryRow, "entries_after", session=session, after=after, limit=limit)
    rev = session_row.rev if len(rows) < limit else rows[-1].rev if rows else after
    return _list_entry_json(tx, rows), rev


def read_removed(tx: Tx, session: int) -> Json | None:
    """Return {"upto", "at"?} if retention removed content of a session: up to which entry, and when (ms), if known."""
    row = tx.one(RemovedEntries, "entries_removed", session=session)
    return None if row is None else {"upto": row.upto} | ({} if row.at is None else {"at": row.at})


def read_snapshot(tx: Tx, session: int, limit: int = 200) -> Json:
    """Return the newest `limit` entries of a session and the items among them, with the rev of this view."""
    row = tx.get(SessionRow, "session_by_id", id=session)
    return {"rev": row.rev, "session": session_json(tx, row), **_read_stretch(tx, session, row.seq + 1, limit)}


def read_history(tx: Tx, session: int, before: int, limit: int) -> Json:
    """Return the last `limit` entries before the seq `before`, and the items among them."""
    return _read_stretch(tx, session, before, limit)


def _read_stretch(tx: Tx, session: int, before: int, limit: int) -> Json:
    rows = list(reversed(tx.all(EntryRow, "entries_last", session=session, before=before, limit=limit)))
    has_more = bool(rows) and tx.exists("entry_before", session=session, seq=rows[0].seq)
    min_born = rows[0].born if has_more else 0
    following = tx.one(EntryRow, "entry_get", session=session, seq=before)
    max_born = following.born if following is not None else 1 << 62
    items = tx.all(ItemRow, "items_between", session=session, lo=min_born, hi=max_born)
    return {
        "entries": _list_entry_json(tx, rows),
        "items": [item_json(tx, r) for r in items],
        "more": has_more,
        "before": rows[0].seq if rows else 0,
    }


def read_changes(tx: Tx, session: int, after: int, limit: int = 1000) -> tuple[int, list[Json]] | None:
    """Return the session's current rev, and everything that changed after the rev `after`, in order of change.

    Return None if the watcher needs a snapshot instead: there are `limit` changes or more, `after` is not a rev of this
    session, or the watcher has content that was deleted since.
    """
    session_row = tx.get(SessionRow, "session_by_id", id=session)
    if after < session_row.erased_rev:  # the watcher has content that was deleted since
        return None
    rows = tx.all(EntryRow, "entries_after", session=session, after=after, limit=limit)
    items = tx.all(ItemRow, "items_after", session=session, after=after, limit=limit)
    if len(rows) + len(items) >= limit or after > session_row.rev or after >> LIFE_BITS != session_row.rev >> LIFE_BITS:
        return None
    out = [_entry_change(tx, r, after) for r in rows] + [_item_change(tx, r, after) for r in items]
    out.sort(key=lambda c: int(c["rev"]))
    if session_row.rev > after:
        out.append({"op": "session", "rev": session_row.rev, **session_json(tx, session_row)})
    return session_row.rev, out


def _entry_change(tx: Tx, row: EntryRow, after: int) -> Json:
    if row.live and row.born <= after and row.base <= after:
        pieces = tx.values(str, "pieces_of_entry", session=row.session, seq=row.seq, after=after)
        return {"op": "append", "rev": row.rev, "seq": row.seq, "text": "".join(pieces)}
    return {"op": "entry", **entry_json(tx, row)}


def _item_change(tx: Tx, row: ItemRow, after: int) -> Json:
    if row.live and row.born <= after and row.base <= after:
        pieces = tx.values(str, "pieces_of_item", item=row.id, after=after)
        return {"op": "output", "rev": row.rev, "id": row.id, "text": "".join(pieces)}
    return {"op": "item", **item_json(tx, row)}
