"""One image of the disk, opened with the real store: is it whole, is all there that was acknowledged, does it go on?"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from proof.machines.engines import rows
from proof.machines.house import RULES
from proof.power.images import Files, lay_out
from proof.power.recorder import MARK, NAME, fingerprint
from semel.ledger.admin import books, erase
from semel.ledger.backup import settle_restored
from semel.ledger.delivery import claims, send_queue
from semel.ledger.delivery.cutting import Leg
from semel.ledger.inbound import channel_batch, commands, hear
from semel.ledger.sqlite import mark_file
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import LedgerRow
from semel.ledger.storage.sql import Tx
from semel.ledger.turns import finish_turn, sessions, spawns, turn_ops, turns

LOST = "acknowledged work is gone"
STRANGE = "its content is that of no commit"
BEHIND = "its mark does not know what was acknowledged"
FALSE_ALARM = "it is taken for a copy that was put back, and is none"
HIDDEN = "an older copy of it is not judged by the mark"
AGAIN = 3  # of so many images one is opened a second time
LEASE = "the gateway after the power cut"


class Judge:
    """Opens images in a folder of its own. Equal contents are recovered once: that depends on nothing else.

    `older`: the ledger as it was early on, a copy that somebody could put back.
    """

    def __init__(self, folder: Path, now: int, known: Collection[str] = (), older: Files | None = None) -> None:
        self.older = older or {}
        self.folder = folder
        self.known = frozenset(known)  # the contents behind each commit
        self.now = now
        self.opened = 0
        self.recovered: set[str] = set()

    def fault(self, files: Files, allowed: Collection[str] | None, marked: int = 0) -> str:
        """What is wrong with an image, in words; "" where nothing is.

        `allowed`: what it may hold (None: anything). `marked`: the commits that its mark must know of.
        """
        self.opened += 1
        lay_out(files, self.folder)
        try:
            return self._fault(allowed, marked) or self._older_fault(files)
        except Exception as error:
            words = " ".join(str(error).replace(f"{self.folder}/", "").split())
            return f"it cannot be used: {type(error).__name__}: {words[:200]}"

    def _fault(self, allowed: Collection[str] | None, marked: int) -> str:
        known = mark_file.read_mark(self.folder / NAME)
        if marked and (known is None or known.commits < marked):
            return f"{BEHIND}: {marked} commits were acknowledged, and it is {known}"
        with self._open() as store:
            if damage := store.read_sync(damaged):
                return f"SQLite finds damage: {damage}"
            found = store.read_sync(fingerprint)
            if allowed is not None and found not in allowed:
                return LOST if found in self.known else STRANGE
            store.keep_mark()
            if store.read_sync(settle_restored.is_unsettled_copy):
                return FALSE_ALARM
            fresh = found not in self.recovered
            self.recovered.add(found)
            if fresh:
                store.write_sync(recover)
            store.write_sync(one_more_turn)
            if fresh and (broken := broken_books(store)):
                return f"after recovery: {broken}"
            last = store.read_sync(fingerprint)
        if self.opened % AGAIN:
            return ""
        with self._open() as store:
            if store.read_sync(fingerprint) != last:
                return "what was done after recovery is gone"
            store.keep_mark()
            return FALSE_ALARM if store.read_sync(settle_restored.is_unsettled_copy) else ""

    def _older_fault(self, files: Files) -> str:
        """Somebody puts the older ledger in the place of this one, and leaves its mark where it is (Law 14)."""
        if self.opened % AGAIN or not self.older or MARK not in files:
            return ""
        lay_out({**self.older, MARK: files[MARK]}, self.folder)
        known = mark_file.read_mark(self.folder / NAME)
        with self._open() as store:
            own = store.read_sync(lambda tx: tx.one(LedgerRow, "ledger_get"))
            store.keep_mark()
            copied = store.read_sync(settle_restored.is_unsettled_copy)
            if known is not None and copied != (known.commits > own.commits):
                return f"{HIDDEN}: it knows {own.commits} commits, and the mark is {known}"
        return ""

    def _open(self) -> Store:
        return Store.open_sync(self.folder / NAME, exclusive=False, clock=lambda: self.now)


def damaged(tx: Tx) -> str:
    found = rows(tx, "PRAGMA integrity_check")
    return "" if found == [("ok",)] else repr(found)[:300]


def broken_books(store: Store) -> str:
    broken = [book for book in store.read_sync(books.audit) if not book.ok]
    return "; ".join(f"{book.law}: {book.broken[:2]}" for book in broken)


def recover(tx: Tx) -> None:
    """What a gateway does with its ledger when it starts: processes, files, commands, parts, turns, erasures."""
    for left in spawns.list_orphaned(tx):
        spawns.record_end(tx, left.id, "it had ended with its gateway")
    channel_batch.release_unclaimed_files(tx)
    for session in commands.list_sessions_with_open(tx):
        for one in commands.list_open(tx, session):
            commands.answer(tx, one.event, session, "It was not done before the power failed.")
    send_queue.recover(tx, RULES)
    for session in sessions.list_sessions_to_resume(tx):
        begun = turns.begin(tx, session, LEASE)
        if isinstance(begun, turns.BegunTurn):
            _end(tx, begun, "errored")
    for session in erase.list_unfinished(tx):
        while erase.erase_step(tx, session) == "more":
            pass


def one_more_turn(tx: Tx) -> None:
    """Somebody writes, the agent answers, the answer leaves and arrives."""
    to = hear.Addressee("after the power cut", "main", "chat:7")
    event = hear.Event("api", "after the power cut", "message", "Are you there?", b"after")
    heard = hear.hear(tx, event, [to])
    assert heard.status == "accepted" and len(heard.woken_sessions) == 1, "nothing is woken"
    begun = turns.begin(tx, heard.woken_sessions[0], LEASE)
    assert isinstance(begun, turns.BegunTurn) and len(begun.events) == 1, "no turn begins"
    op = {"kind": "post", "session": to.key, "address": "7", "text": "Here."}
    says = claims.ClaimRequest("block", "Here.", to.home, legs=(Leg(0, 5, "chat", "chat:7", op),))
    _end(tx, begun, "answered", turn_ops.Preview(1, "Here."), turn_ops.Block(1, (says,)))
    asks = {name: send_queue.ChannelCapacity(known, 100) for name, known in RULES.items()}
    for _ in range(100):  # a round looks at so many parts at most, and others wait to leave, too
        went = send_queue.depart(tx, asks).sends
        for one in went:
            send_queue.record_outcome(
                tx, one.part, send_queue.AttemptOutcome("receipt", f"r{one.part}"), RULES[one.channel]
            )
        if to.home in [one.dest for one in went]:
            return
    raise AssertionError("the answer does not leave")


def _end(tx: Tx, begun: turns.BegunTurn, how: Any, *ops: turn_ops.Op) -> None:
    fence = turns.TurnFence(begun.session, begun.turn, begun.epoch)
    spawn = spawns.record_start(tx, begun.session, begun.agent, LEASE, b"after %d" % begun.turn)
    turns.record_prompting(tx, fence, "restart" if begun.attempt > 1 else "start", spawn, "m", {})
    caller = claims.Caller(begun.session, begun.key, begun.turn, begun.root, spawn=spawn)
    stop = {"answered": "end_turn", "errored": "error"}[how]
    told = (turn_ops.Notice("It failed.", "turn.failed"),) if how == "errored" else ()
    finish_turn.finish(tx, fence, caller, ops, turn_ops.Slots(), finish_turn.End(how, stop, notices=told))
