"""Find which of the modes and models that an agent offers a person means.

An agent reports them as ACP session modes ("availableModes"), as models ("availableModels"), or as a configuration
option ("options", which may be in groups: ACP SessionConfigSelectGroup).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from semel.text.json_types import Json, objects_in

_VARIANT = re.compile(r"\[[^\[\]]+\]$")


def read_choices(about: Json, kind: str) -> tuple[str | None, dict[str, str]]:
    """Return (the current id or None, {id: name}) of the modes or models that an agent reported.

    `about`: the stored data about the session's agent: "modes", "models", and, for a later choice, "mode" and "model".
    `kind`: "mode" or "model".
    """
    reported = about.get(f"{kind}s")
    reported = reported if isinstance(reported, dict) else {}
    offered = {id: str(choice.get("name") or id) for id, choice in _list_choices(reported, kind)}
    current = about.get(kind) or reported.get(f"current{kind.capitalize()}Id") or reported.get("currentValue")
    return (None if current is None else str(current)), offered


def _list_choices(reported: Json, kind: str) -> Iterator[tuple[str, Json]]:
    for entry in objects_in(reported.get(f"available{kind.capitalize()}s") or reported.get("options")):
        for choice in objects_in(entry["options"]) if "options" in entry else [entry]:
            if id := choice.get(f"{kind}Id") or choice.get("value") or choice.get("id"):
                yield str(id), choice


def list_values(option: Json) -> dict[str, str]:
    """Return the values of a configuration option that is a selection, as {value: name}."""
    return {id: str(choice.get("name") or id) for id, choice in _list_choices(option, "option")}


def set_current(options: Sequence[Json], id: str, value: str | bool) -> list[Json]:
    """Return configuration options, with another current value of the one with this id."""
    return [{**option, "currentValue": value} if option.get("id") == id else option for option in options]


def check_option(options: Sequence[Json], id: str, value: str | bool) -> Json:
    """Return the configuration option with this id. Raises ValueError if there is none, or if it has no such value."""
    option = next((option for option in options if option.get("id") == id), None)
    if option is None:
        offered = ", ".join(str(option.get("id")) for option in options)
        raise ValueError(f"there is no option {id!r}. There are: {offered}" if offered else "this agent has no options")
    is_switch = option.get("type") == "boolean"
    if isinstance(value, bool) != is_switch:
        raise ValueError(f"option {id!r} is " + ("on or off: give true or false" if is_switch else "not a switch"))
    values = list_values(option)
    if not isinstance(value, bool) and value not in values:
        raise ValueError(f"option {id!r} has no value {value!r}. There are: {', '.join(values)}")
    return option


def group_variants(ids: Iterable[str]) -> dict[str, list[str]]:
    """Return the ids of modes or models as {id without its variant: its variants}, in their order.

    Codex offers a model once for each effort: of `gpt-5.5[low]` and `gpt-5.5[high]`, the variants are `[low]` and
    `[high]`. The variant of an id without brackets is "".
    """
    groups: dict[str, list[str]] = {}
    for id in ids:
        base = _VARIANT.sub("", id)
        groups.setdefault(base, []).append(id.removeprefix(base))
    return groups


def find_choice(choice: str, offered: Mapping[str, str]) -> str | None:
    """Return the id of the choice that a person means. Return None if no choice matches, or more than one.

    `choice`: an id or a name, in any letter case. `offered`: {id: name}.
    """
    if choice in offered:
        return choice
    matching_ids = [
        id for id, offered_name in offered.items() if choice.casefold() in (id.casefold(), offered_name.casefold())
    ]
    return matching_ids[0] if len(matching_ids) == 1 else None


def explain_no_choice(kind: str, choice: str, offered: Mapping[str, str]) -> str:
    """Return a sentence that the agent does not offer this mode or model (`kind`), with those that it offers.

    The sentence also names the offer that is most like `choice`, if there is one. If `choice` is offered in variants
    only, such as Codex's `gpt-5.5[low]` and `gpt-5.5[high]`, it names these instead.
    """
    if not offered:
        return f"this agent offers no {kind}s"
    if variants := [id for id in offered if id.casefold().startswith(f"{choice.casefold()}[")]:
        return f"the {kind} {choice!r} has variants, so name one: {', '.join(variants)}"
    names: dict[str, str] = {name.casefold(): id for id, name in offered.items()} | {
        id.casefold(): id for id in offered
    }
    nearest = difflib.get_close_matches(choice.casefold(), names, n=1, cutoff=0.6)
    hint = f"; did you mean {names[nearest[0]]}?" if nearest else "."
    return f"there is no {kind} {choice!r}{hint} There are: {_name_offers(offered)}"


def _name_offers(ids: Iterable[str]) -> str:
    """Name what is offered. Models that are offered in variants are named without these, and one variant at the end."""
    groups = group_variants(ids)
    names = [base if len(variants) > 1 else base + variants[0] for base, variants in groups.items()]
    variant = next((name for group in groups.values() if len(group) > 1 for name in reversed(group) if name), "")
    return ", ".join(names) + (f"; with variants such as {variant}" if variant else "")
