"""Find the configuration file, the data directory and the ledger. Imports little, because every command needs it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from semel.faces.config.problems import ConfigError


def locate(
    path: Path | None = None, data_dir: Path | None = None, env: Mapping[str, str] = os.environ
) -> tuple[Path, Path]:
    """(data directory, ledger file). Reads no secrets and ignores all other settings. Raises ConfigError."""
    found = find(path, env)
    raw = read(found)[1] if found else {}
    gateway, ledger = raw.get("gateway"), raw.get("ledger")
    told = gateway.get("data_dir") if isinstance(gateway, dict) else None
    url = ledger.get("url") if isinstance(ledger, dict) else None
    data = data_home(data_dir, told, found.parent if found else Path.cwd(), env)
    return data, ledger_file(url, data)


def expanded(told: str | Path) -> Path:
    """Expand `~` in a path from the user. Raises ConfigError if it cannot be a path."""
    try:
        if "\0" not in str(told):
            return Path(told).expanduser()
        why = "it holds a NUL character"
    except RuntimeError:  # ~name of an unknown user
        why = "there is no such user, or no home directory"
    raise ConfigError(f"{str(told)!r} is no path: {why}")


def find(path: Path | None, env: Mapping[str, str]) -> Path | None:
    """The first of --config, $SEMEL_CONFIG, ./semel.toml and ~/.config/semel/semel.toml; the first two must exist."""
    named = path or (Path(env["SEMEL_CONFIG"]) if env.get("SEMEL_CONFIG") else None)
    if named is not None:
        named = expanded(named).absolute()
        if not named.exists():
            raise ConfigError(f"{named}: no such file; `semel init` writes one")
        return named
    home = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "~")).expanduser() / ".config")
    places = (Path.cwd() / "semel.toml", home / "semel" / "semel.toml")
    return next((place for place in places if place.is_file()), None)


def read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors write a byte order mark
        return text, tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{path}: this is nested too deep") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: this is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None


def data_home(told: Path | None, in_file: Any, base: Path, env: Mapping[str, str]) -> Path:
    if told is not None:
        return expanded(told).absolute()
    if env.get("SEMEL_DATA"):
        return expanded(env["SEMEL_DATA"]).absolute()
    if isinstance(in_file, str) and in_file:
        return (base / expanded(in_file)).absolute()
    home = Path(env.get("HOME", "~")).expanduser()
    return Path(env.get("XDG_DATA_HOME") or home / ".local" / "share").absolute() / "semel"


def ledger_file(url: Any, data: Path) -> Path:
    name = url.removeprefix("sqlite:///") if isinstance(url, str) else "ledger.db"
    return (data / expanded(name)).absolute()
