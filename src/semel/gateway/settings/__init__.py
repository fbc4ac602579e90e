"""The settings of a gateway, each declared once: its type, default, range and description.

These classes validate semel.toml (`semel.faces.config`). `semel init --print` and docs/configuration.md take their
defaults and descriptions from them. A program that embeds a gateway builds them itself:

    GatewaySettings(data_dir=Path("/srv/semel"), agents={"main": AgentSettings(command=("codex-acp",))})

Times are in seconds and end in `_s`; paths are absolute. Settings are read once: a change needs a restart. Only agents
are added while a gateway runs (`add_agent`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Self, cast

from pydantic import Field, PositiveInt, model_validator

from semel.gateway.settings.agents import AgentSettings, McpSettings
from semel.gateway.settings.channels import ChannelSettings, DestinationSettings, GroupSettings, PersonSettings
from semel.gateway.settings.files import FileSettings
from semel.gateway.settings.limits import LimitSettings
from semel.gateway.settings.sessions import (
    BackgroundSettings,
    HeartbeatSettings,
    ScheduleSettings,
    SessionSettings,
    WakeSettings,
)
from semel.gateway.settings.tables import DERIVED, Duration, Entries, SessionPattern, Table
from semel.gateway.settings.transcription import TranscriptionSettings
from semel.ledger.storage.location import LedgerLocation
from semel.ledger.turns.session_agent import ConfiguredAgents

__all__ = [
    "AgentSettings",
    "BackgroundSettings",
    "ChannelSettings",
    "DestinationSettings",
    "FileSettings",
    "GatewayOptions",
    "GatewaySettings",
    "GroupSettings",
    "HeartbeatSettings",
    "LimitSettings",
    "McpSettings",
    "PersonSettings",
    "ScheduleSettings",
    "Sections",
    "SessionSettings",
    "TranscriptionSettings",
    "WakeSettings",
]


class GatewayOptions(Table):
    """The settings in `[gateway]` that concern agents and turns."""

    default_agent: str = Field(default="", examples=["main"])
    """The agent of sessions whose key names none. Default: the first one in this file."""
    max_live_agents: PositiveInt = 4
    """The most agent processes at once (one takes 60-500 MB of memory). Above this, the idle one that was used
    least recently is ended; it is resumed at its session's next event."""
    idle_after_s: Duration = 600.0
    """An agent process is ended after this long without use."""
    permission_deadline_s: Duration = 600.0
    """A permission request is cancelled if nobody answers it for this long."""
    grace_s: Duration = 10.0
    """How long running turns may take to finish at a clean stop."""


class Sections(Table):
    """The other sections of semel.toml that the gateway reads."""

    agents: Entries[AgentSettings] = Field(default_factory=dict)
    channels: Entries[ChannelSettings] = Field(default_factory=dict)
    people: Entries[PersonSettings] = Field(default_factory=dict)
    destinations: Entries[DestinationSettings] = Field(default_factory=dict)
    schedules: Entries[ScheduleSettings] = Field(default_factory=dict)
    sessions: Mapping[SessionPattern, SessionSettings] = Field(default_factory=dict)
    heartbeat: HeartbeatSettings = HeartbeatSettings()
    background: BackgroundSettings = BackgroundSettings()
    limits: LimitSettings = LimitSettings()
    files: FileSettings = FileSettings()
    transcription: TranscriptionSettings = TranscriptionSettings()


class GatewaySettings(GatewayOptions, Sections):
    """All settings of a gateway. Unless `default_agent` names another, the first agent is the default one.

    `ledger`: its SQLite file, by default ledger.db in the data directory, or its database. `continues_sessions`:
    whether a session gets another agent if its own is not configured any more.
    """

    data_dir: Path
    ledger: LedgerLocation = DERIVED
    continues_sessions: bool = True

    @model_validator(mode="after")
    def _fill_in_defaults(self) -> Self:
        if not self.agents:
            raise ValueError("a gateway needs at least one agent")
        default_agent = self.default_agent or next(iter(self.agents))
        if default_agent not in self.agents:
            raise ValueError(f"default_agent {default_agent!r} is not one of: {', '.join(self.agents)}")
        workspaces = {name: self.data_dir / "workspaces" / name for name in self.agents}
        agents = {
            name: agent if agent.cwd != DERIVED else agent.model_copy(update={"cwd": workspaces[name]})
            for name, agent in self.agents.items()
        }
        ledger = self.data_dir / "ledger.db" if self.ledger == DERIVED else self.ledger
        for field, value in {"agents": agents, "default_agent": default_agent, "ledger": ledger}.items():
            object.__setattr__(self, field, value)
        return self

    @property
    def moving_agents(self) -> frozenset[str]:
        """The agents whose sessions go on at another gateway of the cluster if theirs is gone."""
        return frozenset(
            name
            for name, agent in self.agents.items()
            if (agent.kind == "model" if agent.moves is None else agent.moves)
        )

    @property
    def configured_agents(self) -> ConfiguredAgents:
        return ConfiguredAgents(_Attempts(self.agents), self.default_agent if self.continues_sessions else "")

    def add_agent(self, agent: AgentSettings) -> None:
        """Add an agent, or replace it, while the gateway runs. Whoever has `agents` sees it from now on."""
        cast("dict[str, AgentSettings]", self.agents)[agent.name] = agent

    def session(self, key: str) -> SessionSettings:
        """Return the settings of the session with this key: those of the first pattern that matches it."""
        matching = (settings for pattern, settings in self.sessions.items() if fnmatchcase(key, pattern))
        return next(matching, SessionSettings())


class _Attempts(Mapping[str, int]):
    """The maximum number of attempts of each agent, as `agents` says at the moment."""

    def __init__(self, agents: Mapping[str, AgentSettings]) -> None:
        self._agents = agents

    def __getitem__(self, name: str) -> int:
        return self._agents[name].attempts

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._agents))

    def __len__(self) -> int:
        return len(self._agents)
