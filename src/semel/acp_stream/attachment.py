"""What an agent hands over beside text: images, audio, embedded resources and links to resources.

The shapes are those of ACP's content blocks (agentclientprotocol.com/protocol/content), which are MCP's. The fold only
names them. Whoever feeds it may have taken a block's bytes out before (`semel.gateway.turns.agent_files`); then the
block carries an `AgentFile` as its "file", which nothing that an agent writes in JSON can be taken for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AgentFile:
    """A file that an agent handed over. `id`: of its stored content; None: it is only named, by its address `uri`, or
    it is `missing`, and why.

    `size` in bytes.
    """

    name: str
    mime: str
    id: str | None = None
    size: int | None = None
    uri: str | None = None
    missing: str | None = None

    def row(self) -> dict[str, Any]:
        """As an entry or an item lists it among its files."""
        told = {"id": self.id, "size": self.size, "name": self.name, "mime": self.mime, "uri": self.uri}
        told["missing"] = self.missing
        return {name: value for name, value in told.items() if value is not None}


def is_attachment(block: object) -> bool:
    """Whether a content block holds something else than text. What names no type is no content block."""
    return isinstance(block, dict) and block.get("type", "text") != "text"


def attachment(content: Mapping[str, Any]) -> dict[str, Any]:
    """What a content block that is no text says of itself: type, name, address, media type, size in bytes.

    And its `file`, where its bytes were taken out, or why they could not be (`missing`).
    """
    inner = content.get("resource")
    told = {**content, **inner} if isinstance(inner, dict) else content
    named: dict[str, Any] = {k: v for k in ("type", "mimeType", "uri", "name") if isinstance(v := told.get(k), str)}
    named["type"] = str(content.get("type") or "")
    encoded, text, size = told.get("data") or told.get("blob"), told.get("text"), told.get("size")
    if isinstance(encoded, str):
        named["size"] = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    elif isinstance(text, str):
        named["size"] = len(text.encode("utf-8", "replace"))
    elif isinstance(size, int) and size > 0 and not isinstance(size, bool):
        named["size"] = size
    if isinstance(content.get("file"), AgentFile):
        named["file"] = content["file"]
    elif isinstance(content.get("missing"), str):
        named["missing"] = content["missing"]
    return named


def files_of(content: object) -> list[AgentFile]:
    """The files of a tool call's `ToolCallContent` list, those that are missing included."""
    if not isinstance(content, list):
        return []
    inner = [part.get("content") for part in content if isinstance(part, dict) and part.get("type") == "content"]
    return [file for block in inner if isinstance(block, dict) and (file := _file_of(block)) is not None]


def _file_of(block: Mapping[str, Any]) -> AgentFile | None:
    named = attachment(block)
    if isinstance(named.get("file"), AgentFile):
        file: AgentFile = named["file"]
        return file
    if "missing" not in named:
        return None
    kind = named["type"] or "file"
    return AgentFile(named.get("name") or kind, named.get("mimeType") or kind, missing=named["missing"])
