"""Read an exported session: every line is checked before the first one is imported.

A file that passes cannot break a book: it is checked for what the laws demand of turns, events and claims. Each refusal
names its line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from semel.law.identity import BadKey, check_event_key, check_session_key
from semel.law.turn import MAX_ATTEMPTS
from semel.ledger.admin.export import FORMAT, VERSION
from semel.ledger.inbound.commands import KIND as COMMAND

MAX_LINE_BYTES = 16 << 20  # bytes of one line
Number = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Name = Annotated[str, Meta(min_length=1, max_length=600)]
Digest = Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{2}){1,64}$")]
How = Literal["tool", "block", "recovery", "notice"]
Kind = Literal["text", "file", "reaction", "edit", "ask"]


class Line(Struct, tag_field="line", forbid_unknown_fields=True):
    """One line of the file."""


class Session(Line, tag="session"):
    format: str
    version: int
    key: Name
    agent: str
    home: str | None
    title: str | None
    chapter: Positive
    since: Positive
    entries: Number
    turns: Number
    at: Number
    exported: Number
    ledger: str
    numbers: Number = 0


class Turn(Line, tag="turn"):
    turn: Positive
    root: Positive
    attempt: Annotated[int, Meta(ge=1, le=MAX_ATTEMPTS)]
    chapter: Positive
    how: Literal["start", "restart", "resume", "recall"] | None
    state: Literal["running", "done", "failed", "cancelled", "lost"]
    tools: Number
    stop: str | None
    error: str | None
    started: Number
    ended: Number | None


class Command(Struct, forbid_unknown_fields=True):
    name: Name
    argument: str
    result: str


class Payload(Struct):
    """What a turn reads of an event; other fields ride along."""

    text: str | None = None
    data: dict[str, Any] | None = None


class Event(Struct, forbid_unknown_fields=True):
    source: Name
    key: str | None
    kind: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    sender: str | None
    digest: Digest
    at: Number
    turn: Positive | None
    command: Command | None = None
    payload: dict[str, Any] | None = None


class Said(Struct, forbid_unknown_fields=True):
    turn: Positive | None
    how: How
    kind: Kind
    late: bool
    tool: str | None
    dest: str | None
    digest: Digest | None
    reason: str | None
    at: Number
    text: str | None = None


class File(Struct):
    name: str
    id: str | None = None
    mime: str = ""
    size: Number | None = None
    missing: str | None = None


class More(Struct):
    """Fields that faces read; others ride along."""

    kind: str | None = None
    sender: str | None = None
    to: str | None = None
    from_: str | None = msgspec.field(default=None, name="from")
    emoji: str | None = None
    of: Number | None = None
    quote: str | None = None
    whose: str | None = None
    edited: Number | None = None
    deleted: Number | None = None
    removed: bool = False
    files: list[File] = []
    data: dict[str, Any] | None = None
    tool: bool = False
    late: bool = False
    joined: bool = False


RESERVED_FIELDS = frozenset({
    "seq", "born", "rev", "at", "role", "text", "live", "partial", "superseded", "turn", "event", "claim", "echoes",
    "delivery", "html", "imported", "item", "waiting", "op", "id",
})  # fmt: skip
"""The entry's own fields: in `more` they would override them."""


class Way(Struct, forbid_unknown_fields=True):
    to: str
    state: Literal["queued", "sending", "sent", "unknown", "held", "rejected", "dropped"]
    parts: Number
    error: str | None = None
    failed: bool = False


class Entry(Line, tag="entry"):
    seq: Positive
    at: Number
    role: Literal["user", "agent", "event", "notice"]
    chapter: Positive
    text: str
    live: bool = False
    partial: bool = False
    superseded: bool = False
    turn: Positive | None = None
    more: dict[str, Any] | None = None
    event: Event | None = None
    claim: Said | None = None
    delivery: list[Way] | None = None


class Claim(Line, tag="claim"):
    turn: Positive
    how: How
    kind: Kind
    late: bool
    tool: str | None
    dest: str | None
    digest: Digest | None
    text: str
    outcome: Literal["echo", "refused", "quiet"]
    reason: str | None
    of: Positive | None
    at: Number


class End(Line, tag="end"):
    entries: Number
    digest: Digest


Any_ = Session | Turn | Entry | Claim | End
_decoder = msgspec.json.Decoder(Any_)
_KIND = {Session: 0, Turn: 1, Entry: 2, Claim: 3, End: 4}


class BadFile(ValueError):
    """The file is not a whole export of a session. The message names the line and what is wrong with it."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line


def read(lines: Iterable[bytes]) -> Iterator[tuple[int, Any_]]:
    """(number, record) of each line, decoded and checked by itself. Raises BadFile."""
    for number, raw in enumerate(lines, 1):
        if len(raw) > MAX_LINE_BYTES:
            raise BadFile(number, f"it has more than {MAX_LINE_BYTES:,} bytes")
        try:
            record = _decoder.decode(raw)
            if isinstance(record, Entry):
                msgspec.convert(record.more or {}, More)
                msgspec.convert((record.event and record.event.payload) or {}, Payload)
            yield number, record
        except msgspec.ValidationError as bad:
            raise BadFile(number, str(bad)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as bad:
            raise BadFile(
                number, f"it is not a JSON object as `semel export --format jsonl` writes it ({bad})"
            ) from None
        except ValueError as bad:
            raise BadFile(number, str(bad)) from None


@dataclass
class Checked:
    """A file that can be imported. `digest` identifies its content, independent of its header."""

    header: Session
    digest: str
    lines: int


@dataclass
class _Check:
    """Checks a whole file line by line. It remembers turns, event identities and which entries have a claim."""

    header: Session | None = None
    stage: int = 0
    seq: int = 0
    turns: dict[int, tuple[int, str]] = field(default_factory=dict)  # number -> root, state
    roots: dict[int, tuple[int, int]] = field(default_factory=dict)  # root -> attempts, of them not lost
    events: dict[bytes, int] = field(default_factory=dict)  # identity -> line
    said: bytearray = field(default_factory=bytearray)  # by seq
    end: End | None = None

    def take(self, line: int, record: Any_) -> None:
        stage = _KIND[type(record)]
        if (self.header is None) != (stage == 0):
            raise ValueError('the first line, and only it, must be the header ("line": "session")')
        if self.end is not None:
            raise ValueError("there is something after the end")
        if stage < self.stage:
            raise ValueError("it is out of order: the header, turns, entries, claims, the end")
        self.stage = stage
        match record:
            case Session():
                self.on_session(record)
            case Turn():
                self.on_turn(record)
            case Entry():
                self.on_entry(line, record)
            case Claim():
                self.on_claim(record)
            case End():
                self.end = record

    def on_session(self, head: Session) -> None:
        if head.format != FORMAT:
            raise ValueError(f"its format is {head.format[:40]!r}, and must be {FORMAT!r}")
        if head.version != VERSION:
            raise ValueError(f"its version is {head.version}; this Semel reads version {VERSION}")
        check_session_key(head.key)
        if head.since > head.entries + 1:
            raise ValueError(f"since: there is no entry {head.since} for its chapter to begin with")
        self.header = head
        self.said = bytearray(1)

    def on_turn(self, turn: Turn) -> None:
        assert self.header is not None
        if turn.turn > self.header.turns or turn.turn <= max(self.turns, default=0):
            raise ValueError("turns are numbered upwards, to what the header says")
        self.in_chapter(turn.chapter)
        if turn.root != turn.turn and self.turns.get(turn.root, (0, ""))[0] != turn.root:
            raise ValueError(f"its root {turn.root} is no first attempt")
        attempts, standing = self.roots.get(turn.root, (0, 0))
        standing += turn.state != "lost"
        if attempts + 1 > MAX_ATTEMPTS or standing > 1 or (attempts == 0) != (turn.root == turn.turn):
            raise ValueError(f"root {turn.root} has too many attempts: {MAX_ATTEMPTS} at most, one of them not lost")
        self.turns[turn.turn] = (turn.root, turn.state)
        self.roots[turn.root] = (attempts + 1, standing)

    def on_entry(self, line: int, entry: Entry) -> None:
        if entry.seq != self.seq + 1:
            raise ValueError(f"entry {entry.seq} follows entry {self.seq}; the next one is {self.seq + 1}")
        self.seq = entry.seq
        self.in_chapter(entry.chapter)
        self.said.append(entry.claim is not None)
        if taken := sorted(RESERVED_FIELDS & (entry.more or {}).keys()):
            raise ValueError(f"more: {taken[0]!r} cannot be in it")
        if entry.role == "agent" and entry.claim is None and not entry.live:
            raise ValueError("what an agent said needs its claim")
        if entry.role in ("user", "event") and entry.event is None:
            raise ValueError(f"an entry of role {entry.role!r} needs its event")
        self.known(entry.turn)
        if entry.claim is not None:
            self.known(entry.claim.turn)
        if entry.event is not None:
            self.on_event(line, entry.event)

    def on_event(self, line: int, event: Event) -> None:
        if re.search(r"[\x00-\x1f]", event.source):
            raise ValueError("event: its source holds a control character")
        self.known(event.turn)
        if (event.kind == COMMAND) != (event.command is not None) or (event.command and event.turn is not None):
            raise ValueError("event: a command, and nothing else, has a `command` and no turn")
        if event.turn is not None and self.turns[event.turn][1] == "lost":
            raise ValueError(f"event: turn {event.turn} was lost, and a lost turn has no events")
        if event.key is None:
            return
        check_event_key(event.key)
        identity = hashlib.blake2b(f"{event.source}\0{event.key}".encode(), digest_size=12).digest()
        if (first := self.events.setdefault(identity, line)) != line:
            raise ValueError(f"event: ({event.source}, {event.key}) is on line {first} already")

    def on_claim(self, claim: Claim) -> None:
        self.known(claim.turn)
        if claim.of is not None and not (claim.of <= self.seq and self.said[claim.of]):
            raise ValueError(f"of: entry {claim.of} was not said by a claim")
        if claim.outcome == "echo" and claim.of is None:
            raise ValueError("an echo needs `of`, the entry that it repeats")

    def in_chapter(self, chapter: int) -> None:
        assert self.header is not None
        if chapter > self.header.chapter:
            raise ValueError(f"chapter {chapter} comes after the last one, {self.header.chapter}")

    def known(self, turn: int | None) -> None:
        if turn is not None and turn not in self.turns:
            raise ValueError(f"there is no turn {turn} above")


def check(lines: Iterable[bytes]) -> Checked:
    """Read the whole file. Raises BadFile."""
    found, digest, number, last = _Check(), hashlib.blake2b(digest_size=16), 0, b""

    def seen() -> Iterator[bytes]:
        nonlocal last, number
        for raw in lines:
            if number > 1:
                digest.update(last)
            last, number = raw, number + 1
            yield raw

    for line, record in read(seen()):
        try:
            found.take(line, record)
        except (ValueError, BadKey) as bad:
            raise BadFile(line, str(bad)) from None
    if found.header is None or found.end is None:
        raise BadFile(number + 1, "the file ends before its end: it was cut off, or is no export")
    if not found.seq == found.header.entries == found.end.entries:
        raise BadFile(number, f"it has {found.seq} entries, and should have {found.header.entries}")
    if digest.hexdigest() != found.end.digest:
        raise BadFile(number, "its digest is another one: the file was changed after it was exported")
    return Checked(found.header, digest.hexdigest(), number)
