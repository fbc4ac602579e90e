"""Folds the updates that only ACP v2 has (agentclientprotocol.com/rfds/v2).

Whole messages are upserts by message id: omitted content stays, null clears it, a list replaces it. Tool call
content chunks append. A display terminal's bytes come in base64, may split a character, and belong to the
call that refers to the terminal, whichever comes first.
"""

from __future__ import annotations

import base64
import binascii
import codecs
from collections.abc import Mapping
from typing import Any

from semel.acp_stream.attachment import attachment, files_of, is_attachment
from semel.acp_stream.block import MESSAGE, THOUGHT, Block
from semel.acp_stream.dialect import content_text
from semel.acp_stream.messages import Talk
from semel.acp_stream.ops import Board, Changed, Grew, Op
from semel.acp_stream.tool_calls import Calls

WHOLE_MESSAGE_KINDS = {"agent_message": MESSAGE, "agent_thought": THOUGHT}
KINDS = frozenset(
    (*WHOLE_MESSAGE_KINDS, "tool_call_content_chunk", "terminal_update", "terminal_output_chunk", "notice")
)

MAX_EARLY = 10_000  # updates that are kept for a terminal nobody referred to yet


class Terminal:
    """A display terminal: its decoder, its call, and the updates (`early`) that came before the call was known."""

    __slots__ = ("call", "decoder", "early")

    def __init__(self) -> None:
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.call: str | None = None
        self.early: list[dict[str, Any]] = []


class Version2:
    """Translates v2 updates for the talk and the calls."""

    def __init__(self, board: Board, talk: Talk, calls: Calls) -> None:
        self.board = board
        self.talk = talk
        self.calls = calls
        self.terminals: dict[str, Terminal] = {}

    def __repr__(self) -> str:
        return f"<Version2 {len(self.terminals)} terminals>"

    def update(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        """One update whose kind is in KINDS."""
        if kind in WHOLE_MESSAGE_KINDS:
            return self._whole(WHOLE_MESSAGE_KINDS[kind], data)
        if kind == "tool_call_content_chunk":
            return self._content(data)
        if kind == "notice":
            text = data.get("message") or data.get("text")
            return self.talk.notices.tell(text) if isinstance(text, str) and text else []
        return self._terminal(kind, data)

    # ---- messages

    def _whole(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        mid, content = data.get("messageId"), data.get("content", ())
        if not isinstance(mid, str) or content == ():
            return []
        parts = content if isinstance(content, list) else []
        block = self._known(kind, mid)
        known, size = (list(block.fields.get("content", ())), block.size) if block is not None else ([], 0)
        ops: list[Op] = []
        for n, part in enumerate(parts):
            if not is_attachment(part):
                continue
            if (named := attachment(part)) in known:  # the whole message was sent again
                known.remove(named)
                continue
            if len(_text(parts[:n])) > size:  # it stands behind text that is told only now
                ops += self._whole_text(kind, mid, parts[:n])
            ops += self.talk.chunk(kind, {"messageId": mid, "content": part})
        return ops + self._whole_text(kind, mid, content)

    def _known(self, kind: str, mid: str) -> Block | None:
        found = next((node for node in reversed(self.board.nodes) if _is(node, kind, mid)), None)
        return found if isinstance(found, Block) else None

    def _whole_text(self, kind: str, mid: str, content: Any) -> list[Op]:
        text = _text(content)
        block = self._known(kind, mid)
        if block is None:
            chunk = {"messageId": mid, "content": {"type": "text", "text": text}}
            return self.talk.chunk(kind, chunk) if text else []
        block.held = None
        known = block.text()
        if text.startswith(known) and (known or block.fields.get("content")):
            rest = text[len(known) :]
            if rest:
                block.append(rest)
            return [Grew(block.id, rest)] if rest else []
        block.restart(text)
        block.rivals, block.again, block.calm = [], None, bool(text)
        return [Changed(block.id, {"text": text})]

    # ---- tool calls

    def _content(self, data: Mapping[str, Any]) -> list[Op]:
        cid, content = data.get("toolCallId"), data.get("content")
        if not isinstance(cid, str):
            return []
        if files := files_of([content]):
            return self._prepare(cid) + self.calls.add_files(cid, files)
        text = content_text([content])
        return self._prepare(cid) + self.calls.content_chunk(cid, text) if text else []

    def _prepare(self, cid: str) -> list[Op]:
        ops = self.talk.interrupt() if cid not in self.calls.known else []
        self.talk.happened()
        return ops

    def refers(self, cid: str, data: Mapping[str, Any]) -> list[Op]:
        """A tool call's content may refer to terminals: what they said already is the call's."""
        content = data.get("content")
        ops: list[Op] = []
        for part in content if isinstance(content, list) else ():
            terminal = self._named(part)
            if terminal is not None and terminal.call is None:
                terminal.call = cid
                for update in terminal.early:
                    ops += self.calls.update(cid, update)
                terminal.early.clear()
        return ops

    def _named(self, part: object) -> Terminal | None:
        """The terminal that a part of a tool call's content stands for."""
        if not isinstance(part, dict) or part.get("type") != "terminal":
            return None
        name = part.get("terminalId")
        return self.terminals.setdefault(name, Terminal()) if isinstance(name, str) else None

    def _terminal(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        name = data.get("terminalId")
        if not isinstance(name, str):
            return []
        terminal = self.terminals.setdefault(name, Terminal())
        if terminal.call is None and name in self.calls.known:
            terminal.call = name
        told = self._chunk if kind == "terminal_output_chunk" else self._state
        update = told(terminal, data)
        if not update:
            return []
        if terminal.call is None:
            if len(terminal.early) < MAX_EARLY:
                terminal.early.append(update)
            return []
        return self.calls.update(terminal.call, update)

    def _chunk(self, terminal: Terminal, data: Mapping[str, Any]) -> dict[str, Any]:
        text = terminal.decoder.decode(_bytes(data.get("data")))
        return {"_meta": {"terminal_output_delta": {"data": text}}} if text else {}

    def _state(self, terminal: Terminal, data: Mapping[str, Any]) -> dict[str, Any]:
        meta: dict[str, Any] = {}
        output, exited = data.get("output"), data.get("exitStatus")
        if isinstance(output, dict):
            terminal.decoder.reset()
            meta["terminal"] = {"toolResponse": terminal.decoder.decode(_bytes(output.get("data")))}
        if isinstance(exited, dict):
            meta["terminal_exit"] = {"exit_code": exited.get("exitCode")}
        return {"_meta": meta} if meta else {}


def _is(node: object, kind: str, mid: str) -> bool:
    ours = isinstance(node, Block) and node.kind == kind and node.mid == mid
    return ours and isinstance(node, Block) and node.fields.get("role") != "user"


def _text(content: object) -> str:
    blocks = content if isinstance(content, list) else []
    texts = (block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


def _bytes(data: object) -> bytes:
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else b""
    except (binascii.Error, ValueError):
        return b""
