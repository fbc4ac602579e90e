"""Tool calls: upserts by id, in whatever order they come.

The statuses done, failed and cancelled are final; output that comes later is kept and marked late. The output is one
text (`tool_output`), wherever the agent put it (`dialect`).

An id is unique within a turn only: the same id announced in a later turn is another call. A call without a result at
the end of its turn gets the status "no result"; a later result still counts. A permission request under an id of its
own belongs to the call with the same input (or title) in the same turn, whichever comes first.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from semel.acp_stream.attachment import AgentFile, files_of
from semel.acp_stream.dialect import (
    CONTENT,
    DIRECT,
    FINAL,
    NO_RESULT,
    STATUS,
    Snapshot,
    content_text,
    diffs,
    exit_code,
    is_wrapped,
    snapshots,
    terminal_text,
    unwrap,
)
from semel.acp_stream.ops import Began, Board, Changed, Ended, Grew, Item, Limits, Node, Op
from semel.acp_stream.profiles import Profile
from semel.acp_stream.tool_output import Change, Output, is_same_source


class Call(Node):
    """A tool call."""

    __slots__ = ("asked", "output", "started", "turn")

    def __init__(self, id: int, fields: dict[str, Any], limits: Limits) -> None:
        super().__init__(id, "tool", fields)
        self.output = Output(limits)
        self.started = False  # there is evidence that the call runs or ran
        self.asked = False  # the call is known from a permission request alone
        self.turn = 0

    def __repr__(self) -> str:
        return f"<tool {self.id} {self.fields.get('status')} {self.output!r}>"

    def item(self) -> Item:
        head, gap, tail = self.output.shown()
        fields = dict(self.fields)
        if gap:
            fields |= {"head": head, "gap": gap, "tail": tail}
            head = f"{head}\n[{gap} characters not shown]\n{tail}"
        fields["output"] = head
        return Item(self.id, self.kind, fields)


class Calls:
    """Folds `tool_call`, `tool_call_update` and the toolCall of permission requests."""

    def __init__(self, board: Board, profile: Profile, limits: Limits) -> None:
        self.board = board
        self.profile = profile
        self.limits = limits
        self.known: dict[str, Call] = {}
        self.unfinished: dict[str, Call] = {}
        self.plain = profile.terminal == "delta"
        self.turn = 0
        self._requests: list[Call] = []  # calls of this turn for which permission was asked

    def __repr__(self) -> str:
        return f"<Calls {len(self.known)} known, {len(self.unfinished)} unfinished>"

    def terminal(self, call: Call, text: str) -> list[Op]:
        """The hot path: one delta of a terminal's output."""
        output = call.output
        if output.seen == output.total and not call.ended:
            output.append(text)
            output.seen = output.total
            output.snapshot = ""
            output.rank = DIRECT
            return [Grew(call.id, text)]
        return self._delta(call, text)

    def content_chunk(self, cid: str, text: str) -> list[Op]:
        """ACP v2: one more piece of a call's content. It joins what the call's output is."""
        ops = self.update(cid, {})
        output = self.known[cid].output
        output.rank = max(output.rank, CONTENT)
        return ops + self._applied(self.known[cid], output.extend(text))

    def add_files(self, cid: str, files: list[AgentFile]) -> list[Op]:
        """ACP v2: one more piece of a call's content is a file."""
        ops = self.update(cid, {})
        call = self.known[cid]
        before = call.fields.get("files", [])
        fresh = [file for file in files if file not in before]
        if not fresh:
            return ops
        call.fields["files"] = [*before, *fresh]
        return [*ops, Changed(call.id, {"files": call.fields["files"]})]

    def begin_turn(self) -> None:
        """A turn begins: ids of calls may be used again."""
        self.turn += 1
        self._requests.clear()

    def find(self, cid: str, data: Mapping[str, Any], announces: bool) -> Call | None:
        """The call to which an update belongs; None if the call is new. `announces`: the update is a `tool_call`.

        A `tool_call_update` under the id of an earlier turn's ended call also begins a new call if it has a title or
        input and an open status.
        """
        call = self.known.get(cid)
        if call is None or not call.ended or call.turn == self.turn:
            return call
        describes = data.get("title") or data.get("rawInput")
        if announces or (describes and STATUS.get(str(data.get("status"))) in _OPEN):
            del self.known[cid]
            return None
        return call

    def update(self, cid: str, data: Mapping[str, Any], announces: bool = False, **marks: Any) -> list[Op]:
        """One tool_call (it `announces`) or tool_call_update. `marks` are fields for a call that is new (history)."""
        call = self.find(cid, data, announces) or self._take_over_request(cid, data)
        if call is not None:
            call.asked = False
        ops: list[Op] = []
        if call is None:
            call = self._announce(cid, data, marks)
            ops.append(Began(call.id, "tool", dict(call.fields)))
        status = STATUS.get(str(data.get("status")))
        was_final = call.fields["status"] in FINAL
        result = status in FINAL or was_final
        change = self._fields(call, data)
        ops += self._output(call, data, result)
        if status is not None and not was_final and _is_forward(call.fields["status"], status):
            call.fields["status"] = change["status"] = status
        call.started = call.started or call.fields["status"] != "pending" or call.output.total > 0
        if change:
            ops.append(Changed(call.id, change))
        if not was_final and call.fields["status"] in FINAL:
            ops += self._unwrapped(call)
            ops += self._end(call)
        return ops

    def permission(self, cid: str, tool_call: Mapping[str, Any]) -> list[Op]:
        """Fold the call in a permission request. It describes the call, but says nothing about its result."""
        known = self.find(cid, tool_call, announces=True)
        if known is None and not self.profile.permission_is_call:
            return []
        if known is None:
            open_ = (call for call in self.unfinished.values() if call.turn == self.turn and call not in self._requests)
            asked_for = self._find_alike(tool_call, open_)
            if asked_for is not None:
                self.known[cid] = asked_for
                self._requests.append(asked_for)
                return []
        told = {k: v for k, v in tool_call.items() if k in ("toolCallId", "title", "kind", "rawInput", "name", "_meta")}
        if known is not None:
            told = {k: v for k, v in told.items() if not known.fields.get(_FIELD.get(k, k))}
        ops = self.update(cid, told)
        self.known[cid].asked = known is None
        self._requests.append(self.known[cid])
        return ops

    def _take_over_request(self, cid: str, data: Mapping[str, Any]) -> Call | None:
        """A new call may be the one that a permission request under another id asked for."""
        call = self._find_alike(data, [call for call in self._requests if call.asked and not call.ended])
        if call is not None:
            self.known[cid] = call
        return call

    def _find_alike(self, data: Mapping[str, Any], calls: Iterable[Call]) -> Call | None:
        """The first of these calls that has the same input, or the same title of several words where one has none."""
        given, title = data.get("rawInput"), str(data.get("title") or "")
        for call in calls:
            known = call.fields.get("input")
            if known == given if known and given else " " in title and call.fields["title"] == title:
                return call
        return None

    def finish_all(self, status: str) -> list[Op]:
        """No result will come any more."""
        return [op for call in list(self.unfinished.values()) for op in self.finish(call, status)]

    def finish(self, call: Call, status: str) -> list[Op]:
        """One call will get no result."""
        call.fields["status"] = status
        return [Changed(call.id, {"status": status}), *self._end(call)]

    def let_go(self, keep: Container[int]) -> None:
        """Forget every call but these."""
        self.known = {cid: call for cid, call in self.known.items() if call.id in keep}

    def _end(self, call: Call) -> list[Op]:
        self.unfinished.pop(call.fields["call"], None)
        if call.ended:
            return []
        call.ended = True
        return [Ended(call.id, {})]

    def _announce(self, cid: str, data: Mapping[str, Any], marks: Mapping[str, Any]) -> Call:
        fields: dict[str, Any] = {"call": cid, "title": "", "status": "pending", **marks}
        call = Call(self.board.fresh(), fields, self.limits)
        call.turn = self.turn
        self._fields(call, data)
        self.board.add(call)
        self.known[cid] = self.unfinished[cid] = call
        return call

    def _fields(self, call: Call, data: Mapping[str, Any]) -> dict[str, Any]:
        change: dict[str, Any] = {}
        for key, name in _FIELD.items():
            value = data.get(key)
            if value is None:
                if key in data and self.profile.nulls_clear and name in call.fields:
                    change[name] = None
            elif (name == "input" or (isinstance(value, str) and value)) and not (name == "input" and value == {}):
                change[name] = value
        tool = _meta_tool_name(data.get("_meta"))
        if tool and "name" not in change and not call.fields.get("name"):
            change["name"] = tool
        rendered = isinstance(call.fields.get("input", ""), str)
        if self.profile.content_before_result == "arguments" and "input" not in change and rendered:
            arguments = content_text(data.get("content")) if STATUS.get(str(data.get("status"))) not in FINAL else ""
            if arguments:
                change["input"] = arguments
        if found := diffs(data.get("content")):
            change["diffs"] = found
        if files := files_of(data.get("content")):
            change["files"] = files
        code = exit_code(data)
        if code is not None:
            change["exit"] = code
        change = {k: v for k, v in change.items() if call.fields.get(k) != v or k not in call.fields}
        call.fields.update(change)
        for key in [key for key, value in change.items() if value is None]:
            del call.fields[key]
        call.fields.setdefault("title", "")
        return change

    # ---- output

    def _output(self, call: Call, data: Mapping[str, Any], result: bool) -> list[Op]:
        ops: list[Op] = []
        found = [self._prose(call, s, ops) for s in snapshots(data, self.profile, result)]
        delta = _delta_text(data.get("_meta"))
        if delta and self.profile.terminal == "snapshot":
            found.insert(0, terminal_text(delta, self.profile))
        elif delta and not self._told_twice(call, data, delta):
            ops += self._delta(call, delta)
        if found:
            richest = _choose_snapshot(found)
            own = [s for s in found if s is not richest and is_same_source(s.rank, call.output.rank)]
            for snapshot in (*own, richest):  # first what the source of the text that stands says now
                ops += self._applied(call, call.output.merge(*_merged(snapshot)))
        return ops

    def _told_twice(self, call: Call, data: Mapping[str, Any], delta: str) -> bool:
        """Whether this is a repeated final update of an ended call, with output that is already known."""
        final = call.ended and STATUS.get(str(data.get("status"))) in FINAL
        return final and call.output.end(len(delta)) == delta

    def _prose(self, call: Call, snapshot: Snapshot, ops: list[Op]) -> Snapshot:
        """A result rendered as prose says its output and exit code."""
        pattern = self.profile.result_prose
        found = pattern.match(snapshot.text) if pattern is not None else None
        if found is None:
            return snapshot
        code = int(found["exit"])
        if call.fields.get("exit") != code:
            call.fields["exit"] = code
            ops.append(Changed(call.id, {"exit": code}))
        text, missing = found["output"], snapshot.missing
        for note in self.profile.cut_notes:
            if cut := note.search(text):
                text, missing = text[: cut.start()], True
        return snapshot._replace(text=text, missing=missing)

    def _delta(self, call: Call, text: str) -> list[Op]:
        output = call.output
        if self.profile.terminal == "flips" and len(text) >= 16_384 and output.total >= 32_768:
            overlap = output.overlap(text)
            if overlap:
                text = text[overlap:]
                output.seen = output.total
        if text and output.is_contradicted_by(text):
            return self._applied(call, output.restart(text))
        output.rank = DIRECT
        return self._applied(call, output.delta(text) if text else None)

    def _applied(self, call: Call, change: Change | None) -> list[Op]:
        if change is None:
            return []
        ops: list[Op] = []
        if change.whole or change.text:
            ops.append(Changed(call.id, {"text": change.text}) if change.whole else Grew(call.id, change.text))
        if change.missing != bool(call.fields.get("truncated")) and (change.missing or change.whole):
            ops.append(self._mark(call, "truncated", True if change.missing else None))
        if change.text and call.fields["status"] in FINAL and not call.fields.get("late") and call.ended:
            ops.append(self._mark(call, "late", True))
        return ops

    def _mark(self, call: Call, name: str, value: bool | None) -> Changed:
        if value is None:
            call.fields.pop(name, None)
        else:
            call.fields[name] = value
        return Changed(call.id, {name: value})

    def _unwrapped(self, call: Call) -> list[Op]:
        """A wrapper that came in pieces is taken off the assembled text."""
        if self.profile.exact or not is_wrapped(call.output.start(64)):
            return []
        head, gap, _ = call.output.shown()
        if gap:
            return []
        text, missing = unwrap(head)
        if text == head:
            return []
        call.output.replace(text)
        call.output.seen = call.output.total
        return self._applied(call, Change(text, True, missing))


def _merged(snapshot: Snapshot) -> tuple[str, int, bool, bool, str]:
    return snapshot.text, snapshot.rank, snapshot.window, snapshot.missing, snapshot.mark


def _choose_snapshot(found: list[Snapshot]) -> Snapshot:
    """The best source whose output is complete; if all say that something is missing, the longest."""
    whole = [snapshot for snapshot in found if not snapshot.missing]
    return whole[0] if whole else max(found, key=lambda snapshot: len(snapshot.text))


_FIELD = {"title": "title", "kind": "tool_kind", "name": "name", "rawInput": "input"}
_OPEN = ("pending", "running")
_ORDER = {"pending": 0, "running": 1, NO_RESULT: 2, "done": 3, "failed": 3, "cancelled": 3}


def _is_forward(now: str, then: str) -> bool:
    """Status only goes forward."""
    return _ORDER[then] > _ORDER[now]


def _meta_tool_name(meta: object) -> str | None:
    claude = meta.get("claudeCode") if isinstance(meta, dict) else None
    name = claude.get("toolName") if isinstance(claude, dict) else None
    return name if isinstance(name, str) and name else None


def _delta_text(meta: object) -> str:
    """`_meta.terminal_output.data` or `_meta.terminal_output_delta.data`."""
    if not isinstance(meta, dict):
        return ""
    for key in ("terminal_output", "terminal_output_delta", "terminal-output"):
        part = meta.get(key)
        data = part.get("data") if isinstance(part, dict) else None
        if isinstance(data, str) and data:
            return data
    return ""
