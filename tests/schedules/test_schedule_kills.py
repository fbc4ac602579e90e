"""`kill -9` between a firing and its turn, over and over: no firing is doubled, none is lost."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from schedule_house import House

from semel.gateway.clock import find_zone
from semel.ledger.admin import books
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import ScheduleRow
from semel.timing import schedule
from semel.timing.walltime import format_instant

pytestmark = pytest.mark.storm

KILLS = 6
FIRINGS_S = 8.0  # for at least so long, the gateway is killed again and again: both schedules are due three times
Json = dict[str, Any]

SCHEDULES = """\
[schedules.often]
every = "1s"
session = "s"
text = "Count."
downtime = "all"
[schedules.alone]
every = 2
text = "Count, too."
downtime = "all"
"""


def test_no_firing_is_doubled_or_lost_however_often_the_gateway_is_killed(tmp_path: Path) -> None:
    house, dice = House(tmp_path, SCHEDULES), random.Random(9)
    try:
        house.up()
        kills, end = 0, time.monotonic() + FIRINGS_S
        while kills < KILLS or time.monotonic() < end:
            time.sleep(dice.uniform(0.3, 1.1))  # a kill at any moment is the point
            house.end()
            house.up()
            kills += 1
        for name in ("often", "alone"):
            assert httpx2.post(f"{house.url}/v1/schedules/{name}/pause", timeout=5).status_code == 200
        house.idle()
        listed = (house.get("/v1/schedules") or {})["schedules"]
    finally:
        house.end()
    store = Store.open_sync(tmp_path / "data" / "ledger.db")
    try:
        assert not [book for book in store.read_sync(books.audit) if not book.ok]
        for shown in listed:
            _judge(store, shown)
    finally:
        store.close()


def _judge(store: Store, shown: Json) -> None:
    """The firings are every due time from the first to the last, each once, each in a turn that ended."""
    row = store.read_sync(lambda tx: tx.one(ScheduleRow, "schedule_get", name=shown["name"]))
    assert row is not None
    heard = store.read_sync(lambda tx: _firings(tx, shown["name"]))
    series = schedule.read_schedule("every", shown["every"], find_zone("UTC"), row.anchor // 1000)
    wanted, at = [], series.next(row.anchor // 1000)
    while at is not None and at * 1000 <= row.fired:
        wanted.append(format_instant(at))
        at = series.next(at)
    assert [key for key, _, _ in heard] == wanted
    assert len(wanted) >= 3
    assert all(state == "done" for _, _, state in heard), heard
    assert row.due // 1000 == at
    assert shown["last"]["due"] == row.fired
    assert shown["last"]["turn"] == heard[-1][1]


def _firings(tx: Any, name: str) -> list[tuple[str, int, str]]:
    sql = (
        "SELECT e.key, h.turn, t.state FROM event e JOIN hearing h ON h.event = e.id LEFT JOIN turn t ON t.id = h.turn "
        "WHERE e.source = :source ORDER BY e.key"
    )
    return [tuple(row) for row in tx._cursor.execute(sql, {"source": f"schedule:{name}"})]
