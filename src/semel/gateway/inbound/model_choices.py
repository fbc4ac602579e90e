"""Read the modes and models that an agent reported, in the formats that agents use."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def choices(about: Json, kind: str) -> tuple[str | None, dict[str, str]]:
    """(current id, {id: name}) of the modes or models that an agent reported.

    Formats: ACP session modes and models (`availableModes`, `availableModels`), and config options (`options`).
    """
    told = about.get(f"{kind}s")
    told = told if isinstance(told, dict) else {}
    offered: dict[str, str] = {}
    for one in told.get(f"available{kind.capitalize()}s") or told.get("options") or ():
        id = one.get(f"{kind}Id") or one.get("value") or one.get("id")
        if id:
            offered[str(id)] = str(one.get("name") or id)
    current = about.get(kind) or told.get(f"current{kind.capitalize()}Id") or told.get("currentValue")
    return (None if current is None else str(current)), offered


def named(wanted: str, offered: dict[str, str]) -> str | None:
    """The id that a person means by an id or name, ignoring case; None if there is none, or more than one."""
    if wanted in offered:
        return wanted
    same = [id for id, name in offered.items() if wanted.casefold() in (id.casefold(), name.casefold())]
    return same[0] if len(same) == 1 else None
