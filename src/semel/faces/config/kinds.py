"""Check the settings that belong to one kind of channel: the fields of its dataclass (see `semel.channels.Kind`).

A string setting may be `env:NAME` or `file:PATH`, so that secrets need not be written into semel.toml. No error message
repeats a value that came from such a reference, because it may be a secret.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from pydantic import TypeAdapter, ValidationError

import semel.channels
from semel.faces.config.model import Channel
from semel.faces.config.places import expanded
from semel.faces.config.problems import ConfigError, line_of, nearest
from semel.faces.config.values import seconds

SHARED = frozenset(Channel.model_fields)
"""Settings that every kind of channel has; kinds.py checks the others."""


class ConfigSource(NamedTuple):
    """The configuration file: base of relative paths, text and name for error messages, and the environment."""

    base: Path
    text: str
    name: str
    env: Mapping[str, str]

    def error(self, channel: str, key: str, what: str) -> ConfigError:
        line = line_of(self.text, ("channels", channel, key))
        return ConfigError(f"{self.name}:{line}: {what}" if line else f"{self.name}: {what}")


def check(channel: str, kind: str, options: Mapping[str, Any], place: ConfigSource) -> dict[str, Any]:
    """Resolve references in a channel's own settings and check them against its kind. Raises ConfigError."""
    section = f"[channels.{channel}]"
    known = semel.channels.kinds()
    if kind not in known:
        raise place.error(channel, "kind", f'{section} kind is "{kind}"{nearest(kind, known)}')
    settings = known[kind].settings
    fields = {field.name: field for field in dataclasses.fields(settings) if field.init}
    for key in options:
        if key not in fields:
            hint = nearest(key, (fields.keys() | SHARED) - {"name"})
            raise place.error(channel, key, f'{section} has no setting "{key}"{hint}')
    for key, field in fields.items():
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if needed and key not in options:
            raise place.error(channel, "kind", f'{section} needs "{key}"')
    hints = get_type_hints(settings)
    values = {key: _read(value, channel, key, hints[key], place) for key, value in options.items()}
    try:
        settings(**values)
    except ValueError as error:
        referred = [values[key] for key, value in options.items() if _refers(value)]
        raise place.error(channel, "kind", f"{section}: {_redact_values(str(error), referred)}") from None
    return values


def _refers(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("env:", "file:"))


def _redact_values(text: str, referred: Iterable[Any]) -> str:
    """Replace the values of references in an error message by "...": they may be secrets."""
    for value in sorted({str(value) for value in referred}, key=len, reverse=True):
        for shown in (value, repr(value)[1:-1]):
            text = text.replace(shown, "...") if shown else text
    return text


def _read(value: Any, channel: str, key: str, kind: Any, place: ConfigSource) -> Any:
    """Resolve and convert one setting (durations to seconds). Raises ConfigError without showing referenced values."""
    where, told = f'[channels.{channel}] "{key}"', value
    if isinstance(value, str):
        value = secret(value, where, place)
    referred = [value] if _refers(told) else []
    try:
        value = seconds(value) if kind is float else value
        return TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        should = error.errors()[0]["msg"].removeprefix("Input should be ").replace("valid ", "")
        raise place.error(channel, key, f"{where} should be {should}") from None
    except ValueError as error:
        raise place.error(channel, key, f"{where}: {_redact_values(str(error), referred)}") from None


def secret(value: str, where: str, place: ConfigSource) -> str:
    """The value itself, or what `env:NAME` or `file:PATH` refers to (a last line break dropped)."""
    if value.startswith("file:"):
        try:
            path = place.base / expanded(value.removeprefix("file:"))
            return path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError, ConfigError) as error:
            raise ConfigError(f"{where} is {value!r}, which cannot be read: {error}") from None
    return variable(value, where, place.env)


def variable(value: str, where: str, env: Mapping[str, str]) -> str:
    """The value itself, or what `env:NAME` refers to."""
    if not value.startswith("env:"):
        return value
    name = value.removeprefix("env:")
    if name not in env:
        raise ConfigError(f"{where} is {value!r}, and the environment variable {name} is not set")
    return env[name]
