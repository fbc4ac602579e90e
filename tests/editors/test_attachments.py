"""A session that an editor has open, beside a gateway that only sends what the test says."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from semel.faces.acp.attachment import Attachment
from semel.faces.acp.clients import CLIENTS

Json = dict[str, Any]
ENTRY: Json = {"seq": 1, "born": 1, "rev": 1, "role": "agent", "text": "hello"}
REQUEST: Json = {
    "id": 1, "born": 2, "rev": 2, "kind": "permission", "state": "open", "title": "ls", "text": "",
    "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
}  # fmt: skip
SNAPSHOT: Json = {
    "type": "snapshot", "rev": 2, "session": {"state": "running"}, "entries": [ENTRY], "items": [REQUEST], "more": False
}  # fmt: skip


class QuietGateway:
    """The link and the client: a stream with one snapshot, after which nothing happens."""

    async def connect(self) -> QuietGateway:
        return self

    async def stream(self, key: str, rev: int | None) -> AsyncIterator[Json]:
        yield SNAPSHOT
        await asyncio.Event().wait()


class QuietEditor:
    client = CLIENTS["zed"]
    connection = "acp-1"
    name = "zed"
    is_full = False

    def __init__(self) -> None:
        self.asked: dict[str, Callable[[Json], None]] = {}

    def write(self, lines: Sequence[bytes]) -> None:
        pass

    def ask(self, method: str, params: Json, done: Callable[[Json], None]) -> str:
        self.asked[method] = done
        return method

    def withdraw(self, request: str) -> None:
        del self.asked[request]


async def test_a_session_that_is_opened_again_leaves_nothing_for_the_garbage_collector() -> None:
    """Its rows would stay: the collector hardly runs in a process whose memory is text."""
    gateway: Any = QuietGateway()
    editor = QuietEditor()
    attachment = Attachment("s", editor, gateway, {})
    await attachment.start(replays=False)
    attachment.open()
    assert editor.asked
    kept = [weakref.ref(attachment), weakref.ref(attachment.view)]
    gc.disable()
    try:
        attachment.close()
        del attachment
        for _ in range(10):
            await asyncio.sleep(0)
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()
