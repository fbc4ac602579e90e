"""Placeholders: messages that are sent before their text is known, and get the text by an edit (Laws 6, 7).

A placeholder is a quiet claim with one part, which posts TEXT. It is open until it is filled or withdrawn. A text of
the same root fills it: the first part of that text is an edit of the placeholder. A placeholder is withdrawn if its
turn ends without a text, or if something else is said in that chat: a text in the placeholder would then stand above a
message that is older in the record. If a withdrawn placeholder may have been sent, a second part deletes it. A
placeholder says nothing, so its failure causes no notice (docs/outbox.md).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from semel.law.delivery import IN_LINE
from semel.law.delivery import State as PartState
from semel.ledger.delivery import part_transitions, parts
from semel.ledger.delivery.part_transitions import PartMove
from semel.ledger.storage.rows import AddedClaim, OutgoingPart, Row
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries

TEXT = "…"
RESERVED, FILLED, WITHDRAWN = "reserved", "filled", "withdrawn"  # the reason of the quiet claim
REASONS = frozenset({RESERVED, FILLED, WITHDRAWN})

Op = Mapping[str, Any]


class OpenPlaceholder(Row):
    """An open placeholder.

    `id`: its claim. `part`: the id of its part; `state`, `receipt` and `sent_rev` are columns of that part.
    """

    id: int
    session: int
    root: int | None
    part: int
    state: PartState
    receipt: str | None
    sent_rev: int | None


class PlaceholderReceipt(Row):
    """The message of an open placeholder on its platform.

    `receipt`: the platform's message id; None if it is not known yet.
    """

    receipt: str | None
    session_key: str


def ensure_placeholder(tx: Tx, session: int, turn: int | None, root: int | None, dest: str, op: Op) -> int | None:
    """Return the id of the part that posts the root's open placeholder at `dest`.

    Add a placeholder if there is none. `op`: the operation that would post the text; the placeholder is posted in the
    same way. Return None if the open placeholder did not arrive: it cannot be edited, so the text must be sent as a
    message of its own.
    """
    placeholder = _find_open(tx, session, root, dest)
    if placeholder is None:
        return _add_placeholder(tx, session, turn, root, dest, op)
    return placeholder.part if _may_have_arrived(placeholder) else None


def fill_placeholder(tx: Tx, session: int, turn: int | None, root: int | None, dest: str, op: Op) -> dict[str, Any]:
    """Close the root's placeholder at `dest`, and return the operation for the first part of the text.

    If the placeholder may have arrived, it is filled, and the operation is an edit of it. Otherwise it is withdrawn,
    and the operation is `op`, which posts the text.
    """
    part = ensure_placeholder(tx, session, turn, root, dest, op)
    placeholder = _find_open(tx, session, root, dest)
    assert placeholder is not None
    if part is None:
        tx.run("claim_because", id=placeholder.id, reason=WITHDRAWN)
        return dict(op)
    tx.run("claim_because", id=placeholder.id, reason=FILLED)
    return {**op, "kind": "edit", "fill": True, "target_part": part}


def withdraw_at(tx: Tx, dest: str) -> None:
    """Withdraw the placeholders at a destination, because something else is now said there.

    A text that filled such a placeholder later would stand above the newer message.
    """
    for placeholder in tx.all(OpenPlaceholder, "reserved_at", dest=dest):
        _withdraw(tx, placeholder)


def withdraw_of_root(tx: Tx, root: int) -> None:
    """Withdraw the open placeholders of a root, because its turn is over."""
    for placeholder in tx.all(OpenPlaceholder, "reserved_for", root=root):
        _withdraw(tx, placeholder)


def delete_unfillable(tx: Tx, part: int) -> None:
    """Delete the sent placeholder that this part posted, because it cannot be filled.

    The text is sent as another message.
    """
    row = parts.get(tx, part)
    if row.state == "sent" and row.n == 0 and not tx.exists("part_second", claim=row.claim):
        _delete(tx, row.claim, row)
        tx.run("claim_because", id=row.claim, reason=WITHDRAWN)


def delete_message(tx: Tx, row: OutgoingPart, message: str) -> None:
    """Delete the message that reserved the place of a part, because the part's text does not fill it.

    `message`: the platform's id of the message (`semel.ledger.delivery.reservations`).
    """
    claim = _add_claim(tx, row.session, None, None, row.dest, WITHDRAWN)
    address = row.dest.partition(":")[2]
    op = {"kind": "delete", "session": row.session_key, "address": address, "text": "", "target": message}
    _add_part(tx, claim, 0, row.dest, op)


def find_message(tx: Tx, part: int) -> PlaceholderReceipt | None:
    """Return the message of an open placeholder on its platform. `part`: the part that posts the placeholder.

    Return None if the message cannot have arrived, or if the placeholder is no longer open.
    """
    return tx.one(PlaceholderReceipt, "reserved_message", part=part)


def _find_open(tx: Tx, session: int, root: int | None, dest: str) -> OpenPlaceholder | None:
    """Return the root's open placeholder at `dest`, or None.

    Withdraw placeholders of the session's other roots there.
    """
    own_placeholder = None
    for placeholder in tx.all(OpenPlaceholder, "reserved_at", dest=dest):
        if placeholder.session == session and placeholder.root == root:
            own_placeholder = placeholder
        elif placeholder.session == session:
            _withdraw(tx, placeholder)
    return own_placeholder


def _may_have_arrived(placeholder: OpenPlaceholder | OutgoingPart) -> bool:
    """Return whether the placeholder's message has arrived or may still arrive."""
    return placeholder.state in IN_LINE or (placeholder.state == "sent" and placeholder.receipt is not None)


def _add_placeholder(tx: Tx, session: int, turn: int | None, root: int | None, dest: str, op: Op) -> int:
    claim = _add_claim(tx, session, turn, root, dest, RESERVED)
    return _add_part(tx, claim, 0, dest, {**op, "kind": "post", "text": TEXT})


def _add_claim(tx: Tx, session: int, turn: int | None, root: int | None, dest: str, reason: str) -> int:
    return tx.get(
        AddedClaim, "claim_add", session=session, turn=turn, root=root, how="block", kind="text", late=0, spawn=None,
        conn=None, call=None, tool=None, args=None, dest=dest, digest=None, text="", outcome="quiet", reason=reason,
        echo_of=None, seq=None, at=tx.now,
    ).id  # fmt: skip


def _withdraw(tx: Tx, placeholder: OpenPlaceholder) -> None:
    tx.run("claim_because", id=placeholder.id, reason=WITHDRAWN)
    row = parts.get(tx, placeholder.part)
    if row.state == "queued":  # no attempt can have arrived
        move = PartMove.of(row)
        move.withdraw("it was withdrawn before it left")
        part_transitions.write_move(tx, move)
    elif _may_have_arrived(row):
        _delete(tx, placeholder.id, row)


def _delete(tx: Tx, claim: int, row: OutgoingPart) -> None:
    address = row.dest.partition(":")[2]
    op = {"kind": "delete", "session": row.session_key, "address": address, "text": "", "target_part": row.id}
    _add_part(tx, claim, 1, row.dest, op)


def _add_part(tx: Tx, claim: int, n: int, dest: str, op: Op) -> int:
    return tx.number(
        "part_add", line=parts.take_place(tx, dest), claim=claim, n=n, lo=0, hi=0, channel=dest.partition(":")[0],
        dest=dest, key=secrets.token_hex(12), op=entries.dump(op), at=tx.now,
    )  # fmt: skip
