"""What needs somebody, over all sessions: open requests and questions, failed turns, held parts, used up limits.

`list_needs` lists all of it, each with what a face needs to let a person answer in place. `semel status` shows the same
by session (`list_attention`).
"""

from __future__ import annotations

from collections.abc import Iterable

from semel.law.limits import Measure, Scope
from semel.law.permission_questions import find_allowing_number
from semel.ledger.delivery.parts import part_json
from semel.ledger.storage.rows import ItemRow, OutgoingPart, Row, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import part_requests
from semel.ledger.transcript.views import item_json
from semel.ledger.turns.finish_turn import EMPTY_TURN_NOTICE, find_empty_turn_notice
from semel.text.json_types import Json

NEWEST_TURNS = 2_000
"""How many of the newest turns are searched for failed ones, so that the cost is bounded (Law 11)."""
MAX_LISTED = 500
"""How many requests and questions are listed at most, and how many held parts."""


class OpenRequestRow(ItemRow):
    """A permission request or a question without an answer. `key`, `title`: its session's.

    `last_turn`, `started`: the newest turn of that session, and when it began (ms); without one, when the session did.
    """

    key: str
    title: str | None
    last_turn: int | None
    started: int


class LeftTurn(TurnRow):
    """The last turn of an idle session; it failed or may have ended without a word. `key`, `title`: its session's."""

    key: str
    title: str | None


class HeldPart(OutgoingPart):
    """A part that waits for a person's decision. `title`: its session's."""

    title: str | None


class LimitedSession(Row):
    """A session that waits because a limit is used up. `until`: when the limit's day ends, `at`: since when; in ms."""

    key: str
    title: str | None
    scope: Scope
    subject: str
    measure: Measure
    until: int
    at: int


def list_needs(tx: Tx, tz: str | None = None) -> list[Json]:
    """Return what needs somebody, as `GET /v1/needs` answers it: requests and questions first, oldest first.

    `why`: "approval" or "question" (`item` is what can be answered), "failed" (the last turn failed, `error` says why),
    "silent" (it ended without a word, `error` is the agent's last report, if there is one), "held" (`part` waits for a
    decision) or "limit" (a message waits `until` the day of the used up `limit` ends). Times are in ms. `tz`: the name
    of the time zone of the limits' days.
    """
    held = tx.all(HeldPart, "held_parts", limit=MAX_LISTED)
    return [*_list_requests(tx), *_list_left(tx), *(_describe_held(tx, row) for row in held), *_list_limited(tx, tz)]


def list_attention(tx: Tx, tz: str | None = None) -> list[Json]:
    """Return the sessions that need somebody, as `GET /v1/status` shows them: as `list_needs` does, without `item`.

    A session is listed once for each open permission request, because each has its own numbers, and with its oldest
    question, which a message answers. Held parts are counted elsewhere in the status.
    """
    first: dict[tuple[str, str, int | None], Json] = {}
    for need in (*_list_requests(tx), *_list_left(tx), *_list_limited(tx, tz)):
        request = need["item"]["id"] if need["why"] == "approval" else None
        first.setdefault((need["session"], need["why"], request), _without_item(need))
    return list(first.values())


def list_asking(tx: Tx) -> list[str]:
    """Return the keys of the sessions in which a permission request is open."""
    return list(dict.fromkeys(str(need["session"]) for need in _list_requests(tx) if need["why"] == "approval"))


def _without_item(need: Json) -> Json:
    return {name: value for name, value in need.items() if name != "item"}


def _list_requests(tx: Tx) -> Iterable[Json]:
    return [_describe_request(tx, row) for row in tx.all(OpenRequestRow, "requests_open", limit=MAX_LISTED)]


def _describe_request(tx: Tx, row: OpenRequestRow) -> Json:
    item = item_json(tx, row)
    turn = row.turn if row.turn is not None else row.last_turn
    need = _describe(row.key, row.title, at=item.get("at", row.started), turn=None if turn is None else f"t{turn}")
    if row.kind != "permission":
        return {**need, "why": "question", "item": item}
    first = item.get("first")
    approve = None if first is None else find_allowing_number(first, item.get("options") or ())
    numbers = {name: number for name, number in (("approve", approve), ("deny", first)) if number is not None}
    return {**need, "why": "approval", "asks": str(item.get("title", "")), **numbers, "item": item}


def _list_left(tx: Tx) -> Iterable[Json]:
    turns = tx.all(LeftTurn, "turns_left", newest=NEWEST_TURNS)
    return [need for turn in turns if (need := _describe_left(tx, turn)) is not None]


def _describe_left(tx: Tx, turn: LeftTurn) -> Json | None:
    """Return why the session that this turn left needs somebody; None if it needs nobody."""
    about = {"turn": f"t{turn.id}", "at": turn.ended or turn.started}
    if turn.state == "failed":
        return _describe(turn.key, turn.title, **about, why="failed", error=turn.error)
    notice = find_empty_turn_notice(tx, turn)
    if notice is None:
        return None
    report = notice.removeprefix(EMPTY_TURN_NOTICE).strip()
    return _describe(turn.key, turn.title, **about, why="silent", error=report or None)


def _describe_held(tx: Tx, row: HeldPart) -> Json:
    part = part_json(row) | ({"over": True} if part_requests.is_over(tx, row.claim) else {})
    return _describe(row.session_key, row.title, why="held", at=row.at, error=row.error, part=part)


def _list_limited(tx: Tx, tz: str | None) -> Iterable[Json]:
    for row in tx.all(LimitedSession, "sessions_limited"):
        limit = {"scope": row.scope, "subject": row.subject, "measure": row.measure}
        yield _describe(row.key, row.title, why="limit", at=row.at, until=row.until, tz=tz, limit=limit)


def _describe(session: str, title: str | None, **fields: object) -> Json:
    about = {"session": session, "title": title, **fields}
    return {name: value for name, value in about.items() if value is not None}
