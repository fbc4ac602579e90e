"""The type of JSON objects, and functions that read JSON of unknown shape without raising."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def value_at(value: object, *path: str) -> Any:
    """Follow the keys of `path` through nested objects. Returns the value; None if a key is missing."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text_at(value: object, *path: str) -> str | None:
    """Return the string that `value_at` finds; None if it is missing or not a string."""
    text = value_at(value, *path)
    return text if isinstance(text, str) else None


def object_at(value: object, *path: str) -> Json:
    """Return the object that `value_at` finds; an empty one if it is missing or not an object."""
    inner = value_at(value, *path)
    return inner if isinstance(inner, dict) else {}


def list_at(value: object, *path: str) -> list[Any]:
    """Return the list that `value_at` finds; an empty one if it is missing or not a list."""
    inner = value_at(value, *path)
    return inner if isinstance(inner, list) else []


def objects_in(value: object) -> list[Json]:
    """Return the objects in a list; an empty list if `value` is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
