"""Which key, account and server Codex uses: it keeps its login, and looks at the environment no more.

Measured with codex 0.171.0 and codex-acp 2.6.0.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semel.agents.acp.login import PROVIDER_VARIABLES
from semel.agents.known import recognise_command

if TYPE_CHECKING:
    from semel.agents.acp import AcpAgent


def find_codex_notes(agent: AcpAgent) -> list[str]:
    """Return notes about a key or a server in the environment that Codex does not use; [] for other agents."""
    if not _is_codex(agent):
        return []
    env = agent.environment()
    notes = (_find_stale_key(agent.name, env), _find_ignored_server(env))
    return [note for note in notes if note is not None]


def describe_codex_account(agent: AcpAgent) -> str:
    """Say which login Codex keeps, and what becomes of a key in its environment.

    Return "" if it keeps none, if its model's provider is another one, and for other agents.
    """
    if not _is_codex(agent):
        return ""
    env = agent.environment()
    file = _find_home(env) / "auth.json"
    kept = _read_login(file)
    if (env.get("MODEL_PROVIDER") or _read_config(env).get("model_provider") or "openai") != "openai":
        return ""
    if kept.get("OPENAI_API_KEY"):
        return f"it uses the API key with which it was logged in ({file})"
    if not isinstance(kept.get("tokens"), dict):
        return ""
    account = f"it uses the ChatGPT account with which it was logged in ({file})"
    variable = _find_key_variable(env)
    if variable is None:
        return account
    return (
        f"{account}, and not {variable}, which is set: its turns count against that account's plan, and nothing is "
        f"charged to the key. To use the key: semel agents login {agent.name} --method api-key"
    )


def _is_codex(agent: AcpAgent) -> bool:
    return any(known.name == "codex" for known in recognise_command(agent.command))


def _find_home(env: Mapping[str, str]) -> Path:
    return Path(env.get("CODEX_HOME") or Path(env.get("HOME", "~")).expanduser() / ".codex")


def _read_login(file: Path) -> dict[str, Any]:
    """Return the login that Codex keeps; {} if it keeps none there, as with the setting of a keyring."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _read_config(env: Mapping[str, str]) -> dict[str, Any]:
    """Return Codex's own configuration; {} if it has none that can be read."""
    try:
        return tomllib.loads((_find_home(env) / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _find_key_variable(env: Mapping[str, str]) -> str | None:
    return next((name for name in PROVIDER_VARIABLES["openai"] if env.get(name)), None)


def _find_stale_key(agent: str, env: Mapping[str, str]) -> str | None:
    """Return a note if Codex uses another key than the one in its environment."""
    file = _find_home(env) / "auth.json"
    kept, variable = _read_login(file).get("OPENAI_API_KEY"), _find_key_variable(env)
    if not kept or variable is None or env[variable] == kept:
        return None
    return (
        f"Codex keeps another key in {file} than {variable} has, and uses that one. For the new one: "
        f"semel agents login {agent} --method api-key"
    )


def _find_ignored_server(env: Mapping[str, str]) -> str | None:
    """Return a note if OPENAI_BASE_URL is set, which Codex does not read, and its config.toml names no server."""
    if not env.get("OPENAI_BASE_URL") or env.get("MODEL_PROVIDER"):
        return None
    config = _read_config(env)
    if "openai_base_url" in config or "model_provider" in config:
        return None
    file = _find_home(env) / "config.toml"
    return f"Codex does not read OPENAI_BASE_URL. To use that server, write its URL as `openai_base_url` into {file}"
