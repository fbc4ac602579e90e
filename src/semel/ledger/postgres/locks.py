"""What each transaction locks, before anything else and in one order.

SQLite's one writer runs transactions one after the other. Here they run at once, so each locks first what it is going
to judge: the rows of its sessions (by id), the lines of its destinations (by name), the ledger's row. What a function
locks by itself (`Tx.lock`, docs/decisions/locks.md) comes behind these. Whatever it reads afterwards includes every
commit of those who held the same locks before. There is one order for all: else two transactions wait for each other,
and PostgreSQL takes a second to notice (measured: a tenth of the turns, and 4 s for an event to be heard).

`LOCKS` says what a function locks, from its arguments. `tests/ledger/test_postgres_locks.py` compares it with the
functions that the program hands to `write`; in tests, a trigger refuses each change to a row of a session that is not
held. A function that is not listed locks every session: slow, and right.

A transaction may still meet a session that it did not lock: when it looked for its locks, the session was not there, or
did not belong to it. Then it does not write to that session (`held_sessions`), but runs again with wider locks:
`widen`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from semel.ledger import file_objects, file_pieces, people
from semel.ledger.admin import age_out, erase, import_growth, import_session
from semel.ledger.backup import settle_restored
from semel.ledger.delivery import held_notice, owner_notice, send_queue
from semel.ledger.delivery.cutting import LOCAL, is_local
from semel.ledger.inbound import answers, channel_batch, commands, hear, nodes, schedules, uploads
from semel.ledger.postgres.statements import locking_statement, own_statements
from semel.ledger.postgres.wire import Connection
from semel.ledger.storage import store
from semel.ledger.storage.rows import SessionRow
from semel.ledger.transcript import entries
from semel.ledger.turns import (
    finish_turn,
    interventions,
    job_calls,
    jobs,
    limits,
    permission_requests,
    seats,
    session_agent,
    sessions,
    show,
    spawns,
    summary,
    tool_calls,
    turn_ops,
    turns,
    voice_notes,
    withdrawals,
)


class Locks(NamedTuple):
    """What a transaction locks.

    `ids`, `keys`: sessions, with all that share a home with one of them. `homes`: destinations, with the sessions whose
    home they are. `find`: statements that name more sessions, with their parameters.
    `find_homes`: statements that name more destinations; they are given the sessions found so far, too. `ledger`: the
    ledger's row. `everything`: all sessions. `is_apart`: it shares its transaction with no other.
    """

    ids: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    find: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    find_homes: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    ledger: bool = False
    everything: bool = False
    is_apart: bool = False

    @property
    def lane(self) -> Hashable:
        """Jobs with the same lane run in the order in which they were queued."""
        return (self.ids or self.keys or self.find or ("",))[0].__repr__()


_ID, _HOME = map(SessionRow.__struct_fields__.index, ("id", "home"))

MAX_WIDENED = 5  # sessions that a transaction finds one after the other, before it locks all

EVERYTHING = Locks(everything=True)


@dataclass(frozen=True)
class Taken:
    """What was locked. `ids`: of the sessions. `rows`: theirs, as SessionRow has them; none for `everything`. `lines`:
    destinations; None for `everything`."""

    ids: frozenset[int] = frozenset()
    rows: Sequence[Sequence[Any]] = ()
    lines: frozenset[str] | None = None


def take(connection: Connection, locks: Locks, now: int) -> Callable[[], Taken]:
    """Lock what `locks` names, before whatever is sent next. Return a function that returns what was locked.

    Where all destinations are known beforehand, as those of most messages are, nothing is waited for yet: the locks
    travel with the first statement of the transaction. A session with one of the keys may have another home: its line
    is locked once that is known.
    """
    own, ids, homes = own_statements(), list(locks.ids), list(locks.homes)
    for name, params in locks.find:
        ids += [id for (id,) in connection.read(own[name], _bind(own[name].parameters, params, now=now))]
    for name, params in locks.find_homes:
        homes += [home for (home,) in connection.read(own[name], _bind(own[name].parameters, params, ids=ids, now=now))]
    if locks.everything:
        taken = Taken(frozenset(id for (id,) in connection.read(own["lock_every_session"], {})))
        _lock_lines(connection, homes)
    elif ids or locks.keys or homes:
        wanted = {"ids": ids, "keys": list(locks.keys), "homes": homes}
        read_rows = connection.ask(own["lock_sessions"], wanted)
        named = frozenset(home for home in homes if not is_local(home))
        is_all_known = not ids and not locks.ledger
        if is_all_known:
            _lock_lines(connection, named)

        def read_taken() -> Taken:
            rows = read_rows()
            homes_of_rows = {row[_HOME] for row in rows}
            lines = named.union(home for home in homes_of_rows if not is_local(home))
            # Nothing is sent to a page or a terminal: the rows of its sessions are locked, and no line. If it has no
            # session yet, there is no such row, so its line is locked, too.
            locked = lines.union(set(homes) - homes_of_rows)
            _lock_lines(connection, locked - named if is_all_known else locked)
            return Taken(frozenset(row[_ID] for row in rows), rows, lines)

        if is_all_known:
            return read_taken
        taken = read_taken()
    else:
        taken = Taken(lines=frozenset())
    if locks.ledger:
        connection.send(locking_statement("ledger_lock"), {})
    return lambda: taken


def _lock_lines(connection: Connection, dests: Collection[str]) -> None:
    if dests:
        connection.send(own_statements()["lock_lines"], {"dests": sorted(set(dests))})


def _bind(names: tuple[str, ...], params: Mapping[str, Any], **known: Any) -> dict[str, Any]:
    return {name: params[name] if name in params else known[name] for name in names}


def find_locks(fn: Callable[..., Any], args: tuple[Any, ...]) -> Locks:
    """Return what `fn(tx, *args)` locks."""
    while getattr(fn, "runs_body", False):
        fn, *rest = args
        args = tuple(rest)
    rule = LOCKS.get(fn)
    return EVERYTHING if rule is None else rule(*args)


def join(several: Sequence[Locks]) -> Locks:
    """Return what transactions lock that become one: flags are or-ed, tuples are joined."""
    if len(several) == 1:
        return several[0]
    fields: Iterable[Any] = zip(*several, strict=True)
    return Locks._make(any(values) if isinstance(values[0], bool) else tuple(chain(*values)) for values in fields)


def widen(locks: Locks, sessions: Collection[int]) -> Locks:
    """Return `locks` with more sessions, which a transaction was to write to. If they are many: with all."""
    if len(sessions) > MAX_WIDENED:
        return locks._replace(everything=True)
    return locks._replace(ids=(*locks.ids, *sorted(sessions)))


# ---------------------------------------------------------------- rules


def _nothing(*_: Any) -> Locks:
    return Locks()


def _owners(*_: Any) -> Locks:
    """The owners' own chats; or, if there is none, the newest session that the page or the terminal shows."""
    local = {"channels": list(LOCAL), "limit": owner_notice.MAX_SEARCHED_SESSIONS}
    return Locks(find=(("find_local_session", local),), find_homes=(("find_homes_of_role", {"role": "owner"}),))


def _request_and_owners(item: int, *_: Any) -> Locks:
    find = (("find_session_of_item", {"item": item}),)
    return Locks(find=find, find_homes=(("find_homes_of_role", {"role": "owner"}),))


def _session(session: int, *_: Any) -> Locks:
    return Locks(ids=(session,))


def _fence(fence: turns.TurnFence, *_: Any) -> Locks:
    return Locks(ids=(fence.session,))


def _found(name: str, parameter: str) -> Callable[..., Locks]:
    return lambda value, *_: Locks(find=((name, {parameter: value}),))


def _is_limited(policy: limits.LimitPolicy | None) -> bool:
    """Whether a turn may have to wait for a limit: what other sessions used must not change while it is asked.

    Such a transaction looks at the amounts that it and others add to, so it shares its own with none (`gathered.py`).
    """
    return policy is not None and policy.is_limited


def _ends_requests(session: int, *_: Any) -> Locks:
    """Whoever was notified of an open request of the session is notified of its end, too."""
    limit = permission_requests.MAX_RECENT_REQUESTS
    return Locks(ids=(session,), find=(("find_sessions_notified_of_requests", {"session": session, "limit": limit}),))


def _begin(session: int, *rest: Any) -> Locks:
    is_limited = any(_is_limited(value) for value in rest if isinstance(value, limits.LimitPolicy))
    return _ends_requests(session)._replace(ledger=is_limited, is_apart=is_limited)


def _finish(fence: turns.TurnFence, caller: Any, ops: Any, *rest: Any) -> Locks:
    dests = {request.dest for op in ops for request in getattr(op, "requests", ()) if request.dest is not None}
    locks = _ends_requests(fence.session) if any(map(turn_ops.is_over, ops)) else _session(fence.session)
    reports = [getattr(value, "usage", value) for value in rest]
    is_limited = any(_is_limited(report.policy) for report in reports if isinstance(report, limits.UsageReport))
    return locks._replace(homes=tuple(sorted(dests)), is_apart=is_limited)


def _addressees(targets: Any, start: hear.IdleStart | None = None, **more: Any) -> Locks:
    is_limited = _is_limited(start.policy if start is not None else None)
    return Locks(
        keys=tuple(sorted({target.key for target in targets})),
        homes=tuple(sorted({target.home for target in targets if target.home is not None})),
        ledger=is_limited,
        is_apart=is_limited,
        **more,
    )


def _record_batch(
    channel: str, source: str, items: Any, cursor: Any, unused: Any = (), channels: Any = (), start: Any = None
) -> Locks:
    targets = [item.addressee for item in items if isinstance(item, channel_batch.MessageItem)]
    reports = [item.key for item in items if isinstance(item, channel_batch.OwnMessageReport)]
    reports += [item.receipt_or_key for item in items if isinstance(item, channel_batch.DeliveryFailureReport)]
    if not reports:
        return _addressees(targets, start)
    find = (("find_sessions_of_messages", {"names": reports}),)
    return _addressees(targets, start, find=find, find_homes=(("find_other_places", {"parts": []}),))


def _call(call: tool_calls.ToolCallRequest, request: Any = None, *_: Any) -> Locks:
    dest = getattr(request, "dest", None)
    return Locks(find=(("find_session_of_token", {"token": call.token}),), homes=(dest,) if dest else ())


def _part(part: int, *_: Any) -> Locks:
    homes = (("find_other_places", {"parts": [part]}), ("find_dest_of_part", {"parts": [part]}))
    return Locks(find=(("find_sessions_of_part", {"part": part}),), find_homes=homes)


def _due(capacities: Mapping[str, send_queue.ChannelCapacity], *_: Any) -> Locks:
    limit = send_queue.MAX_PARTS_SCANNED * max(len(capacities), 1)
    due = {"channels": sorted(capacities), "limit": limit}
    other_places: tuple[str, Mapping[str, Any]] = ("find_other_places", {"parts": []})
    return Locks(find=(("find_sessions_due", due),), find_homes=(other_places, ("find_dests_due", due)))


def _erase(session: int, *_: Any) -> Locks:
    limit = max(erase.ROWS_PER_STEP, age_out.ENTRIES_PER_STEP)
    return Locks(ids=(session,), find=(("find_sessions_with_copies", {"session": session, "limit": limit}),))


def _import(
    progress: import_session.ImportProgress | import_session.HeldConversation, target: hear.Addressee, *_: Any
) -> Locks:
    return Locks(ids=(progress.session,), keys=(target.key,))


LOCKS: dict[Callable[..., Any], Callable[..., Locks]] = {
    # inbound
    hear.hear: lambda event, targets, cursor=None, start=None: _addressees(targets, start),
    hear.make_session: lambda target, *_: _addressees((target,)),
    channel_batch.record_batch: _record_batch,
    channel_batch.record_file: _nothing,
    channel_batch.release_files: _nothing,
    channel_batch.release_copied_file: _nothing,
    channel_batch.release_unclaimed_files: _nothing,
    uploads.hear_with_files: lambda event, targets, files, limit, start=None: _addressees(targets, start),
    uploads.record_upload: _nothing,
    uploads.drop_expired: _nothing,
    file_pieces.keep_file: _nothing,
    file_pieces.add_pieces: _nothing,
    file_objects.keep_file: _nothing,
    file_objects.add_copy: _nothing,
    file_objects.record_stored: _nothing,
    file_objects.begin_removal: _nothing,
    file_objects.finish_removal: _nothing,
    commands.answer: lambda event, session, *_: Locks(ids=(session,)),
    answers.record_answer: _ends_requests,
    answers.cancel_undelivered: _found("find_sessions_notified_of_item", "item"),
    nodes.assign_sources: _nothing,
    schedules.configure: _nothing,
    schedules.add: _nothing,
    schedules.pause: _nothing,
    schedules.resume: _nothing,
    schedules.remove: _nothing,
    schedules.fire: lambda row, target, *_: _addressees((target,), None),
    schedules.fire_now: lambda name, target, *_: _addressees((target,), None),
    schedules.fire_heartbeat: lambda pulse, *_: Locks(ids=(pulse.id,)),
    # turns
    turns.begin: _begin,
    turns.bind_steered: _fence,
    turns.record_prompting: _fence,
    turns.release_lease: _fence,
    voice_notes.record_outcomes: _fence,
    interventions.request_stop: _session,
    interventions.stop_next: _ends_requests,
    turns.cancel_put_off: _ends_requests,
    withdrawals.withdraw_message: _session,
    seats.notify_away: _session,
    seats.free_seat: _session,
    session_agent.record_offers: _session,
    finish_turn.finish: _finish,
    finish_turn.schedule_retry: _finish,
    show.show: _finish,
    show.show_before_correction: _finish,
    show.show_late: lambda caller, ops, *_: _finish(turns.TurnFence(caller.session, 0, 0), caller, ops),
    summary.add: _fence,
    entries.set_about: _session,
    entries.set_busy: _session,
    sessions.rename: _session,
    sessions.archive: _session,
    sessions.mark_seen: _session,
    sessions.delete: _ends_requests,
    sessions.cancel_orphaned_turn: _ends_requests,
    spawns.record_start: _session,
    spawns.record_identity: _found("find_session_of_spawn", "spawn"),
    spawns.record_end: _found("find_session_of_spawn", "spawn"),
    tool_calls.record_call: _call,
    tool_calls.mark_answered: lambda token, *_: Locks(find=(("find_session_of_token", {"token": token}),)),
    tool_calls.perform: lambda call, *_: _call(call),
    job_calls.request_job: lambda call, *_: _call(call),
    jobs.cancel: _found("find_session_of_run", "run"),
    jobs.mark_failed: _found("find_session_of_run", "run"),
    limits.ask_again: lambda *_: Locks(find=(("find_sessions_limited", {}),), ledger=True),
    # delivery
    send_queue.depart: _due,
    send_queue.record_outcome: _part,
    send_queue.decide: _part,
    send_queue.recover: lambda *_: Locks(find=(("find_sessions_in_line", {}),)),
    held_notice.list_chats_to_notify: _nothing,
    held_notice.notify_chat: lambda dest, *_: Locks(homes=(dest,)),
    owner_notice.notify_owners: _owners,
    permission_requests.notify_owners: _request_and_owners,
    # people
    people.add_code: _nothing,
    people.void_code: _nothing,
    people.redeem_code: _nothing,
    people.save_account: _nothing,
    people.remove_account: _nothing,
    people.replace_configured: _nothing,
    # admin
    erase.erase_step: _erase,
    erase.forget_files: _nothing,
    age_out.age_step: _erase,
    age_out.age_unreadable: _nothing,
    import_session.begin_import: lambda target, *_: _addressees((target,)),
    import_session.import_lines: _import,
    import_session.finish_import: _import,
    import_growth.add_lines: _import,
    settle_restored.settle_copy: lambda *_: EVERYTHING,
    store.touch: _nothing,
    store.do_nothing: _nothing,
    store.note_restored: _nothing,
}
