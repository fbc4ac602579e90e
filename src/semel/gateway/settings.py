"""What a gateway is told before it starts: plain values, already checked, already resolved.

`semel.faces.config` makes these from semel.toml; a program that embeds a gateway makes them itself.
Times are seconds. Paths are absolute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from semel.law.access import Policy, Role, Strangers
from semel.law.busy import Busy
from semel.law.echo import QUIET_WORD
from semel.law.turn import MAX_ATTEMPTS

Permissions = Literal["ask", "allow", "deny"]
"""What becomes of an agent's permission requests: a person is asked, or every one is allowed or denied."""

Narration = Literal["last", "all"]
"""What a chat channel delivers of a turn's text: the closing text, or every block."""


HEARTBEAT_TEXT = "Nothing happened here for a while. If something needs to be done or said, do it."
"""What an agent is asked where nothing happened; which word says nothing is told beside it."""


@dataclass(frozen=True)
class McpSettings:
    """An MCP server that a model agent is given: a command, or a URL with headers. `env` joins the ordinary ones."""

    command: tuple[str, ...] = ()
    url: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ModelSettings:
    """What an agent of kind "model" is, beside what every agent is. `key` is the secret itself; None: its provider's
    own environment variable."""

    model: str  # "provider:name", as pydantic-ai calls it
    key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    instructions: str = "AGENTS.md"  # a file in the workspace, read at each prompt; it need not be there
    tools: tuple[str, ...] = ("read", "write", "edit", "list", "search", "shell")
    mcp: Mapping[str, McpSettings] = field(default_factory=dict)
    context: int = 100_000  # tokens, estimated, of everything a request holds
    max_tokens: int | None = None  # of one answer
    max_requests: int = 100  # to the model, in one turn
    compaction: bool = True  # a past that does not fit is summarised by the model
    options: Mapping[str, Any] = field(default_factory=dict)  # pydantic-ai's ModelSettings: temperature, thinking ...


@dataclass(frozen=True)
class AgentSettings:
    """A configured agent. `command` is its argv; `cwd` is the workspace its files may be sent from."""

    name: str
    command: tuple[str, ...]
    cwd: Path
    kind: str = "acp"
    env: Mapping[str, str] = field(default_factory=dict)  # joins the ordinary variables; secrets of ours never pass
    permissions: Permissions = "ask"
    approvals: tuple[str, ...] = ("owner",)  # who may answer its requests in a chat: roles, and names of people
    idle_after: float | None = None  # None: the gateway's `idle_agent_s`
    attempts: int = MAX_ATTEMPTS  # how often one turn is tried, where it is lost or fails for a passing reason: 1 to 3
    silence: float = 1800.0  # an asked agent that tells nothing for so long, with no tool running, counts as lost
    trace: Path | None = None  # a directory for the wire of its conversations, as `semel fold` reads it
    model: ModelSettings | None = None  # of kind "model": it has no command


@dataclass(frozen=True)
class PersonSettings:
    """A person whom the configuration knows. `accounts` are "channel:id"."""

    name: str
    role: Role
    accounts: tuple[str, ...] = ()


@dataclass(frozen=True)
class GroupSettings:
    """How a group is listened to: what wakes the agent there, and what becomes of strangers."""

    policy: Policy = "mention"
    strangers: Strangers = "refuse"


@dataclass(frozen=True)
class ChannelSettings:
    """A configured channel account. `options` are its kind's own settings, secrets already read."""

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    narration: Narration = "last"
    stream: bool = False  # an answer is shown while it is written, by edits of one message
    resend_unknown: bool = False  # repeats over holds (docs/laws.md, safety classes)
    agent: str | None = None  # who thinks for its sessions; None: the default agent
    people: bool = True  # False: nobody has an account there; whoever shows its secret speaks, as `role`
    role: Role = "member"
    strangers: Strangers = "refuse"  # what becomes of them where nobody else is
    groups: Policy = "mention"
    group: Mapping[str, GroupSettings] = field(default_factory=dict)  # by address, or a pattern of addresses

    def room(self, address: str) -> GroupSettings:
        """How the group at an address is listened to: by its own entry, or the first pattern that fits."""
        exact = self.group.get(address)
        if exact is not None:
            return exact
        fits = (told for pattern, told in self.group.items() if "*" in pattern and fnmatchcase(address, pattern))
        return next(fits, GroupSettings(self.groups))


@dataclass(frozen=True)
class DestinationSettings:
    """A name that agents may write in `<message to="name">`, for the sessions that `allow` matches."""

    name: str
    channel: str
    address: str
    allow: tuple[str, ...] = ()  # shell patterns over session keys; none: no session

    @property
    def resolved(self) -> str:
        """`channel:address`, what claims and parts are recorded with."""
        return f"{self.channel}:{self.address}"

    def allows(self, session: str) -> bool:
        return any(fnmatchcase(session, pattern) for pattern in self.allow)


@dataclass(frozen=True)
class ScheduleSettings:
    """A configured schedule. `spec` is a cron, a date and time or an interval (docs/schedules.md), as `form` says."""

    name: str
    form: Literal["cron", "at", "every"]
    spec: str
    text: str
    session: str | None = None  # None: a session of its own, without a home
    tz: str = "UTC"
    downtime: Literal["skip", "once", "all"] = "once"


@dataclass(frozen=True)
class HeartbeatSettings:
    """A turn for the sessions that `sessions` (shell patterns) match, where nothing happened for `every_s`."""

    sessions: tuple[str, ...]
    every_s: float = 1800.0
    text: str = HEARTBEAT_TEXT
    quiet: str = QUIET_WORD  # a reply of exactly this says nothing
    hours: tuple[int, int] | None = None  # active from, to: minutes of the day in `tz`; None: always
    tz: str = "UTC"


@dataclass(frozen=True)
class BackgroundSettings:
    """The limits of the commands that agents run in the background. `jobs` 0: they may run none."""

    jobs: int = 4  # that run at once for one session
    all: int = 16  # for all sessions together
    time_s: float = 3600.0  # the longest that one may run
    output: int = 10_000_000  # bytes of a job's output that are kept


@dataclass(frozen=True)
class SessionSettings:
    """How the sessions that `pattern` matches take what comes. The first pattern that fits is a session's."""

    pattern: str = "*"
    busy: Busy = "queue"  # what becomes of a message while a turn runs
    debounce: float = 0.0  # a wake waits until nothing more has come for so long,
    max_wait: float = 0.0  # but no longer than this after the first
    automatic: bool = False  # whether what programs send (bots, auto-replies) wakes


@dataclass(frozen=True)
class GatewaySettings:
    """All of it. The first agent is the default one unless `default_agent` says otherwise."""

    data_dir: Path
    ledger: Path  # the SQLite file
    agents: Mapping[str, AgentSettings]
    channels: Mapping[str, ChannelSettings] = field(default_factory=dict)
    destinations: Mapping[str, DestinationSettings] = field(default_factory=dict)
    people: Mapping[str, PersonSettings] = field(default_factory=dict)
    schedules: Mapping[str, ScheduleSettings] = field(default_factory=dict)
    heartbeat: HeartbeatSettings | None = None
    background: BackgroundSettings = BackgroundSettings()
    sessions: tuple[SessionSettings, ...] = ()
    default_agent: str = ""
    max_live_agents: int = 4  # a real agent holds 60-500 MB; past this the least recently used idle one is ended
    idle_agent_s: float = 600.0
    permission_deadline_s: float = 600.0  # then the request is answered `cancelled`
    grace_s: float = 10.0  # what running turns get at a clean stop

    def __post_init__(self) -> None:
        if not self.agents:
            raise ValueError("a gateway needs at least one agent")
        if not self.default_agent:
            object.__setattr__(self, "default_agent", next(iter(self.agents)))
        if self.default_agent not in self.agents:
            raise ValueError(f"default_agent {self.default_agent!r} is not one of: {', '.join(self.agents)}")

    def session(self, key: str) -> SessionSettings:
        """How this session takes what comes."""
        return next((one for one in self.sessions if fnmatchcase(key, one.pattern)), SessionSettings())
