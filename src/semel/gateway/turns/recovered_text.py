"""Record and show text and tool calls of lost attempts that only the agent remembers (Laws 6, 9).

The agent's history is compared, text by text, with the texts that people were shown (`semel.law.interrupted_turn`).
Additional texts become entries. The last one is partial unless the turn is known to have ended, because it may have
been cut off. Tool calls that only the agent's history contains become rows, too: they had started, so the turn is not
restarted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from semel.acp_stream import ViewItem
from semel.acp_stream.attachment import AgentFile
from semel.acp_stream.redelivery import without_white_space
from semel.gateway.outbound.destinations import HOME, Destinations, ResolvedDestination
from semel.gateway.turns.block_claims import say_file_elsewhere
from semel.gateway.turns.call_details import pick_item_fields
from semel.gateway.turns.stream_view import OutputView
from semel.law import interrupted_turn
from semel.ledger.delivery.claims import ClaimRequest
from semel.ledger.turns import turn_ops
from semel.ledger.turns.history import Deed
from semel.ledger.turns.turns import BegunTurn
from semel.ledger.turns.utterances import Utterance, WrittenBlock
from semel.text.message_markup import AddressedFile, MarkupProblem, MarkupReader, Said
from semel.text.visible import is_blank

FIRST_SLOT = -1000  # first slot of recovered text, counting down; streamed text has slots above


@dataclass(frozen=True)
class LostAttempts:
    """The lost attempts of a turn.

    `utterances`, `tool_calls`, `blocks`: as recorded. `remembered`: the turn in the agent's history; None if the agent
    replayed no history, or if the turn is not in it.
    """

    utterances: tuple[Utterance, ...] = ()
    tool_calls: tuple[Deed, ...] = ()
    blocks: tuple[WrittenBlock, ...] = ()
    remembered: interrupted_turn.Remembered | None = None

    @property
    def calls(self) -> list[interrupted_turn.RecordedCall]:
        """The recorded tool calls, in the form that `interrupted_turn` compares."""
        return [interrupted_turn.RecordedCall(call.call, call.title, call.input) for call in self.tool_calls]

    @property
    def remembered_calls(self) -> list[ViewItem]:
        """The tool calls in the agent's memory of the turn."""
        return self.remembered.calls if self.remembered is not None else []

    @property
    def is_complete(self) -> bool:
        """Whether the agent's history has the complete answer, and shows that the turn had ended."""
        sent = [utterance.text for utterance in self.utterances if utterance.how == "tool" and utterance.kind == "text"]
        return self.remembered is not None and self.remembered.is_complete(self.calls, sent)

    @property
    def forgotten_calls(self) -> list[Deed]:
        """The recorded tool calls that the agent may have forgotten, or whose end it may not know."""
        missing, _ = interrupted_turn.match_calls(self.calls, self.remembered_calls)
        return [row for row, call in zip(self.tool_calls, self.calls, strict=True) if row.lost or call in missing]


@dataclass
class RecoveredText:
    """The operations that record and show recovered text and tool calls.

    `slots`: the slots of the texts in `ops`. `remembered_claims`: claims whose text was shown, and which the agent
    remembers in the same words. `answer`: the claim of the text with which the turn is known to have ended.
    """

    ops: list[turn_ops.Op] = field(default_factory=list)
    slots: set[int] = field(default_factory=set)
    remembered_claims: set[int] = field(default_factory=set)
    answer: int | None = None


@dataclass(frozen=True)
class _Part:
    """A part of a remembered message: a text or a `file`.

    `say`: its claim, if it is for a destination other than home. `closed`: its markup shows that it is complete.
    `block`: the number of its block.
    """

    text: str
    say: ClaimRequest | None = None
    closed: bool = False
    file: AgentFile | None = None
    block: int = 0


def recover_text(
    lost: LostAttempts,
    begun: BegunTurn,
    places: Destinations,
    names: Sequence[str],
    quiet: Sequence[str],
    *,
    ended: bool,
) -> RecoveredText:
    """Find the texts and calls that the agent remembers and people were not shown.

    Return the operations that show them. `names`: the destination names of the session. `quiet`: replies that count as
    quiet. `ended`: the turn is known to have ended.
    """
    recollection = RecoveredText()
    if lost.remembered is None:
        return recollection
    items = lost.remembered.items
    pieces: list[_Part | ViewItem] = []
    held_texts = [piece.text for piece in lost.blocks if piece.refused]
    lasts: set[int] = set()  # indexes of the last pieces before another prompt or the end: they may have been cut off
    asked_again, number = lost.remembered.asked_again, 0
    for block, run in _join_split(zip(_number_blocks(items, asked_again), items, strict=True)):
        if number in asked_again:
            lasts.add(len(pieces) - 1)
        number += len(run)
        if run[0].kind == "tool":
            pieces += run
            continue
        contents: list[str | AgentFile] = []
        for item in run:
            contents += [item.text, *_files_of(item)]
        pieces += [replace(part, block=block) for part in _read_parts(contents, begun, places, names, held_texts)]
    lasts.add(len(pieces) - 1)
    # A text that equals a text which a tool sent is an echo of it; any other text is said (Law 5).
    written = [interrupted_turn.RecordedText(piece.claim, piece.text, piece.cut) for piece in lost.blocks if piece.home]
    by_tool = [
        without_white_space(piece.text)
        for piece in lost.utterances
        if piece.home and piece.how == "tool" and piece.fate != "failed"
    ]
    texts = [(n, piece) for n, piece in enumerate(pieces) if isinstance(piece, _Part) and piece.file is None]
    homes = {n: piece.text for n, piece in texts if piece.say is None}
    beyond = interrupted_turn.compare_messages(homes, written)
    waiting = _list_waiting(lost.utterances)
    known_contents = {
        content for piece in lost.utterances if piece.home and piece.fate != "failed" for content in piece.file_ids
    }
    _, unknown = interrupted_turn.match_calls(lost.calls, lost.remembered.calls)
    firsts: dict[int, int] = {}  # block -> the slot of the first part of it that is said
    for n, piece in enumerate(pieces):
        slot = FIRST_SLOT - n
        if isinstance(piece, ViewItem):
            recollection.ops += _open_call(slot, piece) if piece in unknown else []
        elif piece.file is not None and piece.say is None:
            if (content := piece.file.id or piece.file.uri) not in known_contents:
                known_contents.add(str(content))
                first = firsts.setdefault(piece.block, slot)
                say = _say_file(piece.file, begun, places)
                recollection.ops.append(turn_ops.Block(slot, (say,), follows=first if first != slot else None))
        elif piece.say is not None:
            if piece.say.dest is None and piece.text in held_texts:
                continue
            recollection.ops.append(turn_ops.Block(slot, (piece.say,)))
        elif (comparison := beyond[n]).equal_claim is not None:
            recollection.remembered_claims.add(comparison.equal_claim)
            recollection.answer = comparison.equal_claim if ended and n == max(homes) else None
            later = (text for k, text in homes.items() if k > n)
            if comparison.equal_claim in waiting and n not in lasts and not _is_begun_again(piece.text, later):
                legs = _say_home(waiting[comparison.equal_claim], begun, places, quiet, piece, False).legs
                recollection.ops += [turn_ops.Complete(comparison.equal_claim, legs)] if legs else []
        elif not is_blank(comparison.rest):
            partial = n == len(pieces) - 1 and not ended and not piece.closed
            if partial and any(
                sent != (half := without_white_space(comparison.rest)) and sent.startswith(half) for sent in by_tool
            ):
                continue  # it is the beginning of a text that a tool sent, so its preview was withheld (Law 5)
            first = firsts.setdefault(piece.block, slot)
            say = _say_home(comparison.rest, begun, places, quiet, piece, partial)
            recollection.ops.append(turn_ops.Block(slot, (say,), partial, False, first if first != slot else None))
            recollection.slots.add(slot)
    return recollection


def _read_parts(
    contents: Sequence[str | AgentFile],
    begun: BegunTurn,
    places: Destinations,
    names: Sequence[str],
    held_texts: Sequence[str] = (),
) -> list[_Part]:
    """Split a remembered message into parts: its texts, with its files in their places.

    `contents`: its texts and files, in order. `held_texts`: texts that were held back from people; they are not shown
    now either. If a history joins blocks, a tag that was never closed also encloses the blocks after it; these are read
    separately.
    """
    reader = MarkupReader(bool(names), (HOME, *names, *([begun.home] if begun.home else [])))
    out: list[_Part] = []
    stretch: list[str] = []
    pieces = [
        piece
        for content in contents
        for piece in (reader.feed(content) if isinstance(content, str) else reader.add_file(content))
    ]
    for piece in (*pieces, *reader.end(), Said(None, "", final=True)):
        if isinstance(piece, Said) and piece.dest is None:
            stretch.append(piece.text)
        if stretch and (not isinstance(piece, Said) or piece.dest is not None or piece.final):
            out += [] if is_blank(joined := "".join(stretch)) else [_Part(joined)]
            stretch = []
        if isinstance(piece, AddressedFile):
            place = places.resolve(begun.key, begun.home, piece.dest)
            at_home = place.home or piece.dest in (None, HOME)
            say = None if at_home else say_file_elsewhere(piece.file.row(), place, begun.key, places)
            out.append(_Part("", say, True, piece.file))
        elif isinstance(piece, Said) and piece.dest is not None:
            place = places.resolve(begun.key, begun.home, piece.dest)
            at_home = place.home or piece.dest == HOME
            out.append(_Part(piece.text, None if at_home else _say_elsewhere(piece, place, begun, places), True))
        elif isinstance(piece, MarkupProblem) and (behind := _strip_held_text(piece.text, held_texts)):
            out += _read_parts([behind], begun, places, names, held_texts)
        elif isinstance(piece, MarkupProblem) and piece.to == HOME:
            out += [_Part(piece.text)] if piece.text else []
            out += [_Part("", file=file) for file in piece.files]
    return out


def _strip_held_text(text: str, held_texts: Sequence[str]) -> str:
    """Return the text after the longest held-back text at its beginning; "" if it begins with none."""
    fitting = [text_held for text_held in held_texts if text_held.strip() and text.startswith(text_held)]
    return text[len(max(fitting, key=len)) :].strip() if fitting else ""


def _number_blocks(items: Sequence[ViewItem], asked_again: Collection[int]) -> list[int]:
    """Return the block number of each item. A tool call, another message id or another prompt begins a new block.

    `asked_again`: the indexes of the items before which another prompt came.
    """
    numbers: list[int] = []
    number, message = 0, None
    for n, item in enumerate(items):
        named = item.fields.get("message_id")
        another = named is not None and message is not None and named != message
        if item.kind == "tool" or another or n in asked_again:
            number, message = number + 1, None
        message = named or message
        numbers.append(number)
    return numbers


def _join_split(items: Iterable[tuple[int, ViewItem]]) -> list[tuple[int, list[ViewItem]]]:
    """Group the items, and return each group with its block number. Texts that only a file separates form one group."""
    out: list[tuple[int, list[ViewItem]]] = []
    for block, item in items:
        number, run = out[-1] if out else (None, [])
        together = number == block and "tool" not in (item.kind, run[-1].kind)
        if together and (_files_of(item) or _files_of(run[-1])):
            run.append(item)
        else:
            out.append((block, [item]))
    return out


def _is_begun_again(text: str, later: Iterable[str]) -> bool:
    """Return whether one of the `later` texts begins with this text and goes on.

    Then only the later text is delivered.
    """
    begun = without_white_space(text)
    return any(len(form := without_white_space(other)) > len(begun) and form.startswith(begun) for other in later)


def _list_waiting(utterances: Sequence[Utterance]) -> dict[int, str]:
    """Return {claim: text} of cut-off texts for home that can still be sent, because nothing later was sent there."""
    waiting: dict[int, str] = {}
    for utterance in (utterance for utterance in utterances if utterance.home):
        if utterance.fate not in ("unsent", "seen"):
            waiting.clear()
        elif utterance.cut and not utterance.superseded:
            waiting[utterance.claim] = utterance.text
    return waiting


def _files_of(message: ViewItem) -> list[AgentFile]:
    """Return the files in a message; [] for a tool call, whose files are shown with the call itself."""
    named = message.fields.get("content", ()) if message.kind == "message" else ()
    return [block["file"] for block in named if isinstance(block.get("file"), AgentFile)]


def _say_file(file: AgentFile, begun: BegunTurn, places: Destinations) -> ClaimRequest:
    """Return the claim of a file for home that was never recorded."""
    home, row = begun.home, file.row()
    legs = places.cut_file(home, begun.key, row) if home is not None and places.narrates_all(home) else ()
    more = {"kind": "file", "files": [row]}
    return ClaimRequest("recovery", "", home or f"session:{begun.key}", kind="file", legs=legs, more=more)


def _say_elsewhere(piece: Said, place: ResolvedDestination, begun: BegunTurn, places: Destinations) -> ClaimRequest:
    legs = places.cut_legs(place.dest, begun.key, piece.text) if place.dest else ()
    return ClaimRequest("block", piece.text, place.dest, is_home=False, legs=legs, problem=place.problem)


def _say_home(
    text: str, begun: BegunTurn, places: Destinations, quiet: Sequence[str], part: _Part, partial: bool
) -> ClaimRequest:
    """Return the claim of a recovered text for home. A text that may be cut off is sent only as the turn's answer."""
    home = begun.home
    leaves = home is not None and not partial and (part.closed or places.narrates_all(home))
    legs = places.cut_answer(str(home), begun.key, text) if leaves else ()
    return ClaimRequest("recovery", text, home or f"session:{begun.key}", legs=legs, quiet_words=tuple(quiet))


def _open_call(slot: int, item: ViewItem) -> list[turn_ops.Op]:
    """Return the operations that show a tool call which only the agent's history contains."""
    body = pick_item_fields(item.fields)
    if interrupted_turn.is_open(item):
        body |= {"status": "no result", "lost": True}
    output = OutputView()
    output.grow(item.text)
    name = str(item.fields["call"]) if item.fields.get("call") else None
    opened = turn_ops.ItemOpen(slot, "tool", name, output.head, {**body, **output.body()}, live=False, started=True)
    return [opened, turn_ops.ItemGrow(slot, output=item.text)] if item.text else [opened]
