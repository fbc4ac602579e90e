"""From the folded stream to what is shown: tool calls, thoughts and plans as items, agent text as blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from semel.acp_stream import Began, Changed, Ended, Grew, Op
from semel.acp_stream.attachment import AgentFile
from semel.acp_stream.display import LONGEST, Display
from semel.gateway.outbound.attachment_text import describe_attachments
from semel.gateway.turns.speech import Speech
from semel.ledger.turns import show

HEAD = 16_384  # characters of tool output a watcher is sent from its beginning
TAIL = 8_192  # and from its end; the whole is in the ledger
LATE = 200  # items of earlier turns that an agent may still tell of; a long life of one must cost no more (Law 11)

SPEAKING_TOOLS = ("send_message", "send_file", "edit_message")  # tools of ours whose text a block may repeat
_TOOL_FIELDS = {"title", "status", "tool_kind", "input", "exit", "truncated", "late", "name", "files"}
_ITEM_KINDS = {"tool", "thought", "plan", "usage", "notice"}
_ABOUT = {"title", "mode", "commands"}


class Output:
    """The head, the stated gap and the tail of a tool's output, as a terminal displays it."""

    def __init__(self) -> None:
        self.head = ""
        self.dirty = False  # what stands behind the head changed
        self._display = Display()
        self._size = 0  # characters displayed
        self._rest = ""  # the end of what stands behind the head: a tail, and what may be written over

    def grow(self, text: str) -> str | None:
        """The text by which the head grew; None if a shown part of it was overwritten."""
        kept, fresh = self._display.feed(text)
        behind = max(0, self._size - HEAD)
        self._size = kept + len(fresh)
        if behind or self._size > HEAD:
            self.dirty = True
            lost = behind - max(0, kept - HEAD)  # characters at its end that are written over
            self._rest = self._rest[: max(0, len(self._rest) - lost)] + fresh[max(0, HEAD - kept) :]
            self._rest = self._rest[-(TAIL + LONGEST) :]
        if kept >= HEAD:
            return ""
        grew = fresh[: HEAD - kept]
        pure = kept == len(self.head)
        self.head = self.head[:kept] + grew
        return grew if pure else None

    def body(self) -> dict[str, Any]:
        """The fields of the item for the output behind its head: {"tail", "gap"}."""
        self.dirty = False
        tail = self._rest[-TAIL:]
        gap = self._size - HEAD - len(tail)
        return {"tail": tail or None, "gap": gap if gap > 0 else None}


class StreamView:
    """Collects what the next batch shows. `history` items, which the ledger knows, are left out."""

    def __init__(self) -> None:
        self.speech: Speech
        self.kinds: dict[int, str] = {}
        self.outputs: dict[int, Output] = {}
        self.calls: dict[str, int] = {}  # tool call id -> slot
        self.inputs: dict[int, dict[str, Any]] = {}  # slot -> what is known of a tool call
        self.taken: set[str] = set()  # tool calls that a tools/call was bound to
        self.turns: dict[str, int] = {}  # tool call id -> the turn that announced it (Law 10)
        self.turn = 0
        self.ending = False  # the turn's last answer is there: what ends now ends with it
        self.cut = False  # and the model was not done with it
        self.seen: set[str] = set()  # kinds of what this turn's agent told so far; "queued": prose that says only that
        self._grown: set[int] = set()  # slots whose tail or gap is to be shown anew
        self._redrawn: set[int] = set()  # slots whose head is to be shown anew: a line of it was written over
        self.pending: list[show.Op] = []

    def begin(self, speech: Speech, turn: int) -> None:
        """A turn begins. What earlier turns showed last keeps its slots: an agent may still tell of it, late."""
        self.speech = speech
        self.turn = turn
        self.ending = self.cut = False
        self.seen = set()
        self.kinds = dict([one for one in self.kinds.items() if one[1] != "message"][-LATE:])
        self.outputs = {slot: self.outputs[slot] for slot in self.kinds if slot in self.outputs}
        self.inputs = {slot: self.inputs[slot] for slot in self.kinds if slot in self.inputs}
        self.calls = {call: slot for call, slot in self.calls.items() if slot in self.kinds}
        self.turns = {call: turn for call, turn in self.turns.items() if call in self.calls}
        self.taken &= self.calls.keys()
        self._grown &= self.outputs.keys()
        self._redrawn &= self.outputs.keys()

    def take(self, ops: list[Op]) -> None:
        """Operations of the fold, in order."""
        for op in ops:
            if isinstance(op, Began):
                self._began(op)
            elif op.id not in self.kinds:
                continue
            elif isinstance(op, Grew):
                self._grew(op)
            elif isinstance(op, Changed):
                self._changed(op)
            else:
                self._ended(op)

    def batch(self) -> list[show.Op]:
        """What is to be shown now; the collection starts anew."""
        for slot in sorted(self._grown):
            output, redrawn = self.outputs[slot], slot in self._redrawn
            if output.dirty or redrawn:
                self.pending.append(show.ItemSet(slot, output.body(), text=output.head if redrawn else None))
        self._grown.clear()
        self._redrawn.clear()
        out, self.pending = _joined(self.pending), []
        return out

    @property
    def acted(self) -> bool:
        """Whether a tool call of this turn was told of."""
        return "tool" in self.seen

    def working(self) -> bool:
        """Whether a tool call runs: it may take as long as it takes."""
        return any(one.get("status") in ("pending", "running") for one in self.inputs.values())

    def known(self, tool_call: Mapping[str, Any]) -> dict[str, Any]:
        """What the stream told of the tool call that a permission request names."""
        slot = self.calls.get(str(tool_call.get("toolCallId")))
        return self.inputs.get(slot, {}) if slot is not None else {}

    def match(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """The id of the open tool call that this `tools/call` is: its name, equal input, each given once."""
        for call, slot in self.calls.items():
            known = self.inputs[slot]
            if call in self.taken or known.get("status") not in ("pending", "running"):
                continue
            if _names(known, name) and _input_is(known.get("input"), arguments):
                self.taken.add(call)
                return call
        return None

    def told(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether the stream told of such a call in this turn, at any time."""
        return any(_names(known, name) and _input_is(known.get("input"), arguments) for known in self.inputs.values())

    # ------------------------------------------------------------ per operation

    def _began(self, op: Began) -> None:
        fields = dict(op.fields)
        if fields.pop("history", False):
            return
        text = str(fields.pop("text", "") or "")
        if op.kind != "message" or fields.get("role") == "agent":
            self.seen.add("queued" if fields.get("queued") else op.kind)
        if op.kind == "message":
            if fields.get("role") == "agent":
                self.kinds[op.id] = "message"
                self.pending += self.speech.begin(op.id, text, one_message="message_id" in fields)
            return
        if op.kind in _ABOUT:
            self.kinds[op.id] = op.kind
            self._about(op.kind, fields)
            return
        if op.kind not in _ITEM_KINDS:
            return
        self.kinds[op.id] = op.kind
        self._open(op.id, op.kind, fields, text)

    def _about(self, kind: str, fields: dict[str, Any]) -> None:
        """What is told of the session as a whole has no place in the conversation."""
        if kind == "title":
            self.pending.append(show.Title(str(fields.get("title") or "")))
        else:
            self.pending.append(show.About(fields))

    def _open(self, slot: int, kind: str, fields: dict[str, Any], text: str) -> None:
        name = fields.pop("call", None)
        if kind == "tool":
            self.outputs[slot] = Output()
            self.inputs[slot] = dict(fields)
            if name is not None:
                self.taken.discard(str(name))  # of a call of an earlier turn, perhaps
                self.calls[str(name)] = slot
                self.turns[str(name)] = self.turn
            self._hold_back(slot)
        live = kind in ("tool", "thought", "plan")
        body = _body(kind, fields)
        self.pending.append(
            show.ItemOpen(slot, kind, name, "" if kind == "tool" else text, body, live, started=kind == "tool")
        )
        if kind == "tool" and text:
            self._output(slot, text)

    def _hold_back(self, slot: int) -> None:
        """A call of ours was announced: what it is about to say is not previewed as if it were something else (Law 5).

        The call comes by another pipe, and may come late, or once more, from a tool server that was started anew.
        """
        known = self.inputs[slot]
        if known.get("status") in ("pending", "running") and any(_names(known, tool) for tool in SPEAKING_TOOLS):
            text = _arguments(known.get("input")).get("text")
            self.speech.hold_back([text] if isinstance(text, str) else [])

    def _grew(self, op: Grew) -> None:
        match self.kinds[op.id]:
            case "message":
                self.pending += self.speech.grow(op.id, op.text)
            case "tool":
                self._output(op.id, op.text)
            case _:
                self.pending.append(show.ItemGrow(op.id, op.text))

    def _output(self, slot: int, text: str) -> None:
        head = self.outputs[slot].grow(text)
        self._grown.add(slot)
        if head is None:
            self._redrawn.add(slot)
        grew = "" if slot in self._redrawn else head or ""
        self.pending.append(show.ItemGrow(slot, grew, output=text))

    def _changed(self, op: Changed) -> None:
        kind, fields = self.kinds[op.id], dict(op.fields)
        text = fields.pop("text", None)
        if kind in _ABOUT:
            self._about(kind, fields)
            return
        if kind == "message":
            if text is not None:
                self.pending += self.speech.replace(op.id, text)
            if fields.get("superseded"):
                self.pending += self.speech.supersede(op.id)
            if content := fields.get("content"):
                self.pending += self.speech.attach(op.id, content[-1])
            return
        if kind == "tool":
            self.inputs[op.id].update(fields)
            self._hold_back(op.id)
            if text is not None:
                self._replace_output(op.id, text)
            text = None
        if fields or text is not None:
            self.pending.append(show.ItemSet(op.id, _body(kind, fields), text=text))

    def _replace_output(self, slot: int, text: str) -> None:
        output = self.outputs[slot] = Output()
        output.grow(text)
        self._redrawn.discard(slot)
        self.pending.append(show.ItemSet(slot, output.body(), text=output.head, output=text))

    def _ended(self, op: Ended) -> None:
        kind, fields = self.kinds[op.id], dict(op.fields)
        text = fields.pop("text", None)
        if kind in _ABOUT:
            return
        if kind == "message":
            if text is not None:
                self.pending += self.speech.replace(op.id, text)
            partial = bool(fields.get("partial"))
            cut = self.cut or bool(fields.get("broken"))
            self.pending += self.speech.end(op.id, partial=partial, last=self.ending, cut=cut)
            if missing := self.speech.missing.pop(op.id, None):
                self.pending += self._attached(missing, partial)
            return
        if kind == "tool":
            self.inputs[op.id].update(fields)
        self.pending.append(show.ItemSet(op.id, _body(kind, fields), live=False))

    def _attached(self, attached: Sequence[Mapping[str, Any]], partial: bool) -> list[show.Op]:
        """What could not be stored of what was handed over is told behind its block, in a chat, too. An attempt that
        broke off says nothing in a chat yet."""
        words = describe_attachments(attached)
        if partial:
            return [show.Notice(words, "attached", tell=True)]
        return [*self.speech.leave(), show.Notice(words, show.ATTACHED, tell=True)]


def _names(known: Mapping[str, Any], tool: str) -> bool:
    """`mcp__semel__send_message`, `semel_send_message`, {"tool": "send_message"}: an agent's name for our tool."""
    raw = known.get("input")
    told = [known.get("name"), known.get("title"), raw.get("tool") if isinstance(raw, dict) else None]
    return any(isinstance(one, str) and tool in one for one in told)


def _input_is(raw: Any, arguments: Mapping[str, Any]) -> bool:
    return raw == arguments or (isinstance(raw, dict) and raw.get("arguments") == arguments)


def _arguments(raw: Any) -> Mapping[str, Any]:
    """Some agents wrap a tool's arguments: {"server", "tool", "arguments"} (Codex)."""
    inner = raw.get("arguments", raw) if isinstance(raw, dict) else None
    return inner if isinstance(inner, dict) else {}


def _body(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    if kind == "tool":
        files = {"files": [file.row() for file in fields["files"]]} if fields.get("files") else {}
        return {k: v for k, v in fields.items() if k in _TOOL_FIELDS} | files
    if "content" in fields:
        found = [block["file"].row() for block in fields["content"] if isinstance(block.get("file"), AgentFile)]
        fields = {k: v for k, v in fields.items() if k != "content"} | ({"files": found} if found else {})
    return {k: v for k, v in fields.items() if k not in ("history", "message_id")}


def _joined(ops: list[show.Op]) -> list[show.Op]:
    """Consecutive growth of one slot becomes one row."""
    out: list[show.Op] = []
    run: list[show.Op] = []
    for op in ops:
        if run and not (type(op) is type(run[0]) and _grows(op) and op.slot == run[0].slot):  # type: ignore[union-attr]
            out.append(_sum(run))
            run = []
        run.append(op)
        if not _grows(op):
            out += run
            run = []
    return out + ([_sum(run)] if run else [])


def _grows(op: show.Op) -> bool:
    return isinstance(op, show.Preview | show.ItemGrow)


def _sum(run: list[show.Op]) -> show.Op:
    first = run[0]
    if len(run) == 1:
        return first
    if isinstance(first, show.Preview):
        return show.Preview(first.slot, "".join(op.text for op in run if isinstance(op, show.Preview)))
    assert isinstance(first, show.ItemGrow)
    grows = [op for op in run if isinstance(op, show.ItemGrow)]
    return show.ItemGrow(first.slot, "".join(g.text for g in grows), "".join(g.output for g in grows))
