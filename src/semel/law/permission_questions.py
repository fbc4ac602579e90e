"""Permission requests as people meet them in a chat: asked in words, answered by `/approve`, `/approve N` or `/deny`.

The options of all requests of a session are numbered on, for ever: a number never means two things (Law 13). Which
request an answer is for is told in `semel.law.permissions`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semel.text.invisible import is_unseen, squeezed
from semel.text.shorten import shorten

Json = dict[str, Any]

TITLE, INPUT, OPTION = 300, 600, 100  # characters that are shown of each
RUN = frozenset(("command", "cmd", "commands", "script", "code", "argv", "args"))
"""Fields of an input that say what is run."""
_fence = re.compile("```+|~~~+")
_BLANKS = re.compile(r"\s{9,}")  # more than an indentation


@dataclass(frozen=True)
class Request:
    """An open request. Its options are numbered from `first`; `asked`: the seq of the notice that asks it in a chat."""

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
        """Its title."""
        return _line(self.title, TITLE)


@dataclass(frozen=True)
class Chosen:
    """An answer: `option` None cancels the request. `said` is what people are told."""

    item: int
    option: str | None
    said: str


def words(
    title: str, told: Any, options: Sequence[Mapping[str, Any]], first: int, minutes: float, who: str = "the owner"
) -> str:
    """A request as it stands in a chat, in Markdown. `told`: what the agent wants to do it with; `who` may answer."""
    lines = [f"The agent asks for permission: {_line(title, TITLE)}"]
    if told not in (None, "", {}, []):
        lines += ["", _fenced(told)]
    lines += ["", *(f"{n}. {called(option)}" for n, option in enumerate(options, first)), ""] if options else [""]
    numbered = f", /approve N (N: {first} to {first + len(options) - 1})" if len(options) > 1 else ""
    within = max(1, round(minutes))
    answers = f"answers /approve{numbered} or /deny, within {within} minute{'s' if within > 1 else ''}."
    lines.append(f"{who[:1].upper()}{who[1:]} {answers}")
    return "\n".join(lines)


def withdrawn(title: str, expired: bool) -> str:
    """That nobody can answer it any more, for the people who were asked."""
    return f"{'Nobody answered in time' if expired else 'Withdrawn'}: {_line(title, TITLE)}"


def outcome(option: str | None, options: Sequence[Mapping[str, Any]], by: str, title: str) -> str:
    """What became of a request, for the people who were asked."""
    found = next((o for o in options if str(o.get("optionId")) == option), None)
    chosen = called(found) if found is not None else "cancelled"
    return f"{chosen}, by {_line(by, OPTION)}: {_line(title, TITLE)}"


def numbers_from(first: int, options: Sequence[Mapping[str, Any]]) -> range:
    """The numbers of a request that begins with `first`. One without options has a number, too."""
    return range(first, first + max(1, len(options)))


def numbers_of(one: Request) -> str:
    """The numbers of a request, in words."""
    return str(one.first) if len(one.numbers) == 1 else f"{one.first} to {one.numbers[-1]}"


def choose_option(one: Request, allow: bool, number: int | None) -> Chosen | str:
    """How an answer to this request decides it; or what is wrong with the answer, in words. A no never allows."""
    option = one.options[number - one.first] if number is not None and one.options else None
    if option is None or (not allow and not _is(option, "reject")):
        option = _mildest(one, "allow" if allow else "reject")
    if option is None and allow:
        return f"The agent offers no way to allow that alone; choose one of {numbers_of(one)}."
    name = called(option) if option is not None else "Cancelled"
    return Chosen(one.item, None if option is None else str(option.get("optionId")), f"{name}: {one.in_a_line}")


def offered(options: Sequence[Mapping[str, Any]]) -> tuple[Json, ...]:
    """The options of a request that can be answered with: `{"optionId", "name", "kind"?, ...}`, all three texts.

    One without an id that is a text is left out; one without a name is called by its id.
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
    """What an option is called, in one line."""
    return _line(str(option.get("name") or option.get("optionId") or "?"), OPTION)


def _line(text: str, most: int) -> str:
    """What an agent wrote, in one line: it must not look like another request, nor read another way than it is."""
    return shorten(squeezed(text), most)


def _fenced(told: Any) -> str:
    shown = plain(told)
    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False, indent=1)
    inside = _fence.sub("'''", cut(text))
    return f"```\n{inside}\n```"


def cut(text: str) -> str:
    """As much of an input as is shown, and how much is left out."""
    left = len(text) - INPUT
    return text if left <= 0 else f"{text[:INPUT]}\n… {left:,} characters are left out here; the page shows them"


def plain(told: Any) -> Any:
    """An input as people read it: what is run first, then what is short; long runs of blanks as one, and what cannot be
    seen by its number. JSON to JSON."""
    if isinstance(told, str):
        return _pictured(_BLANKS.sub(" ", told))
    if isinstance(told, list | tuple):
        return [plain(one) for one in told]
    if not isinstance(told, Mapping):
        return told
    return {plain(str(name)): plain(told[name]) for name in sorted(told, key=lambda name: _rank(name, told[name]))}


def _rank(name: Any, value: Any) -> int:
    if str(name).casefold() in RUN:
        return 0
    return 1 if not isinstance(value, str | list | Mapping) or len(str(value)) <= OPTION else 2


def _pictured(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join([f"<U+{ord(one):04X}>" if one not in "\n\t" and is_unseen(one) else one for one in text])
