"""Store the files in an agent's stream before the stream is folded (Law 6).

An image, a sound or an embedded resource comes as one content block, beside the text (ACP, Content) or in a tool's
result. Its bytes are replaced here by an `AgentFile`, so that later stages carry no megabytes and record only stored
files. The file's row is written first, as for received files, so that the next gateway can clean up
after a crash. A stored file that no entry uses, because it was a repeat, is released once no signal of the agent waits.

A block that cannot be stored stays in place with the reason (`missing`), and is described in words.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import mimetypes
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import structlog

from semel.acp_stream.attachment import AgentFile, is_attachment
from semel.gateway import files
from semel.gateway.files import MAX_FILE_BYTES, Copies, plain_mime, plain_name
from semel.gateway.transactions import Record
from semel.ledger.inbound import channel_batch as rows
from semel.ledger.storage.errors import LedgerError
from semel.text.wellformed import one_line

log = structlog.get_logger("semel.agents")

Json = dict[str, Any]

MAX_URI_CHARS = 2_000
CHUNKS = frozenset(("agent_message_chunk", "agent_thought_chunk"))
WHOLE = frozenset(("agent_message", "agent_thought"))  # ACP v2: a message as a list of blocks
CALLS = frozenset(("tool_call", "tool_call_update"))
CALL_CHUNK = "tool_call_content_chunk"  # ACP v2: one more piece of a call's content
_NAMES = {"image": "image", "audio": "sound", "resource": "document", "resource_link": "document"}
_ENDINGS = {"image/jpeg": ".jpg", "image/webp": ".webp", "audio/wav": ".wav", "audio/mpeg": ".mp3", "audio/ogg": ".ogg"}


class Unreadable(ValueError):
    """The content of a block cannot be stored. The message gives the reason, for people."""


class AgentFiles:
    """The files of one agent process. `take` each update, in order; `release` what was not recorded."""

    def __init__(self, record: Record, blobs: Path, copies: Copies, gone: Callable[[], None]) -> None:
        self.record = record
        self.blobs = blobs
        self.copies = copies
        self.gone = gone  # called when a file may have become unused
        self.is_storing = False
        self._kept: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<AgentFiles {self._kept.total()} kept>"

    async def take(self, update: Json) -> Json:
        """Store the files of an update and return it with references in their place."""
        if not carries_files(update):
            return update
        self.is_storing = True
        try:
            return await self._take(update)
        finally:
            self.is_storing = False

    async def _take(self, update: Json) -> Json:
        kind, content = update.get("sessionUpdate"), update.get("content")
        if kind in CHUNKS:
            return {**update, "content": await self.store(content)}
        if kind == CALL_CHUNK:
            return {**update, "content": await self._part(content)}
        parts = [] if not isinstance(content, list) else [await self._part(part) for part in content]
        if kind in CALLS and not any(map(_is_filled, parts)):  # else its result is the same once more
            found = [block for block in _result_blocks(update.get("rawOutput")) if is_attachment(block)]
            parts += [{"type": "content", "content": await self.store(block)} for block in found]
        return {**update, "content": parts}

    async def _part(self, part: Any) -> Any:
        """A block of a message, or one within a tool call's content."""
        if not isinstance(part, dict):
            return part
        if part.get("type") == "content":
            inner = part.get("content")
            return {**part, "content": await self.store(inner)} if is_attachment(inner) else part
        return part if part.get("type") in ("text", "diff", "terminal", None) else await self.store(part)

    async def store(self, block: Any) -> Json:
        """Store a content block. Returns it with a reference to its file, or with the reason why it is `missing`."""
        told = {name: value for name, value in block.items() if name in ("type", "mimeType", "uri", "name", "size")}
        inner = block.get("resource")
        if isinstance(inner, dict):
            told |= {name: value for name, value in inner.items() if name in ("mimeType", "uri")}
        if str(told.get("uri")).startswith("data:"):
            del told["uri"]  # that is all of it
        try:
            found = await asyncio.to_thread(read_block, block)
            if isinstance(found, AgentFile):
                return {**told, "file": found}
            file, data = found
            return {**told, "size": file.size, "file": await self._keep(file, data)}
        except Unreadable as fault:
            return {**told, "missing": str(fault)}
        except (files.StoreFailed, LedgerError) as fault:
            log.warning("a file of an agent could not be stored", why=str(fault))
            return {**told, "missing": "it could not be stored"}

    async def _keep(self, file: AgentFile, data: bytes) -> AgentFile:
        assert file.id is not None
        if self._kept[file.id]:  # agents repeat a call's content with each update
            return file
        with self.copies:
            await self.record.write(rows.keep, file.id, len(data), file.name, file.mime)
            self._kept[file.id] += 1
            self.copies.kept[file.id] += 1
            await asyncio.to_thread(files.keep_bytes, self.blobs, data)
        return file

    async def release(self) -> None:
        """Release the stored files. Entries hold those that were recorded; the others are removed."""
        left, self._kept = +self._kept, Counter()
        if not left:
            return
        for id, times in left.items():
            self.copies.kept[id] -= times
            if self.copies.kept[id] <= 0:
                del self.copies.kept[id]
        try:
            await self.record.write(rows.let_go, list(left))
        except LedgerError as fault:  # the next start does it
            log.warning("files that an agent repeated stay until the next start", why=str(fault))
        self.gone()


def carries_files(update: Mapping[str, Any]) -> bool:
    """Whether an update holds a content block that is no text."""
    kind, content = update.get("sessionUpdate"), update.get("content")
    if kind in CHUNKS:
        return is_attachment(content)
    if kind in WHOLE:
        return isinstance(content, list) and any(map(is_attachment, content))
    if kind == CALL_CHUNK:
        return isinstance(content, dict) and is_attachment(content.get("content"))
    if kind not in CALLS:
        return False
    inner = [part.get("content") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return any(map(is_attachment, inner)) or any(map(is_attachment, _result_blocks(update.get("rawOutput"))))


def _is_filled(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("content"), dict) and "file" in part["content"]


def _result_blocks(raw: Any) -> list[Any]:
    """The content blocks of an MCP result (`CallToolResult`), which agents pass on as a call's raw output."""
    for _ in range(3):
        if isinstance(raw, list):
            return [block for block in raw if isinstance(block, dict) and block.get("type") in _NAMES]
        if not isinstance(raw, dict):
            return []
        raw = raw.get("content") if raw.get("content") is not None else raw.get("result")
    return []


# ---------------------------------------------------------------- what a block holds


def read_block(block: Mapping[str, Any]) -> AgentFile | tuple[AgentFile, bytes]:
    """The file of a content block with its bytes, or only the file if the block is a mere link. Raises Unreadable."""
    kind = block.get("type")
    if kind not in _NAMES:
        raise Unreadable("it is of a type that is not known")
    inner = block.get("resource") if kind == "resource" else block
    told: Mapping[str, Any] = inner if isinstance(inner, dict) else {}
    uri = told.get("uri") if isinstance(told.get("uri"), str) else None
    mime = str(told.get("mimeType") or "")
    data = _content(told, kind, uri)
    if data is None:
        return _named(told, kind, uri, mime)
    if not data:
        raise Unreadable("it is empty")
    if len(data) > MAX_FILE_BYTES:
        raise Unreadable(f"it is larger than {MAX_FILE_BYTES:,} bytes")
    if not mime and uri is not None and uri.startswith("data:"):
        mime = uri[len("data:") :].partition(",")[0].partition(";")[0]
    if not mime:
        mime = "text/plain" if isinstance(told.get("text"), str) else _guessed(uri)
    mime = plain_mime(mime)
    return AgentFile(_name(told, kind, uri, mime), mime, files.digest(data), len(data)), data


def _content(told: Mapping[str, Any], kind: str, uri: str | None) -> bytes | None:
    if told.get("leftOut"):  # the agent's line was too long: only its ends were kept
        raise Unreadable(f"it is larger than {MAX_FILE_BYTES:,} bytes")
    encoded = told.get("blob" if kind == "resource" else "data")
    if kind == "resource" and isinstance(text := told.get("text"), str):
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


def _named(told: Mapping[str, Any], kind: str, uri: str | None, mime: str) -> AgentFile:
    if not uri:
        raise Unreadable("it holds no data")
    size = told.get("size")
    known = size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None
    mime = plain_mime(mime or _guessed(uri))
    return AgentFile(_name(told, kind, uri, mime), mime, None, known, one_line(uri, MAX_URI_CHARS))


def _guessed(uri: str | None) -> str:
    return (mimetypes.guess_type(_path(uri))[0] or "") if uri else ""


def _path(uri: str) -> str:
    try:
        return unquote(urlsplit(uri).path)
    except ValueError:
        return ""


def _name(told: Mapping[str, Any], kind: str, uri: str | None, mime: str) -> str:
    """The file's name: as given, else the last part of its URI, else a word for its type."""
    given = told.get("name") or told.get("title")
    if isinstance(given, str) and given.strip():
        return plain_name(given)
    if uri and not uri.startswith("data:") and (last := _path(uri).rstrip("/").rpartition("/")[2]):
        return plain_name(last)
    ending = _ENDINGS.get(mime) or mimetypes.guess_extension(mime) or ""
    return _NAMES[kind] + ending
