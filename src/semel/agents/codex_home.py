"""The folder in which Codex keeps its login and its configuration.

`authenticate` with a key makes Codex write the key into `auth.json`, and it uses that one from then on, whatever its
environment has later. Semel authenticates by itself whenever Codex demands it, so it puts the file back as it was: the
running process keeps the login, and the next one gets the key that its environment has then. A login that a person has
made stays. Measured with codex 0.171.0 and codex-acp 2.6.0.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from semel.agents.known import recognise_command

KEY_VARIABLES = ("CODEX_API_KEY", "OPENAI_API_KEY")
"""The variables that may hold its key; of two, its adapter takes the first."""


def is_codex(command: Sequence[str]) -> bool:
    """Whether this command line starts Codex."""
    return any(known.name == "codex" for known in recognise_command(command))


def find_login_file(env: Mapping[str, str]) -> Path:
    """Return the file in which Codex keeps its login. It may be missing."""
    return _find_home(env) / "auth.json"


def find_config_file(env: Mapping[str, str]) -> Path:
    """Return the file of Codex's own configuration. It may be missing."""
    return _find_home(env) / "config.toml"


def read_login(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the login that Codex keeps; {} if it keeps none there, as with the setting of a keyring."""
    try:
        kept = json.loads(find_login_file(env).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def read_config(env: Mapping[str, str]) -> dict[str, Any]:
    """Return Codex's own configuration; {} if it has none that can be read."""
    try:
        return tomllib.loads(find_config_file(env).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def has_key_login(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether this is Codex, and a person has logged it in with a key, so that it looks at no variable."""
    return is_codex(command) and bool(read_login(env).get("OPENAI_API_KEY"))


def find_key_variable(env: Mapping[str, str]) -> str | None:
    """Return the variable whose key Codex's adapter takes; None if none is set."""
    return next((name for name in KEY_VARIABLES if env.get(name, "").strip()), None)


@contextmanager
def restore_login_file(command: Sequence[str], env: Mapping[str, str]) -> Iterator[None]:
    """On leaving the block, restore Codex's login file if it then holds the key of the environment.

    A key that was there before comes from another process that Semel logs in just now, and is not restored. Does
    nothing for other agents, or if another login was written meanwhile.
    """
    if not is_codex(command):
        yield
        return
    file, before = find_login_file(env), None
    with suppress(OSError):
        before = file.read_bytes() if not read_login(env).get("OPENAI_API_KEY") else None
    try:
        yield
    finally:
        variable = find_key_variable(env)
        if variable is not None and read_login(env).get("OPENAI_API_KEY") == env[variable].strip():
            with suppress(OSError):  # then the key stays, and `find_codex_notes` tells of it once another one is set
                if before is None:
                    file.unlink()
                else:
                    file.write_bytes(before)


def _find_home(env: Mapping[str, str]) -> Path:
    return Path(env.get("CODEX_HOME") or Path(env.get("HOME", "~")).expanduser() / ".codex")
