"""Check the settings that belong to one kind of channel: the fields of its dataclass (see `semel.channels.Kind`).

A string setting may be `env:NAME` or `file:PATH`, so that secrets need not be written into semel.toml. No error message
repeats a value that came from such a reference, because it may be a secret.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

import semel.channels
from semel.faces.config.file import ConfigSource
from semel.faces.config.problems import ProblemList, describe, suggest_nearest
from semel.gateway.settings import ChannelSettings
from semel.gateway.settings.tables import list_keys, parse_seconds


def check_options(channel: ChannelSettings, source: ConfigSource) -> dict[str, Any]:
    """Resolve references in a channel's own settings and check them against its kind. Raises ConfigError."""
    section, location = f"[channels.{channel.name}]", ("channels", channel.name)
    kinds = semel.channels.kinds()
    if channel.kind not in kinds:
        hint = suggest_nearest(channel.kind, kinds)
        if "did you mean" not in hint:
            hint += "; a kind of your own needs its package, installed into the environment of this Semel"
        raise source.error((*location, "kind"), f'{section} kind is "{channel.kind}"{hint}')
    settings = kinds[channel.kind].settings
    fields = {field.name: field for field in dataclasses.fields(settings) if field.init}
    problems, types = ProblemList(), get_type_hints(settings)
    required = [key for key, field in fields.items() if _is_required(field)]
    for key in required:
        if key not in channel.options:
            problems.add(source.error((*location, "kind"), f'{section} needs "{key}"'))
    values: dict[str, Any] = {}
    for key, value in channel.options.items():
        if key not in fields:
            hint = suggest_nearest(key, fields.keys() | list_keys(ChannelSettings))
            problems.add(source.error((*location, key), f'{section} has no setting "{key}"{hint}'))
            continue
        try:
            values[key] = _read_option(value, types[key], source)
        except ValueError as error:
            problems.add(source.error((*location, key), f'{section} "{key}"{error}'))
    if values.keys() >= {*required, *(fields.keys() & channel.options.keys())}:
        try:
            settings(**values)
        except ValueError as error:
            referred = [value for key, value in values.items() if _is_reference(channel.options[key])]
            key = str(error).partition(" ")[0]  # messages about one setting begin with it
            place = (*location, key if key in channel.options else "kind")
            problems.add(source.error(place, f"{section}: {_redact_values(str(error), referred)}"))
    problems.raise_any()
    return values


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("env:", "file:"))


def _redact_values(text: str, values: Iterable[Any]) -> str:
    """Replace `values` in an error message by "...". They came from `env:` or `file:` and may be secrets."""
    for value in sorted({str(value) for value in values}, key=len, reverse=True):
        for written in (value, repr(value)[1:-1]):
            text = text.replace(written, "...") if written else text
    return text


def _read_option(raw: Any, type: Any, source: ConfigSource) -> Any:
    """Resolve and convert one setting (durations to seconds). Raises ValueError without showing referenced values."""
    value = raw
    try:
        value = source.resolve_secret(value) if isinstance(value, str) else value
        converted = parse_seconds(value) if type is float else value
        return TypeAdapter(type).validate_python(converted, strict=True)
    except ValidationError as error:
        raise ValueError(f" {describe(error.errors()[0]['msg'])}") from None
    except ValueError as error:
        raise ValueError(f": {_redact_values(str(error), [value] if value != raw else [])}") from None
