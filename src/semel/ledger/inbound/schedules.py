"""Schedules and heartbeats as rows. A firing is accepted in the transaction that advances its series.

So a crash can neither repeat a firing nor lose one (Laws 1, 2): before the commit the series is unchanged; after it the
event exists, and its key, the due time, cannot be accepted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semel.law import identity
from semel.ledger.inbound import hear
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.turns import turns
from semel.timing.schedule import Downtime, Firings, Form
from semel.timing.walltime import iso

MAX_SCHEDULES = 1000
"""Schedules of one ledger."""
MAX_AGENT_SCHEDULES_PER_SESSION = 50
"""Schedules that agents may have made in one session."""

Json = dict[str, Any]


@dataclass(frozen=True)
class ScheduleDefinition:
    """A schedule as a person, an agent or the configuration defines it.

    `session` is a session key. `due` is the first firing, in seconds since the epoch; None if there is none left.
    """

    name: str
    session: str
    text: str
    form: Form
    spec: str
    tz: str
    downtime: Downtime
    source: str
    due: int | None


class ScheduleRefused(Exception):
    """The schedule was refused: its name is in use, the configuration defines it, or there are too many."""


def own_session(name: str) -> str:
    """Key of the session for a schedule without one. It has no home: the transcript is the delivery."""
    return f"schedule:{name}"


def same(row: Row, told: ScheduleDefinition) -> bool:
    """Whether the row has the same session, text, form, spec and time zone."""
    return bool(
        (row.session, row.text, row.form, row.spec, row.tz) == (told.session, told.text, told.form, told.spec, told.tz)
    )


def configure(tx: Tx, told: Sequence[ScheduleDefinition]) -> None:
    """Apply the configured schedules. An unchanged one keeps its position; those no longer configured are removed."""
    names = {one.name for one in told}
    for row in tx.all("schedules_all", after="", limit=MAX_SCHEDULES):
        if row.source == "config" and row.name not in names:
            tx.run("schedule_drop", id=row.id)
    for one in told:
        known = tx.one("schedule_get", name=one.name)
        if known is None or not same(known, one):
            _put(tx, one, paused=known is not None and not known.enabled and not known.error)
        else:
            tx.run("schedule_source", id=known.id, source="config", downtime=one.downtime)


def add(tx: Tx, told: ScheduleDefinition, replace: bool = False) -> bool:
    """Add or replace a schedule. False if the same one already exists. Raises ScheduleRefused."""
    known = tx.one("schedule_get", name=told.name)
    if known is not None and same(known, told) and known.downtime == told.downtime:
        return False
    if known is not None and known.source == "config":
        raise ScheduleRefused(f"schedule {told.name!r} comes from the configuration: change it in semel.toml")
    if known is not None and not replace:
        raise ScheduleRefused(
            f"there is a schedule {told.name!r} already: remove it first, replace it, or take another name"
        )
    if known is None and len(tx.all("schedules_all", after="", limit=MAX_SCHEDULES)) == MAX_SCHEDULES:
        raise ScheduleRefused(f"there are {MAX_SCHEDULES} schedules already: remove one first")
    _put(tx, told)
    return True


def _put(tx: Tx, told: ScheduleDefinition, paused: bool = False) -> None:
    tx.run(
        "schedule_put", name=told.name, session=told.session, text=told.text, form=told.form, spec=told.spec,
        tz=told.tz, downtime=told.downtime, source=told.source, enabled=int(not paused), due=_ms(told.due), at=tx.now,
    )  # fmt: skip


def add_by_agent(tx: Tx, told: ScheduleDefinition) -> str:
    """Add a schedule that an agent makes in its own session; return its name. An equal one is reused.

    A restarted tool server may repeat the call, so the schedule is recognised by its content.
    """
    mine = tx.all("schedules_of_session", session=told.session)
    for row in mine:
        if row.source == "agent" and row.enabled and row.due is not None and same(row, told):
            return str(row.name)
    if sum(row.source == "agent" for row in mine) >= MAX_AGENT_SCHEDULES_PER_SESSION:
        raise ScheduleRefused(
            f"this session has {MAX_AGENT_SCHEDULES_PER_SESSION} schedules of agents already; cancel one first"
        )
    add(tx, told)
    return told.name


def remove(tx: Tx, name: str) -> bool:
    """Remove a schedule. False if it does not exist. Raises ScheduleRefused if the configuration defines it."""
    row = tx.one("schedule_get", name=name)
    if row is None:
        return False
    if row.source == "config":
        raise ScheduleRefused(f"schedule {name!r} comes from the configuration: remove it from semel.toml, or pause it")
    tx.run("schedule_drop", id=row.id)
    return True


def pause(tx: Tx, name: str, error: str | None = None) -> bool:
    """Stop a schedule until it is resumed; firings due meanwhile do not count as missed. False if it does not exist."""
    row = tx.one("schedule_get", name=name)
    if row is not None:
        tx.run("schedule_turn", id=row.id, enabled=0, due=row.due, error=error)
    return row is not None


def resume(tx: Tx, name: str, due: int | None) -> bool:
    """Let a schedule fire again from `due` (s) on. False if it does not exist."""
    row = tx.one("schedule_get", name=name)
    if row is not None and not row.enabled:
        tx.run("schedule_turn", id=row.id, enabled=1, due=_ms(due), error=None)
    return row is not None


def due(tx: Tx, now: int, limit: int = 100) -> tuple[list[Row], int | None]:
    """(schedules that are due at `now` (ms), when the next one is due (ms))."""
    return tx.all("schedules_due", now=now, limit=limit), tx.value("schedule_next", now=now)


def fire(tx: Tx, seen: Row, to: hear.To, what: Firings, following: int | None) -> tuple[int, ...]:
    """Accept the firings of a schedule and advance its series; return the sessions that were woken.

    `seen` is the row that the caller decided by: if it has changed since, nothing happens.
    """
    row = tx.one("schedule_get", name=seen.name)
    if row is None or tuple(row) != tuple(seen):
        return ()
    woken: set[int] = set()
    last = None
    for n, at in enumerate(what.fire):
        done = hear.hear(tx, _firing(row, at, what if n == len(what.fire) - 1 else None), [to])
        woken.update(done.woken)
        last = done.event
    if note := _missed(row.name, row.downtime, what):
        turns.notice(tx, hear.session_of(tx, to).id, note, kind="schedule.missed", tell=False)
    fired = _ms(what.fire[-1]) if what.fire else None
    tx.run("schedule_fired", id=row.id, due=_ms(following), fired=fired, event=last)
    return tuple(woken)


def _firing(row: Row, at: int, what: Firings | None) -> hear.Event:
    data: Json = {"schedule": row.name, "due": iso(at)}
    if what is not None and what.missed:
        data["missed"] = f"{what.missed}{' or more' if what.more else ''}"
    return hear.Event(
        source=f"schedule:{row.name}", key=iso(at), kind="schedule", text=row.text,
        digest=identity.digest({"kind": "schedule", "text": row.text}), more={"data": data},
    )  # fmt: skip


def _missed(name: str, policy: str, what: Firings) -> str:
    """The text of the notice about missed firings; "" if there is nothing to report."""
    if policy == "all" and not what.doubtful:
        most = len(what.fire)
        note = f"Schedule {name}: more than {most} firings were missed; the newest {most} are made up."
        return note if what.more else ""
    if not what.missed:
        return ""
    if what.doubtful:
        many = f"{'more than ' if what.more else ''}{what.missed} firing{'s' if what.missed > 1 else ''}"
        return f"Schedule {name}: {many} may have happened before the ledger was restored; they are not caught up on."
    many = f"{'more than ' if what.more else ''}{what.missed} firing{'s were' if what.missed > 1 else ' was'} missed"
    return f"Schedule {name}: {many}; " + ("one makes up for all." if policy == "once" else "they are skipped.")


# ---------------------------------------------------------------- heartbeats


def pulse(tx: Tx, session: int) -> Row | None:
    """A session's activity: running turn (`turn`), pending wake (`wake_at`), and last activity (`quiet`, ms)."""
    return tx.one("session_pulse", id=session)


def newcomers(tx: Tx, after: int, limit: int = 1000) -> list[Row]:
    """Sessions that were created after session `after`."""
    return tx.all("sessions_since", after=after, limit=limit)


def hear_heartbeat(tx: Tx, session: int, quiet: int, at: int, text: str, words: Sequence[str]) -> bool:
    """Accept a heartbeat due at `at` (s), unless something has happened since `quiet` (ms). True if it woke the
    session.

    `words` are the quiet answers that the agent may give.
    """
    row = pulse(tx, session)
    if row is None or row.away or row.turn is not None or row.wake_at is not None or row.quiet != quiet:
        return False
    event = hear.Event(
        source=f"heartbeat:{row.key}", key=iso(at), kind="heartbeat", text=text,
        digest=identity.digest({"kind": "heartbeat", "text": text}), more={"data": {"quiet": list(words)}},
    )  # fmt: skip
    return bool(hear.hear(tx, event, [hear.To(row.key, row.agent, row.home)]).woken)


# ---------------------------------------------------------------- reading


def listed(tx: Tx, session: str | None = None) -> list[Json]:
    """All schedules, or those of a session, as JSON objects; times in ms."""
    if session is not None:
        return [shown(row) for row in tx.all("schedules_of_session", session=session)]
    return [shown(row) for row in tx.all("schedules_all", after="", limit=MAX_SCHEDULES)]


def one(tx: Tx, name: str) -> Json | None:
    """One schedule as a JSON object."""
    row = tx.one("schedule_one", name=name)
    return None if row is None else shown(row)


def shown(row: Row) -> Json:
    """A schedule as a JSON object. `next` and `last.due` are in ms; `next` is null if it will not fire."""
    out: Json = {
        "name": row.name, "session": row.session, "text": row.text, row.form: row.spec, "tz": row.tz,
        "downtime": row.downtime, "source": row.source, "enabled": bool(row.enabled),
        "next": row.due if row.enabled else None, "last": None,
    }  # fmt: skip
    if row.fired is not None:
        out["last"] = {"due": row.fired, "event": row.event, "turn": row.turn, "state": row.state or "waiting"}
    if row.error:
        out["error"] = row.error
    return out


def _ms(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * 1000
