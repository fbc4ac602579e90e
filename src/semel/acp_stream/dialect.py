"""Read a tool call's output, exit code and diffs from wherever agents put them (see docs/agents.md).

All functions are stateless: each reads one update.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from semel.acp_stream.profiles import Pattern, Profile

# Ranks of output sources, poorest first: content before the result, content, rawOutput, toolResponse and terminals.
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
NO_RESULT = "no result"  # the status of a call that had no result when its turn ended

_PERSISTED = re.compile(r"\s*<persisted-output>\n?(.*?)(?:\n?</persisted-output>\s*)?\Z", re.DOTALL)
_UNTRUSTED = re.compile(
    r"\s*<untrusted_tool_result[^>]*>\n?"
    r"(?:The following content was retrieved from an external source\.[^\n]*\n\n)?"
    r"(.*?)(?:\n?</untrusted_tool_result>\s*)?\Z",
    re.DOTALL,
)
_FENCED = re.compile(r"(`{3,})(\w*)\n(.*?)\n?\1\n?\Z", re.DOTALL)


class Snapshot(NamedTuple):
    """One source's statement of a tool call's output.

    `rank`: the quality of the source. `missing`: part of the output is known to be missing. `window`: it may be only
    the newest part of a growing output.
    """

    text: str
    rank: int
    missing: bool = False
    window: bool = False
    mark: str = ""  # the agent's note before the text that its beginning was cut


def unwrap(text: str) -> tuple[str, bool]:
    """Return (the text without an adapter's wrapper, whether the wrapper says that part of the output is missing)."""
    if "<persisted-output>" in text[:64]:
        found = _PERSISTED.match(text)
        if found:
            return found[1], True
    if "<untrusted_tool_result" in text[:64]:
        found = _UNTRUSTED.match(text)
        if found:
            return found[1], False
    return text, False


def is_wrapped(text: str) -> bool:
    return text.lstrip().startswith(("<persisted-output>", "<untrusted_tool_result"))


def snapshots(data: Mapping[str, Any], profile: Profile, result: bool) -> list[Snapshot]:
    """The statements of the output in this update, best source first. `result`: the call has its result."""
    found: list[Snapshot] = []
    response = tool_response(data.get("_meta"))
    if response is not None:
        text = _response_text(response)
        cut = isinstance(response, dict) and bool(response.get("persistedOutputPath"))
        found.append(_clean(text, DIRECT, profile, cut))
    raw = data.get("rawOutput")
    if raw is not None:
        text = _raw_text(raw)
        meta = raw.get("metadata") if isinstance(raw, dict) else None
        cut = isinstance(meta, dict) and meta.get("truncated") is True
        found.append(_clean(text, RAW, profile, cut))
    if data.get("content") is not None:
        text = content_text(data["content"])
        if result or profile.content_before_result == "output":
            rank = CONTENT if result or profile.content == "window" else ARGUMENTS
            found.append(_clean(_unfence(text, profile.fences), rank, profile, False))
    return [snapshot for snapshot in found if snapshot.text]


def _clean(text: str, rank: int, profile: Profile, cut: bool) -> Snapshot:
    text, missing = unwrap(text)
    text, ended_early = _without(text, profile.cut_notes)
    window = profile.content == "window" and rank in (CONTENT, RAW)
    for mark in profile.window_marks:
        found = mark.match(text)
        if found and len(text) > found.end():
            return Snapshot(text[found.end() :], rank, True, True, found[0])
    return Snapshot(text, rank, missing or cut or ended_early, window)


def _without(text: str, notes: tuple[Pattern, ...]) -> tuple[str, bool]:
    for note in notes:
        found = note.search(text, max(0, len(text) - 2048))
        if found:
            return text[: found.start()], True
    return text, False


def terminal_text(text: str, profile: Profile) -> Snapshot:
    """A terminal's text from an agent that sends it whole."""
    return _clean(text, DIRECT, profile, False)


def tool_response(meta: object) -> Any:
    """`_meta.<agent>.toolResponse` or `_meta.toolResponse`, whatever its shape."""
    if not isinstance(meta, dict):
        return None
    if "toolResponse" in meta:
        return meta["toolResponse"]
    for part in meta.values():
        if isinstance(part, dict) and "toolResponse" in part:
            return part["toolResponse"]
    return None


def _response_text(response: object, depth: int = 0) -> str:
    if isinstance(response, str):
        return response
    if isinstance(response, list):
        return _joined(response)
    if isinstance(response, dict):
        if isinstance(response.get("stdout"), str) or isinstance(response.get("stderr"), str):
            return _join_stdout_stderr(response)
        return _response_text(response["content"], depth + 1) if "content" in response and depth < 3 else ""
    return ""


def _raw_text(raw: object, depth: int = 0) -> str:
    if isinstance(raw, str):
        return raw
    if isinstance(raw, list):
        return _joined(raw)
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


def _joined(blocks: list[Any]) -> str:
    texts = [block if isinstance(block, str) else _block_text(block) for block in blocks]
    return "\n\n".join(text for text in texts if text)


def _block_text(block: object) -> str:
    if not isinstance(block, dict):
        return ""
    text = block.get("text")
    if isinstance(text, str):
        return text
    resource = block.get("resource")
    inner = resource.get("text") if isinstance(resource, dict) else None
    return inner if isinstance(inner, str) else ""


def content_text(content: object) -> str:
    """The text of an ACP `ToolCallContent` list. Terminals are placeholders, diffs are not output."""
    if not isinstance(content, list):
        return ""
    inner = [c.get("content") for c in content if isinstance(c, dict) and c.get("type") == "content"]
    return _joined([c for c in inner if c is not None])


def diffs(content: object) -> list[dict[str, Any]]:
    """The diffs of a `ToolCallContent` list: `{"path", "oldText"?, "newText"}`."""
    if not isinstance(content, list):
        return []
    return [
        {k: c[k] for k in ("path", "oldText", "newText") if k in c}
        for c in content
        if isinstance(c, dict) and c.get("type") == "diff"
    ]


def _unfence(text: str, infos: tuple[str, ...]) -> str:
    found = _FENCED.match(text) if text.startswith("```") else None
    return found[3] if found and found[2] in infos else text


def exit_code(data: Mapping[str, Any]) -> int | None:
    """The command's exit code, where the update has one."""
    meta = data.get("_meta")
    places: list[tuple[object, tuple[str, ...]]] = []
    if isinstance(meta, dict):
        places.append((meta.get("terminal_exit"), ("exit_code", "exitCode")))
    raw = data.get("rawOutput")
    if isinstance(raw, dict):
        places.append((raw, ("exit_code", "exitCode", "exit")))
        places.append((raw.get("metadata"), ("exit", "exit_code", "exitCode")))
    for place, keys in places:
        for key in keys if isinstance(place, dict) else ():
            value = place[key] if isinstance(place, dict) and key in place else None
            if isinstance(value, int) and not isinstance(value, bool):
                return value
    return None
