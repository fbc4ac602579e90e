"""Fold a recorded stream at once: `fold(...)` returns the final view."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from semel.acp_stream.display import display
from semel.acp_stream.ops import WHOLE, Item, Limits
from semel.acp_stream.profiles import Profile, profile_for
from semel.acp_stream.wire import Wire

TOOL_MARKS = frozenset(("truncated", "exit", "late", "history", "name", "input"))


@dataclass(frozen=True)
class View:
    """The items a person sees, in order; `sessions` are the same by session id."""

    sessions: dict[str, tuple[Item, ...]]

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(item for items in self.sessions.values() for item in items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def texts(self, kind: str = "message", role: str = "agent") -> list[str]:
        """The texts that count: superseded attempts are left out."""
        return [
            item.text
            for item in self.items
            if item.kind == kind and item.fields.get("role", role) == role and not item.fields.get("superseded")
        ]

    def json(self) -> Iterator[dict[str, Any]]:
        """The view as JSON objects (docs/agents.md): one per item, `item` says what it is."""
        for session, items in self.sessions.items():
            for item in items:
                found = as_json(item)
                if found is not None:
                    yield found if len(self.sessions) == 1 else {**found, "session": session}


def as_json(item: Item) -> dict[str, Any] | None:
    """One item as `semel fold` prints it; None for what only a client uses (commands)."""
    fields = dict(item.fields)
    if item.kind == "message":
        return _picked(item, ("role", "text"), ("partial", "superseded", "history", "message_id", "content"), fields)
    if item.kind == "thought":
        return None if fields.get("repeated") else _picked(item, ("text",), ("superseded", "history"), fields)
    if item.kind == "tool":
        output = display(str(fields["output"]))
        told = {
            "id": fields["call"],
            "title": fields["title"] or fields.get("name") or "",
            "status": fields["status"],
        }
        extra = {key: value for key, value in fields.items() if key in TOOL_MARKS}
        return {"item": "tool", **told, "output": output, **extra}
    if item.kind == "turn":
        return {"item": "turn", **fields}
    if item.kind == "commands":
        return None
    return {"item": item.kind, **fields}


def _picked(item: Item, always: tuple[str, ...], maybe: tuple[str, ...], fields: dict[str, Any]) -> dict[str, Any]:
    picked = {key: fields[key] for key in always}
    return {"item": item.kind, **picked, **{key: fields[key] for key in maybe if fields.get(key)}}


def fold(
    lines_or_updates: Iterable[str | bytes | Mapping[str, Any]],
    profile: Profile | str | None = None,
    limits: Limits = WHOLE,
) -> View:
    """Fold a stream at once. `profile` may be an agent's name; None: found by what `initialize` says, else careful.

    Each element is one of: an ACP update (`{"sessionUpdate": ...}`), a JSON-RPC message, a trace record
    (`{"t", "dir", "msg"}`), a line of JSON that is one of these, or a mark: `{"_prompt": text}`, `{"_load":
    true}`, `{"_cancel": true}`, `{"_end_turn": true}`. Lines that are not JSON say nothing.
    """
    wire = Wire(profile_for(profile) if isinstance(profile, str) else profile, limits)
    reader = RecordedStreamReader(wire)
    for element in lines_or_updates:
        reader.read(element)
    return reader.view()


class RecordedStreamReader:
    """Passes each element of a recorded stream to a `Wire`."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._loading = False

    def read(self, element: object) -> None:
        """One element of the stream, decoded or not."""
        if isinstance(element, (str, bytes)):
            try:
                element = json.loads(element)
            except (ValueError, RecursionError):
                return
        if isinstance(element, list):
            self.wire.received(element)
        if not isinstance(element, dict):
            return
        if "dir" in element:
            self._record(element)
        elif "sessionUpdate" in element:
            self.wire.fold("").update(element, self._loading)
        elif "jsonrpc" in element or "method" in element or "id" in element:
            self._message(element)
        else:
            self._mark(element)

    def view(self) -> View:
        """The view after everything that was read."""
        for fold in self.wire.folds.values():
            fold.settle()
        return View({session: tuple(fold.items()) for session, fold in self.wire.folds.items()})

    def _record(self, record: Mapping[str, Any]) -> None:
        side, message = record["dir"], record.get("msg")
        if side == "c2a":
            self.wire.sent(message)
        elif side == "a2c":
            self.wire.received(message)
        elif side == "note":
            self.wire.noted(message)

    def _message(self, message: Mapping[str, Any]) -> None:
        """A message whose direction is not recorded: derive the sender from its method."""
        method, result = message.get("method"), message.get("result")
        if method is None and isinstance(result, dict) and "outcome" in result:
            return  # our answer to a permission request: its id is the agent's
        ours = isinstance(method, str) and (method == "initialize" or method.startswith("session/"))
        if ours and method not in ("session/update", "session/request_permission"):
            self.wire.sent(dict(message))
        else:
            self.wire.received(dict(message))

    def _mark(self, mark: Mapping[str, Any]) -> None:
        fold = self.wire.fold("")
        if "_prompt" in mark:
            self._loading = False
            fold.prompt(str(mark["_prompt"]))
        elif "_load" in mark:
            self._loading = bool(mark["_load"])
        elif "_cancel" in mark:
            fold.cancel()
        elif isinstance(mark.get("_permission"), dict):
            fold.permission(mark["_permission"])
        elif "_died" in mark:
            fold.end("error", "the agent died", died=True)
        elif "_end_turn" in mark:
            stop = mark["_end_turn"]
            fold.end(stop if isinstance(stop, str) else "end_turn")
