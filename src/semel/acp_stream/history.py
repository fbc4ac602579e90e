"""Replay: compare the history that an agent sends when a session is loaded with what the fold already knows.

Known messages and calls are not shown again; unknown ones are shown once and marked as history. They are compared by id
first (message id, tool call id), then by text without white space (agents trim), copy by copy: if a replay has two
equal messages and one is known, the other is new. Time is never evidence.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from semel.acp_stream.attachment import attachment, is_attachment
from semel.acp_stream.block import Block
from semel.acp_stream.dialect import NO_RESULT, content_text
from semel.acp_stream.notices import Notices
from semel.acp_stream.ops import Began, Board, Changed, Ended, Grew, Node, Op
from semel.acp_stream.profiles import Profile
from semel.acp_stream.redelivery import are_attempts, bare
from semel.acp_stream.tool_calls import Call, Calls

KEY = 12  # two versions of one text share at least this many characters at the start or end
MAX_CANDIDATES = 32  # maximum number of known texts that are compared with one text of a replay
ROLES = {"agent_message_chunk": "agent", "user_message_chunk": "user", "agent_thought_chunk": "thought"}


class KnownText:
    """One known text, and how many characters of it this replay has repeated."""

    __slots__ = ("bare", "node", "place", "told")

    def __init__(self, node: Node, place: int) -> None:
        self.node = node
        self.bare = bare(str(node.fields.get("text", "")) if node.kind == "notice" else node.text())
        self.place = place  # among the texts of its role
        self.told = 0

    @property
    def cut_short(self) -> bool:
        """Whether the agent's history may have more of the text than was shown."""
        return bool(self.node.fields.get("partial")) or self.node.kind == "thought"


class Replay:
    """One replay, from its first update to its last."""

    def __init__(
        self, board: Board, profile: Profile, calls: Calls, notices: Notices, before: Iterable[Node] = ()
    ) -> None:
        self.board = board
        self.profile = profile
        self.calls = calls
        self.notices = notices
        self.pieces: list[str] = []
        self.role = ""
        self.mid: str | None = None
        self.texts: dict[str, list[KnownText]] = {"agent": [], "user": [], "thought": []}
        self.ids: dict[tuple[str, str], KnownText | None] = {}
        self.same: dict[tuple[str, str], deque[KnownText]] = {}
        self.starts: dict[tuple[str, str], deque[KnownText]] = {}
        self.ends: dict[tuple[str, str], list[KnownText]] = {}
        self.partly: deque[tuple[str, KnownText]] = deque(maxlen=MAX_CANDIDATES)  # repeated in part
        self.files: Counter[frozenset[tuple[str, Any]]] = Counter()  # known attachments that were not repeated yet
        self.split: tuple[str, str | None] | None = None  # role and id of the message that an attachment interrupts
        self.calls_left: dict[str, tuple[Call, set[str]]] = {}
        self.alias: set[str] = set()
        self.previous = ""  # role of the message before, or "tool"
        self.fresh: set[str] = set()  # ids of calls that are new in this replay
        for node in [*before, *board.nodes]:
            self._learn(node)

    def __repr__(self) -> str:
        return f"<Replay knows { ({role: len(known) for role, known in self.texts.items()}) }>"

    def _learn(self, node: Node) -> None:
        fields = node.fields
        if isinstance(node, Call):
            self.calls_left[fields["call"]] = (node, _marks(fields.get("title"), fields.get("input"), ""))
            return
        role = {"message": fields.get("role"), "thought": "thought", "notice": "agent"}.get(node.kind)
        if role not in self.texts:
            return
        if role == "agent":
            self.files.update(frozenset(file.items()) for file in fields.get("content", ()))
        known = KnownText(node, len(self.texts[role]))
        self.texts[role].append(known)
        self.same.setdefault((role, known.bare), deque()).append(known)
        self.starts.setdefault((role, known.bare[:KEY]), deque()).append(known)
        self.ends.setdefault((role, known.bare[-KEY:]), []).append(known)
        if isinstance(fields.get("message_id"), str):
            self.ids[role, fields["message_id"]] = known

    # ---- updates

    def update(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        """Fold one replayed update: a chunk of text or a tool call."""
        if kind in ROLES:
            return self._text(ROLES[kind], data)
        ops = self.flush()
        self.previous = "tool"
        cid = data.get("toolCallId")
        if not isinstance(cid, str):
            return ops
        if cid in self.fresh:
            return ops + self.calls.update(cid, data, kind == "tool_call", history=True)
        if cid in self.alias or self._recognise(cid, data):
            return ops
        self.fresh.add(cid)
        return ops + self.calls.update(cid, data, history=True)

    def end(self) -> list[Op]:
        """The replay is over."""
        return self.flush() + self._end_turn()

    def _end_turn(self) -> list[Op]:
        """A user message begins a new turn: earlier calls get no result any more, and their ids may be reused."""
        ops: list[Op] = []
        for cid in self.fresh:
            call = self.calls.unfinished.get(cid)
            if call is not None:
                ops += self.calls.finish(call, NO_RESULT)
        self.calls.begin_turn()
        return ops

    # ---- text

    def _text(self, role: str, data: Mapping[str, Any]) -> list[Op]:
        content = data.get("content")
        text = content.get("text") if isinstance(content, dict) else None
        mid = data.get("messageId")
        mid = mid if isinstance(mid, str) else None
        if role == "agent" and is_attachment(content):
            return self._attachment(mid, attachment(content or {}))
        ops = self.flush() if role != self.role or mid != self.mid else []
        if role == "user" and self.previous != "user":
            ops += self._end_turn()
        self.role, self.mid = role, mid
        if isinstance(text, str) and text:
            self.pieces.append(text)
        return ops

    def _attachment(self, mid: str | None, named: dict[str, Any]) -> list[Op]:
        """An attachment becomes a message of its own in its place, unless it is known."""
        before = (self.role, self.mid)
        ops = self.flush()
        self.split = before if before[0] == "agent" and mid is None else ("agent", mid)
        self.previous = "agent"
        key = frozenset(named.items())
        if self.files[key]:
            self.files[key] -= 1
            return ops
        fields: dict[str, Any] = {"role": "agent", "history": True}
        block = Block(self.board.fresh(), "message", {**fields, "content": [named]}, mid)
        block.ended = True
        self.board.add(block)
        began = Began(block.id, "message", {**fields, "text": ""})
        return [*ops, began, Changed(block.id, {"content": [named]}), Ended(block.id, {})]

    def flush(self) -> list[Op]:
        """End the text collected so far, and compare it with the known texts: as a whole, then chunk by chunk."""
        pieces, role, mid = self.pieces, self.role, self.mid
        self.pieces, self.role, self.mid = [], "", None
        text = "".join(pieces)
        if len(pieces) < 2 or mid is not None:
            return self._told(role, mid, text)
        if self._consume(role, bare(text)):
            return []
        ops: list[Op] = []
        unknown: list[str] = []
        for piece in pieces:
            if not self._consume(role, bare(piece)):
                unknown.append(piece)
            elif unknown:
                ops += self._told(role, mid, "".join(unknown))
                unknown = []
        return ops + self._told(role, mid, "".join(unknown))

    def _told(self, role: str, mid: str | None, text: str) -> list[Op]:
        """One message of the replay."""
        spare = bare(text)
        if not text:
            return []
        first, self.previous = self.previous == "user", role
        if (
            mid is not None
            and (role, mid) in self.ids
            and (self.ids[role, mid] is not None or self.split != (role, mid))
        ):
            self._consume(role, spare)
            known = self.ids[role, mid]
            longer = known is not None and known.cut_short and spare.startswith(known.bare)
            return _complete(known.node, text) if known is not None and longer else []
        if not spare or self._consume(role, spare):
            return []
        for known in self._untold(role, spare):
            if known.cut_short and len(known.bare) >= KEY and spare.startswith(known.bare):
                known.told = len(known.bare)
                return _complete(known.node, text)
        return self._unknown(role, mid, text, first)

    def _untold(self, role: str, spare: str) -> list[KnownText]:
        """The first known texts that begin like `spare` and were not repeated in this replay."""
        alike = self.starts.get((role, spare[:KEY]), deque())
        while alike and alike[0].told:
            alike.popleft()
        return [known for known in islice(alike, MAX_CANDIDATES) if not known.told]

    def _consume(self, role: str, spare: str) -> bool:
        """Whether the text is known: as one text, the next part of one, several in a row, or an attempt and its answer.
        If it is, the known text is consumed."""
        same = self.same.get((role, spare), deque())
        while same:
            known = same.popleft()
            if not known.told:
                known.told = len(spare)
                return True
        candidates = self._untold(role, spare)
        for whose, known in self.partly:
            if whose == role and known.bare.startswith(spare, known.told):
                known.told += len(spare)
                return True
        for known in candidates:
            if known.bare.startswith(spare) and len(spare) >= KEY:
                known.told = len(spare)
                self.partly.append((role, known))
                return True
        return any(self._several(role, known, spare) for known in candidates) or self._doubled(role, spare)

    def _several(self, role: str, first: KnownText, spare: str) -> bool:
        texts, at, place = self.texts[role], 0, first.place
        while at < len(spare) and place < len(texts) and spare.startswith(texts[place].bare, at):
            at += len(texts[place].bare)
            place += 1
        if at < len(spare):
            return False
        for known in texts[first.place : place]:
            known.told = len(known.bare)
        return True

    def _doubled(self, role: str, spare: str) -> bool:
        """Whether the text equals a known one except for attempts in front of it, on either side: an agent that retries
        without noticing stores or streams the attempts and the answer as one text."""
        alike = self.ends.get((role, spare[-KEY:]), []) if self.profile.retry == "whole" else []
        for known in alike[-MAX_CANDIDATES:]:
            longer, answer = sorted((spare, known.bare), key=len, reverse=True)
            if known.told or len(answer) < KEY or not longer.endswith(answer):
                continue
            if are_attempts(longer[: -len(answer)], answer):
                known.told = len(known.bare)
                return True
        return False

    def _unknown(self, role: str, mid: str | None, text: str, first: bool) -> list[Op]:
        if role == "user" and any(pattern.match(text) for pattern in self.profile.synthetic_user):
            return self.notices.tell(text, history=True)
        if role == "agent" and self.notices.spoken(text, mid, {}, first) is not None:
            return self.notices.tell(text, history=True)
        kind = "thought" if role == "thought" else "message"
        fields: dict[str, Any] = {"history": True} if kind == "thought" else {"role": role, "history": True}
        if mid is not None:
            fields["message_id"] = mid
            self.ids[role, mid] = None
        block = Block(self.board.fresh(), kind, fields, mid)
        block.append(text)
        block.ended = True
        self.board.add(block)
        return [Began(block.id, kind, {**fields, "text": ""}), Grew(block.id, text), Ended(block.id, {})]

    # ---- tool calls

    def _recognise(self, cid: str, data: Mapping[str, Any]) -> bool:
        """Whether this call is known, under this id or another."""
        name = cid if cid in self.calls_left else self._same_call(data)
        self.calls_left.pop(name, None)
        if name or cid in self.calls.known:
            self.alias.add(cid)
            return True
        return False

    def _same_call(self, data: Mapping[str, Any]) -> str:
        """The id of the first call not repeated in this replay that shares a mark with this one; "" if there is
        none."""
        marks = _marks(data.get("title"), data.get("rawInput"), content_text(data.get("content")))
        return next((name for name, (_, known) in self.calls_left.items() if marks & known), "")


def _marks(title: object, given: object, content: str) -> set[str]:
    """The marks by which a call is recognised under another id: its input, or a descriptive title."""
    marks: set[str] = set()
    if given:
        marks.add("input:" + (given if isinstance(given, str) else json.dumps(given, sort_keys=True, default=str)))
    if content:
        marks.add("input:" + content)
    if isinstance(title, str) and (" " in title or not given):
        marks.add("title:" + title)
    return marks


def _complete(node: Node, text: str) -> list[Op]:
    """Complete a text that was cut short. (Texts from before the fold are completed by the caller.)"""
    shown = node.text()
    if not node.id or not shown or shown == text or not text.startswith(shown):
        return []
    node.pieces = [text]
    fields: dict[str, Any] = {"text": text}
    if node.fields.pop("partial", None):
        fields["partial"] = None
    return [Changed(node.id, fields)]
