"""Hear: an event, its entries, its wakes and its source's cursor, in one transaction (Laws 1, 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from semel.law.identity import judge_repeat
from semel.ledger import entries
from semel.ledger.sql import Tx


@dataclass(frozen=True)
class To:
    """A session an event is addressed to. Agent and home count only if the session is new."""

    key: str
    agent: str
    home: str | None


@dataclass(frozen=True)
class Event:
    """What happened. `digest` covers the fields its source declares stable."""

    source: str
    key: str | None
    kind: str
    text: str
    digest: bytes
    sender: str | None = None
    more: entries.Body | None = None
    wakes: bool = True


@dataclass(frozen=True)
class Outcome:
    """`first` is the digest of the content that is kept. `woken` are the sessions with something to do."""

    event: int
    status: str
    first: bytes
    woken: tuple[int, ...] = ()


def session_of(tx: Tx, to: To) -> int:
    """The session, made if it is new. Its home is fixed here."""
    row = tx.one("session_by_key", key=to.key)
    if row is not None:
        return int(row.id)
    session = int(tx.value("session_add", key=to.key, agent=to.agent, home=to.home, at=tx.now))
    entries.touch_session(tx, session)
    return session


def hear(tx: Tx, event: Event, targets: Sequence[To], cursor: str | None = None) -> Outcome:
    """Accept an event once, for ever. A repeat answers with the first outcome; other content conflicts."""
    if cursor is not None:
        tx.run("cursor_set", source=event.source, value=cursor, at=tx.now)
    payload = entries.dump({"text": event.text, **(event.more or {})})
    fresh = tx.value(
        "event_add", source=event.source, key=event.key, kind=event.kind, sender=event.sender,
        digest=event.digest, payload=payload, at=tx.now,
    )  # fmt: skip
    if fresh is None:
        return _again(tx, event, payload)
    woken = [_address(tx, int(fresh), event, to) for to in targets]
    return Outcome(int(fresh), "accepted", event.digest, tuple(s for s in woken if s is not None))


def _again(tx: Tx, event: Event, payload: str) -> Outcome:
    known = tx.one("event_known", source=event.source, key=event.key)
    assert known is not None
    if judge_repeat(bytes(known.digest), event.digest) == "duplicate":
        tx.run("event_repeat", id=known.id)
        return Outcome(known.id, "duplicate", event.digest)
    tx.run("conflict_add", event=known.id, digest=event.digest, payload=payload, at=tx.now)
    return Outcome(known.id, "conflict", bytes(known.digest))


def _address(tx: Tx, event_id: int, event: Event, to: To) -> int | None:
    session = session_of(tx, to)
    more = dict(event.more or {})
    if event.kind != "message":
        more["kind"] = event.kind
    if event.sender:
        more["sender"] = event.sender
    role = "user" if event.kind in ("message", "answer") else "event"
    seq = entries.add_entry(tx, session, role=role, text=event.text, event=event_id, more=more)
    tx.run("hearing_add", event=event_id, session=session, seq=seq, wakes=int(event.wakes))
    entries.touch_session(tx, session)
    if not event.wakes:
        return None
    tx.run("session_wake", id=session, at=tx.now)
    return session
