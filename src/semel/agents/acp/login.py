"""Log an agent in: what a person must do, and what Semel can do by itself (ACP v1, "Authentication"; RFD
"auth-methods").

An agent lists its login methods in its answer to `initialize`. A method works in one of three ways:

- with a key from the agent's environment: Semel calls `authenticate` by itself if the variable is set;
- in a terminal: `semel agents login` starts the program that the method names, and the person logs in there;
- by the agent itself, which may open a browser: `semel agents login` calls `authenticate` and waits.

Adapters name a key's variable in different places: in `vars`, as a provider in `_meta`, or only in words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from semel.gateway.ports import Json
from semel.text.json_types import object_at, objects_in, text_at, value_at

PROVIDER_VARIABLES = {
    "openai": ("OPENAI_API_KEY", "CODEX_API_KEY"),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
"""The variables that hold a provider's key, by the provider's name in `_meta["api-key"].provider`."""
_KEY_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:API_KEY|TOKEN)\b")


@dataclass(frozen=True)
class LoginMethod:
    """One of an agent's login methods.

    `variables`: variables that may hold the key; one of them is enough. `command`: the argv to run in a terminal, with
    the variables `env`; empty if the method needs no terminal.
    """

    id: str
    name: str
    description: str = ""
    variables: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, method: Json, agent_command: Sequence[str]) -> LoginMethod:
        """Read an entry of `authMethods`.

        `agent_command`: the agent's own argv, to which a terminal login adds arguments.
        """
        id = str(method.get("id") or "")
        name, description = str(method.get("name") or id).strip(), str(method.get("description") or "").strip()
        command: tuple[str, ...] = ()
        terminal = object_at(method, "_meta", "terminal-auth")
        if method.get("type") == "terminal":
            command, terminal = (*agent_command, *_read_texts(method.get("args"))), method
        elif text_at(terminal, "command"):
            command = (str(terminal["command"]), *_read_texts(terminal.get("args")))
        return cls(id, name, description, _key_variables(method), command, _read_variables(terminal.get("env")))

    def find_variable(self, env: Mapping[str, str]) -> str | None:
        """Return the variable that is set in `env` and holds this method's key; None if no such variable is set."""
        return next((name for name in self.variables if env.get(name)), None)


@dataclass(frozen=True)
class LoginStatus:
    """Which login an agent says that it uses (`_auth/status_update`, which Claude Code's and Codex's adapters send).

    `kind`: "none", "api_key", "account", "gateway" or "external" (the last two: from its own configuration); "" if the
    agent has not said so. `description`: in its words, such as "Anthropic API key (ANTHROPIC_API_KEY)".
    """

    kind: str = ""
    description: str = ""

    @classmethod
    def read(cls, params: Any) -> LoginStatus:
        status = object_at(params, "authStatus")
        label, detail = text_at(status, "label") or "", text_at(status, "detail")
        return cls(text_at(status, "kind") or "", f"{label} ({detail})" if label and detail else label)


@dataclass(frozen=True)
class LoginAdvice:
    """What a person can do about an agent's login. `agent`: its name.

    `help`: as `describe_login` returns it. `key_variable`: the variable of its environment that holds a key; None if
    none does. `keeps_key`: it keeps the key of a person's login, and looks at no variable. `key_method`: the id of
    its login with a key; "" if it has none.
    """

    agent: str
    help: str = ""
    key_variable: str | None = None
    keeps_key: bool = False
    key_method: str = ""

    def explain_refusal(self, status: LoginStatus) -> str:
        """Return why the agent's model refused it, as far as that is known, and the step that fits its login first."""
        login = f"`semel agents login {self.agent}"
        if status.kind == "account":
            unused = f". {self.key_variable} is set, but not used" if self.key_variable is not None else ""
            return f"Its login with {status.description} was refused: run {login}` in a terminal{unused}"
        if status.kind in ("gateway", "external"):
            return (
                f"{status.description} refused the key of the agent's own configuration: correct it there, or in the "
                "variable that it names, and restart the gateway"
            )
        if self.keeps_key and (self.key_variable is not None or status.kind == "api_key"):
            variable = self.key_variable or "its variable"
            method = f" --method {self.key_method}" if self.key_method else ""
            return (
                "The key that it keeps from its login was refused: run "
                f"{login}{method}` in a terminal in which {variable} has the right one. To restart the gateway "
                "does not change the key that it keeps"
            )
        if self.key_variable is not None:
            return (
                f"{self.key_variable} is set, so this key was probably refused, or another one that the agent "
                f"keeps: correct it and restart the gateway, or run {login}` in a terminal"
            )
        return f"The agent is not logged in, or its login was refused: {self.help}" if self.help else ""


def read_login_methods(result: Any, agent_command: Sequence[str]) -> tuple[LoginMethod, ...]:
    """Return the login methods in an agent's answer to `initialize`. Entries without an id are left out."""
    methods = (LoginMethod.read(entry, agent_command) for entry in objects_in(value_at(result, "authMethods")))
    return tuple(method for method in methods if method.id)


def describe_login(agent: str, methods: Sequence[LoginMethod], known_variables: Sequence[str] = ()) -> str:
    """Return words for people about logging an agent in, with the line to add to semel.toml.

    `known_variables`: variables for a key that the agent reads, although its methods do not name them.
    """
    steps = []
    variables = list(dict.fromkeys((*(name for method in methods for name in method.variables), *known_variables)))
    if variables:
        line = f'env = {{ {variables[0]} = "env:{variables[0]}" }}'
        where = f"or under [agents.{agent}]: {line}, beside what its env has"
        steps.append(f"set {' or '.join(variables)} where `semel up` runs ({where})")
    if not methods or any(method.command or not method.variables for method in methods):
        steps.append(f"run `semel agents login {agent}` in a terminal")
    offers = [f"{method.name}: {method.description}" if method.description else method.name for method in methods]
    return ", or ".join(steps) + (f". It offers: {'; '.join(offers)}" if offers else "")


def _key_variables(method: Json) -> tuple[str, ...]:
    declared = [name for entry in objects_in(method.get("vars")) if (name := text_at(entry, "name"))]
    provider = PROVIDER_VARIABLES.get(str(value_at(method, "_meta", "api-key", "provider")), ())
    words = _KEY_VARIABLE.findall(" ".join(str(method.get(key) or "") for key in ("id", "name", "description")))
    return tuple(dict.fromkeys((*declared, *provider, *words)))


def _read_texts(value: Any) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def _read_variables(value: Any) -> dict[str, str]:
    """Return variables as a dict. `value`: an object, or ACP's list of {"name", "value"}."""
    if isinstance(value, dict):
        return {str(name): str(text) for name, text in value.items()}
    return {str(entry["name"]): str(entry.get("value", "")) for entry in objects_in(value) if entry.get("name")}
