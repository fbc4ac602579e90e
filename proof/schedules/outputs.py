"""What watchers hold of tool calls, thoughts and requests, held against the ledger (Law 8)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from semel.gateway.turns.stream_view import HEAD_CHARS, TAIL_CHARS

if TYPE_CHECKING:
    from proof.schedules.people import Watcher

Json = dict[str, Any]


def wrong(watchers: Sequence[Watcher], rows: Callable[..., list[Json]]) -> Iterator[str]:
    """Where a watcher holds another item than was recorded, or a tool's output is told other than it is stored."""
    for watcher in watchers:
        items = {row["id"]: row for row in rows(_ITEMS, watcher.session)}
        for id, held in watcher.view.items.items():
            if id in items and held["text"] != items[id]["text"]:
                text = items[id]["text"]
                yield f"law 8: item {id} of {watcher.session} is {text!r}, and is watched as {held['text']!r}"
    for item in rows("SELECT id, text, body FROM item WHERE kind = 'tool' AND live = 0"):
        stored = "".join(row["text"] for row in rows("SELECT text FROM output WHERE item = ? ORDER BY id", item["id"]))
        if stored and (told := _told(item)) != (cut := _cut(stored)):
            yield f"law 8: the output of item {item['id']} is told as {told}, and is {cut} (head, gap, tail, its end)"


_ITEMS = "SELECT i.id, i.text FROM item i JOIN session s ON s.id = i.session WHERE s.key = ? AND i.live = 0"


def _told(item: Json) -> tuple[int, int, int, str]:
    body = json.loads(item["body"])
    tail = body.get("tail") or ""
    return len(item["text"]), body.get("gap") or 0, len(tail), tail[-40:]


def _cut(stored: str) -> tuple[int, int, int, str]:
    """Characters of the head, of the gap and of the tail, and the end of the tail. Behind a gap, the tail begins with a
    line, unless its first line is longer than half of it (docs/api.md)."""
    rest = stored[HEAD_CHARS:]
    tail = rest[-TAIL_CHARS:]
    after_line = tail.partition("\n")[2]
    if len(rest) > TAIL_CHARS and len(after_line) >= TAIL_CHARS // 2:
        tail = after_line
    return min(len(stored), HEAD_CHARS), len(rest) - len(tail), len(tail), tail[-40:]
