"""From blocks to claims: what an agent's text says, to whom, and what of it may be previewed (Laws 5, 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from semel.gateway.places import HOME, Places
from semel.law.markup import Internal, Piece, Problem, Reader, Said
from semel.law.verbatim import Hold, normal
from semel.ledger import show
from semel.ledger.speak import Leg, Say


@dataclass
class Block:
    """A block while it streams in."""

    slot: int
    reader: Reader
    hold: Hold
    home: list[str] = field(default_factory=list)
    says: list[Say] = field(default_factory=list)
    shown: bool = False
    waiting: str = ""
    seen: list[str] = field(default_factory=list)  # what of it was previewed

    @property
    def home_text(self) -> str:
        return "".join(self.home)


class Speech:
    """The blocks of one turn. Each method returns what is to be shown for it."""

    def __init__(
        self,
        session: str,
        home: str | None,
        places: Places,
        names: Sequence[str],
        quiet: Sequence[str] = (),
        whole: bool = False,
    ) -> None:
        """`quiet`: words that say nothing; `whole`: nothing is previewed, a block is judged at its end."""
        self.session = session
        self.home = home
        self.places = places
        self.names = tuple(names)
        self.quiet = tuple(quiet)
        self.whole = whole
        self.addressed = bool(names)
        self.open: dict[int, Block] = {}
        self.last: tuple[int, str] | None = None  # slot and text of the last block that said something at home
        self._before_last: list[tuple[int, str]] = []
        self.originals: set[str] = set()  # verbatim forms that a block may turn out to repeat
        self.problems: list[str] = []
        self.said = 0  # claims that were made, other than problems
        self._seen: list[str] = []
        self.hold_back(self.quiet)

    def hold_back(self, texts: Iterable[str]) -> None:
        """Texts already said to the home in this root: a block that may repeat one is not previewed (Law 5)."""
        self.originals.update(normal(t) for t in texts)

    # ------------------------------------------------------------ a block

    def begin(self, slot: int, text: str = "") -> list[show.Op]:
        """A block begins."""
        names = (HOME, *self.names) if self.addressed else ()
        self.open[slot] = Block(slot, Reader(self.addressed, names), Hold(self.originals))
        return self.grow(slot, text) if text else []

    def grow(self, slot: int, text: str) -> list[show.Op]:
        """It streams on."""
        block = self.open.get(slot)
        if block is None:
            return []
        return self._pieces(block, block.reader.feed(text))

    def _pieces(self, block: Block, pieces: Sequence[Piece]) -> list[show.Op]:
        out: list[show.Op] = []
        for piece in pieces:
            if isinstance(piece, Said) and piece.dest in (None, HOME):
                out += self._at_home(block, piece.text, whole=piece.dest == HOME)
            elif isinstance(piece, Said):
                block.says.append(self._elsewhere(piece))
            elif isinstance(piece, Problem):
                block.says.append(self._problem(piece))
            elif isinstance(piece, Internal):
                continue
        return out

    def _at_home(self, block: Block, text: str, whole: bool) -> list[show.Op]:
        if whole and block.home and not block.home_text.endswith("\n"):
            text = "\n\n" + text  # an addressed message beside bare text: markup parted them, a break does now
        block.home.append(text)
        if self.whole:
            return []
        ready = block.waiting + block.hold.feed(text)
        if not block.shown and not ready.strip():
            block.waiting = ready  # blank beginnings are no preview of anything yet
            return []
        block.waiting, block.shown = "", True
        block.seen.append(ready)
        self._seen = block.seen
        return [show.Preview(block.slot, ready)] if ready else []

    def _elsewhere(self, piece: Said) -> Say:
        place = self.places.resolve(self.session, self.home, piece.dest)
        self.said += place.dest is not None
        legs = self.places.legs(place.dest, self.session, piece.text) if place.dest else ()
        return Say("block", piece.text, place.dest, home=place.home, legs=legs, problem=place.problem)

    def _problem(self, piece: Problem) -> Say:
        self.problems.append(piece.reason)
        return Say("block", piece.text, None, problem=piece.reason)

    def replace(self, slot: int, text: str) -> list[show.Op]:
        """The fold recognised a re-delivery: the block's text is this."""
        old = self.open.get(slot)
        if old is None:
            return []
        self.begin(slot)
        ops = self.grow(slot, text)
        if not old.shown:
            return ops
        self.open[slot].shown = True
        return [show.Replace(slot, "".join(self.open[slot].seen))]

    def end(self, slot: int, partial: bool = False) -> list[show.Op]:
        """The block is over: its claims are made."""
        block = self.open.pop(slot, None)
        if block is None:
            return []
        ops = self._pieces(block, block.reader.end())
        text = block.home_text
        says = list(block.says)
        if text.strip():
            says.insert(0, self._say_home(text))
            if self.last is not None:
                self._before_last.append(self.last)
            self.last = (slot, text)
            self.said += 1
        if not says and not block.shown:
            return ops
        return [*ops, show.Block(slot, tuple(says), partial)]

    def _say_home(self, text: str) -> Say:
        if self.home is None:
            # No home: the transcript is the delivery (glossary). The claim goes to the session itself.
            return Say("block", text, f"session:{self.session}", quiet=self.quiet)
        legs = self.places.spoken(self.home, self.session, text) if self.places.narrates_all(self.home) else ()
        return Say("block", text, self.home, legs=legs, quiet=self.quiet)

    def silence(self) -> list[show.Op]:
        """Where a quiet word is understood, an answer without any text is one, too."""
        if not self.quiet or self.said or self.problems:
            return []
        return [show.Block(-1, (self._say_home(""),))]

    def supersede(self, slot: int) -> list[show.Op]:
        """The agent said the block again in full: it stays in the record, marked, and is not the closing text."""
        self._before_last = [b for b in self._before_last if b[0] != slot]
        if self.last is not None and self.last[0] == slot:
            self.last = self._before_last.pop() if self._before_last else None
        return [show.Supersede(slot)]

    def closing(self) -> tuple[int | None, tuple[Leg, ...]]:
        """The closing text's slot, and the parts it leaves in where only it is delivered."""
        if self.last is None or self.home is None or self.places.narrates_all(self.home):
            return None, ()
        slot, text = self.last
        return slot, self.places.spoken(self.home, self.session, text)

    @property
    def streaming(self) -> bool:
        """Whether a block is open of which something was previewed."""
        return any(block.shown for block in self.open.values())

    def previewed(self) -> Callable[[], str] | None:
        """What was previewed so far of the block that streams now, or streamed last; None: nothing was."""
        seen = self._seen
        return partial(_joined, seen, len(seen)) if seen else None


def _joined(texts: Sequence[str], first: int) -> str:
    return "".join(texts[:first])
