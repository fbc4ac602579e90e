"""The schema of semel.toml. docs/configuration.md and `semel init` use the same descriptions."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    field_validator,
    model_validator,
)

from semel.faces.config.values import Duration, Name, Pattern, Pause, Size, written
from semel.faces.config.values import Table as Table
from semel.gateway.settings import HEARTBEAT_TEXT
from semel.gateway.zones import zone
from semel.law import identity
from semel.law.access import Policy, Role, Strangers
from semel.law.busy import Busy
from semel.law.echo import QUIET_WORD
from semel.law.turn import MAX_ATTEMPTS
from semel.timing import schedule
from semel.timing.walltime import read_hours

Builtin = Literal["read", "write", "edit", "list", "search", "shell"]
_MODEL_ONLY = {
    "model", "key", "base_url", "instructions", "tools", "mcp", "context", "max_tokens", "max_requests", "compaction",
    "settings",
}  # fmt: skip


class Gateway(Table):
    """`[gateway]`"""

    listen: str = Field(default="127.0.0.1:8420", description="Address of the page and the API, as host:port.")
    data_dir: str | None = Field(
        default=None,
        description="Where the ledger, the files and the owner's token are kept; relative to this file. "
        "Default: $XDG_DATA_HOME/semel, that is ~/.local/share/semel.",
    )
    hosts: list[str] = Field(
        default_factory=list,
        description="Further host names the gateway is reached by, such as a proxy's; others are refused.",
    )
    heartbeat: Duration = Field(
        default=15.0, description="A quiet stream is sent a sign of life this often, for proxies in between."
    )
    log: Literal["auto", "human", "json"] = Field(
        default="auto",
        description="How the log is written to stderr: auto is human on a terminal, else json.",
    )
    default_agent: str | None = Field(
        default=None,
        description="The agent of sessions whose key names none. Default: the first one in this file.",
    )
    max_live_agents: PositiveInt = Field(
        default=4,
        description="Agent processes kept at once (a real one holds 60-500 MB). Past it, "
        "the idle one that was used least recently is ended, and resumed on its session's next event.",
    )
    idle_after: Duration = Field(default=600.0, description="An agent process that idles this long is ended.")
    permission_deadline: Duration = Field(
        default=600.0, description="A permission request that nobody answers is cancelled after this."
    )
    grace: Duration = Field(default=10.0, description="What running turns get to finish at a clean stop.")


class Ledger(Table):
    """`[ledger]`"""

    url: str | None = Field(
        default=None,
        description='The ledger\'s file, as "sqlite:///path", relative to the data directory '
        "(four slashes: absolute). Default: ledger.db there.",
    )

    @field_validator("url")
    @classmethod
    def _is_sqlite(cls, url: str | None) -> str | None:
        if url is not None and not re.match("sqlite:///.", url):
            raise ValueError(f'{url!r} is not like "sqlite:///ledger.db"')
        return url


class Mcp(Table):
    """`[agents.NAME.mcp.SERVER]`: an MCP server that a model agent is given"""

    command: list[str] | None = Field(
        default=None, min_length=1, description="The program of a server that speaks MCP on stdin and stdout."
    )
    url: str | None = Field(default=None, description="Or the address of one that speaks it over HTTP.")
    env: dict[str, str] = Field(
        default_factory=dict,
        description='Environment variables for the program; "env:NAME" and "file:PATH" take a secret.',
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description='HTTP headers for the address; "env:NAME" and "file:PATH" take a secret.'
    )

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError('an MCP server has either a command, like ["uvx", "mcp-server-git"], or a url')
        if self.url is not None and not re.match("https?://.", self.url):
            raise ValueError(f'url is "{self.url}", and should begin with https:// or http://')
        if (self.env and self.command is None) or (self.headers and self.url is None):
            raise ValueError("env is for a command, headers are for a url")
        return self


class Agent(Table):
    """`[agents.NAME]`"""

    kind: Literal["acp", "demo", "model"] = Field(
        default="acp",
        description="acp: a program that speaks ACP on stdin and stdout. demo: the bundled demo agent. "
        "model: a model behind an API (docs/models.md).",
    )
    command: list[str] | None = Field(default=None, min_length=1, description='The program, like ["codex-acp"].')
    cwd: str | None = Field(
        default=None,
        description="Its working directory, and the only place it may send files from; relative to this "
        "file. Default: workspaces/NAME in the data directory.",
    )
    env: dict[str, str] = Field(
        default_factory=dict,
        description='Environment variables for it; "env:NAME" takes another variable\'s value.',
    )
    permissions: Literal["ask", "allow", "deny"] = Field(
        default="ask", description="Its permission requests: ask a person, allow all, or deny all."
    )
    approvals: list[str] = Field(
        default_factory=lambda: ["owner"],
        description='Who may answer its requests in a chat: "owner", "member", and names of people (docs/people.md).',
    )
    idle_after: Duration | None = Field(default=None, description="Overrides the gateway's idle_after.")
    attempts: int = Field(
        default=MAX_ATTEMPTS,
        ge=1,
        le=MAX_ATTEMPTS,
        description="How often one turn is tried where it is lost, or fails for a reason that passes: 1 to 3.",
    )
    silence: Duration = Field(
        default=1800.0,
        description="A turn that tells nothing for so long, with no tool at work and no permission asked, is lost.",
    )
    trace: str | None = Field(
        default=None,
        description="A directory that keeps what it and the gateway say on the wire, as `semel fold` reads "
        "it; relative to this file. It grows, and holds all texts. Default: not kept.",
    )

    model: str | None = Field(
        default=None, pattern=r"^[^:\s]+:\S+$", description='The model of kind "model", like "anthropic:claude-opus-5".'
    )
    key: str | None = Field(
        default=None,
        description='The key of its API: "env:NAME" or "file:PATH". Default: the variable its provider documents.',
    )
    base_url: str | None = Field(
        default=None, description="Another address of its API, such as that of a server on your own machine."
    )
    instructions: str = Field(
        default="AGENTS.md",
        description="A file, relative to `cwd`, that stands before every conversation. It need not be there.",
    )
    tools: list[Builtin] = Field(
        default_factory=lambda: list(get_args(Builtin)),
        description="Which of the built-in tools it is given, beside those that speak.",
    )
    mcp: dict[Name, Mcp] = Field(default_factory=dict, description="MCP servers whose tools it is given, by name.")
    context: int = Field(
        default=100_000,
        ge=2_000,
        description="How many tokens a request may hold, estimated. What is older than fits is told as a summary.",
    )
    compaction: bool = Field(
        default=True,
        description="Whether the model is asked to summarise what does not fit. Else it is not told of it.",
    )
    max_tokens: PositiveInt | None = Field(
        default=None, description="How many tokens one answer may have. Default: what its provider takes."
    )
    max_requests: PositiveInt = Field(
        default=100, description="How many requests to the model one turn may take, each with its tool calls."
    )
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Further settings of each request, by pydantic-ai's names, like temperature."
    )

    @field_validator("key")
    @classmethod
    def _is_elsewhere(cls, key: str | None) -> str | None:
        if key is not None and not re.match("(env|file):.", key):
            raise ValueError('write "env:NAME" or "file:PATH": the key itself does not belong in this file')
        return key

    @model_validator(mode="after")
    def _fits_kind(self) -> Self:
        if self.kind == "model":
            if self.model is None:
                raise ValueError('an agent of kind "model" needs a model, like model = "anthropic:claude-opus-5"')
            if self.command is not None or self.trace is not None:
                raise ValueError('an agent of kind "model" has no command and no trace: it is no process')
            if own := self.settings.keys() & {"max_retries", "max_tokens"}:
                why = "is Semel's own affair" if "max_retries" in own else "is a setting of the agent itself"
                raise ValueError(f"settings: {min(own)} {why}")
        elif odd := sorted(self.model_fields_set & _MODEL_ONLY):
            raise ValueError(f'{odd[0]} is for agents of kind "model"')
        return self

    @model_validator(mode="after")
    def _command_fits_kind(self) -> Self:
        if self.kind == "acp" and self.command is None:
            raise ValueError('an agent of kind "acp" needs a command, like command = ["codex-acp"]')
        if self.kind == "demo" and self.command is not None:
            raise ValueError('an agent of kind "demo" has no command: it is bundled')
        return self


class Group(Table):
    """`[channels.NAME.group."ADDRESS"]`"""

    policy: Policy | None = Field(
        default=None,
        description="What wakes the agent there: mention, always, or never. Default: the channel's `groups`.",
    )
    strangers: Strangers = Field(
        default="refuse", description="What becomes of strangers there: refuse, or guest (docs/people.md)."
    )


class Channel(BaseModel):
    """`[channels.NAME]`: what every kind has. The rest is the kind's own and checked against it."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    kind: str = Field(
        description='What it is: "telegram", "matrix", "xmpp", "email" or "webhook"; or that of a package.'
    )
    narration: Literal["last", "all"] = Field(
        default="last", description="What it delivers of a turn: the closing text, or every block of text."
    )
    stream: bool = Field(
        default=False,
        description="Show an answer while it is written: a message is reserved for it and edited. "
        "Needs a platform where messages can be edited and deleted.",
    )
    resend_unknown: bool = Field(
        default=False,
        description="After an unknown outcome, send again (visibly marked) where the platform "
        "could not fold the repeat, instead of holding the message for a person to decide.",
    )
    agent: str | None = Field(
        default=None, description="The agent that thinks for its sessions. Default: the gateway's default agent."
    )

    strangers: Strangers = Field(
        default="refuse",
        description="What becomes of strangers who write to it alone: refuse, or guest: everybody may talk "
        "(docs/people.md).",
    )
    groups: Policy = Field(
        default="mention",
        description="What wakes the agent in a group: mention (the rest is read with the next turn), always, or "
        "never: nothing is heard there.",
    )
    group: dict[str, Group] = Field(
        default_factory=dict, description='Groups with rules of their own, by address or a pattern like "-100*".'
    )
    role: Role = Field(
        default="member",
        description="The role of whoever knows its secret, where people have no accounts (a webhook).",
    )

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.__pydantic_extra__ or {})


class Destination(Table):
    """`[destinations.NAME]`"""

    channel: str = Field(description="The name of a channel above.")
    address: str = Field(min_length=1, description="The address there, as that channel writes it.")
    allow: list[str] = Field(
        default_factory=list,
        description='The sessions that may speak there, as patterns like "main:*". Default: none.',
    )


class Person(Table):
    """`[people.NAME]`"""

    role: Role = Field(default="member", description="What they may: owner, member or guest (docs/people.md).")
    accounts: list[str] = Field(
        default_factory=list,
        description='Their accounts, as CHANNEL:ID, like "matrix:@ada:example.org" or "telegram:12345". A person may '
        "have others that are paired.",
    )


class Node(Table):
    """`[nodes.NAME]`"""

    token: str = Field(
        description='What it shows to report: "env:NAME" or "file:PATH", of 16 or more characters, its own alone.'
    )
    sessions: list[str] = Field(
        default_factory=list,
        description='The sessions it may report to, as patterns like "main:ci:*". Default: none.',
    )

    @field_validator("token")
    @classmethod
    def _is_elsewhere(cls, token: str) -> str:
        if not re.match("(env|file):.", token):
            raise ValueError('write "env:NAME" or "file:PATH": the token itself does not belong in this file')
        return token


class Schedule(Table):
    """`[schedules.NAME]`"""

    cron: str | None = Field(default=None, description='Five fields, like "30 7 * * MON-FRI", or "@daily".')
    at: Annotated[str | None, BeforeValidator(written)] = Field(
        default=None, description='Once: a date and time, like "2030-03-29 07:30", in `tz` if it names no offset.'
    )
    every: Annotated[str | None, BeforeValidator(written)] = Field(
        default=None, description='An interval, like "90s", "10m", "2h" or "1d", counted from when it was first read.'
    )
    tz: str = Field(default="UTC", description='The time zone of `cron` and `at`, like "Europe/Berlin".')
    session: str | None = Field(
        default=None,
        description="Where it is heard. Default: a session of its own, schedule:NAME, which has no home.",
    )
    text: str = Field(min_length=1, description="What the agent is asked at each firing.")
    downtime: Literal["skip", "once", "all"] = Field(
        default="once",
        description="Firings that were missed while the gateway was down: skip them, fire once for all, or fire all "
        "(at most the newest 100).",
    )

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        given = [form for form in ("cron", "at", "every") if getattr(self, form) is not None]
        if len(given) != 1:
            raise ValueError(f"a schedule has exactly one of cron, at and every; here: {', '.join(given) or 'none'}")
        if self.session is not None:
            identity.check_session_key(self.session)
        schedule.read(self.form, self.spec, zone(self.tz))
        return self

    @property
    def form(self) -> schedule.Form:
        return "cron" if self.cron is not None else "at" if self.at is not None else "every"

    @property
    def spec(self) -> str:
        return str(getattr(self, self.form))


class Heartbeat(Table):
    """`[heartbeat]`"""

    sessions: list[str] = Field(
        default_factory=list, description='The sessions that get heartbeats, as patterns like "main:*". Default: none.'
    )
    every: Duration = Field(
        default=1800.0, ge=1, description="A session where nothing happened for so long gets a turn."
    )
    text: str = Field(default=HEARTBEAT_TEXT, min_length=1, description="What the agent is asked.")
    quiet: str = Field(
        default=QUIET_WORD, min_length=1, description="An answer of exactly this word says nothing: nobody sees it."
    )
    hours: str | None = Field(
        default=None, description='Active hours, like "08:00-22:00"; what falls due outside waits. Default: always.'
    )
    tz: str = Field(default="UTC", description="The time zone of `hours`.")

    @field_validator("hours")
    @classmethod
    def _are_hours(cls, hours: str | None) -> str | None:
        if hours is not None:
            read_hours(hours)
        return hours

    @field_validator("tz")
    @classmethod
    def _is_a_zone(cls, tz: str) -> str:
        zone(tz)
        return tz


class Wake(Table):
    """`wake` in `[sessions.PATTERN]`"""

    debounce: Pause = Field(
        default=0.0, description="A turn begins when nothing more has come for so long. Default: at once."
    )
    max_wait: Duration | None = Field(
        default=None,
        description="But no longer than this after the first that asked for it. Default: five times `debounce`.",
    )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.max_wait is not None and self.max_wait < self.debounce:
            raise ValueError(f"max_wait is {self.max_wait:g} s, and should be at least debounce, {self.debounce:g} s")
        return self

    @property
    def longest(self) -> float:
        return self.max_wait if self.max_wait is not None else 5 * self.debounce


class Session(Table):
    """`[sessions."PATTERN"]`"""

    busy: Busy = Field(
        default="queue",
        description="What becomes of a message while a turn runs: queue, steer, interrupt or collect (docs/busy.md).",
    )
    wake: Wake = Field(
        default=Wake(), description='How a turn waits for more, like { debounce = "2s", max_wait = "10s" }.'
    )
    automatic: Literal["wait", "wake"] = Field(
        default="wait",
        description="What programs send (bots, auto-replies): it waits for the next turn, or wakes the agent.",
    )


class Background(Table):
    """`[background]`"""

    jobs: Annotated[int, Field(ge=0)] = Field(
        default=4, description="Commands that may run at once in the background of one session; 0: none, ever."
    )
    all: Annotated[int, Field(ge=0)] = Field(default=16, description="The same for all sessions together.")
    time: Duration = Field(default=3600.0, description="The longest time that one may run; then it is ended.")
    output: Size = Field(
        default=10_000_000, description='Bytes of its output that are kept in a file; like "500kB" or "10MB".'
    )


class File(Table):
    """The whole of semel.toml."""

    gateway: Gateway = Gateway()
    ledger: Ledger = Ledger()
    agents: dict[Name, Agent] = Field(default_factory=dict)
    channels: dict[Name, Channel] = Field(default_factory=dict)
    people: dict[Name, Person] = Field(default_factory=dict)
    destinations: dict[Name, Destination] = Field(default_factory=dict)
    schedules: dict[Name, Schedule] = Field(default_factory=dict)
    sessions: dict[Pattern, Session] = Field(default_factory=dict)
    heartbeat: Heartbeat = Heartbeat()
    background: Background = Background()
    nodes: dict[Name, Node] = Field(default_factory=dict)
