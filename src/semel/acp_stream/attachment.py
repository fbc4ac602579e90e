"""Attachments in an agent's stream: images, audio, embedded resources and resource links.

The shapes are those of ACP's content blocks (agentclientprotocol.com/protocol/content), which are MCP's. The fold only
lists attachments. Its caller may have moved a block's bytes to the file store before
(`semel.gateway.turns.agent_files`); then the block's "file" is an `AgentFile` object, which no JSON of an agent can
imitate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AgentFile:
    """A file that an agent handed over.

    `id`: the id of the stored content; None if the file is only linked (`uri`), or could not be stored for the reason
    `missing`. `size`: in bytes.
    """

    name: str
    mime: str
    id: str | None = None
    size: int | None = None
    uri: str | None = None
    missing: str | None = None

    def row(self) -> dict[str, Any]:
        """The file as JSON, as entries and items list it."""
        told = {"id": self.id, "size": self.size, "name": self.name, "mime": self.mime, "uri": self.uri}
        told["missing"] = self.missing
        return {name: value for name, value in told.items() if value is not None}


def is_attachment(block: object) -> bool:
    """Whether a content block holds something other than text. A dict without a type counts as text."""
    return isinstance(block, dict) and block.get("type", "text") != "text"


def attachment(content: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a content block that is not text: type, name, URI, media type, and size in bytes, as far as it has them.

    If its bytes were stored, the description has the `file`; if they could not be, the reason (`missing`).
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
    """The files in a tool call's `ToolCallContent` list, including those that could not be stored."""
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
