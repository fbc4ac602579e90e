"""Which key, account and server Codex uses: it keeps the login of a person, and then looks at no key elsewhere.

Measured with codex 0.171.0 and codex-acp 2.6.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from semel.agents.codex_home import (
    find_config_file,
    find_key_variable,
    find_login_file,
    is_codex,
    read_config,
    read_login,
)

if TYPE_CHECKING:
    from semel.agents.acp import AcpAgent


def find_codex_notes(agent: AcpAgent) -> list[str]:
    """Return notes about a key or a server in the environment that Codex does not use; [] for other agents."""
    if not is_codex(agent.command):
        return []
    env = agent.environment()
    notes = (_find_stale_key(agent.name, env), _find_ignored_server(env))
    return [note for note in notes if note is not None]


def describe_codex_account(agent: AcpAgent) -> str:
    """Say which login Codex keeps, and what becomes of a key in its environment.

    Return "" if it keeps none, if its model's provider is another one, and for other agents.
    """
    if not is_codex(agent.command):
        return ""
    env = agent.environment()
    file = find_login_file(env)
    kept = read_login(env)
    if (env.get("MODEL_PROVIDER") or read_config(env).get("model_provider") or "openai") != "openai":
        return ""
    if kept.get("OPENAI_API_KEY"):
        return f"it uses the API key with which it was logged in ({file})"
    if not isinstance(kept.get("tokens"), dict):
        return ""
    account = f"it uses the ChatGPT account with which it was logged in ({file})"
    variable = find_key_variable(env)
    if variable is None:
        return account
    return (
        f"{account}, and not {variable}, which is set: its turns count against that account's plan, and nothing is "
        f"charged to the key. To use the key: semel agents login {agent.name} --method api-key"
    )


def _find_stale_key(agent: str, env: Mapping[str, str]) -> str | None:
    """Return a note if Codex uses another key than the one in its environment."""
    file = find_login_file(env)
    kept, variable = read_login(env).get("OPENAI_API_KEY"), find_key_variable(env)
    if not kept or variable is None or env[variable].strip() == kept:
        return None
    return (
        f"Codex keeps another key in {file} than {variable} has, and uses that one. For the new one: "
        f"semel agents login {agent} --method api-key"
    )


def _find_ignored_server(env: Mapping[str, str]) -> str | None:
    """Return a note if OPENAI_BASE_URL is set, which Codex does not read, and its config.toml names no server."""
    if not env.get("OPENAI_BASE_URL") or env.get("MODEL_PROVIDER"):
        return None
    config = read_config(env)
    if "openai_base_url" in config or "model_provider" in config:
        return None
    file = find_config_file(env)
    return f"Codex does not read OPENAI_BASE_URL. To use that server, write its URL as `openai_base_url` into {file}"
