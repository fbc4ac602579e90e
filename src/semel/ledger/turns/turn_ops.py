"""The operations that write a running turn's output, as data; `semel.ledger.turns.show` applies them.

The gateway translates what an agent streams into these operations (docs/decisions/stream-operations.md). Most name a
slot, the gateway's own number for a block or an item; `Slots` maps slots to rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from semel.ledger.delivery import claims
from semel.ledger.delivery.cutting import Leg
from semel.ledger.turns import permission_requests


@dataclass(frozen=True)
class Preview:
    """Text to append to the preview of the block in `slot`. The first one of a slot creates the preview's entry."""

    slot: int
    text: str


@dataclass(frozen=True)
class Replace:
    """Replace the text of a live preview, because a re-delivery was recognised."""

    slot: int
    text: str


@dataclass(frozen=True)
class Block:
    """The end of a block, with the claims that it makes. The first claim to home takes over the slot's preview.

    `partial`: the turn ended before the block did. `tell`: if it is partial, the next prompt tells the agent of it.
    `follows`: the slot of the first text or file that the same block said at home, if this is a later one.
    """

    slot: int
    requests: tuple[claims.ClaimRequest, ...]
    partial: bool = False
    tell: bool = True
    follows: int | None = None


@dataclass(frozen=True)
class Supersede:
    """The block in `slot` was said again in full by a later attempt of the agent's own model call."""

    slot: int


@dataclass(frozen=True)
class Announcement:
    """The text of the notice about a request, and the parts in which it is sent to the session's home."""

    text: str
    legs: tuple[Leg, ...]


@dataclass(frozen=True)
class ItemOpen:
    slot: int
    kind: str
    name: str | None = None
    text: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    live: bool = True
    started: bool = False  # it is a tool call that has started, which counts for Law 9
    announcement: Announcement | None = None  # the notice about a request that is also announced at home


@dataclass(frozen=True)
class ItemGrow:
    """Append `text` to what the item shows, and `output` to the stored whole of a tool's output."""

    slot: int
    text: str = ""
    output: str = ""


@dataclass(frozen=True)
class ItemSet:
    slot: int
    body: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    live: bool | None = None
    output: str | None = None  # a snapshot: the stored whole is replaced


@dataclass(frozen=True)
class Notice:
    text: str
    kind: str
    tell: bool = False


@dataclass(frozen=True)
class Title:
    text: str


@dataclass(frozen=True)
class About:
    """What the agent offers in this session; to be merged into what is stored."""

    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Reserve:
    """Place a placeholder at home for text that streams. `leg`: the leg that would send the text so far.

    `text`: returns the text that is previewed so far.
    """

    leg: Leg
    text: Callable[[], str] | None = None


@dataclass(frozen=True)
class Leave:
    """Send what was said in `slot` in these parts, unless it was sent. For a chat that gets only closing texts."""

    slot: int
    legs: tuple[Leg, ...]


@dataclass(frozen=True)
class Complete:
    """A lost attempt's cut-off text was complete, as its agent's history shows: send it in these parts."""

    claim: int
    legs: tuple[Leg, ...]


Op = (
    Leave | Complete | Reserve | About | Preview | Replace | Block | Supersede
    | ItemOpen | ItemGrow | ItemSet | Notice | Title
)  # fmt: skip


@dataclass(frozen=True)
class Slots:
    """The rows of a running turn's slots: the seq of each entry, the id of each item and claim.

    Each transaction returns an updated copy.
    """

    entries: Mapping[int, int] = field(default_factory=dict)
    items: Mapping[int, int] = field(default_factory=dict)
    claims: Mapping[int, int] = field(default_factory=dict)  # by slot: the claim that said its text at home
    said_count: int = 0
    reserved: int | None = None  # the last Reserve's placeholder (a part); None if it cannot be filled
    expired: frozenset[int] = frozenset()  # permission requests that nobody had answered when their deadline passed
    attached: int | None = None  # seq of the last notice of kind `show.ATTACHED_KIND`


def may_announce(op: Op) -> bool:
    """Return whether an operation may send a notice to the session's home."""
    if isinstance(op, ItemOpen):
        return op.announcement is not None
    if isinstance(op, Leave | Notice):
        return True
    return isinstance(op, ItemSet) and is_over(op)


def is_over(op: ItemSet) -> bool:
    return op.body.get("state") in permission_requests.OVER_STATES
