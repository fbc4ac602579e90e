"""List the texts that a turn's attempts said, with the delivery state of each (Laws 5, 6, 9).

The prompt of an attempt that resumes states both for each text. A text that has not reached its person is sent when the
turn ends without another text. Semel's own notices are left out, because no agent said them (Law 4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from semel.law.echo import ClaimWay as ClaimHow
from semel.law.echo import Outcome
from semel.ledger.delivery.cutting import is_local
from semel.ledger.storage.rows import ClaimKind, Row
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries

DeliveryStatus = Literal["arrived", "in line", "unknown", "held", "failed", "unsent", "seen"]


class SaidClaim(Row):
    """A said claim, with the marks of its entry. `states`: the states of its parts, joined by commas.

    `failed`: a part was sent and failed later. `repeated`: as in `Utterance`. `previewed`: a preview in a placeholder
    showed it.
    """

    id: int
    turn: int | None
    how: ClaimHow
    kind: ClaimKind
    dest: str | None
    text: str
    seq: int | None
    partial: int | None
    superseded: int | None
    more: str | None
    states: str | None
    failed: int
    repeated: int | None
    previewed: int


class WrittenClaim(Row):
    """A claim whose text an agent wrote itself, not by a tool call."""

    id: int
    outcome: Outcome
    dest: str | None
    text: str
    partial: int | None


@dataclass(frozen=True)
class Utterance:
    """A said claim of an agent.

    - `home`: it was said at its session's home.
    - `cut`: its attempt ended before the text did.
    - `superseded`: a later attempt said it again in full.
    - `fate`: its delivery state. "arrived": it arrived, or its destination needs no sending (page, terminal).
      "unsent": no part was made, and only a page showed it. "seen": no part was made, but a preview showed it.
    - `files`: the names of its files; `file_ids`: their ids in the store, or their addresses.
    - `repeated`: the last claim in which the agent's own text repeated it. Only the first attempt that does so counts,
      because later attempts say everything again.
    """

    claim: int
    seq: int | None
    turn: int | None
    how: str
    kind: str
    dest: str | None
    text: str
    home: bool
    fate: DeliveryStatus
    cut: bool = False
    superseded: bool = False
    files: tuple[str, ...] = ()
    file_ids: tuple[str, ...] = ()
    repeated: int | None = None

    @property
    def is_text(self) -> bool:
        """Whether the agent wrote the utterance as text at home, instead of sending it by a tool."""
        return self.home and self.kind == "text" and self.how != "tool" and bool(self.text.strip())

    @property
    def text_claim(self) -> int | None:
        """The claim by which the agent wrote the utterance as text at home; None if it did not.

        This is the utterance's own claim or, if a tool sent the utterance, the claim of an echo of it.
        """
        return self.claim if self.is_text else self.repeated if self.home else None


def list_utterances(tx: Tx, root: int, home: str | None) -> list[Utterance]:
    """Return all utterances of a root's attempts so far, in order. `home`: the session's home."""
    return [_read_utterance(row, home) for row in tx.all(SaidClaim, "utterances_of_root", root=root)]


@dataclass(frozen=True)
class WrittenBlock:
    """A text that an agent wrote, whatever its claim's outcome was: said, echo, quiet or refused.

    `home`: it was meant for its session's home, or for an unknown destination. `cut`: its attempt ended before the text
    did.
    """

    claim: int
    text: str
    home: bool
    refused: bool = False
    cut: bool = False


def list_blocks(tx: Tx, root: int, home: str | None) -> list[WrittenBlock]:
    """Return all texts that the agent wrote in a root's attempts so far, in order. `home`: the session's home."""
    return [
        WrittenBlock(
            row.id, row.text, not row.dest or _is_home(row.dest, home), row.outcome == "refused", bool(row.partial)
        )
        for row in tx.all(WrittenClaim, "written_in_root", root=root)
        if row.text.strip()
    ]


def find_last_text(utterances: Iterable[Utterance]) -> Utterance | None:
    """Return the last text that the agent wrote at home, or None.

    Superseded texts do not count, nor do texts that only a tool sent. If the agent wrote a text that a tool had sent
    before, return the tool's utterance.
    """
    texts = [utterance for utterance in utterances if utterance.text_claim is not None and not utterance.superseded]
    return max(texts, key=lambda one: one.text_claim or 0, default=None)


def _read_utterance(row: SaidClaim, home: str | None) -> Utterance:
    at_home = not row.dest or _is_home(row.dest, home)  # a cut-off text has no dest: it was meant for the home
    files = entries.load(row.more).get("files") or ()
    return Utterance(
        claim=row.id, seq=row.seq, turn=row.turn, how=row.how, kind=row.kind, dest=row.dest, text=row.text,
        home=at_home, fate=_worst_fate(row, home if at_home else row.dest), cut=bool(row.partial),
        superseded=bool(row.superseded), files=tuple(str(file.get("name")) for file in files),
        file_ids=tuple(str(file.get("id") or file.get("uri")) for file in files), repeated=row.repeated,
    )  # fmt: skip


def _is_home(dest: str | None, home: str | None) -> bool:
    """Return whether `dest` is the session's home or, for a session without a home, its transcript (`session:KEY`)."""
    return dest == home if home is not None else (dest or "").startswith("session:")


def _worst_fate(row: SaidClaim, dest: str | None) -> DeliveryStatus:
    """Return the worst state among the claim's parts, or the state of a claim without parts."""
    states = set((row.states or "").split(",")) - {""}
    if not states:
        if dest is None or is_local(dest):
            return "arrived"
        return "seen" if row.previewed else "unsent"
    if row.failed or states & {"rejected", "dropped"}:
        return "failed"
    if "held" in states:
        return "held"
    if states & {"unknown", "sending"}:
        return "unknown"
    return "in line" if "queued" in states else "arrived"
