"""Adds `html` to entries for those who asked for it.

What the gateway gave is never changed: other watchers hold it too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from semel.faces.http.markdown import render

Json = dict[str, Any]

_AT_ONCE = 8_192
"""Characters that are rendered on the event loop (some 2 ms); more goes to a thread: no turn waits."""


def wants_html(entry: Json) -> bool:
    """Final text of an agent: what still streams is shown as it is, and people's words are theirs."""
    return entry.get("role") == "agent" and not entry.get("live") and bool(entry.get("text"))


async def dress_entries(entries: Sequence[Json]) -> list[Json]:
    weight = sum(len(entry["text"]) for entry in entries if wants_html(entry))
    if weight <= _AT_ONCE:
        return [_dress(entry) for entry in entries]
    return await asyncio.to_thread(lambda: [_dress(entry) for entry in entries])


async def dress_message(message: Json) -> Json:
    """A snapshot or a change of `watch`, with html in its entries."""
    if message["type"] == "snapshot":
        return {**message, "entries": await dress_entries(message["entries"])}
    return {**message, "changes": await dress_entries(message["changes"])}


def _dress(entry: Json) -> Json:
    if entry.get("op", "entry") != "entry" or not wants_html(entry):
        return entry
    html = render(entry["text"])
    return entry if html is None else {**entry, "html": html}
