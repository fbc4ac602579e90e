"""The text of permission requests in a chat, and the option that `/approve`, `/approve N` or `/deny` chooses.

Options are numbered consecutively over all requests of a session, and a number is never reused (Law 13).
`semel.law.permissions` decides which request an answer is for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from semel.text.json_types import Json
from semel.text.visible import is_unseen, squeeze_to_line
from semel.text.wellformed import shorten

MAX_TITLE_CHARS, MAX_INPUT_CHARS, MAX_OPTION_CHARS = 300, 600, 100  # how many characters are shown of each
MAX_DETAIL_CHARS = 100  # of a tool's input, where requests are listed
MAX_NAME_CHARS = 100  # of a person's name
COMMAND_FIELDS = frozenset(("command", "cmd", "commands", "script", "code", "argv", "args"))
"""Fields of a tool input that hold the command or code to run; they are shown first."""
OUTSIDE = "(outside the chat)"
"""Where an answer was given that came from the page, a terminal, an editor or a program."""
AnswerPlace = Literal["chat", "group", "elsewhere"]
"""Where a request that is announced in a chat can be answered. "chat": by a command in that chat. "group": the same,
but there the command must reply to the request or name the agent. "elsewhere": nobody who may answer is in that chat,
so the owner answers on the page or in the terminal."""
_UNITS_S = (("day", 86_400), ("hour", 3600), ("minute", 60))
_fence = re.compile("```+|~~~+")
_BLANKS = re.compile(r"\s{9,}")  # longer than an indentation: it could push the rest out of sight


@dataclass(frozen=True)
class PermissionRequest:
    """A permission request.

    `item`: its id in the session's view. `first_number`: the number of its first option. `options`: as ACP describes
    them: `optionId`, `name`, `kind`. `notice_seq`: the seq of the notice that shows the request in a chat.
    `tool_input`: the input of its tool (any JSON value).
    """

    item: int
    title: str
    first_number: int
    options: tuple[Json, ...]
    notice_seq: int | None = None
    tool_input: Any = None

    @property
    def numbers(self) -> range:
        return numbers_from(self.first_number, self.options)

    @property
    def title_line(self) -> str:
        """The request's title on one line, shortened and without invisible characters."""
        return _to_line(self.title, MAX_TITLE_CHARS)

    @property
    def summary_line(self) -> str:
        """The title line and, if it lacks that, the command or the first other text of the tool's input, shortened."""
        detail = squeeze_to_line(_find_first_text(arrange_input(self.tool_input)))
        is_named = detail in squeeze_to_line(self.title)
        return self.title_line if is_named else f"{self.title_line}: {_to_line(detail, MAX_DETAIL_CHARS)}"


@dataclass(frozen=True)
class ChosenOption:
    """A valid answer to a request.

    `item`: the request's id in the session's view. `option`: the id of the chosen option; None if the request is
    cancelled. `confirmation`: the text that confirms the answer to the person.
    """

    item: int
    option: str | None
    confirmation: str


def format_request(
    title: str,
    tool_input: Any,
    options: Sequence[Mapping[str, Any]],
    first_number: int,
    seconds: float,
    approvers: str = "the owner",
    place: AnswerPlace = "chat",
    emoji: Sequence[str] = (),
) -> str:
    """Format a request for a chat, in Markdown.

    `first_number`: the number of the first of `options`. `seconds`: for how long it can be answered. `approvers`: who
    may answer, as a phrase. `place`: where they can. `emoji`: the reactions that answer it: one for each option, or, if
    there are no options, one that denies it.
    """
    lines = [describe_request(title, tool_input)]
    marks = [f"{each} " for each in emoji] or [""] * len(options)
    names = [f"{mark}{name_option(option)}" for mark, option in zip(marks, options, strict=False)]
    lines += ["", *(f"{n}. {name}" for n, name in enumerate(names, first_number)), ""] if options else [""]
    numbered = f", /approve N (N: {first_number} to {first_number + len(options) - 1})" if len(options) > 1 else ""
    if place == "elsewhere":
        lines.append(f"The owner answers it on the page or in the terminal, {_format_deadline(seconds)}.")
    else:
        answers = "replies to this with" if place == "group" else "answers"
        key = "an option's emoji" if options else "".join(emoji)
        reacts = f", or reacts with {key}" if emoji else ""
        lines.append(
            f"{_capitalize(approvers)} {answers} /approve{numbered} or /deny{reacts}, {_format_deadline(seconds)}."
        )
    return "\n".join(lines)


def list_buttons(options: Sequence[Mapping[str, Any]], first_number: int, place: AnswerPlace = "chat") -> list[Json]:
    """Return the buttons by which a request is answered in a chat, as {"label", "answer", "style"}.

    A press stands for a command with the option's own number, so it can mean no other request (Law 13).
    """
    if place == "elsewhere":
        return []
    if not options:
        return [{"label": "Deny", "answer": f"/deny {first_number}", "style": "deny"}]
    styles = {"allow_once": "allow", "reject_once": "deny", "reject_always": "deny"}
    return [
        {"label": name_option(option), "answer": f"/approve {n}", "style": styles.get(str(option.get("kind")), "")}
        for n, option in enumerate(options, first_number)
    ]


def format_owner_notice(title: str, tool_input: Any, session: str, whose: str, seconds: float) -> str:
    """Format a request for an owner who is not in its chat, in Markdown. It says where the request can be answered.

    `session`: the key of its session. `whose`: the name of the person whose chat it is. `seconds`: for how long it can
    be answered.
    """
    return (
        f"{describe_request(title, tool_input)}\n\n"
        f"This is in the conversation with {_to_line(whose, MAX_NAME_CHARS)}. Answer on the page, or in the terminal "
        f"with `semel chat {session}`, {_format_deadline(seconds)}; you cannot answer here."
    )


def format_ending_elsewhere(ending: str, whose: str) -> str:
    """Return a text for an owner who was notified of a request: how it ended.

    `ending`: how, as the text in its own chat says it. `whose`: the name of the person whose chat it is.
    """
    return f"In the conversation with {_to_line(whose, MAX_NAME_CHARS)}: {ending}"


def _format_deadline(seconds: float) -> str:
    """Return a deadline in the largest unit in which it is a whole number."""
    unit, length = next((u for u in _UNITS_S if seconds >= u[1] and seconds % u[1] == 0), ("second", 1))
    number = seconds / length
    return f"within {number:g} {unit}{'' if number == 1 else 's'}"


def _capitalize(phrase: str) -> str:
    return f"{phrase[:1].upper()}{phrase[1:]}"


def describe_request(title: str, tool_input: Any) -> str:
    """Return what a request is about, in Markdown: its title and the input of its tool, if there is one."""
    head = f"The agent asks for permission: {_to_line(title, MAX_TITLE_CHARS)}"
    return head if tool_input in (None, "", {}, []) else f"{head}\n\n{_format_input(tool_input)}"


def format_hint(
    request: PermissionRequest,
    approvers: str,
    place: AnswerPlace = "chat",
    absence: str = "",
    is_on_its_way: bool = False,
) -> str:
    """Return a text for a person who wrote a message while this request is open: it says how to answer the request.

    The commands give numbers of the request's options, so they mean this request wherever they are typed; in a group,
    only a message to the agent counts, such as a reply. `approvers`: who may answer, as a phrase. `place`: where they
    can. `absence`: sentences on why the person may not see the request, and where it is then answered; "" if they do.
    `is_on_its_way`: it is still to be sent.
    """
    if absence:
        return f"Your message goes to the agent; it allows and denies nothing. {absence}"
    unanswered = (
        f"Your message goes to the agent; it does not answer the request that is still open: {request.title_line}."
    )
    if place == "elsewhere":
        return f"{unanswered} The owner answers it on the page or in the terminal."
    allow = f"/approve {request.first_number}"
    options = [
        (n, option) for n, option in zip(request.numbers, request.options, strict=False) if _is_kind(option, "allow")
    ]
    if len(options) > 1:
        allow = " or ".join(f"/approve {n} ({name_option(option)})" for n, option in options)
    elif options:
        allow = f"/approve {options[0][0]}"
    rejecting = [n for n, option in zip(request.numbers, request.options, strict=False) if _is_kind(option, "reject")]
    deny = f"/deny {rejecting[0] if len(rejecting) == 1 else request.first_number}"
    where = ", in a reply to the request" if place == "group" else ""
    who = f"Once it is here, {approvers}" if is_on_its_way else _capitalize(approvers)
    return f"{unanswered} {who} can allow it with {allow}, and deny it with {deny}{where}."


def format_withdrawal(title: str, expired: bool) -> str:
    """Return a text that says that a request can no longer be answered.

    `expired`: nobody answered in time; otherwise the agent withdrew it.
    """
    return f"{name_withdrawal(expired)}: {_to_line(title, MAX_TITLE_CHARS)}"


def name_withdrawal(expired: bool) -> str:
    """Return why a request can no longer be answered, without what it was about; see `format_withdrawal`."""
    return "Nobody answered in time" if expired else "Withdrawn"


def format_outcome(
    option: str | None, options: Sequence[Mapping[str, Any]], answerer: str, title: str, is_outside: bool = False
) -> str:
    """Return a text that says how a request was answered, and by whom.

    `option`: the id of the chosen one of `options`; None if the request was cancelled. `is_outside`: it was answered
    outside of chats, so `answerer` may be a name that its chat does not know, such as "the owner".
    """
    return f"{name_answer(option, options, answerer, is_outside)}: {_to_line(title, MAX_TITLE_CHARS)}"


def name_answer(
    option: str | None, options: Sequence[Mapping[str, Any]], answerer: str, is_outside: bool = False
) -> str:
    """Return how a request or a question was answered, and by whom, without what it was about; see `format_outcome`.

    A question may be answered in other words than those of its options.
    """
    option_row = next((o for o in options if str(o.get("optionId")) == option), None)
    choice = name_option(option_row) if option_row is not None else "cancelled" if option is None else "answered"
    where = f" {OUTSIDE}" if is_outside else ""
    return f"{choice}, by {_to_line(answerer, MAX_OPTION_CHARS)}{where}"


def numbers_from(first_number: int, options: Sequence[Mapping[str, Any]]) -> range:
    """Return the numbers of a request's options, from `first_number` on. A request without options has one number."""
    return range(first_number, first_number + max(1, len(options)))


def format_numbers(request: PermissionRequest) -> str:
    """Return a request's numbers as text: "3", or "3 to 5"."""
    return (
        str(request.first_number) if len(request.numbers) == 1 else f"{request.first_number} to {request.numbers[-1]}"
    )


def find_allowing_number(first_number: int, options: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the number of the option that allows a request once, else of one that allows it; None without one."""
    kinds = [option.get("kind") for option in options]
    allowing = next((kind for kind in ("allow_once", "allow_always") if kind in kinds), None)
    return None if allowing is None else first_number + kinds.index(allowing)


def choose_option(request: PermissionRequest, allow: bool, number: int | None) -> ChosenOption | str:
    """Return the option that an answer chooses. If there is none, return an error message for the person.

    `allow`: the answer allows the request; otherwise it denies it, and never chooses an option that allows. `number`:
    the option's number, if the answer gives one; it must be one of the request's.
    """
    option = request.options[number - request.first_number] if number is not None and request.options else None
    if option is None or (not allow and not _is_kind(option, "reject")):
        mildest = _list_mildest(request, "allow" if allow else "reject")
        if allow and not request.options:
            return f"The agent offers no way to allow that; /deny {request.first_number} cancels it."
        if allow and len(mildest) != 1:
            ways = "no way to allow that alone" if not mildest else "more than one way to allow that"
            return "\n".join([f"The agent offers {ways}; choose one:", *list_options(request)])
        option = next(iter(mildest), None)
    name = name_option(option) if option is not None else "Cancelled"
    return ChosenOption(
        request.item, None if option is None else str(option.get("optionId")), f"{name}: {request.title_line}"
    )


def usable_options(options: Sequence[Mapping[str, Any]]) -> tuple[Json, ...]:
    """Return the usable options of an agent's request, each as `{"optionId", "name", "kind"?, ...}`.

    An option whose id is not a string is left out; an option without a name is named after its id; a kind that is not a
    string is removed.
    """
    return tuple(
        _read_option(option) for option in options if isinstance(option.get("optionId"), str) and option["optionId"]
    )


def _read_option(option: Mapping[str, Any]) -> Json:
    name, fields = option.get("name"), {k: v for k, v in option.items() if k != "kind" or isinstance(v, str)}
    return {**fields, "name": name if isinstance(name, str) and name.strip() else option["optionId"]}


def list_options(request: PermissionRequest) -> list[str]:
    """Return a line for each option of a request: the command that chooses it, and its name."""
    numbered = zip(request.numbers, request.options, strict=False)
    return [f"/approve {number}: {name_option(option)}" for number, option in numbered]


def _list_mildest(request: PermissionRequest, kind: str) -> list[Json]:
    """Return the options of a kind ("allow" or "reject") for this one request; else those for all later ones, too."""
    found = ([o for o in request.options if o.get("kind") == f"{kind}_{span}"] for span in ("once", "always"))
    return next(filter(None, found), [])


def _is_kind(option: Json, kind: str) -> bool:
    return str(option.get("kind") or "").startswith(kind)


def name_option(option: Mapping[str, Any]) -> str:
    """Return the name of an option, on one line and shortened."""
    return _to_line(str(option.get("name") or option.get("optionId") or "?"), MAX_OPTION_CHARS)


def _to_line(text: str, max_chars: int) -> str:
    """Put an agent's text on one line, without invisible characters: it must not look like another request."""
    return shorten(squeeze_to_line(text), max_chars)


def _format_input(tool_input: Any) -> str:
    shown = arrange_input(tool_input)
    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False, indent=1)
    body = _fence.sub("'''", cut_input(text))
    return f"```\n{body}\n```"


def cut_input(text: str) -> str:
    """Shorten a tool input to MAX_INPUT_CHARS, with a note on how much is left out."""
    missing = len(text) - MAX_INPUT_CHARS
    return (
        text
        if missing <= 0
        else f"{text[:MAX_INPUT_CHARS]}\n… {missing:,} characters are left out here; an owner reads them on the page"
    )


def arrange_input(value: Any) -> Any:
    """Rearrange a tool input (any JSON value) for reading.

    In objects, the command to run comes first, then short values. Nine or more white space characters in a row become
    one blank, and invisible characters become their code points, such as <U+200B>.
    """
    if isinstance(value, str):
        return _show_unseen(_BLANKS.sub(" ", value))
    if isinstance(value, list | tuple):
        return [arrange_input(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        arrange_input(str(name)): arrange_input(value[name])
        for name in sorted(value, key=lambda name: _rank(name, value[name]))
    }


def _find_first_text(value: Any) -> str:
    """Return the first text of an arranged tool input; "" if it has none. A list of texts is one, as of a command."""
    for part in value.values() if isinstance(value, Mapping) else [value]:
        words = part if isinstance(part, list) else [part]
        if all(isinstance(word, str) for word in words) and (text := " ".join(words).strip()):
            return text
    return ""


def _rank(name: Any, value: Any) -> int:
    if str(name).casefold() in COMMAND_FIELDS:
        return 0
    return 1 if not isinstance(value, str | list | Mapping) or len(str(value)) <= MAX_OPTION_CHARS else 2


def _show_unseen(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join([f"<U+{ord(char):04X}>" if char not in "\n\t" and is_unseen(char) else char for char in text])
