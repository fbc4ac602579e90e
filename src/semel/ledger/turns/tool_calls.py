"""Tool calls: which turn they belong to, whether they are repeats, and the claims they become (Laws 5, 10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from semel.law import echo
from semel.ledger.delivery import claims
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries

T = TypeVar("T")


class UnknownToken(Exception):
    """The call's token belongs to no spawn of this ledger. Such calls are counted, not recorded."""


class SameIdOtherCall(ValueError):
    """One call id was used for two different calls."""


@dataclass(frozen=True)
class Spawned:
    """The spawn that a token belongs to, and its session."""

    spawn: int
    session: int
    key: str
    agent: str
    home: str | None
    live: bool


@dataclass(frozen=True)
class Call:
    """A tools/call as the MCP process handed it over. `args` is the digest of its name and arguments."""

    token: bytes
    conn: str
    call: str
    args: bytes
    tool: str | None = None  # the agent's tool call id, where it is known
    turn: int | None = None  # the turn that announced that tool call
    dead: bool = False  # the process whose token it shows is known to have died
    stopped: bool = False  # a person stopped its turn, and the agent has not ended it yet


def spawned(tx: Tx, token: bytes) -> Spawned:
    """The spawn that a token belongs to. Raises UnknownToken."""
    row = tx.one("spawn_by_token", token=token)
    if row is None:
        raise UnknownToken
    session = tx.one("session_by_id", id=row.session)
    assert session is not None
    return Spawned(row.id, row.session, session.key, row.agent, session.home, row.state == "live")


def call(tx: Tx, made: Call, what: claims.Say, blob: dict[str, Any] | None = None) -> claims.Made:
    """Record a tool call as one claim, however often it is handed over."""
    who = spawned(tx, made.token)
    before = tx.one("claim_by_call", spawn=who.spawn, call=made.call)
    if before is not None and bytes(before.args) == made.args:
        return _outcome(tx, before)
    if before is not None:
        raise SameIdOtherCall(f"call id {made.call!r} names another call; mint a new id for each tools/call")
    turn = turn_of(tx, who, made)
    caller = claims.Caller(
        session=who.session, key=who.key, turn=turn.id if turn else None, root=turn.root if turn else None,
        turn_how=(turn.how if turn else None) or "start", spawn=who.spawn, conn=made.conn, call=made.call,
        tool=made.tool,
        args=made.args, late=turn is not None and turn.state in ("done", "failed"),
    )  # fmt: skip
    fence = _fenced(who, made, turn)
    if fence:
        return claims.refuse(tx, caller, what, fence)
    original = _reissued(tx, who, caller, made)
    if original is not None:
        return claims.reissue(tx, caller, what, original)
    if turn is not None:
        tx.run("turn_tools", id=turn.id, n=1)
    if blob is not None:
        tx.run("blob_add", **blob, at=tx.now)
    return claims.say(tx, caller, _item(tx, caller, what))


def act(tx: Tx, made: Call, what: str, deed: Callable[[Tx, Spawned], T]) -> T | claims.Made:
    """Do for an agent something that says nothing. What is fenced off is refused, and recorded (Law 10).

    `what` names the deed, in the words of the record. `deed` has to bear being asked for twice.
    """
    who = spawned(tx, made.token)
    turn = turn_of(tx, who, made)
    if fence := _fenced(who, made, turn):
        return call(tx, made, claims.Say("tool", what, None, problem=fence))
    if turn is not None:
        tx.run("turn_tools", id=turn.id, n=1)
    return deed(tx, who)


def turn_of(tx: Tx, who: Spawned, made: Call) -> Row | None:
    """The turn a call belongs to (Law 10)."""
    if made.turn is not None:
        return tx.one("turn_get", id=made.turn)
    return tx.one("turn_of_spawn", session=who.session, spawn=who.spawn)


def _fenced(who: Spawned, made: Call, turn: Row | None) -> str:
    """Law 10: why this call may not speak; '' if it may."""
    if not who.live or made.dead:
        return "it came from an agent process that was already ended"
    if turn is None:
        return "no turn of this agent process has begun"
    if turn.state == "cancelled" or (made.stopped and turn.state == "running"):
        return "its turn was cancelled"
    if turn.state == "lost":
        return "its turn was lost, and another attempt took over"
    return ""


def _reissued(tx: Tx, who: Spawned, caller: claims.Caller, made: Call) -> int | None:
    """The claim already recorded for this call, if a tool server died before it could answer."""
    rows = tx.all("claims_equal", spawn=who.spawn, args=made.args, turn=caller.turn, reissue=claims.REISSUE)
    earlier = [echo.EarlierCall(r.id, r.conn, r.tool, bool(r.answered), r.reissue_of) for r in rows]
    return echo.reissue_of(conn=made.conn, tool=made.tool, earlier=earlier)


def _item(tx: Tx, caller: claims.Caller, what: claims.Say) -> claims.Say:
    """A question also becomes an item that people can answer."""
    if what.kind != "ask" or what.dest is None or what.problem:
        return what
    options = what.more.get("options", [])
    item = entries.add_item(
        tx, caller.session, turn=None, kind="ask", text=what.text, live=True,
        body={"state": "open", "options": [{"optionId": o, "name": o, "kind": "answer"} for o in options]},
    )  # fmt: skip
    return replace(what, more={**what.more, "item": item})


def _outcome(tx: Tx, row: Row) -> claims.Made:
    if row.reason == claims.REISSUE and row.echo_of is not None:
        first = tx.one("claim_get", id=row.echo_of)
        assert first is not None
        return _outcome(tx, first)
    return claims.Made(row.id, row.outcome, row.reason or "", row.seq, row.echo_of, row.dest)


def answered(tx: Tx, token: bytes, call_id: str) -> None:
    """Record that the agent received the answer of this call, and so of the call that it repeats."""
    who = spawned(tx, token)
    tx.run("claim_answered", spawn=who.spawn, call=call_id)
    tx.run("job_call_answered", spawn=who.spawn, call=call_id)
    row = tx.one("claim_by_call", spawn=who.spawn, call=call_id)
    if row is not None and row.reason == claims.REISSUE and row.echo_of is not None:
        tx.run("claim_answered_id", id=row.echo_of)
