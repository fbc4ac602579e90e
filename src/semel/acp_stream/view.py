"""Fold a whole recorded stream: `fold(...)` returns the final view."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from semel.acp_stream.display import render_terminal
from semel.acp_stream.ops import WHOLE, Limits, ViewItem
from semel.acp_stream.profiles import Profile, find_profile
from semel.acp_stream.wire import ConnectionFolder

OPTIONAL_TOOL_FIELDS = frozenset(("truncated", "exit", "late", "history", "name", "input"))


@dataclass(frozen=True)
class View:
    """The items that a person sees, in order. `sessions` maps a session's id to its items; `items` has all of them.

    `unreadable`: the numbers, from 1, of the elements that are texts and no JSON; they were left out.
    """

    sessions: dict[str, tuple[ViewItem, ...]]
    unreadable: tuple[int, ...] = ()

    @property
    def items(self) -> tuple[ViewItem, ...]:
        return tuple(item for items in self.sessions.values() for item in items)

    def __iter__(self) -> Iterator[ViewItem]:
        return iter(self.items)

    def texts(self, kind: str = "message", role: str = "agent") -> list[str]:
        """Return the texts of the items of this kind and role, in order. Superseded texts are left out."""
        return [
            item.text
            for item in self.items
            if item.kind == kind and item.fields.get("role", role) == role and not item.fields.get("superseded")
        ]

    def json(self) -> Iterator[dict[str, Any]]:
        """Yield the items as JSON objects (`as_json`).

        If there are several sessions, each object has its session's id.
        """
        for session, items in self.sessions.items():
            for item in items:
                row = as_json(item)
                if row is not None:
                    yield row if len(self.sessions) == 1 else {**row, "session": session}


def as_json(item: ViewItem) -> dict[str, Any] | None:
    """Return an item as the JSON object that `semel fold` prints, with its kind as "item".

    Return None if the item is not printed: the agent's commands and options, and thoughts that were repeated as a
    whole.
    """
    fields = dict(item.fields)
    if item.kind == "message":
        return _pick_fields(
            item, ("role", "text"), ("partial", "superseded", "history", "message_id", "content"), fields
        )
    if item.kind == "thought":
        return None if fields.get("repeated") else _pick_fields(item, ("text",), ("superseded", "history"), fields)
    if item.kind == "tool":
        output = render_terminal(str(fields["output"]))
        head = {
            "id": fields["call"],
            "title": fields["title"] or fields.get("name") or "",
            "status": fields["status"],
        }
        extra = {key: value for key, value in fields.items() if key in OPTIONAL_TOOL_FIELDS}
        return {"item": "tool", **head, "output": output, **extra}
    if item.kind == "turn":
        return {"item": "turn", **fields}
    if item.kind in ("commands", "options"):
        return None
    return {"item": item.kind, **fields}


def _pick_fields(
    item: ViewItem, required: tuple[str, ...], optional: tuple[str, ...], fields: dict[str, Any]
) -> dict[str, Any]:
    picked = {key: fields[key] for key in required}
    return {"item": item.kind, **picked, **{key: fields[key] for key in optional if fields.get(key)}}


def fold(
    lines_or_updates: Iterable[str | bytes | Mapping[str, Any]],
    profile: Profile | str | None = None,
    limits: Limits = WHOLE,
) -> View:
    """Fold a whole stream, and return the final view.

    `profile`: a profile or an agent's name. If it is None, the profile is chosen by the agent's name in the answer to
    ACP's initialize; without such an answer, it is CAREFUL. Each element of the stream is one of: an ACP update
    (`{"sessionUpdate": ...}`), a JSON-RPC message, a record of a trace (`{"t", "dir", "msg"}`), a remark on what the
    client did, or a line of JSON that is one of these. The remarks are `{"_prompt": text}`, `{"_load": true}`,
    `{"_cancel": true}`, `{"_permission": toolCall}`, `{"_died": true}` and `{"_end_turn": stop reason}`. Lines that are
    not JSON are left out, and listed in the view's `unreadable`. Raises TypeError for anything else, such as one text,
    one update or the name of a file in place of a stream, and ValueError if no profile fits the name.
    """
    if isinstance(lines_or_updates, (str, bytes)):
        raise TypeError("fold takes the lines of a stream, not one text: give it open(path), or text.splitlines()")
    if isinstance(lines_or_updates, Mapping):
        raise TypeError("fold takes all updates of a stream, not one: give it a list of them")
    if not isinstance(lines_or_updates, Iterable):
        raise TypeError(
            f"fold takes the lines or the updates of a stream, not {_name_type(lines_or_updates)}: give it open(path), "
            "or a list of updates"
        )
    wire = ConnectionFolder(find_profile(profile) if isinstance(profile, str) else profile, limits)
    reader = RecordedStreamReader(wire)
    unreadable = []
    for number, element in enumerate(lines_or_updates, 1):
        if not isinstance(element, (str, bytes, Mapping, list)):
            raise TypeError(
                f"element {number} of the stream is {_name_type(element)}; each is an update or a message (a dict), or "
                "a line of JSON"
            )
        if not reader.read(dict(element) if isinstance(element, Mapping) else element):
            unreadable.append(number)
    return replace(reader.build_view(), unreadable=tuple(unreadable))


def _name_type(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


class RecordedStreamReader:
    """The reader of a recorded stream, which passes each element to a `ConnectionFolder`."""

    def __init__(self, wire: ConnectionFolder) -> None:
        self.wire = wire
        self._loading = False

    def read(self, element: object) -> bool:
        """Apply one element of the stream (see `fold`). A text is parsed as JSON; return False if it is none."""
        if isinstance(element, (str, bytes)):
            if not element.strip():
                return True
            try:
                element = json.loads(element)
            except (ValueError, RecursionError):
                return False
        if isinstance(element, list):
            self.wire.fold_received(element)
        elif isinstance(element, dict):
            self._read_object(element)
        return True

    def _read_object(self, element: dict[str, Any]) -> None:
        if "dir" in element:
            self._read_record(element)
        elif "sessionUpdate" in element:
            self.wire.fold("").update(element, self._loading)
        elif "jsonrpc" in element or "method" in element or "id" in element:
            self._read_message(element)
        else:
            self._read_remark(element)

    def build_view(self) -> View:
        """Return the view after all elements that were read so far."""
        for fold in self.wire.folds.values():
            fold.settle()
        return View({session: tuple(fold.items()) for session, fold in self.wire.folds.items()})

    def _read_record(self, record: Mapping[str, Any]) -> None:
        side, message = record["dir"], record.get("msg")
        if side == "c2a":
            self.wire.fold_sent(message)
        elif side == "a2c":
            self.wire.fold_received(message)
        elif side == "note":
            self.wire.fold_note(message)

    def _read_message(self, message: Mapping[str, Any]) -> None:
        """Apply a JSON-RPC message whose sender is not recorded. Its `method` tells whether client or agent sent it."""
        method, result = message.get("method"), message.get("result")
        if method is None and isinstance(result, dict) and "outcome" in result:
            return  # the client's answer to a permission request; its id belongs to a request of the agent
        ours = isinstance(method, str) and (method == "initialize" or method.startswith("session/"))
        if ours and method not in ("session/update", "session/request_permission"):
            self.wire.fold_sent(dict(message))
        else:
            self.wire.fold_received(dict(message))

    def _read_remark(self, remark: Mapping[str, Any]) -> None:
        fold = self.wire.fold("")
        if "_prompt" in remark:
            self._loading = False
            fold.prompt(str(remark["_prompt"]))
        elif "_load" in remark:
            self._loading = bool(remark["_load"])
        elif "_cancel" in remark:
            fold.cancel()
        elif isinstance(remark.get("_permission"), dict):
            fold.apply_permission(remark["_permission"])
        elif "_died" in remark:
            fold.end("error", "the agent died", died=True)
        elif "_end_turn" in remark:
            stop = remark["_end_turn"]
            fold.end(stop if isinstance(stop, str) else "end_turn")
