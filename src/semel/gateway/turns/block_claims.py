"""Turn an agent's text blocks into claims, and decide which text may be previewed (Laws 5, 6).

A block is split into parts: each addressed body (`semel.text.message_markup`), and each stretch of text between such
bodies, which goes home. Each part becomes a claim of its own, in the order of the text. Claims are made when the block
ends, because only then is its content final. A part for home is previewed while it grows, unless it may still turn out
to be an echo of an earlier text there. A slot is the number by which operations refer to a block or a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from semel.acp_stream.attachment import AgentFile
from semel.gateway.outbound.destinations import HOME, Destinations, ResolvedDestination
from semel.gateway.turns.streamed_block import PART_SLOT_STEP, HomePart, SpokenPart, StreamedBlock
from semel.ledger.delivery.claims import ClaimRequest
from semel.ledger.delivery.cutting import Leg
from semel.ledger.turns import turn_ops
from semel.ledger.turns.utterances import Utterance
from semel.text.message_markup import AddressedFile, Internal, MarkupProblem, MarkupReader, Piece, Said
from semel.text.verbatim import EchoHold, verbatim_form
from semel.text.visible import is_blank

TEXT_REPLACED = "the text that a file stood in was replaced by another one"


class BlockClaims:
    """The blocks of one turn. The methods for blocks return the operations that record and show them."""

    def __init__(
        self,
        session: str,
        home: str | None,
        places: Destinations,
        names: Sequence[str],
        quiet: Sequence[str] = (),
        judge_at_end: bool = False,
    ) -> None:
        """Begin a turn without blocks. `session`: the session's key.

        `names`: the names of the destinations, besides home, that the session may address. `quiet`: replies that count
        as quiet. `judge_at_end`: show a block only once it has ended, without a preview.
        """
        self.session = session
        self.home = home
        self.places = places
        self.names = tuple(names)
        self.quiet = tuple(quiet)
        self.judge_at_end = judge_at_end
        self.has_names = bool(names)
        self.open_blocks: dict[int, StreamedBlock] = {}
        self.last_spoken: list[SpokenPart] = []  # the parts that the last block said at home
        self._before_last: list[list[SpokenPart]] = []
        self._home_slots: dict[int, list[int]] = {}  # the slots of each block's parts at home
        self.originals: set[str] = set()  # verbatim forms that a block may turn out to repeat
        self.problems: list[MarkupProblem] = []  # texts held back that the agent was not yet asked to correct
        self.held_count = 0  # the number of all texts that were held back
        self.claim_count = 0  # the number of claims that were not held back
        self.missing_files: dict[int, list[Mapping[str, Any]]] = {}  # slot of a block -> files for home without content
        self._last_previewed: list[str] | None = None  # the pieces of the latest block that is previewed
        self.hold_back(self.quiet)

    def hold_back(self, texts: Iterable[str]) -> None:
        """Add texts that are said at home in this root.

        A block is not previewed as long as it may repeat one of them (Law 5).
        """
        self.originals.update(verbatim_form(t) for t in texts)
        for part in (part for block in self.open_blocks.values() for part in block.at_home() if not part.is_shown):
            part.hold = EchoHold(self.originals)
            part.waiting = part.hold.feed(part.text)

    def hold_back_said(self, utterances: Iterable[Utterance]) -> None:
        """Add the texts of those of these utterances that were said at home (`hold_back`)."""
        self.hold_back(utterance.text for utterance in utterances if utterance.home)

    # ------------------------------------------------------------ one block

    def begin_block(self, slot: int, text: str = "", one_message: bool = False) -> list[turn_ops.Op]:
        """Begin a block. `one_message`: the agent gave it a message id, by which it may go on after an interruption."""
        self.open_blocks[slot] = StreamedBlock(slot, self._new_reader(), one_message)
        return self.grow_block(slot, text) if text else []

    def _new_reader(self) -> MarkupReader:
        return MarkupReader(self.has_names, (HOME, *self.names, *([self.home] if self.home else [])))

    def grow_block(self, slot: int, text: str) -> list[turn_ops.Op]:
        """Append streamed text to a block."""
        block = self.open_blocks.get(slot)
        if block is None:
            return []
        block.fed_texts.append(text)
        return self._take_pieces(block, block.reader.feed(text))

    def _take_pieces(self, block: StreamedBlock, pieces: Sequence[Piece]) -> list[turn_ops.Op]:
        out: list[turn_ops.Op] = []
        for piece in pieces:
            if isinstance(piece, Internal):
                continue
            if isinstance(piece, AddressedFile):
                out += self._hand_over(block, piece.dest, piece.file)
            elif isinstance(piece, Said) and piece.dest is None:
                out += self._take_bare(block, piece)
            elif (name := _intended_name(piece)) is not None and self._is_home(name):
                part = self._add_part(block, at_once=name != HOME)
                out += self._grow_part(block, part, piece.text)
                files = piece.files if isinstance(piece, MarkupProblem) else ()
                out += [op for file in files for op in self._hand_over(block, name, file)]
            elif isinstance(piece, Said):
                block.parts.append(self._say_elsewhere(piece))
            else:
                block.parts.append(self._hold_problem(piece))
        return out

    def _take_bare(self, block: StreamedBlock, piece: Said) -> list[turn_ops.Op]:
        if piece.final:
            block.stretch = None
            return []
        if block.stretch is None:
            block.stretch = self._add_part(block)
        return self._grow_part(block, block.stretch, piece.text)

    def _add_part(self, block: StreamedBlock, at_once: bool = False) -> HomePart:
        part = HomePart(block.next_slot(), EchoHold(self.originals), at_once)
        block.parts.append(part)
        return part

    def _grow_part(self, block: StreamedBlock, part: HomePart, text: str) -> list[turn_ops.Op]:
        part.texts.append(text)
        if self.judge_at_end:
            return []
        return self._preview(block, part, part.hold.feed(text))

    def _preview(self, block: StreamedBlock, part: HomePart, text: str) -> list[turn_ops.Op]:
        """Return the operations that append `text`, the next text of a part, to the part's preview."""
        ready = part.waiting + text
        if not part.is_shown and is_blank(ready):
            part.waiting = ready  # do not preview a blank beginning
            return []
        if not part.is_shown and block.previewed:
            block.previewed.append("\n\n")  # it is a message of its own, shown below the one before it
        part.waiting, part.is_shown = "", True
        part.previewed.append(ready)
        block.previewed.append(ready)
        self._last_previewed = block.previewed
        return [turn_ops.Preview(part.slot, ready)] if ready else []

    def _is_home(self, name: str) -> bool:
        return name == HOME or self.places.resolve(self.session, self.home, name).home

    def _say_elsewhere(self, piece: Said) -> ClaimRequest:
        place = self.places.resolve(self.session, self.home, piece.dest)
        self.claim_count += place.dest is not None
        legs = self.places.cut_legs(place.dest, self.session, piece.text) if place.dest else ()
        return ClaimRequest("block", piece.text, place.dest, is_home=place.home, legs=legs, problem=place.problem)

    def _hold_problem(self, piece: MarkupProblem) -> ClaimRequest:
        self.problems.append(piece)
        self.held_count += 1
        return ClaimRequest("block", piece.text, None, problem=piece.reason)

    def replace_block(self, slot: int, text: str) -> list[turn_ops.Op]:
        """Replace the text of an open block, because the agent delivers it again, as `Fold` has recognised.

        Claims that were already made from the old text stay as they are.
        """
        old = self.open_blocks.get(slot)
        if old is None:
            return []
        claimed = "".join(old.fed_texts)[: old.claimed_chars]
        claimed = claimed if text.startswith(claimed) else ""
        shown = {part.slot for part in old.at_home() if part.is_shown}
        new = self.open_blocks[slot] = StreamedBlock(
            slot, self._new_reader(), old.one_message, slot_count=old.slot_count - len(old.at_home())
        )
        new.home_files, new.spoken = old.home_files, old.spoken
        if self._last_previewed is old.previewed:
            self._last_previewed = new.previewed
        before, position = "".join(old.fed_texts), 0
        new.handed_files = [handed for handed in old.handed_files if text.startswith(before[: handed[0]])]
        for offset, file in new.handed_files:
            if offset <= len(claimed):
                new.reader.feed(claimed[position:offset])
                new.reader.add_file(file)
                position = offset
        new.reader.feed(claimed[position:])
        new.fed_texts, new.claimed_chars = [claimed], len(claimed)
        ops, position = [], len(claimed)
        for offset, file in new.handed_files:
            if offset > len(claimed):
                ops += self.grow_block(slot, text[position:offset]) + self._take_pieces(new, new.reader.add_file(file))
                position = offset
        ops += self.grow_block(slot, text[position:])
        for _, file in old.handed_files[len(new.handed_files) :]:  # its place in the new text is not known
            if isinstance(file.get("file"), AgentFile) and file["file"].row() not in old.home_files:
                new.parts.append(self._hold_problem(MarkupProblem("unreadable", TEXT_REPLACED, "")))
        kept_ops = [op for op in ops if not (isinstance(op, turn_ops.Preview) and op.slot in shown)]
        return [*(self._replace_preview(new, n) for n in sorted(shown)), *kept_ops]

    def _replace_preview(self, block: StreamedBlock, slot: int) -> turn_ops.Op:
        """Return the operation that replaces the preview in `slot`, because the agent replaced the block's text.

        If the new text has no part for this slot, the preview becomes empty.
        """
        part = next((part for part in block.at_home() if part.slot == slot), None)
        if part is None:
            part = HomePart(slot, EchoHold(()))
            block.parts.append(part)
            block.slot_count = max(block.slot_count, (slot - block.slot) // PART_SLOT_STEP + 1)
        part.is_shown = True
        return turn_ops.Replace(slot, "".join(part.previewed))

    def end_block(self, slot: int, partial: bool = False, last: bool = False, cut: bool = False) -> list[turn_ops.Op]:
        """End a block and make its claims.

        `partial`: the block broke off together with the attempt. `last`: the turn ends with this block. `cut`: the
        model did not finish the block.
        """
        block = self.open_blocks.pop(slot, None)
        if block is None:
            return []
        return self._take_pieces(block, block.reader.end()) + self._make_claims(block, block.parts, partial, last, cut)

    def break_off(self) -> list[turn_ops.Op]:
        """After the agent has died, claim the texts whose previews were withheld because they might have become echoes.

        Nobody has seen these texts. A text that turns out to be no echo is sent only as the turn's answer, like a
        preview that broke off.
        """
        last = [block.parts[-1] for block in self.open_blocks.values() if block.parts and not self.judge_at_end]
        withheld = [
            part for part in last if isinstance(part, HomePart) and not part.is_shown and not is_blank(part.text)
        ]
        return [
            turn_ops.Block(part.slot, (replace(self._say_home(part.text), legs=()),), partial=True) for part in withheld
        ]

    def _make_claims(
        self,
        block: StreamedBlock,
        parts: Sequence[HomePart | ClaimRequest],
        partial: bool = False,
        last: bool = False,
        broken: bool = False,
    ) -> list[turn_ops.Op]:
        """Return the operations that make a claim of each of these parts, in order.

        `partial`, `last`: as in `end_block`. `broken`: the argument `cut` of `end_block`.
        """
        out: list[turn_ops.Op] = []
        spoken: list[SpokenPart] = []
        first = block.spoken[0].slot if block.spoken else None
        final = next((part for part in reversed(parts) if isinstance(part, HomePart)), None)
        for n, part in enumerate(parts):
            if isinstance(part, ClaimRequest):
                out.append(turn_ops.Block(block.next_slot(), (part,)))
                continue
            cut = partial and part is final
            if not is_blank(part.text):
                at_once = any(isinstance(later, HomePart) and later.leaves_at_once for later in parts[n:])
                say = self._say_home(part.text, at_once, last)
                if broken and part is final:
                    say = replace(say, is_cut=True)
                if block.superseded_by is not None:  # it stays in the record, and is sent as the beginning of that one
                    self.claim_count += 1
                    claim = turn_ops.Block(part.slot, (replace(say, legs=()),), cut)
                    out += [claim, turn_ops.Supersede(part.slot, block.superseded_by)]
                    continue
                out.append(turn_ops.Block(part.slot, (say,), cut, follows=first))
                first = part.slot if first is None else first
                spoken.append(SpokenPart(part.slot, part.text))
            elif part.is_shown:
                out.append(turn_ops.Block(part.slot, (), cut))
        if spoken:
            self._note_spoken(block, spoken)
        if any(isinstance(part, HomePart) and part.leaves_at_once for part in parts):
            self._before_last = []
        return out

    def _note_spoken(self, block: StreamedBlock, spoken: list[SpokenPart]) -> None:
        if self.last_spoken and self.last_spoken is not block.spoken:
            self._before_last.append(self.last_spoken)
        block.spoken += spoken
        self.last_spoken = block.spoken
        self._home_slots.setdefault(block.slot, []).extend(
            utterance.slot for utterance in spoken if utterance.file is None
        )
        self.claim_count += len(spoken)

    def _say_home(self, text: str, at_once: bool = False, last: bool = False) -> ClaimRequest:
        if self.home is None:
            # No home: the transcript is the delivery (glossary). The claim goes to the session itself.
            return ClaimRequest(
                "block", text, f"session:{self.session}", quiet_words=self.quiet, is_last_of_attempt=last
            )
        leaves = at_once or self.places.narrates_all(self.home)
        legs = self.places.cut_answer(self.home, self.session, text) if leaves else ()
        return ClaimRequest("block", text, self.home, legs=legs, quiet_words=self.quiet, is_last_of_attempt=last)

    # ------------------------------------------------------------ files

    def attach(self, slot: int, named: Mapping[str, Any]) -> list[turn_ops.Op]:
        """Add a file to a block, for the destination of the text around it.

        `named`: its content block, with the `AgentFile` as "file", or with the reason why there is none as "missing".
        """
        block = self.open_blocks.get(slot)
        if block is None:
            return []
        block.handed_files.append((sum(map(len, block.fed_texts)), named))
        return self._take_pieces(block, block.reader.add_file(named))

    def _hand_over(self, block: StreamedBlock, name: str | None, named: Mapping[str, Any]) -> list[turn_ops.Op]:
        """Claim the file `named` (as in `attach`) for one destination. Return the operations to apply now.

        `name`: the destination in the agent's markup; None if the file stands outside markup, so that it goes home. A
        file for another destination than home is claimed later, with the rest of the block. If the file could not be
        stored, it is added to `missing_files`; for another destination, a claim states why as its `problem`.
        """
        at_home = name is None or self._is_home(name)
        file = named.get("file")
        if isinstance(file, AgentFile):
            if at_home:
                ops = self._attach_home(block, file.row(), at_once=name not in (None, HOME))
                if ops and name is None:  # text after the file may have come before its place was known
                    block.claimed_chars = next(offset for offset, handed in block.handed_files if handed is named)
                return ops
            block.parts.append(self._file_elsewhere(name, file.row()))
        elif at_home:
            self.missing_files.setdefault(block.slot, []).append(named)
        else:
            reason = f"a file for {name!r} cannot be sent: {named.get('missing') or 'it holds no data'}"
            block.parts.append(self._hold_problem(MarkupProblem("unreadable", reason, "")))
        return []

    def _attach_home(self, block: StreamedBlock, file: Mapping[str, Any], at_once: bool) -> list[turn_ops.Op]:
        """Claim the text before a file, then the file, both for home.

        `at_once`: send both without waiting for the closing text. If the block has the same file already, an adapter
        has repeated it, and the repeat is ignored.
        """
        if file in block.home_files:
            return []
        block.home_files.append(file)
        if at_once:
            self._add_part(block, at_once)  # so that the text before it is sent, too
        ops = self._make_claims(block, block.parts)
        self._settle_parts(block)
        if self.home is not None and self.places.narrates_all(self.home):
            block.previewed = []  # the previewed text has a message of its own
        at = block.next_slot()
        follows = block.spoken[0].slot if block.spoken else None
        ops.append(turn_ops.Block(at, (self._say_file(file, at_once),), follows=follows))
        self._note_spoken(block, [SpokenPart(at, file=file)])
        return ops

    def _say_file(self, file: Mapping[str, Any], at_once: bool) -> ClaimRequest:
        more = {"kind": "file", "files": [file]}
        if self.home is None:
            return ClaimRequest("block", "", f"session:{self.session}", kind="file", more=more)
        leaves = at_once or self.places.narrates_all(self.home)
        legs = self.places.cut_file(self.home, self.session, file) if leaves else ()
        return ClaimRequest("block", "", self.home, kind="file", legs=legs, more=more)

    def _file_elsewhere(self, name: str | None, file: Mapping[str, Any]) -> ClaimRequest:
        place = self.places.resolve(self.session, self.home, name)
        self.claim_count += place.dest is not None
        return say_file_elsewhere(file, place, self.session, self.places)

    # ------------------------------------------------------------ another prompt joins the turn

    def before_join(self) -> list[turn_ops.Op]:
        """Prepare for another prompt that joins the turn: blocks that end later are no echoes of earlier texts.

        An open block ends here, unless the agent's message id shows that the block goes on. If the block repeats an
        earlier text verbatim so far, it ends as an echo of that text, and later text is not part of it.
        """
        return [op for block in self.open_blocks.values() for op in self._settle_for_join(block, self.originals)]

    def after_join(self) -> list[turn_ops.Op]:
        """Preview open blocks that were withheld as possible echoes, now that another prompt has joined the turn."""
        self.originals = {verbatim_form(word) for word in self.quiet}
        stretches = [(block, block.stretch) for block in self.open_blocks.values()]
        return [op for block, part in stretches if part is not None for op in self._restart_preview(block, part)]

    def _settle_for_join(self, block: StreamedBlock, originals: set[str]) -> list[turn_ops.Op]:
        stretch = block.stretch
        repeats = stretch is not None and not stretch.is_shown and verbatim_form(stretch.text) in originals
        if block.one_message and not repeats:
            return []
        ops = self._make_claims(block, block.parts)
        if ops and not block.one_message:
            ops += self.leave()
        self._settle_parts(block)
        block.home_files, block.spoken = [], []
        return ops

    def _settle_parts(self, block: StreamedBlock) -> None:
        """Forget the block's parts, because all text of the block so far has been claimed."""
        block.parts, block.stretch = [], None
        block.claimed_chars = sum(map(len, block.fed_texts)) - block.reader.waiting

    def _restart_preview(self, block: StreamedBlock, part: HomePart) -> list[turn_ops.Op]:
        if part.is_shown or self.judge_at_end:
            return []
        part.hold, part.waiting = EchoHold(self.originals), ""
        return self._preview(block, part, part.hold.feed(part.text))

    # ------------------------------------------------------------ the turn

    def claim_silence(self) -> list[turn_ops.Op]:
        """Claim an empty answer, which counts as quiet, if the turn allows quiet answers and the agent said nothing."""
        if not self.quiet or self.claim_count or self.held_count:
            return []
        return [turn_ops.Block(-1, (self._say_home(""),))]

    def supersede(self, slot: int, by: int) -> list[turn_ops.Op]:
        """Mark a block as superseded, because the block in the slot `by` repeats it in full.

        It can no longer be the closing text.
        """
        block = self.open_blocks.get(slot)
        if block is not None:
            block.superseded_by = by  # text that was not shown has no entry yet, and is marked when it is claimed
        slots = self._home_slots.get(slot, []) + ([part.slot for part in block.at_home()] if block else [])
        if not slots and slot not in self._home_slots:  # else it said only files, which stay
            slots = [slot]
        self._before_last = [b for b in self._before_last if not any(spoken_part.slot in slots for spoken_part in b)]
        if any(spoken_part.slot in slots for spoken_part in self.last_spoken):
            self.last_spoken = self._before_last.pop() if self._before_last else []
        return [turn_ops.Supersede(part_slot, by) for part_slot in slots]

    def closing(self) -> tuple[int | None, tuple[Leg, ...]]:
        """Return (slot, legs) of the last part of the closing text.

        Return (None, ()) if there is no closing text, or if every block is sent to the home anyway.
        """
        if not self.last_spoken or self.home is None or self.places.narrates_all(self.home):
            return None, ()
        return self.last_spoken[-1].slot, self._legs_of(self.home, self.last_spoken[-1])

    def _legs_of(self, home: str, spoken: SpokenPart) -> tuple[Leg, ...]:
        """Return the legs of a text or a file that was said at home."""
        if spoken.file is not None:
            return self.places.cut_file(home, self.session, spoken.file)
        return self.places.cut_answer(home, self.session, spoken.text)

    def leave(self, but_last: bool = False) -> list[turn_ops.Op]:
        """Send the last block that was said at home, if only closing texts are sent there.

        `but_last`: send all of its parts except the last one.
        """
        if self.home is None or self.places.narrates_all(self.home) or not self.places.is_on_channel(self.home):
            return []
        parts = self.last_spoken[:-1] if but_last else self.last_spoken
        self._before_last = []  # earlier blocks are not delivered after it
        return [turn_ops.Leave(spoken.slot, self._legs_of(self.home, spoken)) for spoken in parts]

    @property
    def is_streaming(self) -> bool:
        """Whether a preview of an open block is shown."""
        return any(block.is_shown for block in self.open_blocks.values())

    def previewed_text(self) -> Callable[[], str] | None:
        """Return a function that returns the latest block's previewed text; None if nothing was previewed."""
        texts = self._last_previewed
        if texts is None:
            return None
        count = len(texts)
        return lambda: "".join(texts[:count])


def say_file_elsewhere(
    file: Mapping[str, Any], place: ResolvedDestination, session: str, places: Destinations
) -> ClaimRequest:
    """Return the claim of a file for a destination other than home."""
    legs = places.cut_file(place.dest, session, file) if place.dest else ()
    more = {"kind": "file", "files": [file]}
    return ClaimRequest(
        "block", "", place.dest, kind="file", is_home=False, legs=legs, more=more, problem=place.problem
    )


def _intended_name(piece: Piece) -> str | None:
    """Return the name of the destination for which a piece is meant; None if it is for home, or if that is unclear."""
    return piece.dest if isinstance(piece, Said) else piece.to if isinstance(piece, MarkupProblem) else None
