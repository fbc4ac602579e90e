"""Compare the history that an agent replays when a session is loaded with the view and the record.

A message or call is *known* if it is in the view, or if the caller has added it from its record. Known messages and
calls are not shown again; unknown ones are shown once and marked as history. They are compared first by id (message id,
tool call id), then by *bare* text: the text without its white space, because agents trim. A known message accounts for
one copy in the replay: if the replay has it twice, the second copy is new. Times are never compared.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from semel.acp_stream.attachment import describe_attachment, is_attachment
from semel.acp_stream.block import TextBlock
from semel.acp_stream.notices import Notices
from semel.acp_stream.ops import Changed, Grew, GrowingItem, Op, ViewItems
from semel.acp_stream.output_fields import NO_RESULT, content_text
from semel.acp_stream.profiles import Profile
from semel.acp_stream.redelivery import are_failed_starts, without_white_space
from semel.acp_stream.tool_calls import ToolCall, ToolCalls
from semel.text.json_types import text_at

MIN_SHARED_CHARS = 12  # two versions of one text share at least this many characters, at the start or at the end
MAX_CANDIDATES = 32  # how many known texts, at most, are compared with one text of a replay
ROLES = {"agent_message_chunk": "agent", "user_message_chunk": "user", "agent_thought_chunk": "thought"}


class KnownText:
    """A known text, and how much of it this replay has repeated so far.

    `bare`: the text without white space. `repeated_size`: how many characters of `bare` were repeated, from its
    beginning.
    """

    __slots__ = ("bare", "index", "node", "repeated_size")

    def __init__(self, node: GrowingItem, index: int) -> None:
        self.node = node
        self.bare = without_white_space(str(node.fields.get("text", "")) if node.kind == "notice" else node.text())
        self.index = index  # among the texts of its role
        self.repeated_size = 0

    @property
    def is_cut_short(self) -> bool:
        """Whether the replay may have a longer version of the text than the view."""
        return bool(self.node.fields.get("partial")) or self.node.kind == "thought"


class Replay:
    """One replay, from its first update to its last. Methods return the operations by which the view changed.

    `before`: the texts and calls that the caller has added from its record (`Fold.add_known_text`,
    `Fold.add_known_call`). They are older than the fold, so they are not in `view_items`. `pieces`, `role`, `mid`: the
    chunks of the message that is being collected, its role and its message id.
    """

    def __init__(
        self,
        view_items: ViewItems,
        profile: Profile,
        calls: ToolCalls,
        notices: Notices,
        before: Iterable[GrowingItem] = (),
    ) -> None:
        self.view_items = view_items
        self.profile = profile
        self.calls = calls
        self.notices = notices
        self.pieces: list[str] = []
        self.role = ""
        self.mid: str | None = None
        self.known_texts: dict[str, list[KnownText]] = {"agent": [], "user": [], "thought": []}
        self.by_id: dict[tuple[str, str], KnownText | None] = {}  # None: this replay has added the message
        self.by_text: dict[tuple[str, str], deque[KnownText]] = {}
        self.by_start: dict[tuple[str, str], deque[KnownText]] = {}
        self.by_end: dict[tuple[str, str], list[KnownText]] = {}
        self.partly_repeated: deque[tuple[str, KnownText]] = deque(maxlen=MAX_CANDIDATES)  # (role, text)
        self.known_files: Counter[frozenset[tuple[str, Any]]] = (
            Counter()
        )  # how many copies of each known attachment were not repeated yet
        self.interrupted_message: tuple[str, str | None] | None = (
            None  # role and id of the message that an attachment interrupts
        )
        self.unrepeated_calls: dict[str, tuple[ToolCall, set[str]]] = {}  # known calls and their `_list_marks`, by id
        self.known_call_ids: set[str] = set()  # ids of replayed calls that repeat a known one
        self.previous_role = ""  # role of the previous message, or "tool"
        self.new_calls: set[str] = set()  # ids of calls that are new in this replay
        for node in [*before, *view_items.nodes]:
            self._learn(node)

    def __repr__(self) -> str:
        return f"<Replay knows { ({role: len(texts) for role, texts in self.known_texts.items()}) }>"

    def _learn(self, node: GrowingItem) -> None:
        fields = node.fields
        if isinstance(node, ToolCall):
            self.unrepeated_calls[fields["call"]] = (node, _list_marks(fields.get("title"), fields.get("input"), ""))
            return
        role = {"message": fields.get("role"), "thought": "thought", "notice": "agent"}.get(node.kind)
        if role not in self.known_texts:
            return
        if role == "agent":
            self.known_files.update(frozenset(file.items()) for file in fields.get("content", ()))
        known_text = KnownText(node, len(self.known_texts[role]))
        self.known_texts[role].append(known_text)
        self.by_text.setdefault((role, known_text.bare), deque()).append(known_text)
        self.by_start.setdefault((role, known_text.bare[:MIN_SHARED_CHARS]), deque()).append(known_text)
        self.by_end.setdefault((role, known_text.bare[-MIN_SHARED_CHARS:]), []).append(known_text)
        if isinstance(fields.get("message_id"), str):
            self.by_id[role, fields["message_id"]] = known_text

    # ---- updates

    def update(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        """Process one replayed update: a chunk of a message or thought, or a tool call.

        `kind`: its `sessionUpdate` field.
        """
        if kind in ROLES:
            return self._fold_chunk(ROLES[kind], data)
        ops = self.flush()
        self.previous_role = "tool"
        cid = data.get("toolCallId")
        if not isinstance(cid, str):
            return ops
        if cid in self.new_calls:
            return ops + self.calls.update(cid, data, kind == "tool_call", history=True)
        if cid in self.known_call_ids or self._is_known_call(cid, data):
            return ops
        self.new_calls.add(cid)
        return ops + self.calls.update(cid, data, history=True)

    def end(self) -> list[Op]:
        """End the replay: fold its last message, and finish its tool calls."""
        return self.flush() + self._end_turn()

    def _end_turn(self) -> list[Op]:
        """End a turn of the history: give its unfinished calls the status "no result".

        A later turn of the history may use the ids of these calls again.
        """
        ops: list[Op] = []
        for cid in self.new_calls:
            call = self.calls.unfinished.get(cid)
            if call is not None:
                ops += self.calls.finish(call, NO_RESULT)
        self.calls.begin_turn()
        return ops

    # ---- text

    def _fold_chunk(self, role: str, data: Mapping[str, Any]) -> list[Op]:
        content, mid = data.get("content"), text_at(data, "messageId")
        if role == "agent" and is_attachment(content):
            return self._fold_attachment(mid, describe_attachment(content or {}))
        ops = self.flush() if role != self.role or mid != self.mid else []
        if role == "user" and self.previous_role != "user":
            ops += self._end_turn()
        self.role, self.mid = role, mid
        if text := text_at(content, "text"):
            self.pieces.append(text)
        return ops

    def _fold_attachment(self, mid: str | None, description: dict[str, Any]) -> list[Op]:
        """Show an attachment as a message of its own, between the texts before and after it, unless it is known.

        `mid`: the id of its message. `description`: the result of `describe_attachment`.
        """
        interrupted = (self.role, self.mid)
        ops = self.flush()
        self.interrupted_message = interrupted if interrupted[0] == "agent" and mid is None else ("agent", mid)
        self.previous_role = "agent"
        key = frozenset(description.items())
        if self.known_files[key]:
            self.known_files[key] -= 1
            return ops
        block = TextBlock("message", {"role": "agent", "history": True}, mid)
        began = self.view_items.add(block)
        block.fields["content"] = [description]
        return [*ops, began, Changed(block.id, {"content": [description]}), block.end()]

    def flush(self) -> list[Op]:
        """Process the text collected so far as a message, because it is complete.

        A text that came in several chunks without a message id is compared with the known texts as a whole. If it
        repeats none of them, its chunks are compared one by one, because each may be a message of its own.
        """
        pieces, role, mid = self.pieces, self.role, self.mid
        self.pieces, self.role, self.mid = [], "", None
        text = "".join(pieces)
        if len(pieces) < 2 or mid is not None:
            return self._fold_message(role, mid, text)
        if self._consume(role, without_white_space(text)):
            return []
        ops: list[Op] = []
        unknown: list[str] = []
        for piece in pieces:
            if not self._consume(role, without_white_space(piece)):
                unknown.append(piece)
            elif unknown:
                ops += self._fold_message(role, mid, "".join(unknown))
                unknown = []
        return ops + self._fold_message(role, mid, "".join(unknown))

    def _fold_message(self, role: str, mid: str | None, text: str) -> list[Op]:
        """Add one complete message to the view, or ignore it if it is known.

        If it begins with a known text that was cut short, it replaces that text instead.
        """
        bare_text = without_white_space(text)
        if not text:
            return []
        is_first, self.previous_role = self.previous_role == "user", role
        if (
            mid is not None
            and (role, mid) in self.by_id
            and (self.by_id[role, mid] is not None or self.interrupted_message != (role, mid))
        ):
            self._consume(role, bare_text)
            known_text = self.by_id[role, mid]
            is_continued = known_text is not None and known_text.is_cut_short and bare_text.startswith(known_text.bare)
            return _complete(known_text.node, text) if known_text is not None and is_continued else []
        if not bare_text or self._consume(role, bare_text):
            return []
        for known_text in self._find_unrepeated(role, bare_text):
            if (
                known_text.is_cut_short
                and len(known_text.bare) >= MIN_SHARED_CHARS
                and bare_text.startswith(known_text.bare)
            ):
                known_text.repeated_size = len(known_text.bare)
                return _complete(known_text.node, text)
        return self._add_message(role, mid, text, is_first)

    def _find_unrepeated(self, role: str, bare_text: str) -> list[KnownText]:
        """Return the known texts with the same first MIN_SHARED_CHARS characters as `bare_text`, oldest first.

        Texts that this replay has repeated, completely or in part, are left out. At most MAX_CANDIDATES texts are
        considered, starting with the oldest one that was not repeated.
        """
        alike = self.by_start.get((role, bare_text[:MIN_SHARED_CHARS]), deque())
        while alike and alike[0].repeated_size:
            alike.popleft()
        return [known_text for known_text in islice(alike, MAX_CANDIDATES) if not known_text.repeated_size]

    def _consume(self, role: str, bare_text: str) -> bool:
        """Mark as repeated the known texts that `bare_text` repeats. Return False if it repeats none.

        `bare_text` may be a whole known text, the beginning or next part of one, or several in a row. It may also
        differ from a known text only by failed starts (`_consume_with_failed_starts`).
        """
        same = self.by_text.get((role, bare_text), deque())
        while same:
            known_text = same.popleft()
            if not known_text.repeated_size:
                known_text.repeated_size = len(bare_text)
                return True
        candidates = self._find_unrepeated(role, bare_text)
        for known_role, known_text in self.partly_repeated:
            if known_role == role and known_text.bare.startswith(bare_text, known_text.repeated_size):
                known_text.repeated_size += len(bare_text)
                return True
        for known_text in candidates:
            if known_text.bare.startswith(bare_text) and len(bare_text) >= MIN_SHARED_CHARS:
                known_text.repeated_size = len(bare_text)
                self.partly_repeated.append((role, known_text))
                return True
        return any(
            self._consume_several(role, known_text, bare_text) for known_text in candidates
        ) or self._consume_with_failed_starts(role, bare_text)

    def _consume_several(self, role: str, first_text: KnownText, bare_text: str) -> bool:
        texts, offset, index = self.known_texts[role], 0, first_text.index
        while offset < len(bare_text) and index < len(texts) and bare_text.startswith(texts[index].bare, offset):
            offset += len(texts[index].bare)
            index += 1
        if offset < len(bare_text):
            return False
        for known_text in texts[first_text.index : index]:
            known_text.repeated_size = len(known_text.bare)
        return True

    def _consume_with_failed_starts(self, role: str, bare_text: str) -> bool:
        """Mark as repeated a known text that differs from `bare_text` only in failed starts before the answer.

        Return False if there is no such text. An agent that retries without saying so may stream the failed starts
        and the answer as one text, or store them so in its history. So either of the two texts may contain the
        failed starts: the longer one must end with the shorter one, the answer, and begin only with beginnings of it
        (`are_failed_starts`).
        """
        alike = self.by_end.get((role, bare_text[-MIN_SHARED_CHARS:]), []) if self.profile.retry == "whole" else []
        for known_text in alike[-MAX_CANDIDATES:]:
            longer, answer = sorted((bare_text, known_text.bare), key=len, reverse=True)
            if known_text.repeated_size or len(answer) < MIN_SHARED_CHARS or not longer.endswith(answer):
                continue
            if are_failed_starts(longer[: -len(answer)], answer):
                known_text.repeated_size = len(known_text.bare)
                return True
        return False

    def _add_message(self, role: str, mid: str | None, text: str, is_first: bool) -> list[Op]:
        if role == "user" and any(pattern.match(text) for pattern in self.profile.synthetic_user):
            return self.notices.add(text, history=True)
        if role == "agent" and self.notices.classify(text, mid, {}, is_first) is not None:
            return self.notices.add(text, history=True)
        kind = "thought" if role == "thought" else "message"
        fields: dict[str, Any] = {"history": True} if kind == "thought" else {"role": role, "history": True}
        if mid is not None:
            fields["message_id"] = mid
            self.by_id[role, mid] = None
        block = TextBlock(kind, fields, mid)
        block.append(text)
        return [self.view_items.add(block), Grew(block.id, text), block.end()]

    # ---- tool calls

    def _is_known_call(self, cid: str, data: Mapping[str, Any]) -> bool:
        """Return whether a replayed call repeats a known call, which may have another id than `cid`.

        Each known call accounts for one replayed call. A second such call, under yet another id, is new.
        """
        name = cid if cid in self.unrepeated_calls else self._same_call(data)
        self.unrepeated_calls.pop(name, None)
        if name or cid in self.calls.by_id:
            self.known_call_ids.add(cid)
            return True
        return False

    def _same_call(self, data: Mapping[str, Any]) -> str:
        """Return the id of the first known call that shares one of this call's `_list_marks`; "" if there is none.

        Calls that this replay has repeated already are not considered.
        """
        marks = _list_marks(data.get("title"), data.get("rawInput"), content_text(data.get("content")))
        return next((name for name, (_, known_marks) in self.unrepeated_calls.items() if marks & known_marks), "")


def _list_marks(title: object, tool_input: object, content: str) -> set[str]:
    """Return strings made from a call's input and title, by which the call is recognised under another id.

    Two calls count as the same if they share such a string. A title of one word is left out if the call has an input.
    `content`: the call's content as text, because some agents state the input there.
    """
    marks: set[str] = set()
    if tool_input:
        marks.add(
            "input:"
            + (tool_input if isinstance(tool_input, str) else json.dumps(tool_input, sort_keys=True, default=str))
        )
    if content:
        marks.add("input:" + content)
    if isinstance(title, str) and (" " in title or not tool_input):
        marks.add("title:" + title)
    return marks


def _complete(node: GrowingItem, text: str) -> list[Op]:
    """Replace the text of `node`, which was cut short, by its longer version `text`.

    A text that the caller has added from its record has no id, and is not changed here: the caller completes it.
    """
    shown_text = node.text()
    if not node.id or not shown_text or shown_text == text or not text.startswith(shown_text):
        return []
    node.pieces = [text]
    fields: dict[str, Any] = {"text": text}
    if node.fields.pop("partial", None):
        fields["partial"] = None
    return [Changed(node.id, fields)]
