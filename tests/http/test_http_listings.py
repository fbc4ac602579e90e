"""One way of paging: every listing answers `more` and `next`, and takes `next` as `after`."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from gateway_house import GatewayHouse

from semel.faces.http.operations import operations
from semel.faces.http.routing import Operation, Page
from semel.ledger.storage.rows import SessionRow
from semel.ledger.storage.sql import Tx

LISTINGS = [o for o in operations() if isinstance(shape := o.returns.get(200) and o.returns[200].type, type)
            and issubclass(shape, Page)]  # fmt: skip
ROWS = {
    "listSessions": ("sessions", "key"), "listEntries": ("entries", "seq"), "readHistory": ("entries", "seq"),
    "search": ("hits", "seq"), "listParts": ("parts", "id"), "listQuarantined": ("quarantined", "event"),
    "listSessionJobs": ("jobs", "id"), "listJobs": ("jobs", "id"), "listChannels": ("channels", "name"),
    "listSchedules": ("schedules", "name"), "listPeople": ("people", "name"),
    "listLimits": ("limits", "subject"),
}  # fmt: skip


async def test_a_relative_folder_is_a_bad_field_and_not_an_empty_list(client: httpx2.AsyncClient) -> None:
    refused = await client.get("/v1/sessions", params={"folder": "garden"})
    assert (refused.status_code, refused.json()["field"]) == (400, "folder")
    assert refused.json()["detail"] == "A folder is an absolute path, and 'garden' is not."


async def test_a_session_made_under_an_unknown_agents_name_has_a_note(client: httpx2.AsyncClient) -> None:
    notes = [(await client.put(f"/v1/sessions/{key}")).json().get("note") for key in ("mian:a", "main:a", "mian:a")]
    assert notes == ["No agent is named 'mian'; did you mean main? The default agent, main, answers here.", None, None]


def in_pages(operation: Operation) -> bool:
    return any(param.name == "limit" for param in operation.query)


def add_rows(tx: Tx, events: list[int], day: str) -> None:
    """Five jobs of the session `s`, five events in quarantine, and five people who used something on that day."""
    session = tx.one(SessionRow, "session_by_key", key="s")
    assert session is not None
    for n in range(5):
        about = {"session": session.id, "agent": "main", "turn": None}
        tx.run("quarantine_add", event=events[n], channel="chat", why="unreadable")
        used = {"turns": n, "tokens": 0, "cost": 0.0, "unreported": 0}
        tx.run("spent_add", day=day, person=f"person-{n}", session=None, **used)
        tx.value(int, "job_add", run=f"job-{n}", command="make", name="", seconds=60, at=tx.now, gateway=None, **about)


@pytest.fixture
async def filled(world: GatewayHouse) -> GatewayHouse:
    """A gateway in which each listing has five rows or more."""
    for n in range(5):
        await (await world.script(f"s{n}")).entry("user", "hello there")
    script = await world.script("s")
    await script.entries([("user", f"hello {n}", {}) for n in range(5)])
    events = [(await world.gateway.report("s", "note", f"note {n}", wakes=False)).event for n in range(5)]
    today = await world.gateway.limits()
    await world.gateway.record.write(add_rows, events, today["day"])
    await world.hold("hello " * 20)
    return world


async def pages(client: httpx2.AsyncClient, operation: Operation, limit: int) -> list[dict[str, Any]]:
    path = operation.path.replace("{key}", "s")
    query = {"limit": limit, **({"q": "hello"} if operation.name == "search" else {})}
    found: list[dict[str, Any]] = []
    while True:
        answer = await client.get(path, params={**query, **({"after": found[-1]["next"]} if found else {})})
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
        if not found[-1]["more"]:
            return found
        assert len(found) < 100, "the loop does not end"


@pytest.mark.parametrize("operation", [o for o in LISTINGS if in_pages(o)], ids=lambda o: o.name)
async def test_pages_of_any_size_hold_every_row_once_and_the_loop_ends(
    filled: GatewayHouse, client: httpx2.AsyncClient, operation: Operation
) -> None:
    name, key = ROWS[operation.name]
    (whole,) = await pages(client, operation, 100)
    assert len(whole[name]) >= 5, whole
    for limit in (1, 2, 5, len(whole[name])):
        found = await pages(client, operation, limit)
        rows = [(row.get("session"), row[key]) for page in found for row in page[name]]
        assert sorted(rows, key=str) == sorted([(row.get("session"), row[key]) for row in whole[name]], key=str)
        assert all(len(page[name]) == limit for page in found[:-1])
        assert (found[-1]["next"] is None) != (operation.name == "listEntries")


@pytest.mark.parametrize("operation", [o for o in LISTINGS if in_pages(o)], ids=lambda o: o.name)
async def test_a_page_of_no_rows_is_refused(client: httpx2.AsyncClient, operation: Operation) -> None:
    answer = await client.get(operation.path.replace("{key}", "s"), params={"limit": 0})
    assert (answer.status_code, answer.json()["field"]) == (400, "limit")
    assert "must be a whole number from 1 to" in answer.json()["detail"]


@pytest.mark.parametrize("operation", [o for o in LISTINGS if not in_pages(o)], ids=lambda o: o.name)
async def test_a_listing_of_one_page_says_that_it_is_whole(client: httpx2.AsyncClient, operation: Operation) -> None:
    answer = (await client.get(operation.path)).json()
    assert (answer["more"], answer["next"]) == (False, None)


async def test_after_and_the_older_before_are_not_mixed(filled: GatewayHouse, client: httpx2.AsyncClient) -> None:
    for path in ("/v1/sessions", "/v1/parts", "/v1/quarantined", "/v1/sessions/s/history"):
        answer = await client.get(path, params={"after": "1", "before": "1"})
        assert (answer.status_code, answer.json()["field"]) == (400, "before"), path


async def test_changes_after_the_last_page_of_entries_come_after_its_next(
    filled: GatewayHouse, client: httpx2.AsyncClient
) -> None:
    last = (await client.get("/v1/sessions/s/entries", params={"limit": 100})).json()
    assert last["more"] is False
    await (await filled.script("s")).entry("agent", "later")
    later = (await client.get("/v1/sessions/s/entries", params={"after": last["next"]})).json()
    assert [entry["text"] for entry in later["entries"]] == ["later"]


def test_every_listing_is_known_here() -> None:
    assert {operation.name for operation in LISTINGS} == ROWS.keys()
