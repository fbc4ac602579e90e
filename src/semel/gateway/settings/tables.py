"""Types with which settings are declared: tables, durations, sizes, names, paths and secrets.

A setting is a field of a `Table`; the string after the field is its description. The field's name is the key in
semel.toml, except that the name of a duration ends in `_s` (`grace_s` is the key `grace`). When semel.toml is
validated, a `ReferenceResolvers` resolves its paths and secrets. A program that embeds a gateway passes final values,
which are not resolved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import (
    AfterValidator,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from semel.gateway.clock import find_zone
from semel.timing.durations import parse_duration
from semel.timing.walltime import read_hours

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"  # no ':', which separates the parts of a session key
SESSION_PATTERN = r"^[A-Za-z0-9._:@!+=~*?\[\]-]{1,200}$"  # the characters of session keys, and *?[]

DERIVED = Path()
"""The value of a path that is not set. A surrounding table replaces it by a path derived from other settings."""


class Table(BaseModel):
    """A table of settings. A setting that the table does not declare is an error."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        validate_by_name=True,
        validate_by_alias=False,
        alias_generator=AliasGenerator(validation_alias=lambda field: field.removesuffix("_s")),
        defer_build=True,  # a table that stands in another one is built with that one, once
    )


T = TypeVar("T", bound=Table)

CONFLICT = "conflict"
"""The type of the pydantic error for a conflict. Its context has the `keys` in semel.toml that make the conflict."""
Conflict = tuple[str, str]
"""Settings of one table that are wrong only together: (their keys in semel.toml, separated by blanks; what to do)."""


def raise_conflicts(table: Table, conflicts: Iterable[Conflict]) -> None:
    """Raise pydantic.ValidationError with all the conflicts in a table, if there are any."""
    errors = [PydanticCustomError(CONFLICT, "{text}", {"text": text, "keys": keys.split()}) for keys, text in conflicts]
    if errors:
        details = [InitErrorDetails(type=error, input=table) for error in errors]
        raise ValidationError.from_exception_data(type(table).__name__, details)


class NamedTable(Table):
    """A table with a name, which is its key in the surrounding table, as in `[agents.NAME]`."""

    name: str = Field(default="", validation_alias="(name)")


E = TypeVar("E", bound=NamedTable)


@dataclass(frozen=True)
class ReferenceResolvers:
    """Functions that resolve references in the values of semel.toml. Each raises ValueError.

    - `path`: resolves a path, which may be relative to the file or begin with `~`.
    - `secret`: returns the value of `env:NAME` or `file:PATH`, and any other text unchanged.
    """

    path: Callable[[str], Path]
    secret: Callable[[str], str]


def read_table(table: type[T], raw: object, references: ReferenceResolvers) -> T:
    """Validate the content of a table in semel.toml. Return it as an instance of `table`.

    Raises pydantic.ValidationError, in which keys of semel.toml take the place of field names.
    """
    return table.model_validate(raw, context=references, by_alias=True, by_name=False)


def list_keys(table: type[BaseModel]) -> dict[str, str]:
    """Return {key in semel.toml: field} for a table.

    Fields whose alias is in parentheses are left out, because they cannot be set in semel.toml.
    """
    keys = {str(info.validation_alias): field for field, info in table.model_fields.items()}
    return {key: field for key, field in keys.items() if not key.startswith("(")}


def find_table(root: type[BaseModel], path: Sequence[object]) -> type[BaseModel] | None:
    """Return the class of the table at a path of keys, such as agents.NAME; None if there is no such table.

    In a table of tables, such as `agents`, any key is accepted.
    """
    annotation: Any = root
    for key in path:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            field = list_keys(annotation).get(str(key))
            annotation = annotation.model_fields[field].annotation if field is not None else None
        else:  # Mapping[str, X]
            annotation = (*get_args(annotation), None, None)[1]
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def pick_fields(values: BaseModel, table: type[BaseModel]) -> dict[str, Any]:
    """Return {field: value} for the fields that `table` declares, with their values in `values`.

    `values`: an instance of `table` or of a subclass; fields that only the subclass has are left out.
    """
    return {field: getattr(values, field) for field in table.model_fields}


def parse_seconds(value: object) -> object:
    """Convert "90s", "10m", "2h" or "1d" to seconds; other types pass unchanged. Raises ValueError."""
    if not isinstance(value, str):
        return value
    if (duration := parse_duration(value)) is None:
        raise ValueError(f'{value!r} is not a duration: write seconds, or like "90s", "10m", "2h"')
    return duration


def parse_size(value: object) -> object:
    """Convert "500kB", "10MB" or "1GB" to bytes; other types pass unchanged. Raises ValueError."""
    if isinstance(value, str):
        match = re.fullmatch(r"(\d{1,15}(?:\.\d+)?)\s*(B|kB|MB|GB)", value.strip())
        if not match:
            raise ValueError(f'{value!r} is not a size: write bytes, or like "500kB", "10MB", "1GB"')
        return round(float(match[1]) * {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}[match[2]])
    return value


def _to_text(value: object) -> object:
    """Convert a TOML datetime or integer to text; other types pass unchanged."""
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _resolve_path(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str) or info.context is None:
        return value
    return info.context.path(value) if value else DERIVED


def _resolve_secret(value: str, info: ValidationInfo) -> str:
    return value if info.context is None else str(info.context.secret(value))


def _resolve_reference(value: str, info: ValidationInfo) -> str:
    if info.context is not None and not re.match("(env|file):.", value):
        raise ValueError(f'write "env:NAME" or "file:PATH": the {info.field_name} itself does not belong in this file')
    return _resolve_secret(value, info)


def _check_zone(name: str) -> str:
    find_zone(name)
    return name


def _parse_hours(value: object) -> object:
    return read_hours(value) if isinstance(value, str) else value


def _name_entries(entries: Mapping[str, E]) -> Mapping[str, E]:
    return {
        key: entry if entry.name == key else entry.model_copy(update={"name": key}) for key, entry in entries.items()
    }


Size = Annotated[int, Field(ge=0), BeforeValidator(parse_size)]  # bytes
Duration = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(parse_seconds)]
Pause = Annotated[float, Field(ge=0, allow_inf_nan=False), BeforeValidator(parse_seconds)]  # a duration that may be 0
Hours = Annotated[tuple[int, int], BeforeValidator(_parse_hours)]  # from, to: minutes of the day
Zone = Annotated[str, AfterValidator(_check_zone)]
Text = Annotated[str, BeforeValidator(_to_text)]
Strings = Annotated[tuple[str, ...], Field(strict=False)]  # a list in TOML
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
SessionPattern = Annotated[str, Field(pattern=SESSION_PATTERN)]
ResolvedPath = Annotated[Path, BeforeValidator(_resolve_path)]
OptionalPath = Annotated[ResolvedPath | None, BeforeValidator(lambda path: path or None)]
Secret = Annotated[str, AfterValidator(_resolve_secret)]  # a value, "env:NAME" or "file:PATH"
SecretReference = Annotated[str, AfterValidator(_resolve_reference)]  # "env:NAME" or "file:PATH" only
Entries = Annotated[Mapping[Name, E], AfterValidator(_name_entries)]
