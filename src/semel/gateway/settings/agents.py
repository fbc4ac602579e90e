"""Settings of agents and of the MCP servers of model agents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, Field, PositiveInt, ValidationInfo, model_validator

from semel.gateway.settings.tables import (
    DERIVED,
    Conflict,
    Duration,
    Name,
    NamedTable,
    OptionalPath,
    ResolvedPath,
    Secret,
    SecretReference,
    Strings,
    Table,
    raise_conflicts,
)
from semel.law.turn import MAX_ATTEMPTS

BuiltinTool = Literal["read", "write", "edit", "list", "search", "shell"]

McpTransport = Literal["stdio", "http"]

MODEL_SETTINGS = frozenset({
    "key", "base_url", "instructions", "tools", "mcp", "context", "compaction", "max_tokens", "max_requests",
    "request_settings",
})  # fmt: skip
"""The fields of `AgentSettings` that only an agent of kind "model" has."""


def _check_url(url: str) -> str:
    if url and not re.match("https?://.", url):
        raise ValueError(f"{url!r} should begin with https:// or http://")
    return url


Url = Annotated[str, AfterValidator(_check_url)]


class McpSettings(Table):
    """The table `[agents.NAME.mcp.SERVER]`: an MCP server for an agent of kind "model"."""

    command: Strings = Field(default=(), min_length=1, examples=[["uvx", "mcp-server-git"]])
    """The command that starts a server that speaks MCP on stdin and stdout."""
    url: Url = Field(default="", examples=["https://example.org/mcp"])
    """Instead of `command`: the URL of a server that speaks MCP over HTTP."""
    env: Mapping[str, Secret] = Field(default_factory=dict, repr=False)
    """Environment variables for the command. "env:NAME" and "file:PATH" refer to a secret."""
    headers: Mapping[str, Secret] = Field(default_factory=dict, repr=False)
    """HTTP headers for the URL. "env:NAME" and "file:PATH" refer to a secret."""

    @model_validator(mode="after")
    def _check_transport(self) -> Self:
        raise_conflicts(self, self._find_conflicts())
        return self

    def _find_conflicts(self) -> Iterator[Conflict]:
        if bool(self.command) == bool(self.url):
            yield "command url", 'an MCP server has either a command, like ["uvx", "mcp-server-git"], or a url'
        if (self.env and not self.command) or (self.headers and not self.url):
            yield "command url env headers", "env is for a command, headers are for a url"


class AgentSettings(NamedTable):
    """The table `[agents.NAME]`: an agent."""

    kind: Literal["acp", "demo", "model"] = "acp"
    """acp: a program that speaks ACP on stdin and stdout. demo: the bundled demo agent. model: a model behind an
    API (`semel docs models`)."""
    command: Strings = Field(default=(), min_length=1, examples=[["codex-acp"]])
    """The command that starts it, like ["codex-acp"]."""
    cwd: ResolvedPath = Field(default=DERIVED, examples=["~/projects/example"])
    """The working directory; the agent can send files from here only. A relative path starts at this file. Default:
    workspaces/NAME in the data directory."""
    env: Mapping[str, Secret] = Field(default_factory=dict, repr=False)
    """Environment variables for the agent. "env:NAME" takes the value of another variable, and "file:PATH" what the
    file holds when the gateway starts."""
    permissions: Literal["ask", "allow", "deny"] = "ask"
    """How its permission requests are answered: ask a person, allow all, or deny all."""
    mode: str | None = Field(default=None, min_length=1, examples=["default"])
    """The mode that each of its sessions starts in, as the agent names it (`/mode` lists them). Default: a mode in
    which it asks for permission, if Semel knows one; else the agent's own choice."""
    mcp_transport: McpTransport | None = Field(default=None, examples=["http"])
    """Whether it gets Semel's tools from an MCP server over stdio or http. Set it for an agent that takes only one of
    them (`semel docs tools`). Default: what Semel knows of the agent; for an unknown one stdio, or http if the agent
    refuses stdio."""
    approvals: Strings = ("owner",)
    """Who may answer its permission requests in a chat: "owner", "member" and names of people (`semel docs people`)."""
    idle_after_s: Duration | None = Field(default=None, examples=["10m"])
    """Replaces the gateway's `idle_after` for this agent. Default: the gateway's."""
    attempts: int = Field(default=MAX_ATTEMPTS, ge=1, le=MAX_ATTEMPTS)
    """How many attempts a turn gets if it is lost or fails for a temporary reason: 1 to 3."""
    moves: bool | None = Field(default=None, examples=[True])
    """In a cluster: whether its sessions go on at another gateway if theirs is gone. Set it if all machines share its
    memory and `cwd`. Default: true for kind "model", whose memory is the ledger; else false."""
    silence_s: Duration = 1800.0
    """A turn counts as lost after this long without output, if no tool runs and no permission request is open."""
    trace: OptionalPath = Field(default=None, examples=["traces"])
    """A directory for logs of all messages between gateway and agent, readable by `semel fold`. A relative path
    starts at this file. The logs contain all texts and are never deleted. Default: no logs."""
    model: str | None = Field(default=None, min_length=1, examples=["anthropic:claude-opus-5"])
    """The model. For kind "model", PROVIDER:NAME. For kind "acp", the model that each of its sessions starts with, as
    the agent names it (`/model` lists them); default: the agent's own choice."""
    key: SecretReference | None = Field(default=None, repr=False, examples=["env:ANTHROPIC_API_KEY"])
    """The API key: "env:NAME" or "file:PATH". Default: the environment variable that the provider documents; with a
    `base_url` on another server than the provider's, no key."""
    base_url: Url | None = Field(default=None, examples=["http://127.0.0.1:11434/v1"])
    """The URL of the API, for example of a server on your own machine. Default: the provider's."""
    instructions: str = "AGENTS.md"
    """A file with instructions for the model, relative to `cwd`. It may be missing."""
    tools: Annotated[tuple[BuiltinTool, ...], Field(strict=False)] = get_args(BuiltinTool)
    """The built-in tools it may use, besides those that send messages."""
    mcp: Mapping[Name, McpSettings] = Field(default_factory=dict)
    """MCP servers whose tools it may use, by name."""
    context: int = Field(default=100_000, ge=2_000)
    """The most tokens (estimated) in one request. Older messages that do not fit are replaced by a summary."""
    compaction: bool = True
    """Whether the model writes that summary. If false, older messages are left out without one."""
    max_tokens: PositiveInt | None = Field(default=None, examples=[8000])
    """The most tokens in one answer. Default: the provider's limit."""
    max_requests: PositiveInt = 100
    """The most requests to the model in one turn."""
    request_settings: Mapping[str, Any] = Field(default_factory=dict, validation_alias="settings")
    """Further settings of each request, named as in pydantic-ai, like temperature."""

    is_of_editor: bool = Field(default=False, validation_alias="(of editor)")

    @model_validator(mode="after")
    def _check_kind(self, info: ValidationInfo) -> Self:
        raise_conflicts(self, self._find_model_conflicts() if self.kind == "model" else self._find_program_conflicts())
        if self.kind == "demo" and self.command and info.context is not None:  # `semel up` fills the command in
            raise_conflicts(self, [("kind command", 'an agent of kind "demo" has no command, because it is bundled')])
        return self

    def _find_model_conflicts(self) -> Iterator[Conflict]:
        if self.model is None:
            yield "kind model", 'an agent of kind "model" needs a model, like model = "anthropic:claude-opus-5"'
        elif not re.fullmatch(r"[^:\s]+:\S+", self.model):
            example = 'like "anthropic:claude-opus-5"'
            yield "kind model", f'model is "{self.model}", and should be PROVIDER:NAME, {example}'
        for key in ("mode", "mcp_transport"):
            if getattr(self, key) is not None:
                yield f"kind {key}", f'{key} is for agents of kind "acp"'
        if self.command or self.trace is not None:
            problem = 'an agent of kind "model" has no command and no trace, because it has no process'
            yield "kind command trace", problem
        if "max_retries" in self.request_settings:
            yield "settings", "settings: max_retries cannot be set, because Semel makes all retries itself"
        if "max_tokens" in self.request_settings:
            yield "settings", "settings: max_tokens is a setting of the agent itself"

    def _find_program_conflicts(self) -> Iterator[Conflict]:
        for field in sorted(MODEL_SETTINGS & self.model_fields_set):
            key = AgentSettings.model_fields[field].validation_alias
            yield f"kind {key}", f'{key} is for agents of kind "model"'
        if self.kind == "acp" and not self.command:
            problem = 'an agent of kind "acp" needs a command, like command = ["codex-acp"]'
            yield "kind command", f'{problem}; the bundled demo agent has kind = "demo"'
