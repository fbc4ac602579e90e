"""Build the parameters that open an ACP session, and parse what the agent answers, tolerantly.

Formats: ACP v1 schema (agentclientprotocol.com), `InitializeResponse`, `NewSessionResponse`, `LoadSessionResponse`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import semel
from semel.gateway.ports import Json, Launch

PROTOCOL_VERSION = 1
AUTH_REQUIRED = -32000  # ACP ErrorCode


def initialize_params() -> Json:
    """Parameters of `initialize`: we offer no file system and no terminals, and ask for terminal output as deltas in
    `_meta.terminal_output`."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientCapabilities": {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
            "_meta": {"terminal_output": True},
        },
        "clientInfo": {"name": "semel", "title": "Semel", "version": semel.__version__},
    }


# -P: the server runs in the agent's workspace, whose files must not shadow Python's modules.
TOOL_SERVER_COMMAND = (sys.executable, "-P", "-m", "semel.tools")


def build_mcp_server(launch: Launch, mark: str, command: Sequence[str] = TOOL_SERVER_COMMAND) -> Json:
    """The entry for Semel's MCP server (ACP `McpServerStdio`), with this spawn's fencing token (Law 10)."""
    env = {"SEMEL_SOCKET": str(launch.socket), "SEMEL_TOKEN": launch.token, "SEMEL_SPAWN": mark}
    return {
        "name": "semel",
        "command": command[0],
        "args": list(command[1:]),
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }


def _dict_or_empty(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _dicts_in_list(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


@dataclass(frozen=True)
class InitializeResult:
    """The agent's answer to `initialize`."""

    name: str  # agentInfo.name, or ""
    version: str
    protocol: Any  # as received; should be an integer
    can_load: bool
    can_resume: bool
    logins: tuple[str, ...]  # its authMethods, for people
    images: bool = False  # promptCapabilities.image

    @classmethod
    def read(cls, result: Any) -> InitializeResult:
        answer = _dict_or_empty(result)
        info, caps = _dict_or_empty(answer.get("agentInfo")), _dict_or_empty(answer.get("agentCapabilities"))
        sessions = _dict_or_empty(caps.get("sessionCapabilities"))
        return cls(
            name=str(info.get("name") or ""),
            version=str(info.get("version") or ""),
            protocol=answer.get("protocolVersion", PROTOCOL_VERSION),
            can_load=caps.get("loadSession") is True,
            can_resume=sessions.get("resume") not in (None, False),
            logins=tuple(
                f"{one.get('name') or one.get('id')}: {one.get('description') or one.get('id')}"
                for one in _dicts_in_list(answer.get("authMethods"))
            ),
            images=_dict_or_empty(caps.get("promptCapabilities")).get("image") is True,
        )


@dataclass
class Choices:
    """The modes and models that a session offers, and how to set them.

    ACP has two ways: separate modes and models, and configuration options. `modes` is ACP's SessionModeState, built
    from the "mode" option if the agent has only that. `models` is a SessionModelState, or the "model" option itself.
    """

    modes: Json | None = None
    models: Json | None = None
    mode_option: str | None = None  # id of the configuration option that sets the mode, if there is one
    model_option: str | None = None

    @classmethod
    def read(cls, result: Any) -> Choices:
        answer = _dict_or_empty(result)
        choices = cls(_dict_or_empty(answer.get("modes")) or None, _dict_or_empty(answer.get("models")) or None)
        choices.read_options(answer.get("configOptions"))
        return choices

    def read_options(self, options: Any) -> None:
        """Apply the configOptions of a session's answer or of a `config_option_update`."""
        for option in _dicts_in_list(options):
            category = option.get("category") or option.get("id")
            if category == "mode" and (self.modes is None or self.mode_option):
                self.mode_option = str(option.get("id"))
                self.modes = {
                    "currentModeId": option.get("currentValue"),
                    "availableModes": [
                        {"id": one.get("value"), **{k: one[k] for k in ("name", "description") if k in one}}
                        for one in _dicts_in_list(option.get("options"))
                    ],
                }
            elif category == "model" and (self.models is None or self.model_option):
                self.model_option = str(option.get("id"))
                self.models = option

    def mode_request(self, mode: str) -> tuple[str, Json]:
        """Method and parameters (without sessionId). Raises ValueError with the modes that exist."""
        known = [str(one.get("id")) for one in _dicts_in_list(_dict_or_empty(self.modes).get("availableModes"))]
        if mode not in known:
            raise ValueError(f"no mode {mode!r}; " + _these("modes", known))
        if self.mode_option:
            return "session/set_config_option", {"configId": self.mode_option, "value": mode}
        return "session/set_mode", {"modeId": mode}

    def model_request(self, model: str) -> tuple[str, Json]:
        """Method and parameters (without sessionId). Raises ValueError with the models that exist."""
        offered = _dict_or_empty(self.models)
        if self.model_option:
            known = [str(one.get("value")) for one in _flat(offered.get("options"))]
        else:
            known = [str(one.get("modelId")) for one in _dicts_in_list(offered.get("availableModels"))]
        if model not in known:
            raise ValueError(f"no model {model!r}; " + _these("models", known))
        if self.model_option:
            return "session/set_config_option", {"configId": self.model_option, "value": model}
        return "session/set_model", {"modelId": model}

    def changed(self, update: Json) -> None:
        """Apply an update in which the agent reports a change of its mode or options."""
        kind = update.get("sessionUpdate")
        if kind == "current_mode_update" and self.modes is not None:
            self.modes = {**self.modes, "currentModeId": update.get("currentModeId")}
        elif kind == "config_option_update":
            self.read_options(update.get("configOptions"))

    def chosen(self, *, mode: str | None = None, model: str | None = None) -> None:
        """Apply a mode or model that we set and the agent accepted."""
        if mode is not None and self.modes is not None:
            self.modes = {**self.modes, "currentModeId": mode}
        if model is not None and self.models is not None:
            key = "currentValue" if self.model_option else "currentModelId"
            self.models = {**self.models, key: model}


def _flat(options: Any) -> list[Json]:
    """Flatten a select's options, which may come in groups (ACP SessionConfigSelectGroup)."""
    return [
        one
        for top in _dicts_in_list(options)
        for one in (_dicts_in_list(top["options"]) if "options" in top else [top])
    ]


def _these(what: str, known: list[str]) -> str:
    return f"this agent's {what}: {', '.join(known)}" if known else f"this agent offers no {what}"
