"""Types of request bodies and answers.

Requests are validated against them, and the OpenAPI document is generated from them: docstrings here are published as
descriptions.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

Role = Literal["user", "agent", "event", "notice"]
BusyMode = Literal["queue", "steer", "interrupt", "collect"]
PartState = Literal["queued", "sending", "sent", "unknown", "held", "rejected", "dropped"]


class Body(Struct, forbid_unknown_fields=True):
    """A request body: an unknown field is an error, not a field that is quietly ignored."""


class Say(Body):
    """A message from a person. `busy`: what becomes of it while the session is busy, instead of by the session's own
    mode; `automatic`: a program sent it; `seen`: the rev of the view that the person had before them.
    """

    text: str
    sender: str | None = None
    id: str | None = None
    busy: BusyMode | None = None
    automatic: bool = False
    seen: int | None = None


class Report(Body):
    """An event: something that happened elsewhere. `wakes` left out: its kind decides."""

    kind: str
    text: str
    key: str | None = None
    data: dict[str, Any] | None = None
    wakes: bool | None = None


class Stop(Body):
    by: str | None = None


class Answer(Body):
    """`item` is the id of a permission request or question; `option` one of its options, null to cancel a request.
    `seen`: the rev of the view that it was answered in.
    """

    item: int
    option: str | None = None
    by: str | None = None
    seen: int | None = None


class Mode(Body):
    mode: str


class Model(Body):
    model: str


class SessionChange(Body):
    """`title`: null gives it back to the agent. `archived`: put away, or brought back. What is left out stays."""

    title: str | UnsetType | None = UNSET
    archived: bool | UnsetType = UNSET


class Chapter(Body):
    """`by`: who begins it; `id`: a key, so that a repeat begins no second one."""

    by: str | None = None
    id: str | None = None


class Busy(Body):
    """null: as configured."""

    mode: BusyMode | None


class Login(Body):
    token: str


class NewSchedule(Body):
    """Exactly one of `cron`, `at` and `every`. Without `session` it has one of its own, `schedule:NAME`."""

    name: str
    text: str
    session: str | None = None
    cron: str | None = None
    at: str | None = None
    every: str | None = None
    tz: str = "UTC"
    downtime: str = "once"
    replace: bool = False


class Firing(Struct):
    """The last firing: when it was due (ms), its event, and the turn that took it."""

    due: int
    event: int
    turn: int | None
    state: str


class Schedule(Struct, omit_defaults=True):
    """`next` is when it fires next (ms), null where it is paused or over; `error` is why it was paused by itself."""

    name: str
    session: str
    text: str
    tz: str
    downtime: Literal["skip", "once", "all"]
    source: Literal["config", "api", "agent"]
    enabled: bool
    next: int | None
    last: Firing | None
    cron: str | None = None
    at: str | None = None
    every: str | None = None
    error: str | None = None


class Schedules(Struct):
    schedules: list[Schedule]


class Job(Struct, omit_defaults=True):
    """A command in the background. `seconds` is its time limit; `at` and `ended` are ms; `event` told how it ended.

    asked: it is about to start. lost: what watched it was killed. failed: it could not be started, see `error`.
    """

    id: str
    session: str
    agent: str
    state: Literal["asked", "running", "finished", "lost", "failed"]
    command: str
    seconds: float
    at: int
    name: str | None = None
    turn: int | None = None
    cancelled_by: str | None = None
    exit: int | None = None
    error: str | None = None
    event: int | None = None
    ended: int | None = None


class Jobs(Struct):
    jobs: list[Job]


class Accepted(Struct, omit_defaults=True):
    """`event` is the row that holds it, committed. A repeat is answered with the first one's.

    `waiting` is the busy mode by which it waits for a turn, `place` its place in the line of what waits, from 1;
    `why` tells why it was not taken in the way it was asked for. Absent where it does not wait.
    """

    event: int
    status: Literal["accepted", "duplicate"]
    waiting: BusyMode | None = None
    place: int | None = None
    why: str | None = None


class Delivery(Struct, omit_defaults=True):
    """How an entry fares on its way to one destination: `parts` are in `state`, `part` is the first; `held` names each
    that is held, where it is several."""

    to: str
    state: PartState
    part: int
    parts: int = 1
    failed: bool = False
    error: str | None = None
    held: list[int] = []


class File(Struct, omit_defaults=True):
    """A file that was sent or received: `id` is the blob, served at /v1/blobs/{id}. One that is not there has no id,
    and `missing` says why; one that an agent only linked to has its address, `uri`."""

    id: str | None = None
    name: str = ""
    mime: str = "application/octet-stream"
    size: int | None = None
    missing: str | None = None
    uri: str | None = None


class Covers(Struct, omit_defaults=True):
    """What a summary stands for: entries `first` to `last` of turns up to `turn`. What it does not cover begins at
    `since` or behind it. `cut`: it could not be made from all of that."""

    first: int
    last: int
    turn: int
    since: int
    cut: bool = False


class Tokens(Struct):
    """What a request to a model was counted as by its API."""

    input: int
    output: int


class Entry(Struct, omit_defaults=True):
    """One row of the transcript. `at` is milliseconds since the epoch; `born` its place in the view.

    `to` and `from` are a destination and a session other than home; `of` is the seq of what is edited or
    reacted to, deleted or replied to, `quote` the beginning of its text and `whose` it is; `edited` and `deleted` name
    the entry by which a message was; `removed`: a reaction that was taken back; `data` is what the event's source told
    beside the text; `item` the question that can be answered; `tool`: said by a tool call; `late`: after its turn;
    `echoes`: how often the same was said again and not sent again. `waiting`: the busy mode by which it waits, until
    a turn takes it; `joined`: it joined a turn that ran; `automatic`: a program sent it. `covers`: a notice of the
    kind "summary" stands for those entries in the prompts of a model; `tokens`: what it cost.
    """

    seq: int
    born: int
    rev: int
    at: int
    role: Role
    text: str
    live: bool = False
    partial: bool = False
    superseded: bool = False
    turn: int | None = None
    event: int | None = None
    claim: int | None = None
    kind: str | None = None
    sender: str | None = None
    to: str | None = None
    from_: str | None = field(default=None, name="from")
    files: list[File] = []
    emoji: str | None = None
    of: int | None = None
    quote: str | None = None
    whose: str | None = None
    edited: int | None = None
    deleted: int | None = None
    removed: bool = False
    data: dict[str, Any] | None = None
    item: int | None = None
    tool: bool = False
    late: bool = False
    echoes: int = 0
    delivery: list[Delivery] = []
    imported: dict[str, Any] | None = None
    waiting: BusyMode | None = None
    joined: bool = False
    automatic: bool = False
    covers: Covers | None = None
    tokens: Tokens | None = None
    html: str | None = None


class Item(Struct, omit_defaults=True):
    """What a watcher sees beside the transcript; its further fields depend on `kind`."""

    id: int
    born: int
    rev: int
    kind: str
    turn: int | None = None
    live: bool = False
    text: str = ""


class SessionRow(Struct):
    """A session: `waiting` counts the events that wait for a turn, `last` begins its last text.

    `busy` is what becomes of messages while it is busy, where it was set; `retry_at` (ms) is when its turn, which
    failed for a reason that passes, is tried again: until then it can be stopped like one that runs.
    """

    key: str
    agent: str
    home: str | None
    state: Literal["idle", "running", "waiting"]
    waiting: int
    seq: int
    rev: int
    at: int
    last: str
    title: str | None = None
    archived: bool = False
    chapter: int = 1
    turn: int | None = None
    busy: BusyMode | None = None
    retry_at: int | None = None


class Piece(Struct, omit_defaults=True):
    """A piece of a text; `hit`: it is what was looked for."""

    text: str
    hit: bool = False


class Hit(Struct, omit_defaults=True):
    """An entry that was found; `snippet` is the stretch around what was looked for."""

    session: str
    seq: int
    at: int
    role: Role
    snippet: list[Piece]
    title: str | None = None
    archived: bool = False
    chapter: int = 1
    sender: str | None = None
    kind: str | None = None
    from_: str | None = field(default=None, name="from")


class IndexState(Struct):
    """`current`: everything that was committed when the search was asked is in it. `behind`: sessions that are not."""

    current: bool
    behind: int


class Found(Struct):
    """One page; `next` is the `after` of the next one, null where this is the last."""

    hits: list[Hit]
    next: str | None
    index: IndexState


class Imported(Struct):
    """`known`: the session was there already, line by line."""

    session: str
    status: Literal["imported", "known"]
    entries: int


class Sessions(Struct):
    """`more`: there are older ones; ask again with the last one's key as `before`."""

    sessions: list[SessionRow]
    more: bool | UnsetType = UNSET


class Entries(Struct):
    """Every entry whose rev is above `after`, oldest change first; `rev` is what to ask from next."""

    entries: list[Entry]
    rev: int


class History(Struct):
    """What came before; `more` tells whether there is still older, and `before` what to ask with for it."""

    entries: list[Entry]
    items: list[Item]
    more: bool
    before: int = 0


class Memory(Struct):
    """`lacks`: messages of the record that the agent does not remember; `extra`: what it believes to have said, and
    nobody was told. `compared` is false, and `why` says so, where it cannot tell.
    """

    compared: bool
    lacks: list[dict[str, Any]]
    extra: list[str]
    why: str | UnsetType = UNSET


class Part(Struct):
    """One piece of an utterance as it leaves; further fields tell its attempts, error and receipt."""

    id: int
    dest: str
    state: PartState


class Parts(Struct):
    parts: list[Part]


class Stopped(Struct):
    """`stopped` is false where no turn was running."""

    stopped: bool


class Answered(Struct):
    """`already`: somebody was faster. `closed`: it is not open any more."""

    outcome: Literal["answered", "already", "closed"]


class Book(Struct):
    """One conservation law: `rows` are what breaks it."""

    name: str
    ok: bool
    rows: list[Any]
    what: str


class Doctor(Struct):
    ok: bool
    books: list[Book]
    ledger: dict[str, Any]


class Health(Struct):
    ok: bool
