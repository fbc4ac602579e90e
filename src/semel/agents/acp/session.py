"""Build the parameters that open an ACP session, and parse the agent's answers. Deviations from ACP are tolerated.

Formats: ACP v1 schema (agentclientprotocol.com), `InitializeResponse`, `NewSessionResponse`, `LoadSessionResponse`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import semel
from semel.acp_stream.choices import explain_no_choice, find_choice, read_choices
from semel.agents.acp.login import LoginMethod, read_login_methods
from semel.agents.acp.wire import AgentReply, Id
from semel.agents.known import KnownAgent
from semel.gateway.ports import Answered, Json, Launch
from semel.text.json_types import object_at, objects_in, text_at, value_at

PROTOCOL_VERSION = 1
AUTH_REQUIRED = -32000  # ACP ErrorCode
LOGIN_ERRORS = (AUTH_REQUIRED, 401)  # Gemini CLI gives the HTTP status of its model's API as the code


def initialize_params(agents: Sequence[KnownAgent] = (), *, shows_urls: bool = False) -> Json:
    """Return the parameters of ACP's initialize. `agents`: the known agents that may be at the other end.

    `shows_urls`: whether a person watches who can open a URL that the agent asks for (ACP "Elicitation", mode "url").

    Semel offers the agent no file system and no terminals. It asks for the output of terminals as deltas in
    `_meta.terminal_output`, and for login methods that need a terminal, because `semel agents login` opens one.
    """
    extensions = {name: value for agent in agents for name, value in agent.extensions.items()}
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientCapabilities": {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
            "auth": {"terminal": True},
            **({"elicitation": {"url": {}}} if shows_urls else {}),
            "_meta": {"terminal_output": True, "terminal-auth": True, **extensions},
        },
        "clientInfo": {"name": "semel", "title": "Semel", "version": semel.__version__},
    }


# -P: the server runs in the agent's workspace, whose files must not shadow Python's modules.
TOOL_SERVER_COMMAND = (sys.executable, "-P", "-m", "semel.tools")


def build_mcp_server(launch: Launch, mark: str, command: Sequence[str] = TOOL_SERVER_COMMAND) -> Json:
    """Return the description of Semel's MCP server (ACP `McpServerStdio`), with the spawn's fencing token (Law 10).

    `mark`: the value of SEMEL_SPAWN, as in the agent's environment.
    """
    env = {"SEMEL_SOCKET": str(launch.socket), "SEMEL_TOKEN": launch.token, "SEMEL_SPAWN": mark}
    return {
        "name": "semel",
        "command": command[0],
        "args": list(command[1:]),
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }


def build_http_mcp_server(url: str, token: str) -> Json:
    """Return the description of Semel's MCP server over HTTP (ACP `McpServerHttp`), with the spawn's fencing token."""
    headers = [{"name": "Authorization", "value": f"Bearer {token}"}]
    return {"type": "http", "name": "semel", "url": url, "headers": headers}


@dataclass(frozen=True)
class InitializeResult:
    """The agent's answer to ACP's initialize."""

    name: str  # agentInfo.name, or ""
    version: str
    protocol: Any  # as received; should be an integer
    can_load: bool
    can_resume: bool
    logins: tuple[LoginMethod, ...] = ()
    images: bool = False  # promptCapabilities.image
    audio: bool = False  # promptCapabilities.audio
    resources: bool = False  # promptCapabilities.embeddedContext
    http_tools: bool = False  # mcpCapabilities.http
    sse_tools: bool = False  # mcpCapabilities.sse

    @classmethod
    def read(cls, result: Any, agent_command: Sequence[str] = ()) -> InitializeResult:
        answer, info, caps = object_at(result), object_at(result, "agentInfo"), object_at(result, "agentCapabilities")
        return cls(
            name=str(info.get("name") or ""),
            version=str(info.get("version") or ""),
            protocol=answer.get("protocolVersion", PROTOCOL_VERSION),
            can_load=caps.get("loadSession") is True,
            can_resume=value_at(caps, "sessionCapabilities", "resume") not in (None, False),
            logins=read_login_methods(answer, agent_command),
            images=value_at(caps, "promptCapabilities", "image") is True,
            audio=value_at(caps, "promptCapabilities", "audio") is True,
            resources=value_at(caps, "promptCapabilities", "embeddedContext") is True,
            http_tools=value_at(caps, "mcpCapabilities", "http") is True,
            sse_tools=value_at(caps, "mcpCapabilities", "sse") is True,
        )


@dataclass
class Choices:
    """The modes and models that a session offers, and the requests that set them.

    ACP has two ways to state them: as modes and models, or as configuration options. `modes`: ACP's SessionModeState;
    it is built from the option "mode" if the agent has only that. `models`: ACP's SessionModelState, or the option
    "model".
    """

    modes: Json | None = None
    models: Json | None = None
    mode_option: str | None = None  # id of the configuration option that sets the mode, if there is one
    model_option: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    """The ids of the configuration options "mode" and "model", even if the agent states `modes` and `models`, too."""
    config: list[Json] = field(default_factory=list)
    """All configuration options, as the agent reported them last (ACP's SessionConfigOption)."""
    restored: bool = False
    """The session was restored. Some agents (agentao) do not list again then what the session offers."""

    @classmethod
    def read(cls, result: Any, restored: bool = False) -> Choices:
        choices = cls(object_at(result, "modes") or None, object_at(result, "models") or None, restored=restored)
        choices.read_options(value_at(result, "configOptions"))
        return choices

    def read_options(self, options: Any) -> None:
        """Store the `configOptions` from the answer that opens a session, or from a `config_option_update`."""
        if isinstance(options, list):
            self.config = objects_in(options)
        for option in objects_in(options):
            category = option.get("category") or option.get("id")
            if category in ("mode", "model"):
                self.options[category] = str(option.get("id"))
            if category == "mode" and (self.modes is None or self.mode_option):
                self.mode_option = str(option.get("id"))
                self.modes = {
                    "currentModeId": option.get("currentValue"),
                    "availableModes": [
                        {"id": value.get("value"), **{k: value[k] for k in ("name", "description") if k in value}}
                        for value in objects_in(option.get("options"))
                    ],
                }
            elif category == "model" and (self.models is None or self.model_option):
                self.model_option = str(option.get("id"))
                self.models = option

    def keep_modes(self, modes: Json | None) -> None:
        """Keep offering these modes of the session before, if the agent did not list any. Which one is on is unknown.

        agentao lists no modes when it loads a session.
        """
        if self.modes is None and modes is not None:
            self.modes = {**modes, "currentModeId": None}

    def find(self, kind: Literal["mode", "model"], choice: str) -> str:
        """Return the id of the mode or model that a person means by an id or a name, in any letter case.

        Raises ValueError if the session does not offer it; the message lists what the session offers.
        """
        if self.restored and (self.modes if kind == "mode" else self.models) is None:
            return choice  # it offers them, but did not say so again when it loaded the session
        offered = read_choices({"modes": self.modes, "models": self.models}, kind)[1]
        if (found := find_choice(choice, offered)) is None:
            raise ValueError(explain_no_choice(kind, choice, offered))
        return found

    def choice_request(self, kind: Literal["mode", "model"], value: str) -> tuple[str, Json]:
        """Return (method, parameters without sessionId) of the request that sets the mode or model with this id."""
        if option := self.mode_option if kind == "mode" else self.model_option:
            return "session/set_config_option", {"configId": option, "value": value}
        return f"session/set_{kind}", {f"{kind}Id": value}

    def apply_update(self, update: Json) -> None:
        """Store the mode or options that the agent reports in an update."""
        kind = update.get("sessionUpdate")
        if kind == "current_mode_update" and self.modes is not None:
            self.modes = {**self.modes, "currentModeId": update.get("currentModeId")}
        elif kind == "config_option_update":
            self.read_options(update.get("configOptions"))

    def apply_choice(self, *, mode: str | None = None, model: str | None = None) -> None:
        """Store a mode or model that the gateway has set and the agent has accepted."""
        if mode is not None and self.modes is not None:
            self.modes = {**self.modes, "currentModeId": mode}
        if model is not None and self.models is not None:
            key = "currentValue" if self.model_option else "currentModelId"
            self.models = {**self.models, key: model}


# ---------------------------------------------------------------- answers to any request


def describe_rpc_error(error: Json) -> str:
    """Return a JSON-RPC error in words for people: its message, and the detail in its `data` if that says more.

    A message that is the JSON of a model's API, as Gemini CLI sends it, is put into words.
    """
    message = _unpack_message(str(error.get("message") or f"error {error.get('code')}"))
    details = (text_at(error, "data", key) for key in ("details", "message", "error", "reason"))
    detail = text_at(error, "data") or next((text for text in details if text is not None), None)
    return f"{message}: {detail}" if detail and detail not in message else message


def _unpack_message(message: str) -> str:
    """Return `{"error": {"code": 400, "status": "INVALID", "message": "No."}}` as "400 INVALID: No."."""
    try:
        error = object_at(json.loads(message), "error") if message.startswith("{") else {}
    except (ValueError, RecursionError):
        return message
    kind = " ".join(str(error[key]) for key in ("code", "status") if error.get(key))
    return ": ".join(filter(None, (kind, text_at(error, "message")))) or message


class RpcError(Exception):
    """The agent answered a request with a JSON-RPC error."""

    def __init__(self, error: Json) -> None:
        super().__init__(describe_rpc_error(error))
        self.code = error.get("code")


def normalize_id(id: Id) -> Id:
    """Return a reply's id as the integer of Semel's request. Some agents return it as text or as a float."""
    if isinstance(id, float) and id.is_integer():
        return int(id)
    return int(id) if isinstance(id, str) and id.isdecimal() and len(id) < 20 else id


def parse_prompt_answer(
    reply: AgentReply, explain: Callable[[str, object], str] = lambda error, code: error
) -> Answered:
    """Convert the response to a prompt into a signal.

    The signal's `meta` is the response's `_meta`, with `usage` added if the response has it. If the response is an
    error, `meta` has the error's code and data. `explain`: adds what a person can do about an error with this code.
    """
    if reply.error is not None:
        facts: Json = {name: reply.error[name] for name in ("code", "data") if name in reply.error}
        code, text = reply.error.get("code"), describe_rpc_error(reply.error)
        # Some agents use this code for other errors, too.
        is_logged_out = code == AUTH_REQUIRED and "auth" in text.casefold()
        return Answered("error", explain(text, code), facts, is_logged_out)
    meta = dict(object_at(reply.result, "_meta"))
    if isinstance(usage := value_at(reply.result, "usage"), dict):
        meta.setdefault("usage", usage)
    return Answered(text_at(reply.result, "stopReason") or "end_turn", None, meta)
