"""Each transaction locks first what it judges and changes: every function says what that is."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import semel

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'semel[postgres]'")
PACKAGE = Path(semel.__file__).parent
STORES = {"record", "_record", "store", "_store", "ledger", "_ledger"}
WRITERS = {"write", "write_sync", "_write_with_retries"}
HANDS_ON = {"body", "self._run_and_publish"}
"""What a wrapper hands on: the function that it is given."""
OTHER_ENGINES = {"mark_as_copy"}
"""Of SQLite's files."""


def handed_functions() -> dict[Callable[..., Any], str]:
    """Every function that the program hands to a store to be run as a transaction, and where."""
    found = {}
    for path in sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__main__.py"):
        source = path.read_text("utf-8")
        if not any(f"{name}(" in source for name in WRITERS):
            continue  # to parse all takes long
        module = importlib.import_module("semel." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts))
        for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in WRITERS or not call.args:
                continue
            owner, name = ast.unparse(call.func.value).split(".")[-1], ast.unparse(call.args[0])
            is_own = owner == "self" and (path.name, path.parent.name) == ("store.py", "storage")
            if call.func.attr == "write" and owner not in STORES and not is_own:
                continue
            if name in HANDS_ON | OTHER_ENGINES or path.is_relative_to(PACKAGE / "testing"):
                continue
            found[eval(name, vars(module))] = f"{path.relative_to(PACKAGE)}:{call.lineno}"  # noqa: S307
    return found


def test_every_function_that_writes_says_what_it_locks() -> None:
    from semel.ledger.postgres.locks import LOCKS

    handed = handed_functions()
    assert len(handed) > 50
    assert {where: fn for fn, where in handed.items() if fn not in LOCKS} == {}
    assert {fn for fn in LOCKS if fn not in handed} == set(), "not handed to any store any more"


def test_a_wrapper_locks_what_its_body_locks() -> None:
    from semel.gateway.record import LedgerAccess
    from semel.ledger.postgres.locks import find_locks
    from semel.ledger.turns import sessions

    wrapper = LedgerAccess._run_and_publish.__get__(object())
    assert find_locks(wrapper, (sessions.rename, 7, "title")) == find_locks(sessions.rename, (7, "title"))
    assert find_locks(sessions.rename, (7, "title")).ids == (7,)


def test_a_function_that_is_not_listed_locks_every_session() -> None:
    from semel.ledger.postgres.locks import EVERYTHING, find_locks

    assert find_locks(lambda tx: None, ()) == EVERYTHING


def test_jobs_of_one_session_share_a_lane() -> None:
    from semel.ledger.postgres.locks import find_locks
    from semel.ledger.turns import sessions, turns

    fence = turns.TurnFence(7, 1, 1)
    lanes = {find_locks(sessions.rename, (7, "a")).lane, find_locks(turns.release_lease, (fence,)).lane}
    assert lanes == {find_locks(turns.begin, (7, "lease", None)).lane}
    assert find_locks(sessions.rename, (8, "a")).lane not in lanes
