"""Permission requests: find the request that an answer is for, and add notices about requests (Law 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from semel.law import permission_questions as law
from semel.law.access import APPROVALS
from semel.law.delivery import State as PartState
from semel.law.permissions import AnswerOrigin, NoticePart, PosedRequest, Reply, describe_absence
from semel.law.permissions import name_request as name
from semel.ledger.delivery import claims, owner_notice
from semel.ledger.delivery.cutting import Leg
from semel.ledger.storage.rows import ClaimRow, EntryRow, HomeSession, ItemRow, OpenCommand, Row, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.transcript.part_requests import API as API
from semel.ledger.transcript.part_requests import OWNER_KIND

KIND = "permission"
"""The kind of a permission request's item, and of the notices about a request."""

HINT_KIND = "permission.hint"
"""The kind of the notice that tells a person who wrote a message how to answer an open request."""

OVER_STATES = ("cancelled", "expired")
"""States of a request that ended without an answer and can no longer get one."""

MAX_SEARCHED_ENTRIES = 50
"""How many of a session's newest entries are searched for notices about requests of other sessions."""

MAX_RECENT_REQUESTS = 12
"""How many of the newest requests are searched, so that a late answer learns what became of its request."""


class NoticePartRow(Row):
    """A part of a notice. `failed`: the event that reported that it failed after it was sent."""

    id: int
    dest: str
    state: PartState
    failed: int | None
    receipt: str | None
    first: int | None
    error: str | None


def list_open(tx: Tx, turn: int) -> list[ItemRow]:
    """Return the turn's permission requests that nobody has answered yet."""
    return [item for item in tx.all(ItemRow, "items_of_turn", turn=turn) if item.kind == KIND and item.live]


def uncount_waiting_calls(tx: Tx, turn: int) -> None:
    """Take the calls that wait for an answer off the number of tool calls that the turn has started (Law 9).

    Such a call was reported as no more than pending, has no output, and a permission request for it is open. No request
    for it was answered. Call this before the turn's items are closed.
    """
    items = tx.all(ItemRow, "items_of_turn", turn=turn)
    requests = [entries.load(item.body) for item in items if item.kind == KIND]
    named = [request for request in requests if isinstance(request.get("call"), str)]  # as the agent sent it
    open_calls = {request["call"] for request in named if request.get("state") == "open"}
    waiting = open_calls - {request["call"] for request in named if request.get("state") != "open"}
    calls = [item for item in items if item.kind == "tool" and item.name in waiting]
    idle = [call for call in calls if entries.load(call.body).get("status") == "pending"]
    if count := sum(not entries.item_text(tx, call.id) for call in idle):
        tx.run("turn_tools", id=turn, n=-count)


def name_request(
    tx: Tx,
    session: SessionRow,
    origin: AnswerOrigin,
    allow: bool,
    number: int | None,
    replied_seq: int | None,
    replies: bool,
) -> law.ChosenOption | str:
    """Find the request that an answer is for, as the ledger stands when the answer is accepted (Law 13).

    Return the chosen option of that request, or a text that says why the answer chooses nothing. `allow`: True allows,
    False denies. `number`: the number in the answer. `replied_seq`: the seq of the entry that the answer replies to, if
    it was found. `replies`: whether the answer replies to any message.
    """
    posed = _list_posed(tx, session.id)
    if origin.dest is not None:
        for other in tx.all(HomeSession, "session_homes", home=origin.dest):
            if other.id != session.id:
                posed += [
                    replace(request, is_elsewhere=True)
                    for request in _list_posed(tx, other.id)
                    if request.state == "open"
                ]
    posed += _list_notified_requests(tx, session)
    reply = _classify_reply(tx, session.id, replied_seq) if replied_seq is not None else "unknown" if replies else None
    replied_item = _find_notified_item(tx, session.id, replied_seq) if reply == "elsewhere" else None
    return name(posed, origin, allow, number, reply, replied_item)


def _list_posed(tx: Tx, session: int) -> list[PosedRequest]:
    """Return the permission requests of a session that an answer may mean, oldest first.

    These are all open requests, and the newest MAX_RECENT_REQUESTS whether open or not.
    """
    rows = {row.id: row for row in tx.all(ItemRow, "requests_last", session=session, limit=MAX_RECENT_REQUESTS)}
    rows |= {row.id: row for row in tx.all(ItemRow, "items_live", session=session) if row.kind == KIND}
    answered = _answered_before(tx, session)
    return [_read_posed(tx, rows[item], item in answered) for item in sorted(rows)]


def _list_notified_requests(tx: Tx, session: SessionRow) -> list[PosedRequest]:
    """Return the open requests of other sessions of which an owner was notified in this session, oldest first."""
    rows = tx.all(EntryRow, "entries_last", session=session.id, before=session.seq + 1, limit=MAX_SEARCHED_ENTRIES)
    notices = {int(more["item"]): row for row in rows if (more := entries.load(row.more)).get("kind") == OWNER_KIND}
    items = [tx.one(ItemRow, "item_get", id=item) for item in sorted(notices)]
    return [
        PosedRequest(
            _read_request(item),
            "open",
            parts=_notice_parts(tx, session.id, notices[item.id].seq),
            is_elsewhere=True,
            is_owner_notified=True,
            whose=str(entries.load(item.body).get("whose") or ""),
            session=tx.get(SessionRow, "session_by_id", id=item.session).key,
        )
        for item in items
        if item is not None and item.kind == KIND and item.live
    ]


def _answered_before(tx: Tx, session: int) -> set[int]:
    """Return the ids of requests that were answered by commands which the gateway has not carried out yet."""
    results = [
        entries.load(command.result)
        for command in tx.all(OpenCommand, "commands_open", session=session)
        if command.name in APPROVALS
    ]
    return {int(command["item"]) for command in results if command.get("item") is not None}


def _read_posed(tx: Tx, row: ItemRow, answered: bool) -> PosedRequest:
    request = _read_request(row)
    state, outcome = str(entries.load(row.body).get("state")), describe_ending(row)
    if not outcome and answered:
        state, outcome = "answered", f"it was answered just before: {request.title_line}"
    return PosedRequest(request, state, row.born, _notice_parts(tx, row.session, request.notice_seq), outcome)  # type: ignore[arg-type]


def _read_request(row: ItemRow) -> law.PermissionRequest:
    body = entries.load(row.body)
    options = tuple(o for o in body.get("options", ()) if isinstance(o, dict))
    title, seq = str(body.get("title") or ""), body.get("announced")
    return law.PermissionRequest(row.id, title, int(body.get("first") or 0), options, seq, body.get("input"))


def describe_answer(tx: Tx, item: int) -> str:
    """Say how a request that was announced in a chat was answered, and by whom.

    Return "" if its chat needs no name: it was not announced there, or the one who reads there answered it.
    """
    row = tx.get(ItemRow, "item_get", id=item)
    body = entries.load(row.body)
    is_for_others = body.get("face") == API or body.get("place") == "group"
    return describe_ending(row) if body.get("announced") and is_for_others else ""


def describe_ending(row: ItemRow) -> str:
    """Say how a permission request ended, and who answered it; "" while it is open."""
    body = entries.load(row.body)
    state, title = body.get("state"), str(body.get("title") or "")
    if state == "answered":
        options = tuple(o for o in body.get("options", ()) if isinstance(o, dict))
        by, is_outside = str(body.get("by") or ""), body.get("face") == API and "announced" in body
        return law.format_outcome(body.get("answer"), options, by, title, is_outside)
    return law.format_withdrawal(title, state == "expired") if state in OVER_STATES else ""


def _notice_parts(tx: Tx, session: int, seq: int | None) -> tuple[NoticePart, ...]:
    notice = tx.one(EntryRow, "entry_get", session=session, seq=seq) if seq is not None else None
    if notice is None or notice.claim is None:
        return ()
    parts = tx.all(NoticePartRow, "notice_parts", claim=notice.claim)
    return tuple(NoticePart(p.dest, p.state, bool(p.failed), p.receipt, p.first, p.error, p.id) for p in parts)


def _classify_reply(tx: Tx, session: int, seq: int) -> Reply:
    """Return the kind of message that an answer to the entry `seq` replies to (`semel.law.permissions.Reply`)."""
    entry = tx.one(EntryRow, "entry_get", session=session, seq=seq)
    more = {} if entry is None else entries.load(entry.more)
    if entry is not None and "from" in more and entry.claim is not None:
        claim = tx.one(ClaimRow, "claim_get", id=entry.claim)
        return "elsewhere" if claim is not None and claim.reason == KIND else None
    return "elsewhere" if more.get("kind") == OWNER_KIND else seq if more.get("kind") == KIND else None


def _find_notified_item(tx: Tx, session: int, seq: int | None) -> int | None:
    """Return the item of another session's request of which the entry `seq` notified an owner; None if of none."""
    entry = tx.one(EntryRow, "entry_get", session=session, seq=seq) if seq is not None else None
    more = {} if entry is None else entries.load(entry.more)
    return int(more["item"]) if more.get("kind") == OWNER_KIND else None


def announce(tx: Tx, session: int, turn: int | None, text: str, legs: Sequence[Leg] | None = None) -> int:
    """Add a notice about a new request at the session's home. Return the seq of its entry."""
    row = tx.get(SessionRow, "session_by_id", id=session)
    turn_row = tx.one(TurnRow, "turn_get", id=turn) if turn is not None else None
    return claims.add_home_notice(tx, row, text, turn=turn_row, kind=KIND, tell=False, legs=legs)


def notify_owners(tx: Tx, item: int, whose: str, seconds: float) -> None:
    """Tell the owners, in their own chats, of an open request in a chat where nobody may answer it.

    `item`: the request's item. `whose`: the name of the person whose chat it is. `seconds`: for how long it can be
    answered.
    """
    row = tx.get(ItemRow, "item_get", id=item)
    body, session = entries.load(row.body), tx.get(SessionRow, "session_by_id", id=row.session)
    if body.get("state") == "open":
        text = law.format_owner_notice(str(body.get("title") or ""), body.get("input"), session.key, whose, seconds)
        notified = owner_notice.find_direct_sessions(tx)
        owner_notice.add_notices_of(tx, notified, item, text, OWNER_KIND)
        entries.set_item(tx, item, body={"told": [chat.key for chat in notified], "whose": whose})


def add_hints(tx: Tx, session: SessionRow, message_seq: int, *, is_from_home: bool) -> bool:
    """Add a notice for each open request that has none yet. It says that a message is not an answer, and how to answer.

    Return whether there was such a request. Call this when a person's message was heard (Law 13). `message_seq`: the
    message's entry. `is_from_home`: it was written in the session's home; the notice is then sent there, too.
    """
    rows = tx.all(ItemRow, "items_live", session=session.id) if session.turn is not None else []
    unhinted = [row for row in rows if row.kind == KIND and _is_unhinted(row)]
    answered = _answered_before(tx, session.id) if unhinted else set()
    for row in unhinted:
        if row.id not in answered:
            _add_hint(tx, session, row, message_seq, is_from_home)
    return bool(unhinted)


def _is_unhinted(row: ItemRow) -> bool:
    body = entries.load(row.body)
    return body.get("state") == "open" and "hint" not in body


def _add_hint(tx: Tx, session: SessionRow, row: ItemRow, message_seq: int, is_from_home: bool) -> None:
    body = entries.load(row.body)
    request = _read_request(row)
    parts = _notice_parts(tx, session.id, request.notice_seq) if is_from_home else ()
    text = law.format_hint(
        request, str(body.get("approvers") or "the owner"), body.get("place") or "chat",
        describe_absence(request, parts), is_on_its_way=any(part.state != "sent" for part in parts),
    )  # fmt: skip
    if is_from_home:
        seq = claims.add_home_notice(tx, session, text, turn=None, kind=HINT_KIND, tell=False, about_seq=message_seq)
    else:
        seq = entries.add_entry(tx, session.id, role="notice", text=text, more={"kind": HINT_KIND, "of": message_seq})
    entries.set_item(tx, row.id, body={"hint": seq})


def add_outcome_notice(tx: Tx, item: ItemRow, text: str, is_announced: bool = False) -> None:
    """Add a notice with the outcome of a request, wherever the request was announced: in its chat, and to owners.

    `item`: as it was before it ended. `is_announced`: the request's own chat learns the outcome in another way.
    """
    body = entries.load(item.body)
    if item.kind == KIND and body.get("announced") and not is_announced:
        announce(tx, item.session, item.turn, text)
    if notified := [tx.one(SessionRow, "session_by_key", key=key) for key in body.get("told") or ()]:
        sessions = [session for session in notified if session is not None and session.deleted is None]
        text = law.format_ending_elsewhere(text, str(body.get("whose") or ""))
        owner_notice.add_notices_of(tx, sessions, item.id, text, KIND)


def add_withdrawal_notice(tx: Tx, item: ItemRow, expired: bool = False) -> None:
    """Add a notice that a request can no longer be answered. `expired`: because its deadline has passed."""
    add_outcome_notice(tx, item, law.format_withdrawal(str(entries.load(item.body).get("title") or ""), expired))
