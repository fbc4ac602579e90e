"""A client that watches one session over server-sent events: a snapshot, and the changes since, as the API says.

Written from docs/api.md alone, so that it shares no fault with Semel's own faces.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import Any

import httpx2

Json = dict[str, Any]


@dataclass
class Seen:
    """What a person would see."""

    rev: int = 0
    entries: dict[int, Json] = field(default_factory=dict)
    items: dict[int, Json] = field(default_factory=dict)

    def take(self, frame: Json) -> None:
        if frame["type"] == "snapshot":
            self.entries = {entry["seq"]: entry for entry in frame["entries"]}
            self.items = {item["id"]: item for item in frame["items"]}
        for change in frame.get("changes", []):
            if change["rev"] > self.rev:
                self._change(change)
        self.rev = max(self.rev, frame["rev"])

    def _change(self, change: Json) -> None:
        body = {name: value for name, value in change.items() if name != "op"}
        match change["op"]:
            case "entry":
                self.entries[change["seq"]] = body
            case "item":
                self.items[change["id"]] = body
            case "append":
                row = self.entries[change["seq"]]
                self.entries[change["seq"]] = {**row, "text": row["text"] + change["text"], "rev": change["rev"]}
            case "output":
                row = self.items[change["id"]]
                self.items[change["id"]] = {**row, "text": row["text"] + change["text"], "rev": change["rev"]}

    def rows(self) -> list[str]:
        """The entries in the order of the view, each as one line: its marks and its text."""
        return [row(entry) for entry in sorted(self.entries.values(), key=lambda e: int(e["born"]))]


MARKS = ("live", "partial", "superseded", "late", "to", "from")


def words_of(entry: Json) -> str:
    """Its text. A turn without a word also tells what the agent last reported, and each agent reports other things."""
    text = str(entry["text"])
    return text.partition(" Its last report: ")[0] if entry.get("kind") == "turn.empty" else text


def row(entry: Json) -> str:
    """`agent: text`, `agent partial: text`, `agent file hello.txt: text` ..."""
    words = [entry["role"], *(mark for mark in MARKS if entry.get(mark))]
    if entry.get("emoji"):
        words.append("reaction")
    words += [f"file {file['name']}" for file in entry.get("files") or []]
    text = words_of(entry)
    if (
        entry.get("kind") == "permission"
    ):  # each agent words its options in its own way; what they are about is the same
        words.append(
            "permission asked" if text.startswith("The agent asks for permission: ") else "permission answered"
        )
        text = text.partition("\n")[0].partition(": ")[2]
    return f"{' '.join(words)}: {text}"


class Watcher:
    """Reads until stopped; comes back with its rev when the line breaks. `lines`: how often it connected."""

    def __init__(self, url: str, session: str) -> None:
        self.url, self.session = url, session
        self.view = Seen()
        self.connected = False
        self.fault: BaseException | None = None
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _watch(self) -> None:
        timeout = httpx2.Timeout(30, read=60)
        async with httpx2.AsyncClient(timeout=timeout, trust_env=False) as http:
            while True:
                try:
                    await self._line(http)
                except httpx2.HTTPError:
                    pass  # the gateway is gone, or its answer broke off: what came is whole
                except Exception as fault:
                    self.fault = fault
                    raise
                await asyncio.sleep(0.1)

    async def _line(self, http: httpx2.AsyncClient) -> None:
        headers = {"Last-Event-ID": str(self.view.rev)} if self.connected else {}
        async with http.stream("GET", f"{self.url}/v1/sessions/{self.session}/stream", headers=headers) as answer:
            answer.raise_for_status()
            kind, data = "", ""
            async for line in answer.aiter_lines():
                name, _, value = line.partition(":")
                if name == "event":
                    kind = value.strip()
                elif name == "data":
                    data += value.strip()
                elif not line and data:
                    self.connected = True
                    self.view.take({"type": kind, **json.loads(data)})
                    kind, data = "", ""
