"""Attachments in an agent's stream: images, audio, embedded resources and resource links.

An attachment is a content block of ACP (agentclientprotocol.com/protocol/content), which has the same format as in MCP.
The fold lists attachments but does not store them. The fold's caller may move a block's bytes to the file store first
(`semel.gateway.turns.agent_files`); it then adds an `AgentFile` to the block under the name `file`. An agent cannot
fake this entry, because JSON cannot contain such an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from semel.text.json_types import objects_in


@dataclass(frozen=True, slots=True)
class AgentFile:
    """A file that an agent attached.

    `mime`: its media type. `id`: the id of the stored content; None if nothing is stored. `size`: in bytes. `uri`: the
    address, if the file is only linked. `missing`: why the file could not be stored, if it was not. `width`, `height`:
    of an image, in pixels, if they are known.
    """

    name: str
    mime: str
    id: str | None = None
    size: int | None = None
    uri: str | None = None
    missing: str | None = None
    width: int | None = None
    height: int | None = None

    def row(self) -> dict[str, Any]:
        """Return the file as the JSON object that entries and items contain. Fields that are None are left out."""
        fields = {"id": self.id, "size": self.size, "name": self.name, "mime": self.mime, "uri": self.uri}
        fields |= {"missing": self.missing, "width": self.width, "height": self.height}
        return {name: value for name, value in fields.items() if value is not None}


def is_attachment(block: object) -> bool:
    """Return whether a value is a content block of another type than text. A block without a type counts as text."""
    return isinstance(block, dict) and block.get("type", "text") != "text"


def describe_attachment(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description of a content block that is not text.

    It is a dict with "type" and, if they are known, "mimeType", "uri", "name" and "size" (bytes). "file" is the stored
    file, or "missing" says why it could not be stored.
    """
    inner = content.get("resource")
    merged = {**content, **inner} if isinstance(inner, dict) else content
    description: dict[str, Any] = {
        k: v for k in ("type", "mimeType", "uri", "name") if isinstance(v := merged.get(k), str)
    }
    description["type"] = str(content.get("type") or "")
    encoded, text, size = merged.get("data") or merged.get("blob"), merged.get("text"), merged.get("size")
    if isinstance(encoded, str):
        description["size"] = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    elif isinstance(text, str):
        description["size"] = len(text.encode("utf-8", "replace"))
    elif isinstance(size, int) and size > 0 and not isinstance(size, bool):
        description["size"] = size
    if isinstance(content.get("file"), AgentFile):
        description["file"] = content["file"]
    elif isinstance(content.get("missing"), str):
        description["missing"] = content["missing"]
    return description


def files_of(content: object) -> list[AgentFile]:
    """Return the files in the `ToolCallContent` list of a tool call, including those that could not be stored."""
    inner = [part.get("content") for part in objects_in(content) if part.get("type") == "content"]
    return [file for block in inner if isinstance(block, dict) and (file := _file_of(block)) is not None]


def _file_of(block: Mapping[str, Any]) -> AgentFile | None:
    description = describe_attachment(block)
    if isinstance(description.get("file"), AgentFile):
        file: AgentFile = description["file"]
        return file
    if "missing" not in description:
        return None
    kind = description["type"] or "file"
    return AgentFile(
        description.get("name") or kind, description.get("mimeType") or kind, missing=description["missing"]
    )
