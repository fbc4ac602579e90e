"""SIGKILL at any statement of a limit's decision: no count is lost or doubled, and no message waits in silence."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from semel.ledger.admin import books
from semel.ledger.sqlite.store import Store
from semel.ledger.turns import limits

WORKER = Path(__file__).with_name("kill_worker.py")


def load_worker() -> Any:
    """The worker of this folder; another folder has one of the same name."""
    spec = importlib.util.spec_from_file_location("limits_kill_worker", WORKER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


worker = load_worker()


def read_outcome(tx: Any) -> dict[str, Any]:
    day, _ = worker.POLICY.find_day(tx.now)
    rows = limits.list_spent(tx, day, ("", ""), 10)
    entries = tx._cursor.execute("SELECT role, text, more ->> 'kind' FROM entry ORDER BY seq").fetchall()
    return {
        "spent": {(row.scope, row.subject): row.amounts for row in rows},
        "said": [text for role, text, _ in entries if role == "user"],
        "kinds": sorted(kind for role, _, kind in entries if role == "notice" and kind.startswith("limit.")),
        "waiting": [row.key for row in limits.list_limited(tx, 10)],
        "bound": tx._cursor.execute("SELECT count(*) FROM hearing WHERE turn IS NOT NULL").get,
    }


@pytest.mark.long
def test_a_kill_at_any_statement_counts_each_turn_once_and_tells_of_each_wait(tmp_path: Path) -> None:
    ledger, folder = tmp_path / "ledger.db", tmp_path / "killed"
    folder.mkdir()
    with Store.open_sync(ledger) as store:
        worker.hear_message(store, "a")
        worker.run_turn(store, "first")
    ran = subprocess.run(
        [sys.executable, WORKER, ledger, folder], env=dict(os.environ), check=True, capture_output=True
    )
    outcomes = json.loads(ran.stdout)
    assert [killed for _, killed in outcomes] == [True] * (len(outcomes) - 1) + [False]
    assert len(outcomes) > 20
    with Store.open_sync(outcomes[-1][0]) as store:
        expected = store.read_sync(read_outcome)
    assert expected["said"] == ["text a", "text b", "text c"]
    assert expected["kinds"] == ["limit.used", "limit.used", "limit.waits"]  # of turns, and of tokens
    assert expected["waiting"] == ["s"] and expected["bound"] == 2
    for copy, _ in outcomes:
        with Store.open_sync(copy) as store:
            assert [book for book in store.read_sync(books.audit) if not book.ok] == []
            store.write_sync(limits.ask_again, worker.POLICY)
            worker.run_turn(store, "next")
            worker.go_on(store, "next")
            assert store.read_sync(read_outcome) == expected
            assert [book for book in store.read_sync(books.audit) if not book.ok] == []
