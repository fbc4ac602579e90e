"""Send a post in two steps: a placeholder reserves its place, and an edit fills the place with the text (Law 7).

This makes posts reliable on a platform that neither folds repeats nor tells what it has (`semel.law.delivery`). The
operation of a part records the step, so that it is durable before the first byte leaves:

| `reserved` in `part.op` | step |
|---|---|
| missing | the post is sent as it is |
| null | its place is being reserved: a placeholder leaves, not the text |
| the platform's id of the placeholder | the place is reserved: an edit of the placeholder leaves, with the text |

`plain` in the operation: the place could not be filled, so the post is sent as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.law import delivery as law
from semel.ledger.delivery import placeholders
from semel.ledger.storage.rows import OutgoingPart
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries

Op = Mapping[str, Any]


def is_open(op: Op) -> bool:
    """Return whether the part's place is being reserved: the text has provably not left."""
    return "reserved" in op and op["reserved"] is None


def is_two_step(op: Op) -> bool:
    """Return whether the part is sent in two steps, and its place is reserved or being reserved."""
    return "reserved" in op


def find_reserved_message(op: Op) -> str | None:
    """Return the platform's id of the placeholder that the text fills; None if no place is reserved."""
    return op.get("reserved")


def begin(tx: Tx, row: OutgoingPart, rules: law.Rules) -> None:
    """Record that an attempt reserves the place of a post, if its channel sends posts in two steps.

    A part that may have arrived is never reserved: its text would be a second message. Nor is a placeholder of a
    streamed text, which says nothing.
    """
    op = entries.load(row.op)
    says_something = bool(str(op.get("text", "")).strip()) and row.outcome != "quiet"
    is_post = op.get("kind", "post") == "post" and says_something
    if rules.reserves and is_post and row.first is None and not {"reserved", "plain"} & op.keys():
        tx.run("part_op", id=row.id, op=entries.dump({**op, "reserved": None}))


def channel_operation(op: Op) -> dict[str, Any]:
    """Return the operation that leaves now, for a part with this operation."""
    fields = {name: value for name, value in op.items() if name not in ("reserved", "plain")}
    if is_open(op):
        return {name: value for name, value in fields.items() if name != "buttons"} | {"text": placeholders.TEXT}
    if (message := find_reserved_message(op)) is not None:
        return fields | {"kind": "edit", "target": message}
    return fields


def record_place(tx: Tx, row: OutgoingPart, message: str | None) -> None:
    """Record that the place of a part is reserved. `message`: the platform's id of the placeholder.

    If the id is None, the placeholder cannot be edited, and the text is sent as it is.
    """
    op = entries.load(row.op)
    if message is None:
        give_up_place(tx, row)
    else:
        tx.run("part_op", id=row.id, op=entries.dump({**op, "reserved": message}))


def settle_reported_placeholder(tx: Tx, row: OutgoingPart, message: str | None) -> bool:
    """Reserve the place of a part by a placeholder whose receipt was lost, because the platform reported the message.

    The report says nothing about the part's text. Return False if the place is not wanted: it is reserved, or an
    attempt to reserve it is under way, whose answer decides.
    """
    if message is None or row.state != "queued" or not is_open(entries.load(row.op)):
        return False
    record_place(tx, row, message)
    tx.run("part_wait", id=row.id, due=tx.now)
    return True


def give_up_place(tx: Tx, row: OutgoingPart) -> None:
    """Let the part leave as it is from now on. Its placeholder, if the platform has one, is deleted."""
    op = entries.load(row.op)
    delete_placeholder(tx, row)
    tx.run("part_op", id=row.id, op=entries.dump({**_without_place(op), "plain": True}))


def delete_placeholder(tx: Tx, row: OutgoingPart) -> None:
    """Delete the placeholder of a part whose text will not fill it; do nothing if no place is reserved."""
    message = find_reserved_message(entries.load(row.op))
    if message is not None:
        placeholders.delete_message(tx, row, message)


def forget(tx: Tx, row: OutgoingPart) -> None:
    """Let the part begin anew, because it is sent as another message, or because nobody knows what became of it."""
    op = entries.load(row.op)
    if "reserved" in op or "plain" in op:
        tx.run("part_op", id=row.id, op=entries.dump(_without_place(op)))


def _without_place(op: Op) -> dict[str, Any]:
    return {name: value for name, value in op.items() if name not in ("reserved", "plain")}
