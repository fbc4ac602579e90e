"""Begin, settle and end turns (Laws 2, 3, 9).

A session runs one turn at a time, fenced by its epoch: each transaction of a turn presents a `TurnFence`, and fails if
another attempt has taken over. The session's lease names the gateway run that has the turn. `begin` starts the next
turn when a wake is due. If another lease left a turn behind, `begin` settles that turn instead: the turn is stopped,
continued, tried again as the next attempt of its root, or, after the last attempt, failed.

If an event finds its session idle, one transaction hears it and begins its turn (`semel.ledger.inbound.hear`, with the
same functions). So a simple turn costs two commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import structs

from semel.law import retries, wake
from semel.law import turn as law
from semel.ledger.delivery import claims, cutting, placeholders
from semel.ledger.delivery.cutting import is_local
from semel.ledger.people import PersonAccount, list_people_at
from semel.ledger.storage.rows import AddedTurn, EntryRow, Row, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import close_output, ending, limits, permission_requests, seats, withdrawals
from semel.ledger.turns.end_evidence import Evidence
from semel.ledger.turns.session_agent import ANY_AGENT, ConfiguredAgents, replace_missing_agent
from semel.ledger.turns.turn_events import TurnEvent, is_home_group, list_bound


class WaitingEntry(Row):
    """The entry of an event. The view shows this entry as waiting."""

    event: int
    seq: int
    busy: str


class InterruptingEvent(Row):
    """The entry of a message that interrupts the running turn."""

    seq: int
    source: str


class EntryToTellRow(EntryRow):
    """An entry that the agent's next prompt must include, as it is stored. `root`: the root of its turn.

    `leaves`: 1 if it was or will be sent to the session's home, or was seen there in a placeholder.
    """

    root: int | None
    leaves: int


class Fenced(Exception):
    """The turn no longer runs in its session: another attempt has taken over, or the turn is finished (Law 10)."""


@dataclass(frozen=True)
class EntryToTell:
    """An entry that the agent's next prompt must include: a notice, or text that the agent may not remember."""

    seq: int
    role: str
    text: str
    partial: bool
    left_for_home: bool = True  # False: the home did not get it; only a page showed it
    root: int | None = None  # the root of the turn that it belongs to


@dataclass(frozen=True)
class BegunTurn:
    """A turn that has begun.

    `events`: the events bound to it. `entries_to_tell`: earlier entries that its prompt must include. `memory`: the
    agent's id of the conversation. `lost_turn`: the attempt before this one. `has_failed`: in an earlier attempt, the
    agent reported a failure instead of dying. `has_started_tools`: an earlier attempt had started a tool call.
    `was_prompted`: an agent was prompted in an earlier attempt. `last_number`: the highest option number that was shown
    in the session. `folder`: the session's folder; None for the agent's own workspace. `people`: the known people whose
    direct chat the home is. `is_home_group`: the home is a group.
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
    events: tuple[TurnEvent, ...]
    entries_to_tell: tuple[EntryToTell, ...]
    memory: str | None
    has_started_tools: bool = False
    was_prompted: bool = False
    lost_turn: int | None = None
    has_failed: bool = False
    last_number: int = 0
    folder: str | None = None
    people: tuple[PersonAccount, ...] = ()
    is_home_group: bool = False


@dataclass(frozen=True)
class GivenUp:
    """A lost turn that is not tried again: it failed or was stopped, and a notice says so.

    `key`: its session's key. `agent`: the session's agent. `error`: why it failed; None if it was stopped.
    """

    session: int
    turn: int
    key: str
    agent: str
    error: str | None


@dataclass(frozen=True)
class NotYetDue:
    """No turn may begin yet. The caller should try again in `wait_ms` milliseconds. `hold`: if a limit is used up."""

    wait_ms: int
    hold: limits.Hold | None = None


@dataclass(frozen=True)
class StopRequest:
    """A request to stop a turn. `by`: who or what stopped it, in words for people ("Ann", "a newer message").

    `seq`: the entry of the command, or of the message from the home, that stopped it. If it is None, the home does not
    know about the stop yet, and gets a notice.
    """

    by: str
    seq: int | None = None

    @property
    def notice_text(self) -> str:
        return f"Stopped by {self.by}."


@dataclass(frozen=True)
class TurnFence:
    """The identity that a running turn presents in each of its transactions (Law 10)."""

    session: int
    turn: int
    epoch: int


def check_fence(tx: Tx, fence: TurnFence) -> SessionRow:
    """Return the session's row. Raise Fenced if the turn of this fence no longer runs there (Law 10)."""
    row = tx.one(SessionRow, "session_by_id", id=fence.session)
    if row is None or row.turn != fence.turn or row.epoch != fence.epoch:
        raise Fenced(f"turn {fence.turn} no longer runs in its session")
    return row


def begin(
    tx: Tx,
    session: int,
    lease: str,
    spawn: int | None = None,
    death: str | None = None,
    agents: ConfiguredAgents = ANY_AGENT,
    policy: limits.LimitPolicy | None = None,
    seat_rule: seats.SeatRule | None = None,
) -> BegunTurn | GivenUp | NotYetDue | seats.SeatedElsewhere | None:
    """Begin the next turn of a session, or settle the turn that was lost there.

    `spawn`: the live process that will be prompted; if there is none, `record_prompting` is called once a process has
    started. `death`: how the lost agent ended, in words for people ("was killed by SIGKILL"). `agents`: the session's
    agent is replaced if it is none of these. `policy`: the limits of use, if any. `seat_rule`: decides who serves it.

    Return the turn to run: a new one, or the next attempt of the lost one. Otherwise return GivenUp, NotYetDue or
    SeatedElsewhere; or None, if nothing is due or a turn already runs under this lease.
    """
    row = tx.get(SessionRow, "session_by_id", id=session)
    pending = pending_wake(row)
    if (row.turn is None and pending is None) or (row.turn is not None and row.lease == lease):
        return None
    if isinstance(taken := seats.take_seat(tx, row, seat_rule), seats.SeatedElsewhere):
        return taken
    row = taken
    if row.turn is not None:
        return _settle_lost(tx, row, lease, death, agents)
    assert pending is not None
    if wait_ms := wake.time_until_due(tx.now, pending):
        return NotYetDue(wait_ms)
    if policy is not None and (hold := limits.hold_back(tx, row, policy)) is not None:
        return NotYetDue(hold.wait_ms, hold)
    row, turn = open_turn(tx, row, lease, spawn, agents, policy)
    return complete_begin(tx, row, turn, policy)


def open_turn(
    tx: Tx, row: SessionRow, lease: str, spawn: int | None, agents: ConfiguredAgents, policy: limits.LimitPolicy | None
) -> tuple[SessionRow, AddedTurn]:
    """Add the next turn of a session and bind to it all that waits (Law 3). `complete_begin` follows.

    The arguments are those of `begin`; `row` is as it is in the ledger now. Return the turn, and the session's row with
    the agent that runs it.
    """
    row = replace_missing_agent(tx, row, agents)
    day = None if policy is None else policy.find_day(tx.now)[0]
    if row.memory is None and row.chapter > 1:
        spawn = None  # the process knows the chapter before
    turn = add_turn(tx, row, lease, root=None, attempt=1, day=day, spawn=spawn)
    if turn.has_waiting:
        tx.run("hearing_bind", session=row.id, turn=turn.id)
        show_taken(tx, row.id, turn.id)
    if row.wake_at is not None:
        tx.run("session_clear_wake", id=row.id)
    return row, turn


def show_taken(tx: Tx, session: int, turn: int) -> None:
    """Let the view no longer show as waiting what a turn took."""
    for entry in tx.all(WaitingEntry, "hearing_shown_waiting", turn=turn):
        entries.set_entry(tx, session, entry.seq, more={"waiting": None})


def complete_begin(
    tx: Tx, row: SessionRow, turn: AddedTurn, policy: limits.LimitPolicy | None, heard: TurnEvent | None = None
) -> BegunTurn:
    """Count a turn whose events are bound, and return it as it began.

    `heard`: the event with which it began, if that was heard in the same transaction.
    """
    events = (heard,) if heard is not None and not turn.has_waiting else list_bound(tx, turn.id)
    begun = _read_begun_turn(tx, row, turn, events, has_entries_to_tell=bool(turn.has_entries_to_tell))
    if policy is not None and turn.day is not None:
        limits.count_turn(tx, row, turn.day, (event.person for event in begun.events if event.wakes), policy)
    return begun


def pending_wake(row: SessionRow) -> wake.Wake | None:
    """Return the session's pending wake, or None. Its two columns are always set and cleared together."""
    return None if row.wake_at is None or row.wake_since is None else wake.Wake(row.wake_at, row.wake_since)


def bind_steered(tx: Tx, fence: TurnFence, policy: limits.LimitPolicy | None = None) -> tuple[TurnEvent, ...]:
    """Bind the waiting messages that the busy mode steers into the running turn, and return them (Laws 2, 3).

    Raises Fenced. If a limit is used up, bind nothing: the messages wait for a turn of their own, which begins when the
    limit allows. So do messages behind a `/stop` that is about to stop this turn.
    """
    row = check_fence(tx, fence)
    if (
        policy is not None
        and policy.is_limited
        and limits.find_used_up(tx, row, tx.all(limits.Asker, "askers_waiting", session=row.id), policy)
    ):
        return ()
    stop_seq = tx.value(int, "stop_next", session=fence.session)
    before = row.seq + 1 if stop_seq is None else stop_seq
    waiting = dict(tx.pairs(int, int, "hearing_steering", session=fence.session, before=before))
    if not waiting:
        return ()
    tx.run("hearing_join", session=fence.session, turn=fence.turn, before=before)
    tx.run("turn_joined", id=fence.turn)
    if not tx.exists("hearing_waits", session=fence.session):
        tx.run("session_clear_wake", id=fence.session)
    for seq in waiting.values():
        entries.set_entry(tx, fence.session, seq, more={"waiting": None, "joined": True})
    entries.touch_session(tx, fence.session)
    return tuple(event for event in list_bound(tx, fence.turn) if event.event in waiting)


def find_running_turn(tx: Tx, session: int) -> TurnRow | None:
    """Return the turn that runs in the session, or waits to be tried again. None: no such turn, or no such session."""
    row = tx.one(SessionRow, "session_by_id", id=session)
    return tx.one(TurnRow, "turn_get", id=row.turn) if row is not None and row.turn is not None else None


def cancel_put_off(tx: Tx, session: int, order: StopRequest, root: int | None = None) -> bool:
    """Cancel the session's turn if it waits to be tried again. Return whether it did. `root`: only of this root."""
    turn = find_running_turn(tx, session)
    if turn is None or turn.retry_at is None or root not in (None, turn.root):
        return False
    cancel(tx, session, turn, order.notice_text, order.seq)
    return True


def cancel(tx: Tx, session: int, turn: TurnRow, text: str, stop_seq: int | None = None) -> None:
    """Cancel a running turn in the ledger. The text that it showed stays, and a notice tells people `text`.

    `stop_seq`: the entry by which the person at home stopped it; None sends the notice to the home. Later calls of the
    turn are fenced off, whichever gateway runs it (Law 10).
    """
    close_output.close_live_output(tx, session, turn)
    evidence = add_stop_notice(tx, session, turn, text, stop_seq)
    _end_turn(tx, turn, "cancelled", turn.error, evidence)
    placeholders.withdraw_of_root(tx, turn.root)


def cancel_deleted(tx: Tx, session: int, turn: TurnRow) -> None:
    """Cancel the running turn of a session that is being deleted, without a notice."""
    close_output.close_live_output(tx, session, turn)
    _end_turn(tx, turn, "cancelled", turn.error, Evidence("deleted"))
    placeholders.withdraw_of_root(tx, turn.root)


def _end_turn(tx: Tx, turn: TurnRow, event: law.Event, error: str | None, evidence: Evidence) -> None:
    tx.run(
        "turn_end", id=turn.id, state=law.step("running", event), stop=None, error=error, at=tx.now,
        evidence=evidence.kind, row=evidence.row, tokens=None, cost=None,
    )  # fmt: skip
    if evidence.kind != "deleted":
        ending.show_end(tx, turn.session, tx.values(int, "hearing_asked", turn=turn.id))
    withdrawals.free_session(tx, tx.get(SessionRow, "session_by_id", id=turn.session), turn.id)


def add_stop_notice(tx: Tx, session: int, turn: TurnRow, text: str, stop_seq: int | None) -> Evidence:
    """Add the notice that a turn was stopped. Return the evidence of the turn's end (Law 12).

    The notice is sent to the home only if `stop_seq` is None.
    """
    row = tx.get(SessionRow, "session_by_id", id=session)
    cutting.deliver_last_block(tx, row, turn.id)
    if stop_seq is None or is_local(row.home):
        return Evidence("notice", claims.add_home_notice(tx, row, text, turn=turn, kind="turn.cancelled", tell=False))
    entries.add_entry(tx, session, role="notice", text=text, turn=turn.id, more={"kind": "turn.cancelled"})
    return Evidence("stopped", stop_seq)


def release_lease(tx: Tx, fence: TurnFence) -> None:
    """Give up the lease of a turn whose agent died, so that `begin` settles the turn as lost. Raises Fenced."""
    check_fence(tx, fence)
    tx.run("session_begin_again", id=fence.session)


def add_turn(
    tx: Tx, row: SessionRow, lease: str, root: int | None, attempt: int, day: str | None = None,
    spawn: int | None = None,
) -> AddedTurn:  # fmt: skip
    """Add and return a running turn: a first attempt if `root` is None, else the next attempt of that root.

    `day`: the day for which a first attempt counts, if use is counted. `spawn`: the process that is prompted at once.
    """
    turn = tx.get(
        AddedTurn, "turn_add", session=row.id, epoch=row.epoch + 1, chapter=row.chapter, root=root, attempt=attempt,
        at=tx.now, day=day, how=None if spawn is None else "start", spawn=spawn,
    )  # fmt: skip
    if root is None:
        tx.run("turn_own_root", id=turn.id)
        turn = structs.replace(turn, root=turn.id)
    _take_lease(tx, row, turn.id, lease)
    return turn


def _take_lease(tx: Tx, row: SessionRow, turn: int, lease: str) -> None:
    rev = tx.number("session_begin", id=row.id, turn=turn, lease=lease)
    entries.mark_session(tx, row.id, rev)


def _settle_lost(
    tx: Tx, row: SessionRow, lease: str, death: str | None, agents: ConfiguredAgents
) -> BegunTurn | GivenUp | NotYetDue:
    """Settle a turn whose gateway or agent died, or that failed and may be tried again now.

    The text that it showed stays. If it is tried again, its events move to the next attempt. If no agent was prompted
    yet, a new agent may take it.
    """
    old = tx.get(TurnRow, "turn_get", id=row.turn)
    order = find_stop(tx, row, old)
    if order is not None:
        cancel(tx, row.id, old, order.notice_text, order.seq)
        return GivenUp(row.id, old.id, row.key, row.agent, None)
    if old.retry_at is not None:
        if 0 < (wait_ms := old.retry_at - tx.now) <= retries.MAX_RETRY_AFTER_S * 1000:  # else the clock was set back
            return NotYetDue(wait_ms)
        death = old.error
    attempts = tx.all(TurnRow, "turns_of_root", root=old.root)
    if all(attempt.how is None for attempt in attempts):
        row = replace_missing_agent(tx, row, agents)
    if old.how is None and old.retry_at is None:
        return _take_over_unprompted(tx, row, old, lease, attempts)
    permission_requests.uncount_waiting_calls(tx, old.id)
    attempts = tx.all(TurnRow, "turns_of_root", root=old.root)
    close_output.close_live_output(tx, row.id, old)
    max_attempts = agents.max_attempts(row.agent)
    if old.attempt >= max_attempts:
        decision = law.decide_after_loss(
            attempt=old.attempt + 1,
            tools_started=False,
            restored=False,
            history_complete=False,
            max_attempts=max_attempts,
        )
        error = law.explain_giving_up(decision.reason, death, [a.error for a in attempts if a.id != old.id])
        fail(tx, row.id, old, error)
        return GivenUp(row.id, old.id, row.key, row.agent, error)
    tx.run(
        "turn_end", id=old.id, state=law.step("running", "lost"), stop=None, error=death, at=tx.now, evidence=None,
        row=None, tokens=None, cost=None,
    )  # fmt: skip
    turn = add_turn(tx, row, lease, root=old.root, attempt=old.attempt + 1)
    tx.run("hearing_rebind", turn=turn.id, old=old.id)
    failed = any(a.retry_at is not None for a in attempts)
    return _read_begun_turn(tx, row, turn, list_bound(tx, turn.id), attempts, lost=old.id, failed=failed)


def find_stop(tx: Tx, row: SessionRow, turn: TurnRow) -> StopRequest | None:
    """Return the request to stop the session's running turn; None if nobody wants it stopped."""
    if turn.stopped is not None:
        return StopRequest(turn.stopped, turn.stop_seq)
    if turn.chapter < row.chapter:
        return StopRequest(
            law.STOPPED_BY_NEW_CHAPTER,
            tx.value(int, "chapter_first", session=row.id, chapter=row.chapter, turn=turn.id),
        )
    newer = tx.one(InterruptingEvent, "hearing_interrupts", session=row.id)
    return (
        None
        if newer is None
        else StopRequest(law.STOPPED_BY_NEWER_MESSAGE, newer.seq if is_from_home(newer.source, row.home) else None)
    )


def is_from_home(source: str, home: str | None) -> bool:
    """Return whether `source` is the channel of the session's home."""
    return source == f"channel:{(home or '').partition(':')[0]}"


def _take_over_unprompted(tx: Tx, row: SessionRow, turn: TurnRow, lease: str, attempts: Sequence[TurnRow]) -> BegunTurn:
    """Continue an attempt whose agent was never prompted, under a new epoch: it is no new attempt (Laws 9, 10)."""
    _take_lease(tx, row, turn.id, lease)
    tx.run("turn_fence", id=turn.id, epoch=row.epoch + 1)
    continued = tx.get(TurnRow, "turn_get", id=turn.id)
    return _read_begun_turn(tx, row, continued, list_bound(tx, turn.id), attempts)


def _read_begun_turn(
    tx: Tx, row: SessionRow, turn: TurnRow, events: tuple[TurnEvent, ...], attempts: Sequence[TurnRow] = (),
    lost: int | None = None, failed: bool = False, has_entries_to_tell: bool = True,
) -> BegunTurn:  # fmt: skip
    local = is_local(row.home)
    entries_to_tell = tuple(
        EntryToTell(e.seq, e.role, e.text, bool(e.partial), local or bool(e.leaves), e.root)
        for e in (tx.all(EntryToTellRow, "entries_to_tell", session=row.id) if has_entries_to_tell else ())
    )
    return BegunTurn(
        session=row.id, key=row.key, agent=row.agent, home=row.home, turn=turn.id, epoch=turn.epoch,
        root=turn.root, attempt=turn.attempt, chapter=turn.chapter, events=events,
        entries_to_tell=entries_to_tell, memory=row.memory, has_started_tools=any(a.tools for a in attempts),
        was_prompted=any(a.how is not None for a in attempts), lost_turn=lost, has_failed=failed,
        last_number=row.numbers, folder=row.folder,
        people=() if row.home is None or local else tuple(list_people_at(tx, row.home)),
        is_home_group=is_home_group(tx, row, events),
    )  # fmt: skip


def fail(tx: Tx, session: int, turn: TurnRow, reason: str) -> None:
    """Fail a turn: it is finished, its events stay bound, and a notice with `reason` tells people (Law 9)."""
    row = tx.get(SessionRow, "session_by_id", id=session)
    cutting.deliver_last_block(tx, row, turn.id)
    notice_seq = add_notice(tx, session, f"The agent's turn failed: {reason}.", turn=turn.id, kind="turn.failed")
    _end_turn(tx, turn, "given up", reason, Evidence("notice", notice_seq))
    placeholders.withdraw_of_root(tx, turn.root)


def add_notice(
    tx: Tx, session: int, text: str, *, turn: int | None = None, kind: str = "notice", tell: bool = True
) -> int:
    """Add a notice, which people see and which never wakes the agent (Law 7). Return the seq of its entry.

    `tell`: the agent's next prompt includes it. A notice about a turn (its `kind` begins with "turn.") is also sent to
    the session's home, because people there wait for an answer.
    """
    if kind.startswith("turn."):
        row = tx.get(SessionRow, "session_by_id", id=session)
        turn_row = tx.one(TurnRow, "turn_get", id=turn) if turn is not None else None
        return claims.add_home_notice(tx, row, text, turn=turn_row, kind=kind, tell=tell)
    return entries.add_entry(tx, session, role="notice", text=text, turn=turn, tell=tell, more={"kind": kind})


def record_prompting(tx: Tx, fence: TurnFence, how: law.How, spawn: int, memory: str, about: entries.Body) -> None:
    """Record how, and in which spawn, the turn's agent is about to be prompted. Raises Fenced.

    `memory`: the agent's own id of the conversation (ACP sessionId). `about`: what the agent offers.
    """
    check_fence(tx, fence)
    tx.run("turn_how", id=fence.turn, how=how, spawn=spawn)
    tx.run("session_set_memory", id=fence.session, memory=memory)
    entries.set_about(tx, fence.session, about)
