"""Record a batch of channel events together with the cursor behind it, in one transaction (Law 1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from semel.ledger import people
from semel.ledger.delivery import outgoing
from semel.ledger.inbound import delivery_reports, hear
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries

Json = dict[str, Any]
GONE = "it was not there any more"


@dataclass(frozen=True)
class Message:
    """What a person sent or did on the channel, addressed to one session. `files` are blob ids."""

    event: hear.Event
    to: hear.To
    address: str
    account: str  # of the person
    direct: bool
    title: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Echo:
    """A message of our own that the platform reported: the key of its part, and the platform's id."""

    key: str
    id: str


@dataclass(frozen=True)
class Failed:
    """A report that our message failed after the platform had accepted it.

    `of`: the receipt or the key of its part. The event's text says why it failed.
    """

    event: hear.Event
    of: str


@dataclass(frozen=True)
class Unusable:
    """Input that could not be read: kept raw in quarantine."""

    event: hear.Event
    why: str


Item = Message | Echo | Failed | Unusable
What = Literal["accepted", "duplicate", "conflict", "quarantined", "echo", "failed"]


@dataclass(frozen=True)
class Done:
    """The result of one item of a batch. `heard`: for an accepted message, what it became in its session."""

    what: What
    heard: hear.Addressed | None = None


def put(
    tx: Tx, channel: str, source: str, items: Sequence[Item], cursor: str | None, unused: Sequence[str] = (),
    channels: Collection[str] = (),
) -> list[Done]:  # fmt: skip
    """Record all items and the cursor.

    `unused`: blobs of refused messages. `channels`: those that can carry a notice of a failure.
    """
    done = [_record_item(tx, channel, source, item, channels) for item in items]
    let_go(tx, unused)
    if cursor is not None:
        tx.run("cursor_set", source=source, value=cursor, at=tx.now)
    return done


def _record_item(tx: Tx, channel: str, source: str, item: Item, channels: Collection[str]) -> Done:
    if isinstance(item, Echo):
        outgoing.settle_reported_part(tx, channel, item.key, item.id)
        return Done("echo")
    if isinstance(item, Failed):
        return Done(_failed(tx, channel, item, channels))
    if isinstance(item, Unusable):
        return Done(_unusable(tx, channel, item))
    outcome = hear.hear(tx, _with_files(tx, source, item), [item.to])
    if outcome.status != "accepted":
        let_go(tx, item.files)
        return Done(outcome.status)  # type: ignore[arg-type]
    people.seen(tx, channel, item.address, item.account, item.direct)
    _set_default_title(tx, outcome.addressed[0].session, item.title)
    return Done("accepted", outcome.addressed[0])


def _with_files(tx: Tx, source: str, item: Message) -> hear.Event:
    """Keep the files of a new message in the store. Files that are no longer there are listed as missing."""
    if not item.files or tx.one("event_known", source=source, key=item.event.key) is not None:
        return item.event
    lost = {blob for blob in item.files if not tx.run("blob_heard", id=blob)}
    if not lost:
        return item.event
    more = dict(item.event.more or {})
    more["files"] = [_missing(file) if file.get("id") in lost else file for file in more["files"]]
    return replace(item.event, more=more)


def _missing(file: Mapping[str, Any]) -> Json:
    return {"name": file["name"], "mime": file["mime"], "missing": GONE}


def _failed(tx: Tx, channel: str, item: Failed, channels: Collection[str]) -> What:
    outcome = hear.hear(tx, item.event, ())
    if outcome.status != "accepted":
        return outcome.status  # type: ignore[return-value]
    part = delivery_reports.find(tx, channel, item.of)
    if isinstance(part, str):
        return _quarantine(tx, channel, outcome.event, part)
    delivery_reports.mark(tx, part, outcome.event, item.of, item.event.text, channels)
    return "failed"


def _unusable(tx: Tx, channel: str, item: Unusable) -> What:
    outcome = hear.hear(tx, item.event, ())
    if outcome.status != "accepted":
        return outcome.status  # type: ignore[return-value]
    return _quarantine(tx, channel, outcome.event, item.why)


def _quarantine(tx: Tx, channel: str, event: int, why: str) -> What:
    tx.run("quarantine_add", event=event, channel=channel, why=why)
    return "quarantined"


def _set_default_title(tx: Tx, session: int, title: str) -> None:
    """Use the room's name as the session's title unless it already has one."""
    row = tx.one("session_by_id", id=session) if title else None
    if row is not None and row.title is None:
        tx.run("session_set_title", id=session, title=title)
        entries.touch_session(tx, session)


# ---------------------------------------------------------------- received files


def keep(tx: Tx, id: str, size: int, name: str, mime: str) -> None:
    """Record a received file. No entry holds it until its message is accepted."""
    tx.run("blob_keep", id=id, size=size, name=name, mime=mime, at=tx.now)


def let_go(tx: Tx, blobs: Sequence[str]) -> None:
    """Release files whose message was not accepted; those that no entry holds may be deleted."""
    for blob in blobs:
        tx.run("blob_settle", id=blob)
        tx.run("blob_let_go", id=blob)


def release_unclaimed_files(tx: Tx) -> int:
    """At start-up, release files whose message was never accepted; return their number."""
    rows = [str(row.id) for row in tx.all("blobs_kept")]
    let_go(tx, rows)
    return len(rows)


# ---------------------------------------------------------------- what could not be used


def quarantined(tx: Tx, limit: int, before: int | None = None) -> list[Json]:
    """Quarantined events, newest first: {"event", "channel", "why", "at", "kind", "key", "sender"?, "raw", "repeats"?}.

    `raw` is the input as text, or base64 with "encoding": "base64".
    """
    rows = tx.all("quarantine_list", before=1 << 62 if before is None else before, limit=limit)
    return [_told(row) for row in rows]


def _told(row: Any) -> Json:
    payload = entries.load(row.payload)
    out: Json = {"event": row.event, "channel": row.channel, "why": row.why, "at": row.at, "kind": row.kind}
    out |= {"key": row.key, "raw": payload.get("text", "")}
    for name in ("encoding", "cut", "data"):
        if payload.get(name):
            out[name] = payload[name]
    if row.sender:
        out["sender"] = row.sender
    if row.repeats:
        out["repeats"] = row.repeats
    return out
