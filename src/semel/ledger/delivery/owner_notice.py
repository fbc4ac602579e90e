"""Notices to the owners about the gateway itself, in sessions that the owners read."""

from __future__ import annotations

from collections.abc import Iterable

from semel.ledger import people
from semel.ledger.delivery import claims
from semel.ledger.delivery.cutting import cut, is_local, single_part
from semel.ledger.storage.rows import HomeSession, SessionRow
from semel.ledger.storage.sql import Tx

MAX_SEARCHED_SESSIONS = 200
"""How many of the newest sessions are searched for one that the page shows."""


def notify_owners(tx: Tx, text: str, kind: str, except_session: int | None = None) -> list[str]:
    """Add a notice for each owner. Return the keys of the sessions that have the notice.

    Each owner gets the notice in the direct chat in which they last wrote. If no owner has such a chat, it goes into
    the newest session whose home is the page or the terminal; if there is none either, nobody is notified. `kind`: the
    kind of the notice. `except_session`: the id of a session that already has the notice.
    """
    sessions = find_direct_sessions(tx) or _find_local_session(tx)
    for session in (session for session in sessions if session.id != except_session):
        claims.add_home_notice(tx, session, text, turn=None, kind=kind, tell=False)
    return [session.key for session in sessions]


def add_notices_of(tx: Tx, sessions: Iterable[SessionRow], item: int, text: str, kind: str) -> None:
    """Add a notice about an item of another session to each of `sessions`. The notice's entry names the item."""
    for session in sessions:
        if session.home is not None:
            caller = claims.Caller(session.id, session.key, None, None)
            legs = cut(tx, session.home, session.key, text) or single_part(session.home, session.key, text)
            request = claims.ClaimRequest("notice", text, session.home, legs=legs, more={"kind": kind, "item": item})
            claims.queue_notice(tx, caller, request, kind, tell_there=False)


def find_direct_sessions(tx: Tx) -> list[SessionRow]:
    """Return the session of each owner's direct chat in which they last wrote. An owner without one has none."""
    homes = [tx.all(HomeSession, "session_homes", home=dest)[:1] for dest in people.list_role_places(tx, "owner")]
    return [tx.get(SessionRow, "session_by_id", id=row.id) for rows in homes for row in rows]


def _find_local_session(tx: Tx) -> list[SessionRow]:
    rows = tx.all(SessionRow, "session_list", before=1 << 62, limit=MAX_SEARCHED_SESSIONS)
    return [row for row in rows if row.home is not None and is_local(row.home)][:1]
