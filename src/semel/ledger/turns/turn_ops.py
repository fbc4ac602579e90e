"""The operations that record a running turn's output, as data. `semel.ledger.turns.show` applies them.

The gateway translates an agent's stream into these operations (docs/decisions/stream-operations.md). Most of them name
a slot, which is the gateway's own number for a block or an item. `Slots` maps slots to rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from semel.ledger.delivery import claims
from semel.ledger.delivery.cutting import Leg
from semel.ledger.turns import permission_requests


class Preview(Struct, frozen=True):
    """Append `text` to the preview of the block in `slot`. The first such operation creates the preview's entry."""

    slot: int
    text: str


class Replace(Struct, frozen=True):
    """Replace the text of a live preview, because the agent's text turned out to be a re-delivery."""

    slot: int
    text: str


class Block(Struct, frozen=True):
    """End the block in `slot`, and make its claims. The first claim to home takes over the preview's entry.

    `partial`: the turn ended before the block did. `tell`: the next prompt tells the agent about a partial block.
    `follows`: the slot of the first text or file that the same agent block said at home, if this is a later piece of
    it.
    """

    slot: int
    requests: tuple[claims.ClaimRequest, ...]
    partial: bool = False
    tell: bool = True
    follows: int | None = None


class Supersede(Struct, frozen=True):
    """Mark the block in `slot` as superseded: a later attempt of the agent's own model call said it again in full.

    `by`: the slot of the block that did, whose entry may not exist yet.
    """

    slot: int
    by: int


class Announcement(Struct, frozen=True):
    """The notice about a request: its text, and the parts in which it is sent to the session's home."""

    text: str
    legs: tuple[Leg, ...]


class ItemOpen(Struct, frozen=True):
    slot: int
    kind: str
    name: str | None = None
    text: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    live: bool = True
    started: bool = False  # it is a tool call that has started, which counts for Law 9
    announcement: Announcement | None = None  # the notice about a request that is also announced at home
    lifetime_ms: int | None = None  # of a request that expires: how long it stays open


class ItemGrow(Struct, frozen=True):
    """Append `text` to the shown text of an item, and `output` to the stored complete output of a tool."""

    slot: int
    text: str = ""
    output: str = ""


class ItemSet(Struct, frozen=True):
    slot: int
    body: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    live: bool | None = None
    output: str | None = None  # a snapshot: the stored whole is replaced


class Notice(Struct, frozen=True):
    text: str
    kind: str
    tell: bool = False


class Title(Struct, frozen=True):
    text: str


class About(Struct, frozen=True):
    """Update the session's record of what its agent offers (`entries.set_about`)."""

    fields: Mapping[str, Any]


class Reserve(Struct, frozen=True):
    """Send a placeholder to the home, because a text for the home has begun to stream.

    `leg`: the part that would send the text so far; the placeholder is sent in the same way. `text`: a function that
    returns the text previewed so far.
    """

    leg: Leg
    text: Callable[[], str] | None = None


class Leave(Struct, frozen=True):
    """Send the text that was said in `slot` as these parts, unless it has been sent already.

    Only a chat that gets nothing but closing texts needs this operation.
    """

    slot: int
    legs: tuple[Leg, ...]


class Complete(Struct, frozen=True):
    """Send a lost attempt's text as these parts.

    It seemed cut off, but the agent's history shows that it was complete.
    """

    claim: int
    legs: tuple[Leg, ...]


Op = (
    Leave | Complete | Reserve | About | Preview | Replace | Block | Supersede
    | ItemOpen | ItemGrow | ItemSet | Notice | Title
)  # fmt: skip


class Slots(Struct, frozen=True):
    """The rows of a running turn's slots: the seq of each entry, and the id of each item and claim.

    Each transaction returns an updated copy.
    """

    entries: Mapping[int, int] = field(default_factory=dict)
    items: Mapping[int, int] = field(default_factory=dict)
    claims: Mapping[int, int] = field(default_factory=dict)  # by slot: the claim that said its text at home
    said_count: int = 0
    reserved: int | None = None  # the last Reserve's placeholder (a part); None if it cannot be filled
    expired: frozenset[int] = frozenset()  # permission requests that nobody had answered when their deadline passed
    attached: int | None = None  # seq of the last notice of kind `show.ATTACHED_KIND`
    superseding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By slot of a block that has no entry yet: the seqs of the entries that it supersedes."""


def may_announce(op: Op) -> bool:
    """Return whether an operation may send something to the session's home while the turn goes on."""
    if isinstance(op, ItemOpen):
        return op.announcement is not None
    if isinstance(op, Leave | Notice):
        return True
    return is_over(op)


def is_over(op: Op) -> bool:
    """Return whether an operation ends a permission request that nobody can answer any more."""
    return isinstance(op, ItemSet) and op.body.get("state") in permission_requests.OVER_STATES
