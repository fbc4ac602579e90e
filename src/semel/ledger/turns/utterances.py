"""What a turn's attempts said, and what became of each text on its way (Laws 5, 6, 9).

An attempt that goes on is told this text by text, and what its person lacks leaves when the turn ends without more.
Semel's own notices are not among them: no agent said those (Law 4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from semel.ledger.delivery.cutting import is_local
from semel.ledger.storage.sql import Row, Tx
from semel.ledger.transcript import entries

Fate = Literal["arrived", "in line", "unknown", "held", "failed", "unsent", "seen"]


@dataclass(frozen=True)
class Utterance:
    """One said claim of an agent.

    `home`: it was said at its session's home. `cut`: its attempt ended before it did. `superseded`: a later attempt
    said it anew, in full. `fate`: "arrived" at once if its destination needs no sending (page, terminal); "unsent":
    it was only shown on a page, and no part was ever made; "seen": nor was one of this, but a
    preview showed it. `files`: the names of what it carried; `contents`: their
    ids in the store, or their addresses. `repeated`: the claim of the agent's text that repeated it last, in the first
    attempt that did; a later attempt only says again what was said.
    """

    claim: int
    seq: int | None
    turn: int | None
    how: str
    kind: str
    dest: str | None
    text: str
    home: bool
    fate: Fate
    cut: bool = False
    superseded: bool = False
    files: tuple[str, ...] = ()
    contents: tuple[str, ...] = ()
    repeated: int | None = None

    @property
    def is_text(self) -> bool:
        """Whether it is text that the agent wrote at home, sent by no tool."""
        return self.home and self.kind == "text" and self.how != "tool" and bool(self.text.strip())

    @property
    def written(self) -> int | None:
        """The claim by which the agent wrote it at home, as text: its own, or that of an echo, if a tool said it."""
        return self.claim if self.is_text else self.repeated if self.home else None


def list_of_root(tx: Tx, root: int, home: str | None) -> list[Utterance]:
    """All that the attempts of a root said so far, in order."""
    return [_read(row, home) for row in tx.all("utterances_of_root", root=root)]


@dataclass(frozen=True)
class Block:
    """A text that an agent wrote, whatever became of it: it was said, is an echo or a quiet word, or was held back.

    `home`: for its session's home, or for a destination that is not known. `cut`: its attempt ended before it did.
    """

    claim: int
    text: str
    home: bool
    refused: bool = False
    cut: bool = False


def list_blocks(tx: Tx, root: int, home: str | None) -> list[Block]:
    """All that the agent wrote in the attempts of a root so far, in order."""
    return [
        Block(row.id, row.text, not row.dest or _is_home(row.dest, home), row.outcome == "refused", bool(row.partial))
        for row in tx.all("written_in_root", root=root)
        if row.text.strip()
    ]


def find_last_text(said: Iterable[Utterance]) -> Utterance | None:
    """What was written last at home, whatever a tool sent, or Semel told, after it. A tool may have sent it before."""
    texts = [one for one in said if one.written is not None and not one.superseded]
    return max(texts, key=lambda one: one.written or 0, default=None)


def _read(row: Row, home: str | None) -> Utterance:
    at_home = not row.dest or _is_home(row.dest, home)  # what was cut off was for its home, whatever that is
    files = entries.load(row.more).get("files") or ()
    return Utterance(
        claim=row.id, seq=row.seq, turn=row.turn, how=row.how, kind=row.kind, dest=row.dest, text=row.text,
        home=at_home, fate=_fate(row, home if at_home else row.dest), cut=bool(row.partial),
        superseded=bool(row.superseded), files=tuple(str(one.get("name")) for one in files),
        contents=tuple(str(one.get("id") or one.get("uri")) for one in files), repeated=row.repeated,
    )  # fmt: skip


def _is_home(dest: str | None, home: str | None) -> bool:
    """Without a home, what a session says at home is said to its own transcript: `session:KEY`."""
    return dest == home if home is not None else (dest or "").startswith("session:")


def _fate(row: Row, dest: str | None) -> Fate:
    """The worst that became of its parts."""
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
