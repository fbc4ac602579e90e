"""Read a tool call's output, exit code, diffs and locations from wherever agents put them (docs/agents.md).

All functions are stateless: each reads one update. A *source* is a field in which an agent states a call's output. An
update may have several sources, and each gives a `Snapshot`. An *adapter* is the program that speaks ACP for an agent;
some adapters put tags or a code fence around the output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from semel.acp_stream.profiles import Pattern, Profile
from semel.text.json_types import objects_in, text_at, value_at

# Ranks of output sources, poorest first: `content` before the result (some agents put the arguments there), `content`
# with the result, `rawOutput`, and last `toolResponse` and terminals.
ARGUMENTS, CONTENT, RAW, DIRECT = 1, 2, 3, 4

STATUS = {
    "pending": "pending",
    "in_progress": "running",
    "running": "running",
    "completed": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "rejected": "failed",
}
FINAL = frozenset(("done", "failed", "cancelled"))
DELTAS = ("terminal_output", "terminal_output_delta", "terminal-output")  # keys of `_meta` with a terminal's new output
NO_RESULT = "no result"  # the status of a call that had no result when its turn ended

_PERSISTED = re.compile(r"\s*<persisted-output>\n?(.*?)(?:\n?</persisted-output>\s*)?\Z", re.DOTALL)
_UNTRUSTED = re.compile(
    r"\s*<untrusted_tool_result[^>]*>\n?"
    r"(?:The following content was retrieved from an external source\.[^\n]*\n\n)?"
    r"(.*?)(?:\n?</untrusted_tool_result>\s*)?\Z",
    re.DOTALL,
)
_WRAPPERS = (("<persisted-output>", _PERSISTED, True), ("<untrusted_tool_result", _UNTRUSTED, False))
_FENCED = re.compile(r"(`{3,})(\w*)\n(.*?)\n?\1\n?\Z", re.DOTALL)


class Snapshot(NamedTuple):
    """A tool call's output, as one source of an update states it (such as `content` or `rawOutput`).

    `rank`: the rank of the source; a richer source has a higher rank. `missing`: part of the output is known to be
    missing. `window`: the text may be only the newest part of a growing output.
    """

    text: str
    rank: int
    missing: bool = False
    window: bool = False
    mark: str = ""  # the agent's note, removed from the text, that the beginning was cut


def unwrap(text: str) -> tuple[str, bool]:
    """Remove the tags that an adapter put around an output.

    Return (the text without the tags, whether the tags say that part of the output is missing).
    """
    for start, pattern, missing in _WRAPPERS:
        if start in text[:64] and (wrapped := pattern.match(text)):
            return wrapped[1], missing
    return text, False


def is_wrapped(text: str) -> bool:
    return text.lstrip().startswith(tuple(start for start, _, _ in _WRAPPERS))


def read_snapshots(data: Mapping[str, Any], profile: Profile, result: bool) -> list[Snapshot]:
    """Return a snapshot for each source of the update `data` that contains output, richest source first.

    `result`: the call has ended, in this update or before.
    """
    result_list: list[Snapshot] = []
    response = tool_response(data.get("_meta"))
    if response is not None:
        cut = bool(value_at(response, "persistedOutputPath"))
        result_list.append(_make_snapshot(_response_text(response), DIRECT, profile, cut))
    raw = data.get("rawOutput")
    if raw is not None:
        cut = value_at(raw, "metadata", "truncated") is True
        result_list.append(_make_snapshot(_raw_text(raw), RAW, profile, cut))
    if data.get("content") is not None:
        text = content_text(data["content"])
        if result or profile.content_before_result == "output":
            rank = CONTENT if result or profile.content == "window" else ARGUMENTS
            result_list.append(_make_snapshot(_unfence(text, profile.fences), rank, profile, False))
    return [snapshot for snapshot in result_list if snapshot.text]


def _make_snapshot(text: str, rank: int, profile: Profile, cut: bool) -> Snapshot:
    text, missing = unwrap(text)
    text, ended_early = _cut_note(text, profile.cut_notes)
    window = profile.content == "window" and rank in (CONTENT, RAW)
    for mark in profile.window_marks:
        match = mark.match(text)
        if match and len(text) > match.end():
            return Snapshot(text[match.end() :], rank, True, True, match[0])
    return Snapshot(text, rank, missing or cut or ended_early, window)


def _cut_note(text: str, notes: tuple[Pattern, ...]) -> tuple[str, bool]:
    for note in notes:
        match = note.search(text, max(0, len(text) - 2048))
        if match:
            return text[: match.start()], True
    return text, False


def terminal_text(text: str, profile: Profile) -> Snapshot:
    """Return a terminal's output as a snapshot, for an agent that sends the whole output (`text`) in each update."""
    return _make_snapshot(text, DIRECT, profile, False)


def tool_response(meta: object) -> Any:
    """Return `toolResponse` from an update's `_meta`, or from one of the objects in `_meta`; None if there is none."""
    parts = (meta, *meta.values()) if isinstance(meta, dict) else ()
    return next((part["toolResponse"] for part in parts if isinstance(part, dict) and "toolResponse" in part), None)


def _response_text(response: object, depth: int = 0) -> str:
    if isinstance(response, str):
        return response
    if isinstance(response, list):
        return _join_blocks(response)
    if isinstance(response, dict):
        if isinstance(response.get("stdout"), str) or isinstance(response.get("stderr"), str):
            return _join_stdout_stderr(response)
        return _response_text(response["content"], depth + 1) if "content" in response and depth < 3 else ""
    return ""


def _raw_text(raw: object, depth: int = 0) -> str:
    if isinstance(raw, str):
        return raw
    if isinstance(raw, list):
        texts = (_raw_text(result, depth + 1) for result in objects_in(raw))
        return _join_blocks(raw) or "\n".join(filter(None, texts))
    if not isinstance(raw, dict) or depth > 3:
        return ""
    for key in ("aggregated_output", "stdout", "formatted_output", "output", "text"):
        if key == "stdout" and isinstance(raw.get("stderr"), str) and (raw.get("stdout") or raw["stderr"]):
            return _join_stdout_stderr(raw)
        if isinstance(raw.get(key), str) and raw[key]:
            return str(raw[key])
    for key in ("content", "metadata", "result", "error", "details"):
        value = raw.get(key)
        text = _raw_text(value, depth + 1) if value is not None else ""
        if not text and key in ("error", "details") and isinstance(value, dict):
            text = next((value[k] for k in ("tail", "message") if isinstance(value.get(k), str)), "")
        if text:
            return text
    return ""


def _join_stdout_stderr(value: Mapping[str, Any]) -> str:
    out, err = (v if isinstance(v, str) else "" for v in (value.get("stdout"), value.get("stderr")))
    return out + ("\n" if out and err and not out.endswith("\n") else "") + err


def _join_blocks(blocks: list[Any]) -> str:
    texts = [block if isinstance(block, str) else _block_text(block) for block in blocks]
    return "\n\n".join(text for text in texts if text)


def _block_text(block: object) -> str:
    text = text_at(block, "text")
    return text if text is not None else text_at(block, "resource", "text") or ""


def content_text(content: object) -> str:
    """Return the text in an ACP `ToolCallContent` list, without its diffs and its references to terminals."""
    inner = [part.get("content") for part in objects_in(content) if part.get("type") == "content"]
    return _join_blocks([block for block in inner if block is not None])


def read_diffs(content: object) -> list[dict[str, Any]]:
    """Return the diffs in a `ToolCallContent` list, each as `{"path", "oldText"?, "newText"}`."""
    parts = [part for part in objects_in(content) if part.get("type") == "diff"]
    return [{key: part[key] for key in ("path", "oldText", "newText") if key in part} for part in parts]


def read_locations(locations: object) -> list[dict[str, Any]]:
    """Return the places in files that an ACP `ToolCallLocation` list names, each as `{"path", "line"?}`."""
    places = [place for place in objects_in(locations) if isinstance(place.get("path"), str)]
    return [
        {"path": place["path"], **({"line": place["line"]} if type(place.get("line")) is int else {})}
        for place in places
    ]


def _unfence(text: str, infos: tuple[str, ...]) -> str:
    match = _FENCED.match(text) if text.startswith("```") else None
    return match[3] if match and match[2] in infos else text


def exit_code(data: Mapping[str, Any]) -> int | None:
    """Return a command's exit code, from any place in an update where agents put it; None if there is none."""
    raw = data.get("rawOutput")
    places = (
        (value_at(data, "_meta", "terminal_exit"), ("exit_code", "exitCode")),
        (raw, ("exit_code", "exitCode", "exit")),
        (value_at(raw, "metadata"), ("exit", "exit_code", "exitCode")),
    )
    values = (value_at(place, key) for place, keys in places for key in keys)
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)
