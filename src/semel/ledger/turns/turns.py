"""Begin, settle and end turns (Laws 2, 3, 9).

A session runs one turn at a time, fenced by its epoch: each transaction of a turn presents a `Fence` and fails if
another attempt took over. The session's lease names the gateway run that has the turn. `begin` starts the next turn
when a wake is due, or settles a turn that another lease left behind: it is stopped, continued, tried again as the next
attempt of its root, or failed after the last attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from semel.law import transient_errors, wake
from semel.law import turn as law
from semel.ledger.delivery import claims, placeholders
from semel.ledger.delivery.cutting import is_local
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import permission_requests
from semel.ledger.turns.end_evidence import Evidence


class Fenced(Exception):
    """The turn no longer runs in its session: another attempt took over, or the turn is finished (Law 10)."""


@dataclass(frozen=True)
class Bound:
    """An event a turn runs over. `role` and `more` are its entry's."""

    event: int
    seq: int
    source: str
    kind: str
    sender: str | None
    text: str
    data: dict[str, Any]
    at: int
    role: str = "user"
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EntryToTell:
    """An entry that goes into the agent's prompt: a notice, or text that it may not remember having said."""

    seq: int
    role: str
    text: str
    partial: bool
    reached: bool = True  # False: it never left for the session's home; only a page showed it
    root: int | None = None  # of the turn it belongs to


@dataclass(frozen=True)
class Begun:
    """A turn that began.

    `lost`: the attempt before it. `failed`: whether the agent reported of any attempt that it failed, instead of dying.
    `tools`: whether any attempt had started a tool. `numbers`: the last option number shown in the session.
    """

    session: int
    key: str
    agent: str
    home: str | None
    turn: int
    epoch: int
    root: int
    attempt: int
    chapter: int
    events: tuple[Bound, ...]
    told: tuple[EntryToTell, ...]
    memory: str | None
    tools: bool = False
    lost: int | None = None
    failed: bool = False
    numbers: int = 0


@dataclass(frozen=True)
class GivenUp:
    """The interrupted turn may not be tried again: it failed or was stopped, and people were told."""

    session: int
    turn: int


@dataclass(frozen=True)
class Later:
    """Nothing may begin yet; try again in `ms` milliseconds."""

    ms: int


@dataclass(frozen=True)
class Stop:
    """Who stopped a turn.

    `seq`: the entry by which the person at its home stopped it; None if nobody there did, so that a notice is sent
    home.
    """

    by: str
    seq: int | None = None

    @property
    def words(self) -> str:
        return f"Stopped by {self.by}."


@dataclass(frozen=True)
class Fence:
    """The identity that a running turn presents with each of its transactions."""

    session: int
    turn: int
    epoch: int


def check(tx: Tx, fence: Fence) -> Row:
    """The session row, if this turn is still the one that runs (Law 10). Raises Fenced."""
    row = tx.one("session_by_id", id=fence.session)
    if row is None or row.turn != fence.turn or row.epoch != fence.epoch:
        raise Fenced(f"turn {fence.turn} no longer runs in its session")
    return row


def begin(
    tx: Tx,
    session: int,
    lease: str,
    spawn: int | None = None,
    death: str | None = None,
    attempts: Mapping[str, int] | None = None,
) -> Begun | GivenUp | Later | None:
    """Begin the next turn of a session, or the next attempt of one that was lost.

    `spawn`: the live process that will be prompted; if there is none, `asked` is called once a process has started.
    `death`: how the lost agent ended, in words for people ("was killed by SIGKILL"). `attempts`: by agent, the maximum
    of attempts per root (default MAX_ATTEMPTS). Returns None if nothing is due, or if a turn already runs under this
    lease.
    """
    row = tx.one("session_by_id", id=session)
    assert row is not None
    if row.turn is not None:
        if row.lease == lease:
            return None
        return _settle(tx, row, lease, death, (attempts or {}).get(row.agent, law.MAX_ATTEMPTS))
    if row.wake_at is None:
        return None
    if left := wake.wait(tx.now, wake.Wake(row.wake_at, row.wake_since)):
        return Later(left)
    turn = add(tx, row, lease, root=None, attempt=1)
    tx.run("hearing_bind", session=session, turn=turn.id)
    tx.run("session_clear_wake", id=session)
    for h in tx.all("hearing_shown_waiting", turn=turn.id):
        entries.set_entry(tx, session, h.seq, more={"waiting": None})
    if spawn is not None and (row.memory is not None or row.chapter == 1):  # else it is of the chapter before
        tx.run("turn_how", id=turn.id, how="start", spawn=spawn)
    return _begun(tx, row, turn)


def join(tx: Tx, fence: Fence) -> tuple[Bound, ...]:
    """Bind the waiting messages that are steered into the running turn, and return them (Laws 2, 3). Raises Fenced."""
    check(tx, fence)
    waiting = {h.event: h.seq for h in tx.all("hearing_steering", session=fence.session)}
    if not waiting:
        return ()
    tx.run("hearing_join", session=fence.session, turn=fence.turn)
    tx.run("turn_joined", id=fence.turn)
    if not tx.value("hearing_waits", session=fence.session):
        tx.run("session_clear_wake", id=fence.session)
    for seq in waiting.values():
        entries.set_entry(tx, fence.session, seq, more={"waiting": None, "joined": True})
    entries.touch_session(tx, fence.session)
    return tuple(e for e in bound(tx, fence.turn) if e.event in waiting)


def put_off(tx: Tx, fence: Fence, why: str, ms: int) -> None:
    """Let a turn that failed for a transient reason wait, without an agent, to be tried again. Raises Fenced."""
    check(tx, fence)
    tx.run("turn_put_off", id=fence.turn, error=why, at=tx.now + ms)
    tx.run("session_begin_again", id=fence.session)
    entries.touch_session(tx, fence.session)


def cancel_put_off(tx: Tx, session: int, stop: Stop, only: int | None = None) -> bool:
    """Cancel a turn that waits to be tried again (`only`: of this root). False if there is none."""
    row = tx.one("session_by_id", id=session)
    turn = tx.one("turn_get", id=row.turn) if row is not None and row.turn is not None else None
    if turn is None or turn.retry_at is None or (only is not None and turn.root != only):
        return False
    cancel(tx, session, turn, stop.words, stop.seq)
    return True


def cancel(tx: Tx, session: int, turn: Row, why: str, by: int | None = None) -> None:
    """Cancel a running turn in the ledger: what it showed stays, and a notice tells people `why`.

    `by`: the entry by which the person at home stopped it. This fences off the turn's run, wherever it is (Law 10).
    """
    close_shown(tx, session, turn)
    told = tell_stopped(tx, session, turn, why, by)
    _end(tx, turn, "cancelled", turn.error, told)
    placeholders.withdraw_of_root(tx, turn.root)
    entries.touch_session(tx, session)


def cancel_deleted(tx: Tx, session: int, turn: Row) -> None:
    """Cancel a turn whose session is deleted, without a notice."""
    close_shown(tx, session, turn)
    _end(tx, turn, "cancelled", turn.error, Evidence("deleted"))
    placeholders.withdraw_of_root(tx, turn.root)
    entries.touch_session(tx, session)


def _end(tx: Tx, turn: Row, event: law.Event, error: str | None, seen: Evidence) -> None:
    tx.run(
        "turn_end", id=turn.id, state=law.step("running", event), stop=None, error=error, at=tx.now,
        evidence=seen.kind, row=seen.row,
    )  # fmt: skip
    tx.run("session_idle", id=turn.session, turn=turn.id)


def tell_stopped(tx: Tx, session: int, turn: Row, why: str, by: int | None) -> Evidence:
    """Add the notice that a turn was stopped; it is also sent to the home chat if nobody stopped it there (Law 12)."""
    row = tx.one("session_by_id", id=session)
    assert row is not None
    claims.put_in_line(tx, row, turn.id)
    if by is None or is_local(row.home):
        return Evidence("notice", claims.announce(tx, row, why, turn=turn, kind="turn.cancelled", tell=False))
    entries.add_entry(tx, session, role="notice", text=why, turn=turn.id, more={"kind": "turn.cancelled"})
    return Evidence("stopped", by)


def stop(tx: Tx, session: int, by: Stop, turn: int | None = None) -> None:
    """Mark the running turn (`turn`: only that one) as stopped by a person: if it is lost, it is not tried again."""
    row = tx.one("session_by_id", id=session)
    if row is not None and row.turn is not None and turn in (None, row.turn):
        tx.run("turn_stopped", id=row.turn, by=by.by, seq=by.seq)


def release(tx: Tx, fence: Fence) -> None:
    """The agent died under a running turn: give up the lease, so that `begin` settles it as lost."""
    check(tx, fence)
    tx.run("session_begin_again", id=fence.session)


def add(tx: Tx, row: Row, lease: str, root: int | None, attempt: int) -> Row:
    """Add a running turn: a first attempt, or the next one of `root`."""
    turn = int(
        tx.value(
            "turn_add", session=row.id, epoch=row.epoch + 1, chapter=row.chapter, root=root, attempt=attempt,
            at=tx.now,
        )
    )  # fmt: skip
    if root is None:
        tx.run("turn_own_root", id=turn)
    tx.run("session_begin", id=row.id, turn=turn, lease=lease)
    entries.touch_session(tx, row.id)
    added = tx.one("turn_get", id=turn)
    assert added is not None
    return added


def _settle(tx: Tx, row: Row, lease: str, death: str | None, most: int) -> Begun | GivenUp | Later:
    """Settle a turn whose gateway or agent died, or that failed and may be tried again now.

    What it showed stays; its events move to the next attempt.
    """
    old = tx.one("turn_get", id=row.turn)
    assert old is not None
    by = stop_of(tx, row, old)
    if by is not None:
        cancel(tx, row.id, old, by.words, by.seq)
        return GivenUp(row.id, old.id)
    if old.retry_at is not None:
        if (
            0 < (left := old.retry_at - tx.now) <= transient_errors.MAX_RETRY_AFTER_S * 1000
        ):  # else the clock was set back
            return Later(left)
        death = old.error
    elif old.how is None:
        return _take_over(tx, row, old, lease)
    close_shown(tx, row.id, old)
    attempts = tx.all("turns_of_root", root=old.root)
    if old.attempt >= most:
        nxt = law.after_loss(
            attempt=old.attempt + 1, tools_started=False, restored=False, history_complete=False, most=most
        )
        fail(tx, row.id, old, f"{nxt.why}; the last time the agent {death}" if death else nxt.why)
        return GivenUp(row.id, old.id)
    tx.run(
        "turn_end", id=old.id, state=law.step("running", "lost"), stop=None, error=death, at=tx.now, evidence=None,
        row=None,
    )  # fmt: skip
    turn = add(tx, row, lease, root=old.root, attempt=old.attempt + 1)
    tx.run("hearing_rebind", turn=turn.id, old=old.id)
    failed = any(a.retry_at is not None for a in attempts)
    return _begun(tx, row, turn, tools=any(a.tools for a in attempts), lost=old.id, failed=failed)


def stop_of(tx: Tx, row: Row, turn: Row) -> Stop | None:
    """Who wants the session's running turn stopped, if anybody does."""
    if turn.stopped is not None:
        return Stop(turn.stopped, turn.stop_seq)
    if turn.chapter < row.chapter:
        return Stop(
            law.STOPPED_BY_NEW_CHAPTER, tx.value("chapter_first", session=row.id, chapter=row.chapter, turn=turn.id)
        )
    newer = tx.one("hearing_interrupts", session=row.id)
    return (
        None
        if newer is None
        else Stop(law.STOPPED_BY_NEWER_MESSAGE, newer.seq if is_from_home(newer.source, row.home) else None)
    )


def is_from_home(source: str, home: str | None) -> bool:
    """Whether an event of this source was written where the session's person is at home."""
    return source == f"channel:{(home or '').partition(':')[0]}"


def _take_over(tx: Tx, row: Row, turn: Row, lease: str) -> Begun:
    """Continue an attempt whose agent was never prompted, behind a new fence: nothing was tried (Laws 9, 10)."""
    tx.run("session_begin", id=row.id, turn=turn.id, lease=lease)
    tx.run("turn_fence", id=turn.id, epoch=row.epoch + 1)
    entries.touch_session(tx, row.id)
    again = tx.one("turn_get", id=turn.id)
    assert again is not None
    return _begun(tx, row, again, tools=any(a.tools for a in tx.all("turns_of_root", root=turn.root)))


def _begun(tx: Tx, row: Row, turn: Row, tools: bool = False, lost: int | None = None, failed: bool = False) -> Begun:
    here = is_local(row.home)
    told = tuple(
        EntryToTell(e.seq, e.role, e.text, bool(e.partial), here or bool(e.leaves), e.root)
        for e in tx.all("entries_to_tell", session=row.id)
    )
    return Begun(
        session=row.id, key=row.key, agent=row.agent, home=row.home, turn=turn.id, epoch=turn.epoch,
        root=turn.root, attempt=turn.attempt, chapter=turn.chapter, events=bound(tx, turn.id), told=told,
        memory=row.memory, tools=tools, lost=lost, failed=failed, numbers=row.numbers,
    )  # fmt: skip


def bound(tx: Tx, turn: int) -> tuple[Bound, ...]:
    """The events bound to a turn, in order of acceptance."""
    out = []
    for e in tx.all("events_of_turn", turn=turn):
        payload = entries.load(e.payload)
        text = str(payload.pop("text", ""))
        more = entries.load(e.more)
        out.append(Bound(e.id, e.seq, e.source, e.kind, e.sender, text, payload, e.at, e.role, more))
    return tuple(out)


def close_shown(tx: Tx, session: int, turn: Row) -> None:
    """Close what was shown before an agent died: entries marked partial, with their claims (Law 6)."""
    close_entries(tx, session, turn.id)
    for i in tx.all("items_live", session=session):
        entries.set_item(tx, i.id, live=False, body=interrupted(i))
        permission_requests.tell_withdrawn(tx, i)


def close_entries(tx: Tx, session: int, number: int) -> None:
    """Close the previews that the turn left open: each becomes an entry marked partial, with its claim."""
    live = tx.all("entries_live", session=session)
    turn = tx.one("turn_get", id=number)
    assert turn is not None
    first = None
    for e in live:
        text = entries.shown_text(tx, session, e.seq)
        claim = int(
            tx.value(
                "claim_add", session=session, turn=turn.id, root=turn.root, how="recovery", kind="text", late=0,
                spawn=turn.spawn, conn=None, call=None, tool=None, args=None, dest=None, digest=None, text=text,
                outcome="said", reason="shown before its turn ended", echo_of=None, seq=e.seq, at=tx.now,
            )
        )  # fmt: skip
        before = tx.value("block_of_file_before", session=session, seq=e.seq, turn=turn.id)
        first = first if before is None else int(before)
        if first is None:
            first = claim
        else:  # what a block has said around text for another place ends together
            tx.run("claim_part_of", id=claim, first=first)
        entries.set_entry(tx, session, e.seq, text=text, live=False, partial=True, claim=claim, tell=True)
        if turn.id != turn.root:
            claims.supersede_beginnings(tx, claims.Caller(session, "", turn.id, turn.root), text, None, claim)


def close_reserved(tx: Tx, session: Row, root: int | None) -> None:
    """Withdraw the placeholders of a turn that is over. A local home has none, which saves the query."""
    if root is not None and not is_local(session.home):
        placeholders.withdraw_of_root(tx, root)


def interrupted(item: Row) -> dict[str, Any]:
    if item.kind == "permission":  # a question that was asked stays: its answer is an event, not a reply
        return {"state": "cancelled"}
    return {"status": "no result", "lost": True} if item.kind == "tool" else {}


def fail(tx: Tx, session: int, turn: Row, why: str) -> None:
    """Fail a turn: it is finished, its events stay bound, and a notice says so (Law 9)."""
    row = tx.one("session_by_id", id=session)
    assert row is not None
    claims.put_in_line(tx, row, turn.id)
    told = notice(tx, session, f"The agent's turn failed: {why}.", turn=turn.id, kind="turn.failed")
    _end(tx, turn, "given up", why, Evidence("notice", told))
    placeholders.withdraw_of_root(tx, turn.root)
    entries.touch_session(tx, session)


def notice(tx: Tx, session: int, text: str, *, turn: int | None = None, kind: str = "notice", tell: bool = True) -> int:
    """Add a notice: people see it, it is part of the agent's next prompt, and it never wakes (Law 7).

    A notice about a turn is also sent to the session's home: silence would look like an answer on its way.
    """
    if kind.startswith("turn."):
        row = tx.one("session_by_id", id=session)
        assert row is not None
        own = tx.one("turn_get", id=turn) if turn is not None else None
        return claims.announce(tx, row, text, turn=own, kind=kind, tell=tell)
    return entries.add_entry(tx, session, role="notice", text=text, turn=turn, tell=tell, more={"kind": kind})


def said_since_corrected(tx: Tx, turn: int) -> bool:
    """Whether a turn said something after its agent was asked to correct a text."""
    return bool(tx.value("turn_said_since_corrected", turn=turn))


def asked(tx: Tx, fence: Fence, how: law.How, spawn: int, memory: str, about: entries.Body) -> None:
    """Record how the turn's agent is about to be prompted: its spawn and the name it has for this conversation."""
    check(tx, fence)
    tx.run("turn_how", id=fence.turn, how=how, spawn=spawn)
    tx.run("session_set_memory", id=fence.session, memory=memory)
    entries.set_about(tx, fence.session, about)
