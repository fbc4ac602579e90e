"""Find the configuration file, the data directory and the ledger. Imports little, because every command needs it."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semel.faces.config.problems import ConfigError
from semel.tools.address import choose_data_dir, list_usual_configs

if TYPE_CHECKING:
    from semel.ledger.storage.location import LedgerLocation


def locate(
    path: Path | None = None, data_dir: Path | None = None, env: Mapping[str, str] = os.environ
) -> tuple[Path, LedgerLocation]:
    """Return (data directory, ledger). Reads no secrets and ignores all other settings. Raises ConfigError."""
    config_file = find_config_file(path, env)
    raw = read_config_file(config_file)[1] if config_file else {}
    gateway, ledger = raw.get("gateway"), raw.get("ledger")
    data_dir_in_file = gateway.get("data_dir") if isinstance(gateway, dict) else None
    url = ledger.get("url") if isinstance(ledger, dict) else None
    data = find_data_dir(data_dir, data_dir_in_file, config_file.parent if config_file else Path.cwd(), env)
    return data, find_ledger(url, data)


def locate_to_read(
    path: Path | None, data_dir: Path | None, env: Mapping[str, str] = os.environ
) -> tuple[Path, LedgerLocation, str]:
    """Return what `locate` does, and "", for a command that only reads.

    If the file cannot be read, but the data directory is named, the ledger is the usual one there, and the third value
    says what is wrong with the file. Raises ConfigError if there is no such ledger or the directory is not named.
    """
    try:
        return *locate(path, data_dir, env), ""
    except ConfigError as error:
        find_config_file(path, env)  # raises if the file that is wrong was named and does not exist
        if not is_data_dir_named(data_dir, env):
            raise ConfigError(f"{error}; to read without this file, name the data directory: --data-dir DIR") from None
        data = find_data_dir(data_dir, None, Path.cwd(), env)
        ledger = find_ledger(None, data)
        if not may_exist(data / "ledger.db"):
            raise
        return data, ledger, str(error)


def locate_running(path: Path | None, data_dir: Path | None, env: Mapping[str, str] = os.environ) -> Path:
    """Return the data directory of the gateway to ask. A directory that is named needs no file.

    If the file cannot be read, it is that of the running gateway which has read it before. Raises ConfigError.
    """
    try:
        if is_data_dir_named(data_dir, env):
            find_config_file(path, env)  # raises if the named one does not exist
            return find_data_dir(data_dir, None, Path.cwd(), env)
        return locate(path, data_dir, env)[0]
    except ConfigError:
        file = find_config_file(path, env)
        from semel.tools.address import NoGateway, find_running_config, list_running  # only now: seldom needed

        for place in list_running():
            with contextlib.suppress(NoGateway):
                if file is not None and find_running_config(place) == file:
                    return place
        raise


def expand_path(path: str | Path) -> Path:
    """Expand `~` in a path from the user. Raises ConfigError if it cannot be a path."""
    try:
        if "\0" not in str(path):
            return Path(path).expanduser()
        reason = "it holds a NUL character"
    except RuntimeError:  # ~name of an unknown user
        reason = "there is no such user, or no home directory"
    raise ConfigError(f"{str(path)!r} is not a valid path: {reason}")


def find_config_file(path: Path | None, env: Mapping[str, str]) -> Path | None:
    """Return the first of --config (`path`), $SEMEL_CONFIG, ./semel.toml and ~/.config/semel/semel.toml.

    Returns `None` if there is none. Raises ConfigError if --config or $SEMEL_CONFIG names a file that does not exist.
    """
    named_path = path or (Path(env["SEMEL_CONFIG"]) if env.get("SEMEL_CONFIG") else None)
    if named_path is not None:
        named_path = expand_path(named_path).absolute()
        if not may_exist(named_path):
            raise ConfigError(f"{named_path}: no such file; `semel init {shlex.quote(str(named_path))}` writes one")
        return named_path
    return next((place for place in list_usual_configs(env) if may_exist(place)), None)


def may_exist(path: Path) -> bool:
    """Whether a path exists. True also if that cannot be determined: reading the file then reports the reason."""
    try:
        return path.exists()
    except OSError:
        return True


def read_config_file(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors write a byte order mark
        return text, tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{path}: this is nested too deep") from None
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        line = int(place[1]) if place else len(text.splitlines())  # else it is at the end of the document
        reason = "a quote is not closed" if _is_open_quote(error) else f"{error}{_suggest_quotes(text, line)}"
        problem = _explain_repeat(text, line, error) or f"this is not TOML: {reason}"
        raise ConfigError(f"{path}:{line}: {problem}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: this is not UTF-8; save the file in that encoding") from None
    except OSError as error:
        remedy = "; let the user who runs this read it (chown, chmod)" if isinstance(error, PermissionError) else ""
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}{remedy}") from None


def _is_open_quote(error: tomllib.TOMLDecodeError) -> bool:
    """Whether a line or the file ends within a quoted text."""
    return re.match(r"Illegal character '\\n'|Unterminated string|Expected \"'", str(error)) is not None


def _suggest_quotes(text: str, line: int) -> str:
    """Return a hint to append if this line is a section whose name needs quotes, like `[sessions.main:*]`; else ""."""
    lines = text.splitlines()[:line]
    header = re.match(r"""\s*\[(\w+)\.([^\]"'.]*[^\]"'.\w-][^\]"'.]*)\]""", lines[-1], re.A) if lines else None
    return f'; write [{header[1]}."{header[2].strip()}"]' if header else ""


def _explain_repeat(text: str, line: int, error: tomllib.TOMLDecodeError) -> str:
    """Return what to do about a key or section that the file has twice; "" if it is another error.

    `line`: that of the second one, counted from 1. tomllib names neither the key nor the first one.
    """
    if not re.match("Cannot (overwrite|declare)", str(error)):
        return ""
    lines = text.splitlines()[:line]
    section = re.match(r"\s*(\[\[?[^\]]+\]\]?)", lines[-1])
    while not section and len(lines) > 1 and not re.match(r"""\s*[\w."'-]+\s*=""", lines[-1]):  # the end of a long list
        lines.pop()
    name = section[1] if section else lines[-1].partition("=")[0].strip()
    for number in range(len(lines) - 1, 0, -1):
        if lines[number - 1].partition("#" if section else "=")[0].strip() == name:
            return f"{name} is here a second time, first in line {number}: keep one of them"
        if not section and lines[number - 1].lstrip().startswith("["):
            break
    return f"{name} has a value already: keep one of them"


def find_data_dir(data_dir: Path | None, in_file: Any, base: Path, env: Mapping[str, str]) -> Path:
    if data_dir is not None:
        return expand_path(data_dir).absolute()
    return choose_data_dir(in_file, base, env, expand_path)


def is_data_dir_named(data_dir: Path | None, env: Mapping[str, str]) -> bool:
    """Whether the command line (`data_dir`) or the environment names the data directory."""
    return data_dir is not None or bool(env.get("SEMEL_DATA"))


def find_ledger(url: Any, data_dir: Path) -> LedgerLocation:
    if isinstance(url, str) and "://" in url:
        from semel.ledger.storage.location import DatabaseUrl, is_database_uri

        if is_database_uri(url) and DatabaseUrl(url).database:
            return DatabaseUrl(url)
    name = url.removeprefix("sqlite:///") if isinstance(url, str) and url else "ledger.db"
    return (data_dir / expand_path(name)).absolute()
