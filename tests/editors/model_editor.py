"""An editor without a screen: it applies ACP v1 updates as the schema says, and complains where they make no sense."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

CHUNKS = {"agent_message_chunk": "agent", "agent_thought_chunk": "thought", "user_message_chunk": "user"}


@dataclass
class Call:
    """A tool call as the editor shows it. `terminal`: what its terminal shows; `sent`: bytes of all its updates."""

    fields: dict[str, Any]
    terminal: str = ""
    sent: int = 0

    @property
    def text(self) -> str:
        """The text of the call's content, without the code fence."""
        parts = [part["content"]["text"] for part in self.fields.get("content", ()) if is_text(part)]
        text = "\n\n".join(parts)
        fence = text[: len(text) - len(text.lstrip("`"))]
        return text.rstrip().partition("\n")[2].removesuffix(fence) if len(fence) >= 3 else text


@dataclass
class Shown:
    """What an editor shows of one session. `order`: ids of messages and calls, in the order in which they came."""

    messages: dict[str, tuple[str, str]] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    others: list[dict[str, Any]] = field(default_factory=list)

    def texts(self, role: str = "agent") -> list[str]:
        return [text for who, text in self.messages.values() if who == role]


class ModelEditor:
    """Reads what `semel acp` writes."""

    def __init__(self) -> None:
        self.sessions: dict[str, Shown] = {}
        self.lines = 0

    def end_messages(self, session: str) -> None:
        """Note that a prompt or a load was answered."""

    def read(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            assert line.endswith(b"\n") and line.count(b"\n") == 1
            self.lines += 1
            message = json.loads(line)
            if message.get("method") == "session/update":
                params = message["params"]
                self.apply(self.sessions.setdefault(params["sessionId"], Shown()), params["update"], len(line))

    def apply(self, shown: Shown, update: dict[str, Any], size: int) -> None:
        kind = update["sessionUpdate"]
        if kind in CHUNKS:
            self._add_chunk(shown, CHUNKS[kind], update)
        elif kind in ("tool_call", "tool_call_update"):
            self._add_call(shown, kind, update, size)
        else:
            shown.others.append(update)

    def _add_chunk(self, shown: Shown, role: str, update: dict[str, Any]) -> None:
        name = update["messageId"]
        known_role, text = shown.messages.get(name, (role, ""))
        assert known_role == role
        if name not in shown.messages:
            shown.order.append(name)
        shown.messages[name] = (role, text + update["content"].get("text", ""))

    def _add_call(self, shown: Shown, kind: str, update: dict[str, Any], size: int) -> None:
        name = update["toolCallId"]
        assert kind == "tool_call" or name in shown.calls, f"the first word about {name} is {kind}"
        if name not in shown.calls:
            shown.order.append(name)
        call = shown.calls.setdefault(name, Call({}))
        call.fields |= {key: value for key, value in update.items() if value is not None}
        call.terminal += ((update.get("_meta") or {}).get("terminal_output") or {}).get("data", "")
        call.sent += size


class JoiningEditor(ModelEditor):
    """An editor that ignores message ids: an empty line, which is no text, has to stand between two that it joins."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[int, dict[str, Any]] = {}  # by session: the last chunk, if nothing was drawn after it

    def end_messages(self, session: str) -> None:
        """Note that a prompt or a load was answered: what follows is not joined to what was before."""
        self._last.pop(id(self.sessions.get(session)), None)

    def apply(self, shown: Shown, update: dict[str, Any], size: int) -> None:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            self._last.pop(id(shown), None)
        if update["sessionUpdate"] in CHUNKS:
            last = self._last.get(id(shown), {})
            self._last[id(shown)] = update
            if last.get("sessionUpdate") == update["sessionUpdate"] and last["messageId"] != update["messageId"]:
                text = update["content"]["text"]
                assert text.startswith("\n\n"), f"{text!r} is joined to the message before it"
                update = {**update, "content": {**update["content"], "text": text[2:]}}
        super().apply(shown, update, size)


def is_text(part: dict[str, Any]) -> bool:
    return part["type"] == "content" and part["content"]["type"] == "text"
