"""A block of the agent's text while it streams in, and its parts (Laws 5, 6).

`block_claims.BlockClaims` fills blocks and claims their parts. A slot is the number by which operations refer to a
block or a part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from semel.ledger.delivery.claims import ClaimRequest
from semel.text.message_markup import MarkupReader
from semel.text.verbatim import EchoHold

PART_SLOT_STEP = 1 << 32
"""The distance between the slots of a block's parts; the numbers that the fold gives to blocks stay far below it."""


@dataclass
class HomePart:
    """A part of a block that goes home.

    `hold`: withholds its preview while it may be an echo. `leaves_at_once`: it is sent without waiting for the closing
    text, because it is addressed. `waiting`: text that is not previewed yet. `previewed`: the previewed pieces of text.
    """

    slot: int
    hold: EchoHold
    leaves_at_once: bool = False
    texts: list[str] = field(default_factory=list)
    is_shown: bool = False
    waiting: str = ""
    previewed: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts)


@dataclass(frozen=True)
class SpokenPart:
    """A text or a file that a block said at home."""

    slot: int
    text: str = ""
    file: Mapping[str, Any] | None = None


@dataclass
class StreamedBlock:
    """A block while it streams in. `one_message`: it has a message id, by which later text may continue it."""

    slot: int
    reader: MarkupReader
    one_message: bool = False
    parts: list[HomePart | ClaimRequest] = field(default_factory=list)  # parts not claimed yet
    stretch: HomePart | None = None  # the open stretch of bare text
    slot_count: int = 0  # how many slots its parts have
    fed_texts: list[str] = field(default_factory=list)
    claimed_chars: int = 0  # number of characters already claimed
    handed_files: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)  # files: (offset in the text, file)
    home_files: list[Mapping[str, Any]] = field(default_factory=list)  # the handed-over files that were said at home
    spoken: list[SpokenPart] = field(
        default_factory=list
    )  # the parts that it said at home, which are delivered together
    previewed: list[str] = field(default_factory=list)
    superseded_by: int | None = None  # the slot of the later block that repeats all of it

    @property
    def is_shown(self) -> bool:
        return any(part.is_shown for part in self.at_home())

    def at_home(self) -> list[HomePart]:
        return [part for part in self.parts if isinstance(part, HomePart)]

    def next_slot(self) -> int:
        """Take a new slot for the next part, and return it. The first part has the block's own slot."""
        self.slot_count += 1
        return self.slot + (self.slot_count - 1) * PART_SLOT_STEP
