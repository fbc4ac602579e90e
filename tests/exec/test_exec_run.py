"""`semel exec`: the command runs as if it were alone, and the session is told how it ended."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from exec_house import PATIENCE, House, line

BOX = ("--name", "box", "--token-file", "ci.token")


def test_a_command_is_reported_with_its_exit_code_and_the_end_of_its_output(
    gateway: House, capfd: pytest.CaptureFixture[str]
) -> None:
    gateway.exec("-s", "ci:plain", *BOX, "--", "sh", "-c", "echo out; echo err >&2; exit 3", rc=3)
    assert capfd.readouterr() == ("out\n", "err\nsemel: The session ci:plain is new.\n")
    (started,) = gateway.events("ci:plain", "exec.started")
    (finished,) = gateway.events("ci:plain", "exec.finished")
    assert "was started on box (run " in started
    assert "ended with exit code 3 on box" in finished and "It printed 8 bytes:" in finished
    run = finished.partition("(run ")[2].partition(")")[0]
    assert len(run) == 32 and f"(run {run})" in started
    assert gateway.answers("ci:plain") == 1  # the start woke nobody
    assert gateway.runs() == []
    assert b"out\nerr\n" in gateway.outputs() or b"err\nout\n" in gateway.outputs()


def test_who_reports_to_a_new_session_is_told_so_once_and_the_owner_also_which_agent_answers(
    gateway: House, capfd: pytest.CaptureFixture[str]
) -> None:
    gateway.exec("-s", "dmo:web:1", "--", "true")
    told = " ".join(capfd.readouterr().err.split())
    assert told == (
        "semel: The session dmo:web:1 is new. No agent is named 'dmo'; did you mean demo? The default agent, demo, "
        "answers here."
    )
    gateway.exec("-s", "dmo:web:1", "--", "true")
    assert capfd.readouterr().err == ""


def test_the_event_tells_source_run_and_exit_as_data(gateway: House) -> None:
    gateway.exec("-s", "ci:data", *BOX, "--", "sh", "-c", "kill -9 $$", rc=137)
    (entry,) = [one for one in gateway.entries("ci:data") if one.get("kind") == "exec.finished"]
    assert "was killed by SIGKILL" in entry["text"] and "It printed nothing" in entry["text"]
    import httpx2

    story = httpx2.get(f"{gateway.url}/v1/why/e{entry['event']}", timeout=PATIENCE).text
    assert "node:ci" in story


def test_what_cannot_be_started_is_reported_too(gateway: House, capfd: pytest.CaptureFixture[str]) -> None:
    gateway.exec("-s", "ci:cannot", *BOX, "--", "no-such-command", rc=127)
    (gateway.home / "notes.txt").write_text("no program")
    gateway.exec("-s", "ci:cannot", *BOX, "--", "./notes.txt", rc=126)
    gateway.exec("-s", "ci:cannot", *BOX, "--", "true | true", rc=127)
    first, second, line = gateway.events("ci:cannot", "exec.finished")
    assert "could not be started" in first and first.endswith("no such command.")
    assert line.endswith("no such command; write a line for the shell as: sh -c 'LINE'.")
    assert "Permission denied" in second
    assert gateway.events("ci:cannot", "exec.started") == []
    assert "no-such-command: no such command; nothing was run" in capfd.readouterr().err


def test_bytes_that_are_no_text_are_counted_and_kept_as_they_were(gateway: House) -> None:
    gateway.exec("-s", "ci:bytes", *BOX, "--", "printf", r"a\377\376b\303\251\0c\303")
    (told,) = gateway.events("ci:bytes", "exec.finished")
    assert "It printed 9 bytes (3 of them no UTF-8, replaced by �)" in told
    assert told.endswith("\n\na��bé␀c�")
    assert b"a\xff\xfeb\xc3\xa9\0c\xc3" in gateway.outputs()


def test_of_a_long_output_the_last_lines_are_told_and_all_of_it_is_kept(gateway: House) -> None:
    gateway.exec("-s", "ci:long", *BOX, "--", "seq", "100000")
    (told,) = gateway.events("ci:long", "exec.finished")
    assert "of the 588,895 bytes it printed:\n\n" in told
    lines = told.partition(":\n\n")[2].splitlines()
    assert lines == [str(n) for n in range(int(lines[0]), 100001)]
    whole = "".join(f"{n}\n" for n in range(1, 100001)).encode()
    assert whole in gateway.outputs()


def test_attached_the_whole_output_is_told_or_its_gap(gateway: House) -> None:
    gateway.exec("-s", "ci:attach", *BOX, "--attach", "--", "seq", "20000")
    gateway.exec("-s", "ci:attach", *BOX, "--attach", "--", "seq", "400000")
    whole, cut = gateway.events("ci:attach", "exec.finished")
    assert whole.partition(":\n\n")[2] == "".join(f"{n}\n" for n in range(1, 20001))
    first, _, rest = cut.partition(":\n\n")[2].partition("\n[... ")
    gap, _, last = rest.partition(" bytes are left out here ...]\n")
    assert len(first) + int(gap.replace(",", "")) + len(last) == 2_688_895
    assert first.startswith("1\n2\n") and last.endswith("\n400000\n") and len(first) + len(last) > 500_000


def test_the_report_does_not_wait_for_what_a_command_leaves_running(gateway: House) -> None:
    began = time.monotonic()
    gateway.exec("-s", "ci:left", *BOX, "--", "sh", "-c", "sleep 30 & echo done")
    assert time.monotonic() - began < 20
    assert gateway.events("ci:left", "exec.finished")[0].endswith("done\n")


def test_input_is_passed_on_and_ctrl_c_reaches_the_command(gateway: House) -> None:
    script = "trap 'echo bye; exit 7' INT; read word; echo got $word; while :; do sleep 0.05; done"
    process = gateway.start("-s", "ci:signal", *BOX, "--", "sh", "-c", script)
    assert process.stdin is not None
    process.stdin.write("hello\n")
    process.stdin.flush()
    line(process, "got hello")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)
    assert (out, process.returncode) == ("bye\n", 7)
    assert "exit code 7" in gateway.events("ci:signal", "exec.finished")[0]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-s", "ci:x"], "give a command after --"),
        (["--flush", "--", "true"], "give a command after --"),
        (["--", "true"], "--session KEY"),
        (["-s", "a b", "--", "true"], "a session key holds"),
        (["-s", "x", "--name", "../x", "--", "true"], "--name is"),
        (["-s", "x", "--url", "localhost:8420", "--", "true"], "should be like http://"),
        (["-s", "x", "--token-file", "missing", "--", "true"], "No such file or directory"),
        (["-s", "x", "--wait", "soon", "--", "true"], "is not a duration"),
    ],
)
def test_wrong_usage_says_what_is_wrong_and_starts_nothing(
    house: House, args: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    house.exec(*args, rc=2)
    assert said in " ".join(capfd.readouterr().err.replace("│", " ").split())
    assert not (house.data / "exec").exists()


def test_a_spool_that_cannot_be_written_starts_nothing(house: House, capfd: pytest.CaptureFixture[str]) -> None:
    house.data.write_text("in the way")
    house.exec("-s", "x", "--", "touch", "started", rc=125)
    assert "The command was not started" in capfd.readouterr().err
    assert not (house.home / "started").exists()


def test_odd_names_on_the_command_line_do_no_harm(gateway: House) -> None:
    word = os.fsdecode(b"odd\xff")
    gateway.exec("-s", "ci:odd", *BOX, "--", "echo", word)
    assert "odd�" in gateway.events("ci:odd", "exec.finished")[0]


def test_a_home_of_its_own_for_each_node(gateway: House) -> None:
    gateway.exec("-s", "ci:two", "--name", "left", "--", "true")
    assert Path(gateway.data / "exec" / "left").is_dir()
    assert "on left" in gateway.events("ci:two", "exec.started")[0]
