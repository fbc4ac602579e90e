"""Commands to the gateway: accepted once like every event, bound to no turn, answered by a notice (Laws 1, 4).

The effect of a command on the ledger happens in the transaction that accepts it, so it takes effect in order: a message
after `/new` belongs to the new chapter. Everything else is done later from the command's row, once, across restarts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from semel.law.access import APPROVALS
from semel.law.permission_questions import Chosen
from semel.law.permissions import GONE, AnswerOrigin
from semel.ledger.delivery import claims
from semel.ledger.delivery.cutting import Leg
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import permission_requests, sessions

KIND = "command"
"""The kind of command events, of their entries and of the notices that answer them."""

Json = dict[str, Any]


@dataclass(frozen=True)
class CommandEffect:
    """The effect of a command on the ledger.

    `result` is stored with the command. `wake`: a turn is due. `root`: of a turn to stop. `seq`: the command's entry.
    """

    result: str = ""
    wake: bool = False
    root: int | None = None
    seq: int | None = None


@dataclass(frozen=True)
class Choice:
    """The option that an approval or denial chose. `item` is None if it chose nothing; `said` then says why."""

    item: int | None
    option: str | None
    said: str
    face: str
    seen: int | None


def heard(
    tx: Tx, row: Row, event: int, name: str, argument: str, text: str, more: Json, writing: AnswerOrigin, replies: bool
) -> CommandEffect:
    """Record a command that was just accepted in session `row`, and apply its immediate effect.

    `writing`: how it came. `replies`: it is a reply, to the entry `more["of"]` if that was found.
    """
    if name in APPROVALS:
        number = int(argument) if argument else None
        found = permission_requests.name_request(tx, row, writing, name == "approve", number, more.get("of"), replies)
        did = CommandEffect(_kept(found, writing))
    else:
        did = _new(tx, row) if name == "new" else _retry(tx, row) if name == "retry" else CommandEffect()
    seq = entries.add_entry(tx, row.id, role="user", text=text, event=event, more={**more, "kind": KIND})
    tx.run(
        "command_add", event=event, session=row.id, seq=seq, name=name, argument=argument, result=did.result
    )  # fmt: skip
    entries.touch_session(tx, row.id)
    return replace(did, seq=seq)


def _kept(found: Chosen | str, writing: AnswerOrigin) -> str:
    if isinstance(found, str):
        return entries.dump({"said": found})
    face = writing.dest or permission_requests.API
    choice: Json = {"item": found.item, "option": found.option, "said": found.said, "face": face}
    return entries.dump(choice if writing.seen is None else {**choice, "seen": writing.seen})


def choice(result: str) -> Choice:
    """Decode the choice in a command's `result`."""
    kept = entries.load(result)
    return Choice(
        kept.get("item"), kept.get("option"), str(kept.get("said") or GONE),
        kept.get("face") or permission_requests.API, kept.get("seen"),
    )  # fmt: skip


def _new(tx: Tx, row: Row) -> CommandEffect:
    """Begin a chapter with this entry. A running turn belongs to the previous chapter and is to be stopped."""
    running = tx.one("turn_get", id=row.turn) if row.turn is not None else None
    sessions.new_chapter(tx, row)
    waiting = int(tx.value("session_waiting_count", id=row.id))
    if running is None:
        return CommandEffect(str(waiting))
    return CommandEffect(f"{waiting} stopped", root=int(running.root))


def _retry(tx: Tx, row: Row) -> CommandEffect:
    """Requeue the events of the last turn if it failed or was stopped. A person asks, so the next turn has a new
    root."""
    if row.turn is not None:
        return CommandEffect("running")
    last = tx.one("turn_last", session=row.id)
    if last is None or last.chapter != row.chapter:
        return CommandEffect("none")
    if last.state not in ("failed", "cancelled"):
        return CommandEffect("done")
    if not tx.value("hearings_of_turn", turn=last.id):
        return CommandEffect("none")
    tx.run("hearing_unbind", turn=last.id)
    if tx.value("hearing_waits", session=row.id):
        tx.run("session_wake", id=row.id, due=tx.now, since=tx.now)
    return CommandEffect(f"t{last.id}", wake=True)


def left(tx: Tx) -> list[int]:
    """Sessions with unanswered commands."""
    return [int(r.session) for r in tx.all("commands_left")]


def open_in(tx: Tx, session: int) -> list[Row]:
    """A session's unanswered commands, in order of acceptance."""
    return tx.all("commands_open", session=session)


def answer(tx: Tx, event: int, session: int, text: str, legs: Sequence[Leg] | None = None) -> bool:
    """Answer a command with a notice in its session's home. False if it was answered before or the session is gone."""
    asked = tx.one("command_get", event=event, session=session)
    row = tx.one("session_by_id", id=session)
    if asked is None or row is None or asked.state != "open":
        return False
    seq = claims.announce(tx, row, text, turn=None, kind=KIND, tell=False, of=asked.seq, legs=legs)
    tx.run("command_done", event=event, session=session, answer=seq)
    return True


def own(tx: Tx, keys: Sequence[str]) -> set[str]:
    """Names of the commands that the agents of these sessions offer."""
    found: set[str] = set()
    for key in keys:
        row = tx.one("session_by_key", key=key)
        told = entries.load(row.about).get("commands") if row is not None else None
        for one in told if isinstance(told, list) else []:
            if isinstance(one, dict) and isinstance(name := one.get("name"), str):
                found.add(name.lstrip("/"))
    return found


@dataclass(frozen=True)
class Standing:
    """A session at a glance, for `/status`."""

    row: Row
    about: Json
    waiting: int
    last: Row | None


def standing(tx: Tx, session: int) -> Standing:
    row = tx.one("session_by_id", id=session)
    assert row is not None
    waiting = int(tx.value("session_waiting_count", id=session))
    return Standing(row, entries.load(row.about), waiting, tx.one("turn_last", session=session))


def find_turn_to_stop(tx: Tx, session: int, event: int) -> tuple[int | None, int]:
    """(the turn that `/stop` means, how many events wait behind it).

    The turn is 0 if it is about to begin, and None if there is nothing to stop. It counts only if it has an event that
    was accepted before the command.
    """
    row = tx.one("session_by_id", id=session)
    assert row is not None
    turn = 0 if row.turn is None else int(row.turn)
    waiting = int(tx.value("session_waiting_count", id=session))
    if turn == 0:
        return (0 if tx.value("hearing_waits_before", session=session, event=event) else None), 0
    return (turn if tx.value("hearing_bound_before", turn=turn, event=event) else None), waiting


def lines(tx: Tx, session: int, most: int) -> list[Row]:
    """The last messages of this chapter, oldest first, without commands and notices."""
    row = tx.one("session_by_id", id=session)
    assert row is not None
    found: list[Row] = []
    before, looked = row.seq + 1, 0
    while len(found) < most and looked < 10 * most + 100:
        page = tx.all("entries_last", session=session, before=before, limit=100)
        found += [e for e in page if e.role != "notice" and entries.load(e.more).get("kind") != KIND and not e.live]
        looked += len(page)
        if len(page) < 100:
            break
        before = page[-1].seq
    return found[:most][::-1]
