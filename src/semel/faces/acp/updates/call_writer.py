"""Write tool calls as ACP v1 `tool_call` and `tool_call_update`, for one session and one editor.

An update passes unchanged unless one of these has to be mended:

- output in a place where the editor does not show it (`_meta`, `rawOutput`, a terminal that the editor does not have),
- output that the agent sends again and again,
- a status that goes back, such as from "completed" to "in_progress",
- the first update of a call that is not a `tool_call`.

Output that is sent as content replaces the content that the editor had. So it is sent at most twice a second: its
beginning, the number of characters left out, and its end. While a call runs, at most 32 Ki characters more than the
size of its output are sent; at its end, the output once more. If the agent states the whole output once, at the end,
that update passes unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, NamedTuple

from semel.acp_stream import Began, Changed, Grew, Limits, Op, Profile, render_terminal
from semel.acp_stream.output_fields import DELTAS, FINAL, content_text, is_wrapped, read_snapshots, tool_response
from semel.acp_stream.tool_output import ToolOutput, format_gap
from semel.faces.acp.editor_profiles import EditorProfile
from semel.text.json_types import Json, object_at, objects_in, text_at

SNAPSHOT_INTERVAL_S = 0.5
FREE_CHARS = 32 * 1024  # characters of a running call that are sent without regard to the size of its output
MAX_RAW_CHARS = 8 * 1024  # kept of a string in an ended call's `rawOutput`, which repeats the output
FINAL_LIMITS = Limits(head=16_384, tail=16_384, window=65_536)  # characters of an ended call's output
RUNNING_HEAD, RUNNING_TAIL = 1_024, 3_072  # characters of a running call's output

WIRE_STATUS = {
    "pending": "pending",
    "running": "in_progress",
    "done": "completed",
    "failed": "failed",
    "cancelled": "failed",
}
"""ACP v1's status for each status of the fold. It has none for a cancelled call, nor for one without a result."""

TOOL_KINDS = frozenset(
    ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
)  # ToolKind
OUTPUT_META = frozenset((*DELTAS, "toolResponse"))
TERMINAL_META = frozenset(("terminal_info", "terminal_exit"))
REWRITTEN = frozenset(
    ("sessionUpdate", "toolCallId", "title", "status", "kind", "rawInput", "content", "rawOutput", "_meta")
)


class OutputOp(NamedTuple):
    """A change of a call's output. `text`: the text to append or, if `replaces` is true, the whole new output."""

    text: str
    replaces: bool


class ShownCall:
    """A tool call, as far as the editor has it. `fields`: as in the fold. `call_id`: its id for the editor."""

    __slots__ = (
        "call_id", "changes", "details", "due_at", "fields", "has_new_output", "is_announced", "is_fenced",
        "is_shortened", "output", "output_ops", "parts", "sent_chars", "terminal",
    )  # fmt: skip

    def __init__(self, fields: Json) -> None:
        self.fields = fields
        self.call_id = str(fields.get("call", ""))
        self.is_announced = False
        self.changes: set[str] = set()  # fields that changed since the last update
        self.output = ToolOutput(FINAL_LIMITS)
        self.output_ops: list[OutputOp] = []  # changes of the output since the last update
        self.has_new_output = False  # there is output that the editor does not have as content
        self.is_shortened = False  # the editor has less of the output than it gets when the call ends
        self.is_fenced = True  # shown as code: it does not come from the agent's own content
        self.details: Json = {}  # what the editor has of the fields that are not folded, such as `locations`
        self.parts: list[Json] = []  # content besides the output: diffs, images, terminals
        self.sent_chars = 0
        self.due_at = 0.0
        self.terminal: str | None = None  # the terminal that shows the output

    def __repr__(self) -> str:
        return f"<ShownCall {self.call_id} {self.fields.get('status')} {self.output!r}>"

    @property
    def has_started(self) -> bool:
        return self.fields.get("status") != "pending" or self.output.total > 0

    @property
    def is_final(self) -> bool:
        return self.fields.get("status") in FINAL


class CallWriter:
    """Writes the tool calls of one session for one editor. `terminals`: ids of terminals that the editor made."""

    def __init__(self, editor_profile: EditorProfile, agent_profile: Profile, terminals: set[str]) -> None:
        self._editor_profile = editor_profile
        self._agent_profile = agent_profile
        self._terminals = terminals
        self._calls: dict[int, ShownCall] = {}
        self._touched: dict[int, ShownCall] = {}  # calls that changed since the last update, by the fold's item
        self._unsent: dict[int, ShownCall] = {}  # calls with output that waits for its time
        self.has_started = False  # a call of the latest updates runs or has run

    def __repr__(self) -> str:
        return f"<CallWriter {len(self._calls)} calls, {len(self._unsent)} with unsent output>"

    @property
    def due_at(self) -> float | None:
        """The monotonic time in seconds at which output is next due; None if no output waits."""
        calls = (call for call in self._unsent.values() if call.is_announced and self._is_affordable(call))
        return min((call.due_at for call in calls), default=None)

    def keep_latest(self, count: int) -> list[int]:
        """Forget all calls except the latest `count` and the unfinished ones. Returns the ids of the kept items."""
        recent = set(list(self._calls)[-count:]) if count else set()
        self._calls = {item: call for item, call in self._calls.items() if item in recent or not call.is_final}
        return list(self._calls)

    # ---- operations

    def apply_op(self, op: Op) -> None:
        """Apply an operation to its tool call. Operations on other kinds of items are ignored."""
        if isinstance(op, Began) and op.kind == "tool":
            self._calls[op.id] = ShownCall(dict(op.fields))
        call = self._calls.get(op.id)
        if call is None:
            return
        self._touched[op.id] = call
        if isinstance(op, Grew):
            call.output.append(op.text)
            call.output_ops.append(OutputOp(op.text, False))
        elif isinstance(op, Changed):
            self._change_call(call, op.fields)

    def _change_call(self, call: ShownCall, fields: Mapping[str, Any]) -> None:
        if "text" in fields:
            call.output.replace(str(fields["text"] or ""))
            call.output_ops.append(OutputOp(str(fields["text"] or ""), True))
        rest = {key: value for key, value in fields.items() if key != "text"}
        call.fields.update(rest)
        call.changes |= rest.keys()
        if "status" in rest and call.is_final:
            call.has_new_output |= call.is_shortened

    # ---- updates

    def pass_delta(self, op: Grew, source: Mapping[str, Any], now: float) -> bool | None:
        """Note new output in a terminal, the most frequent update of a call. This is the fast path of `pop_updates`.

        Returns True if the agent's line passes, False if the output waits until it is due, and None if `pop_updates`
        must handle the update.
        """
        call = self._calls.get(op.id)
        meta = source.get("_meta")
        if call is None or not call.is_announced or len(source) != 3 or type(meta) is not dict or len(meta) != 1:
            return None
        if call.terminal is None:
            if now >= call.due_at and self._is_affordable(call):
                return None
            call.output.append(op.text)
            call.has_new_output = True
            self._unsent[op.id] = call
            return False
        part = meta.get("terminal_output")
        if call.call_id != source.get("toolCallId") or type(part) is not dict or part.get("data") != op.text:
            return None
        call.output.append(op.text)
        return True

    def pop_updates(self, source: Mapping[str, Any] | None, now: float) -> list[Mapping[str, Any]]:
        """Return the updates to send for what changed since this was last called.

        `source`: the agent's update that caused the changes; it is returned itself where it may pass. Without it, tool
        calls that the editor does not know yet wait for their first update.
        """
        own = source if source is not None and isinstance(source.get("toolCallId"), str) else None
        if own is None and not self._touched:
            return []
        touched, self._touched = self._touched, {}
        if own is not None:
            touched |= self._find_untouched(own, touched)
        updates: list[Mapping[str, Any]] = []
        self.has_started = any(call.has_started for call in touched.values())
        for item, call in touched.items():
            call.has_new_output = call.has_new_output or bool(call.output_ops)
            update = self._write_call(call, own, now) if own is not None or call.is_announced else None
            call.changes.clear()
            call.output_ops.clear()
            if call.has_new_output:
                self._unsent[item] = call
            else:
                self._unsent.pop(item, None)
            updates += [] if update is None else self._split_start(update)
        return updates

    def _split_start(self, update: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return a call's first update in two if the editor would not show the output in it."""
        is_split = update["sessionUpdate"] == "tool_call" and self._editor_profile.ignores_first_output
        if not is_split or not content_text(update.get("content")):
            return [update]
        start = {key: value for key, value in update.items() if key != "content"}
        output = {key: update[key] for key in ("toolCallId", "content")}
        return [start, {"sessionUpdate": "tool_call_update", **output}]

    def _find_untouched(self, source: Mapping[str, Any], touched: Mapping[int, ShownCall]) -> dict[int, ShownCall]:
        """Return the call of an update that changed nothing in the view: it may still have a location or a diff.

        Return {} if calls changed, or if the call is unknown.
        """
        if touched:
            return {}
        call_id = source["toolCallId"]
        matches = ((item, call) for item, call in reversed(self._calls.items()) if call.call_id == call_id)
        return dict([pair]) if (pair := next(matches, None)) else {}

    def _write_call(self, call: ShownCall, source: Mapping[str, Any] | None, now: float) -> Mapping[str, Any] | None:
        if source is None:
            return self._compose_update(call, {}, now)
        if not call.is_announced:
            call.call_id = str(source["toolCallId"])
        self._note_terminal(call, source)
        if self._may_pass(call, source):
            self._note_passed(call, source)
            return source
        return self._compose_update(call, source, now)

    # ---- passing

    def _may_pass(self, call: ShownCall, source: Mapping[str, Any]) -> bool:
        status = source.get("status")
        if source.get("sessionUpdate") == "tool_call_update" and not call.is_announced:
            return False
        if not (call.changes or call.output_ops) and call.is_announced and _repeats_output(source):
            return False
        if call.call_id != source["toolCallId"] or (status is not None and status != self._get_wire_status(call)):
            return False
        if len(source) == 3 and call.terminal is not None and self._is_new_delta(call, source):
            return True
        if any(not self._is_known_part(call, part) for part in objects_in(source.get("content"))):
            return False
        return self._output_may_pass(call, source)

    def _output_may_pass(self, call: ShownCall, source: Mapping[str, Any]) -> bool:
        meta = source.get("_meta")
        has_delta = _has_delta(meta)
        if (
            self._editor_profile.takes_terminal_deltas
            and call.terminal is not None
            and not content_text(source.get("content"))
        ):
            return self._is_new_delta(call, source) if has_delta else not call.output_ops
        if has_delta or tool_response(meta) is not None:
            return False
        snapshots = read_snapshots(source, self._agent_profile, call.is_final)
        if not snapshots:
            return not call.has_new_output or not call.is_final
        return call.is_final and self._states_output(call, source, snapshots[-1].text)

    def _states_output(self, call: ShownCall, source: Mapping[str, Any], text: str) -> bool:
        """Whether the update's content is the whole output, in a readable form. `text`: that output."""
        head, gap, tail = call.output.shown()
        if gap:
            is_whole = len(text) == call.output.total and text.startswith(head) and text.endswith(tail)
        else:
            is_whole = text.rstrip() == head.rstrip()
        given = content_text(source.get("content"))
        is_readable = bool(given) and not is_wrapped(given) and render_terminal(head) == head
        return is_whole and is_readable and not _is_large(source.get("rawOutput"))

    def _is_new_delta(self, call: ShownCall, source: Mapping[str, Any]) -> bool:
        """Whether the update's terminal output is exactly the new output, and in the field that the editor reads."""
        delta = text_at(source.get("_meta"), "terminal_output", "data")
        return delta is not None and call.output_ops == [OutputOp(delta, False)]

    def _note_passed(self, call: ShownCall, source: Mapping[str, Any]) -> None:
        call.is_announced = True
        self._note_new_details(call, source)
        shows_output = call.terminal is not None or _has_text(source)
        if shows_output and call.has_new_output and (call.is_final or call.terminal is not None):
            call.has_new_output = False
        if isinstance(source.get("content"), list):
            call.parts = [part for part in objects_in(source["content"]) if not _is_text(part)]

    # ---- terminals

    def _note_terminal(self, call: ShownCall, source: Mapping[str, Any]) -> None:
        """Note the terminal in which the editor shows this call's output, as `_meta.terminal_info` says."""
        if self._editor_profile.takes_terminal_deltas:
            call.terminal = text_at(source.get("_meta"), "terminal_info", "terminal_id") or call.terminal

    def _is_known_part(self, call: ShownCall, part: Json) -> bool:
        if part.get("type") != "terminal":
            return True
        terminal = part.get("terminalId")
        return terminal in self._terminals or (terminal is not None and terminal == call.terminal)

    # ---- composing

    def _compose_update(self, call: ShownCall, source: Mapping[str, Any], now: float) -> Json | None:
        """Return an update with everything that changed; None if nothing is due."""
        first = not call.is_announced
        update = self._note_new_details(call, source)
        if first or "input" in call.changes:
            update |= {"rawInput": call.fields["input"]} if "input" in call.fields else {}
        if first or "title" in call.changes:
            update["title"] = call.fields.get("title") or call.fields.get("name") or "tool"
        if (first or "tool_kind" in call.changes) and call.fields.get("tool_kind") in TOOL_KINDS:
            update["kind"] = call.fields["tool_kind"]
        if (first or "status" in call.changes) and (status := self._get_wire_status(call)) is not None:
            update["status"] = status
        if meta := self._compose_meta(call, source.get("_meta")):
            update["_meta"] = meta
        if source.get("rawOutput") is not None and call.is_final:
            update["rawOutput"] = _shorten_strings(source["rawOutput"])
        content = self._render_due_content(call, source, now)
        if content is not None:
            update["content"] = content
        if not update:
            return None
        call.is_announced = True
        return {"sessionUpdate": "tool_call" if first else "tool_call_update", "toolCallId": call.call_id, **update}

    def _note_new_details(self, call: ShownCall, source: Mapping[str, Any]) -> Json:
        """Return the update's fields that are not folded and that are new to the editor. Note that it has them."""
        details = {key: value for key, value in source.items() if key not in REWRITTEN}
        new = {key: value for key, value in details.items() if key not in call.details or call.details[key] != value}
        call.details |= details
        return new

    def _get_wire_status(self, call: ShownCall) -> str | None:
        return WIRE_STATUS.get(str(call.fields.get("status")))

    def _compose_meta(self, call: ShownCall, meta: object) -> Json:
        """Return `_meta` without output. For an editor that shows it in a terminal, add the new output."""
        if not isinstance(meta, dict):
            meta = {}
        dropped = OUTPUT_META if self._editor_profile.takes_terminal_deltas else OUTPUT_META | TERMINAL_META
        rest = {key: _drop_response(value) for key, value in meta.items() if key not in dropped}
        rest = {key: value for key, value in rest.items() if value != {} or meta[key] == {}}
        if call.terminal is not None and not any(op.replaces for op in call.output_ops):
            if text := "".join(op.text for op in call.output_ops):
                rest["terminal_output"] = {"terminal_id": call.terminal, "data": text}
            call.has_new_output = False
        return rest

    def _render_due_content(self, call: ShownCall, source: Mapping[str, Any], now: float) -> list[Json] | None:
        """Return the content to send now: the output and the other parts; None if neither changed or is due."""
        content = source.get("content")
        changed = False
        if isinstance(content, list):
            known_parts = [part for part in objects_in(content) if self._is_known_part(call, part)]
            if not call.output.total:  # its text is no output: it describes the call, or states its arguments
                return known_parts or None
            if text := content_text(content):
                call.is_fenced = text.startswith("```") and call.output.start(3) != "```"
            parts = [part for part in known_parts if not _is_text(part)]
            changed, call.parts = parts != call.parts, parts
        ends = call.is_final and (not call.is_announced or "status" in call.changes)
        is_due = call.has_new_output and (ends or (now >= call.due_at and self._is_affordable(call)))
        return self._render_content(call, now) if is_due or changed else None

    def _render_content(self, call: ShownCall, now: float) -> list[Json]:
        text = _render_output(call)
        call.has_new_output = False
        call.is_shortened = not call.is_final and call.output.total > RUNNING_HEAD + RUNNING_TAIL
        call.due_at = now + SNAPSHOT_INTERVAL_S
        call.sent_chars += len(text)
        return [*([{"type": "content", "content": {"type": "text", "text": text}}] if text else []), *call.parts]

    def _is_affordable(self, call: ShownCall) -> bool:
        """Whether a running call's output may be sent again: what is sent in total must stay in proportion to it."""
        size = min(call.output.total, RUNNING_HEAD + RUNNING_TAIL)
        return call.sent_chars + size <= FREE_CHARS + call.output.total

    def pop_due_updates(self, now: float) -> Iterator[Json]:
        """Yield the updates with output that is due. `now`: a monotonic time in seconds; infinite at the turn's end."""
        for item, call in list(self._unsent.items()):
            if call.is_announced and now >= call.due_at and (self._is_affordable(call) or now == inf):
                del self._unsent[item]
                content = self._render_content(call, now)
                yield {"sessionUpdate": "tool_call_update", "toolCallId": call.call_id, "content": content}


def _render_output(call: ShownCall) -> str:
    """Return the output as a terminal would show it, in a code fence unless the agent's own content had none."""
    head, gap, tail = call.output.shown()
    if not call.is_final and call.output.total > RUNNING_HEAD + RUNNING_TAIL:
        tail = (tail or head)[-RUNNING_TAIL:]
        head, gap = head[:RUNNING_HEAD], call.output.total - RUNNING_HEAD - RUNNING_TAIL
    text = head + format_gap(gap) + tail if gap else head
    text = render_terminal(text)
    if not text or not call.is_fenced:
        return text
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}console\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def _has_delta(meta: object) -> bool:
    return isinstance(meta, dict) and any(key in meta for key in DELTAS)


def _is_text(part: Json) -> bool:
    return part.get("type") == "content" and object_at(part, "content").get("type", "text") == "text"


def _repeats_output(source: Mapping[str, Any]) -> bool:
    """Whether an update that changed nothing in the view contains output: then it repeats output."""
    meta = source.get("_meta")
    has_output = source.get("content") or source.get("rawOutput") is not None
    return bool(has_output) or _has_delta(meta) or tool_response(meta) is not None


def _has_text(source: Mapping[str, Any]) -> bool:
    return bool(content_text(source.get("content")))


def _drop_response(value: object) -> object:
    """Return a value of `_meta` without a tool's output (`output_fields.tool_response`)."""
    return {key: inner for key, inner in value.items() if key != "toolResponse"} if isinstance(value, dict) else value


def _is_large(value: object) -> bool:
    return value is not None and _shorten_strings(value) is not value


def _shorten_strings(raw: object) -> object:
    """Return `rawOutput` with its long strings shortened, because the call's content repeats them.

    Return `raw` itself if no string is long.
    """
    if isinstance(raw, str):
        return raw if len(raw) <= MAX_RAW_CHARS else raw[:MAX_RAW_CHARS] + f" [{len(raw) - MAX_RAW_CHARS} more]"
    if isinstance(raw, dict):
        shorter: object = {key: _shorten_strings(value) for key, value in raw.items()}
        return shorter if any(shorter[key] is not value for key, value in raw.items()) else raw  # type: ignore[index]
    if isinstance(raw, list):
        items = [_shorten_strings(value) for value in raw]
        return items if any(new is not old for new, old in zip(items, raw, strict=True)) else raw
    return raw
