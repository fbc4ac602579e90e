"""Translate the folded stream into operations: tool calls, thoughts and plans become items, text becomes blocks.

Each item and each block has a slot, the number that the fold gave it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from semel.acp_stream import Began, Changed, Ended, Grew, Op
from semel.acp_stream.attachment import AgentFile
from semel.acp_stream.display import MAX_MUTABLE_CHARS, Display
from semel.gateway.outbound.attachment_text import describe_attachments
from semel.gateway.turns.block_claims import BlockClaims
from semel.gateway.turns.call_details import pick_item_fields
from semel.ledger.turns import show, turn_ops

HEAD_CHARS = 16_384  # characters at the beginning of a tool's output that watchers get
TAIL_CHARS = 8_192  # characters at its end that watchers get; the whole output is in the ledger
MAX_LATE_ITEMS = (
    200  # items of earlier turns that an agent may still update; limited, because an agent may live long (Law 11)
)

ESCAPE = "\x1b["  # begins an escape sequence

SPEAKING_TOOLS = ("send_message", "send_file", "edit_message")  # tools of Semel whose text a block may repeat
_ITEM_KINDS = {"tool", "thought", "plan", "usage", "notice"}
_SESSION_FIELDS = {"title", "mode", "commands", "options"}


class OutputView:
    """A tool's output as a terminal would display it: its head, a gap of stated size, and its tail."""

    def __init__(self) -> None:
        self.head = ""
        self.is_dirty = False  # whether the fields of `body` have changed
        self.is_coloured = False  # whether the stored output has escape sequences, such as colours, which are not shown
        self._was_split = False  # whether the last piece ended within the sign of an escape sequence
        self._display = Display()
        self._displayed_chars = 0  # characters displayed
        self._end = ""  # the end of the output after the head: the tail, and text that may be overwritten

    def grow(self, text: str) -> str | None:
        """Add output. Return the text by which the head grew; None if output that the head shows was overwritten."""
        self._find_colours(text)
        kept_chars, new_text = self._display.feed(text)
        behind = max(0, self._displayed_chars - HEAD_CHARS)
        self._displayed_chars = kept_chars + len(new_text)
        if behind or self._displayed_chars > HEAD_CHARS:
            self.is_dirty = True
            lost_chars = behind - max(0, kept_chars - HEAD_CHARS)  # characters at its end that were overwritten
            self._end = self._end[: max(0, len(self._end) - lost_chars)] + new_text[max(0, HEAD_CHARS - kept_chars) :]
            self._end = self._end[-(TAIL_CHARS + MAX_MUTABLE_CHARS) :]
        if kept_chars >= HEAD_CHARS:
            return ""
        growth = new_text[: HEAD_CHARS - kept_chars]
        only_grew = kept_chars == len(self.head)
        self.head = self.head[:kept_chars] + growth
        return growth if only_grew else None

    def _find_colours(self, text: str) -> None:
        begins = f"{ESCAPE[0]}{text}" if self._was_split else text
        if not self.is_coloured and ESCAPE in begins:
            self.is_coloured = self.is_dirty = True
        self._was_split = text.endswith(ESCAPE[0])

    def body(self) -> dict[str, Any]:
        """Return the fields of the item beside its head: {"tail", "gap" (in characters), "coloured"}.

        Behind a gap, the tail begins with a line, unless its first line is longer than half of it.
        """
        self.is_dirty = False
        tail = self._end[-TAIL_CHARS:]
        if self._displayed_chars - HEAD_CHARS > len(tail):
            tail = tail[tail.find("\n", 0, TAIL_CHARS // 2) + 1 :]
        gap = self._displayed_chars - HEAD_CHARS - len(tail)
        return {"tail": tail or None, "gap": gap if gap > 0 else None, "coloured": self.is_coloured or None}


class StreamView:
    """The view of an agent's stream: translate what the fold reports into operations, and collect them in a batch.

    `take_batch` returns the batch. Items of the replayed history are left out.
    """

    def __init__(self) -> None:
        self.speech: BlockClaims
        self.kinds: dict[int, str] = {}
        self.outputs: dict[int, OutputView] = {}
        self.calls: dict[str, int] = {}  # tool call id -> slot
        self.call_fields: dict[int, dict[str, Any]] = {}  # slot -> the known fields of a tool call
        self.bound_calls: set[str] = set()  # ids of tool calls that `match` has returned
        self.turns: dict[str, int] = {}  # tool call id -> the turn that announced it (Law 10)
        self.turn = 0
        self.is_ending = False  # whether the turn's last answer came, so that blocks end with the turn
        self.is_cut = False  # whether the model did not finish that answer
        self.seen_kinds: set[str] = (
            set()
        )  # kinds of items in this turn so far; "queued": a message that only says that the prompt was queued
        self._grown_slots: set[int] = set()  # slots of outputs whose tail or gap is to be shown again
        self._redrawn_slots: set[int] = set()  # slots of outputs whose head was overwritten and is to be shown again
        self.pending: list[turn_ops.Op] = []

    def begin_turn(self, speech: BlockClaims, turn: int) -> None:
        """Begin a turn. The latest items of earlier turns keep their slots, because an agent may still update them."""
        self.speech = speech
        self.turn = turn
        self.is_ending = self.is_cut = False
        self.seen_kinds = set()
        self.kinds = dict([item for item in self.kinds.items() if item[1] != "message"][-MAX_LATE_ITEMS:])
        self.outputs = {slot: self.outputs[slot] for slot in self.kinds if slot in self.outputs}
        self.call_fields = {slot: self.call_fields[slot] for slot in self.kinds if slot in self.call_fields}
        self.calls = {call: slot for call, slot in self.calls.items() if slot in self.kinds}
        self.turns = {call: turn for call, turn in self.turns.items() if call in self.calls}
        self.bound_calls &= self.calls.keys()
        self._grown_slots &= self.outputs.keys()
        self._redrawn_slots &= self.outputs.keys()

    def take(self, ops: list[Op]) -> None:
        """Add operations of the fold, in order."""
        for op in ops:
            if isinstance(op, Began):
                self._begin_row(op)
            elif op.id not in self.kinds:
                continue
            elif isinstance(op, Grew):
                self._grow_row(op)
            elif isinstance(op, Changed):
                self._change_row(op)
            else:
                self._end_row(op)

    def take_batch(self) -> list[turn_ops.Op]:
        """Remove and return the operations that are due to be shown."""
        for slot in sorted(self._grown_slots):
            output, redrawn = self.outputs[slot], slot in self._redrawn_slots
            if output.is_dirty or redrawn:
                self.pending.append(turn_ops.ItemSet(slot, output.body(), text=output.head if redrawn else None))
        self._grown_slots.clear()
        self._redrawn_slots.clear()
        out, self.pending = _join_growth(self.pending), []
        return out

    @property
    def has_acted(self) -> bool:
        """Return whether the agent has announced a tool call in this turn."""
        return "tool" in self.seen_kinds

    def is_tool_running(self) -> bool:
        """Return whether a tool call is running."""
        return any(call.get("status") in ("pending", "running") for call in self.call_fields.values())

    def announced_call(self, tool_call: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields with which the stream announced a permission request's tool call; {} if it did not."""
        slot = self.calls.get(str(tool_call.get("toolCallId")))
        return self.call_fields.get(slot, {}) if slot is not None else {}

    def match(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """Return the id of the open tool call with this name and equal input; None if there is none.

        The same call is never returned twice.
        """
        for call, slot in self.calls.items():
            announced = self.call_fields[slot]
            if call in self.bound_calls or announced.get("status") not in ("pending", "running"):
                continue
            if _names_tool(announced, name) and _has_arguments(announced.get("input"), arguments):
                self.bound_calls.add(call)
                return call
        return None

    def was_announced(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether the stream announced a call with this name and equal input, open or not."""
        return any(
            _names_tool(announced, name) and _has_arguments(announced.get("input"), arguments)
            for announced in self.call_fields.values()
        )

    # ------------------------------------------------------------ per operation

    def _begin_row(self, op: Began) -> None:
        fields = dict(op.fields)
        if fields.pop("history", False):
            return
        text = str(fields.pop("text", "") or "")
        if op.kind != "message" or fields.get("role") == "agent":
            self.seen_kinds.add("queued" if fields.get("queued") else op.kind)
        if op.kind == "message":
            if fields.get("role") == "agent":
                self.kinds[op.id] = "message"
                self.pending += self.speech.begin_block(op.id, text, one_message="message_id" in fields)
            return
        if op.kind in _SESSION_FIELDS:
            self.kinds[op.id] = op.kind
            self._add_session_change(op.kind, fields)
            return
        if op.kind not in _ITEM_KINDS:
            return
        self.kinds[op.id] = op.kind
        self._open_item(op.id, op.kind, fields, text)

    def _add_session_change(self, kind: str, fields: dict[str, Any]) -> None:
        """Add the operation for a change of the session as a whole: its title, mode or commands."""
        if kind == "title":
            self.pending.append(turn_ops.Title(str(fields.get("title") or "")))
        else:
            self.pending.append(turn_ops.About(fields))

    def _open_item(self, slot: int, kind: str, fields: dict[str, Any], text: str) -> None:
        name = fields.pop("call", None)
        if kind == "tool":
            self.outputs[slot] = OutputView()
            self.call_fields[slot] = dict(fields)
            if name is not None:
                self.bound_calls.discard(str(name))  # a call of an earlier turn may have had this id
                self.calls[str(name)] = slot
                self.turns[str(name)] = self.turn
            self._hold_back(slot)
        live = kind in ("tool", "thought", "plan")
        body = _make_body(kind, fields)
        self.pending.append(
            turn_ops.ItemOpen(slot, kind, name, "" if kind == "tool" else text, body, live, started=kind == "tool")
        )
        if kind == "tool" and text:
            self._grow_output(slot, text)

    def _hold_back(self, slot: int) -> None:
        """Withhold the preview of a block while it may repeat the text of an announced call of Semel's tools (Law 5).

        The call comes over another pipe than the stream. It may come late, or again from a restarted tool server.
        """
        announced = self.call_fields[slot]
        if announced.get("status") in ("pending", "running") and any(
            _names_tool(announced, tool) for tool in SPEAKING_TOOLS
        ):
            text = _unwrap_arguments(announced.get("input")).get("text")
            self.speech.hold_back([text] if isinstance(text, str) else [])

    def _grow_row(self, op: Grew) -> None:
        match self.kinds[op.id]:
            case "message":
                self.pending += self.speech.grow_block(op.id, op.text)
            case "tool":
                self._grow_output(op.id, op.text)
            case _:
                self.pending.append(turn_ops.ItemGrow(op.id, op.text))

    def _grow_output(self, slot: int, text: str) -> None:
        head = self.outputs[slot].grow(text)
        self._grown_slots.add(slot)
        if head is None:
            self._redrawn_slots.add(slot)
        grew = "" if slot in self._redrawn_slots else head or ""
        self.pending.append(turn_ops.ItemGrow(slot, grew, output=text))

    def _change_row(self, op: Changed) -> None:
        kind, fields = self.kinds[op.id], dict(op.fields)
        text = fields.pop("text", None)
        if kind in _SESSION_FIELDS:
            self._add_session_change(kind, fields)
            return
        if kind == "message":
            if text is not None:
                self.pending += self.speech.replace_block(op.id, text)
            if fields.get("superseded"):
                self.pending += self.speech.supersede(op.id, fields["superseded_by"])
            if content := fields.get("content"):
                self.pending += self.speech.attach(op.id, content[-1])
            return
        if kind == "tool":
            self.call_fields[op.id].update(fields)
            self._hold_back(op.id)
            if text is not None:
                self._replace_output(op.id, text)
            text = None
        if fields or text is not None:
            self.pending.append(turn_ops.ItemSet(op.id, _make_body(kind, fields), text=text))

    def _replace_output(self, slot: int, text: str) -> None:
        output = self.outputs[slot] = OutputView()
        output.grow(text)
        self._redrawn_slots.discard(slot)
        self.pending.append(turn_ops.ItemSet(slot, output.body(), text=output.head, output=text))

    def _end_row(self, op: Ended) -> None:
        kind, fields = self.kinds[op.id], dict(op.fields)
        text = fields.pop("text", None)
        if kind in _SESSION_FIELDS:
            return
        if kind == "message":
            if text is not None:
                self.pending += self.speech.replace_block(op.id, text)
            partial = bool(fields.get("partial"))
            cut = self.is_cut or bool(fields.get("broken"))
            self.pending += self.speech.end_block(op.id, partial=partial, last=self.is_ending, cut=cut)
            if missing := self.speech.missing_files.pop(op.id, None):
                self.pending += self._describe_missing(missing, partial)
            return
        if kind == "tool":
            self.call_fields[op.id].update(fields)
        self.pending.append(turn_ops.ItemSet(op.id, _make_body(kind, fields), live=False))

    def _describe_missing(self, attached: Sequence[Mapping[str, Any]], partial: bool) -> list[turn_ops.Op]:
        """Return the operations that show a notice about files of a block that could not be stored.

        `partial`: the attempt broke off, so the notice is not sent to a chat yet.
        """
        text = describe_attachments(attached)
        if partial:
            return [turn_ops.Notice(text, "attached", tell=True)]
        return [*self.speech.leave(), turn_ops.Notice(text, show.ATTACHED_KIND, tell=True)]


def _names_tool(announced: Mapping[str, Any], tool: str) -> bool:
    """Return whether an announced call names Semel's tool `tool`.

    Agents write it in different ways: mcp__semel__send_message or {"tool": "send_message"}, for example.
    """
    raw = announced.get("input")
    names = [announced.get("name"), announced.get("title"), raw.get("tool") if isinstance(raw, dict) else None]
    return any(isinstance(name, str) and tool in name for name in names)


def _has_arguments(raw: Any, arguments: Mapping[str, Any]) -> bool:
    return raw == arguments or (isinstance(raw, dict) and raw.get("arguments") == arguments)


def _unwrap_arguments(raw: Any) -> Mapping[str, Any]:
    """Return a tool's arguments. Some agents (Codex) wrap them as {"server", "tool", "arguments"}."""
    inner = raw.get("arguments", raw) if isinstance(raw, dict) else None
    return inner if isinstance(inner, dict) else {}


def _make_body(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    if kind == "tool":
        return pick_item_fields(fields)
    if "content" in fields:
        rows = [block["file"].row() for block in fields["content"] if isinstance(block.get("file"), AgentFile)]
        fields = {k: v for k, v in fields.items() if k != "content"} | ({"files": rows} if rows else {})
    return {k: v for k, v in fields.items() if k not in ("history", "message_id", "superseded_by")}


def _join_growth(ops: list[turn_ops.Op]) -> list[turn_ops.Op]:
    """Join consecutive operations that extend the text of one slot into one operation."""
    joined: list[turn_ops.Op] = []
    for _, group in itertools.groupby(ops, lambda op: (type(op), getattr(op, "slot", None))):
        run = list(group)
        text = "".join(op.text for op in run if isinstance(op, turn_ops.Preview | turn_ops.ItemGrow))
        if isinstance(run[0], turn_ops.Preview):
            run = [turn_ops.Preview(run[0].slot, text)]
        elif isinstance(run[0], turn_ops.ItemGrow):
            output = "".join(op.output for op in run if isinstance(op, turn_ops.ItemGrow))
            run = [turn_ops.ItemGrow(run[0].slot, text, output)]
        joined += run
    return joined
