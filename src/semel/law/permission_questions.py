"""Permission requests in a chat: their text, and their answers by `/approve`, `/approve N` or `/deny`.

Options are numbered consecutively over all requests of a session, and a number is never reused (Law 13).
`semel.law.permissions` decides which request an answer is for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semel.text.invisible import is_unseen, squeeze_to_line
from semel.text.shorten import shorten

Json = dict[str, Any]

TITLE, INPUT, OPTION = 300, 600, 100  # maximum number of characters shown of each
RUN_FIELDS = frozenset(("command", "cmd", "commands", "script", "code", "argv", "args"))
"""Fields of a tool input that hold the command or code to run; they are shown first."""
_fence = re.compile("```+|~~~+")
_BLANKS = re.compile(r"\s{9,}")  # longer than an indentation: it could push the rest out of sight


@dataclass(frozen=True)
class Request:
    """A permission request.

    `item`: its id in the session's view. `first`: the number of its first option. `asked`: the seq of the notice that
    shows it in a chat.
    """

    item: int
    title: str
    first: int
    options: tuple[Json, ...]
    asked: int | None = None

    @property
    def numbers(self) -> range:
        return numbers_from(self.first, self.options)

    @property
    def in_a_line(self) -> str:
        """The title on one line, shortened and without invisible characters."""
        return _line(self.title, TITLE)


@dataclass(frozen=True)
class Chosen:
    """A valid answer. `option`: the id of the chosen option, or None to cancel. `said`: the confirmation for people."""

    item: int
    option: str | None
    said: str


def words(
    title: str, told: Any, options: Sequence[Mapping[str, Any]], first: int, minutes: float, who: str = "the owner"
) -> str:
    """Format a request for a chat, in Markdown. `told`: the tool call's input. `who`: the people who may answer."""
    lines = [f"The agent asks for permission: {_line(title, TITLE)}"]
    if told not in (None, "", {}, []):
        lines += ["", _fenced(told)]
    lines += ["", *(f"{n}. {called(option)}" for n, option in enumerate(options, first)), ""] if options else [""]
    numbered = f", /approve N (N: {first} to {first + len(options) - 1})" if len(options) > 1 else ""
    within = max(1, round(minutes))
    answers = f"answers /approve{numbered} or /deny, within {within} minute{'s' if within > 1 else ''}."
    lines.append(f"{who[:1].upper()}{who[1:]} {answers}")
    return "\n".join(lines)


def format_withdrawal(title: str, expired: bool) -> str:
    """Tell the people who were asked that the request can no longer be answered."""
    return f"{'Nobody answered in time' if expired else 'Withdrawn'}: {_line(title, TITLE)}"


def outcome(option: str | None, options: Sequence[Mapping[str, Any]], by: str, title: str) -> str:
    """Tell the people who were asked how the request was answered, and by whom."""
    found = next((o for o in options if str(o.get("optionId")) == option), None)
    chosen = called(found) if found is not None else "cancelled"
    return f"{chosen}, by {_line(by, OPTION)}: {_line(title, TITLE)}"


def numbers_from(first: int, options: Sequence[Mapping[str, Any]]) -> range:
    """The numbers of a request whose first number is `first`. A request without options has one number, too."""
    return range(first, first + max(1, len(options)))


def numbers_of(one: Request) -> str:
    """The numbers of a request, in words."""
    return str(one.first) if len(one.numbers) == 1 else f"{one.first} to {one.numbers[-1]}"


def choose_option(one: Request, allow: bool, number: int | None) -> Chosen | str:
    """The option that an answer chooses, or an error message for the person. A denial never chooses an option that
    allows."""
    option = one.options[number - one.first] if number is not None and one.options else None
    if option is None or (not allow and not _is(option, "reject")):
        option = _mildest(one, "allow" if allow else "reject")
    if option is None and allow:
        return f"The agent offers no way to allow that alone; choose one of {numbers_of(one)}."
    name = called(option) if option is not None else "Cancelled"
    return Chosen(one.item, None if option is None else str(option.get("optionId")), f"{name}: {one.in_a_line}")


def offered(options: Sequence[Mapping[str, Any]]) -> tuple[Json, ...]:
    """The usable options of a request: `{"optionId", "name", "kind"?, ...}`, all three strings.

    An option whose id is not a string is left out; an option without a name is named after its id.
    """
    return tuple(_option(one) for one in options if isinstance(one.get("optionId"), str) and one["optionId"])


def _option(one: Mapping[str, Any]) -> Json:
    name, rest = one.get("name"), {k: v for k, v in one.items() if k != "kind" or isinstance(v, str)}
    return {**rest, "name": name if isinstance(name, str) and name.strip() else one["optionId"]}


def _mildest(one: Request, kind: str) -> Json | None:
    for wanted in (f"{kind}_once", f"{kind}_always"):
        for option in one.options:
            if option.get("kind") == wanted:
                return option
    return None


def _is(option: Json, kind: str) -> bool:
    return str(option.get("kind") or "").startswith(kind)


def called(option: Mapping[str, Any]) -> str:
    """The name of an option, on one line."""
    return _line(str(option.get("name") or option.get("optionId") or "?"), OPTION)


def _line(text: str, most: int) -> str:
    """An agent's text on one line, without invisible characters: it must not imitate another request or mislead."""
    return shorten(squeeze_to_line(text), most)


def _fenced(told: Any) -> str:
    shown = arrange_input(told)
    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False, indent=1)
    inside = _fence.sub("'''", cut(text))
    return f"```\n{inside}\n```"


def cut(text: str) -> str:
    """The beginning of a tool input, with a note on how much is left out."""
    left = len(text) - INPUT
    return text if left <= 0 else f"{text[:INPUT]}\n… {left:,} characters are left out here; the page shows them"


def arrange_input(told: Any) -> Any:
    """Prepare a tool input for reading, JSON to JSON.

    The command to run comes first, then short values. Long runs of white space become one blank, and invisible
    characters are shown by their code points.
    """
    if isinstance(told, str):
        return _pictured(_BLANKS.sub(" ", told))
    if isinstance(told, list | tuple):
        return [arrange_input(one) for one in told]
    if not isinstance(told, Mapping):
        return told
    return {
        arrange_input(str(name)): arrange_input(told[name])
        for name in sorted(told, key=lambda name: _rank(name, told[name]))
    }


def _rank(name: Any, value: Any) -> int:
    if str(name).casefold() in RUN_FIELDS:
        return 0
    return 1 if not isinstance(value, str | list | Mapping) or len(str(value)) <= OPTION else 2


def _pictured(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join([f"<U+{ord(one):04X}>" if one not in "\n\t" and is_unseen(one) else one for one in text])
