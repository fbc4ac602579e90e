"""Old content goes in short steps, new content and what is needed stays, and the books hold after each step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from age_worker import DAY_MS, age, later
from test_erasing import balanced, filled, secrets_in

from semel.faces.documents import FORMATS
from semel.ledger.admin import age_out, export
from semel.ledger.inbound import hear
from semel.ledger.sqlite.store import Store, now_ms
from semel.ledger.transcript import session_list, views
from semel.ledger.turns import history, turns

TO = [hear.Addressee("s", "main", "chat:room")]


class Days:
    """A ledger whose clock the test sets, in days."""

    def __init__(self, path: Path) -> None:
        filled(path, 400).close()
        self.day = 0
        self.start = now_ms()
        self.store = Store.open_sync(path, clock=lambda: self.start + self.day * DAY_MS)

    def say(self, text: str, **more: Any) -> hear.HeardOutcome:
        event = hear.Event("api:s", text, "message", text, text.encode(), sender="Ada", **more)
        done: hear.HeardOutcome = self.store.write_sync(hear.hear, event, TO)
        return done

    def plan(self) -> age_out.AgingPlan | None:
        plan: age_out.AgingPlan | None = self.store.read_sync(age_out.plan_session, 1, 90 * DAY_MS)
        return plan

    def texts(self) -> list[str]:
        return [row["text"] for row in self.store.read_sync(views.read_snapshot, 1)["entries"]]


@pytest.fixture
def days(tmp_path: Path) -> Iterator[Days]:
    days = Days(tmp_path / "ledger.db")
    yield days
    balanced(days.store)
    days.store.close()


def set_part(tx: Any, part: int, state: str) -> None:
    tx._cursor.execute("UPDATE part SET state = ? WHERE id = ?", (state, part))


def count_secrets(tx: Any) -> int:
    """The rows of every table that still hold one of the old texts."""
    found = 0
    for (table,) in tx._cursor.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        for row in tx._cursor.execute(f'SELECT * FROM "{table}"').fetchall():
            found += "secret" in str(row)
    return found


def test_content_older_than_the_policy_goes_and_newer_content_stays(days: Days) -> None:
    assert days.store.read_sync(count_secrets) > 400
    days.day = 89
    days.say("new", wakes=False)
    assert days.plan() is None and age(days.store) == 1
    days.day = 100
    plan = days.plan()
    assert plan is not None and plan.size.entries == plan.seq == 300 and plan.size.bytes > 3000
    steps = 1
    while days.store.write_sync(age_out.age_step, 1, 90 * DAY_MS):
        balanced(days.store)
        steps += 1
    assert steps >= 300 // age_out.ENTRIES_PER_STEP
    assert days.plan() is None
    assert days.texts() == ["new"]
    assert days.store.read_sync(count_secrets) == 0
    again = hear.Event("api:s", "k8", "message", "secret 8", b"d8", sender="Ada")
    assert days.store.write_sync(hear.hear, again, TO).status == "duplicate"  # Law 1: a key is for ever
    scope = days.store.read_sync(export.read_scope, 1)
    records, _ = days.store.read_sync(export.read_entries, scope, 0)
    assert [(record["seq"], record["text"]) for record in records] == [(1, "new")]
    for format in ("md", "html"):  # documents for people keep the numbers by which the entries are known
        document = FORMATS[format]()
        shown = document.page(days.store.read_sync(export.read_entries_with_items, scope, 0)[0]).decode()
        assert "301" in shown and "new" in shown


def test_a_session_whose_content_is_gone_is_listed_at_the_time_of_its_last_turn(days: Days) -> None:
    def create_earlier(tx: Any) -> None:
        tx._cursor.execute("UPDATE session SET at = at - 60000")

    days.store.write_sync(create_earlier)
    [before] = days.store.read_sync(session_list.list_sessions)
    days.day = 100
    age(days.store)
    [after] = days.store.read_sync(session_list.list_sessions)
    assert days.texts() == [] and after["last"] == ""
    assert after["at"] == before["at"]


def test_a_message_that_waits_and_a_turn_that_runs_keep_their_content(days: Days) -> None:
    days.say("a question")
    days.day = 100
    plan = days.plan()
    assert plan is not None and (plan.seq, plan.stopped_by) == (300, "a message waits")
    age(days.store)
    assert days.texts() == ["a question"]
    assert isinstance(days.store.write_sync(turns.begin, 1, "g"), turns.BegunTurn)
    days.say("another one")
    days.day = 300
    age(days.store)
    assert days.texts() == ["a question", "another one"]
    plan = days.plan()
    assert plan is not None and (plan.size.entries, plan.stopped_by) == (0, "a turn runs")


@pytest.mark.parametrize("state", ["queued", "unknown", "held"])
def test_a_message_to_a_platform_that_is_not_settled_keeps_its_content(days: Days, state: str) -> None:
    part = days.store.read_sync(lambda tx: tx.value(int, "part_by_receipt", receipt="r200"))
    days.store.write_sync(set_part, part, state)
    days.day = 100
    plan = days.plan()
    assert plan is not None and plan.stopped_by == "a message to a platform is not settled"
    age(days.store)
    assert days.texts()[0] == "answer secret 200"
    balanced(days.store)
    days.store.write_sync(set_part, part, "sent")
    age(days.store)
    assert days.texts() == []


def test_an_agent_whose_memory_is_the_record_is_given_only_what_is_left(days: Days) -> None:
    days.day = 50
    days.say("kept")
    assert isinstance(days.store.write_sync(turns.begin, 1, "g"), turns.BegunTurn)
    days.day = 100
    age(days.store)
    rows = days.store.read_sync(history._entries_before, 1, 1, 1 << 60, 100)
    assert [row.text for row in rows] == ["kept"]


def test_a_watcher_from_before_gets_a_snapshot_and_never_a_mixture(days: Days) -> None:
    days.day = 50
    days.say("kept", wakes=False)
    rev = days.store.read_sync(views.find_session, "s").rev
    days.day = 100
    early = days.store.read_sync(views.read_snapshot, 1)["entries"][0]["rev"]
    age(days.store)
    assert days.store.read_sync(views.read_changes, 1, early) is None
    assert days.store.read_sync(views.read_changes, 1, rev) is not None
    assert days.texts() == ["kept"]


def test_aging_that_is_killed_at_any_statement_goes_on(tmp_path: Path) -> None:
    ledger, folder = tmp_path / "ledger.db", tmp_path / "killed"
    folder.mkdir()
    filled(ledger, 120).close()
    command = [sys.executable, Path(__file__).with_name("age_worker.py"), ledger, folder]
    ran = subprocess.run(command, env=dict(os.environ), check=True, capture_output=True)
    outcomes = json.loads(ran.stdout)
    assert [killed for _, killed in outcomes] == [True] * (len(outcomes) - 1) + [False]
    assert len(outcomes) > 5
    for copy, _ in outcomes:
        with Store.open_sync(copy, clock=later) as store:
            balanced(store)
            age(store)
            balanced(store)
            assert secrets_in(store, 1) == []
