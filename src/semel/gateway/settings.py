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

from semel.law.echo import QUIET_WORD

Permissions = Literal["ask", "allow", "deny"]
"""What becomes of an agent's permission requests: a person is asked, or every one is allowed or denied."""

Narration = Literal["last", "all"]
"""What a chat channel delivers of a turn's text: the closing text, or every block."""


HEARTBEAT_TEXT = "Nothing happened here for a while. If something needs to be done or said, do it."
"""What an agent is asked where nothing happened; which word says nothing is told beside it."""


@dataclass(frozen=True)
class AgentSettings:
    """A configured agent. `command` is its argv; `cwd` is the workspace its files may be sent from."""

    name: str
    command: tuple[str, ...]
    cwd: Path
    kind: str = "acp"
    env: Mapping[str, str] = field(default_factory=dict)  # joins the ordinary variables; secrets of ours never pass
    permissions: Permissions = "ask"
    idle_after: float | None = None  # None: the gateway's `idle_agent_s`
    trace: Path | None = None  # a directory for the wire of its conversations, as `semel fold` reads it


@dataclass(frozen=True)
class ChannelSettings:
    """A configured channel account. `options` are its kind's own settings, secrets already read."""

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    narration: Narration = "last"
    resend_unknown: bool = False  # repeats over holds (docs/laws.md, safety classes)


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
class GatewaySettings:
    """All of it. The first agent is the default one unless `default_agent` says otherwise."""

    data_dir: Path
    ledger: Path  # the SQLite file
    agents: Mapping[str, AgentSettings]
    channels: Mapping[str, ChannelSettings] = field(default_factory=dict)
    destinations: Mapping[str, DestinationSettings] = field(default_factory=dict)
    schedules: Mapping[str, ScheduleSettings] = field(default_factory=dict)
    heartbeat: HeartbeatSettings | None = None
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
