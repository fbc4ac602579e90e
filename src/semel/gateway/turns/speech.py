"""Turn an agent's text blocks into claims, and decide what of a block may be previewed (Laws 5, 6).

A block is split into parts: each stretch of bare text and each addressed body becomes a claim of its own, in the order
of the text. Claims are made when the block ends, because only then is its content final. A part for home is previewed
while it grows, unless it may still turn out to be an echo of what was said there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from semel.acp_stream.attachment import AgentFile
from semel.gateway.outbound.destinations import HOME, Place, Places
from semel.ledger.delivery.claims import Say
from semel.ledger.delivery.cutting import Leg
from semel.ledger.turns import show
from semel.text.message_markup import HandedFile, Internal, Piece, Problem, Reader, Said
from semel.text.verbatim import Hold, verbatim_form
from semel.text.visible import is_blank

PART_SLOT_STEP = 1 << 32
"""Distance between the slots of a block's parts; the fold's own slot numbers stay far below it."""

REPLACED = "the text that a file stood in was replaced by another one"


@dataclass
class HomePart:
    """Text of a block for home. `at_once`: it names its destination, so it need not wait for the closing text."""

    slot: int
    hold: Hold
    at_once: bool = False
    texts: list[str] = field(default_factory=list)
    shown: bool = False
    waiting: str = ""
    previewed: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts)


@dataclass(frozen=True)
class Spoken:
    """What a block said at home: a text, or a file."""

    slot: int
    text: str = ""
    file: Mapping[str, Any] | None = None


@dataclass
class Block:
    """A block while it streams in. `one_message`: the agent gave it an id, so that whatever joins it belongs to it."""

    slot: int
    reader: Reader
    one_message: bool = False
    parts: list[HomePart | Say] = field(default_factory=list)  # parts not claimed yet
    stretch: HomePart | None = None  # the open stretch of bare text
    slots: int = 0  # given to its parts so far
    fed: list[str] = field(default_factory=list)
    claimed: int = 0  # number of characters already claimed
    handed: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)  # files, behind so many characters
    files: list[Mapping[str, Any]] = field(default_factory=list)  # of them, those that were said at home
    spoken: list[Spoken] = field(default_factory=list)  # what it said at home, as far as it leaves together
    previewed: list[str] = field(default_factory=list)
    superseded: bool = False  # the next block repeats all of it

    @property
    def shown(self) -> bool:
        return any(part.shown for part in self.at_home())

    def at_home(self) -> list[HomePart]:
        return [part for part in self.parts if isinstance(part, HomePart)]

    def next_slot(self) -> int:
        """The slot of the next part; the first one has the block's own."""
        self.slots += 1
        return self.slot + (self.slots - 1) * PART_SLOT_STEP


class Speech:
    """The blocks of one turn. Methods return the operations to record and show."""

    def __init__(
        self,
        session: str,
        home: str | None,
        places: Places,
        names: Sequence[str],
        quiet: Sequence[str] = (),
        whole: bool = False,
    ) -> None:
        """`quiet`: replies that count as quiet; `whole`: preview nothing, judge each block at its end."""
        self.session = session
        self.home = home
        self.places = places
        self.names = tuple(names)
        self.quiet = tuple(quiet)
        self.whole = whole
        self.addressed = bool(names)
        self.open: dict[int, Block] = {}
        self.last: list[Spoken] = []  # what the last block said at home
        self._before_last: list[list[Spoken]] = []
        self._slots: dict[int, list[int]] = {}  # the slots of each block's parts at home
        self.originals: set[str] = set()  # verbatim forms that a block may turn out to repeat
        self.problems: list[Problem] = []  # what was held back, and the agent was not asked to correct
        self.held = 0  # how much was held back at all
        self.said = 0  # claims that were made, other than problems
        self.missing: dict[int, list[Mapping[str, Any]]] = {}  # slot of a block -> files for home without content
        self._seen: list[str] = []
        self.hold_back(self.quiet)

    def hold_back(self, texts: Iterable[str]) -> None:
        """Texts already said to the home in this root: a block that may repeat one is not previewed (Law 5)."""
        self.originals.update(verbatim_form(t) for t in texts)
        for part in (part for block in self.open.values() for part in block.at_home() if not part.shown):
            part.hold = Hold(self.originals)
            part.waiting = part.hold.feed(part.text)

    # ------------------------------------------------------------ a block

    def begin(self, slot: int, text: str = "", one_message: bool = False) -> list[show.Op]:
        """A block begins. `one_message`: the agent gave it an id."""
        self.open[slot] = Block(slot, self._reader(), one_message)
        return self.grow(slot, text) if text else []

    def _reader(self) -> Reader:
        return Reader(self.addressed, (HOME, *self.names, *([self.home] if self.home else [])))

    def grow(self, slot: int, text: str) -> list[show.Op]:
        """Append streamed text to a block."""
        block = self.open.get(slot)
        if block is None:
            return []
        block.fed.append(text)
        return self._pieces(block, block.reader.feed(text))

    def _pieces(self, block: Block, pieces: Sequence[Piece]) -> list[show.Op]:
        out: list[show.Op] = []
        for piece in pieces:
            if isinstance(piece, Internal):
                continue
            if isinstance(piece, HandedFile):
                out += self._hand_over(block, piece.dest, piece.file)
            elif isinstance(piece, Said) and piece.dest is None:
                out += self._bare(block, piece)
            elif (name := _meant(piece)) is not None and self._is_home(name):
                part = self._add_part(block, at_once=name != HOME)
                out += self._grow_part(block, part, piece.text)
                files = piece.files if isinstance(piece, Problem) else ()
                out += [op for file in files for op in self._hand_over(block, name, file)]
            elif isinstance(piece, Said):
                block.parts.append(self._elsewhere(piece))
            else:
                block.parts.append(self._problem(piece))
        return out

    def _bare(self, block: Block, piece: Said) -> list[show.Op]:
        if piece.final:
            block.stretch = None
            return []
        if block.stretch is None:
            block.stretch = self._add_part(block)
        return self._grow_part(block, block.stretch, piece.text)

    def _add_part(self, block: Block, at_once: bool = False) -> HomePart:
        part = HomePart(block.next_slot(), Hold(self.originals), at_once)
        block.parts.append(part)
        return part

    def _grow_part(self, block: Block, part: HomePart, text: str) -> list[show.Op]:
        part.texts.append(text)
        if self.whole:
            return []
        return self._preview(block, part, part.hold.feed(text))

    def _preview(self, block: Block, part: HomePart, text: str) -> list[show.Op]:
        """The operations that preview more of a part."""
        ready = part.waiting + text
        if not part.shown and is_blank(ready):
            part.waiting = ready  # blank beginnings are no preview of anything yet
            return []
        if not part.shown and block.previewed:
            block.previewed.append("\n\n")  # a message of its own, seen below the one before it
        part.waiting, part.shown = "", True
        part.previewed.append(ready)
        block.previewed.append(ready)
        self._seen = block.previewed
        return [show.Preview(part.slot, ready)] if ready else []

    def _is_home(self, name: str) -> bool:
        return name == HOME or self.places.resolve(self.session, self.home, name).home

    def _elsewhere(self, piece: Said) -> Say:
        place = self.places.resolve(self.session, self.home, piece.dest)
        self.said += place.dest is not None
        legs = self.places.legs(place.dest, self.session, piece.text) if place.dest else ()
        return Say("block", piece.text, place.dest, home=place.home, legs=legs, problem=place.problem)

    def _problem(self, piece: Problem) -> Say:
        self.problems.append(piece)
        self.held += 1
        return Say("block", piece.text, None, problem=piece.reason)

    def replace(self, slot: int, text: str) -> list[show.Op]:
        """Replace a block's text after the fold recognised a re-delivery. Claims already made of it stay."""
        old = self.open.get(slot)
        if old is None:
            return []
        claimed = "".join(old.fed)[: old.claimed]
        claimed = claimed if text.startswith(claimed) else ""
        shown = {part.slot for part in old.at_home() if part.shown}
        new = self.open[slot] = Block(slot, self._reader(), old.one_message, slots=old.slots - len(old.at_home()))
        new.files, new.spoken = old.files, old.spoken
        before, at = "".join(old.fed), 0
        new.handed = [one for one in old.handed if text.startswith(before[: one[0]])]
        for where, file in new.handed:
            if where <= len(claimed):
                new.reader.feed(claimed[at:where])
                new.reader.hand(file)
                at = where
        new.reader.feed(claimed[at:])
        new.fed, new.claimed = [claimed], len(claimed)
        ops, at = [], len(claimed)
        for where, file in new.handed:
            if where > len(claimed):
                ops += self.grow(slot, text[at:where]) + self._pieces(new, new.reader.hand(file))
                at = where
        ops += self.grow(slot, text[at:])
        for _, file in old.handed[len(new.handed) :]:  # what it stands in now, nobody knows
            if isinstance(file.get("file"), AgentFile) and file["file"].row() not in old.files:
                new.parts.append(self._problem(Problem("unreadable", REPLACED, "")))
        kept = [op for op in ops if not (isinstance(op, show.Preview) and op.slot in shown)]
        return [*(self._replaced(new, n) for n in sorted(shown)), *kept]

    def _replaced(self, block: Block, slot: int) -> show.Op:
        """Replace a previewed part by its new text; by an empty text if the new block has no such part."""
        part = next((part for part in block.at_home() if part.slot == slot), None)
        if part is None:
            part = HomePart(slot, Hold(()))
            block.parts.append(part)
            block.slots = max(block.slots, (slot - block.slot) // PART_SLOT_STEP + 1)
        part.shown = True
        return show.Replace(slot, "".join(part.previewed))

    def end(self, slot: int, partial: bool = False, last: bool = False, cut: bool = False) -> list[show.Op]:
        """End a block and make its claims. `last`: the turn ends with it. `cut`: the model did not finish it."""
        block = self.open.pop(slot, None)
        if block is None:
            return []
        return self._pieces(block, block.reader.end()) + self._claims(block, block.parts, partial, last, cut)

    def break_off(self) -> list[show.Op]:
        """The agent died: what was withheld of its open text, since it began like what was said, is judged as it is.

        Nobody was shown it: if it is no echo, it leaves only as the answer, like what was shown and broke off.
        """
        last = [block.parts[-1] for block in self.open.values() if block.parts and not self.whole]
        held = [one for one in last if isinstance(one, HomePart) and not one.shown and not is_blank(one.text)]
        return [show.Block(one.slot, (replace(self._say_home(one.text), legs=()),), partial=True) for one in held]

    def _claims(
        self,
        block: Block,
        parts: Sequence[HomePart | Say],
        partial: bool = False,
        last: bool = False,
        broken: bool = False,
    ) -> list[show.Op]:
        """The claims of these parts, each for itself, in the order of the text."""
        out: list[show.Op] = []
        spoken: list[Spoken] = []
        first = block.spoken[0].slot if block.spoken else None
        final = next((part for part in reversed(parts) if isinstance(part, HomePart)), None)
        for n, part in enumerate(parts):
            if isinstance(part, Say):
                out.append(show.Block(block.next_slot(), (part,)))
                continue
            cut = partial and part is final
            if not is_blank(part.text):
                at_once = any(isinstance(one, HomePart) and one.at_once for one in parts[n:])
                say = self._say_home(part.text, at_once, last)
                if broken and part is final:
                    say = replace(say, cut=True)
                if block.superseded:  # it stays in the record, and leaves as the beginning of the block behind it
                    self.said += 1
                    out += [show.Block(part.slot, (replace(say, legs=()),), cut), show.Supersede(part.slot)]
                    continue
                out.append(show.Block(part.slot, (say,), cut, follows=first))
                first = part.slot if first is None else first
                spoken.append(Spoken(part.slot, part.text))
            elif part.shown:
                out.append(show.Block(part.slot, (), cut))
        if spoken:
            self._spoke(block, spoken)
        if any(isinstance(part, HomePart) and part.at_once for part in parts):
            self._before_last = []
        return out

    def _spoke(self, block: Block, spoken: list[Spoken]) -> None:
        if self.last and self.last is not block.spoken:
            self._before_last.append(self.last)
        block.spoken += spoken
        self.last = block.spoken
        self._slots.setdefault(block.slot, []).extend(one.slot for one in spoken if one.file is None)
        self.said += len(spoken)

    def _say_home(self, text: str, at_once: bool = False, last: bool = False) -> Say:
        if self.home is None:
            # No home: the transcript is the delivery (glossary). The claim goes to the session itself.
            return Say("block", text, f"session:{self.session}", quiet=self.quiet, last=last)
        leaves = at_once or self.places.narrates_all(self.home)
        legs = self.places.spoken(self.home, self.session, text) if leaves else ()
        return Say("block", text, self.home, legs=legs, quiet=self.quiet, last=last)

    # ------------------------------------------------------------ files

    def attach(self, slot: int, named: Mapping[str, Any]) -> list[show.Op]:
        """A file within a block: its `file`, or why it is `missing`. It goes where the text goes that it stands in."""
        block = self.open.get(slot)
        if block is None:
            return []
        block.handed.append((sum(map(len, block.fed)), named))
        return self._pieces(block, block.reader.hand(named))

    def _hand_over(self, block: Block, name: str | None, named: Mapping[str, Any]) -> list[show.Op]:
        """A file for a destination; for home where that has no name."""
        at_home = name is None or self._is_home(name)
        file = named.get("file")
        if isinstance(file, AgentFile):
            if at_home:
                ops = self._attach_home(block, file.row(), at_once=name not in (None, HOME))
                if ops and name is None:  # text behind it may have come by the time it is known where it stands
                    block.claimed = next(where for where, one in block.handed if one is named)
                return ops
            block.parts.append(self._file_elsewhere(name, file.row()))
        elif at_home:
            self.missing.setdefault(block.slot, []).append(named)
        else:
            why = f"a file for {name!r} cannot be sent: {named.get('missing') or 'it holds no data'}"
            block.parts.append(self._problem(Problem("unreadable", why, "")))
        return []

    def _attach_home(self, block: Block, file: Mapping[str, Any], at_once: bool) -> list[show.Op]:
        """Say a file at home, after claiming the text before it.

        The same file again in one block is a repeat made by an adapter, and is ignored.
        """
        if file in block.files:
            return []
        block.files.append(file)
        if at_once:
            self._add_part(block, at_once)  # what was said before it leaves, too
        ops = self._claims(block, block.parts)
        self._settle_parts(block)
        if self.home is not None and self.places.narrates_all(self.home):
            block.previewed = []  # what was shown of it has its own message
        at = block.next_slot()
        follows = block.spoken[0].slot if block.spoken else None
        ops.append(show.Block(at, (self._say_file(file, at_once),), follows=follows))
        self._spoke(block, [Spoken(at, file=file)])
        return ops

    def _say_file(self, file: Mapping[str, Any], at_once: bool) -> Say:
        more = {"kind": "file", "files": [file]}
        if self.home is None:
            return Say("block", "", f"session:{self.session}", kind="file", more=more)
        leaves = at_once or self.places.narrates_all(self.home)
        legs = self.places.carrying(self.home, self.session, file) if leaves else ()
        return Say("block", "", self.home, kind="file", legs=legs, more=more)

    def _file_elsewhere(self, name: str | None, file: Mapping[str, Any]) -> Say:
        place = self.places.resolve(self.session, self.home, name)
        self.said += place.dest is not None
        return say_file_elsewhere(file, place, self.session, self.places)

    # ------------------------------------------------------------ another prompt joins the turn

    def join(self) -> list[show.Op]:
        """Another prompt is about to join the turn: what ends from here on is no echo of what was said until now.

        A block that is open ends here, unless the agent's own message id says that it goes on; where it repeats to the
        letter what was said, it is that echo, and goes on as other text.
        """
        originals, self.originals = self.originals, {verbatim_form(word) for word in self.quiet}
        return [op for block in self.open.values() for op in self._join(block, originals)]

    def _join(self, block: Block, originals: set[str]) -> list[show.Op]:
        stretch = block.stretch
        repeats = stretch is not None and not stretch.shown and verbatim_form(stretch.text) in originals
        if block.one_message and not repeats:
            return [] if stretch is None else self._held_no_longer(block, stretch)
        ops = self._claims(block, block.parts)
        if ops and not block.one_message:
            ops += self.leave()
        self._settle_parts(block)
        block.files, block.spoken = [], []
        return ops

    def _settle_parts(self, block: Block) -> None:
        """Note that everything the block said so far is claimed."""
        block.parts, block.stretch = [], None
        block.claimed = sum(map(len, block.fed)) - block.reader.waiting

    def _held_no_longer(self, block: Block, part: HomePart) -> list[show.Op]:
        if part.shown or self.whole:
            return []
        part.hold, part.waiting = Hold(self.originals), ""
        return self._preview(block, part, part.hold.feed(part.text))

    # ------------------------------------------------------------ the turn

    def silence(self) -> list[show.Op]:
        """Where a quiet word is understood, an answer without any text is one, too."""
        if not self.quiet or self.said or self.held:
            return []
        return [show.Block(-1, (self._say_home(""),))]

    def supersede(self, slot: int) -> list[show.Op]:
        """The agent said the block again in full: it stays in the record, marked, and is not the closing text."""
        block = self.open.get(slot)
        if block is not None:
            block.superseded = True  # what of it nobody was shown has no entry yet: it is marked as it is claimed
        slots = self._slots.get(slot, []) + ([part.slot for part in block.at_home()] if block else [])
        if not slots and slot not in self._slots:  # files are known by their content, and stay
            slots = [slot]
        self._before_last = [b for b in self._before_last if not any(one.slot in slots for one in b)]
        if any(one.slot in slots for one in self.last):
            self.last = self._before_last.pop() if self._before_last else []
        return [show.Supersede(one) for one in slots]

    def closing(self) -> tuple[int | None, tuple[Leg, ...]]:
        """The slot of the last part of the closing text, and the parts it leaves in where only that is delivered."""
        if not self.last or self.home is None or self.places.narrates_all(self.home):
            return None, ()
        return self.last[-1].slot, self._leaving(self.home, self.last[-1])

    def _leaving(self, home: str, one: Spoken) -> tuple[Leg, ...]:
        """The parts in which something leaves that was said at home."""
        if one.file is not None:
            return self.places.carrying(home, self.session, one.file)
        return self.places.spoken(home, self.session, one.text)

    def leave(self, but_last: bool = False) -> list[show.Op]:
        """What was said last leaves, where only closing texts do. `but_last`: its last part is for `closing`."""
        if self.home is None or self.places.narrates_all(self.home) or not self.places.outgoing(self.home):
            return []
        parts = self.last[:-1] if but_last else self.last
        self._before_last = []  # what was said before it does not leave behind it
        return [show.Leave(one.slot, self._leaving(self.home, one)) for one in parts]

    @property
    def streaming(self) -> bool:
        """Whether a block is open of which something was previewed."""
        return any(block.shown for block in self.open.values())

    def previewed(self) -> Callable[[], str] | None:
        """What was previewed so far of the block that streams now, or streamed last; None: nothing was."""
        seen = self._seen
        return partial(_joined, seen, len(seen)) if seen else None


def say_file_elsewhere(file: Mapping[str, Any], place: Place, session: str, places: Places) -> Say:
    """A file that stood in the text for a place that is not home."""
    legs = places.carrying(place.dest, session, file) if place.dest else ()
    more = {"kind": "file", "files": [file]}
    return Say("block", "", place.dest, kind="file", home=False, legs=legs, more=more, problem=place.problem)


def _meant(piece: Piece) -> str | None:
    """The name of the destination a piece is for: also one that was never closed, where that is certain."""
    return piece.dest if isinstance(piece, Said) else piece.to if isinstance(piece, Problem) else None


def _joined(texts: Sequence[str], first: int) -> str:
    return "".join(texts[:first])
