"""Add rendered `html` to entries, for clients that ask for it.

The functions copy entries instead of changing them, because other watchers share the same objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from semel.faces.http.markdown import render

Json = dict[str, Any]

MAX_CHARS_ON_LOOP = 8_192
"""Characters rendered on the event loop, in about 2 ms. Longer texts go to a thread, so that no turn waits."""


def wants_html(entry: Json) -> bool:
    """Whether an entry is final agent text. Streaming text and people's words are shown as plain text."""
    return entry.get("role") == "agent" and not entry.get("live") and bool(entry.get("text"))


async def dress_entries(entries: Sequence[Json]) -> list[Json]:
    weight = sum(len(entry["text"]) for entry in entries if wants_html(entry))
    if weight <= MAX_CHARS_ON_LOOP:
        return [_dress(entry) for entry in entries]
    return await asyncio.to_thread(lambda: [_dress(entry) for entry in entries])


async def dress_message(message: Json) -> Json:
    """A copy of a snapshot or change from `watch`, with `html` in its entries."""
    if message["type"] == "snapshot":
        return {**message, "entries": await dress_entries(message["entries"])}
    return {**message, "changes": await dress_entries(message["changes"])}


def _dress(entry: Json) -> Json:
    if entry.get("op", "entry") != "entry" or not wants_html(entry):
        return entry
    html = render(entry["text"])
    return entry if html is None else {**entry, "html": html}
