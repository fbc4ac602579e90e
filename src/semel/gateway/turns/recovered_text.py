"""Record and show what only the agent remembers of its lost attempts (Laws 6, 9).

The agent's history is compared text by text with what people were shown (`semel.law.interrupted_turn`). Additional text
becomes entries; the last one is partial unless the turn is known to have ended, because it may have been cut off. Tool
calls that only the agent's history has become rows, too: they had started, so the turn is not restarted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from semel.acp_stream import Item
from semel.acp_stream.attachment import AgentFile
from semel.acp_stream.redelivery import bare
from semel.gateway.outbound.destinations import HOME, Place, Places
from semel.gateway.turns.speech import say_file_elsewhere
from semel.gateway.turns.stream_view import Output
from semel.law import interrupted_turn
from semel.ledger.delivery.claims import Say
from semel.ledger.turns import show
from semel.ledger.turns.history import Deed
from semel.ledger.turns.turns import Begun
from semel.ledger.turns.utterances import Block, Utterance
from semel.text.message_markup import HandedFile, Problem, Reader, Said
from semel.text.visible import is_blank

FIRST_SLOT = -1000  # first slot of recovered text, counting down; streamed text has slots above


@dataclass(frozen=True)
class LostAttempts:
    """What is known of the lost attempts of a turn: by the record, and by their agent's memory, if it told of it."""

    said: tuple[Utterance, ...] = ()
    deeds: tuple[Deed, ...] = ()
    blocks: tuple[Block, ...] = ()
    remembered: interrupted_turn.Remembered | None = None

    @property
    def calls(self) -> list[interrupted_turn.Call]:
        """The tool calls of the record."""
        return [interrupted_turn.Call(one.call, one.title, one.input) for one in self.deeds]

    @property
    def remembered_calls(self) -> list[Item]:
        """The tool calls that the agent remembers."""
        return self.remembered.calls if self.remembered is not None else []

    @property
    def is_complete(self) -> bool:
        """Whether the agent remembers the whole answer, and that the turn had ended."""
        sent = [one.text for one in self.said if one.how == "tool" and one.kind == "text"]
        return self.remembered is not None and self.remembered.is_complete(self.calls, sent)

    @property
    def untold(self) -> list[Deed]:
        """The tool calls that the agent may not remember, or not as they ended."""
        missing, _ = interrupted_turn.match_calls(self.calls, self.remembered_calls)
        return [deed for deed, call in zip(self.deeds, self.calls, strict=True) if deed.lost or call in missing]


@dataclass
class Recollection:
    """`ops` to be shown. `slots` are theirs, one for each text; `whole`: claims of what was shown and is remembered in
    the same words; `answer`: the claim of that with which the turn is known to have ended."""

    ops: list[show.Op] = field(default_factory=list)
    slots: set[int] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)
    answer: int | None = None


@dataclass(frozen=True)
class _Part:
    """One part of a message of the past: text or a `file` for home, or (`say`) either for another place. `closed`: its
    markup says where it ended. `block`: the number of the block it stands in."""

    text: str
    say: Say | None = None
    closed: bool = False
    file: AgentFile | None = None
    block: int = 0


def recollect(
    lost: LostAttempts, begun: Begun, places: Places, names: Sequence[str], quiet: Sequence[str], *, ended: bool
) -> Recollection:
    """What an agent remembers beyond what was shown. `ended`: it is known that the turn had ended."""
    out = Recollection()
    if lost.remembered is None:
        return out
    items = lost.remembered.items
    told: list[_Part | Item] = []
    held = [one.text for one in lost.blocks if one.refused]
    lasts: set[int] = set()  # what stands last before another prompt, or at the end: it may have been cut off there
    asked_again, number = lost.remembered.asked_again, 0
    for block, run in _join_split(zip(_number_blocks(items, asked_again), items, strict=True)):
        if number in asked_again:
            lasts.add(len(told) - 1)
        number += len(run)
        if run[0].kind == "tool":
            told += run
            continue
        said: list[str | AgentFile] = []
        for item in run:
            said += [item.text, *_files_of(item)]
        told += [replace(part, block=block) for part in _read_parts(said, begun, places, names, held)]
    lasts.add(len(told) - 1)
    # What a tool sent is no text of the agent: one that equals it is its echo, and any other is said (Law 5).
    written = [interrupted_turn.Written(one.claim, one.text, one.cut) for one in lost.blocks if one.home]
    by_tool = [bare(one.text) for one in lost.said if one.home and one.how == "tool" and one.fate != "failed"]
    texts = [(n, one) for n, one in enumerate(told) if isinstance(one, _Part) and one.file is None]
    homes = {n: one.text for n, one in texts if one.say is None}
    beyond = interrupted_turn.compare(homes, written)
    waiting = _list_waiting(lost.said)
    kept = {content for one in lost.said if one.home and one.fate != "failed" for content in one.contents}
    _, unknown = interrupted_turn.match_calls(lost.calls, lost.remembered.calls)
    firsts: dict[int, int] = {}  # block -> the slot of what is said first of it
    for n, one in enumerate(told):
        slot = FIRST_SLOT - n
        if isinstance(one, Item):
            out.ops += _open_call(slot, one) if one in unknown else []
        elif one.file is not None and one.say is None:
            if (content := one.file.id or one.file.uri) not in kept:
                kept.add(str(content))
                first = firsts.setdefault(one.block, slot)
                say = _say_file(one.file, begun, places)
                out.ops.append(show.Block(slot, (say,), follows=first if first != slot else None))
        elif one.say is not None:
            if one.say.dest is None and one.text in held:
                continue
            out.ops.append(show.Block(slot, (one.say,)))
        elif (found := beyond[n]).whole is not None:
            out.whole.add(found.whole)
            out.answer = found.whole if ended and n == max(homes) else None
            later = (text for k, text in homes.items() if k > n)
            if found.whole in waiting and n not in lasts and not _is_begun_again(one.text, later):
                legs = _say_home(waiting[found.whole], begun, places, quiet, one, False).legs
                out.ops += [show.Complete(found.whole, legs)] if legs else []
        elif not is_blank(found.rest):
            partial = n == len(told) - 1 and not ended and not one.closed
            if partial and any(sent != (half := bare(found.rest)) and sent.startswith(half) for sent in by_tool):
                continue  # an echo that was cut off: it was not shown while it could become one (Law 5)
            first = firsts.setdefault(one.block, slot)
            say = _say_home(found.rest, begun, places, quiet, one, partial)
            out.ops.append(show.Block(slot, (say,), partial, False, first if first != slot else None))
            out.slots.add(slot)
    return out


def _read_parts(
    said: Sequence[str | AgentFile], begun: Begun, places: Places, names: Sequence[str], held: Sequence[str] = ()
) -> list[_Part]:
    """What a message of the past says, part by part: its text, with the files where they stood in it.

    What was held back in it has reached nobody, and does not now.

    `held`: the texts that were held back. A history that joins blocks lets a tag that was never closed take in the
    blocks behind it, too: those are read by themselves.
    """
    reader = Reader(bool(names), (HOME, *names, *([begun.home] if begun.home else [])))
    out: list[_Part] = []
    stretch: list[str] = []
    pieces = [piece for one in said for piece in (reader.feed(one) if isinstance(one, str) else reader.hand(one))]
    for piece in (*pieces, *reader.end(), Said(None, "", final=True)):
        if isinstance(piece, Said) and piece.dest is None:
            stretch.append(piece.text)
        if stretch and (not isinstance(piece, Said) or piece.dest is not None or piece.final):
            out += [] if is_blank(joined := "".join(stretch)) else [_Part(joined)]
            stretch = []
        if isinstance(piece, HandedFile):
            place = places.resolve(begun.key, begun.home, piece.dest)
            at_home = place.home or piece.dest in (None, HOME)
            say = None if at_home else say_file_elsewhere(piece.file.row(), place, begun.key, places)
            out.append(_Part("", say, True, piece.file))
        elif isinstance(piece, Said) and piece.dest is not None:
            place = places.resolve(begun.key, begun.home, piece.dest)
            at_home = place.home or piece.dest == HOME
            out.append(_Part(piece.text, None if at_home else _say_elsewhere(piece, place, begun, places), True))
        elif isinstance(piece, Problem) and (behind := _behind(piece.text, held)):
            out += _read_parts([behind], begun, places, names, held)
        elif isinstance(piece, Problem) and piece.to == HOME:
            out += [_Part(piece.text)] if piece.text else []
            out += [_Part("", file=file) for file in piece.files]
    return out


def _behind(text: str, held: Sequence[str]) -> str:
    """The rest of a text after the held-back text that it begins with; "" if there is none."""
    fitting = [one for one in held if one.strip() and text.startswith(one)]
    return text[len(max(fitting, key=len)) :].strip() if fitting else ""


def _number_blocks(items: Sequence[Item], asked_again: Collection[int]) -> list[int]:
    """Which block each item stands in: a tool call ends one, another message id does, and so does another prompt."""
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


def _join_split(items: Iterable[tuple[int, Item]]) -> list[tuple[int, list[Item]]]:
    """The items of a history, with the number of their block: the texts that a file stands between are one message."""
    out: list[tuple[int, list[Item]]] = []
    for block, item in items:
        number, run = out[-1] if out else (None, [])
        together = number == block and "tool" not in (item.kind, run[-1].kind)
        if together and (_files_of(item) or _files_of(run[-1])):
            run.append(item)
        else:
            out.append((block, [item]))
    return out


def _is_begun_again(text: str, later: Iterable[str]) -> bool:
    """Whether one of the later texts says it from its beginning, and goes on: that one stands for it."""
    begun = bare(text)
    return any(len(form := bare(one)) > len(begun) and form.startswith(begun) for one in later)


def _list_waiting(said: Sequence[Utterance]) -> dict[int, str]:
    """What broke off at home, and can still leave there: it stands, and nothing that was said behind it has left."""
    waiting: dict[int, str] = {}
    for one in (one for one in said if one.home):
        if one.fate not in ("unsent", "seen"):
            waiting.clear()
        elif one.cut and not one.superseded:
            waiting[one.claim] = one.text
    return waiting


def _files_of(message: Item) -> list[AgentFile]:
    """What the agent handed over in its text; a tool call shows its own files."""
    named = message.fields.get("content", ()) if message.kind == "message" else ()
    return [one["file"] for one in named if isinstance(one.get("file"), AgentFile)]


def _say_file(file: AgentFile, begun: Begun, places: Places) -> Say:
    """A file that was handed over and never recorded."""
    home, row = begun.home, file.row()
    legs = places.carrying(home, begun.key, row) if home is not None and places.narrates_all(home) else ()
    more = {"kind": "file", "files": [row]}
    return Say("recovery", "", home or f"session:{begun.key}", kind="file", legs=legs, more=more)


def _say_elsewhere(piece: Said, place: Place, begun: Begun, places: Places) -> Say:
    legs = places.legs(place.dest, begun.key, piece.text) if place.dest else ()
    return Say("block", piece.text, place.dest, home=False, legs=legs, problem=place.problem)


def _say_home(text: str, begun: Begun, places: Places, quiet: Sequence[str], part: _Part, partial: bool) -> Say:
    """What was said at home and never shown. Where it may have been cut off, it leaves only as the answer."""
    home = begun.home
    leaves = home is not None and not partial and (part.closed or places.narrates_all(home))
    legs = places.spoken(str(home), begun.key, text) if leaves else ()
    return Say("recovery", text, home or f"session:{begun.key}", legs=legs, quiet=tuple(quiet))


def _open_call(slot: int, item: Item) -> list[show.Op]:
    """A tool call that only the agent's memory has."""
    body = {name: item.fields[name] for name in ("title", "status", "tool_kind", "input") if name in item.fields}
    if interrupted_turn.is_open(item):
        body |= {"status": "no result", "lost": True}
    if item.fields.get("files"):
        body["files"] = [file.row() for file in item.fields["files"]]
    output = Output()
    output.grow(item.text)
    name = str(item.fields["call"]) if item.fields.get("call") else None
    opened = show.ItemOpen(slot, "tool", name, output.head, {**body, **output.body()}, live=False, started=True)
    return [opened, show.ItemGrow(slot, output=item.text)] if item.text else [opened]
