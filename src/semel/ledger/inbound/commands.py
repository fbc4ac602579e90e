"""Commands: heard once like every event, bound to no turn, answered by a notice (Laws 1, 4).

What a command does in the ledger happens in the transaction that hears it, so it stands in the order of hearing:
what is said after `/new` is said in the new chapter. The rest is done from the row, once, across restarts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from semel.law.access import APPROVALS
from semel.law.permission_questions import Chosen
from semel.law.permissions import GONE, Writing
from semel.ledger.delivery import claims
from semel.ledger.delivery.cutting import Leg
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import permission_requests, sessions

KIND = "command"
"""The kind of such events, of their entries and of the notices that answer them."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Did:
    """What a command did in the ledger. `result` is kept; `wake`: a turn is due; `root`: one is to be stopped; `seq`:
    the command's entry."""

    result: str = ""
    wake: bool = False
    root: int | None = None
    seq: int | None = None


@dataclass(frozen=True)
class Choice:
    """What an answer to a permission request chose when it was heard. `item` None: nothing; `said` tells why."""

    item: int | None
    option: str | None
    said: str
    face: str
    seen: int | None


def heard(
    tx: Tx, row: Row, event: int, name: str, argument: str, text: str, more: Json, writing: Writing, replies: bool
) -> Did:
    """A command that was heard just now, as a row, with what it does at once. `row` is its session.

    `writing`: how it came; `replies`: it is a reply, to the entry `more["of"]` if that was found.
    """
    if name in APPROVALS:
        number = int(argument) if argument else None
        found = permission_requests.name_request(tx, row, writing, name == "approve", number, more.get("of"), replies)
        did = Did(_kept(found, writing))
    else:
        did = _new(tx, row) if name == "new" else _retry(tx, row) if name == "retry" else Did()
    seq = entries.add_entry(tx, row.id, role="user", text=text, event=event, more={**more, "kind": KIND})
    tx.run(
        "command_add", event=event, session=row.id, seq=seq, name=name, argument=argument, result=did.result
    )  # fmt: skip
    entries.touch_session(tx, row.id)
    return replace(did, seq=seq)


def _kept(found: Chosen | str, writing: Writing) -> str:
    if isinstance(found, str):
        return entries.dump({"said": found})
    face = writing.dest or permission_requests.API
    choice: Json = {"item": found.item, "option": found.option, "said": found.said, "face": face}
    return entries.dump(choice if writing.seen is None else {**choice, "seen": writing.seen})


def choice(result: str) -> Choice:
    """What `heard` kept of an answer."""
    kept = entries.load(result)
    return Choice(
        kept.get("item"), kept.get("option"), str(kept.get("said") or GONE),
        kept.get("face") or permission_requests.API, kept.get("seen"),
    )  # fmt: skip


def _new(tx: Tx, row: Row) -> Did:
    """A chapter begins with this entry. The turn that runs belongs to the one before, and is stopped."""
    running = tx.one("turn_get", id=row.turn) if row.turn is not None else None
    sessions.new_chapter(tx, row)
    waiting = int(tx.value("session_waiting_count", id=row.id))
    if running is None:
        return Did(str(waiting))
    return Did(f"{waiting} stopped", root=int(running.root))


def _retry(tx: Tx, row: Row) -> Did:
    """The events of the last turn wait again, if it failed or was stopped: a person asks, so it is a new root."""
    if row.turn is not None:
        return Did("running")
    last = tx.one("turn_last", session=row.id)
    if last is None or last.chapter != row.chapter:
        return Did("none")
    if last.state not in ("failed", "cancelled"):
        return Did("done")
    if not tx.value("hearings_of_turn", turn=last.id):
        return Did("none")
    tx.run("hearing_unbind", turn=last.id)
    if tx.value("hearing_waits", session=row.id):
        tx.run("session_wake", id=row.id, due=tx.now, since=tx.now)
    return Did(f"t{last.id}", wake=True)


def left(tx: Tx) -> list[int]:
    """Sessions with commands that nobody answered yet."""
    return [int(r.session) for r in tx.all("commands_left")]


def open_in(tx: Tx, session: int) -> list[Row]:
    """A session's commands that nobody answered yet, in order of hearing."""
    return tx.all("commands_open", session=session)


def answer(tx: Tx, event: int, session: int, text: str, legs: Sequence[Leg] | None = None) -> bool:
    """The answer, where the person is at home. False: it was answered before, or its session is gone."""
    asked = tx.one("command_get", event=event, session=session)
    row = tx.one("session_by_id", id=session)
    if asked is None or row is None or asked.state != "open":
        return False
    seq = claims.announce(tx, row, text, turn=None, kind=KIND, tell=False, of=asked.seq, legs=legs)
    tx.run("command_done", event=event, session=session, answer=seq)
    return True


def own(tx: Tx, keys: Sequence[str]) -> set[str]:
    """The names of the commands that the agents of these sessions told they have."""
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


def to_stop(tx: Tx, session: int, event: int) -> tuple[int | None, int]:
    """(the turn that `/stop` means, what waits behind it). 0: one that is about to begin; None: there is none.

    It is one over something that was heard before the command was.
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
