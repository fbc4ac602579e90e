"""Store the files in an agent's stream before the stream is folded (Law 6).

An image, a sound or an embedded resource comes as one content block, beside the text (ACP, Content) or in a tool's
result. This module stores its bytes and puts an `AgentFile` in their place, so that later stages carry no megabytes and
record only stored files. The file's row is written first, as for received files, so that the next gateway can clean up
after a crash. A stored file that no entry uses, because it was a repeat, is released when no signal is left to process.

A block that cannot be stored stays in place with the reason ("missing"); it is described in words later.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import mimetypes
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

import structlog

from semel.acp_stream.attachment import AgentFile, is_attachment
from semel.gateway import files
from semel.gateway.file_store import FileStore, HeldFiles
from semel.gateway.files import MAX_FILE_BYTES, plain_mime, plain_name
from semel.gateway.image_size import HEAD_BYTES, read_image_size
from semel.gateway.record import LedgerAccess
from semel.ledger.storage.errors import LedgerError
from semel.text.json_types import Json
from semel.text.wellformed import one_line

log = structlog.get_logger("semel.agents")


MAX_URI_CHARS = 2_000
MESSAGE_CHUNKS = frozenset(("agent_message_chunk", "agent_thought_chunk"))
WHOLE_MESSAGES = frozenset(("agent_message", "agent_thought"))  # ACP v2: a message as a list of blocks
TOOL_CALLS = frozenset(("tool_call", "tool_call_update"))
TOOL_CALL_CHUNK = "tool_call_content_chunk"  # ACP v2: one more piece of a call's content
_NAMES = {"image": "image", "audio": "sound", "resource": "document", "resource_link": "document"}
_ENDINGS = {"image/jpeg": ".jpg", "image/webp": ".webp", "audio/wav": ".wav", "audio/mpeg": ".mp3", "audio/ogg": ".ogg"}


class Unreadable(ValueError):
    """The content of a block cannot be stored. The message is the reason, for people."""


class AgentFiles(HeldFiles):
    """The store of the files in one agent's stream.

    Call `take` for each update, in order, and `release` after recording.
    """

    def __init__(self, record: LedgerAccess, store: FileStore) -> None:
        super().__init__(record, store)
        self.is_storing = False

    async def take(self, update: Json) -> Json:
        """Store the files of an update. Return the update with an `AgentFile` in place of each file's bytes."""
        if not carries_files(update):
            return update
        self.is_storing = True
        try:
            return await self._store_files(update)
        finally:
            self.is_storing = False

    async def _store_files(self, update: Json) -> Json:
        kind, content = update.get("sessionUpdate"), update.get("content")
        if kind in MESSAGE_CHUNKS:
            return {**update, "content": await self.store_block(content)}
        if kind == TOOL_CALL_CHUNK:
            return {**update, "content": await self._store_part(content)}
        parts = [] if not isinstance(content, list) else [await self._store_part(part) for part in content]
        if kind in TOOL_CALLS and not any(map(_holds_file, parts)):  # otherwise the raw output only repeats these files
            blocks = [block for block in _result_blocks(update.get("rawOutput")) if is_attachment(block)]
            parts += [{"type": "content", "content": await self.store_block(block)} for block in blocks]
        return {**update, "content": parts}

    async def _store_part(self, part: Any) -> Any:
        """Store the file in a part of a message or of a tool call's content. Return the part as `take` does."""
        if not isinstance(part, dict):
            return part
        if part.get("type") == "content":
            inner = part.get("content")
            return {**part, "content": await self.store_block(inner)} if is_attachment(inner) else part
        return part if part.get("type") in ("text", "diff", "terminal", None) else await self.store_block(part)

    async def store_block(self, block: Any) -> Json:
        """Store the file of a content block.

        Return the block with its `AgentFile` as "file", or with the reason as "missing".
        """
        fields = {name: value for name, value in block.items() if name in ("type", "mimeType", "uri", "name", "size")}
        resource = block.get("resource")
        if isinstance(resource, dict):
            fields |= {name: value for name, value in resource.items() if name in ("mimeType", "uri")}
        if str(fields.get("uri")).startswith("data:"):
            del fields["uri"]  # a data URI contains the whole file
        try:
            content = await asyncio.to_thread(read_block, block)
            if isinstance(content, AgentFile):
                return {**fields, "file": content}
            file, data = content
            assert file.id is not None
            if not self._held[file.id]:  # else it is stored: agents repeat a call's content with each update
                write = partial(self.store.content.store_bytes, data, file.name, file.mime)
                await self.hold(file.id, len(data), file.name, file.mime, write)
            return {**fields, "size": file.size, "file": file}
        except Unreadable as error:
            return {**fields, "missing": str(error)}
        except (files.StoreFailed, LedgerError) as error:
            log.warning("a file of an agent could not be stored", why=str(error))
            return {**fields, "missing": "it could not be stored"}


def carries_files(update: Mapping[str, Any]) -> bool:
    """Return whether an update contains a content block other than text."""
    kind, content = update.get("sessionUpdate"), update.get("content")
    if kind in MESSAGE_CHUNKS:
        return is_attachment(content)
    if kind in WHOLE_MESSAGES:
        return isinstance(content, list) and any(map(is_attachment, content))
    if kind == TOOL_CALL_CHUNK:
        return isinstance(content, dict) and is_attachment(content.get("content"))
    if kind not in TOOL_CALLS:
        return False
    inner = [part.get("content") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return any(map(is_attachment, inner)) or any(map(is_attachment, _result_blocks(update.get("rawOutput"))))


def _holds_file(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("content"), dict) and "file" in part["content"]


def _result_blocks(raw: Any) -> list[Any]:
    """Return the content blocks of an MCP result (`CallToolResult`). Agents pass it on as the raw output of a call."""
    for _ in range(3):
        if isinstance(raw, list):
            return [block for block in raw if isinstance(block, dict) and block.get("type") in _NAMES]
        if not isinstance(raw, dict):
            return []
        raw = raw.get("content") if raw.get("content") is not None else raw.get("result")
    return []


# ---------------------------------------------------------------- the content of a block


def read_block(block: Mapping[str, Any]) -> AgentFile | tuple[AgentFile, bytes]:
    """Return the file of a content block and its bytes, or only the file if the block is a link. Raises Unreadable."""
    kind = block.get("type")
    if kind not in _NAMES:
        raise Unreadable("its type is not known")
    holder = block.get("resource") if kind == "resource" else block
    fields: Mapping[str, Any] = holder if isinstance(holder, dict) else {}
    uri = fields.get("uri") if isinstance(fields.get("uri"), str) else None
    mime = str(fields.get("mimeType") or "")
    data = _read_content(fields, kind, uri)
    if data is None:
        return _read_link(fields, kind, uri, mime)
    if not data:
        raise Unreadable("it is empty")
    if len(data) > MAX_FILE_BYTES:
        raise Unreadable(f"it is larger than {MAX_FILE_BYTES:,} bytes")
    if not mime and uri is not None and uri.startswith("data:"):
        mime = uri[len("data:") :].partition(",")[0].partition(";")[0]
    if not mime:
        mime = "text/plain" if isinstance(fields.get("text"), str) else _guess_mime(uri)
    mime = plain_mime(mime)
    width, height = read_image_size(data[:HEAD_BYTES]) or (None, None)
    name = _choose_name(fields, kind, uri, mime)
    return AgentFile(name, mime, files.blob_id(data), len(data), width=width, height=height), data


def _read_content(fields: Mapping[str, Any], kind: str, uri: str | None) -> bytes | None:
    if fields.get("leftOut"):  # the agent's line was too long: only its ends were kept
        raise Unreadable(f"it is larger than {MAX_FILE_BYTES:,} bytes")
    encoded = fields.get("blob" if kind == "resource" else "data")
    if kind == "resource" and isinstance(text := fields.get("text"), str):
        return text.encode("utf-8", "replace")
    if encoded is None and uri is not None and uri.startswith("data:"):
        encoded = uri
    if encoded is None or kind == "resource_link":
        return None
    if not isinstance(encoded, str):
        raise Unreadable("its data cannot be read")
    if encoded.startswith("data:"):
        encoded = encoded.partition(",")[2]
    if len(encoded) > MAX_FILE_BYTES * 4 // 3 + 4:
        raise Unreadable(f"it is larger than {MAX_FILE_BYTES:,} bytes")
    try:
        return base64.b64decode("".join(encoded.split()), validate=True)
    except (binascii.Error, ValueError):
        raise Unreadable("its data cannot be read") from None


def _read_link(fields: Mapping[str, Any], kind: str, uri: str | None, mime: str) -> AgentFile:
    if not uri:
        raise Unreadable("it has no data")
    size = fields.get("size")
    known_size = size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None
    mime = plain_mime(mime or _guess_mime(uri))
    return AgentFile(_choose_name(fields, kind, uri, mime), mime, None, known_size, one_line(uri, MAX_URI_CHARS))


def _guess_mime(uri: str | None) -> str:
    return (mimetypes.guess_type(_uri_path(uri))[0] or "") if uri else ""


def _uri_path(uri: str) -> str:
    try:
        return unquote(urlsplit(uri).path)
    except ValueError:
        return ""


def _choose_name(fields: Mapping[str, Any], kind: str, uri: str | None, mime: str) -> str:
    """Return the file's given name, or else the last part of its URI, or else a word for its type."""
    name = fields.get("name") or fields.get("title")
    if isinstance(name, str) and name.strip():
        return plain_name(name)
    if uri and not uri.startswith("data:") and (last := _uri_path(uri).rstrip("/").rpartition("/")[2]):
        return plain_name(last)
    ending = _ENDINGS.get(mime) or mimetypes.guess_extension(mime) or ""
    return _NAMES[kind] + ending
