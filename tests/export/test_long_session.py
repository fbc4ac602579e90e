"""A session of 100,000 entries: found in, and exported, in the memory of a short one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gateway_world import World, until

from semel.faces.documents import JsonlDocument
from semel.ledger.admin import export
from semel.ledger.inbound import hear as rows
from semel.ledger.storage.sql import Tx

ENTRIES = 100_000

MANY = """
WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < :entries)
INSERT INTO {table}
"""


def fill(tx: Tx) -> None:
    """One event that is heard, and copies of its rows: what so many messages would have left."""
    rows.hear(
        tx,
        rows.Event("test", "k1", "note", "word1 first", b"d", wakes=False),
        [rows.Addressee("long", "demo", "web:long")],
    )
    cursor = tx._cursor
    told = {"entries": ENTRIES}
    event = "event(id, source, key, kind, digest, payload, at) SELECT i, 'test', 'k' || i, 'note', x'64', "
    cursor.execute(MANY.format(table=event + "json_object('text', 'word' || i), i FROM n"), told)
    hearing = "hearing(event, session, seq, wakes) SELECT i, 1, i, 0 FROM n"
    cursor.execute(MANY.format(table=hearing), told)
    entry = "entry(session, seq, born, rev, base, at, role, chapter, text, event) "
    entry += "SELECT 1, i, i + 2, i + 2, i + 2, i, 'event', 1, "
    text = "'word' || i || ' and some of the words that people say to each other number ' || (i % 1000)"
    cursor.execute(MANY.format(table=f"{entry}{text}, i FROM n"), told)
    cursor.execute("UPDATE session SET seq = :entries, rev = :entries + 2", told)


def resident() -> int:
    """MiB of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


@pytest.mark.long
async def test_a_long_session_is_indexed_found_in_and_exported_in_flat_memory(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await world.gateway.record.write(fill)

        async def current() -> bool:
            return bool((await world.gateway.searches.find("word777"))["index"]["current"])

        before = resident()
        await until(current, 120)
        assert [hit["seq"] for hit in (await world.gateway.searches.find("word77777"))["hits"]] == [77_777]
        assert len((await world.gateway.searches.find("people", limit=100))["hits"]) == 100
        document, size, most = JsonlDocument(), 0, 0
        async for records in world.gateway.export("long"):
            assert len(records) <= export.PAGE
            size += len(document.page(records))
            most = max(most, resident())
        assert size > 20_000_000
        assert most - before < 80, "MiB"
