"""Write the rows of a session's view as ACP v1 `session/update` messages for one editor: pure code, without I/O.

A row is an entry or an item as the API returns it. Each call compares a row with what the editor has of it, and returns
the lines for the difference. So the same row may come any number of times, for instance in a snapshot after the gateway
was restarted (Law 8).

A text that grows is sent in pieces that add up to it. ACP v1 cannot take a text back. A text that replaces another one
(`supersedes`) is withheld while it equals the beginning of what the editor has. If it goes on from there, only the rest
is sent, under the same message id. Otherwise it is sent whole, as a message of its own, after a line that says so.
An agent may begin a message again within a turn, or in another attempt at the turn. That it replaces the one before
may be known only once it is as long as the earlier one. So a text is withheld as long as it equals the beginning of
such a message: the one before it in its turn, or one of the turn before, if that has not ended (its own turn may be
another attempt at that).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from semel.acp_stream import Began, Changed, Grew
from semel.acp_stream.output_fields import NO_RESULT
from semel.acp_stream.profiles import CAREFUL
from semel.acp_stream.tool_output import format_gap
from semel.faces.acp.editor_profiles import EditorProfile
from semel.faces.acp.updates.call_writer import TOOL_KINDS, WIRE_STATUS, CallWriter
from semel.faces.acp.updates.line_writer import (
    AGENT,
    BEGAN_AGAIN_REMARK,
    THOUGHT,
    USER,
    LineWriter,
    ShownText,
    quote_text,
)
from semel.faces.acp.updates.terminal_text import TerminalText
from semel.faces.transcript import describe_references, format_file, format_spoken_words
from semel.text.json_types import Json

PLAN_STATES = ("pending", "in_progress", "completed")
PLAN_PRIORITIES = ("high", "medium", "low")
CALL_FIELDS = ("title", "tool_kind", "input", "status", "name")  # of a tool call, as `CallWriter` reads them


class RowText(ShownText):
    """The text of a row, as far as the editor has it.

    `name`: the row that has this text now; a row that replaces another one may take over its text. `restarts`: how many
    times the text was begun again, each time under another message id.
    """

    __slots__ = ("name", "restarts", "text")

    def __init__(self, name: str, chunk: str) -> None:
        super().__init__(chunk, name)
        self.name = name
        self.text = ""
        self.restarts = 0

    def begin_message(self, message_id: str) -> None:
        super().begin_message(message_id)
        self.text = ""


class RowWriter:
    """Writes one session's rows for one editor. `session`: its ACP session id, which is its key.

    Times are monotonic, in seconds.
    """

    def __init__(self, session: str, editor_profile: EditorProfile) -> None:
        self.session = session
        self._editor_profile = editor_profile
        self._lines = LineWriter(session, editor_profile)
        self._texts: dict[str, RowText] = {}
        self._text_before_drawn: ShownText | None = None  # what the editor was sent before `write_drawn_message`
        self._agent_texts: dict[int | None, list[RowText]] = {}  # the agent's texts by turn, of the last two open turns
        self._items: dict[int, Json] = {}  # the tool calls that the editor has
        self._call_ids: dict[int, str] = {}  # the id by which the editor knows a call, by item
        self._ids_of_agent: dict[str, str] = {}  # the same, by the agent's own id
        self._taken_call_ids: set[str] = set()
        self._calls = CallWriter(editor_profile, CAREFUL, set())
        self._terminals: dict[int, TerminalText] = {}  # the calls whose output the editor shows in a terminal, by item
        self._latest: dict[str, Any] = {}  # plan and usage that the editor has, by kind
        self._revs: dict[tuple[str, int], int] = {}  # the rev of each row that the editor has, or need not have

    def __repr__(self) -> str:
        return f"<RowWriter {self.session}: {len(self._texts)} texts, {len(self._items)} calls>"

    # ---- rows

    def write_row(self, row: Json, now: float, is_history: bool = False) -> list[bytes]:
        """Return the lines with what is new in a row. `is_history`: the row is part of what `session/load` replays."""
        if row.get("gone") or self.has_row(row):
            return []
        self._revs[name_row(row)] = row["rev"]
        self._lines.shows_only_messages = is_history and self._editor_profile.loads_only_messages
        if "seq" in row:
            return self._write_entry(row, is_history)
        match row["kind"]:
            case "tool":
                return self._write_call(row, now, is_history)
            case "thought" if not row.get("superseded") and not row.get("repeated"):
                return self._write_text(f"i{row['id']}", THOUGHT, row["text"])
            case "plan":
                return self._write_once("plan", {"entries": [_plan_entry(step) for step in row.get("entries", ())]})
            case "usage" if isinstance(row.get("used"), int) and isinstance(row.get("size"), int):
                cost = {"cost": row["cost"]} if isinstance(row.get("cost"), dict) else {}
                return self._write_once("usage_update", {"used": row["used"], "size": row["size"], **cost})
            case "notice" if row["text"] and not row.get("queued"):
                return self._write_notice(f"i{row['id']}", row["text"], is_history)
        return []

    def skip_row(self, row: Json) -> None:
        """Note that the editor has a row as it is now, or need not have it."""
        if row.get("gone"):
            return
        self._revs[name_row(row)] = row["rev"]
        if "seq" in row:
            self._get_text(f"e{row['seq']}", AGENT).text = self._body_of(row)
        elif row["kind"] in ("thought", "notice"):
            self._get_text(f"i{row['id']}", AGENT).text = row["text"]

    def forget_row(self, row: Json) -> None:
        """Note that the editor does not have an entry after all."""
        name = f"e{row['seq']}"
        self._texts.pop(name, None)
        drawn = self._texts.pop(f"{name}.drawn", None)
        if drawn is not None and self._lines.last_text is drawn:
            self._lines.last_text = self._text_before_drawn
        self._revs.pop(name_row(row), None)

    def has_row(self, row: Json) -> bool:
        """Return whether the editor has the row as it is now."""
        return bool(self._revs.get(name_row(row)) == row["rev"])

    def has_begun(self, row: Json) -> bool:
        """Return whether the editor has a row, or need not have it, as it is now or as it was before."""
        if "seq" in row:
            return f"e{row['seq']}" in self._texts
        return row["id"] in self._items or f"i{row['id']}" in self._texts

    def note_end(self, turn: int) -> None:
        """Note that a turn has ended: no later turn is another attempt at it."""
        for ended in [known for known in self._agent_texts if known is not None and known <= turn]:
            del self._agent_texts[ended]

    def distrust_revs(self) -> None:
        """Compare rows by their content from now on: the ledger was replaced by an older one, which counts anew."""
        self._revs.clear()

    def write_drawn_message(self, row: Json) -> list[bytes]:
        """Return the lines with a person's message for the turn that `session/push` announces: it shows user text.

        They have an id of their own, as a quotation follows if the editor refuses the turn (`forget_row`).
        """
        self.skip_row(row)
        name = f"e{row['seq']}"
        self._text_before_drawn = self._lines.last_text
        return self._write_text(f"{name}.drawn", USER, self._body_of(row)) + self._write_files(name, row)

    def format_update(self, kind: str, /, **fields: Any) -> bytes:
        """Return the line with a `session/update`."""
        return self._lines.format_update({"sessionUpdate": kind, **fields})

    def write_remark(self, name: str, text: str, is_history: bool = False) -> list[bytes]:
        """Return the lines with a sentence of ours. `name`: its message id, which is used for nothing else."""
        return self._write_notice(name, text, is_history)

    def _write_entry(self, row: Json, is_history: bool) -> list[bytes]:
        name, role = f"e{row['seq']}", row["role"]
        if row.get("superseded"):
            return []
        if role == "agent":
            lines = self._write_agent_text(name, row)
            return lines if row.get("live") else lines + self._write_files(name, row)
        if role == "notice":
            return self._write_notice(name, row["text"], is_history)
        return self._write_said(name, row, is_history) + self._write_files(name, row)

    def _write_said(self, name: str, row: Json, is_history: bool) -> list[bytes]:
        """Write what a person said, or what a machine reported, as the editor can show it."""
        if name in self._texts:
            return []
        body = self._body_of(row)
        if row["role"] == "user" and (is_history or not self._editor_profile.drops_user_text):
            return self._write_text(name, USER, body)
        who = str(row.get("sender") or row.get("kind") or row["role"])
        shown = self._get_text(name, AGENT)
        lines = self._append(shown, quote_text(f"**{who}:** {body}"))
        shown.text = body
        return lines

    def _body_of(self, row: Json) -> str:
        references = [] if row["role"] == "agent" else describe_references(row)
        return "\n".join([*references, row["text"] or row.get("emoji") or ""])

    def _write_files(self, name: str, row: Json) -> list[bytes]:
        if not row.get("files"):
            return []
        files = "\n".join(f"`{format_file(file)}`" for file in row["files"])
        lines = self._write_text(f"{name}.files", AGENT, files) if f"{name}.files" not in self._texts else []
        if (words := format_spoken_words(row)) and f"{name}.words" not in self._texts:
            lines += self._write_text(f"{name}.words", AGENT, quote_text(words))
        return lines

    # ---- texts

    def _get_text(self, name: str, chunk: str) -> RowText:
        shown = self._texts.get(name)
        if shown is None:
            shown = self._texts[name] = RowText(name, chunk)
        return shown

    def _write_agent_text(self, name: str, row: Json) -> list[bytes]:
        lines: list[bytes] = []
        text, is_live = row["text"], row.get("live")
        if name not in self._texts:
            before = self._find_superseded(row.get("supersedes", ()))
            if before is None and is_live and self._repeats_known_text(row):
                return []
            if before is not None and text.startswith(before.text):
                before.name = name
                self._texts[name] = before
            elif before is not None and is_live and before.text.startswith(text):
                return []  # so far, it repeats what the editor has
            elif before is not None:
                lines = self._write_notice(f"{name}.again", BEGAN_AGAIN_REMARK, False)
        lines += self._write_text(name, AGENT, text)
        self._note_agent_text(row.get("turn"), self._texts[name])
        return lines

    def _note_agent_text(self, turn: int | None, text: RowText) -> None:
        if turn not in self._agent_texts and len(self._agent_texts) > 1:
            del self._agent_texts[next(iter(self._agent_texts))]
        texts = self._agent_texts.setdefault(turn, [])
        if text not in texts[-1:]:
            texts.append(text)

    def _repeats_known_text(self, row: Json) -> bool:
        """Return whether all of an agent's text so far is the beginning of a text that it may turn out to replace: the
        one before it in the same turn, or one of the turn before, if that has not ended.
        """
        texts = {**self._agent_texts}
        known = texts.pop(row.get("turn"), [])[-1:] + (list(texts.values())[-1] if texts else [])
        return any(text.text.startswith(row["text"]) for text in known)

    def _find_superseded(self, seqs: Iterable[int]) -> RowText | None:
        """Return the last text of these entries that the editor has and that no other entry has replaced."""
        texts = [self._texts[name] for seq in seqs if (name := f"e{seq}") in self._texts]
        return next((text for text in reversed(texts) if text.text and text.name in {f"e{seq}" for seq in seqs}), None)

    def _write_text(self, name: str, chunk: str, text: str) -> list[bytes]:
        shown = self._get_text(name, chunk)
        if text == shown.text:
            return []
        if not text.startswith(shown.text):
            shown.restarts += 1
            shown.begin_message(f"{name}.{shown.restarts}")
        return self._append(shown, text[len(shown.text) :])

    def _append(self, shown: RowText, text: str) -> list[bytes]:
        if not text:
            return []
        shown.text += text
        return self._lines.write_text(shown, text)

    def _write_notice(self, name: str, text: str, is_history: bool) -> list[bytes]:
        line = self._lines.format_notice(text, is_history) if text else None
        if line is None:
            return self._write_text(name, AGENT, text)
        shown = self._get_text(name, AGENT)
        if shown.text == text:
            return []
        shown.text = text
        return [line]

    def _write_once(self, kind: str, fields: Json) -> list[bytes]:
        if self._latest.get(kind) == fields:
            return []
        self._latest[kind] = fields
        return [self.format_update(kind, **fields)]

    # ---- tool calls

    @property
    def due_at(self) -> float | None:
        """When output of a tool call is next due (`flush`); None if none waits."""
        return self._calls.due_at

    def flush(self, now: float) -> list[bytes]:
        """Return the lines with output that is due at `now`; all of it if `now` is infinite."""
        return [self._format_call(update) for update in self._calls.pop_due_updates(now)]

    def end_turn(self) -> list[bytes]:
        """Return the lines with all output that waits, because a turn has ended."""
        return self.flush(inf)

    def _format_call(self, update: Mapping[str, Any]) -> bytes:
        if update["sessionUpdate"] == "tool_call":  # an update changes the call where it is, above what follows it
            self._lines.note_other()
        return self._lines.format_update(update)

    def _write_call(self, item: Json, now: float, is_history: bool) -> list[bytes]:
        before = self._items.get(item["id"])
        if before is None and self._opens_terminal(item, is_history):
            self._terminals[item["id"]] = TerminalText()
        self._items[item["id"]] = item
        terminal = self._terminals.get(item["id"])
        lines = [] if terminal is None or before is None else self._write_terminal(item, terminal)
        source = self._note_call(before, item, has_terminal=terminal is not None)
        lines += [self._format_call(update) for update in self._calls.pop_updates(source, now)]
        return lines + self._write_terminal(item, terminal) if terminal is not None and before is None else lines

    def _note_call(self, before: Json | None, item: Json, *, has_terminal: bool) -> Json | None:
        """Note what has changed in a call. Return an update with what `CallWriter` does not know of it, or None.

        The output of a call with a terminal is left out.
        """
        fields, call_id = _read_call(item), self.assign_call_id(item)
        source = {"toolCallId": call_id, **_describe_call(item)}
        if has_terminal:
            source["content"] = [*source.get("content", ()), {"type": "terminal", "terminalId": call_id}]
        if before is None:
            self._calls.apply_op(Began(item["id"], "tool", {**fields, "call": call_id}))
            if has_terminal:
                source["_meta"] = {"terminal_info": {"terminal_id": call_id}}
            elif output := _read_output(item):
                self._calls.apply_op(Grew(item["id"], output))
            return {"sessionUpdate": "tool_call", **source}
        output, was = _read_output(item), _read_output(before)
        if output != was and not has_terminal:
            op = Grew(item["id"], output[len(was) :]) if output.startswith(was) else None
            self._calls.apply_op(op or Changed(item["id"], {"text": output}))
        if changed := {key: value for key, value in fields.items() if _read_call(before).get(key) != value}:
            self._calls.apply_op(Changed(item["id"], changed))
        if any(item.get(key) != before.get(key) for key in ("diffs", "locations")):
            return {"sessionUpdate": "tool_call_update", **source}
        return None

    # ---- terminals

    def _opens_terminal(self, item: Json, is_history: bool) -> bool:
        """Whether the editor shows the call's output in a terminal, as it does for an agent that it runs itself."""
        return self._editor_profile.takes_terminal_deltas and not is_history and item.get("tool_kind") == "execute"

    def _write_terminal(self, item: Json, terminal: TerminalText) -> list[bytes]:
        """Return the line with the call's new output. It is a `tool_call_update`: Zed reads no output elsewhere."""
        call = {"terminal_id": self.assign_call_id(item)}
        text = terminal.write(item["text"], item.get("gap") or 0, item.get("tail") or "")
        meta: Json = {"terminal_output": {**call, "data": text}} if text else {}
        if _is_final(item) and not terminal.has_ended:
            terminal.has_ended = True
            meta["terminal_exit"] = call if item.get("exit") is None else {**call, "exit_code": item["exit"]}
        update = {"sessionUpdate": "tool_call_update", "toolCallId": call["terminal_id"], "_meta": meta}
        return [self._format_call(update)] if meta else []

    def assign_call_id(self, item: Json) -> str:
        """Return the id by which the editor knows a tool call: the agent's own, unless there is none or it is taken."""
        if item["id"] not in self._call_ids:
            call_id = str(item.get("call") or f"semel-call-{item['id']}")
            if call_id in self._taken_call_ids:
                call_id = f"{call_id}-{item['id']}"
            self._taken_call_ids.add(call_id)
            self._call_ids[item["id"]] = call_id
            if item.get("call") is not None:
                self._ids_of_agent[item["call"]] = call_id
        return self._call_ids[item["id"]]

    def find_call_id(self, id_of_agent: str | None) -> str | None:
        """Return the id by which the editor knows the call with this id of the agent; None if it has none."""
        return None if id_of_agent is None else self._ids_of_agent.get(id_of_agent)


def name_row(row: Json) -> tuple[str, int]:
    """Return what tells a row from all others of its session."""
    return ("seq", row["seq"]) if "seq" in row else ("id", row["id"])


def describe_permission(item: Json, call_id: str) -> Json:
    """Return a permission request's tool call (ACP `ToolCallUpdate`), under the id `call_id`."""
    details = {key: value for key, value in _describe_call(item).items() if key != "status"}
    return {"toolCallId": call_id, "status": "pending", **details}


def _read_call(item: Json) -> Json:
    fields = {key: item[key] for key in CALL_FIELDS if key in item}
    if fields.get("status") == NO_RESULT or item.get("lost"):
        fields["status"] = "failed"
    return fields


def _is_final(item: Json) -> bool:
    return WIRE_STATUS.get(str(_read_call(item).get("status"))) in ("completed", "failed")


def _read_output(item: Json) -> str:
    text, gap = str(item["text"]), item.get("gap")
    return text + format_gap(gap) + str(item.get("tail", "")) if gap else text


def _describe_call(item: Json) -> Json:
    """Return the fields of an ACP tool call that an item states, without its output."""
    status = WIRE_STATUS.get(str(_read_call(item).get("status")))
    diffs = [_diff_content(diff) for diff in item.get("diffs", ())]
    fields: Json = {
        "title": item.get("title") or item.get("name") or "tool",
        "kind": item["tool_kind"] if item.get("tool_kind") in TOOL_KINDS else None,
        "status": status,
        "rawInput": item.get("input"),
        "locations": item.get("locations"),
        "content": diffs or None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _diff_content(diff: Json) -> Json:
    if diff.get("left_out"):
        text = f"{diff['path']}: a change of {diff['left_out']} characters"
        return {"type": "content", "content": {"type": "text", "text": text}}
    old = {"oldText": diff["oldText"]} if diff.get("oldText") is not None else {}
    return {"type": "diff", "path": diff["path"], **old, "newText": diff.get("newText") or ""}


def _plan_entry(step: Json) -> Json:
    status, priority = step.get("status"), step.get("priority")
    return {
        "content": step["content"],
        "status": status if status in PLAN_STATES else "pending",
        "priority": priority if priority in PLAN_PRIORITIES else "medium",
    }
