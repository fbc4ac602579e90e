"""A command that ended while nobody could hear of it: the report says when, and its repeats are the same event."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from exec_house import House

from semel.faces.transcript import format_timestamp, list_remarks
from semel.timing.late_reports import read_late_end
from semel.tools.exec import reports
from semel.tools.exec.command import CommandProcess
from semel.tools.exec.output import OutputRecorder
from semel.tools.exec.runner import run_and_report
from semel.tools.exec.spool import FINISHED, Spool

HOUR_MS = 3_600_000


def test_a_report_that_waited_for_an_hour_is_shown_with_the_time_of_the_end(house: House) -> None:
    house.exec("-s", "ci:late", "--name", "box", "--wait", "0", "--", "true")
    house.exec("-s", "ci:none", "--name", "box", "--wait", "0", "--", "no-such-command", rc=127)
    ended = {session: set_back_end(house, session, HOUR_MS) for session in ("ci:late", "ci:none")}
    house.up()
    house.exec("--flush")
    house.exec("-s", "ci:late", "--name", "box", "--", "true")
    for session, end in ended.items():
        house.answers(session)
        remarks = [list_remarks(one) for one in house.entries(session) if one.get("kind") == FINISHED]
        assert remarks[0] == [f"ended at {format_timestamp(end)}"]
        assert remarks[1:] == [[]] * (session == "ci:late"), "a report that came at once needs no such words"
    house.balanced()


def set_back_end(house: House, session: str, by_ms: int) -> int:
    """Make the report in the spool one of a command that ended earlier. Returns when it ended, in ms."""
    (run,) = [run for run in house.runs() if json.loads(run.read_bytes())["session"] == session]
    path = run.parent / f"{FINISHED}.json"
    body = json.loads(path.read_bytes())
    assert abs(time.time() * 1000 - body["data"]["ended"]) < 60_000
    body["data"]["ended"] -= by_ms
    path.write_text(json.dumps(body))
    return int(body["data"]["ended"])


def test_each_attempt_posts_the_same_report(tmp_path: Path) -> None:
    info = reports.describe_run("box", "ci:x", ["true"], time.time())
    run = Spool(tmp_path, "exec", "box").begin("r" * 32, info, 0)
    _, report = run_and_report(run, CommandProcess(["true"], OutputRecorder(run.output, 0, 100)), lambda: None)
    assert report.path is not None
    first = report.path.read_bytes()
    run.close()
    (again,) = Spool(tmp_path, "exec", "box").orphans()
    (later,) = [one for one in again.reports if one.kind == FINISHED]
    assert later.body == report.body == json.loads(first) and report.path.read_bytes() == first
    assert isinstance(later.body["data"]["ended"], int)
    again.close()


@pytest.mark.parametrize("ended", [None, "yesterday", True, -1, 10**30, [1], 5 * HOUR_MS])
def test_a_time_that_is_none_or_not_long_ago_is_not_shown(ended: Any) -> None:
    entry = {"role": "event", "kind": FINISHED, "at": 5 * HOUR_MS + 60_000, "data": {"ended": ended}}
    assert list_remarks(entry) == []
    assert read_late_end("build.done", {"ended": 0}, HOUR_MS) is None and read_late_end(FINISHED, [], HOUR_MS) is None
