"""The part `schedules` of the proof: it replays, it holds for some seeds, and it is not blind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("greenlet")

from proof.schedules.editor_plans import EDITOR_SEEDS
from proof.schedules.plan import make

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parents[2]
SEEDS = 5


def told(
    folder: Path, *more: str, source: Path | None = None, begin: int = 0, seeds: int = SEEDS
) -> list[dict[str, Any]]:
    """The lines of one worker over the first seeds, or others."""
    path = os.pathsep.join(map(str, (source or ROOT / "src", ROOT)))
    done = subprocess.run(
        [sys.executable, "-m", "proof.schedules.work", str(begin), str(begin + seeds), "1", str(folder), *more],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_some_seeds_hold_and_each_replays_identically_in_another_process(tmp_path: Path) -> None:
    first, second = told(tmp_path), told(tmp_path)
    assert [one["broken"] for one in first] == [[]] * SEEDS
    assert [one["digest"] for one in first] == [one["digest"] for one in second]
    assert len({one["digest"] for one in first}) == SEEDS
    assert sum(one["counts"]["lives"] for one in first) > SEEDS, "something died"


def test_seeds_with_editors_hold_and_replay(tmp_path: Path) -> None:
    """The first one of them is run twice by its worker."""
    lines = told(tmp_path, begin=EDITOR_SEEDS, seeds=2)
    assert [one["broken"] for one in lines] == [[], []]
    assert all(make(one["seed"]).shape["editors"] for one in lines)
    assert "editors" not in make(0).shape


def test_a_planted_fault_is_found(tmp_path: Path) -> None:
    """Mark before send: a part counts as sent before its platform was asked."""
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src" / "semel", source / "semel", ignore=shutil.ignore_patterns("__pycache__"))
    outbox = source / "semel" / "gateway" / "outbound" / "outbox.py"
    honest = (
        "                outcome = await self._send(channel, departure, op)\n"
        "                await self._record(departure, outcome)\n"
    )
    planted = (
        '                await self._record(departure, AttemptOutcome("receipt"))\n'
        "                outcome = await self._send(channel, departure, op)\n"
    )
    text = outbox.read_text("utf-8")
    assert text.count(honest) == 1
    outbox.write_text(text.replace(honest, planted), "utf-8")
    broken = [what for one in told(tmp_path, source=source) for what in one["broken"]]
    assert any(what.startswith("law 7") for what in broken), broken


def test_a_failing_plan_shrinks_to_the_actions_that_matter() -> None:
    from proof.schedules.plan import Plan
    from proof.schedules.shrink import shrink

    def fails(plan: Plan) -> list[str]:
        there = {action["n"] for action in plan.actions}
        return ["law 7: a part was taken twice"] if {3, 11} <= there else []

    plan = Plan(0, {}, tuple({"do": "nothing", "n": n} for n in range(20)))
    assert shrink(plan, fails) == ([3, 11], ["law 7: a part was taken twice"])


@pytest.mark.parametrize(("seeds", "fails"), [(800, True), (799, False)])
def test_a_run_over_enough_seeds_fails_where_it_never_came_to_what_the_plans_promise(
    seeds: int, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from proof.schedules import main, ways

    line = {"steps": 1, "seconds": 0.0, "counts": {}, "broken": [], "ways": {"an echo": 1, "asked anew": 0}}
    monkeypatch.setattr(main, "workers", lambda *_: contextlib.nullcontext(iter([line] * seeds)))
    found = main._many(0, seeds, first=False).violations
    assert found == [*ways.never_reached({"asked anew": 0}, seeds)] * fails
    assert "asked anew" in "".join(found) or not fails
