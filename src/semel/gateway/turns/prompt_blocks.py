"""Give an agent the content blocks of a prompt as they came (`semel.gateway.inbound.prompt_content`).

An agent says in `initialize` which kinds it takes besides text and links (ACP `PromptCapabilities`). It gets a link to
a copy in its workspace in place of an image, a sound or a binary resource that it does not take, and a text in place of
an embedded text.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from semel.gateway import files
from semel.gateway.files import StoredFiles
from semel.gateway.ports import Conversation
from semel.gateway.turns.prompt_files import WorkspaceFiles, copy_file, copy_received_files, workspace_path
from semel.ledger.storage.errors import LedgerError
from semel.ledger.turns.turn_events import TurnEvent
from semel.text.json_types import Json, object_at, objects_in, text_at

log = structlog.get_logger("semel.received")


_STORED_FIELDS = {"image": ("data",), "audio": ("data",), "resource": ("text", "blob")}
"""The fields whose content may be in a file, by kind."""


@dataclass(frozen=True)
class TakenKinds:
    """Which kinds of blocks an agent takes besides text and links."""

    images: bool = False
    audio: bool = False
    resources: bool = False

    def include(self, kind: str) -> bool:
        return {"image": self.images, "audio": self.audio, "resource": self.resources}.get(kind, True)


async def copy_files(
    store: StoredFiles, workspace: Path, events: Sequence[TurnEvent], agent: Conversation
) -> WorkspaceFiles:
    """Copy the files of these events into the agent's workspace, and restore those that came as content blocks."""
    taken = TakenKinds(agent.images, agent.audio, agent.resources)
    blocks = await restore_blocks(store, workspace, events, taken)
    return replace(await copy_received_files(store, workspace, events, images=agent.images), blocks=blocks)


async def restore_blocks(
    store: StoredFiles, workspace: Path, events: Sequence[TurnEvent], taken: TakenKinds
) -> Mapping[int, list[Json]]:
    """Return the blocks for the agent of each of these events that came as blocks, by event id. Never raises.

    `workspace`: where the agent's own tools can read a file.
    """
    came_as_blocks = [event for event in events if event.blocks]
    if not came_as_blocks:
        return {}
    return await asyncio.to_thread(
        lambda: {event.event: _Restorer(store, workspace, event, taken).restore() for event in came_as_blocks}
    )


class _Restorer:
    def __init__(self, store: StoredFiles, workspace: Path, event: TurnEvent, taken: TakenKinds) -> None:
        self.store, self.workspace, self.event, self.taken = store, workspace, event, taken

    def restore(self) -> list[Json]:
        return [self._restore_block(block) for block in self.event.blocks]

    def _restore_block(self, block: Json) -> Json:
        kind = str(block.get("type"))
        holder = object_at(block, "resource") if kind == "resource" else block
        name = next((name for name in _STORED_FIELDS.get(kind, ()) if isinstance(holder.get(name), dict)), None)
        if name is None:
            return block if self.taken.include(kind) else _quote_resource(holder, "")
        try:
            return self._fill_in(block, kind, holder, name)
        except (files.StoreFailed, LedgerError, OSError, ValueError) as error:
            log.warning("a file of a prompt is not given to the agent", event_id=self.event.event, why=str(error))
            return {"type": "text", "text": f"[a file ({kind}) that came here could not be read]"}

    def _fill_in(self, block: Json, kind: str, holder: Json, name: str) -> Json:
        """Return the block with the stored content of its field `name`, or what stands for it."""
        id = text_at(holder, name, "blob") or ""
        if not self.taken.include(kind) and name != "text":
            return self._link_to_copy(id)
        with self.store.open(id) as source:
            data = source.read()
        content = data.decode() if name == "text" else base64.b64encode(data).decode("ascii")
        if not self.taken.include(kind):
            return _quote_resource(holder, content)
        filled = {**holder, name: content}
        return {**block, "resource": filled} if kind == "resource" else filled

    def _link_to_copy(self, id: str) -> Json:
        files_by_id = {file.get("id"): file for file in objects_in(self.event.entry_fields.get("files"))}
        if (file := files_by_id.get(id)) is None:
            raise ValueError("its entry does not name it")
        copy_file(self.store, self.workspace, file)
        uri = (self.workspace.absolute() / workspace_path(file)).as_uri()
        return {
            "type": "resource_link", "uri": uri, "name": file["name"], "mimeType": file["mime"], "size": file["size"]
        }  # fmt: skip


def _quote_resource(contents: Json, text: str) -> Json:
    return {"type": "text", "text": f'<context ref="{contents.get("uri", "")}">\n{text}\n</context>'}
