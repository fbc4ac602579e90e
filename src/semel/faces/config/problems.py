"""Configuration errors as messages with file, line, setting and remedy."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

Location = Sequence[str | int]
MIN_BEGINNING_CHARS = 3  # a shorter name is the beginning of too many words


class ConfigError(Exception):
    """One or more problems; each is a line that names the place and says what to do."""

    def __init__(self, *problems: str):
        super().__init__("\n".join(problems))
        self.problems = problems


class ProblemList:
    """Collects the problems of several checks, so that people see all of them at once."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Add the problems of a ConfigError that the block raises. Then the block ends, and the caller goes on."""
        try:
            yield
        except ConfigError as error:
            self.add(error)

    def add(self, error: ConfigError) -> None:
        """Add the problems of an error that are not yet known."""
        self.problems += [problem for problem in error.problems if problem not in self.problems]

    def raise_any(self) -> None:
        """Raise a ConfigError with all problems, if there are any."""
        if self.problems:
            raise ConfigError(*self.problems)


def find_nearest(word: str, known_names: Iterable[str]) -> str | None:
    """Return the name that is most similar to `word`, or `word` itself; `None` if no name is similar."""
    return next(iter(difflib.get_close_matches(word, list(known_names), n=1, cutoff=0.6)), None)


def _find_beginning(word: str, known_names: Iterable[str]) -> str | None:
    """Return the longest name with which `word` begins; `None` if there is none."""
    beginnings = [name for name in known_names if len(name) >= MIN_BEGINNING_CHARS and word.startswith(name)]
    return max(beginnings, key=len, default=None)


def suggest_nearest(word: str, known_names: Iterable[str]) -> str:
    """Return a hint to append to a message: `; did you mean "listen"?`, or the known names if none is similar.

    A name with which the word begins is similar, too: "mcp" for "mcpServers". Returns "" if there are no known names.
    """
    names = sorted(known_names)
    if (nearest := find_nearest(word, names) or _find_beginning(word, names)) is not None:
        return f'; did you mean "{nearest}"?'
    return f"; known: {', '.join(names)}" if names else ""


def explain_validation_error(
    details: Iterable[ErrorDetails], root: type[BaseModel], text: str, name: str
) -> ConfigError:
    """Convert the details of a pydantic error to a ConfigError: one message each, with its line number if it is found.

    `root`: the model of the whole file. `text`, `name`: the file's content and name.
    """
    numbered_lines = []
    for problem in details:
        location = [part for part in problem["loc"] if part != "[key]"]
        line = find_line(text, location)
        where = f"{name}:{line}" if line else name
        numbered_lines.append((line or 0, f"{where}: {_describe_problem(problem, location, root)}"))
    return ConfigError(*(sentence for _, sentence in sorted(numbered_lines)))


def _describe_problem(problem: ErrorDetails, location: Location, root: type[BaseModel]) -> str:
    from semel.gateway.settings.tables import CONFLICT  # as in _list_known_keys

    item = f" item {location[-1] + 1}" if location and isinstance(location[-1], int) else ""
    location = location[:-1] if item else location
    table, key = format_section(location[:-1]), str(location[-1]) if location else ""
    if problem["type"] == "extra_forbidden":
        if table:
            return f'{table} has no setting "{key}"{suggest_nearest(key, _list_known_keys(root, location[:-1]))}'
        return f'there is no section or setting "{key}"{_suggest_section(key, root)}'
    if problem["type"] == "missing":
        return f'{table} needs "{key}"'
    if "[key]" in problem["loc"] and location[0] == "sessions":
        return f'"{key}" is not a pattern of session keys, like "main:telegram:*"'
    if "[key]" in problem["loc"]:
        return f'"{key}" is not a name: letters, digits, "-" and "_" only'
    if problem["type"] == CONFLICT:
        return f"{format_section(location)}: {problem['msg']}"
    if problem["type"] == "value_error":
        message = problem["msg"].removeprefix("Value error, ")
        is_table = isinstance(problem["input"], dict)
        return f"{format_section(location)}: {message}" if is_table else f'{table} "{key}"{item}: {message}'
    example = _format_list_example(problem["input"]) if problem["type"] in ("list_type", "tuple_type") else ""
    if problem["type"] == "string_type":
        example = _format_string_example(root, location)
    return (
        f'{table} "{key}"{item} is {_format_value(problem["input"])}, and {describe(problem["msg"])}{example}'.strip()
    )


def _suggest_section(key: str, root: type[BaseModel]) -> str:
    """Return a hint to append to a message about a key that stands before all sections."""
    known_sections = list(_list_known_keys(root, ()))
    homes = [section for section in known_sections if key in _list_known_keys(root, (section,))]
    return f"; it belongs in the section [{homes[0]}]" if len(homes) == 1 else suggest_nearest(key, known_sections)


def _format_list_example(value: object) -> str:
    """Format the list that a string was probably meant to be, one item for each word; "" if that is not clear."""
    words = value.split() if isinstance(value, str) and not set(value) & set("\"'\\") else ()
    return f", like {json.dumps(words, ensure_ascii=False)}" if words else ""


def _format_string_example(root: type[BaseModel], location: Location) -> str:
    """Format the default of a setting, else the example that its declaration has; "" if it has neither."""
    from semel.gateway.settings.tables import find_table, list_keys  # as in _list_known_keys

    table = find_table(root, location[:-1])
    field = list_keys(table).get(str(location[-1])) if table is not None else None
    if table is None or field is None:
        return ""
    info = table.model_fields[field]
    texts = [text for text in (info.default, *(info.examples or ())) if isinstance(text, str) and text]
    return f", like {json.dumps(texts[0], ensure_ascii=False)}" if texts else ""


def describe(message: str) -> str:
    """Convert a pydantic message to the end of a sentence, such as "should be a string"."""
    message = re.sub("valid (list|tuple)", "list", message).replace("valid dictionary", "table")
    message = re.sub(r" or instance of \w+", "", message)  # the name of a class of ours
    message = message.replace("a mapping", "a table").replace("a valid integer", "an integer").replace("valid ", "")
    message = message.replace("a boolean", "true or false, without quotes")
    return re.sub(r"^[A-Z]\w+ should", "should", message)


def format_section(location: Location) -> str:
    """Format the header of a section as in the file. Keys that are not bare keys (TOML 1.0) are quoted."""
    parts = [str(part) if re.fullmatch(r"[\w-]+", str(part), re.A) else f'"{part}"' for part in location]
    return f"[{'.'.join(parts)}]" if parts else ""


def _format_value(value: object) -> str:
    """Format a value as in TOML. The contents of tables and lists are left out, because they may hold secrets."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    return repr(value) if isinstance(value, str) else str(value).lower()


def _list_known_keys(root: type[BaseModel], location: Location) -> Iterable[str]:
    from semel.gateway.settings.tables import find_table, list_keys  # not needed by commands that only locate the data

    table = find_table(root, location)
    return list_keys(table) if table is not None else ()


def find_line(text: str, location: Location) -> int | None:
    """Find the line number of a setting, else of its table; `None` if neither is found.

    tomllib reports no line numbers, so the text is searched with patterns.
    """
    path = [str(part) for part in location if isinstance(part, str)]
    for depth in range(len(path), 0, -1):
        if line := _find_header(text, path[:depth]):
            remaining = path[depth:]
            return (_find_key(text, line, remaining[0]) or line) if remaining else line
    return _find_key(text, 0, path[0]) if path else None


def _find_header(text: str, path: Sequence[str]) -> int | None:
    names = r"\s*\.\s*".join(rf'["\']?{re.escape(part)}["\']?' for part in path)
    pattern = re.compile(rf"^\s*\[\[?\s*{names}\s*[\].]")
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), None)


def _find_key(text: str, start_line: int, key: str) -> int | None:
    pattern = re.compile(rf'^\s*["\']?{re.escape(key)}["\']?\s*[=.]')
    for number, line in enumerate(text.splitlines()[start_line:], start_line + 1):
        if pattern.match(line):
            return number
        if line.lstrip().startswith("["):
            return None
    return None
