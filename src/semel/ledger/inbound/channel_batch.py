"""Record a batch of channel events together with the cursor that follows it, in one transaction (Law 1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from semel.law.identity import QUESTION_PRESS_PREFIX
from semel.law.permission_questions import MAX_NAME_CHARS, MAX_OPTION_CHARS
from semel.ledger import people
from semel.ledger.delivery import claims, parts, send_queue
from semel.ledger.delivery.claims import Caller, ClaimRequest
from semel.ledger.delivery.cutting import cut, single_part
from semel.ledger.inbound import delivery_reports, hear
from semel.ledger.storage.rows import EventRow, Row, SessionRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries, part_requests
from semel.text.json_types import Json
from semel.text.visible import squeeze_to_line
from semel.text.wellformed import shorten

MISSING_FILE_REASON = "it was not there any more"
LATE_PRESS_REASON = "it was answered already"
"""The reason of the claim that tells somebody who pressed a button too late."""


class QuarantinedEvent(Row):
    """An event in quarantine: Semel could not read or apply it.

    `why`: the reason, for people. `payload`: the raw input.
    """

    event: int
    channel: str
    why: str
    key: str | None
    kind: str
    sender: str | None
    payload: str | None
    at: int
    repeats: int


@dataclass(frozen=True)
class MessageItem:
    """A message or another act of a person on the channel, addressed to one session.

    `files`: the ids of its stored files.
    """

    event: hear.Event
    addressee: hear.Addressee
    address: str
    account: str  # the person's account on the channel
    is_direct: bool
    title: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class OwnMessageReport:
    """A platform's report of a message that Semel sent.

    `key`: the idempotency key of the message's part. `id`: the platform's message id.
    """

    key: str
    id: str


@dataclass(frozen=True)
class DeliveryFailureReport:
    """A platform's report that a message of Semel failed after the platform had accepted it.

    `receipt_or_key`: the receipt or the idempotency key of the message's part. The text of `event` says why it failed.
    """

    event: hear.Event
    receipt_or_key: str


@dataclass(frozen=True)
class UnreadableInput:
    """Input that the channel could not read. It is kept raw in quarantine."""

    event: hear.Event
    why: str


Item = MessageItem | OwnMessageReport | DeliveryFailureReport | UnreadableInput
ItemStatus = Literal["accepted", "duplicate", "conflict", "quarantined", "echo", "failed"]


@dataclass(frozen=True)
class ItemResult:
    """The result of one item of a batch. `addressed`: the effect of an accepted message on its session.

    `is_to_send`: recording it left something in the outbox.
    """

    status: ItemStatus
    addressed: hear.Addressed | None = None
    is_to_send: bool = False


@dataclass(frozen=True)
class _Answer:
    """How a question was answered, and by whom. `event`: the event that answered, if a message or a press did."""

    text: str
    by: str
    event: int | None


def record_batch(
    tx: Tx, channel: str, source: str, items: Sequence[Item], cursor: str | None, unused_blobs: Sequence[str] = (),
    channels: Collection[str] = (), start: hear.IdleStart | None = None,
) -> list[ItemResult]:  # fmt: skip
    """Record all items of a batch and the cursor that follows the batch. Return one result for each item.

    `unused_blobs`: the stored files of refused messages; they are released. `channels`: the channels that can send a
    notice about a failed message. `start`: see `hear.hear`. A batch of several items begins no turn, because one turn
    is to take all its messages.
    """
    if len(items) > 1:
        start = None
    results = [_record_item(tx, channel, source, item, channels, start) for item in items]
    release_files(tx, unused_blobs)
    if cursor is not None:
        tx.run("cursor_set", source=source, value=cursor, at=tx.now)
    return results


def _record_item(
    tx: Tx, channel: str, source: str, item: Item, channels: Collection[str], start: hear.IdleStart | None
) -> ItemResult:
    if isinstance(item, OwnMessageReport):
        send_queue.settle_reported_part(tx, channel, item.key, item.id)
        return ItemResult("echo", is_to_send=True)
    if isinstance(item, DeliveryFailureReport):
        status = _record_failure(tx, channel, item, channels)
        return ItemResult(status, is_to_send=status == "failed")
    if isinstance(item, UnreadableInput):
        return ItemResult(_record_unusable(tx, channel, item))
    event = replace(_with_files(tx, source, item), title=item.title)
    outcome = hear.hear(tx, event, [item.addressee], start=start)
    is_notified = str(event.key).startswith(QUESTION_PRESS_PREFIX) and _notify_late_press(tx, channel, item, outcome)
    if outcome.status != "accepted":
        release_files(tx, item.files)
        return ItemResult(outcome.status, is_to_send=is_notified)  # type: ignore[arg-type]
    people.remember_place(tx, channel, item.address, item.account, item.is_direct)
    addressed = outcome.addressed[0]
    return ItemResult("accepted", addressed, is_to_send=is_notified or addressed.is_hinted)


def _notify_late_press(tx: Tx, channel: str, item: MessageItem, outcome: hear.HeardOutcome) -> bool:
    """Tell somebody who pressed too late how the question was answered, and by whom. Return whether they are notified.

    A press that answers the question gets no notice. A press that a platform reports again gets one notice.
    """
    session = tx.one(SessionRow, "session_by_key", key=item.addressee.key)
    if session is None or session.deleted is not None or outcome.status == "duplicate":
        return False
    answer = _find_answer(tx, channel, session, str(item.event.key).removeprefix(QUESTION_PRESS_PREFIX))
    if outcome.status == "conflict":
        if not tx.exists("conflict_is_new", event=outcome.event, digest=item.event.digest):
            return False
        answer = answer or _read_first_press(tx, outcome.event)
    elif answer is None or answer.event == outcome.event:
        return False
    words = shorten(squeeze_to_line(answer.text), MAX_OPTION_CHARS)
    name = shorten(squeeze_to_line(answer.by), MAX_NAME_CHARS)
    text = f"That question is answered already{f': {words}' if words else ''}{f', by {name}' if name else ''}."
    if outcome.status == "accepted":
        text += " The agent gets the later answer as a message."
    dest = f"{channel}:{item.address}"
    legs = cut(tx, dest, session.key, text) or single_part(dest, session.key, text)
    caller = Caller(session.id, session.key, None, None)
    claims.queue_notice(tx, caller, ClaimRequest("notice", text, dest, legs=legs), LATE_PRESS_REASON, tell_there=False)
    return True


def _find_answer(tx: Tx, channel: str, session: SessionRow, receipt: str) -> _Answer | None:
    """Return the answer to the question that a message of the session asks; None if it is open or not recorded.

    `receipt`: the platform's id of the message.
    """
    part_id = tx.value(int, "part_of_receipt", receipt=receipt, channel=channel)
    if part_id is None:
        return None
    part = parts.get(tx, part_id)
    edited_part_id = entries.load(part.op).get("target_part")  # an edit may have the receipt of what it edits
    if edited_part_id is not None:
        part = parts.get(tx, edited_part_id)
    question = part_requests.find_request(tx, part.claim)
    if question is None or question.session != session.id or question.born <= session.erased_rev:
        return None
    body = entries.load(question.body)
    if body.get("state") != "answered":
        return None
    return _Answer(str(body.get("answer") or ""), str(body.get("by") or ""), body.get("event"))


def _read_first_press(tx: Tx, event: int) -> _Answer:
    row = tx.get(EventRow, "event_get", id=event)
    return _Answer(str(entries.load(row.payload).get("text") or ""), row.sender or "", event)


def _with_files(tx: Tx, source: str, item: MessageItem) -> hear.Event:
    """Keep the files of a new message, and return the message's event.

    Files that are gone are listed in it as missing.
    """
    if not item.files or tx.exists("event_known", source=source, key=item.event.key):
        return item.event
    missing_blobs = {blob for blob in sorted(set(item.files)) if not tx.count_changed("blob_heard", id=blob)}
    if not missing_blobs:
        return item.event
    more = dict(item.event.more or {})
    more["files"] = [_missing_file(file) if file.get("id") in missing_blobs else file for file in more["files"]]
    return replace(item.event, more=more)


def _missing_file(file: Mapping[str, Any]) -> Json:
    return {"name": file["name"], "mime": file["mime"], "missing": MISSING_FILE_REASON}


def _record_failure(tx: Tx, channel: str, item: DeliveryFailureReport, channels: Collection[str]) -> ItemStatus:
    outcome = hear.hear(tx, item.event, ())
    if outcome.status != "accepted":
        return outcome.status  # type: ignore[return-value]
    part = delivery_reports.find_part(tx, channel, item.receipt_or_key)
    if isinstance(part, str):
        return _quarantine(tx, channel, outcome.event, part)
    delivery_reports.mark_failed(tx, part, outcome.event, item.receipt_or_key, item.event.text, channels)
    return "failed"


def _record_unusable(tx: Tx, channel: str, item: UnreadableInput) -> ItemStatus:
    outcome = hear.hear(tx, item.event, ())
    if outcome.status != "accepted":
        return outcome.status  # type: ignore[return-value]
    return _quarantine(tx, channel, outcome.event, item.why)


def _quarantine(tx: Tx, channel: str, event: int, reason: str) -> ItemStatus:
    tx.run("quarantine_add", event=event, channel=channel, why=reason)
    return "quarantined"


# ---------------------------------------------------------------- received files


def record_file(tx: Tx, id: str, size: int, name: str, mime: str) -> None:
    """Record a received file. No entry refers to the file until its message is accepted."""
    tx.run("blob_keep", id=id, size=size, name=name, mime=mime, at=tx.now)


def release_files(tx: Tx, blobs: Sequence[str]) -> None:
    """Release files whose message was not accepted. A released file may be deleted if no entry refers to it."""
    for blob in sorted(set(blobs)):
        tx.run("blob_settle", id=blob)
    entries.let_go_of_files(tx, blobs)


def release_copied_file(tx: Tx, id: str, size: int, name: str, mime: str) -> None:
    """Release a file that was copied into the store for a claim that was not said."""
    record_file(tx, id, size, name, mime)
    release_files(tx, (id,))


def release_unclaimed_files(tx: Tx, min_age_ms: int = 0) -> int:
    """Release files whose message was never accepted; return their number. Call this at start-up.

    `min_age_ms`: leave younger ones alone, because another gateway may be receiving their message.
    """
    blobs = tx.values(str, "blobs_kept", before=tx.now - min_age_ms)
    release_files(tx, blobs)
    return len(blobs)


# ---------------------------------------------------------------- quarantine


def list_quarantined(tx: Tx, limit: int, before: int | None = None) -> list[Json]:
    """Return a page of quarantined events, newest first. `before`: only events with a lower id.

    Each is {"event", "channel", "why", "at" (ms), "kind", "key", "raw"}; "sender" and "repeats" are optional. "raw" is
    the input as text, or as base64 if "encoding" is "base64". If only the beginning of the input was kept, "cut" is the
    length of the whole in bytes.
    """
    rows = tx.all(QuarantinedEvent, "quarantine_list", before=1 << 62 if before is None else before, limit=limit)
    return [_quarantined_json(row) for row in rows]


def _quarantined_json(row: QuarantinedEvent) -> Json:
    payload = entries.load(row.payload)
    fields: Json = {"event": row.event, "channel": row.channel, "why": row.why, "at": row.at, "kind": row.kind}
    fields |= {"key": row.key, "raw": payload.get("text", "")}
    for name in ("encoding", "cut", "data"):
        if payload.get(name):
            fields[name] = payload[name]
    if row.sender:
        fields["sender"] = row.sender
    if row.repeats:
        fields["repeats"] = row.repeats
    return fields
