r"""Join surrogate pairs that an agent split between two chunks.

JavaScript programs cut strings by UTF-16 units, so an emoji may come as "\ud83d" in one chunk and "\ude00" in the
next. No store and no platform accepts half a pair, so a half waits here for the next chunk of its stream. If the stream
ends or continues without the other half, U+FFFD is shown in place of the half (Law 8).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from semel.acp_stream.output_fields import DELTAS, FINAL, STATUS
from semel.text.json_types import Json
from semel.text.wellformed import scrub

CHUNKS = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
LOST_HALF = "\ufffd"

_HALF = re.compile("[\ud800-\udfff]")


def has_lone_surrogate(text: str) -> bool:
    """Return whether the text contains half a surrogate pair."""
    return not text.isascii() and _HALF.search(text) is not None


def find_streamed_text(update: Mapping[str, Any]) -> str | None:
    """Return the text of an update that a later update may continue: a chunk, or new output of a terminal.

    Return None if the update has no such text.
    """
    kind = update.get("sessionUpdate")
    if kind in CHUNKS:
        content = update.get("content")
        text = content.get("text") if isinstance(content, dict) else None
    elif kind == "tool_call_update" or kind == "tool_call":
        meta = update.get("_meta")
        parts = (meta.get(name) for name in DELTAS) if isinstance(meta, dict) else ()
        text = next((part["data"] for part in parts if isinstance(part, dict) and "data" in part), None)
    else:
        return None
    return text if isinstance(text, str) else None


def replace_streamed_text(update: Mapping[str, Any], text: str) -> Json:
    """Return the update with `text` in place of its streamed text (see `find_streamed_text`)."""
    if update.get("sessionUpdate") in CHUNKS:
        return {**update, "content": {**update["content"], "text": text}}
    name = next(name for name in DELTAS if isinstance(update["_meta"].get(name), dict))
    return {**update, "_meta": {**update["_meta"], name: {**update["_meta"][name], "data": text}}}


def scrub_update(update: Mapping[str, Any]) -> Json:
    """Return the update with U+FFFD in place of each half surrogate pair.

    Halves in the update's streamed text stay, because the fold joins them.
    """
    text = find_streamed_text(update)
    scrubbed: Json = scrub(update)
    return scrubbed if text is None or not has_lone_surrogate(text) else replace_streamed_text(scrubbed, text)


class PendingSurrogates:
    """Halves of surrogate pairs that wait for their other half.

    A *stream* is the chunks of one kind, or the output of one tool call. `waiting` maps a stream to (the half, the
    update whose text ended with this half).
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[str, tuple[str, Mapping[str, Any]]] = {}

    def __repr__(self) -> str:
        return f"<PendingSurrogates {sorted(self.waiting)}>"

    def join(self, update: Mapping[str, Any], text: str, waits: bool = True) -> Json | None:
        """Join the half that waits in the update's stream with the update.

        Return the update without unpaired halves. Return None if no text of the chunk is left, because the half at its
        end now waits. `text`: the update's streamed text. `waits`: a half at the end of the text waits for the next
        update; False if each update of the stream repeats the whole text.
        """
        stream = _stream_of(update)
        half, _ = self.waiting.pop(stream, ("", {}))
        joined = half + text
        if waits and "\ud800" <= joined[-1:] <= "\udbff":
            self.waiting[stream] = (joined[-1], update)
            joined = joined[:-1]
        if not joined and update.get("sessionUpdate") in CHUNKS:
            return None
        return replace_streamed_text(update, scrub(joined))

    def take_lost(self, update: Mapping[str, Any] | None = None, tools_only: bool = False) -> Iterator[Json]:
        """Remove each half whose other half will not come. For each, yield an update that shows U+FFFD in its place.

        `update`: the next update, which decides which halves are lost; if it is None, all of them are. `tools_only`:
        take only halves in the output of tool calls.
        """
        for stream, (_, last) in list(self.waiting.items()):
            if tools_only and stream in CHUNKS:
                continue
            if update is None or _ends_stream(update, stream, last):
                del self.waiting[stream]
                yield _say_lost_half(stream, last)


def _say_lost_half(stream: str, last: Mapping[str, Any]) -> Json:
    if stream in CHUNKS:
        chunk = {"sessionUpdate": stream, "content": {"type": "text", "text": LOST_HALF}}
        return {**chunk, "messageId": last["messageId"]} if "messageId" in last else chunk
    delta = {"_meta": {DELTAS[0]: {"data": LOST_HALF}}}
    return {"sessionUpdate": "tool_call_update", "toolCallId": last["toolCallId"], **delta}


def _stream_of(update: Mapping[str, Any]) -> str:
    kind = str(update.get("sessionUpdate"))
    return kind if kind in CHUNKS else f"tool {update.get('toolCallId')}"


def _ends_stream(update: Mapping[str, Any], stream: str, last: Mapping[str, Any]) -> bool:
    """Return whether `update` ends a stream, or continues it without the missing half.

    `last`: the latest update of that stream, whose text ended with a half.
    """
    kind, text = update.get("sessionUpdate"), find_streamed_text(update)
    if _stream_of(update) == stream:
        if stream in CHUNKS and update.get("messageId") not in (None, last.get("messageId")):
            return True
        if text is None:
            return stream in CHUNKS or STATUS.get(str(update.get("status"))) in FINAL
        return bool(text) and not "\udc00" <= text[0] <= "\udfff"
    if kind in CHUNKS:
        return stream in CHUNKS and (kind, stream) != ("agent_thought_chunk", "agent_message_chunk")
    if kind == "tool_call":
        return stream in CHUNKS
    return kind not in ("tool_call_update", "usage_update", "session_info_update", "plan", "available_commands_update")
