"""Types of what `GET /v1/status` and `GET /v1/why` answer (docs/api.md). Times are milliseconds since 1970."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from semel.faces.api_types import AskItem, PermissionItem
from semel.faces.http.operations.channels import ChannelState, RefusedRequest
from semel.faces.http.operations.outbox import Part
from semel.law.delivery import State as PartState
from semel.law.limits import Measure, Scope
from semel.ledger.storage.cluster import ClusterGateway


class AgentUsage(Struct, omit_defaults=True):
    """How full an agent's context is: `used` of `size` tokens. `cost`: of the conversation so far, as ACP's `Cost`."""

    used: int | None = None
    size: int | None = None
    percent: float | None = None
    cost: Any = None


class AgentProcess(Struct):
    """An agent's process. `tools`: whether the agent has Semel's tools; null if not known yet; `problem`: why not.
    `pid`: null if it runs in the gateway's process. `memory`: of its process group in bytes, `usage`: as it told last;
    null if not known.
    """

    session: str
    agent: str
    spawn: int
    busy: bool
    name: str
    tools: bool | None
    problem: str
    pid: int | None
    memory: int | None
    usage: AgentUsage | None


class AgentCheck(Struct):
    """What was found when `semel up` tried an agent."""

    level: Literal["ok", "warning", "broken"]
    text: str
    remedy: str
    at: int


class UsedLimit(Struct):
    """A limit that is used up for today."""

    scope: Scope
    subject: str
    measure: Measure


class Attention(Struct, omit_defaults=True):
    """A session that needs someone. `asks`: what a permission is asked for; `approve`, `deny`: the numbers for /approve
    and /deny that answer this request; `error`: why the last turn failed, or what
    the agent of a silent one said last; `until`: when the day of the `limit` ends.
    """

    session: str
    why: Literal["approval", "question", "failed", "silent", "limit"]
    at: int
    title: str | None = None
    turn: str | None = None
    asks: str | None = None
    approve: int | None = None
    deny: int | None = None
    error: str | None = None
    until: int | None = None
    limit: UsedLimit | None = None


class Need(Struct, omit_defaults=True):
    """What needs somebody. `item`: the request or question, which can be answered; `asks`, `approve`, `deny`: as in the
    status. `part`: the held part. `error`: why the last turn failed, what the agent of a silent one said last, or why
    the part is held. `until`: when the day of the `limit` ends. `at`: since when, in milliseconds since 1970.
    """

    session: str
    why: Literal["approval", "question", "failed", "silent", "held", "limit"]
    at: int
    title: str | None = None
    turn: str | None = None
    item: PermissionItem | AskItem | None = None
    asks: str | None = None
    approve: int | None = None
    deny: int | None = None
    part: Part | None = None
    error: str | None = None
    until: int | None = None
    limit: UsedLimit | None = None


class Needs(Struct):
    needs: list[Need]


class AgentNotice(Struct, omit_defaults=True):
    """A running turn whose agent `says` something of itself and nothing since, or the `silent` agent, which has shown
    nothing for long. `at`: since when the turn runs.
    """

    session: str
    turn: str
    at: int
    title: str | None = None
    says: str | None = None
    said_at: int | None = None
    silent: str | None = None


class PutOffTurn(Struct, omit_defaults=True):
    """A turn that failed and is tried again by itself. `at`: when; `attempt`: its number then."""

    session: str
    turn: str
    at: int
    attempt: int
    title: str | None = None
    error: str | None = None


class MissingAgent(Struct):
    """An agent that `sessions` have and that is not configured any more. `newest`: the keys of the newest of them."""

    agent: str
    successor: str | None
    sessions: int
    newest: list[str]
    text: str


class MissingChannel(Struct):
    """A channel that is not configured any more, though parts wait to be sent there."""

    channel: str
    parts: int
    text: str


class RefusedNode(Struct):
    """A node of which requests were refused since the gateway started. `node`: its name; null for requests that report
    an event and show no valid token; `refused`: how many, by the problem's code.
    """

    node: str | None
    refused: dict[str, int]
    last_refused: RefusedRequest


class MissingGateway(Struct):
    """A gateway of the cluster that is gone, though `sessions` wait for it. `newest`: the keys of the newest ones."""

    gateway: str
    sessions: int
    newest: list[str]
    text: str


class Gateways(Struct):
    """The gateways of the cluster that live, and those that are gone and that sessions wait for; none without one."""

    gateways: list[ClusterGateway]
    missing_gateways: list[MissingGateway]


class DelayedPart(Struct, kw_only=True):
    """A part that holds up its destination. `behind`: how many later ones wait for it; `due`: its next attempt."""

    part: int
    to: str
    state: PartState
    behind: int
    at: int
    error: str | UnsetType = UNSET
    due: int | UnsetType = UNSET


class Disk(Struct):
    """Sizes in bytes. `growth`: of ledger and files in a day; null if not known yet."""

    free: int
    ledger: int
    files: int
    growth: int | None


class Backup(Struct):
    """The last backup: its folder, and when it was made."""

    folder: str
    at: int


class Restore(Struct):
    """The last restore. `folder`: the backup; `at`: when that was made; `restored`: when it was put back."""

    folder: str
    at: int
    restored: int


class BooksCheck(Struct):
    """The last check of the books. `broken`: the names of the broken laws."""

    at: int
    seconds: float
    laws: int
    entries: int
    broken: list[str]


class ObjectStorage(Struct):
    """Where the files of messages are. `problem`: why the last request there failed."""

    url: str
    problem: str | None


class InstalledAgent(Struct):
    """A known agent on PATH. `line`: what its section of the configuration file needs."""

    name: str
    command: list[str]
    line: str


class Status(Struct):
    """The state of the gateway. `uptime`: in seconds. `workspaces`: the folder of each configured agent."""

    version: str
    uptime: float
    started: int
    configured: list[str]
    workspaces: dict[str, str]
    turns: int
    agents: list[AgentProcess]
    checks: dict[str, AgentCheck]
    watchers: int
    parts: dict[str, int]
    found: list[InstalledAgent]
    problem: str | None
    attention: list[Attention]
    agent_notices: list[AgentNotice]
    put_off: list[PutOffTurn]
    delayed: list[DelayedPart]
    rejected: int
    missing_agents: list[MissingAgent]
    missing_channels: list[MissingChannel]
    channels: list[ChannelState]
    refused_nodes: list[RefusedNode]
    database: str | None
    object_storage: ObjectStorage | None
    gateways: list[ClusterGateway]
    missing_gateways: list[MissingGateway]
    disk: Disk
    backup: Backup | None
    restore: Restore | None
    books: BooksCheck | None


class StoryLine(Struct):
    """A line of a story."""

    at: int
    text: str


class AwaitedLimit(UsedLimit):
    """A limit for which an event waits in a session. `noticed`: a later notice of the session says so."""

    session: str
    until: int
    noticed: bool


class Story(Struct):
    """The story of a row. An event also has `turns`, the ids of all attempts that took it, and `limits` if it waits."""

    ref: str
    kind: Literal["event", "claim", "part", "turn"]
    lines: list[StoryLine]
    turns: list[int] | UnsetType = UNSET
    limits: list[AwaitedLimit] | UnsetType = UNSET
