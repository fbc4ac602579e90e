"""`kill -9` while a file is uploaded, before the message that names it, and before the turn that reads it."""

from __future__ import annotations

import signal
from pathlib import Path

from inbound_world import Chat, until
from test_inbound_kills import Nursery

from semel.gateway.files import blob_id
from semel.ledger.inbound.uploads import measure_waiting
from semel.ledger.sqlite.store import Store

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 999


def count_waiting(path: Path) -> int:
    store = Store.open_sync(path / "ledger.db")
    try:
        return store.read_sync(measure_waiting)[0]
    finally:
        store.close()


async def until_stored(path: Path, *ids: str) -> None:
    async def only_these() -> bool:
        return [file.name for file in (path / "blobs").iterdir()] == list(ids)

    await until(only_these)


async def test_a_file_waits_for_its_message_and_the_message_for_its_turn_wherever_it_is_killed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(PNG)
    id = blob_id(PNG)
    with Nursery(tmp_path) as nursery:
        for place in ("drafted", "stored"):
            assert nursery.run(place) == -signal.SIGKILL, nursery.log()
            assert count_waiting(tmp_path) == 0
        await until_stored(tmp_path, id)
        async with Chat(tmp_path):  # what was not uploaded whole goes at the next start
            await until_stored(tmp_path)
        for place, waiting in (("uploaded", 1), ("said", 0)):
            assert nursery.run(place) == -signal.SIGKILL, nursery.log()
            assert count_waiting(tmp_path) == waiting
    async with Chat(tmp_path) as chat:
        await chat.idle("s")
        [entry] = [entry for entry in await chat.entries("s") if entry["role"] == "user"]
        assert entry["files"] == [{"id": id, "name": "plan.png", "mime": "image/png", "size": len(PNG)}]
        copy = chat.work / ".semel/received" / f"{id[:8]}-plan.png"
        assert copy.read_bytes() == PNG
        assert f".semel/received/{copy.name}" in chat.asked()
        await until_stored(tmp_path, id)
        await chat.gateway.delete("s")
        await until_stored(tmp_path)
