"""Fold tool calls, as upserts by id. Updates may come in any order.

The statuses done, failed and cancelled are final. Output that comes after them is kept, and the call is marked late.
The output is one text (`tool_output`), in whatever fields the agent put it (`output_fields`).

An id is unique only within a turn: if it is announced again in a later turn, that is another call. A call without a
result at the end of its turn gets the status "no result"; a later result still counts. A permission request under an id
of its own belongs to the call of the same turn that has the same input (or title), whichever of the two comes first.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from semel.acp_stream.attachment import AgentFile, files_of
from semel.acp_stream.ops import Changed, Grew, GrowingItem, Limits, Op, ViewItem, ViewItems
from semel.acp_stream.output_fields import (
    CONTENT,
    DELTAS,
    DIRECT,
    FINAL,
    NO_RESULT,
    STATUS,
    Snapshot,
    content_text,
    exit_code,
    is_wrapped,
    read_diffs,
    read_locations,
    read_snapshots,
    terminal_text,
    unwrap,
)
from semel.acp_stream.profiles import Profile
from semel.acp_stream.tool_output import OutputChange, ToolOutput, format_gap, is_same_source
from semel.text.json_types import text_at


class ToolCall(GrowingItem):
    """A tool call while it grows. `turn`: the number of the turn that announced it."""

    __slots__ = ("has_started", "is_only_requested", "output", "turn")

    def __init__(self, fields: dict[str, Any], limits: Limits) -> None:
        super().__init__("tool", fields)
        self.output = ToolOutput(limits)
        self.has_started = False  # there is evidence that the call runs or ran
        self.is_only_requested = False  # the call is known from a permission request alone
        self.turn = 0

    def __repr__(self) -> str:
        return f"<tool {self.id} {self.fields.get('status')} {self.output!r}>"

    def item(self) -> ViewItem:
        head, gap, tail = self.output.shown()
        fields = dict(self.fields)
        if gap:
            fields |= {"head": head, "gap": gap, "tail": tail}
            head = head + format_gap(gap) + tail
        fields["output"] = head
        return ViewItem(self.id, self.kind, fields)


class ToolCalls:
    """The tool calls of a session: ACP's `tool_call` and `tool_call_update`, and the `toolCall` of permission requests.

    Methods return the operations by which the view changed. `cid` is always the id that the agent gives a call
    (`toolCallId`). In `by_id`, a call has two ids if its permission request had an id of its own.
    """

    def __init__(self, view_items: ViewItems, profile: Profile, limits: Limits) -> None:
        self.view_items = view_items
        self.profile = profile
        self.limits = limits
        self.by_id: dict[str, ToolCall] = {}
        self.unfinished: dict[str, ToolCall] = {}
        self.has_plain_deltas = profile.terminal == "delta"
        self.turn = 0
        self._requests: list[ToolCall] = []  # calls of this turn for which permission was asked

    def __repr__(self) -> str:
        return f"<ToolCalls {len(self.by_id)} known, {len(self.unfinished)} unfinished>"

    def append_terminal(self, call: ToolCall, text: str) -> list[Op]:
        """Append a delta of a terminal's output to a call. This is a fast path of `update`."""
        output = call.output
        if output.accounted == output.total and not call.ended:
            output.append(text)
            output.accounted = output.total
            output.snapshot = ""
            output.rank = DIRECT
            return [Grew(call.id, text)]
        return self._apply_delta(call, text)

    def append_content(self, cid: str, text: str) -> list[Op]:
        """Append a further piece of a call's content (ACP v2) to its output."""
        ops = self.update(cid, {})
        output = self.by_id[cid].output
        output.rank = max(output.rank, CONTENT)
        return ops + self._apply_change(self.by_id[cid], output.extend(text))

    def add_files(self, cid: str, files: list[AgentFile]) -> list[Op]:
        """Add the files of a further piece of a call's content (ACP v2), except those that the call already has."""
        ops = self.update(cid, {})
        call = self.by_id[cid]
        old_files = call.fields.get("files", [])
        new_files = [file for file in files if file not in old_files]
        if not new_files:
            return ops
        call.fields["files"] = [*old_files, *new_files]
        return [*ops, Changed(call.id, {"files": call.fields["files"]})]

    def begin_turn(self) -> None:
        """Begin a turn: from now on, the id of an ended call may announce a new call."""
        self.turn += 1
        self._requests.clear()

    def find(self, cid: str, data: Mapping[str, Any], announces: bool) -> ToolCall | None:
        """Return the call to which an update belongs; None if the update begins a new call.

        `announces`: the update is a `tool_call` or a permission request, not a `tool_call_update`. This matters only if
        `cid` is the id of an ended call of an earlier turn, because agents use ids again. Then an update that announces
        begins a new call. A `tool_call_update` does so only if its status is pending or running and it has a title or
        input; otherwise it belongs to the earlier call.
        """
        call = self.by_id.get(cid)
        if call is None or not call.ended or call.turn == self.turn:
            return call
        describes = data.get("title") or data.get("rawInput")
        if announces or (describes and STATUS.get(str(data.get("status"))) in _OPEN):
            del self.by_id[cid]
            return None
        return call

    def update(self, cid: str, data: Mapping[str, Any], announces: bool = False, **marks: Any) -> list[Op]:
        """Apply a `tool_call` or `tool_call_update` to its call in the view. A new call is added.

        `announces`: it is a `tool_call`. `data`: the update. `marks`: fields to set if the call is new.
        """
        call = self.find(cid, data, announces) or self._take_over_request(cid, data)
        if call is not None:
            call.is_only_requested = False
        ops: list[Op] = []
        if call is None:
            call = self._announce(cid, data, marks)
            ops.append(self.view_items.add(call))
        status = STATUS.get(str(data.get("status")))
        was_final = call.fields["status"] in FINAL
        result = status in FINAL or was_final
        change = self._update_fields(call, data)
        ops += self._update_output(call, data, result)
        if status is not None and not was_final and _is_forward(call.fields["status"], status):
            call.fields["status"] = change["status"] = status
        call.has_started = call.has_started or call.fields["status"] != "pending" or call.output.total > 0
        if change:
            ops.append(Changed(call.id, change))
        if not was_final and call.fields["status"] in FINAL:
            ops += self._unwrap_output(call)
            ops += self._end(call)
        return ops

    def fold_permission(self, cid: str, tool_call: Mapping[str, Any]) -> list[Op]:
        """Apply the `toolCall` of a permission request to its call.

        Only the description counts, not a status or result.
        """
        known_call = self.find(cid, tool_call, announces=True)
        if known_call is None and not self.profile.permission_is_call:
            return []
        if known_call is None:
            open_calls = (
                call for call in self.unfinished.values() if call.turn == self.turn and call not in self._requests
            )
            asked_for = self._find_alike(tool_call, open_calls)
            if asked_for is not None:
                self.by_id[cid] = asked_for
                self._requests.append(asked_for)
                return []
        description = {k: v for k, v in tool_call.items() if k in _DESCRIPTION}
        if known_call is not None:
            description = {k: v for k, v in description.items() if not known_call.fields.get(_FIELD.get(k, k))}
        ops = self.update(cid, description)
        self.by_id[cid].is_only_requested = known_call is None
        self._requests.append(self.by_id[cid])
        return ops

    def _take_over_request(self, cid: str, data: Mapping[str, Any]) -> ToolCall | None:
        """Return the call that is known only from a permission request, and that now comes under the new id `cid`.

        From then on, both ids find the call. Return None if there is no such call.
        """
        call = self._find_alike(data, [call for call in self._requests if call.is_only_requested and not call.ended])
        if call is not None:
            self.by_id[cid] = call
        return call

    def _find_alike(self, data: Mapping[str, Any], calls: Iterable[ToolCall]) -> ToolCall | None:
        """Return the first of `calls` with the same input as `data`; None if there is none.

        If either of them has no input, their titles must be equal and have several words.
        """
        tool_input, title = data.get("rawInput"), str(data.get("title") or "")
        for call in calls:
            known_input = call.fields.get("input")
            if (
                known_input == tool_input
                if known_input and tool_input
                else " " in title and call.fields["title"] == title
            ):
                return call
        return None

    def finish_all(self, status: str) -> list[Op]:
        """Give this status to every unfinished call, because no result is expected any more."""
        return [op for call in list(self.unfinished.values()) for op in self.finish(call, status)]

    def finish(self, call: ToolCall, status: str) -> list[Op]:
        """Give this status to one call, because no result is expected any more."""
        call.fields["status"] = status
        return [Changed(call.id, {"status": status}), *self._end(call)]

    def keep_only(self, keep: Container[int]) -> None:
        """Forget every call whose item id is not in `keep`."""
        self.by_id = {cid: call for cid, call in self.by_id.items() if call.id in keep}

    def _end(self, call: ToolCall) -> list[Op]:
        self.unfinished.pop(call.fields["call"], None)
        return [call.end()] if not call.ended else []

    def _announce(self, cid: str, data: Mapping[str, Any], marks: Mapping[str, Any]) -> ToolCall:
        fields: dict[str, Any] = {"call": cid, "title": "", "status": "pending", **marks}
        call = ToolCall(fields, self.limits)
        call.turn = self.turn
        self._update_fields(call, data)
        self.by_id[cid] = self.unfinished[cid] = call
        return call

    def _update_fields(self, call: ToolCall, data: Mapping[str, Any]) -> dict[str, Any]:
        change: dict[str, Any] = {}
        for key, name in _FIELD.items():
            value = data.get(key)
            if value is None:
                if key in data and self.profile.nulls_clear and name in call.fields:
                    change[name] = None
            elif (name == "input" or (isinstance(value, str) and value)) and not (name == "input" and value == {}):
                change[name] = value
        tool = text_at(data.get("_meta"), "claudeCode", "toolName")
        if tool and "name" not in change and not call.fields.get("name"):
            change["name"] = tool
        rendered = isinstance(call.fields.get("input", ""), str)
        if self.profile.content_before_result == "arguments" and "input" not in change and rendered:
            arguments = content_text(data.get("content")) if STATUS.get(str(data.get("status"))) not in FINAL else ""
            if arguments:
                change["input"] = arguments
        if found_diffs := read_diffs(data.get("content")):
            change["diffs"] = found_diffs
        if locations := read_locations(data.get("locations")):
            change["locations"] = locations
        if files := files_of(data.get("content")):
            change["files"] = files
        exit_value = exit_code(data)
        if exit_value is not None:
            change["exit"] = exit_value
        change = {k: v for k, v in change.items() if call.fields.get(k) != v or k not in call.fields}
        call.fields.update(change)
        for key in [key for key, value in change.items() if value is None]:
            del call.fields[key]
        call.fields.setdefault("title", "")
        return change

    # ---- output

    def _update_output(self, call: ToolCall, data: Mapping[str, Any], result: bool) -> list[Op]:
        ops: list[Op] = []
        statements = [self._parse_prose(call, s, ops) for s in read_snapshots(data, self.profile, result)]
        delta = _delta_text(data.get("_meta"))
        if delta and self.profile.terminal == "snapshot":
            statements.insert(0, terminal_text(delta, self.profile))
        elif delta and not self._is_repeated_delta(call, data, delta):
            ops += self._apply_delta(call, delta)
        if statements:
            richest = _choose_snapshot(statements)
            same_source = [s for s in statements if s is not richest and is_same_source(s.rank, call.output.rank)]
            for snapshot in (*same_source, richest):  # first those from the same source as the text so far
                ops += self._apply_change(call, call.output.merge(snapshot))
        return ops

    def _is_repeated_delta(self, call: ToolCall, data: Mapping[str, Any], delta: str) -> bool:
        """Return whether an update repeats the final update of an ended call, so that `delta` is known output."""
        final = call.ended and STATUS.get(str(data.get("status"))) in FINAL
        return final and call.output.end(len(delta)) == delta

    def _parse_prose(self, call: ToolCall, snapshot: Snapshot, ops: list[Op]) -> Snapshot:
        """Return the snapshot.

        If the agent wrote the result as prose, keep only the output in that prose as its text. The exit code in the
        prose becomes the call's exit code; the operation for that is appended to `ops`.
        """
        pattern = self.profile.result_prose
        match = pattern.match(snapshot.text) if pattern is not None else None
        if match is None:
            return snapshot
        code = int(match["exit"])
        if call.fields.get("exit") != code:
            call.fields["exit"] = code
            ops.append(Changed(call.id, {"exit": code}))
        text, missing = match["output"], snapshot.missing
        for note in self.profile.cut_notes:
            if cut := note.search(text):
                text, missing = text[: cut.start()], True
        return snapshot._replace(text=text, missing=missing)

    def _apply_delta(self, call: ToolCall, text: str) -> list[Op]:
        output = call.output
        if self.profile.terminal == "flips" and len(text) >= 16_384 and output.total >= 32_768:
            overlap = output.find_overlap(text)
            if overlap:
                text = text[overlap:]
                output.accounted = output.total
        if text and output.is_contradicted_by(text):
            return self._apply_change(call, output.restart(text))
        output.rank = DIRECT
        return self._apply_change(call, output.apply_delta(text) if text else None)

    def _apply_change(self, call: ToolCall, change: OutputChange | None) -> list[Op]:
        if change is None:
            return []
        ops: list[Op] = []
        if change.replaces or change.text:
            ops.append(Changed(call.id, {"text": change.text}) if change.replaces else Grew(call.id, change.text))
        if change.missing != bool(call.fields.get("truncated")) and (change.missing or change.replaces):
            ops.append(self._set_mark(call, "truncated", True if change.missing else None))
        if change.text and call.fields["status"] in FINAL and not call.fields.get("late") and call.ended:
            ops.append(self._set_mark(call, "late", True))
        return ops

    def _set_mark(self, call: ToolCall, name: str, value: bool | None) -> Changed:
        if value is None:
            call.fields.pop(name, None)
        else:
            call.fields[name] = value
        return Changed(call.id, {name: value})

    def _unwrap_output(self, call: ToolCall) -> list[Op]:
        """Remove an adapter's tags from a finished call's output. Only the whole output shows whether it has tags."""
        if self.profile.exact or not is_wrapped(call.output.start(64)):
            return []
        head, gap, _ = call.output.shown()
        if gap:
            return []
        text, missing = unwrap(head)
        if text == head:
            return []
        call.output.replace(text)
        call.output.accounted = call.output.total
        return self._apply_change(call, OutputChange(text, True, missing))


def _choose_snapshot(statements: list[Snapshot]) -> Snapshot:
    """Return the richest complete snapshot; if none is complete, the longest. `statements` has the richest first."""
    complete = [snapshot for snapshot in statements if not snapshot.missing]
    return complete[0] if complete else max(statements, key=lambda snapshot: len(snapshot.text))


_DESCRIPTION = ("toolCallId", "title", "kind", "rawInput", "name", "locations", "_meta")
_FIELD = {"title": "title", "kind": "tool_kind", "name": "name", "rawInput": "input"}
_OPEN = ("pending", "running")
_ORDER = {"pending": 0, "running": 1, NO_RESULT: 2, "done": 3, "failed": 3, "cancelled": 3}


def _is_forward(now: str, then: str) -> bool:
    """Return whether the status `then` may follow the status `now`. A status never goes back."""
    return _ORDER[then] > _ORDER[now]


def _delta_text(meta: object) -> str:
    return next((text for key in DELTAS if (text := text_at(meta, key, "data"))), "")
