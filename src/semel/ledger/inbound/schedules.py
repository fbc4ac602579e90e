"""Schedules and heartbeats as rows. One transaction accepts a firing and sets the schedule's next due time.

So a crash can neither repeat a firing nor lose it (Laws 1, 2). Before the commit, the schedule is unchanged; after it,
the event exists, and its key, the due time, cannot be accepted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from semel.law import identity
from semel.ledger.inbound import hear
from semel.ledger.storage.rows import ListedSchedule, Row, ScheduleRow
from semel.ledger.storage.sql import Tx
from semel.ledger.turns import turns
from semel.text.json_types import Json
from semel.timing.schedule import Firings, MissedFiringsPolicy, ScheduleKind
from semel.timing.walltime import format_instant

MAX_SCHEDULES = 1000
"""How many schedules a ledger may have."""
MAX_AGENT_SCHEDULES_PER_SESSION = 50
"""How many schedules agents may have in one session."""
UNCONFIGURED = 2
"""Is added to `schedule.enabled` of a schedule from semel.toml while that file does not name it. It does not fire."""
RUN_BY = "the owner"
"""The sender of a firing that a person asked for. One that is due by itself has none."""


class SessionActivity(Row):
    """The state of a session, as a heartbeat needs it. `quiet`: when something last happened there (ms).

    `turn`: the running turn. `wake_at`: when the next turn is due (ms). `away`: 1 if the session is archived or
    deleted.
    """

    id: int
    key: str
    agent: str
    home: str | None
    turn: int | None
    wake_at: int | None
    away: int
    quiet: int


@dataclass(frozen=True)
class ScheduleDefinition:
    """A schedule as a person, an agent or the configuration defines it.

    `session`: a session key. `due`: the first firing, in seconds since the epoch; None if no firing is left.
    """

    name: str
    session: str
    text: str
    form: ScheduleKind
    spec: str
    tz: str
    downtime: MissedFiringsPolicy
    source: str
    due: int | None


class ScheduleRefused(Exception):
    """The schedule was refused: its name is taken, the configuration defines it, or there are too many schedules."""


def default_session_key(name: str) -> str:
    """Return the key of the session that a schedule gets if it names none.

    That session has no home: its transcript is the delivery.
    """
    return f"schedule:{name}"


def is_same_schedule(row: ScheduleRow, definition: ScheduleDefinition) -> bool:
    """Return whether the row and the definition have the same session, text, form, spec and time zone."""
    return (row.session, row.text, row.form, row.spec, row.tz) == (
        definition.session, definition.text, definition.form, definition.spec, definition.tz
    )  # fmt: skip


def is_unconfigured(row: ScheduleRow) -> bool:
    """Return whether a schedule came from semel.toml, which does not name it any more. It keeps its pause and times."""
    return bool(row.enabled & UNCONFIGURED)


def is_paused(row: ScheduleRow) -> bool:
    """Return whether a schedule is paused, or will be once semel.toml names it again."""
    return not row.enabled & ~UNCONFIGURED


def configure(tx: Tx, definitions: Sequence[ScheduleDefinition]) -> list[str]:
    """Apply the configured schedules. Return, as sentences, what the person who configured them may not expect.

    Keep the due time of unchanged ones. Those that are no longer configured stay as rows, so that a start with another
    file costs neither their pause nor their history; they do not fire.
    """
    remarks = []
    names = {definition.name for definition in definitions}
    for row in tx.all(ListedSchedule, "schedules_all", after="", limit=MAX_SCHEDULES):
        if row.source == "config" and row.name not in names and not is_unconfigured(row):
            _set_enabled(tx, row, row.enabled | UNCONFIGURED)
            remarks.append(
                f"schedule {row.name} is not in the configuration any more: it does not fire until it is there again; "
                f"to remove it for good: semel schedules remove {row.name}"
            )
    for definition in definitions:
        existing = tx.one(ScheduleRow, "schedule_get", name=definition.name)
        if existing is None or not is_same_schedule(existing, definition):
            remarks += _list_remarks(existing, definition)
            is_kept_paused = existing is not None and is_paused(existing) and not existing.error
            _put_schedule(tx, definition, existing, paused=is_kept_paused)
            continue
        if is_unconfigured(existing):
            remarks += _name_again(tx, existing, definition)
        tx.run("schedule_source", id=existing.id, source="config", downtime=definition.downtime)
    return remarks


def _name_again(tx: Tx, row: ScheduleRow, definition: ScheduleDefinition) -> list[str]:
    """Let a schedule that is configured again go on, as after a pause: what fell due meanwhile is not missed.

    Return remarks as `configure` does.
    """
    enabled = row.enabled & ~UNCONFIGURED
    if is_paused(row) or row.due is None or row.due > tx.now:
        _set_enabled(tx, row, enabled)
        return []
    _put_schedule(tx, definition, row)
    return _list_remarks(row, definition)


def _set_enabled(tx: Tx, row: ScheduleRow, enabled: int) -> None:
    tx.run("schedule_turn", id=row.id, enabled=enabled, due=row.due, error=row.error)


def _list_remarks(existing: ScheduleRow | None, definition: ScheduleDefinition) -> list[str]:
    remarks = []
    if definition.due is None:
        remarks.append(f"[schedules.{definition.name}] never fires: {definition.spec} ({definition.tz}) is in the past")
    if existing is not None and existing.source != "config":
        remarks.append(f"[schedules.{definition.name}] replaces the schedule of that name that was made otherwise")
    return remarks


def add(tx: Tx, definition: ScheduleDefinition, replace: bool = False, paused: bool = False) -> bool:
    """Add or replace a schedule. Return False if the same schedule already exists.

    `replace`: change an existing schedule of this name. `paused`: a new or changed one does not fire until it is
    resumed. Raises ScheduleRefused.
    """
    tx.lock("ledger_lock")
    existing = tx.one(ScheduleRow, "schedule_get", name=definition.name)
    if existing is not None and is_unconfigured(existing):
        if not replace:
            raise ScheduleRefused(
                f"there is a schedule {definition.name!r} already, which semel.toml does not name any more: take "
                'another name, or replace it (--replace, in the API "replace": true)'
            )
    elif existing is not None and is_same_schedule(existing, definition) and existing.downtime == definition.downtime:
        return False
    elif existing is not None and existing.source == "config":
        raise ScheduleRefused(f"schedule {definition.name!r} comes from the configuration: change it in semel.toml")
    if existing is not None and not replace:
        raise ScheduleRefused(
            f"there is a schedule {definition.name!r} already: take another name, or replace it "
            '(--replace, in the API "replace": true)'
        )
    if (
        existing is None
        and len(tx.all(ListedSchedule, "schedules_all", after="", limit=MAX_SCHEDULES)) == MAX_SCHEDULES
    ):
        raise ScheduleRefused(f"there are {MAX_SCHEDULES} schedules already: remove one first")
    _put_schedule(tx, definition, existing, paused)
    return True


def _put_schedule(tx: Tx, definition: ScheduleDefinition, existing: ScheduleRow | None, paused: bool = False) -> None:
    """Add a schedule or replace `existing`, which keeps its times if it is not paused and they did not change.

    If `existing` was not configured, it keeps them only if its next firing is still to come.
    """
    anchor, due = tx.now, _to_ms(definition.due)
    if existing is not None and _keeps_times(tx, existing, definition):
        anchor, due = existing.anchor, existing.due
    tx.run(
        "schedule_put", name=definition.name, session=definition.session, text=definition.text, form=definition.form,
        spec=definition.spec, tz=definition.tz, downtime=definition.downtime, source=definition.source,
        enabled=int(not paused), anchor=anchor, due=due, at=tx.now,
    )  # fmt: skip


def _keeps_times(tx: Tx, row: ScheduleRow, definition: ScheduleDefinition) -> bool:
    if is_paused(row) or row.due is None or (is_unconfigured(row) and row.due <= tx.now):
        return False
    return (row.form, row.spec, row.tz) == (definition.form, definition.spec, definition.tz)


def add_by_agent(tx: Tx, definition: ScheduleDefinition) -> str:
    """Add a schedule that an agent makes in its own session, or reuse an equal one. Return the schedule's name.

    A restarted tool server may repeat the agent's call, so an existing schedule is recognised by its content. Raises
    ScheduleRefused.
    """
    existing = tx.all(ListedSchedule, "schedules_of_session", session=definition.session)
    for row in existing:
        if row.source == "agent" and row.enabled and row.due is not None and is_same_schedule(row, definition):
            return row.name
    if sum(row.source == "agent" for row in existing) >= MAX_AGENT_SCHEDULES_PER_SESSION:
        raise ScheduleRefused(
            f"this session has {MAX_AGENT_SCHEDULES_PER_SESSION} schedules of agents already; cancel one first"
        )
    add(tx, definition)
    return definition.name


def remove(tx: Tx, name: str) -> bool:
    """Remove a schedule. Return False if it does not exist. Raises ScheduleRefused if the configuration defines it."""
    row = tx.one(ScheduleRow, "schedule_get", name=name)
    if row is None:
        return False
    if row.source == "config" and not is_unconfigured(row):
        raise ScheduleRefused(f"schedule {name!r} comes from the configuration: remove it from semel.toml, or pause it")
    tx.run("schedule_drop", id=row.id)
    return True


def pause(tx: Tx, name: str, error: str | None = None) -> bool:
    """Pause a schedule until it is resumed. Return False if it does not exist.

    Firings that would be due in the meantime do not count as missed. `error`: the reason, if Semel itself pauses it.
    """
    row = tx.one(ScheduleRow, "schedule_get", name=name)
    if row is not None:
        tx.run("schedule_turn", id=row.id, enabled=row.enabled & UNCONFIGURED, due=row.due, error=error)
    return row is not None


def resume(tx: Tx, name: str, due_s: int | None) -> bool:
    """Let a paused schedule fire again, next at `due_s` (seconds since the epoch).

    Return False if it does not exist. Raises ScheduleRefused if it is not configured.
    """
    row = _find_firing(tx, name)
    if row is not None and is_paused(row):
        tx.run("schedule_turn", id=row.id, enabled=1, due=_to_ms(due_s), error=None)
    return row is not None


def _find_firing(tx: Tx, name: str) -> ScheduleRow | None:
    """Return the schedule; None if it does not exist. Raises ScheduleRefused if it is not configured."""
    row = tx.one(ScheduleRow, "schedule_get", name=name)
    if row is not None and is_unconfigured(row):
        raise ScheduleRefused(
            f"schedule {name!r} does not fire: the semel.toml that this gateway read does not name it. Name it there "
            f"and restart the gateway, or remove it for good (semel schedules remove {name})"
        )
    return row


def list_due(tx: Tx, now: int, limit: int = 100) -> tuple[list[ScheduleRow], int | None]:
    """Return the schedules that are due at `now`, and when the next one after them is due (ms; None if none is)."""
    return tx.all(ScheduleRow, "schedules_due", now=now, limit=limit), tx.value(int, "schedule_next", now=now)


def fire(
    tx: Tx,
    expected_row: ScheduleRow,
    addressee: hear.Addressee,
    firings: Firings,
    next_due_s: int | None,
) -> tuple[int, ...]:
    """Accept the firings of a schedule as events and set its next due time. Return the ids of the woken sessions.

    `expected_row`: the row from which the caller computed `firings` (due times in seconds) and `next_due_s` (None ends
    the series). If the row has changed since, do nothing. A notice in the session reports missed firings.
    """
    row = tx.one(ScheduleRow, "schedule_get", name=expected_row.name)
    if row is None or row != expected_row:
        return ()
    woken: set[int] = set()
    last_event = None
    for n, at in enumerate(firings.fire):
        event = _firing_event(row, at, firings if n == len(firings.fire) - 1 else None)
        outcome = hear.hear(tx, event, [addressee])
        woken.update(outcome.woken_sessions)
        last_event = outcome.event
    if note := _missed_note(row, firings):
        turns.add_notice(tx, hear.open_session(tx, addressee).id, note, kind="schedule.missed", tell=False)
    last_due = _to_ms(firings.fire[-1]) if firings.fire else None
    tx.run("schedule_fired", id=row.id, due=_to_ms(next_due_s), fired=last_due, event=last_event)
    return tuple(woken)


def fire_now(tx: Tx, name: str, addressee: hear.Addressee, at: int, key: str) -> tuple[int, ...] | None:
    """Accept a firing that a person asked for, due `at` (seconds since the epoch). The schedule's due time stays.

    `key`: the key of its event, which is not a due time: another firing at the same second is another act. If it fired
    before under this key, nothing changes. Return the ids of the woken sessions; None if there is no such schedule.
    Raises ScheduleRefused if it is not configured.
    """
    row = _find_firing(tx, name)
    if row is None:
        return None
    event = _firing_event(row, at, None)
    digest = identity.digest_fields({"kind": event.kind, "run": name})  # not of the text, which may change
    outcome = hear.hear(tx, replace(event, key=key, digest=digest, sender=RUN_BY), [addressee])
    if outcome.status == "accepted":
        tx.run("schedule_fired", id=row.id, due=row.due, fired=_to_ms(at), event=outcome.event)
    return outcome.woken_sessions


def _firing_event(row: ScheduleRow, at: int, firings: Firings | None) -> hear.Event:
    data: Json = {"schedule": row.name, "due": format_instant(at)}
    if firings is not None and firings.missed:
        data["missed"] = f"{firings.missed}{' or more' if firings.has_more else ''}"
    return _timed_event(f"schedule:{row.name}", "schedule", at, row.text, data)


def _timed_event(source: str, kind: str, at: int, text: str, data: Json) -> hear.Event:
    """Return an event whose key is its due time `at` (seconds since the epoch), so that it is accepted only once."""
    digest = identity.digest_fields({"kind": kind, "text": text})
    key = format_instant(at)
    return hear.Event(source=source, key=key, kind=kind, text=text, digest=digest, more={"data": data})


def _missed_note(row: ScheduleRow, firings: Firings) -> str:
    """Return the text of the notice about missed firings; "" if no notice is needed."""
    if row.downtime == "all" and not firings.doubtful:
        made_up = len(firings.fire)
        note = f"Schedule {row.name}: more than {made_up} firings were missed; only the newest {made_up} run now."
        return note if firings.has_more else ""
    if not firings.missed:
        return ""
    count = f"{'more than ' if firings.has_more else ''}{firings.missed} firing{'s' if firings.missed > 1 else ''}"
    span = _format_span(row.tz, firings)
    they, do, were, are = ("they", "do", "were", "are") if firings.missed > 1 else ("it", "does", "was", "is")
    if firings.doubtful:
        return (
            f"Schedule {row.name}: {count}{span} may have happened before the ledger was restored; {they} {do} not run "
            "again."
        )
    consequence = "one firing stands for all" if row.downtime == "once" else f"{they} {are} skipped"
    return f"Schedule {row.name}: {count}{span} {were} missed; {consequence}."


def _format_span(tz: str, firings: Firings) -> str:
    """Format when the missed firings were due, like " (2026-03-01 09:00:00 to 2026-03-03 09:00:00 Europe/Berlin)"."""
    if firings.missed_span is None:
        return ""
    first, last = (wall.isoformat(" ") for wall in firings.missed_span)
    return f" ({first}{'' if first == last else f' to {last}'} {tz})"


# ---------------------------------------------------------------- heartbeats


def read_activity(tx: Tx, session: int) -> SessionActivity | None:
    """Return a session's running turn, pending wake and time of last activity; None if the session does not exist."""
    return tx.one(SessionActivity, "session_pulse", id=session)


def list_sessions_after(tx: Tx, after: int, limit: int = 1000) -> list[tuple[int, str]]:
    """Return the (id, key) pairs of at most `limit` sessions whose id is above `after`."""
    return tx.pairs(int, str, "sessions_since", after=after, limit=limit)


def is_idle(activity: SessionActivity) -> bool:
    """Return whether a session can get a heartbeat.

    It can if it is neither archived nor deleted, no turn runs and no wake is pending.
    """
    return not activity.away and activity.turn is None and activity.wake_at is None


def fire_heartbeat(tx: Tx, expected_pulse: SessionActivity, at: int, text: str, quiet_words: Sequence[str]) -> bool:
    """Accept a heartbeat, unless something has happened in the session since `expected_pulse` was read.

    `at`: when it was due (seconds since the epoch). `quiet_words`: answers that tell Semel that the agent has nothing
    to say. Return whether the heartbeat woke the session.
    """
    if read_activity(tx, expected_pulse.id) != expected_pulse or not is_idle(expected_pulse):
        return False
    event = _timed_event(f"heartbeat:{expected_pulse.key}", "heartbeat", at, text, {"quiet": list(quiet_words)})
    return bool(
        hear.hear(
            tx, event, [hear.Addressee(expected_pulse.key, expected_pulse.agent, expected_pulse.home)]
        ).woken_sessions
    )


# ---------------------------------------------------------------- lists


def list_json(tx: Tx, session: str | None = None) -> list[Json]:
    """Return all schedules, or only those of the session with the key `session`, as JSON objects (`schedule_json`)."""
    if session is not None:
        return [schedule_json(row) for row in tx.all(ListedSchedule, "schedules_of_session", session=session)]
    return [schedule_json(row) for row in tx.all(ListedSchedule, "schedules_all", after="", limit=MAX_SCHEDULES)]


def get_json(tx: Tx, name: str) -> Json | None:
    """Return one schedule as a JSON object, or None if it does not exist."""
    row = tx.one(ListedSchedule, "schedule_one", name=name)
    return None if row is None else schedule_json(row)


def schedule_json(row: ListedSchedule) -> Json:
    """Return a schedule as a JSON object. "next", "last.due" and "last.ran" are in ms; "next" is null if none is left.

    "unconfigured" is true, and otherwise missing, if semel.toml named the schedule earlier and does not any more.
    "home" is missing if the session does not exist yet: the configuration will give it one.
    """
    fields: Json = {
        "name": row.name, "session": row.session, "text": row.text, row.form: row.spec, "tz": row.tz,
        "downtime": row.downtime, "source": row.source, "enabled": not is_paused(row),
        "next": None if is_paused(row) or is_unconfigured(row) else row.due, "last": None,
    }  # fmt: skip
    if is_unconfigured(row):
        fields["unconfigured"] = True
    if row.fired is not None:
        fields["last"] = {
            "due": row.fired, "ran": row.ran, "event": row.event, "turn": row.turn, "state": row.state or "waiting"
        }  # fmt: skip
        if row.sender is not None:
            fields["last"]["by"] = row.sender
    if row.opened is not None:
        fields["home"] = row.home
    if row.error:
        fields["error"] = row.error
    return fields


def _to_ms(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * 1000
