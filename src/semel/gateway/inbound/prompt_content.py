"""Check a prompt that comes as ACP content blocks, and store what is large in it (Law 1).

Each image, sound and embedded resource becomes a file of the message, as an attachment from a chat does: people see it,
and the ledger's rows stay small. The event keeps the blocks; in each, {"blob": ID} stands for the content that is in
the file. `semel.gateway.turns.prompt_blocks` puts it back, byte for byte. So base64 must be in its canonical form.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec
from msgspec import Struct

from semel.acp_stream.attachment import AgentFile
from semel.gateway import files
from semel.gateway.errors import BadRequest, GatewayUnavailable
from semel.gateway.file_store import HeldFiles
from semel.gateway.turns.agent_files import Unreadable, read_block
from semel.text.content_blocks import describe_blocks, drop_beginning
from semel.text.json_types import Json

MAX_BLOCKS = 200
KINDS = ("text", "image", "audio", "resource", "resource_link")


class _Text(Struct, tag_field="type", tag="text"):
    text: str


class _Image(Struct, tag_field="type", tag="image", rename="camel"):
    data: str
    mime_type: str


class _Audio(Struct, tag_field="type", tag="audio", rename="camel"):
    data: str
    mime_type: str


class _Contents(Struct):
    uri: str
    text: str | None = None
    blob: str | None = None


class _Resource(Struct, tag_field="type", tag="resource"):
    resource: _Contents


class _Link(Struct, tag_field="type", tag="resource_link"):
    uri: str
    name: str


_Block = _Text | _Image | _Audio | _Resource | _Link
"""The fields of a block that ACP demands. Others are kept unchecked."""


@dataclass(frozen=True)
class PromptContent:
    """A checked prompt. `blocks`: as the event keeps them. `files`: the content that they refer to.

    `text`, `mentions`: what people read, and the places in it that nobody typed (`semel.text.content_blocks`).
    """

    blocks: tuple[Json, ...]
    files: tuple[tuple[AgentFile, bytes], ...]
    text: str
    mentions: tuple[Json, ...]

    @property
    def entry_fields(self) -> Json:
        """The fields of the message's entry: "files", each once, and "mentions"."""
        rows = list({str(file.id): file.row() for file, _ in self.files}.values())
        return ({"files": rows} if rows else {}) | ({"mentions": list(self.mentions)} if self.mentions else {})

    def without_command(self, text: str, rest: str) -> PromptContent:
        """Return the prompt without the command to Semel with which its text begins, such as `/queue`.

        `text`: the whole text. `rest`: its part after the command; trailing blank space may be missing.
        """
        whole = text if text.endswith(rest) else text.rstrip()
        blocks = tuple(drop_beginning(self.blocks, len(whole) - len(rest)))
        text, mentions = describe_blocks(blocks)
        return replace(self, blocks=blocks, text=text, mentions=tuple(mentions))


def read_content(blocks: Sequence[Json]) -> PromptContent:
    """Check a prompt. Raises BadRequest, whose message names the block. Decodes files, so call it in a thread."""
    if not 0 < len(blocks) <= MAX_BLOCKS:
        raise BadRequest(f"blocks: a prompt has 1 to {MAX_BLOCKS} blocks, this one has {len(blocks)}")
    stored: list[tuple[AgentFile, bytes]] = []
    kept = tuple(_read_block(f"blocks[{n}]", block, stored) for n, block in enumerate(blocks))
    text, mentions = describe_blocks(blocks)
    if not text.strip() and not stored:
        raise BadRequest("blocks: a prompt needs a text that is not blank, or a file")
    return PromptContent(kept, tuple(stored), text, tuple(mentions))


def _read_block(place: str, block: Json, stored: list[tuple[AgentFile, bytes]]) -> Json:
    """Return the block as the event keeps it. Its file, if it has one, is appended to `stored`."""
    try:
        checked = msgspec.convert(block, _Block)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{place}: {error}; a block's type is one of {', '.join(KINDS)}, as in ACP") from None
    if isinstance(checked, _Image | _Audio):
        check_base64(f"{place}.data", checked.data)
        return {**block, "data": _store(place, block, stored)}
    if not isinstance(checked, _Resource):
        return block
    contents = checked.resource
    if (contents.text is None) == (contents.blob is None):
        raise BadRequest(f"{place}.resource: it has either `text` or `blob`")
    if contents.text == "":
        return block
    if contents.blob is not None:
        check_base64(f"{place}.resource.blob", contents.blob)
    name = "text" if contents.blob is None else "blob"
    return {**block, "resource": {**block["resource"], name: _store(place, block, stored)}}


def check_base64(place: str, encoded: str) -> None:
    """Raise BadRequest unless this is base64 that decoding and encoding leaves as it is. `place`: names the field."""
    try:
        canonical = base64.b64encode(base64.b64decode(encoded, validate=True)).decode() == encoded
    except (binascii.Error, ValueError):
        canonical = False
    if not canonical:
        raise BadRequest(f"{place}: it is not base64 (RFC 4648, section 4) with padding and without line breaks")


def _store(place: str, block: Json, stored: list[tuple[AgentFile, bytes]]) -> Json:
    try:
        content = read_block(block)
    except Unreadable as error:
        raise BadRequest(f"{place}: {error}") from None
    assert not isinstance(content, AgentFile)  # it has data, so it is no link
    stored.append(content)
    return {"blob": content[0].id}


async def hold_files(held: HeldFiles, content: PromptContent) -> None:
    """Store the files of a prompt, and hold them until `held.release()`. Raises GatewayUnavailable, LedgerError."""
    try:
        for file, data in content.files:
            assert file.id is not None
            write = partial(held.store.content.store_bytes, data, file.name, file.mime)
            await held.hold(file.id, len(data), file.name, file.mime, write)
    except files.StoreFailed as error:
        raise GatewayUnavailable(str(error)) from None


async def check_content(blocks: Sequence[Json]) -> PromptContent:
    """Do what `read_content` does, without blocking the event loop."""
    return await asyncio.to_thread(read_content, blocks)
