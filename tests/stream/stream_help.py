"""Short ways to say what an agent sends, and a second, plain reading of a fold's operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from semel.acp_stream import Began, Changed, Ended, Fold, Grew, Op, Profile, View, fold

Update = dict[str, Any]


def say(text: str, mid: str | None = None, **more: Any) -> Update:
    update: Update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}, **more}
    return update if mid is None else {**update, "messageId": mid}


def think(text: str, mid: str | None = None) -> Update:
    return {**say(text, mid), "sessionUpdate": "agent_thought_chunk"}


def user(text: str, mid: str | None = None) -> Update:
    return {**say(text, mid), "sessionUpdate": "user_message_chunk"}


def call(cid: str = "t", **fields: Any) -> Update:
    return {"sessionUpdate": "tool_call", "toolCallId": cid, "title": "Run", "status": "pending", **fields}


def result(cid: str = "t", **fields: Any) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": cid, **fields}


def terminal(text: str, cid: str = "t", key: str = "terminal_output", **fields: Any) -> Update:
    return result(cid, _meta={key: {"terminal_id": cid, "data": text}}, **fields)


def content(text: str) -> list[Any]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def response(stdout: str, stderr: str = "") -> Update:
    return {"claudeCode": {"toolResponse": {"stdout": stdout, "stderr": stderr}, "toolName": "Bash"}}


def messages(view: View) -> list[str]:
    return view.texts("message")


def thoughts(view: View) -> list[str]:
    return [o["text"] for o in view.json() if o["item"] == "thought"]


def tool(view: View, cid: str = "t") -> dict[str, Any]:
    return next(o for o in view.json() if o["item"] == "tool" and o["id"] == cid)


def folded(updates: Iterable[Update], profile: Profile | None = None) -> View:
    return fold(updates, profile)


class Board:
    """Applies operations the way a client does, and complains where they make no sense."""

    def __init__(self) -> None:
        self.items: dict[int, dict[str, Any]] = {}
        self.kinds: dict[int, str] = {}
        self.ended: set[int] = set()

    def apply(self, ops: Iterable[Op]) -> None:
        for op in ops:
            match op:
                case Began(id, kind, fields):
                    assert id not in self.items and id > max(self.items, default=0)
                    self.items[id], self.kinds[id] = {"text": "", **fields}, kind
                case Grew(id, text):
                    assert text
                    self.items[id]["text"] += text
                case Changed(id, fields) | Ended(id, fields):
                    for key, value in fields.items():
                        if value is None and key in ("partial", "truncated"):
                            self.items[id].pop(key, None)
                        else:
                            self.items[id][key] = value
                    if isinstance(op, Ended):
                        assert id not in self.ended
                        self.ended.add(id)

    def check(self, fold: Fold) -> None:
        """The operations add up to the items."""
        for item in fold.items():
            if item.kind == "turn" or item.id not in self.items:
                assert item.kind == "turn" or item.fields.get("role") == "user"
                continue
            applied = self.items[item.id]
            assert self.kinds[item.id] == item.kind
            if item.kind in ("message", "thought", "notice"):
                assert applied["text"] == item.text
            for key in ("status", "superseded", "partial", "truncated", "exit", "late", "title", "input", "entries"):
                assert applied.get(key) == item.fields.get(key), (key, applied, item)
            if item.kind == "tool" and "gap" not in item.fields:
                assert applied["text"] == item.text


def run(updates: Iterable[Update], profile: Profile, replay: bool = False) -> tuple[Fold, Board]:
    """Fold live updates (with the marks of the stream cases), checking the operations as they come."""
    a_fold, board = Fold(profile), Board()
    for update in updates:
        if "_prompt" in update:
            board.apply(a_fold.prompt(update["_prompt"]))
        elif "_cancel" in update:
            board.apply(a_fold.cancel())
        elif "_end_turn" in update:
            board.apply(a_fold.end("end_turn"))
        elif "_died" in update:
            board.apply(a_fold.end("error", "died", died=True))
        else:
            board.apply(a_fold.update(update, update.get("_replay", replay)))
    board.apply(a_fold.settle())
    board.check(a_fold)
    return a_fold, board
