"""What an agent keeps of its conversation, and how it tells it when the session is loaded: as real agents were seen to.

What is there of a turn that was cut off (HOLDS):

    whole       each text and call once it is whole
    items       each text before it is streamed, calls once they ended (Codex)
    halves      halves of texts (an agent that stores what it has every few seconds)
    texts       no call ever (fast-agent, pi: none of ours)
    late        nothing before the turn's end (gemini, vibe)
    finished    a text once something comes behind it, calls once they ended, never ours (fast-agent, pi)
    open calls  calls as they begin, and again as they end (Claude Code, OpenCode)
    doubled     a text that broke off and was told anew, as it was streamed: the attempt and the whole (kimi)

How a load tells it (TELLS):

    as it was
    other ids   messages and calls under new ids each time (hermes, kimi, fast-agent)
    no ids      messages without ids (most agents)
    more rows   user rows that no person wrote: interruptions, reminders, what the agent asked its model (claude, kimi,
                hermes, gemini)
    failed      calls without an end are told as failed (Codex)
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

HOLDS = ("whole", "items", "halves", "texts", "late", "finished", "open calls", "doubled")
TELLS = ("as it was", "other ids", "no ids", "more rows", "failed")
MARKING_AGENT = "semel-demo"
"""The agent whose memory marks the end of each turn (`history_end` of its profile)."""
NOBODY_WROTE = (
    "[Request interrupted by user]",
    "<system-reminder>Be brief.</system-reminder>",
    "[System: The previous response was cut off. Continue exactly where it stopped.]",
)


class Memory:
    """`rows` outlive the process, what is not written yet does not. `kept`: whether this agent keeps anything."""

    def __init__(self, rows: list[Json], holds: str, kept: bool) -> None:
        self.rows, self.holds, self.kept = rows, holds, kept
        self._unsaved: list[Json] = []  # nothing of it is on its disk
        self._open: list[Json] = []  # texts behind which nothing has come yet
        self._half: Json = {}  # the first half of the text that is being told; what came in one piece has none

    def __repr__(self) -> str:
        return f"<Memory of {len(self.rows)} rows, {self.holds}>"

    def hear(self, texts: list[str]) -> None:
        """A prompt."""
        self._keep([_text("user_message_chunk", text) for text in texts])

    def begin_text(self, chunk: Json) -> None:
        if self.holds == "items":
            self._keep([chunk])

    def reach_half(self, chunk: Json) -> None:
        if self.holds == "halves":
            self._half = chunk
            self._keep([chunk])

    def end_text(self, chunk: Json, rest: Json, attempt: str = "") -> None:
        """`rest`: its second half. `attempt`: what was streamed of it before it broke off."""
        match self.holds:
            case "items":
                return
            case "halves" if self._half:  # under the id of its first half
                half, self._half = self._half, {}
                self._keep([{**rest, **{name: id for name, id in half.items() if name == "messageId"}}])
            case "finished":
                self._open.append(chunk)
            case "doubled" if attempt:
                self._keep([{**chunk, "content": {"type": "text", "text": attempt + chunk["content"]["text"]}}])
            case _:
                self._keep([chunk])

    def begin_call(self, call: Json) -> None:
        self._settle()
        if self.holds == "open calls":
            self._keep([{"sessionUpdate": "tool_call", **call, "status": "in_progress"}])

    def end_call(self, call: Json, done: Json, ours: bool = False) -> None:
        """`ours`: it is a call of the gateway's own tool."""
        if self.holds == "texts" or (ours and self.holds == "finished"):
            return
        self._keep([{"sessionUpdate": "tool_call", **call, **done}])

    def end_turn(self, mark: list[Json]) -> None:
        self._settle()
        self._keep(mark)
        self.rows += self._unsaved
        self._unsaved = []

    def _settle(self) -> None:
        self._keep(self._open)
        self._open = []

    def _keep(self, rows: list[Json]) -> None:
        if self.kept:
            (self._unsaved if self.holds == "late" else self.rows).extend(rows)


def told(rows: list[Json], how: str, spawn: int) -> list[Json]:
    """What a load tells of these rows."""
    match how:
        case "other ids":
            return [_renamed(row, spawn, n) for n, row in enumerate(rows)]
        case "no ids":
            return [{name: value for name, value in row.items() if name != "messageId"} for row in rows]
        case "failed":
            return [{**row, "status": "failed"} if row.get("status") == "in_progress" else row for row in rows]
        case "more rows" if rows:
            return [*rows, *(_text("user_message_chunk", text) for text in NOBODY_WROTE)]
        case _:
            return list(rows)


def _renamed(row: Json, spawn: int, n: int) -> Json:
    ids = {name: f"again{spawn}-{n}" for name in ("messageId", "toolCallId") if name in row}
    return {**row, **ids}


def _text(kind: str, text: str) -> Json:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
