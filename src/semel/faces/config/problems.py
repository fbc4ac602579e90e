"""Configuration errors as messages with file, line, setting and remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

Loc = Sequence[str | int]


class ConfigError(Exception):
    """One or more problems; each is a line that names the place and says what to do."""

    def __init__(self, *problems: str):
        super().__init__("\n".join(problems))
        self.problems = problems


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint to append: `; did you mean "listen"?`, or the list of known names if none is similar."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f'; did you mean "{close[0]}"?'
    return f"; known: {', '.join(names)}" if names else ""


def explain(error: ValidationError, root: type[BaseModel], text: str, name: str) -> ConfigError:
    """Convert a pydantic error about the whole file: one line per problem, with its line number if found."""
    found = []
    for problem in error.errors(include_url=False):
        loc = [part for part in problem["loc"] if part != "[key]"]
        line = line_of(text, loc)
        where = f"{name}:{line}" if line else name
        found.append((line or 0, f"{where}: {_sentence(problem, loc, root)}"))
    return ConfigError(*(sentence for _, sentence in sorted(found)))


def _sentence(problem: ErrorDetails, loc: Loc, root: type[BaseModel]) -> str:
    table, key = section(loc[:-1]), str(loc[-1]) if loc else ""
    if problem["type"] == "extra_forbidden":
        if table:
            return f'{table} has no setting "{key}"{nearest(key, _fields(root, loc[:-1]))}'
        return f'there is no section or setting "{key}"{nearest(key, root.model_fields)}'
    if problem["type"] == "missing":
        return f'{table} needs "{key}"'
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if "[key]" in problem["loc"] and loc[0] == "sessions":
        return f'"{key}" is not a pattern of session keys, like "main:telegram:*"'
    if "[key]" in problem["loc"]:
        return f'"{key}" is not a name: letters, digits, "-" and "_" only'
    if problem["type"] == "value_error":
        is_table = isinstance(problem["input"], dict)
        return f"{section(loc)}: {message}" if is_table else f'{table} "{key}": {message}'
    message = message.replace("valid list", "list").replace("valid dictionary", "table")
    return f'{table} "{key}" is {_shown(problem["input"])}, and should be {message}'.strip()


def section(loc: Loc) -> str:
    """The header of a section as in the file, with keys quoted that are not bare keys (TOML 1.0)."""
    parts = [str(part) if re.fullmatch(r"[\w-]+", str(part), re.A) else f'"{part}"' for part in loc]
    return f"[{'.'.join(parts)}]" if parts else ""


def _shown(value: object) -> str:
    """A value as in TOML; the contents of tables and lists are left out, because they may hold secrets."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    return repr(value) if isinstance(value, str) else str(value).lower()


def _fields(model: Any, loc: Loc) -> Iterable[str]:
    """The names of the settings at a location, found by walking down the models from the root."""
    for part in loc:
        if hasattr(model, "model_fields"):
            model = model.model_fields[str(part)].annotation
        elif len(get_args(model)) == 2:  # dict[str, X]
            model = get_args(model)[1]
    fields: Iterable[str] = getattr(model, "model_fields", ())
    return fields


def line_of(text: str, loc: Loc) -> int | None:
    """The line number of a setting or its table, or `None`. Searches the text line by line, without a TOML parser."""
    path = [str(part) for part in loc if isinstance(part, str)]
    for depth in range(len(path), 0, -1):
        if line := _header(text, path[:depth]):
            rest = path[depth:]
            return (_key(text, line, rest[0]) or line) if rest else line
    return _key(text, 0, path[0]) if path else None


def _header(text: str, path: Sequence[str]) -> int | None:
    names = r"\s*\.\s*".join(rf'["\']?{re.escape(part)}["\']?' for part in path)
    pattern = re.compile(rf"^\s*\[\[?\s*{names}\s*[\].]")
    return next((n for n, line in enumerate(text.splitlines(), 1) if pattern.match(line)), None)


def _key(text: str, after: int, key: str) -> int | None:
    pattern = re.compile(rf'^\s*["\']?{re.escape(key)}["\']?\s*[=.]')
    for number, line in enumerate(text.splitlines()[after:], after + 1):
        if pattern.match(line):
            return number
        if line.lstrip().startswith("["):
            return None
    return None
