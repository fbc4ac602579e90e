"""What a transaction relies on while it checks and then acts is locked first, in a statement of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

import semel.ledger
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.sql import Tx, queries
from semel.ledger.turns import limits

LEDGER = Path(semel.ledger.__file__).parent
LOCKS = {name: query for name, query in queries().items() if name.endswith("_lock")}
CHECK_THEN_ACT = {
    ("transcript/entries.py", "let_go_of_files"): "blob_lock",
    ("turns/job_calls.py", "_limit_problem"): "ledger_lock",
    ("inbound/schedules.py", "add"): "ledger_lock",
    ("people.py", "redeem_code"): "ledger_lock",
    ("people.py", "void_code"): "ledger_lock",
}
"""The functions that look at rows of several sessions and then write what is right only if these rows stay so."""
AT_START = {("backup/settle_restored.py", "pairing_end")}  # before anything else runs


def functions() -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """(file, function, [(method of the transaction, statement)]) of each function, in the order of the text."""
    for path in sorted(LEDGER.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                yield str(path.relative_to(LEDGER)), function.name, list(calls(function))


def calls(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    found = [
        (node.lineno, node.func.attr, arg.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and re.fullmatch(r"(self\.)?tx", ast.unparse(node.func.value))
        for arg in node.args
        if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
    ]
    yield from ((method, statement) for _, method, statement in sorted(found))


def test_who_checks_and_then_acts_locks_first() -> None:
    first = {(file, name): found[0] for file, name, found in functions() if found}
    assert {where: first[where] for where in CHECK_THEN_ACT} == {
        where: ("lock", lock) for where, lock in CHECK_THEN_ACT.items()
    }


@pytest.mark.parametrize("statement", ["blob_let_go", "pairing_end"])
def test_no_other_function_acts_without_the_lock(statement: str) -> None:
    acting = {
        (file, name)
        for file, name, found in functions()
        if {("run", statement), ("count_changed", statement)} & set(found)
    }
    assert acting
    assert {(file, name) for file, name in acting - CHECK_THEN_ACT.keys() if (file, statement) not in AT_START} == set()


def test_the_statements_of_locks_are_only_locked_and_find_one_row_by_its_key() -> None:
    used = {statement: method for _, _, found in functions() for method, statement in found if statement in LOCKS}
    assert used == dict.fromkeys(LOCKS, "lock")
    with Store.in_memory() as store:
        db = store._require_committer()._db
        for query in LOCKS.values():
            plan = db.execute(f"EXPLAIN QUERY PLAN {query.sql}", dict.fromkeys(query.parameters)).fetchall()
            assert [re.search(r"SEARCH \w+ USING .*(PRIMARY KEY|autoindex|rowid)", str(row)) for row in plan] != [None]


def test_sqlite_runs_nothing_for_a_lock_and_still_refuses_a_wrong_one() -> None:
    with Store.in_memory() as store:
        ran: list[str] = []

        def lock(tx: Tx) -> None:
            db = store._require_committer()._db
            db.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: ran.append(event["sql"]))
            tx.lock("blob_lock", id="x")
            tx.lock("ledger_lock")
            db.trace_v2(0, None)
            with pytest.raises(TypeError, match=r"blob_lock in erase\.sql lacks id"):
                tx.lock("blob_lock")
            with pytest.raises(LookupError, match="no query is named 'no_lock'"):
                tx.lock("no_lock")

        store.write_sync(lock)
        assert ran == []


def test_turns_of_the_same_people_change_their_rows_in_one_order() -> None:
    changed: list[str | None] = []

    class Noting:
        def run(self, name: str, /, **params: Any) -> None:
            changed.append(params["person"])

    row = SimpleNamespace(key="main")
    for people in (["Bob", None, "Ann", "Bob"], ["Ann", "Bob"]):
        limits.count_turn(Noting(), row, "2026-01-01", people, limits.LimitPolicy())  # type: ignore[arg-type]
    assert changed == ["Ann", "Bob"] * 2
