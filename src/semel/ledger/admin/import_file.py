"""Read an exported session, and check every line before the first one is imported.

The checks include what the laws demand of turns, events and claims. So importing a file that passes them breaks no book
(`semel.ledger.admin.books`). Each error names the line.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from semel.law.delivery import State as PartState
from semel.law.echo import ClaimWay as ClaimHow
from semel.law.identity import BadKey, check_event_key, check_session_key
from semel.law.turn import MAX_ATTEMPTS
from semel.law.turn import How as TurnHow
from semel.law.turn import State as TurnState
from semel.ledger.admin.export import ENTRY_SEQ_FIELDS, FORMAT, VERSION
from semel.ledger.inbound.commands import KIND as COMMAND
from semel.ledger.storage.rows import ClaimKind, EntryRole

MAX_LINE_BYTES = 16 << 20  # bytes of one line
Number = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Name = Annotated[str, Meta(min_length=1, max_length=600)]
Digest = Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{2}){1,64}$")]


class ExportLine(Struct, tag_field="line", forbid_unknown_fields=True):
    """One line of an export file; its field "line" names the kind."""


class SessionLine(ExportLine, tag="session"):
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
    origin: Name | None = None


class TurnLine(ExportLine, tag="turn"):
    turn: Positive
    root: Positive
    attempt: Annotated[int, Meta(ge=1, le=MAX_ATTEMPTS)]
    chapter: Positive
    how: TurnHow | None
    state: TurnState
    tools: Number
    stop: str | None
    error: str | None
    started: Number
    ended: Number | None


class EventCommand(Struct, forbid_unknown_fields=True):
    name: Name
    argument: str
    result: str


class EventPayload(Struct):
    """The checked fields of an event's payload: those that a turn reads. Other fields are kept unchecked."""

    text: str | None = None
    data: dict[str, Any] | None = None
    blocks: list[dict[str, Any]] = []


class EntryMention(Struct):
    start: Number
    end: Number
    name: str
    uri: str


class EntryEvent(Struct, forbid_unknown_fields=True):
    source: Name
    key: str | None
    kind: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    sender: str | None
    digest: Digest
    at: Number
    turn: Positive | None
    command: EventCommand | None = None
    payload: dict[str, Any] | None = None


class EntryClaim(Struct, forbid_unknown_fields=True):
    turn: Positive | None
    how: ClaimHow
    kind: ClaimKind
    late: bool
    tool: str | None
    dest: str | None
    digest: Digest | None
    reason: str | None
    at: Number
    text: str | None = None


class EntryFile(Struct):
    name: str
    id: str | None = None
    mime: str = ""
    size: Number | None = None
    missing: str | None = None


class EntryMore(Struct):
    """The checked fields of an entry's `more`: those that pages and other clients read.

    Other fields are kept unchecked.
    """

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
    files: list[EntryFile] = []
    data: dict[str, Any] | None = None
    tool: bool = False
    late: bool = False
    joined: bool = False
    supersedes: list[Number] = []
    mentions: list[EntryMention] = []


RESERVED_FIELDS = frozenset({
    "seq", "born", "rev", "at", "role", "text", "live", "partial", "superseded", "turn", "event", "claim", "echoes",
    "delivery", "html", "imported", "item", "waiting", "op", "id", "source", "key", "ended", "decisions",
})  # fmt: skip
"""Names of an entry's own fields: a field of that name in `more` would override the entry's."""


_SEQ_FIELDS = frozenset({*ENTRY_SEQ_FIELDS, "supersedes"})


class EntryDelivery(Struct, forbid_unknown_fields=True):
    to: str
    state: PartState
    parts: Number
    error: str | None = None
    failed: bool = False


class EntryLine(ExportLine, tag="entry"):
    seq: Positive
    at: Number
    role: EntryRole
    chapter: Positive
    text: str
    live: bool = False
    partial: bool = False
    superseded: bool = False
    turn: Positive | None = None
    more: dict[str, Any] | None = None
    event: EntryEvent | None = None
    claim: EntryClaim | None = None
    delivery: list[EntryDelivery] | None = None


class ClaimLine(ExportLine, tag="claim"):
    turn: Positive
    how: ClaimHow
    kind: ClaimKind
    late: bool
    tool: str | None
    dest: str | None
    digest: Digest | None
    text: str
    outcome: Literal["echo", "refused", "quiet"]
    reason: str | None
    of: Positive | None
    at: Number


class EndLine(ExportLine, tag="end"):
    entries: Number
    digest: Digest


AnyLine = SessionLine | TurnLine | EntryLine | ClaimLine | EndLine
_decoder = msgspec.json.Decoder(AnyLine)
_STAGES = {SessionLine: 0, TurnLine: 1, EntryLine: 2, ClaimLine: 3, EndLine: 4}


class BadFile(ValueError):
    """The file is not a complete, valid export of a session. The message names the line and its defect."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


def read_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, AnyLine]]:
    """Decode each line of an export; yield its number, from 1, and its record. Raises BadFile.

    This checks each line by itself; `check_file` also compares lines with each other.
    """
    for number, raw in enumerate(lines, 1):
        if len(raw) > MAX_LINE_BYTES:
            raise BadFile(number, f"it has more than {MAX_LINE_BYTES:,} bytes")
        try:
            record = _decoder.decode(raw)
            if isinstance(record, EntryLine):
                msgspec.convert(record.more or {}, EntryMore)
                msgspec.convert((record.event and record.event.payload) or {}, EventPayload)
            yield number, record
        except msgspec.ValidationError as error:
            raise BadFile(number, str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadFile(
                number, f"it is not a JSON object as `semel export --format jsonl` writes it ({error})"
            ) from None
        except ValueError as error:
            raise BadFile(number, str(error)) from None


@dataclass
class CheckedFile:
    """A description of a file that can be imported. `digest` identifies the content of all lines but the header.

    `lines`: the number of lines. `entries_digest`: of the identities of all entries.
    """

    header: SessionLine
    digest: str
    lines: int
    entries_digest: str


@dataclass
class _FileChecker:
    """Check a file line by line. Remember its turns, the identities of its events, and which entries have a claim."""

    header: SessionLine | None = None
    stage: int = 0
    seq: int = 0
    turns: dict[int, tuple[int, str]] = field(default_factory=dict)  # number -> (root, state)
    roots: dict[int, tuple[int, int]] = field(default_factory=dict)  # root -> (attempts, attempts not lost)
    events: dict[bytes, int] = field(default_factory=dict)  # digest of (source, key) -> line
    has_claim: bytearray = field(default_factory=bytearray)  # whether the entry has one, by seq
    end: EndLine | None = None

    def check_record(self, line: int, record: AnyLine) -> None:
        stage = _STAGES[type(record)]
        if (self.header is None) != (stage == 0):
            raise ValueError('the first line, and only it, must be the header ("line": "session")')
        if self.end is not None:
            raise ValueError("there is a line after the end record")
        if stage < self.stage:
            raise ValueError("it is out of order: the header, turns, entries, claims, the end")
        self.stage = stage
        match record:
            case SessionLine():
                self._check_header(record)
            case TurnLine():
                self._check_turn(record)
            case EntryLine():
                self._check_entry(line, record)
            case ClaimLine():
                self._check_claim(record)
            case EndLine():
                self.end = record

    def _check_header(self, header: SessionLine) -> None:
        if header.format != FORMAT:
            raise ValueError(f"its format is {header.format[:40]!r}, and must be {FORMAT!r}")
        if header.version != VERSION:
            raise ValueError(f"its version is {header.version}; this Semel reads version {VERSION}")
        check_session_key(header.key)
        if header.since > header.entries + 1:
            raise ValueError(f"since: there is no entry {header.since} for its chapter to begin with")
        if header.origin is not None and re.search(r"[\x00-\x1f]", header.origin):
            raise ValueError("origin: it holds a control character")
        self.header = header
        self.turn_chapters: dict[int, int] = {}
        self.first_chapter: int | None = None  # of the first entry; turns of earlier chapters are not exported
        self.has_claim = bytearray(1)

    def _check_turn(self, turn: TurnLine) -> None:
        assert self.header is not None
        if turn.turn > self.header.turns or turn.turn <= max(self.turns, default=0):
            raise ValueError("the turn's number must be above the one before, and at most the header's `turns`")
        self._require_chapter(turn.chapter)
        if turn.root != turn.turn and self.turns.get(turn.root, (0, ""))[0] != turn.root:
            raise ValueError(f"its root {turn.root} is not a first attempt")
        attempts, finished_attempts = self.roots.get(turn.root, (0, 0))
        if turn.attempt != attempts + 1:
            raise ValueError(f"it is attempt {turn.attempt} of root {turn.root}, and should be attempt {attempts + 1}")
        finished_attempts += turn.state != "lost"
        if attempts + 1 > MAX_ATTEMPTS or finished_attempts > 1 or (attempts == 0) != (turn.root == turn.turn):
            raise ValueError(f"root {turn.root} has too many attempts: {MAX_ATTEMPTS} at most, one of them not lost")
        self.turns[turn.turn] = (turn.root, turn.state)
        self.turn_chapters[turn.turn] = turn.chapter
        self.roots[turn.root] = (attempts + 1, finished_attempts)

    def _check_entry(self, line: int, entry: EntryLine) -> None:
        if entry.seq != self.seq + 1:
            raise ValueError(f"entry {entry.seq} follows entry {self.seq}; the next one is {self.seq + 1}")
        self.seq = entry.seq
        self._require_chapter(entry.chapter)
        self.first_chapter = entry.chapter if self.first_chapter is None else self.first_chapter
        self.has_claim.append(entry.claim is not None)
        if reserved := sorted(RESERVED_FIELDS & (entry.more or {}).keys()):
            raise ValueError(f"more: the field {reserved[0]!r} is reserved")
        if self._has_origin() and (named := sorted(_SEQ_FIELDS & (entry.more or {}).keys())):
            raise ValueError(f"more: the field {named[0]!r} is not for a file with an `origin`")
        if entry.role == "agent" and entry.claim is None and not entry.live:
            raise ValueError("an entry of role 'agent' needs its claim")
        if entry.role in ("user", "event") and entry.event is None:
            raise ValueError(f"an entry of role {entry.role!r} needs its event")
        self._require_turn(entry.turn)
        if entry.claim is not None:
            self._require_turn(entry.claim.turn)
        if entry.event is not None:
            self._check_event(line, entry.event)

    def _check_event(self, line: int, event: EntryEvent) -> None:
        if re.search(r"[\x00-\x1f]", event.source):
            raise ValueError("event: its source holds a control character")
        self._require_turn(event.turn)
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

    def _has_origin(self) -> bool:
        return self.header is not None and self.header.origin is not None

    def _check_claim(self, claim: ClaimLine) -> None:
        if self._has_origin():
            raise ValueError("a file with an `origin` has no claims without an entry")
        self._require_turn(claim.turn)
        if claim.of is not None and not (claim.of <= self.seq and self.has_claim[claim.of]):
            raise ValueError(f"of: entry {claim.of} was not said by a claim")
        if claim.outcome == "echo" and claim.of is None:
            raise ValueError("an echo needs `of`, the entry that it repeats")

    def _require_chapter(self, chapter: int) -> None:
        assert self.header is not None
        if chapter > self.header.chapter:
            raise ValueError(f"chapter {chapter} comes after the last one, {self.header.chapter}")

    def _require_turn(self, turn: int | None) -> None:
        if turn is not None and turn not in self.turns:
            raise ValueError(f"there is no turn {turn} above")
        if turn is not None and self.turn_chapters[turn] < (self.first_chapter or 0):
            raise ValueError(f"turn {turn} is of an earlier chapter than the first entry")


def check_file(lines: Iterable[bytes]) -> CheckedFile:
    """Check a whole file before any of it is imported. Return its header, digest and length. Raises BadFile."""
    checker, digest, number, previous = _FileChecker(), hashlib.blake2b(digest_size=16), 0, b""
    entries_digest = begin_entries_digest()

    def digest_lines() -> Iterator[bytes]:
        nonlocal previous, number
        for raw in lines:
            if number > 1:
                digest.update(previous)
            previous, number = raw, number + 1
            yield raw

    for line, record in read_lines(digest_lines()):
        try:
            checker.check_record(line, record)
        except (ValueError, BadKey) as error:
            raise BadFile(line, str(error)) from None
        if isinstance(record, EntryLine):
            entries_digest.update(entry_identity(record))
    if checker.header is None or checker.end is None:
        raise BadFile(number + 1, "the file ends too early: it was cut off, or is not an export")
    if not checker.seq == checker.header.entries == checker.end.entries:
        raise BadFile(number, f"it has {checker.seq} entries, and should have {checker.header.entries}")
    if digest.hexdigest() != checker.end.digest:
        raise BadFile(number, "its digest is wrong: the file was changed after it was exported")
    return CheckedFile(checker.header, digest.hexdigest(), number, entries_digest.hexdigest())


def begin_entries_digest() -> hashlib.blake2b:
    """Return the hash to which the identity of each entry is added, in order."""
    return hashlib.blake2b(digest_size=16)


def entry_identity(entry: EntryLine) -> bytes:
    """Return what makes an entry the same in a later file of its conversation: who spoke, its event's key, its text.

    Names of people are no part of it, because people change them.
    """
    return msgspec.json.encode([entry.role, entry.event and entry.event.key, entry.text])


def digest_entries(lines: Iterable[bytes], count: int) -> str:
    """Return the digest of the first `count` entries of a file that was checked."""
    digest = begin_entries_digest()
    entries = (record for _, record in read_lines(lines) if isinstance(record, EntryLine))
    for entry in itertools.islice(entries, count):
        digest.update(entry_identity(entry))
    return digest.hexdigest()
