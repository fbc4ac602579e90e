"""Tool calls: find their turns, recognise repeats, and record them as claims (Laws 5, 10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from semel.law import echo
from semel.ledger.delivery import buttons, claims
from semel.ledger.storage.rows import ClaimRow, Row, SessionRow, SpawnRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries

T = TypeVar("T")


class EqualClaim(Row):
    """The claim of an earlier call with the same arguments."""

    id: int
    conn: str | None
    tool: str | None
    answered: int
    reissue_of: int | None


class UnknownToken(Exception):
    """No spawn in this ledger has the call's token. Such calls are counted, not recorded."""


class CallIdReused(ValueError):
    """The same call id came with other arguments before."""


@dataclass(frozen=True)
class CallingSpawn:
    """The spawn to which a token belongs, and its session."""

    spawn: int
    session: int
    key: str
    agent: str
    home: str | None
    live: bool
    folder: str | None = None


@dataclass(frozen=True)
class ToolCallRequest:
    """A tools/call request, as the agent's MCP process handed it over. `args`: the digest of its name and arguments.

    `token`: the digest of the spawn's fencing token. `conn`: the MCP process. `call`: the id that the process gave the
    call.
    """

    token: bytes
    conn: str
    call: str
    args: bytes
    tool: str | None = None  # the agent's tool call id, where it is known
    turn: int | None = None  # the turn that announced that tool call
    dead: bool = False  # the process whose token it shows is known to have died
    stopped: bool = False  # a person stopped its turn, and the agent has not ended it yet


def identify_spawn(tx: Tx, token: bytes) -> CallingSpawn:
    """Return the spawn to which a token belongs. Raises UnknownToken."""
    row = tx.one(SpawnRow, "spawn_by_token", token=token)
    if row is None:
        raise UnknownToken
    session = tx.get(SessionRow, "session_by_id", id=row.session)
    return CallingSpawn(row.id, row.session, session.key, row.agent, session.home, row.state == "live", session.folder)


def record_call(
    tx: Tx, call: ToolCallRequest, request: claims.ClaimRequest, blob: dict[str, Any] | None = None
) -> claims.ClaimResult:
    """Record a tool call as one claim, however often it is handed over. Return the claim's result.

    `blob`: the stored file that the call sends. Raises CallIdReused, UnknownToken.
    """
    spawn = identify_spawn(tx, call.token)
    earlier = tx.one(ClaimRow, "claim_by_call", spawn=spawn.spawn, call=call.call)
    if earlier is not None and earlier.args == call.args:
        return _recorded_result(tx, earlier)
    if earlier is not None:
        raise CallIdReused(f"call id {call.call!r} was another call; give each tools/call an id of its own")
    turn = find_turn(tx, spawn, call)
    caller = claims.Caller(
        session=spawn.session, key=spawn.key, turn=turn.id if turn else None, root=turn.root if turn else None,
        turn_how=(turn.how if turn else None) or "start", spawn=spawn.spawn, conn=call.conn, call=call.call,
        tool=call.tool,
        args=call.args, is_late=turn is not None and turn.state in ("done", "failed"),
    )  # fmt: skip
    fence = _refusal_reason(spawn, call, turn)
    if fence:
        return claims.refuse(tx, caller, request, fence)
    original = _find_reissued(tx, spawn, caller, call)
    if original is not None:
        return claims.reissue(tx, caller, request, original)
    if turn is not None:
        tx.run("turn_tools", id=turn.id, n=1)
    if blob is not None:
        tx.run("blob_add", **blob, at=tx.now)
    request = _with_item(tx, caller, request)
    said = claims.say(tx, caller, request)
    if "item" in request.more:
        button_part = buttons.offer_buttons(tx, caller.session, said.seq)
        if button_part is not None:
            entries.set_item(tx, request.more["item"], body={"button_part": button_part})
    return said


def perform(
    tx: Tx, call: ToolCallRequest, description: str, action: Callable[[Tx, CallingSpawn], T]
) -> T | claims.ClaimResult:
    """Run the `action` of a tool call that sends no message, such as starting a job. Return the action's result.

    If the call is fenced off, record and return the refusal instead (Law 10). `description` names the action in the
    record. `action` must be idempotent, because a call may be repeated. Raises UnknownToken.
    """
    spawn = identify_spawn(tx, call.token)
    turn = find_turn(tx, spawn, call)
    if fence := _refusal_reason(spawn, call, turn):
        return record_call(tx, call, claims.ClaimRequest("tool", description, None, problem=fence))
    if turn is not None:
        tx.run("turn_tools", id=turn.id, n=1)
    return action(tx, spawn)


def find_turn(tx: Tx, spawn: CallingSpawn, call: ToolCallRequest) -> TurnRow | None:
    """Return the turn to which a call belongs, or None (Law 10)."""
    if call.turn is not None:
        return tx.one(TurnRow, "turn_get", id=call.turn)
    return tx.one(TurnRow, "turn_of_spawn", session=spawn.session, spawn=spawn.spawn)


def _refusal_reason(spawn: CallingSpawn, call: ToolCallRequest, turn: TurnRow | None) -> str:
    """Return why a call is refused (Law 10); "" if it is allowed."""
    if not spawn.live or call.dead:
        return "it came from an agent process that was already ended"
    if turn is None:
        return "no turn of this agent process has begun"
    if turn.state == "cancelled" or (call.stopped and turn.state == "running"):
        return "its turn was cancelled"
    if turn.state == "lost":
        return "its turn was lost, and another attempt took over"
    return ""


def _find_reissued(tx: Tx, spawn: CallingSpawn, caller: claims.Caller, call: ToolCallRequest) -> int | None:
    """Return the claim of the earlier call that this call repeats; None if it repeats none.

    An agent repeats a call if its tool server died before it answered the first one.
    """
    rows = tx.all(
        EqualClaim, "claims_equal", spawn=spawn.spawn, args=call.args, turn=caller.turn, reissue=claims.REISSUE_REASON
    )
    earlier = [echo.EarlierCall(r.id, r.conn, r.tool, bool(r.answered), r.reissue_of) for r in rows]
    return echo.find_reissued_call(conn=call.conn, tool=call.tool, earlier=earlier)


def _with_item(tx: Tx, caller: claims.Caller, request: claims.ClaimRequest) -> claims.ClaimRequest:
    """Add the item by which people answer, if the request is a question. Return the request with the item's id."""
    if request.kind != "ask" or request.dest is None or request.problem:
        return request
    options = request.more.get("options", [])
    item = entries.add_item(
        tx, caller.session, turn=None, kind="ask", text=request.text, live=True,
        body={
            "state": "open", "options": [{"optionId": o, "name": o, "kind": "answer"} for o in options], "at": tx.now
        },
    )  # fmt: skip
    return replace(request, more={**request.more, "item": item})


def _recorded_result(tx: Tx, row: ClaimRow) -> claims.ClaimResult:
    if row.reason == claims.REISSUE_REASON and row.echo_of is not None:
        first = tx.get(ClaimRow, "claim_get", id=row.echo_of)
        return _recorded_result(tx, first)
    return claims.ClaimResult(row.id, row.outcome, row.reason or "", row.seq, row.echo_of, row.dest)


def mark_answered(tx: Tx, token: bytes, call_id: str) -> None:
    """Record that the agent received the result of a call, and so also of the earlier call that this one repeats."""
    spawn = identify_spawn(tx, token)
    tx.run("claim_answered", spawn=spawn.spawn, call=call_id)
    tx.run("job_call_answered", spawn=spawn.spawn, call=call_id)
    row = tx.one(ClaimRow, "claim_by_call", spawn=spawn.spawn, call=call_id)
    if row is not None and row.reason == claims.REISSUE_REASON and row.echo_of is not None:
        tx.run("claim_answered_id", id=row.echo_of)
