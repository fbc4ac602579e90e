"""The rows of the ledger's tables: one class per table, whose fields are the columns that the program reads.

Each column is declared here once. The statements in `queries/*.sql` refer to the columns by the class (`{TurnRow t}`),
and mypy knows the type of each column wherever a row is used. A statement that reads other columns has a small class of
its own: beside the function that runs the statement, or here if modules of several packages use the class.
`tests/ledger/test_rows.py` compares the fields with the schema: names, types, listed values, and whether they may be
NULL.

SQLite has no boolean: a column that is 0 or 1 is an int.
"""

from __future__ import annotations

from typing import Literal, dataclass_transform

from msgspec import Struct

from semel.law.access import Role
from semel.law.delivery import State as PartState
from semel.law.echo import ClaimWay as ClaimHow
from semel.law.echo import Outcome
from semel.law.turn import How as TurnHow
from semel.law.turn import State as TurnState
from semel.law.wake import Busy
from semel.timing.schedule import MissedFiringsPolicy, ScheduleKind

ClaimKind = Literal["text", "file", "reaction", "edit", "ask"]
CommandState = Literal["open", "done", "void"]
EntryRole = Literal["user", "agent", "event", "notice"]
EvidenceKind = Literal["said", "asked", "echo", "recorded", "notice", "stopped", "quiet", "deleted", "imported"]
JobState = Literal["asked", "running", "finished", "lost", "failed"]
Origin = Literal["config", "added", "paired"]
PairingState = Literal["open", "used", "void"]
ScheduleSource = Literal["config", "api", "agent"]
SpawnState = Literal["live", "ended"]


@dataclass_transform(frozen_default=True)
class Row(Struct, frozen=True, gc=False):
    """A row of a query's result. The fields of a subclass are the columns of the query, in order."""


# ---------------------------------------------------------------- the ledger


class LedgerRow(Row):
    """The single row of the table `ledger`."""

    name: str
    incarnation: int
    commits: int
    copied: int | None
    at: int


class RestoreRow(Row):
    """A restore that was settled. `part`, `turn`: the newest part and the newest turn that the backup contained."""

    incarnation: int
    copied: int
    at: int
    part: int
    turn: int


# ---------------------------------------------------------------- sessions and what they heard


class HomeSession(Row):
    """A session, with only the columns that are needed to say something at its home."""

    id: int
    key: str
    home: str | None
    turn: int | None


class SessionRow(HomeSession):
    """A session."""

    agent: str
    title: str | None
    chapter: int
    epoch: int
    seq: int
    numbers: int
    rev: int
    wake_at: int | None
    wake_since: int | None
    busy: Busy | None
    lease: str | None
    memory: str | None
    memory_chapter: int | None
    about: str | None
    summary: int | None
    archived: int | None
    deleted: int | None
    erased: int
    erased_rev: int
    at: int
    cost: int | None
    aged_epoch: int
    aged_claim: int
    folder: str | None
    seat: str | None
    away: int | None
    seen: int | None


class EventRow(Row):
    """An event."""

    id: int
    source: str
    key: str | None
    kind: str
    sender: str | None
    digest: bytes
    payload: str | None
    at: int
    repeats: int
    erased_at: int | None


class CommandRow(Row):
    """A command to the gateway, as recorded in one session."""

    event: int
    session: int
    seq: int
    name: str
    argument: str
    result: str
    state: CommandState
    answer: int | None


class OpenCommand(CommandRow):
    """A command that has no answer yet. `key`: its session's key. `sender`: the sender of its event."""

    key: str
    sender: str | None


# ---------------------------------------------------------------- turns


class TurnRow(Row):
    """A turn, that is one attempt of its root."""

    id: int
    session: int
    epoch: int
    chapter: int
    root: int
    attempt: int
    how: TurnHow | None
    state: TurnState
    tools: int
    spawn: int | None
    stop: str | None
    error: str | None
    retry_at: int | None
    stopped: str | None
    stop_seq: int | None
    evidence: EvidenceKind | None
    evidence_row: int | None
    started: int
    ended: int | None
    day: str | None
    tokens: int | None
    cost: int | None


class AddedTurn(TurnRow):
    """A turn that was just added. Each is 1 if its session has waiting events, entries to tell."""

    has_waiting: int
    has_entries_to_tell: int


class AddedEvent(Row):
    """An event that was just added. `has_live_items`: 1 if the session that was named has items that are not over."""

    id: int
    has_live_items: int


class BoundEvent(Row):
    """An event that is bound to a turn. `seq`, `role` and `more`: of its entry. `wakes`: 1 if it asked for the turn."""

    id: int
    source: str
    key: str | None
    kind: str
    sender: str | None
    payload: str | None
    at: int
    seq: int
    wakes: int
    role: EntryRole
    more: str | None


class SpawnRow(Row):
    """One start of an agent process."""

    id: int
    session: int
    agent: str
    gateway: str
    pid: int | None
    pgid: int | None
    born: str | None
    state: SpawnState
    at: int
    ended: int | None
    why: str | None


class JobRow(Row):
    """A background job."""

    id: int
    run: str
    session: int
    agent: str
    turn: int | None
    command: str
    name: str
    seconds: float
    state: JobState
    cancelled: str | None
    code: int | None
    error: str | None
    event: int | None
    at: int
    ended: int | None
    gateway: str | None


class SessionJob(JobRow):
    """A job, with its session's key and folder."""

    key: str
    folder: str | None


# ---------------------------------------------------------------- the transcript


class EntryRow(Row):
    """An entry of the transcript."""

    id: int
    session: int
    seq: int
    born: int
    rev: int
    base: int
    at: int
    role: EntryRole
    text: str
    live: int
    partial: int
    superseded: int
    turn: int | None
    event: int | None
    claim: int | None
    tell: int
    more: str | None


class ClaimEntry(Row):
    """An entry of a claim. A claim may have entries in several sessions."""

    session: int
    seq: int
    superseded: int


class ItemRow(Row):
    """An item, which watchers see beside the transcript: a tool call or a permission request, for example."""

    id: int
    session: int
    turn: int | None
    kind: str
    name: str | None
    born: int
    rev: int
    base: int
    live: int
    text: str
    body: str


class BlobRow(Row):
    """A stored file. `id`: the digest of its content. `size`: in bytes."""

    id: str
    size: int
    name: str
    mime: str
    at: int


class FileObjectRow(Row):
    """An object in object storage. `blob`: its file. `n`: its number. `size`: of the file, in bytes."""

    blob: str
    n: int
    size: int
    is_needed: bool


# ---------------------------------------------------------------- delivery


class ClaimRow(Row):
    """A claim."""

    id: int
    session: int
    turn: int | None
    root: int | None
    how: ClaimHow
    kind: ClaimKind
    late: int
    spawn: int | None
    conn: str | None
    call: str | None
    tool: str | None
    args: bytes | None
    answered: int
    dest: str | None
    digest: bytes | None
    text: str
    outcome: Outcome
    reason: str | None
    echo_of: int | None
    edits: int | None
    part_of: int | None
    erased: int | None
    seq: int | None
    at: int


class AddedClaim(Row):
    """A claim that was just added. `is_shared`: 1 if another session has its destination as its home."""

    id: int
    is_shared: int


class EarlierClaim(Row):
    """An earlier claim that said the same text or file.

    `gone`: 1 if no later claim can be an echo of it any more. `leaves`: 1 if it has parts.
    """

    id: int
    session: int
    seq: int | None
    turn: int | None
    how: ClaimHow
    outcome: Outcome
    echo_of: int | None
    gone: int
    leaves: int


class TurnClaimBoundaries(Row):
    """The moments of a turn that a `semel.law.echo.ClaimBoundaries` names, each as a claim's id.

    A column holds the id of the newest claim at that moment; -1 if the moment has not come.
    """

    corrected: int
    joined: int
    joined_root: int


class PartRow(Row):
    """A part of an utterance on its way to a platform."""

    id: int
    line: int
    claim: int
    n: int
    lo: int
    hi: int
    channel: str
    dest: str
    key: str
    op: str
    state: PartState
    due: int
    attempts: int
    first: int | None
    receipt: str | None
    error: str | None
    marked: int  # 1: it is sent with a sign that it may be a repeat; 2: a person resent it, and it had not arrived
    failed: int | None
    at: int


class PartAttemptRow(Row):
    """One attempt to send a part. `at`, `ended`: in ms. `state`: what it made of the part."""

    part: int
    n: int
    at: int
    ended: int
    state: PartState
    error: str | None


class OutgoingPart(PartRow):
    """A part, with columns of its claim and the key of its session."""

    session: int
    outcome: Outcome
    how: ClaimHow
    reason: str | None
    session_key: str


# ---------------------------------------------------------------- schedules and people


class ScheduleRow(Row):
    """A schedule. `anchor`, `due`, `fired` and `at` are in ms. `enabled`: 1, or 0 if it is paused.

    Of a schedule that semel.toml named and does not any more, `enabled` is 3, or 2 if it is paused.
    """

    id: int
    name: str
    session: str
    text: str
    form: ScheduleKind
    spec: str
    tz: str
    downtime: MissedFiringsPolicy
    source: ScheduleSource
    enabled: int
    anchor: int
    due: int | None
    fired: int | None
    event: int | None
    error: str | None
    at: int


class ListedSchedule(ScheduleRow):
    """A schedule, with its last firing and the turn that took it.

    `ran`: when that firing was accepted, in ms. `sender`: who asked for it; None if it was due by itself. `opened`: its
    session's id, None if that session does not exist yet. `home`: that session's home.
    """

    ran: int | None
    sender: str | None
    turn: int | None
    state: TurnState | None
    opened: int | None
    home: str | None


class PersonRow(Row):
    """An account of a known person on a channel."""

    id: int
    channel: str
    account: str
    name: str
    role: Role
    origin: Origin
    at: int


class PairingRow(Row):
    """A pairing code, without its salt and digest."""

    id: int
    channel: str
    name: str
    role: Role
    state: PairingState
    account: str | None
    key: str | None
    at: int
    expires: int
