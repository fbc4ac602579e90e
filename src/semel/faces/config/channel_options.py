"""Check the settings that belong to one kind of channel: the fields of its dataclass (see `semel.channels.Kind`).

A string setting may be `env:NAME` or `file:PATH`, so that secrets need not be written into semel.toml. No error message
repeats a value that came from such a reference, because it may be a secret.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

import semel.channels
from semel.channels.problems import SettingsError
from semel.faces.config.file import ConfigSource
from semel.faces.config.problems import ProblemList, describe, suggest_nearest
from semel.gateway.settings import ChannelSettings
from semel.gateway.settings.tables import list_keys, parse_seconds

UNKNOWN = "(unknown)"
"""Takes the place of a text that is missing or cannot be read, so that the rest of the section can be checked."""


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
    for key, field in fields.items():
        if _is_required(field) and key not in channel.options:
            problems.add(source.error((*location, "kind"), f'{section} needs "{key}"'))
    unknown = {
        key: UNKNOWN
        for key, field in fields.items()
        if key not in values and (key in channel.options or _is_required(field)) and _accepts_text(types[key])
    }
    referred = [value for key, value in values.items() if _is_reference(channel.options[key])]
    if all(key in values or key in unknown for key, field in fields.items() if _is_required(field)):
        for problem in _find_problems(settings, values, unknown):
            key = _name_setting(problem)  # messages about one setting begin with it
            place = (*location, key if key in channel.options else "kind")
            problems.add(source.error(place, f"{section}: {_redact_values(problem, referred)}"))
    problems.raise_any()
    return values


def _find_problems(settings: Callable[..., Any], values: Mapping[str, Any], unknown: Mapping[str, str]) -> list[str]:
    """Return what a kind finds wrong with the settings of a channel.

    `unknown`: those that could not be read, with substitutes; nothing is reported about these.
    """
    try:
        settings(**values, **unknown)
    except SettingsError as error:
        return [text for text in error.problems if _name_setting(text) not in unknown and UNKNOWN not in text]
    except ValueError as error:  # of a package's kind: whether the substitutes are the reason cannot be told
        return [] if unknown else [str(error)]
    return []


def _name_setting(problem: str) -> str:
    """Return the first word of a problem: the setting's name, if it is about one setting."""
    word = re.match(r"\w*", problem)
    return word[0] if word else ""


def _accepts_text(type: Any) -> bool:
    """Whether a setting of this type can be any text."""
    try:
        TypeAdapter(type).validate_python(UNKNOWN, strict=True)
    except ValidationError:
        return False
    return True


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
