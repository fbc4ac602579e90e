"""Fold the updates that only ACP v2 has (agentclientprotocol.com/rfds/v2).

Whole messages are upserts by message id: content that is omitted stays, null clears it, a list replaces it. Chunks of a
tool call's content are appended. A display terminal sends its output as bytes in base64, and an update may end inside a
character. The output belongs to the call that refers to the terminal, even if the output comes before that call.
"""

from __future__ import annotations

import base64
import binascii
import codecs
from collections.abc import Mapping
from typing import Any

from semel.acp_stream.attachment import describe_attachment, files_of, is_attachment
from semel.acp_stream.block import MESSAGE, THOUGHT, TextBlock
from semel.acp_stream.messages import BlockAssembler
from semel.acp_stream.ops import Changed, Grew, Op, ViewItems
from semel.acp_stream.output_fields import content_text
from semel.acp_stream.tool_calls import ToolCalls
from semel.text.json_types import Json, objects_in, text_at

WHOLE_MESSAGE_KINDS = {"agent_message": MESSAGE, "agent_thought": THOUGHT}
KINDS = frozenset(
    (*WHOLE_MESSAGE_KINDS, "tool_call_content_chunk", "terminal_update", "terminal_output_chunk", "notice")
)

MAX_EARLY = 10_000  # how many updates are kept of a terminal to which no call has referred yet


class Terminal:
    """A display terminal. `call`: the id of the call that refers to it. `early`: updates that came before that call."""

    __slots__ = ("call", "decoder", "early")

    def __init__(self) -> None:
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.call: str | None = None
        self.early: list[dict[str, Any]] = []


class Version2:
    """The translation of ACP v2's updates into changes of messages (`blocks`) and tool calls (`calls`).

    Methods return the operations by which the view changed.
    """

    def __init__(self, view_items: ViewItems, blocks: BlockAssembler, calls: ToolCalls) -> None:
        self.view_items = view_items
        self.blocks = blocks
        self.calls = calls
        self.terminals: dict[str, Terminal] = {}

    def __repr__(self) -> str:
        return f"<Version2 {len(self.terminals)} terminals>"

    def update(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        """Apply one update, whose kind is in KINDS, to the view."""
        if kind in WHOLE_MESSAGE_KINDS:
            return self._fold_whole_message(WHOLE_MESSAGE_KINDS[kind], data)
        if kind == "tool_call_content_chunk":
            return self._fold_content(data)
        if kind == "notice":
            text = data.get("message") or data.get("text")
            return self.blocks.notices.add(text) if isinstance(text, str) and text else []
        return self._fold_terminal(kind, data)

    # ---- messages

    def _fold_whole_message(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        mid, content = data.get("messageId"), data.get("content", ())
        if not isinstance(mid, str) or content == ():
            return []
        parts = content if isinstance(content, list) else []
        block = self._find_block(kind, mid)
        known_files, size = (list(block.fields.get("content", ())), block.size) if block is not None else ([], 0)
        ops: list[Op] = []
        for n, part in enumerate(parts):
            if not is_attachment(part):
                continue
            if (description := describe_attachment(part)) in known_files:  # the whole message was sent again
                known_files.remove(description)
                continue
            if len(_read_text(parts[:n])) > size:  # the text before it is new
                ops += self._whole_text(kind, mid, parts[:n])
            ops += self.blocks.add_chunk(kind, {"messageId": mid, "content": part})
        return ops + self._whole_text(kind, mid, content)

    def _find_block(self, kind: str, mid: str) -> TextBlock | None:
        blocks = (node for node in reversed(self.view_items.nodes) if isinstance(node, TextBlock) and node.kind == kind)
        return next((block for block in blocks if block.mid == mid and block.fields.get("role") != "user"), None)

    def _whole_text(self, kind: str, mid: str, content: Any) -> list[Op]:
        text = _read_text(content)
        block = self._find_block(kind, mid)
        if block is None:
            chunk = {"messageId": mid, "content": {"type": "text", "text": text}}
            return self.blocks.add_chunk(kind, chunk) if text else []
        block.withheld_copy = None
        known_text = block.text()
        if text.startswith(known_text) and (known_text or block.fields.get("content")):
            new_text = text[len(known_text) :]
            if new_text:
                block.append(new_text)
            return [Grew(block.id, new_text)] if new_text else []
        block.restart(text)
        block.rivals, block.repeat_cursor, block.is_plain = [], None, bool(text)
        return [Changed(block.id, {"text": text})]

    # ---- tool calls

    def _fold_content(self, data: Mapping[str, Any]) -> list[Op]:
        cid, content = data.get("toolCallId"), data.get("content")
        if not isinstance(cid, str):
            return []
        if files := files_of([content]):
            return self._before_call(cid) + self.calls.add_files(cid, files)
        text = content_text([content])
        return self._before_call(cid) + self.calls.append_content(cid, text) if text else []

    def _before_call(self, cid: str) -> list[Op]:
        ops = self.blocks.end_blocks() if cid not in self.calls.by_id else []
        self.blocks.note_side_effect()
        return ops

    def attach_terminals(self, cid: str, data: Mapping[str, Any]) -> list[Op]:
        """Connect a tool call with the terminals to which its content refers.

        The call gets the output that these terminals have sent so far. `cid`: the call's id. `data`: the update with
        the content.
        """
        content = data.get("content")
        ops: list[Op] = []
        for part in objects_in(content):
            terminal = self._find_terminal(part)
            if terminal is not None and terminal.call is None:
                terminal.call = cid
                for update in terminal.early:
                    ops += self.calls.update(cid, update)
                terminal.early.clear()
        return ops

    def _find_terminal(self, part: Json) -> Terminal | None:
        """Return the terminal to which a part of a tool call's content refers; None if the part is not a terminal."""
        name = text_at(part, "terminalId") if part.get("type") == "terminal" else None
        return self.terminals.setdefault(name, Terminal()) if name is not None else None

    def _fold_terminal(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        name = data.get("terminalId")
        if not isinstance(name, str):
            return []
        terminal = self.terminals.setdefault(name, Terminal())
        if terminal.call is None and name in self.calls.by_id:
            terminal.call = name
        make_update = self._chunk_update if kind == "terminal_output_chunk" else self._state_update
        update = make_update(terminal, data)
        if not update:
            return []
        if terminal.call is None:
            if len(terminal.early) < MAX_EARLY:
                terminal.early.append(update)
            return []
        return self.calls.update(terminal.call, update)

    def _chunk_update(self, terminal: Terminal, data: Mapping[str, Any]) -> dict[str, Any]:
        text = terminal.decoder.decode(_decode_bytes(data.get("data")))
        return {"_meta": {"terminal_output_delta": {"data": text}}} if text else {}

    def _state_update(self, terminal: Terminal, data: Mapping[str, Any]) -> dict[str, Any]:
        meta: dict[str, Any] = {}
        output, exited = data.get("output"), data.get("exitStatus")
        if isinstance(output, dict):
            terminal.decoder.reset()
            meta["terminal"] = {"toolResponse": terminal.decoder.decode(_decode_bytes(output.get("data")))}
        if isinstance(exited, dict):
            meta["terminal_exit"] = {"exit_code": exited.get("exitCode")}
        return {"_meta": meta} if meta else {}


def _read_text(content: object) -> str:
    return "".join(text_at(block, "text") or "" for block in objects_in(content) if block.get("type") == "text")


def _decode_bytes(data: object) -> bytes:
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else b""
    except (binascii.Error, ValueError):
        return b""
