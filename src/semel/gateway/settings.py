"""The settings of a gateway as plain values, already validated and resolved.

`semel.faces.config` builds them from semel.toml; a program that embeds a gateway builds them itself. Times are in
seconds. Paths are absolute.
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
"""How an agent's permission requests are answered: a person is asked, or every request is allowed, or denied."""

Narration = Literal["last", "all"]
"""Which text of a turn a chat channel delivers: only the closing text ("last"), or every block ("all")."""


HEARTBEAT_TEXT = "Nothing happened here for a while. If something needs to be done or said, do it."
"""The default prompt of a heartbeat. The prompt also names the word by which the agent can answer with nothing."""


@dataclass(frozen=True)
class McpSettings:
    """An MCP server for a model agent: a command, or a URL with headers. `env` is added to the ordinary environment."""

    command: tuple[str, ...] = ()
    url: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ModelSettings:
    """The settings that only an agent of kind "model" has. `key` is the API key itself; if `None`, the provider's own
    environment variable is used."""

    model: str  # "provider:name", as pydantic-ai calls it
    key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    instructions: str = "AGENTS.md"  # a file in the workspace, read at each prompt; may be missing
    tools: tuple[str, ...] = ("read", "write", "edit", "list", "search", "shell")
    mcp: Mapping[str, McpSettings] = field(default_factory=dict)
    context: int = 100_000  # estimated tokens that one request may hold
    max_tokens: int | None = None  # of one answer
    max_requests: int = 100  # to the model, in one turn
    compaction: bool = True  # let the model summarise a history that does not fit
    options: Mapping[str, Any] = field(default_factory=dict)  # pydantic-ai's ModelSettings: temperature, thinking ...


@dataclass(frozen=True)
class AgentSettings:
    """A configured agent. `command` is its argv; `cwd` is the workspace its files may be sent from."""

    name: str
    command: tuple[str, ...]
    cwd: Path
    kind: str = "acp"
    env: Mapping[str, str] = field(default_factory=dict)  # added to the ordinary variables; our secrets are left out
    permissions: Permissions = "ask"
    approvals: tuple[str, ...] = ("owner",)  # roles and names that may answer its permission requests in a chat
    idle_after: float | None = None  # None: the gateway's `idle_agent_s`
    attempts: int = MAX_ATTEMPTS  # attempts at one turn that is lost or fails transiently: 1 to 3
    silence: float = 1800.0  # seconds without output or running tool until a prompted agent counts as lost
    trace: Path | None = None  # directory for wire logs of its conversations, in the format of `semel fold`
    model: ModelSettings | None = None  # set for kind "model", which has no command


@dataclass(frozen=True)
class PersonSettings:
    """A person listed in the configuration. `accounts` are written "channel:id"."""

    name: str
    role: Role
    accounts: tuple[str, ...] = ()


@dataclass(frozen=True)
class GroupSettings:
    """How messages in a group are treated: which of them wake the agent, and whether unknown senders may speak."""

    policy: Policy = "mention"
    strangers: Strangers = "refuse"


@dataclass(frozen=True)
class ChannelSettings:
    """A configured channel account. `options` are its kind's own settings, secrets already read."""

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    narration: Narration = "last"
    stream: bool = False  # show an answer while it is written, by editing one message
    resend_unknown: bool = False  # resend unknown parts instead of holding them (docs/laws.md, safety classes)
    agent: str | None = None  # the agent of its sessions; None: the default agent
    people: bool = True  # False: it has no user accounts; callers that present its secret act with the role `role`
    role: Role = "member"
    strangers: Strangers = "refuse"  # how unknown senders are treated in direct conversations
    groups: Policy = "mention"
    group: Mapping[str, GroupSettings] = field(default_factory=dict)  # by address, or a pattern of addresses

    def room(self, address: str) -> GroupSettings:
        """The settings of the group at an address: its own entry, the first matching pattern, or the default."""
        exact = self.group.get(address)
        if exact is not None:
            return exact
        fits = (told for pattern, told in self.group.items() if "*" in pattern and fnmatchcase(address, pattern))
        return next(fits, GroupSettings(self.groups))


@dataclass(frozen=True)
class DestinationSettings:
    """A destination that agents may name in `<message to="name">`, in the sessions that `allow` matches."""

    name: str
    channel: str
    address: str
    allow: tuple[str, ...] = ()  # shell patterns of session keys; if empty, no session may use it

    @property
    def resolved(self) -> str:
        """The destination as claims and parts record it: `channel:address`."""
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
    """Heartbeats: start a turn in each session matching `sessions` (shell patterns) that was idle for `every_s`."""

    sessions: tuple[str, ...]
    every_s: float = 1800.0
    text: str = HEARTBEAT_TEXT
    quiet: str = QUIET_WORD  # a reply of exactly this says nothing
    hours: tuple[int, int] | None = None  # active from, to: minutes of the day in `tz`; None: always
    tz: str = "UTC"


@dataclass(frozen=True)
class BackgroundSettings:
    """Limits of background jobs. With `jobs = 0` agents may run none."""

    jobs: int = 4  # running at once in one session
    all: int = 16  # running at once in all sessions
    time_s: float = 3600.0  # longest run time of one job
    output: int = 10_000_000  # bytes of a job's output that are kept


@dataclass(frozen=True)
class SessionSettings:
    """How sessions whose key matches `pattern` treat incoming events. The first matching entry applies."""

    pattern: str = "*"
    busy: Busy = "queue"  # how a message is treated while a turn runs
    debounce: float = 0.0  # delay a wake until no event has come for this long,
    max_wait: float = 0.0  # but no longer than this after the first
    automatic: bool = False  # whether messages of programs (bots, auto-replies) wake the agent


@dataclass(frozen=True)
class GatewaySettings:
    """All settings of a gateway. The first agent is the default one unless `default_agent` names another."""

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
    max_live_agents: int = 4  # an agent process takes 60-500 MB; above this the least recently used idle one is ended
    idle_agent_s: float = 600.0
    permission_deadline_s: float = 600.0  # then the request is answered `cancelled`
    grace_s: float = 10.0  # time that running turns get at a clean stop

    def __post_init__(self) -> None:
        if not self.agents:
            raise ValueError("a gateway needs at least one agent")
        if not self.default_agent:
            object.__setattr__(self, "default_agent", next(iter(self.agents)))
        if self.default_agent not in self.agents:
            raise ValueError(f"default_agent {self.default_agent!r} is not one of: {', '.join(self.agents)}")

    def session(self, key: str) -> SessionSettings:
        """The settings of the session with this key."""
        return next((one for one in self.sessions if fnmatchcase(key, one.pattern)), SessionSettings())
