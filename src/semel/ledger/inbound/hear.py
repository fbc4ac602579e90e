"""Accept an event with its entries, its wakes and its source's cursor, in one transaction (Laws 1, 2).

A new (source, key) is stored once; a repeat is a duplicate or, with other content, a conflict. In each addressed
session the event becomes an entry and a hearing. The session's busy mode decides whether it wakes the session, is
steered into the running turn, interrupts it or waits. Commands get a row of their own and wait for the gateway's
answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from semel.law import busy as law
from semel.law import wake
from semel.law.identity import judge_repeat
from semel.law.permissions import AnswerOrigin
from semel.ledger.inbound import commands, references
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import jobs, turns

PERSON_KINDS = frozenset({"message", "answer"})  # what a person said; all other kinds are things that happened
NO_STEERING = "no message can join the turn that runs now"


class SessionMissing(Exception):
    """The event is addressed to a missing session that it must not create. Nothing was accepted."""

    def __init__(self, key: str) -> None:
        super().__init__(f"there is no session {key!r}")
        self.key = key


@dataclass(frozen=True)
class To:
    """A session that an event is addressed to. `agent` and `home` are used only if the session is new.

    The other fields say how the session takes the event: its configured busy mode and pause, whether programs may wake
    it (`automatic`), and whether the agent of its running turn is known to read a second prompt (`steers`). `makes`:
    create the session if it is missing; otherwise SessionMissing is raised.
    """

    key: str
    agent: str
    home: str | None
    busy: law.Busy = "queue"
    pause: wake.Pause = wake.NO_PAUSE
    automatic: bool = False
    steers: bool = False
    makes: bool = True


@dataclass(frozen=True)
class Event:
    """An event as its source reports it. `digest` covers the fields that the source declares stable.

    wakes: None leaves it to the kind, and to whether a program sent the event (`automatic`).
    busy: how the event is handled while its session is busy; None: by the session's mode.
    command: name and argument of a command to the gateway; the agent does not see it.
    refers: the message that it is about, by platform id; then a person did it, whatever its kind.
    seen: the rev that the sending face had shown; None if unknown.
    numbered: the platform's message ids in one place end with growing numbers, ours included.
    """

    source: str
    key: str | None
    kind: str
    text: str
    digest: bytes
    sender: str | None = None
    more: entries.Body | None = None
    wakes: bool | None = True
    busy: law.Busy | None = None
    automatic: bool = False
    command: tuple[str, str] | None = None
    refers: references.Refers | None = None
    seen: int | None = None
    numbered: bool = False

    @property
    def peoples(self) -> bool:
        """Whether a person said or did it."""
        return self.kind in PERSON_KINDS or self.refers is not None


@dataclass(frozen=True)
class Addressed:
    """What an event became in one session.

    act: what to do now; None: it waits for the next turn. root: of the turn to interrupt.
    seq: the entry of a command, or of an event that was written at the session's home.
    waiting: the busy mode by which it waits, if people see that it does. place: its position in the queue, from 1.
    why: why it was not handled as requested.
    """

    session: int
    act: law.Act | None
    root: int | None = None
    waiting: law.Busy | None = None
    place: int | None = None
    why: str | None = None
    command: bool = False  # a command that waits for the gateway's answer
    seq: int | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of `hear`. `first` is the digest of the content that is stored for this identity."""

    event: int
    status: str
    first: bytes
    addressed: tuple[Addressed, ...] = ()

    @property
    def woken(self) -> tuple[int, ...]:
        """The sessions with something to do."""
        return tuple(one.session for one in self.addressed if one.act is not None)


def session_of(tx: Tx, to: To) -> Row:
    """The session, created if it is new. Its home is fixed then."""
    return _opened(tx, to, tx.one("session_by_key", key=to.key))


def _opened(tx: Tx, to: To, row: Row | None) -> Row:
    if row is None:
        if not to.makes:
            raise SessionMissing(to.key)
        session = int(tx.value("session_add", key=to.key, agent=to.agent, home=to.home, at=tx.now))
        entries.touch_session(tx, session)
        row = tx.one("session_by_id", id=session)
        assert row is not None
    elif row.archived is not None or row.deleted is not None:
        row = _back(tx, row)
    return row


def _back(tx: Tx, row: Row) -> Row:
    """Bring back a session that gets an event: an archived one as it was, a deleted one as a new conversation."""
    tx.run("session_archive", id=row.id, archived=None)
    if row.deleted is not None:
        if row.seq > row.erased:  # written while it was deleted: a late notice
            tx.run("session_erase_on", id=row.id)
            tx.run("erasure_put", session=row.id)
        tx.run("session_revive", id=row.id, at=tx.now)
    entries.touch_session(tx, row.id)
    fresh = tx.one("session_by_id", id=row.id)
    assert fresh is not None
    return fresh


def hear(tx: Tx, event: Event, targets: Sequence[To], cursor: str | None = None) -> Outcome:
    """Accept an event at most once. A repeat returns the first event; other content under its key is a conflict.

    Raises SessionMissing.
    """
    if cursor is not None:
        tx.run("cursor_set", source=event.source, value=cursor, at=tx.now)
    told = {"automatic": True} if event.automatic else {}
    payload = entries.dump({"text": event.text, **(event.more or {}), **told})
    fresh = tx.value(
        "event_add", source=event.source, key=event.key, kind=event.kind, sender=event.sender,
        digest=event.digest, payload=payload, at=tx.now,
    )  # fmt: skip
    if fresh is None:
        return _again(tx, event, payload)
    addressed = tuple(_address(tx, int(fresh), event, to) for to in targets)
    jobs.heard(tx, event.source, event.kind, event.key, int(fresh), (event.more or {}).get("data") or {})
    return Outcome(int(fresh), "accepted", event.digest, addressed)


def _again(tx: Tx, event: Event, payload: str) -> Outcome:
    known = tx.one("event_known", source=event.source, key=event.key)
    assert known is not None
    if judge_repeat(bytes(known.digest), event.digest) == "duplicate":
        tx.run("event_repeat", id=known.id)
        return Outcome(known.id, "duplicate", event.digest)
    tx.run("conflict_add", event=known.id, digest=event.digest, payload=payload, at=tx.now)
    return Outcome(known.id, "conflict", bytes(known.digest))


def _address(tx: Tx, event_id: int, event: Event, to: To) -> Addressed:
    known = tx.one("session_by_key", key=to.key)
    if known is not None and known.deleted is not None and jobs.reports(tx, event.kind, event.key, known.id):
        return _record_for_deleted_session(tx, known, event_id, event)
    row = _opened(tx, to, known)
    if event.command is not None:
        return _command(tx, row, event_id, event, event.command)
    what = _place(tx, row, event, to)
    more = dict(event.more or {})
    if event.kind != "message":
        more["kind"] = event.kind
    if event.sender:
        more["sender"] = event.sender
    if event.automatic:
        more["automatic"] = True
    if what.waiting is not None:
        more["waiting"] = what.waiting
    about = references.find(tx, row, event.source, event.refers)
    if about is not None:
        more.update(about.more())
    role = "user" if event.peoples else "event"
    seq = entries.add_entry(tx, row.id, role=role, text=event.text, event=event_id, more=more)
    if about is not None:
        references.mark(tx, row.id, about, event.kind, seq)
    tx.run("hearing_add", event=event_id, session=row.id, seq=seq, wakes=int(what.act is not None), busy=what.waiting)
    entries.touch_session(tx, row.id)
    return replace(what, seq=seq) if turns.is_from_home(event.source, row.home) else what


def _record_for_deleted_session(tx: Tx, row: Row, event_id: int, event: Event) -> Addressed:
    """Record the end of a deleted session's job without reviving the session: bound to its last turn, then erased."""
    last = tx.one("turn_last", session=row.id)
    assert last is not None  # a job is always started in a turn
    seq = entries.add_entry(tx, row.id, role="event", text="", event=event_id)
    tx.run("hearing_add", event=event_id, session=row.id, seq=seq, wakes=0, busy=None)
    tx.run("hearing_bind", session=row.id, turn=last.id)
    tx.run("session_erase_on", id=row.id)
    tx.run("erasure_put", session=row.id)
    return Addressed(row.id, None)


def _command(tx: Tx, row: Row, event_id: int, event: Event, told: tuple[str, str]) -> Addressed:
    about = references.find(tx, row, event.source, event.refers)
    more = {**(event.more or {}), **({"sender": event.sender} if event.sender else {})}
    if about is not None:
        more.update(about.more())
    replies = event.refers is not None and event.refers.id is not None
    did = commands.heard(tx, row, event_id, *told, event.text, more, _writing(row, event), replies)
    act: law.Act | None = "wake" if did.wake else None if did.root is None else "interrupt"
    return Addressed(row.id, act, did.root, command=True, seq=did.seq)


def _writing(row: Row, event: Event) -> AnswerOrigin:
    """How a command came: over the API, or from a chat. If the channel does not name the chat, it is the session's
    home.
    """
    kind, _, channel = event.source.partition(":")
    if kind != "channel":
        return AnswerOrigin(None, event.seen)
    data = entries.part(dict(event.more or {}), "data")
    home = row.home if str(row.home).startswith(f"{channel}:") else f"{channel}:"
    dest = f"{channel}:{data['address']}" if data.get("address") else home
    return AnswerOrigin(dest, id=event.key or "", written_at=data.get("at"), numbered=event.numbered)


def _place(tx: Tx, row: Row, event: Event, to: To) -> Addressed:
    """Decide whether the event wakes its session, when, and how it waits until then."""
    wakes = event.wakes
    if wakes is None:
        wakes = wake.wakes(event.kind, automatic=event.automatic, allowed=to.automatic)
    if not wakes:
        return Addressed(row.id, None)
    mode, why = event.busy or row.busy or to.busy, None
    if not event.peoples:
        mode = law.for_event(mode)
    act = law.act(mode, running=row.turn is not None)
    if act == "steer" and not to.steers:
        mode, act, why = "queue", "wake", NO_STEERING
    due = _wake(tx, row, mode, to.pause)
    if row.turn is None and due <= tx.now:
        return Addressed(row.id, act)
    shown: law.Busy = mode if row.turn is not None else "collect"
    place = int(tx.value("session_line_count", id=row.id)) + 1
    running = tx.one("turn_get", id=row.turn) if act == "interrupt" else None
    return Addressed(row.id, act, running.root if running is not None else None, shown, place, why)


def _wake(tx: Tx, row: Row, mode: law.Busy, pause: wake.Pause) -> int:
    """Set the session's single pending wake (Law 2) and return when it is due (ms)."""
    if mode == "collect" and not pause.debounce:
        pause = law.COLLECT
    elif mode in ("steer", "interrupt"):
        pause = wake.NO_PAUSE
    pending = wake.Wake(row.wake_at, row.wake_since) if row.wake_at is not None else None
    woken = wake.woken(tx.now, pending, pause)
    tx.run("session_wake", id=row.id, due=woken.due, since=woken.since)
    return woken.due
