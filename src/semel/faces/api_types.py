"""Types of what the API answers about sessions: entries, items, states and search results.

They are published in the OpenAPI document, and are what `semel.Client` returns. Items are told apart by `kind`. The
frames of streams are made of them (`frame_types.py`).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from semel.law.delivery import State as PartState
from semel.law.wake import Busy as BusyMode

Role = Literal["user", "agent", "event", "notice"]


class Delivery(Struct, omit_defaults=True):
    """Delivery of an entry to one destination: it has `parts` parts, all in `state`; `part` is the id of the first.
    `failed`: it was sent, and failed later. `held`: the ids of its held parts, if there are several;
    `rejected`: of its rejected ones.
    """

    to: str
    state: PartState
    part: int
    parts: int = 1
    failed: bool = False
    error: str | None = None
    held: list[int] = []
    rejected: list[int] = []


class PartDecision(Struct):
    """What a person decided about a held or rejected part, by its id, and when, in milliseconds since 1970."""

    part: int
    decision: Literal["resend", "arrived", "drop"]
    at: int
    by: str


class File(Struct, omit_defaults=True):
    """A file that was sent or received, served at /v1/blobs/{id}. A file that is not available has no `id`, and
    `missing` is the reason. A file that an agent only linked to has its address as `uri`. `size`: in bytes; `width`,
    `height`: of an image, in pixels. `voice`: it is a voice note; `transcript`: what it says, if a program wrote it
    down; `untranscribed`: why none did.
    """

    id: str | None = None
    name: str = ""
    mime: str = "application/octet-stream"
    size: int | None = None
    missing: str | None = None
    uri: str | None = None
    width: int | None = None
    height: int | None = None
    voice: bool = False
    transcript: str | None = None
    untranscribed: str | None = None


class UploadedFile(Struct):
    """A file that waits for its message. `id`: names it in the `files` of a message. `mime`: by its content. `size`: in
    bytes. `expires`: when it is removed if no message took it, in ms since 1970.
    """

    id: str
    name: str
    mime: str
    size: int
    expires: int


class Covers(Struct, omit_defaults=True):
    """The entries that a summary stands for: those from `first` to `last` that belong to turns up to `turn`. Every
    entry before `since` is covered; later ones may not be. `cut`: the summary was made without reading all of them.
    """

    first: int
    last: int
    turn: int
    since: int
    cut: bool = False


class Mention(Struct):
    """A resource or a link in a message that came as content blocks: `text[start:end]` of its entry is its link, with
    the blanks that Semel set beside it.
    """

    start: int
    end: int
    name: str
    uri: str


class Tokens(Struct):
    """Tokens of a request to a model, as counted by its API."""

    input: int
    output: int


class Ended(Struct, omit_defaults=True):
    """How a turn ended. `stop`: the agent's stop reason (ACP's `StopReason`, or `error`), if it gave one. `error`: why
    the turn failed. `tokens`, `cost`: what the agent reported for this turn, the cost in its currency.
    """

    turn: int
    state: Literal["done", "failed", "cancelled"]
    stop: str | None = None
    error: str | None = None
    tokens: int | None = None
    cost: float | None = None


class Entry(Struct, omit_defaults=True):
    """One row of the transcript. `at` is milliseconds since 1970. The view shows entries and items in the order of
    `born`.

    State: `live`: the text is still streaming. `partial`: it was cut off. `superseded`: a later attempt at the turn
    replaced it. `supersedes`: the seqs of the entries that it replaces. `waiting`: the busy mode by which the message
    waits for a turn. `joined`: it joined a running turn. `ended`: how the turn for which it asked has ended.

    Origin: `source`, `key`: of its event. What came over the API has the source `api:` and the session's key, and the
    idempotency key that the caller chose. `from`: the session that it came from, if another one. `tool`: a tool call
    said it. `late`: it was said after its turn had ended. `automatic`: a program sent it. `data`: what the event's
    source reported besides the text. `imported`: it comes from an export.

    Delivery: `to`: the destination, if not home. `echoes`: how often the same text was said again and not sent again.
    `behind`: the session's chat got it after the entries up to this seq. `decisions`: what people decided about its
    held and rejected parts.

    References: `of`: the seq of the entry that this one edits, deletes, reacts or replies to; `quote`, `whose`: the
    beginning of that entry's text, and its author. `edited`, `deleted`: the seq of the entry that edited or deleted
    this one. `removed`: the reaction was taken back. `item`: the id of the question's item, which can be answered.

    A notice of kind `summary`: `covers`: the entries that it stands for in a model's prompts. `tokens`: its cost.
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
    supersedes: list[int] = []
    turn: int | None = None
    event: int | None = None
    claim: int | None = None
    source: str | None = None
    key: str | None = None
    kind: str | None = None
    sender: str | None = None
    to: str | None = None
    from_: str | None = field(default=None, name="from")
    files: list[File] = []
    mentions: list[Mention] = []
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
    behind: int | None = None
    echoes: int = 0
    delivery: list[Delivery] = []
    decisions: list[PartDecision] = []
    imported: dict[str, Any] | None = None
    waiting: BusyMode | None = None
    joined: bool = False
    ended: Ended | None = None
    automatic: bool = False
    covers: Covers | None = None
    tokens: Tokens | None = None
    html: str | None = None


class Accepted(Struct, omit_defaults=True):
    """`event` is the id of the committed event. A repeat returns the id of the first event.

    If the message has to wait for a turn, `waiting` is the busy mode by which it waits, `place` its place in the queue,
    from 1, and `why` the reason if it was not taken in the requested way. `note`: what the sender should know about the
    session that this message created.
    """

    event: int
    status: Literal["accepted", "duplicate"]
    waiting: BusyMode | None = None
    place: int | None = None
    why: str | None = None
    note: str | None = None


# ---------------------------------------------------------------- items


class ItemBase(Struct, kw_only=True, omit_defaults=True, tag_field="kind"):
    """What every item has. `live`: it may still change. `at`: when it came, in milliseconds since 1970."""

    id: int
    born: int
    rev: int
    text: str
    turn: int | None = None
    live: bool = False
    name: str | None = None
    files: list[File] = []
    at: int | None = None

    @property
    def kind(self) -> str:
        """The kind of the item, as in the JSON: `tool`, `permission` and so on."""
        return str(self.__struct_config__.tag)


class Diff(Struct, omit_defaults=True):
    """A change of a file, as ACP's `Diff`. Without `oldText`, the file is new. A diff that is too large has no text;
    `left_out` is the number of its characters.
    """

    path: str
    old_text: str | None = field(default=None, name="oldText")
    new_text: str | None = field(default=None, name="newText")
    left_out: int = 0


class Location(Struct, omit_defaults=True):
    """A place in a file, as ACP's `ToolCallLocation`."""

    path: str
    line: int | None = None


class ToolItem(ItemBase, tag="tool", kw_only=True):
    """A tool call. `text` is the head of its output, `gap` the number of characters left out after it, `tail` the end
    of the output; the whole is at /v1/sessions/{key}/outputs/{id}. `call`: the agent's id of the call (ACP's
    `toolCallId`); `name`: the tool's name, or else the same id. `input`: its arguments, as the agent sent them. `exit`:
    the exit code of a command. `diffs`: changes of files; `locations`: the files that it works on.

    `coloured`: the stored output has colours or other escape sequences, which `text` and `tail` lack.
    `truncated`: the agent itself left out a part of the output. `late`: output came after the call had ended. `lost`:
    the turn ended without a result. `ended_at`: in milliseconds since 1970.
    """

    title: str
    status: Literal["pending", "running", "done", "failed", "cancelled", "no result"]
    call: str | None = None
    tool_kind: str | None = None
    input: Any = None
    diffs: list[Diff] = []
    locations: list[Location] = []
    exit: int | None = None
    gap: int = 0
    tail: str = ""
    coloured: bool = False
    truncated: bool = False
    late: bool = False
    lost: bool = False
    ended_at: int | None = None


class ThoughtItem(ItemBase, tag="thought"):
    """What the agent thought aloud. `superseded`: the agent replaced it. `repeated`: it repeats an earlier thought.
    `ended_at`: in milliseconds since 1970.
    """

    superseded: bool = False
    repeated: bool = False
    ended_at: int | None = None


class PlanStep(Struct, omit_defaults=True):
    """A step of a plan, as ACP's `PlanEntry`."""

    content: str
    status: str = ""
    priority: str = ""


class PlanItem(ItemBase, tag="plan", kw_only=True):
    """The agent's plan for the turn. It is replaced as a whole."""

    entries: list[PlanStep]


class Option(Struct, omit_defaults=True):
    """An option of a request. Send its `optionId` as `option` of an answer. `kind`: ACP's `PermissionOptionKind`, such
    as `allow_once`, or `answer` for an option of a question.
    """

    option_id: str = field(name="optionId")
    name: str = ""
    kind: str = ""


class RequestBase(ItemBase, kw_only=True):
    """What can be answered. `answer`: the id of the chosen option, null if the request was cancelled; for a question,
    the text. `by`: who answered. `face`: where: `api` or a chat. `event`: the event of the answer; `key`: or else its
    idempotency key, if it had one. `seen`: the rev of the view in which it was answered. `button_part`: the id of the
    part whose buttons are taken away once it is over.
    """

    state: Literal["open", "answered", "cancelled", "expired"]
    options: list[Option]
    answer: str | None = None
    by: str | None = None
    face: str | None = None
    event: int | None = None
    key: str | None = None
    seen: int | None = None
    button_part: int | None = None


class PermissionItem(RequestBase, tag="permission", kw_only=True):
    """A request for permission. `input`: the arguments of the tool call; `call`: the agent's id of it; `tool_kind`,
    `diffs`, `locations`: as of a tool call. `first`: the number of its first option, for `/approve N`. `approvers`: who
    may answer it, as a phrase; `place`: where: by a command in its chat, by a reply in a group, or elsewhere, because
    nobody in its chat may. `expires`: when it is cancelled if nobody has answered it, in milliseconds since 1970.
    `announced`: the seq of the message that announced it in a chat; `hint`: the seq of the notice that told somebody
    who wrote a message how to answer. `told`: the keys of the sessions in which owners were told of it; `whose`: the
    name of the person in whose chat it was announced then.
    """

    title: str
    input: Any = None
    call: str | None = None
    tool_kind: str | None = None
    diffs: list[Diff] = []
    locations: list[Location] = []
    first: int | None = None
    approvers: str | None = None
    place: Literal["chat", "group", "elsewhere"] | None = None
    expires: int | None = None
    announced: int | None = None
    hint: int | None = None
    told: list[str] = []
    whose: str | None = None


class AskItem(RequestBase, tag="ask"):
    """A question of the agent. `text` is the question."""


class NoticeItem(ItemBase, tag="notice"):
    """A statement of the agent's program about the run, such as a warning. `queued`: it only says that the prompt is
    queued.
    """

    queued: bool = False


class UsageItem(ItemBase, tag="usage"):
    """How full the model's context is: `used` of `size` tokens, in `percent`. `cost`: as ACP's `Cost`."""

    used: int | None = None
    size: int | None = None
    percent: float | None = None
    cost: Any = None


Item = ToolItem | ThoughtItem | PlanItem | PermissionItem | AskItem | NoticeItem | UsageItem
"""What a watcher sees besides the transcript."""


# ---------------------------------------------------------------- the session


class SessionState(Struct, kw_only=True):
    """What is known of a session. `waiting`: the number of events that wait for a turn.

    `busy`: what happens to messages while the session is busy, if this was set for the session. `retry_at`: when a turn
    that failed temporarily is tried again (milliseconds since 1970); until then, it can be stopped like a running turn.
    `mode`: the agent's mode. `modes`, `models`, `commands`: what the agent offers, as ACP's `SessionModeState`,
    `SessionModelState` and `AvailableCommand`. `unattended_modes`: the ids of the modes in which the agent decides by
    itself, and nobody is asked for a permission. `options`: its configuration options, as ACP's `SessionConfigOption`;
    `chosen`: those that a person has set, as {id: value}. `tools`: whether the agent has Semel's tools; absent if that
    is not known yet. `steers`: whether the agent is known to read a message that joins a running turn. `gateway`: the
    gateway of a cluster that serves it.
    """

    key: str
    agent: str
    home: str | None
    state: Literal["idle", "running", "waiting", "deleted"]
    waiting: int
    title: str | None = None
    folder: str | None = None
    gateway: str | None = None
    archived: bool = False
    chapter: int = 1
    turn: int | None = None
    busy: BusyMode | None = None
    retry_at: int | None = None
    mode: str | None = None
    modes: dict[str, Any] | None = None
    unattended_modes: list[str] | None = None
    models: dict[str, Any] | None = None
    options: list[dict[str, Any]] | None = None
    chosen: dict[str, str | bool] | None = None
    commands: list[dict[str, Any]] | None = None
    tools: bool | None = None
    steers: bool | None = None


class SessionRow(SessionState):
    """A session in a list. `at`: the time of its last entry, in milliseconds since 1970; `last`: the beginning of that
    entry's text, as one line without Markdown. `workspace`: the absolute path of the folder in which its agent works;
    absent if the agent is not configured any more. `cost`: what its agent reports for the conversation so far, in the
    agent's currency.

    `seen`: the rev up to which the owner has seen it; `unread`: how many entries of agent and gateway came later.
    `approvals`, `questions`: how many requests and questions wait for an answer; `held`: how many parts wait for a
    decision; `failed`: why its last turn failed, if nothing came after that.
    """

    seq: int
    rev: int
    at: int
    last: str
    workspace: str | None = None
    cost: float | None = None
    seen: int | None = None
    unread: int = 0
    approvals: int = 0
    questions: int = 0
    held: int = 0
    failed: str | None = None


class Piece(Struct, omit_defaults=True):
    """A piece of a snippet. `hit` marks what matches the query."""

    text: str
    hit: bool = False


class Hit(Struct, omit_defaults=True):
    """An entry that matches the query. `snippet` is the part of its text around the match."""

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
