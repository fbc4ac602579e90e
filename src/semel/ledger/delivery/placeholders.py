"""Placeholders: a message that is sent before its text is known, and becomes the text by an edit (Laws 6, 7).

A placeholder is a quiet claim with one part, which posts TEXT. It is open until a text of its root fills it (the text's
first part is an edit of it) or it is withdrawn: its turn ended without a text, or something else is said there and
would stand below it. A withdrawn placeholder that may have left is removed by a second part. A placeholder says
nothing, so there is no notice when one fails (docs/outbox.md).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from semel.law.delivery import IN_LINE
from semel.ledger.delivery import part_transitions, parts
from semel.ledger.delivery.part_transitions import Move
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries

TEXT = "…"
RESERVED, FILLED, WITHDRAWN = "reserved", "filled", "withdrawn"  # the reason of the quiet claim
REASONS = frozenset({RESERVED, FILLED, WITHDRAWN})

Op = Mapping[str, Any]


def place(tx: Tx, session: int, turn: int | None, root: int | None, dest: str, op: Op) -> int | None:
    """The part of the root's placeholder at a destination, created if it has none yet.

    `op` is the operation by which its text would leave. None: the placeholder never arrived, so the text leaves as a
    post.
    """
    found = _own(tx, session, root, dest)
    if found is None:
        return _add(tx, session, turn, root, dest, op)
    return int(found.part) if _may_have_arrived(found) else None


def fill(tx: Tx, session: int, turn: int | None, root: int | None, dest: str, op: Op) -> dict[str, Any]:
    """The operation for the first part of a text: an edit of its placeholder, or a post if that never arrived."""
    part = place(tx, session, turn, root, dest, op)
    found = _own(tx, session, root, dest)
    assert found is not None
    if part is None:
        tx.run("claim_because", id=found.id, reason=WITHDRAWN)
        return dict(op)
    tx.run("claim_because", id=found.id, reason=FILLED)
    return {**op, "kind": "edit", "fill": True, "target_part": part}


def make_way(tx: Tx, dest: str) -> None:
    """Withdraw the placeholders at a destination where something is said now: they would be filled later, above it."""
    for found in tx.all("reserved_at", dest=dest):
        _withdraw(tx, found)


def withdraw_of_root(tx: Tx, root: int) -> None:
    """Withdraw the placeholders of a turn that is over and filled none of them."""
    for found in tx.all("reserved_for", root=root):
        _withdraw(tx, found)


def remove(tx: Tx, part: int) -> None:
    """Delete a placeholder that cannot be filled. Its text is sent as another message."""
    row = parts.get(tx, part)
    if row.state == "sent" and row.n == 0 and tx.value("part_second", claim=row.claim) is None:
        _delete(tx, row.claim, row)
        tx.run("claim_because", id=row.claim, reason=WITHDRAWN)


def message(tx: Tx, part: int) -> Row | None:
    """An open placeholder that may have arrived: its `receipt`, once it is known, and its `session_key`."""
    return tx.one("reserved_message", part=part)


def _own(tx: Tx, session: int, root: int | None, dest: str) -> Row | None:
    """The open placeholder of this root. Those that earlier roots of the session left open there are withdrawn."""
    own = None
    for found in tx.all("reserved_at", dest=dest):
        if found.session == session and found.root == root:
            own = found
        elif found.session == session:
            _withdraw(tx, found)
    return own


def _may_have_arrived(found: Row) -> bool:
    """Whether the placeholder has arrived or still may."""
    return found.state in IN_LINE or (found.state == "sent" and found.receipt is not None)


def _add(tx: Tx, session: int, turn: int | None, root: int | None, dest: str, op: Op) -> int:
    claim = tx.value(
        "claim_add", session=session, turn=turn, root=root, how="block", kind="text", late=0, spawn=None, conn=None,
        call=None, tool=None, args=None, dest=dest, digest=None, text="", outcome="quiet", reason=RESERVED,
        echo_of=None, seq=None, at=tx.now,
    )  # fmt: skip
    return _part(tx, int(claim), 0, dest, {**op, "kind": "post", "text": TEXT})


def _withdraw(tx: Tx, found: Row) -> None:
    tx.run("claim_because", id=found.id, reason=WITHDRAWN)
    row = parts.get(tx, found.part)
    if row.state == "queued":  # no attempt that was made can have arrived
        move = Move.of(row)
        move.withdraw("it was withdrawn before it left")
        part_transitions.write(tx, move)
    elif _may_have_arrived(row):
        _delete(tx, found.id, row)


def _delete(tx: Tx, claim: int, row: Row) -> None:
    address = row.dest.partition(":")[2]
    op = {"kind": "delete", "session": row.session_key, "address": address, "text": "", "target_part": row.id}
    _part(tx, claim, 1, row.dest, op)


def _part(tx: Tx, claim: int, n: int, dest: str, op: Op) -> int:
    return int(
        tx.value(
            "part_add", claim=claim, n=n, lo=0, hi=0, channel=dest.partition(":")[0], dest=dest,
            key=secrets.token_hex(12), op=entries.dump(op), at=tx.now,
        )
    )  # fmt: skip
