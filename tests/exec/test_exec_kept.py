"""What was run is reported, once, whatever ends meanwhile: the gateway, the connection, the reporter, the disk."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from exec_house import PATIENCE, TOKEN, House, line, proxy, until

from semel.faces.health.installation import examine_reports
from semel.tools.exec import reporter, reports, spool
from semel.tools.exec.output import OutputRecorder, count_unfinished_bytes
from semel.tools.exec.spool import FINISHED, LOST, STARTED, Spool

BOX = ("--name", "box", "--token-file", "ci.token")


def left_by(session: str, house: House) -> dict[str, Any]:
    """What a reporter wrote down before it was killed."""
    to = reporter.Target(house.data, token_file=house.home / "ci.token")
    return {**reports.describe_run("box", session, ["true"], time.time()), "to": to.to_dict()}


def test_a_gateway_that_is_killed_meanwhile_is_told_when_it_is_back(
    house: House, capfd: pytest.CaptureFixture[str]
) -> None:
    house.up()
    running = house.start("-s", "ci:kill", *BOX, "--", "sh", "-c", "echo up; read word; echo $word; exit 4")
    line(running, "up")
    until(lambda: house.events("ci:kill", "exec.started"), "the report of the start")
    house.kill()
    assert running.stdin is not None and running.stderr is not None
    running.stdin.write("end\n")
    running.stdin.flush()
    while "the report waits" not in running.stderr.readline():
        pass
    house.exec("-s", "ci:kill", *BOX, "--wait", "0", "--", "true")  # another one gives up at once
    assert "exec.finished of run" in (told := capfd.readouterr().err) and "semel exec --flush" in told
    assert len(house.runs()) == 2
    house.up()
    running.communicate(timeout=PATIENCE)
    assert running.returncode == 4
    house.exec("--flush")
    assert "exec.finished ci:kill" in capfd.readouterr().out
    house.exec("--flush")
    assert house.runs() == []
    assert len(house.events("ci:kill", "exec.started")) == len(house.events("ci:kill", "exec.finished")) == 2
    house.balanced()


def test_a_long_pause_ends_when_a_gateway_starts_on_this_machine(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "MIN_RETRY_DELAY_S", 3600.0)
    monkeypatch.setattr(reporter, "MAX_RETRY_DELAY_S", 3600.0)
    run = Spool(house.data / "exec", "box").begin("r" * 32, {"session": "ci:back"}, 0)
    for kind in (STARTED, FINISHED):
        run.add_report(kind, {"kind": kind, "key": f"back:{kind}", "text": "it came so far", "data": {}})
    asking = reporter.Reporter()
    line = asking.add_run(run, reporter.Target(house.data))
    asking.start()
    until(lambda: line.failure_reason, "the gateway was asked in vain")
    house.up()
    until(lambda: not line.open_reports, "both reports were taken")
    assert asking.stop()
    run.close()
    assert len(house.events("ci:back", FINISHED)) == 1


def test_a_run_whose_reporter_was_killed_is_reported_lost_once(gateway: House) -> None:
    process = gateway.start("-s", "ci:lost", *BOX, "--", "sh", "-c", "echo pid $$; exec sleep 600")
    pid = int(line(process, "pid").split()[1])
    try:
        until(lambda: gateway.events("ci:lost", "exec.started"), "the report of the start")
        process.kill()
        process.wait(PATIENCE)
        gateway.exec("-s", "ci:later", *BOX, "--", "true")
        told = until(lambda: gateway.events("ci:lost", "exec.lost"), "the report of the loss")
        gateway.exec("--flush", "--name", "box")
        gateway.exec("-s", "ci:later", *BOX, "--", "true")
    finally:
        os.kill(pid, signal.SIGKILL)
    assert gateway.events("ci:lost", "exec.lost") == told and len(told) == 1
    assert f"When this was noticed, it still ran (pid {pid}); how it ends will not be reported" in told[0]
    assert told[0].endswith(f"pid {pid}\n")
    assert gateway.events("ci:lost", "exec.finished") == []
    assert gateway.answers("ci:lost") == 1
    assert gateway.runs() == []


def test_the_shortest_run_takes_along_all_that_earlier_ones_left(
    gateway: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*args: Any) -> reporter.PostVerdict:
        time.sleep(0.2)
        return post(*args)

    post = reporter.post_report
    monkeypatch.setattr(reporter, "post_report", slow)
    for number in range(3):
        left = Spool(gateway.data, "exec", "box").begin(f"{number}" * 32, left_by("ci:left", gateway), 0)
        os.close(left.lock)
    gateway.exec("-s", "ci:short", *BOX, "--", "true")
    assert len(gateway.events("ci:left", LOST)) == 3
    assert gateway.runs() == []


def test_a_reporter_that_is_killed_while_it_waits_for_the_gateway_loses_nothing(house: House) -> None:
    waiting = house.start("-s", "ci:wait", *BOX, "--", "sh", "-c", "echo done; exit 5")
    assert waiting.stderr is not None
    # The token file is not there yet: it is wrong usage, so that nobody runs a command he cannot report.
    assert waiting.wait(PATIENCE) == 2
    (house.home / "ci.token").write_text(TOKEN)
    waiting = house.start("-s", "ci:wait", *BOX, "--", "sh", "-c", "echo done; exit 5")
    assert waiting.stderr is not None
    while "the report waits" not in waiting.stderr.readline():
        pass
    waiting.kill()
    waiting.wait(PATIENCE)
    house.up()
    house.exec("--flush")
    (told,) = house.events("ci:wait", "exec.finished")
    assert "exit code 5" in told
    assert house.events("ci:wait", "exec.lost") == []


def test_ctrl_c_leaves_the_report_in_the_spool_and_says_so(house: House) -> None:
    waiting = house.start("-s", "ci:leave", "--name", "box", "--", "sh", "-c", "exit 6")
    assert waiting.stderr is not None
    while "Ctrl-C leaves it in the spool" not in waiting.stderr.readline():
        pass
    waiting.send_signal(signal.SIGINT)
    _, told = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 6
    assert "kept in" in told and "semel exec --flush" in told
    assert len(house.runs()) == 1


def test_flush_says_that_it_waits_for_the_gateway_and_why(house: House) -> None:
    for code in ("6", "7"):
        house.exec("-s", "ci:away", "--name", "box", "--wait", "0", "--", "sh", "-c", f"exit {code}", rc=int(code))
    flushing = house.start("--flush", "--name", "box")
    assert flushing.stderr is not None
    told = flushing.stderr.readline()
    assert "the reports of 2 runs wait for the gateway, 10 min at most: " in told and "Ctrl-C leaves them" in told
    flushing.send_signal(signal.SIGINT)
    _, told = flushing.communicate(timeout=PATIENCE)
    assert flushing.returncode == 1
    assert told.count("kept in") == 2
    assert len(house.runs()) == 2


def test_lost_answers_and_answers_of_strangers_are_no_acknowledgement(gateway: House) -> None:
    ways = ["html", "drop", "html", "drop", "drop"]
    with proxy(lambda: gateway.url, ways) as url:
        gateway.exec("-s", "ci:proxy", *BOX, "--url", url, "--", "true")
    assert ways == []
    assert len(gateway.events("ci:proxy", "exec.started")) == 1
    assert len(gateway.events("ci:proxy", "exec.finished")) == 1
    assert gateway.answers("ci:proxy") == 1
    assert gateway.runs() == []


def test_a_refusal_is_told_and_the_report_is_kept_until_it_is_put_right(
    gateway: House, capfd: pytest.CaptureFixture[str]
) -> None:
    (gateway.home / "other.token").write_text("not-the-token-of-any-node")
    more = ("--name", "wrong", "--token-file", "other.token")
    gateway.exec("-s", "ci:refused", *more, "--", "sh", "-c", "exit 9", rc=9)
    told = capfd.readouterr().err
    assert "the gateway refuses exec.finished" in told and "not the owner's token, nor a node's" in told
    assert "a node's is named in its [nodes.NAME] of semel.toml" in told
    assert "when the reason is mended, `semel exec --flush` sends it; to give it up: semel exec --drop --run " in told
    gateway.exec("--flush", rc=1)
    (gateway.home / "other.token").write_text(TOKEN)
    gateway.exec("--flush")
    assert len(gateway.events("ci:refused", "exec.finished")) == 1
    gateway.exec("-s", "elsewhere", *more, "--", "true")
    assert "Node 'ci' may report to: ci:*" in capfd.readouterr().err
    assert gateway.entries("elsewhere") == []
    gateway.exec("--flush", "--name", "wrong", rc=1)
    shutil.rmtree(gateway.data / "exec" / "wrong")


def test_a_report_for_a_mistyped_address_is_listed_redirected_and_dropped(
    gateway: House, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = "http://127.0.0.1:9"
    for code in ("6", "7"):
        gateway.exec(
            "-s", "ci:typo", *BOX, "--url", wrong, "--wait", "0", "--", "sh", "-c", f"exit {code}", rc=int(code)
        )
    assert "if the address is wrong, name another: semel exec --flush " in capfd.readouterr().err
    gateway.exec("--list", "--json")
    first, second = json.loads(capfd.readouterr().out)
    assert (first["state"], first["to"], first["session"], first["command"][-1]) == (
        "waiting",
        wrong,
        "ci:typo",
        "exit 6",
    )
    assert 0 < first["at"] <= first["ended"] <= time.time() * 1000
    (finding,) = examine_reports(gateway.data)
    assert f"2 runs of semel exec wait to be reported to {wrong}, since 20" in finding.text
    gateway.exec("--list")
    assert capfd.readouterr().out.count(f"\t{wrong}\t") == 2
    gateway.exec("--flush", "--run", first["run"], "--url", gateway.url, "--token-file", "ci.token")
    assert [text.split(" ended with ")[1][:11] for text in gateway.events("ci:typo", FINISHED)] == ["exit code 6"]
    gateway.exec("--drop", "--run", second["run"], "--run", "nothing", rc=1)
    told = capfd.readouterr().err
    assert f"run {second['run']} is dropped" in told and "there is no run nothing in " in told
    gateway.exec("--flush", "--run", second["run"], rc=1)
    gateway.exec("--list")
    assert "no report waits" in capfd.readouterr().err
    assert gateway.runs() == [] and examine_reports(gateway.data) == []


def test_a_run_that_goes_on_is_listed_and_cannot_be_dropped(gateway: House, capfd: pytest.CaptureFixture[str]) -> None:
    process = gateway.start("-s", "ci:runs", *BOX, "--", "sh", "-c", "echo up; read word")
    line(process, "up")
    gateway.exec("--list", "--json")
    (run,) = json.loads(capfd.readouterr().out)
    assert (run["state"], run["ended"], run["to"]) == ("running", None, str(gateway.data))
    gateway.exec("--drop", "--run", run["run"], rc=1)
    assert "was not dropped: its `semel exec` still lives" in capfd.readouterr().err
    assert examine_reports(gateway.data) == []
    process.communicate("\n", timeout=PATIENCE)
    assert len(gateway.events("ci:runs", FINISHED)) == 1


@pytest.mark.parametrize("words", [["--flush", "--list"], ["--drop"], ["--list", "x"], ["--run", "x", "--list"], []])
def test_exec_needs_one_thing_to_do(house: House, words: list[str]) -> None:
    house.exec(*words, rc=2)


def test_a_full_disk_stops_neither_the_command_nor_its_report(gateway: House) -> None:
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    command = [sys.executable, "-m", "semel", "exec", "-s", "ci:full", *BOX, "--", "seq", "100000"]
    process = subprocess.Popen(
        command, preexec_fn=small, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=gateway.env,
        cwd=gateway.home,
    )  # fmt: skip
    out, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, told
    assert out == "".join(f"{n}\n" for n in range(1, 100001))
    (report,) = gateway.events("ci:full", "exec.finished")
    assert "of the 588,895 bytes it printed" in report and "\n100000\n" in report
    assert "(Only its first 200,000 bytes were stored: File too large.)" in report


def test_room_for_the_report_is_kept_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Spool(tmp_path, "box").begin("1" * 32, reports.describe_run("box", "s", ["x"], 1.0), 1000)
    real = spool.write_durably

    def full(path: Path, data: bytes) -> None:
        if (run.folder / "reserve").exists() or path.name == "exec.finished.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, data)

    monkeypatch.setattr(spool, "write_durably", full)
    kept = run.add_report(STARTED, {"key": "a"})
    assert kept.path is not None and kept.path.exists()
    lost = run.add_report(FINISHED, {"key": "b"})
    assert (lost.path, lost.reason) == (None, "No space left on device")
    run.close()
    monkeypatch.undo()
    (again,) = Spool(tmp_path, "box").orphans()
    assert [report.body for report in again.reports] == [{"key": "a"}] and not again.is_over
    again.close()


def test_a_run_is_held_by_one_reporter_at_a_time(tmp_path: Path) -> None:
    run = Spool(tmp_path, "box").begin("2" * 32, reports.describe_run("box", "s", ["x"], 1.0), 10)
    assert Spool(tmp_path, "box").orphans() == []
    run.close()
    (found,) = Spool(tmp_path, "box").orphans()
    report = found.add_report(FINISHED, {"key": "k"})
    found.acknowledge(report)
    found.close()
    assert Spool(tmp_path, "box").orphans() == []
    assert not found.folder.exists()


def test_a_run_half_removed_is_nothing_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    nothing, damaged = tmp_path / "box" / "half", tmp_path / "box" / "bad"
    for place in (nothing, damaged):
        place.mkdir(parents=True)
    (nothing / "exec.started.sent").write_text("{}")
    (damaged / "run.json").write_text("{")
    found = Spool(tmp_path, "box")
    assert found.orphans() == []
    assert not nothing.exists()
    assert len(found.damaged) == 1 and str(damaged) in found.damaged[0]


def test_old_outputs_go_and_those_of_open_runs_stay(tmp_path: Path) -> None:
    box = Spool(tmp_path, "box")
    box.begin("a" * 32, reports.describe_run("box", "s", ["x"], 1.0), 10).output.write_text("open")
    for n in range(spool.OUTPUTS_KEPT + 5):
        path = tmp_path / "box" / "outputs" / f"{n:032}.txt"
        path.write_text("old")
        os.utime(path, (n + 1, n + 1))
    os.utime(tmp_path / "box" / "outputs" / f"{'a' * 32}.txt", (0, 0))
    box.begin("b" * 32, reports.describe_run("box", "s", ["x"], 1.0), 10)
    left = {path.stem for path in (tmp_path / "box" / "outputs").iterdir()}
    assert left == {"a" * 32} | {f"{n:032}" for n in range(5, spool.OUTPUTS_KEPT + 5)}


def test_characters_are_not_cut_by_the_way_they_come(tmp_path: Path) -> None:
    text = "aé€😀" * 50
    output = OutputRecorder(tmp_path / "o", 0, 10_000)
    for byte in text.encode():
        output.take("out", bytes([byte]))
        output.take("err", b".")
    output.end()
    assert (tmp_path / "o").read_text().replace(".", "") == text
    assert (
        count_unfinished_bytes(b"\xf0\x9f\x98") == 3
        and count_unfinished_bytes(b"\xc3\xa9") == 0
        and count_unfinished_bytes(b"\x80\x80\x80\x80") == 0
    )


def test_what_is_lost_without_a_process_is_not_guessed_about() -> None:
    about = reports.describe_run("box", "s", ["x"], 0.0)
    unknown = reports.build_lost("r", about, None, False, Path("missing"))
    gone = reports.build_lost("r", about, {"pid": 1, "born": "x"}, False, Path("missing"))
    assert "Whether it was started is not known" in unknown["text"]
    assert "It does not run any more; how it ended is not known" in gone["text"]
    assert unknown["key"] == "r:exec.lost" and unknown["data"] == {
        "run": "r",
        "node": "box",
        "running": False,
    }


def test_a_node_that_is_renamed_or_gets_another_token_is_the_same_one(house: House) -> None:
    """What it reported before, and reports again, is folded."""
    body = {"kind": "exec.finished", "text": "it ended", "key": "r1:exec.finished", "wakes": False}

    def report() -> tuple[str, int]:
        headers = {"Authorization": f"Bearer {house.token}"}
        got = httpx2.post(f"{house.url}/v1/sessions/ci:build/events", json=body, headers=headers, timeout=PATIENCE)
        return got.json()["status"], got.json()["event"]

    house.up()
    first = report()
    assert first[0] == "accepted"
    for node, token in (("build", house.token), ("build", house.token + "-2"), ("ci", house.token + "-2")):
        house.end()
        house.node, house.token = node, token
        house.up()
        assert report() == ("duplicate", first[1])
    assert len(house.entries("ci:build")) == 1
    house.balanced()
