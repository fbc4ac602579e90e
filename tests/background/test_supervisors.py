"""Starting and finding jobs, below the gateway: what dies in between leaves what can be told of."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from semel.faces.config import ConfigError
from semel.faces.config.load import load_config
from semel.gateway.ports import CannotBegin, Job
from semel.gateway.process_identity import JOB_VARIABLE, find_tagged_processes
from semel.tools.catalogue import Greeting, list_tools
from semel.tools.exec import reports
from semel.tools.exec.background import JobEnvironment, SupervisorRunner
from semel.tools.exec.spool import Spool

ENV = {"PATH": os.environ["PATH"]}


def job(id: str, command: str = "sleep 60", agent: str = "demo") -> Job:
    return Job(id, "demo:s", agent, command, "", 60.0, 1000, 1_700_000_000_000)


def supervisors(path: Path, grace: float = 1.0) -> SupervisorRunner:
    return SupervisorRunner(path, {"demo": JobEnvironment(path, ENV)}, grace)


def test_a_gateway_that_died_before_it_started_a_run_leaves_one_that_is_told_of(tmp_path: Path) -> None:
    about = reports.describe_job("demo:s", "make", "", str(tmp_path), 1.0)
    Spool(tmp_path, "jobs").begin("job-1", about, 10).close()
    one = supervisors(tmp_path)
    assert "job-1" in one.present()
    (orphan,) = one.orphans()
    (body,) = orphan.reports()
    assert (body["kind"], body["key"]) == ("exec.lost", "job-1:exec.lost")
    assert body["text"].startswith("`make` was not started (background job job-1): its supervisor was killed")
    assert body["text"].endswith("Nothing was run.")
    assert one.orphans() == []  # it is held
    orphan.release(0)
    (orphan,) = one.orphans()
    assert orphan.reports() == [body]  # nothing was heard: the same once more
    orphan.release(1)
    assert one.orphans() == [] and "job-1" not in one.present()


def test_a_supervisor_that_is_handed_half_an_order_runs_nothing(tmp_path: Path) -> None:
    about = {**reports.describe_job("demo:s", "make", "", str(tmp_path), 1.0), "to": {"data_dir": str(tmp_path)}}
    run = Spool(tmp_path, "jobs").begin("job-2", about, 10)
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "semel.tools.exec.supervisor", str(run.folder), str(run.lock), str(reading)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(run.lock, reading))
    run.close()
    os.close(reading)
    _half(process)
    report = run.folder / "exec.finished.json"
    ends = time.monotonic() + 30
    while not report.exists():
        assert time.monotonic() < ends
        time.sleep(0.02)
    process.kill()
    process.wait()
    os.close(writing)
    (orphan,) = supervisors(tmp_path).orphans()
    (body,) = orphan.reports()
    assert "the gateway ended before it had handed over the command; nothing was run" in body["text"]
    assert body["data"]["exit"] == 125
    orphan.release(0)


def _half(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b'{"argv": ["touch", "ran"')
    process.stdin.close()


def test_what_cannot_be_started_leaves_nothing_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = supervisors(tmp_path)
    with pytest.raises(CannotBegin, match="no agent is named 'gone'"):
        one.begin(job("job-3", agent="gone"), lambda: None)
    (tmp_path / "jobs").write_text("in the way")
    with pytest.raises(CannotBegin, match="cannot be written"):
        one.begin(job("job-3"), lambda: None)
    (tmp_path / "jobs").unlink()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(CannotBegin, match="its supervisor cannot be started"):
        one.begin(job("job-3"), lambda: None)
    assert one.present() == {"outputs"} and one.orphans() == []


def test_the_same_job_cannot_begin_twice(tmp_path: Path) -> None:
    one, ended = supervisors(tmp_path), threading.Event()
    id = f"job-{secrets.token_hex(5)}"  # its processes are looked for on the whole machine
    one.begin(job(id, "sleep 60"), ended.set)
    with pytest.raises(CannotBegin):
        one.begin(job(id, "sleep 60"), lambda: None)
    assert one.orphans() == [] and one.cancel(id, "the test\nall")
    report = tmp_path / "jobs" / id / "exec.finished.json"
    ends = time.monotonic() + 30
    while not report.exists():
        assert time.monotonic() < ends
        time.sleep(0.02)
    assert "was cancelled by the test all" in report.read_text()
    assert find_tagged_processes(id, JOB_VARIABLE) == [] and not one.cancel("job-5", "the test")
    for pid in _supervisors_of(tmp_path / "jobs" / id):
        os.kill(pid, 9)
    assert ended.wait(30)  # it is told at once
    (orphan,) = one.orphans()
    assert [body["kind"] for body in orphan.reports()] == ["exec.started", "exec.finished"]
    orphan.release(2)


def _supervisors_of(run: Path) -> list[int]:
    """Return those of this run alone: other tests, at the same time, have supervisors of jobs with similar names."""
    pattern = f"supervisor {re.escape(str(run))} "
    listed = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True, check=True)
    return [int(pid) for pid in listed.stdout.split()]


def test_a_workspace_that_is_gone_is_named(tmp_path: Path) -> None:
    one = SupervisorRunner(tmp_path, {"demo": JobEnvironment(tmp_path / "gone", ENV)})
    one.begin(job("job-6"), lambda: None)
    report = tmp_path / "jobs" / "job-6" / "exec.finished.json"
    ends = time.monotonic() + 30
    while not report.exists():
        assert time.monotonic() < ends
        time.sleep(0.02)
    assert f"{tmp_path / 'gone'}: no such directory" in report.read_text()
    for pid in _supervisors_of(tmp_path / "jobs" / "job-6"):
        os.kill(pid, 9)


def test_an_agent_is_told_that_this_tool_can_do_anything() -> None:
    hints = {tool["name"]: tool["annotations"]["destructiveHint"] for tool in list_tools(Greeting())}
    assert [name for name, dangerous in hints.items() if dangerous] == ["run_in_background"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("jobs = -1", "jobs"),
        ('time = "soon"', "is not a duration"),
        ('output = "much"', 'is not a size: write bytes, or like "500kB"'),
        ("job = 4", 'did you mean "jobs"?'),
    ],
)
def test_wrong_limits_are_errors_that_say_what_to_write(tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "semel.toml").write_text(f"[background]\n{line}\n")
    with pytest.raises(ConfigError) as refused:
        load_config(tmp_path / "semel.toml", env={"HOME": str(tmp_path)})
    assert words in str(refused.value) and "semel.toml:" in str(refused.value)


def test_limits_are_read_with_their_units(tmp_path: Path) -> None:
    (tmp_path / "semel.toml").write_text('[background]\njobs = 0\nall = 8\ntime = "2h"\noutput = "1.5MB"\n')
    told = load_config(tmp_path / "semel.toml", env={"HOME": str(tmp_path)}).gateway.background
    assert (told.jobs, told.all, told.time_s, told.output) == (0, 8, 7200.0, 1_500_000)
