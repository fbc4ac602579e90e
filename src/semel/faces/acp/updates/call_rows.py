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


class CallRow:
    """A tool call, and what the editor has of it. `fields`: its fields in the fold. `call`: its id for the editor."""

    __slots__ = (
        "call", "changes", "details", "due_at", "fields", "has_new_output", "is_announced", "is_fenced", "is_shortened",
        "output", "output_ops", "parts", "sent_chars", "terminal",
    )  # fmt: skip

    def __init__(self, fields: Json) -> None:
        self.fields = fields
        self.call = str(fields.get("call", ""))
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
        return f"<CallRow {self.call} {self.fields.get('status')} {self.output!r}>"

    @property
    def has_started(self) -> bool:
        return self.fields.get("status") != "pending" or self.output.total > 0

    @property
    def is_final(self) -> bool:
        return self.fields.get("status") in FINAL


class CallRows:
    """The tool calls of one session. `terminals`: ids of terminals that the editor made."""

    def __init__(self, editor_profile: EditorProfile, agent_profile: Profile, terminals: set[str]) -> None:
        self._editor_profile = editor_profile
        self._agent_profile = agent_profile
        self._terminals = terminals
        self._rows: dict[int, CallRow] = {}
        self._touched: dict[int, CallRow] = {}  # rows that changed since the last update, by the fold's item
        self._unsent: dict[int, CallRow] = {}  # rows with output that waits for its time
        self.has_started = False  # a call of the latest updates runs or has run

    def __repr__(self) -> str:
        return f"<CallRows {len(self._rows)} calls, {len(self._unsent)} with unsent output>"

    @property
    def due_at(self) -> float | None:
        """The monotonic time in seconds at which output is next due; None if no output waits."""
        rows = (row for row in self._unsent.values() if row.is_announced and self._is_affordable(row))
        return min((row.due_at for row in rows), default=None)

    def keep_latest(self, count: int) -> list[int]:
        """Forget all calls except the latest `count` and the unfinished ones. Returns the ids of the kept items."""
        recent = set(list(self._rows)[-count:]) if count else set()
        self._rows = {item: row for item, row in self._rows.items() if item in recent or not row.is_final}
        return list(self._rows)

    # ---- operations

    def apply_op(self, op: Op) -> None:
        """Apply an operation to its tool call. Operations on other kinds of items are ignored."""
        if isinstance(op, Began) and op.kind == "tool":
            self._rows[op.id] = CallRow(dict(op.fields))
        row = self._rows.get(op.id)
        if row is None:
            return
        self._touched[op.id] = row
        if isinstance(op, Grew):
            row.output.append(op.text)
            row.output_ops.append(OutputOp(op.text, False))
        elif isinstance(op, Changed):
            self._change_call(row, op.fields)

    def _change_call(self, row: CallRow, fields: Mapping[str, Any]) -> None:
        if "text" in fields:
            row.output.replace(str(fields["text"] or ""))
            row.output_ops.append(OutputOp(str(fields["text"] or ""), True))
        rest = {key: value for key, value in fields.items() if key != "text"}
        row.fields.update(rest)
        row.changes |= rest.keys()
        if "status" in rest and row.is_final:
            row.has_new_output |= row.is_shortened

    # ---- updates

    def pass_delta(self, op: Grew, source: Mapping[str, Any], now: float) -> bool | None:
        """Note new output in a terminal, the most frequent update of a call. This is the fast path of `take_updates`.

        Returns True if the agent's line passes, False if the output waits until it is due, and None if `take_updates`
        must handle the update.
        """
        row = self._rows.get(op.id)
        meta = source.get("_meta")
        if row is None or not row.is_announced or len(source) != 3 or type(meta) is not dict or len(meta) != 1:
            return None
        if row.terminal is None:
            if now >= row.due_at and self._is_affordable(row):
                return None
            row.output.append(op.text)
            row.has_new_output = True
            self._unsent[op.id] = row
            return False
        part = meta.get("terminal_output")
        if row.call != source.get("toolCallId") or type(part) is not dict or part.get("data") != op.text:
            return None
        row.output.append(op.text)
        return True

    def take_updates(self, source: Mapping[str, Any] | None, now: float) -> list[Mapping[str, Any]]:
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
        self.has_started = any(row.has_started for row in touched.values())
        for item, row in touched.items():
            row.has_new_output = row.has_new_output or bool(row.output_ops)
            update = self._write_row(row, own, now) if own is not None or row.is_announced else None
            row.changes.clear()
            row.output_ops.clear()
            if row.has_new_output:
                self._unsent[item] = row
            else:
                self._unsent.pop(item, None)
            updates += [] if update is None else [update]
        return updates

    def _find_untouched(self, source: Mapping[str, Any], touched: Mapping[int, CallRow]) -> dict[int, CallRow]:
        """Return the call of an update that changed nothing in the view: it may still have a location or a diff.

        Return {} if rows changed, or if the call is unknown.
        """
        if touched:
            return {}
        call = source["toolCallId"]
        matches = ((item, row) for item, row in reversed(self._rows.items()) if row.call == call)
        return dict([pair]) if (pair := next(matches, None)) else {}

    def _write_row(self, row: CallRow, source: Mapping[str, Any] | None, now: float) -> Mapping[str, Any] | None:
        if source is None:
            return self._compose_update(row, {}, now)
        if not row.is_announced:
            row.call = str(source["toolCallId"])
        self._note_terminal(row, source)
        if self._may_pass(row, source):
            self._note_passed(row, source)
            return source
        return self._compose_update(row, source, now)

    # ---- passing

    def _may_pass(self, row: CallRow, source: Mapping[str, Any]) -> bool:
        status = source.get("status")
        if source.get("sessionUpdate") == "tool_call_update" and not row.is_announced:
            return False
        if not (row.changes or row.output_ops) and row.is_announced and _repeats_output(source):
            return False
        if row.call != source["toolCallId"] or (status is not None and status != self._get_wire_status(row)):
            return False
        if len(source) == 3 and row.terminal is not None and self._is_new_delta(row, source):
            return True
        if any(not self._is_known_part(row, part) for part in objects_in(source.get("content"))):
            return False
        return self._output_may_pass(row, source)

    def _output_may_pass(self, row: CallRow, source: Mapping[str, Any]) -> bool:
        meta = source.get("_meta")
        has_delta = _has_delta(meta)
        if (
            self._editor_profile.takes_terminal_deltas
            and row.terminal is not None
            and not content_text(source.get("content"))
        ):
            return self._is_new_delta(row, source) if has_delta else not row.output_ops
        if has_delta or tool_response(meta) is not None:
            return False
        snapshots = read_snapshots(source, self._agent_profile, row.is_final)
        if not snapshots:
            return not row.has_new_output or not row.is_final
        return row.is_final and self._states_output(row, source, snapshots[-1].text)

    def _states_output(self, row: CallRow, source: Mapping[str, Any], text: str) -> bool:
        """Whether the update's content is the whole output, in a readable form. `text`: that output."""
        head, gap, tail = row.output.shown()
        if gap:
            is_whole = len(text) == row.output.total and text.startswith(head) and text.endswith(tail)
        else:
            is_whole = text.rstrip() == head.rstrip()
        given = content_text(source.get("content"))
        is_readable = bool(given) and not is_wrapped(given) and render_terminal(head) == head
        return is_whole and is_readable and not _is_large(source.get("rawOutput"))

    def _is_new_delta(self, row: CallRow, source: Mapping[str, Any]) -> bool:
        """Whether the update's terminal output is exactly the new output, and in the field that the editor reads."""
        delta = text_at(source.get("_meta"), "terminal_output", "data")
        return delta is not None and row.output_ops == [OutputOp(delta, False)]

    def _note_passed(self, row: CallRow, source: Mapping[str, Any]) -> None:
        row.is_announced = True
        self._take_new_details(row, source)
        shows_output = row.terminal is not None or _has_text(source)
        if shows_output and row.has_new_output and (row.is_final or row.terminal is not None):
            row.has_new_output = False
        if isinstance(source.get("content"), list):
            row.parts = [part for part in objects_in(source["content"]) if not _is_text(part)]

    # ---- terminals

    def _note_terminal(self, row: CallRow, source: Mapping[str, Any]) -> None:
        """Note the terminal in which the editor shows this call's output, as `_meta.terminal_info` says."""
        if self._editor_profile.takes_terminal_deltas:
            row.terminal = text_at(source.get("_meta"), "terminal_info", "terminal_id") or row.terminal

    def _is_known_part(self, row: CallRow, part: Json) -> bool:
        if part.get("type") != "terminal":
            return True
        terminal = part.get("terminalId")
        return terminal in self._terminals or (terminal is not None and terminal == row.terminal)

    # ---- composing

    def _compose_update(self, row: CallRow, source: Mapping[str, Any], now: float) -> Json | None:
        """Return an update with everything that changed; None if nothing is due."""
        first = not row.is_announced
        update = self._take_new_details(row, source)
        if first or "input" in row.changes:
            update |= {"rawInput": row.fields["input"]} if "input" in row.fields else {}
        if first or "title" in row.changes:
            update["title"] = row.fields.get("title") or row.fields.get("name") or "tool"
        if (first or "tool_kind" in row.changes) and row.fields.get("tool_kind") in TOOL_KINDS:
            update["kind"] = row.fields["tool_kind"]
        if (first or "status" in row.changes) and (status := self._get_wire_status(row)) is not None:
            update["status"] = status
        if meta := self._compose_meta(row, source.get("_meta")):
            update["_meta"] = meta
        if source.get("rawOutput") is not None and row.is_final:
            update["rawOutput"] = _shorten_strings(source["rawOutput"])
        content = self._take_due_content(row, source, now)
        if content is not None:
            update["content"] = content
        if not update:
            return None
        row.is_announced = True
        return {"sessionUpdate": "tool_call" if first else "tool_call_update", "toolCallId": row.call, **update}

    def _take_new_details(self, row: CallRow, source: Mapping[str, Any]) -> Json:
        """Return the update's fields that are not folded and that are new to the editor. Note that it has them."""
        details = {key: value for key, value in source.items() if key not in REWRITTEN}
        new = {key: value for key, value in details.items() if key not in row.details or row.details[key] != value}
        row.details |= details
        return new

    def _get_wire_status(self, row: CallRow) -> str | None:
        return WIRE_STATUS.get(str(row.fields.get("status")))

    def _compose_meta(self, row: CallRow, meta: object) -> Json:
        """Return `_meta` without output. For an editor that shows it in a terminal, add the new output."""
        if not isinstance(meta, dict):
            meta = {}
        dropped = OUTPUT_META if self._editor_profile.takes_terminal_deltas else OUTPUT_META | TERMINAL_META
        rest = {key: _drop_response(value) for key, value in meta.items() if key not in dropped}
        rest = {key: value for key, value in rest.items() if value != {} or meta[key] == {}}
        if row.terminal is not None and not any(op.replaces for op in row.output_ops):
            if text := "".join(op.text for op in row.output_ops):
                rest["terminal_output"] = {"terminal_id": row.terminal, "data": text}
            row.has_new_output = False
        return rest

    def _take_due_content(self, row: CallRow, source: Mapping[str, Any], now: float) -> list[Json] | None:
        """Return the content to send now: the output and the other parts; None if neither changed or is due."""
        content = source.get("content")
        changed = False
        if isinstance(content, list):
            known_parts = [part for part in objects_in(content) if self._is_known_part(row, part)]
            if not row.output.total:  # its text is no output: it describes the call, or states its arguments
                return known_parts or None
            if text := content_text(content):
                row.is_fenced = text.startswith("```") and row.output.start(3) != "```"
            parts = [part for part in known_parts if not _is_text(part)]
            changed, row.parts = parts != row.parts, parts
        ends = row.is_final and (not row.is_announced or "status" in row.changes)
        is_due = row.has_new_output and (ends or (now >= row.due_at and self._is_affordable(row)))
        return self._render_content(row, now) if is_due or changed else None

    def _render_content(self, row: CallRow, now: float) -> list[Json]:
        text = _render_output(row)
        row.has_new_output = False
        row.is_shortened = not row.is_final and row.output.total > RUNNING_HEAD + RUNNING_TAIL
        row.due_at = now + SNAPSHOT_INTERVAL_S
        row.sent_chars += len(text)
        return [*([{"type": "content", "content": {"type": "text", "text": text}}] if text else []), *row.parts]

    def _is_affordable(self, row: CallRow) -> bool:
        """Whether a running call's output may be sent again: what is sent in total must stay in proportion to it."""
        size = min(row.output.total, RUNNING_HEAD + RUNNING_TAIL)
        return row.sent_chars + size <= FREE_CHARS + row.output.total

    def take_due_updates(self, now: float) -> Iterator[Json]:
        """Yield the updates with output that is due. `now`: a monotonic time in seconds; infinite at the turn's end."""
        for item, row in list(self._unsent.items()):
            if row.is_announced and now >= row.due_at and (self._is_affordable(row) or now == inf):
                del self._unsent[item]
                content = self._render_content(row, now)
                yield {"sessionUpdate": "tool_call_update", "toolCallId": row.call, "content": content}


def _render_output(row: CallRow) -> str:
    """Return the output as a terminal would show it, in a code fence unless the agent's own content had none."""
    head, gap, tail = row.output.shown()
    if not row.is_final and row.output.total > RUNNING_HEAD + RUNNING_TAIL:
        tail = (tail or head)[-RUNNING_TAIL:]
        head, gap = head[:RUNNING_HEAD], row.output.total - RUNNING_HEAD - RUNNING_TAIL
    text = head + format_gap(gap) + tail if gap else head
    text = render_terminal(text)
    if not text or not row.is_fenced:
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
