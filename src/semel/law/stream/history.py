"""Replay: what an agent tells again when a session is loaded, held against what is known.

What the fold knows is the same entry and is not shown again; what it does not know is shown once and marked
as history. Identity first (message id, tool call id), then text without white space (agents trim), copy by
copy: two equal messages in a replay are two, if only one is known. Never a time window.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .block import Block
from .calls import Call, Calls
from .dialect import content_text
from .evidence import bare
from .notices import Notices
from .ops import Began, Board, Changed, Ended, Grew, Node, Op
from .profiles import Profile

KEY = 12  # characters that two versions of one text share at least
ROLES = {"agent_message_chunk": "agent", "user_message_chunk": "user", "agent_thought_chunk": "thought"}


class Known:
    """One known text and how much of it this replay has told."""

    __slots__ = ("bare", "node", "told")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.bare = bare(node.text())
        self.told = 0

    @property
    def rest(self) -> str:
        return self.bare[self.told :]


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
        self.texts: dict[str, list[Known]] = {"agent": [], "user": [], "thought": []}
        self.ids: set[tuple[str, str]] = set()
        self.starts: dict[tuple[str, str], list[Known]] = {}
        self.calls_left: list[Call] = []
        self.alias: dict[str, Call] = {}
        self.fresh: set[str] = set()  # ids of calls that this replay brought
        for node in [*before, *board.nodes]:
            self._learn(node)

    def __repr__(self) -> str:
        return f"<Replay knows { ({role: len(known) for role, known in self.texts.items()}) }>"

    def _learn(self, node: Node) -> None:
        if isinstance(node, Call):
            self.calls_left.append(node)
            return
        role = node.fields.get("role", "thought") if node.kind in ("message", "thought") else ""
        if node.kind == "notice":
            role = "agent"
            known = Known(node)
            known.bare = bare(str(node.fields.get("text", "")))
        elif role:
            known = Known(node)
        else:
            return
        if isinstance(node.fields.get("message_id"), str):
            self.ids.add((role, node.fields["message_id"]))
        self.texts[role].append(known)
        self.starts.setdefault((role, known.bare[:KEY]), []).append(known)

    # ---- updates

    def update(self, kind: str, data: Mapping[str, Any]) -> list[Op]:
        """One replayed update that is text or a tool call."""
        if kind in ROLES:
            return self._text(ROLES[kind], data)
        ops = self.flush()
        cid = data.get("toolCallId")
        if not isinstance(cid, str):
            return ops
        if cid in self.fresh:
            return ops + self.calls.update(cid, data)
        if cid in self.alias or self._recognise(cid, data):
            return ops
        self.fresh.add(cid)
        return ops + self.calls.update(cid, data, history=True)

    def end(self) -> list[Op]:
        """The replay is over."""
        ops = self.flush()
        for cid in self.fresh:
            call = self.calls.unfinished.get(cid)
            if call is not None:
                ops += self.calls._finish(cid, call)
        return ops

    # ---- text

    def _text(self, role: str, data: Mapping[str, Any]) -> list[Op]:
        content = data.get("content")
        text = content.get("text") if isinstance(content, dict) else None
        mid = data.get("messageId")
        mid = mid if isinstance(mid, str) else None
        ops: list[Op] = []
        # Agents replay whole messages; chunks without ids are joined only if a message came in pieces by id.
        if role != self.role or mid != self.mid or mid is None:
            ops = self.flush()
        self.role, self.mid = role, mid
        if isinstance(text, str) and text:
            self.pieces.append(text)
        return ops

    def flush(self) -> list[Op]:
        """The message that was being told is complete: is it known?"""
        text, role, mid = "".join(self.pieces), self.role, self.mid
        self.pieces, self.role, self.mid = [], "", None
        if not text:
            return []
        spare = bare(text)
        if mid is not None and (role, mid) in self.ids:
            self._consume(role, spare)
            return self._longer(role, mid, text)
        if not spare or self._consume(role, spare):
            return []
        longer = self._cut_short(role, spare)
        if longer is not None:
            return _complete(longer.node, text) if longer.node.id else []
        return self._unknown(role, mid, text)

    def _consume(self, role: str, spare: str) -> bool:
        """Is the text known? It may be one text, the next part of one, or several in a row."""
        for known in self.starts.get((role, spare[:KEY]), ()):
            if known.told == 0 and known.bare == spare:
                known.told = len(spare)
                return True
        for known in self.texts[role]:
            if known.told and known.rest.startswith(spare):
                known.told += len(spare)
                return True
        for known in self.starts.get((role, spare[:KEY]), ()):
            if known.told == 0 and known.bare.startswith(spare) and len(spare) >= KEY:
                known.told = len(spare)
                return True
        return self._several(role, spare) or self._doubled(role, spare)

    def _doubled(self, role: str, spare: str) -> bool:
        """An attempt and the answer in one: the history of an agent that does not know that it was cut off."""
        for known in self.texts[role] if self.profile.retry == "whole" else ():
            attempt = spare[: -len(known.bare)] if known.bare and not known.told else ""
            if attempt and known.bare.startswith(attempt) and spare.endswith(known.bare):
                known.told = len(known.bare)
                return True
        return False

    def _several(self, role: str, spare: str) -> bool:
        texts = self.texts[role]
        for first in self.starts.get((role, spare[:KEY]), ()):
            if first.told or not first.bare or not spare.startswith(first.bare):
                continue
            at, left, run = texts.index(first), spare, []
            while at < len(texts) and left and texts[at].bare and left.startswith(texts[at].bare):
                left = left[len(texts[at].bare) :]
                run.append(texts[at])
                at += 1
            if not left:
                for known in run:
                    known.told = len(known.bare)
                return True
        return False

    def _cut_short(self, role: str, spare: str) -> Known | None:
        """A text that was cut short when it was shown, and that the agent's history has in full."""
        for known in self.starts.get((role, spare[:KEY]), ()):
            cut = known.node.fields.get("partial") or known.node.kind == "thought"
            if not known.told and cut and len(known.bare) >= KEY and spare.startswith(known.bare):
                known.told = len(known.bare)
                return known
        return None

    def _longer(self, role: str, mid: str, text: str) -> list[Op]:
        for known in self.texts[role]:
            if known.node.id and known.node.fields.get("message_id") == mid and known.node.fields.get("partial"):
                shown = known.node.text()
                if len(text) > len(shown) and text.startswith(shown):
                    return _complete(known.node, text)
        return []

    def _unknown(self, role: str, mid: str | None, text: str) -> list[Op]:
        if role == "user" and any(pattern.match(text) for pattern in self.profile.synthetic_user):
            return self.notices.tell(text, history=True)
        if role == "agent" and self.notices.spoken(text, mid, {}, False) is not None:
            return self.notices.tell(text, history=True)
        kind = "thought" if role == "thought" else "message"
        fields: dict[str, Any] = {"history": True} if kind == "thought" else {"role": role, "history": True}
        if mid is not None:
            fields["message_id"] = mid
            self.ids.add((role, mid))
        block = Block(self.board.fresh(), kind, fields, mid)
        block.append(text)
        block.ended = True
        self.board.add(block)
        return [Began(block.id, kind, {**fields, "text": ""}), Grew(block.id, text), Ended(block.id, {})]

    # ---- tool calls

    def _recognise(self, cid: str, data: Mapping[str, Any]) -> bool:
        """Is this call known, under this id or another?"""
        call = next((c for c in self.calls_left if c.fields["call"] == cid), None)
        if call is not None:
            self.calls_left.remove(call)
        elif cid in self.calls.known:
            call = self.calls.known[cid]
        else:
            call = self._same_call(data)
        if call is None:
            return False
        self.alias[cid] = call
        return True

    def _same_call(self, data: Mapping[str, Any]) -> Call | None:
        marks = _marks(data.get("title"), data.get("rawInput"), content_text(data.get("content")))
        for index, call in enumerate(self.calls_left):
            fields = call.fields
            if marks & _marks(fields.get("title"), fields.get("input"), ""):
                return self.calls_left.pop(index)
        return None


def _marks(title: object, given: object, content: str) -> set[str]:
    """What a call can be known by when its id is another one: its input, or the title that says it."""
    marks: set[str] = set()
    if given:
        marks.add("input:" + (given if isinstance(given, str) else json.dumps(given, sort_keys=True, default=str)))
    if content:
        marks.add("input:" + content)
    if isinstance(title, str) and (" " in title or not given):
        marks.add("title:" + title)
    return marks


def _complete(node: Node, text: str) -> list[Op]:
    node.pieces = [text]
    fields: dict[str, Any] = {"text": text}
    if node.fields.pop("partial", None):
        fields["partial"] = None
    return [Changed(node.id, fields)]
