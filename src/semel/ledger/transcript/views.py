"""What watchers receive: entries, items and session states as JSON objects (Law 8).

A watcher that holds rev R is sent every row with a higher rev: whole, or only the appended text if the watcher already
has the beginning. The same functions render snapshots and changes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript.entries import load

Json = dict[str, Any]

LIFE_BITS = 32
"""The bits of a rev above these hold the ledger's incarnation, so a rev from before a restore is recognised as invalid.
"""


def entry_json(tx: Tx, row: Row) -> Json:
    """One entry, as faces and the API show it. `at` is in ms; absent fields are false or none."""
    text = row.text
    if row.live:
        pieces = tx.all("pieces_of_entry", session=row.session, seq=row.seq, after=row.base)
        text += "".join(p.text for p in pieces)
    out: Json = {"seq": row.seq, "born": row.born, "rev": row.rev, "at": row.at, "role": row.role, "text": text}
    for name in ("live", "partial", "superseded"):
        if getattr(row, name):
            out[name] = True
    for name in ("turn", "event", "claim"):
        if getattr(row, name) is not None:
            out[name] = getattr(row, name)
    if row.more:
        out.update(load(row.more))
    if row.claim is not None:
        _add_fate(tx, row.claim, out)
    return out


def _add_fate(tx: Tx, claim: int, out: Json) -> None:
    echoes = tx.value("claim_echoes", claim=claim)
    if echoes:
        out["echoes"] = echoes
    parts = tx.all("delivery_of_claim", claim=claim)
    if parts:
        out["delivery"] = [_way(p) for p in parts]


def _way(row: Row) -> Json:
    """The delivery state of one destination's parts. `held`: the ids of several parts that wait for a person's
    decision.
    """
    out: Json = {"to": row.dest, "state": row.state, "parts": row.n, "part": row.part}
    if row.failed:
        out["failed"] = True
    if row.error:
        out["error"] = row.error
    if row.state == "held" and row.n > 1:
        out["held"] = sorted(msgspec.json.decode(row.ids, type=list[int]))
    return out


def item_json(tx: Tx, row: Row) -> Json:
    """One item: a tool call, a thought, a plan, a permission request."""
    text = row.text
    if row.live:
        text += "".join(p.text for p in tx.all("pieces_of_item", item=row.id, after=row.base))
    out: Json = {"id": row.id, "born": row.born, "rev": row.rev, "kind": row.kind, "text": text}
    if row.live:
        out["live"] = True
    if row.turn is not None:
        out["turn"] = row.turn
    if row.name is not None:
        out["name"] = row.name
    out.update(load(row.body))
    return out


def session_json(tx: Tx, row: Row) -> Json:
    """A session's state: running while a turn runs, waiting while events wait for one."""
    waiting = int(tx.value("session_waiting_count", id=row.id))
    state = "running" if row.turn is not None else ("waiting" if row.wake_at is not None else "idle")
    if row.deleted is not None:
        state = "deleted"
    out: Json = {"key": row.key, "state": state, "waiting": waiting, "agent": row.agent, "home": row.home}
    if row.turn is not None:
        out["turn"] = row.turn
        turn = tx.one("turn_get", id=row.turn)
        if turn is not None and turn.retry_at is not None:
            out["retry_at"] = turn.retry_at
    if row.busy is not None:
        out["busy"] = row.busy
    if row.title:
        out["title"] = row.title
    if row.archived is not None:
        out["archived"] = True
    if row.chapter > 1:
        out["chapter"] = row.chapter
    return {**load(row.about), **out}


def changes(tx: Tx, unseen: Collection[int] = ()) -> list[tuple[int, Json]]:
    """What this transaction changed, as (session, change) in order of rev, without `unseen` sessions."""
    out: list[tuple[int, int, Json]] = []
    for (session, what, which), (rev, grew) in tx.dirty.items():
        if session not in unseen:
            out.append((session, rev, _change(tx, session, what, which, rev, grew)))
    out.sort(key=lambda c: (c[0], c[1]))
    return [(session, change) for session, _, change in out]


def _change(tx: Tx, session: int, what: str, which: int, rev: int, grew: list[str] | None) -> Json:
    if what == "session":
        row = tx.one("session_by_id", id=session)
        assert row is not None
        return {"op": "session", "rev": rev, **session_json(tx, row)}
    if what == "entry":
        if grew is not None:
            return {"op": "append", "rev": rev, "seq": which, "text": "".join(grew)}
        row = tx.one("entry_get", session=session, seq=which)
        assert row is not None
        return {"op": "entry", **entry_json(tx, row)}
    if grew is not None:
        return {"op": "output", "rev": rev, "id": which, "text": "".join(grew)}
    row = tx.one("item_get", id=which)
    assert row is not None
    return {"op": "item", **item_json(tx, row)}


# ---------------------------------------------------------------- reads


def find(tx: Tx, key: str) -> Row | None:
    """A session by its key; None if it does not exist or was deleted."""
    row = tx.one("session_by_key", key=key)
    return None if row is None or row.deleted is not None else row


def entries(tx: Tx, session: int, after: int, limit: int) -> tuple[list[Json], int]:
    """Entries that changed after a rev, oldest change first, and the rev to ask with next."""
    head = tx.one("session_by_id", id=session)
    assert head is not None
    rows = tx.all("entries_after", session=session, after=after, limit=limit)
    rev = head.rev if len(rows) < limit else rows[-1].rev if rows else after
    return [entry_json(tx, r) for r in rows], int(rev)


def snapshot(tx: Tx, session: int, limit: int = 200) -> Json:
    """The newest entries and items of a session, and the rev at which they are true."""
    row = tx.one("session_by_id", id=session)
    assert row is not None
    return {"rev": row.rev, "session": session_json(tx, row), **_stretch(tx, session, row.seq + 1, limit)}


def history(tx: Tx, session: int, before: int, limit: int) -> Json:
    """The entries and items before an entry's seq."""
    return _stretch(tx, session, before, limit)


def _stretch(tx: Tx, session: int, before: int, limit: int) -> Json:
    rows = list(reversed(tx.all("entries_last", session=session, before=before, limit=limit)))
    more = bool(rows) and tx.value("entry_before", session=session, seq=rows[0].seq) is not None
    lo = rows[0].born if more else 0
    edge = tx.one("entry_get", session=session, seq=before)
    hi = edge.born if edge is not None else 1 << 62
    items = tx.all("items_between", session=session, lo=lo, hi=hi)
    return {
        "entries": [entry_json(tx, r) for r in rows],
        "items": [item_json(tx, r) for r in items],
        "more": more,
        "before": rows[0].seq if rows else 0,
    }


def since(tx: Tx, session: int, after: int, limit: int = 1000) -> tuple[int, list[Json]] | None:
    """(head rev, everything that changed after a rev); None if that is too much, or the rev is not valid here."""
    head = tx.one("session_by_id", id=session)
    assert head is not None
    if after < head.erased_rev:  # what such a watcher holds is gone
        return None
    rows = tx.all("entries_after", session=session, after=after, limit=limit)
    items = tx.all("items_after", session=session, after=after, limit=limit)
    if len(rows) + len(items) >= limit or after > head.rev or after >> LIFE_BITS != head.rev >> LIFE_BITS:
        return None
    out = [_entry_since(tx, r, after) for r in rows] + [_item_since(tx, r, after) for r in items]
    out.sort(key=lambda c: int(c["rev"]))
    if head.rev > after:
        out.append({"op": "session", "rev": head.rev, **session_json(tx, head)})
    return int(head.rev), out


def _entry_since(tx: Tx, row: Row, after: int) -> Json:
    if row.live and row.born <= after and row.base <= after:
        pieces = tx.all("pieces_of_entry", session=row.session, seq=row.seq, after=after)
        return {"op": "append", "rev": row.rev, "seq": row.seq, "text": "".join(p.text for p in pieces)}
    return {"op": "entry", **entry_json(tx, row)}


def _item_since(tx: Tx, row: Row, after: int) -> Json:
    if row.live and row.born <= after and row.base <= after:
        pieces = tx.all("pieces_of_item", item=row.id, after=after)
        return {"op": "output", "rev": row.rev, "id": row.id, "text": "".join(p.text for p in pieces)}
    return {"op": "item", **item_json(tx, row)}


def sessions(tx: Tx, before: int = 1 << 62, limit: int = 200, archived: bool = False) -> list[Json]:
    """Sessions, newest first: those in use, or those that were put away."""
    query = "session_list_archived" if archived else "session_list"
    return [_listed(tx, r) for r in tx.all(query, before=before, limit=limit)]


def session(tx: Tx, session: int) -> Json:
    """One session, as in the list."""
    row = tx.one("session_by_id", id=session)
    assert row is not None
    return _listed(tx, row)


def _listed(tx: Tx, row: Row) -> Json:
    last = tx.all("entries_last", session=row.id, before=row.seq + 1, limit=1)
    out = session_json(tx, row)
    out.update(seq=row.seq, rev=row.rev, at=last[0].at if last else row.at, last=last[0].text[:200] if last else "")
    return out
