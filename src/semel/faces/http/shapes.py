"""The shapes of request bodies and answers.

Requests are validated with them, and the OpenAPI document is made of them.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

Role = Literal["user", "agent", "event", "notice"]
PartState = Literal["queued", "sending", "sent", "unknown", "held", "rejected", "dropped"]


class Body(Struct, forbid_unknown_fields=True):
    """A request body: an unknown field is an error, not a field that is quietly ignored."""


class Say(Body):
    """A message from a person."""

    text: str
    sender: str | None = None
    id: str | None = None


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
    """`item` is the id of a permission request or question; `option` one of its options, null to cancel."""

    item: int
    option: str | None = None
    by: str | None = None


class Mode(Body):
    mode: str


class Model(Body):
    model: str


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


class Accepted(Struct):
    """`event` is the row that holds it, committed. A repeat is answered with the first one's."""

    event: int
    status: Literal["accepted", "duplicate"]


class Delivery(Struct, omit_defaults=True):
    """How an entry fares on its way to one destination: `parts` are in `state`, `part` is the first."""

    to: str
    state: PartState
    part: int
    parts: int = 1
    error: str | None = None


class File(Struct, omit_defaults=True):
    """A file that was sent: `id` is the blob, served at /v1/blobs/{id}."""

    id: str
    name: str
    mime: str = "application/octet-stream"
    size: int | None = None


class Entry(Struct, omit_defaults=True):
    """One row of the transcript. `at` is milliseconds since the epoch; `born` its place in the view.

    `to` and `from` are a destination and a session other than home; `of` is the seq of what is edited or
    reacted to; `item` the question that can be answered; `tool`: said by a tool call; `late`: after its turn;
    `echoes`: how often the same was said again and not sent again.
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
    item: int | None = None
    tool: bool = False
    late: bool = False
    echoes: int = 0
    delivery: list[Delivery] = []
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
    """A session: `waiting` counts the events that wait for a turn, `last` begins its last text."""

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
    turn: int | None = None


class Sessions(Struct):
    sessions: list[SessionRow]


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
