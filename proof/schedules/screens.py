"""What one connection of an editor shows, by the updates of ACP v1, as its kind of editor was measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from semel.faces.acp.editor_profiles import EditorProfile

Json = dict[str, Any]
CHUNKS = {"agent_message_chunk": "agent", "agent_thought_chunk": "thought", "user_message_chunk": "user"}
SHOWN_IN_TURNS = (*CHUNKS, "tool_call", "tool_call_update")  # what an editor drops that shows nothing outside of a turn
ENDS = ("completed", "failed")


@dataclass
class Text:
    """A message, by its id. `who`: agent, thought or user."""

    who: str
    text: str = ""


@dataclass
class Screen:
    """`pushed`: what began turns that are drawn as somebody else's. `faults`: what makes no sense to an editor."""

    profile: EditorProfile
    texts: dict[str, Text] = field(default_factory=dict)
    calls: dict[str, Json] = field(default_factory=dict)
    pushed: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)  # ids of messages, and texts of what was pushed, as they came first
    dropped: int = 0
    faults: list[str] = field(default_factory=list)

    def left_out_until(self) -> int:
        """How far what was missed is left out, as the editor was told: the `born` of the last such row, or 0."""
        return max((int(id.removeprefix("missed-")) for id in self.texts if id.startswith("missed-")), default=0)

    def update(self, update: Json, *, in_turn: bool, in_load: bool, in_push: bool) -> None:
        """Take an update. `in_turn`: a prompt of the editor is open. `in_load`: it loads the session. `in_push`: it
        draws the turn of somebody else, with their words; if it has refused to, it drops them."""
        kind = update["sessionUpdate"]
        if kind in SHOWN_IN_TURNS and self.profile.out_of_turn == "until_prompt" and not (in_turn or in_load):
            self.dropped += 1
        elif kind == "user_message_chunk" and self.profile.drops_user_text and not in_load:
            if in_push:
                self.push(update["content"]["text"])
            elif not update["messageId"].endswith(".drawn"):
                self.faults.append(f"{update['content']} is dropped")
        elif kind in CHUNKS:
            self._add(update["messageId"], CHUNKS[kind], update["content"]["text"])
        elif kind in ("tool_call", "tool_call_update"):
            self._call(kind, update)

    def _add(self, id: str, who: str, text: str) -> None:
        if id not in self.texts:
            self.order.append(id)
        shown = self.texts.setdefault(id, Text(who))
        if shown.who != who:
            self.faults.append(f"message {id} is of {shown.who}, and then of {who}")
        shown.text += text.removeprefix("\n\n") if self.profile.joins_messages else text  # no text has an empty line

    def _call(self, kind: str, update: Json) -> None:
        id = update["toolCallId"]
        if kind == "tool_call" and id in self.calls:
            self.faults.append(f"tool call {id} begins twice")
        elif kind == "tool_call_update" and id not in self.calls:
            self.faults.append(f"an update of tool call {id}, which never began")
        self.calls.setdefault(id, {}).update(update)

    def push(self, text: str) -> None:
        """Draw what somebody else said at the beginning of their turn."""
        self.pushed.append(text)
        self.order.append(text)

    def output(self, call: str) -> str:
        """The text of a call's content, without its code fence."""
        parts = [part["content"].get("text", "") for part in self.calls[call].get("content") or () if "content" in part]
        text = "\n\n".join(parts)
        fence = text[: len(text) - len(text.lstrip("`"))]
        return text.rstrip().partition("\n")[2].removesuffix(fence) if len(fence) >= 3 else text
