"""`semel status` shows on one screen what runs and who is waited for, with and without a gateway."""

from __future__ import annotations

import errno
import os
import re
import sys
from pathlib import Path

import pytest
from cli_house import SCRIPTED, Cli, end, until

from semel.faces.cli.status import _count_entries, _describe_need, _list_agent_notices, _list_login_advice
from semel.faces.health.installation import examine_disk
from semel.ledger.sqlite.open_ledger import check_readable, lock_ledger
from semel.ledger.storage.errors import LedgerUnreadable
from semel.testing.scripted_agent import prompt
from semel.timing.durations import format_duration
from semel.tools import trusted_files

QUESTION = prompt({"call": "ask", "arguments": {"question": "Which?", "options": ["red", "blue"]}}, "I wait.")
TWO_PERMISSIONS = prompt({"together": [{"permission": "rm -r ./build"}, {"permission": "rm -r ./build"}]})
RETRY_NOTE = {"message": "Reconnecting... 1/5", "additionalDetails": "The server is busy.", "willRetry": True}
RETRIES = prompt(
    {"update": {"sessionUpdate": "session_info_update", "_meta": {"codex": {"error": RETRY_NOTE}}}}, {"hang": True}
)
FAILURE = prompt({"error": {"code": -32000, "message": f"no credit left{' at all' * 20}"}})


def test_the_sessions_that_need_someone_are_told_with_the_reason(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text(
        SCRIPTED + '[agents.gone]\ncommand = ["not-here"]\n[channels.hook]\nkind = "webhook"\n'
    )
    process = cli.up()
    for session, text in {"asks": QUESTION, "fails": FAILURE, "wordless": prompt(), "fine": "hello"}.items():
        cli("say", session, text)
        until(lambda key=session: next(s for s in cli.json("sessions") if s["key"] == key)["state"] == "idle", session)
    cli("say", "permits", TWO_PERMISSIONS)
    until(lambda: len(cli.json("status")["attention"]) == 5, "the permission requests")
    cli("say", "retries", RETRIES)
    until(lambda: cli.json("status")["agent_notices"], "what the agent says of itself")
    cli("say", "again", prompt({"error": {"code": -32603, "message": "overloaded"}}))
    until(lambda: cli.json("status")["put_off"], "a turn that is tried again")
    until(lambda: "gone" in cli.json("status")["checks"], "the check of the agents")
    status = cli.json("status")
    assert {found["session"]: found["why"] for found in status["attention"]} == {
        "permits": "approval", "asks": "question", "fails": "failed", "wordless": "silent",
    }  # fmt: skip
    shown = cli("status").stdout
    assert "sessions  4 need someone" in shown
    asks = r"permits  asks for a permission \(t.*\): rm -r \./build; answer it: "
    how = r'\S+ say permits "/approve (\d+)" or "/deny \1", or semel chat permits'
    assert re.findall(asks + how, shown) == ["1", "4"], shown
    assert "asks  asked something (t" in shown and "answer it: semel chat asks" in shown
    assert re.search(
        r"no credit left.*: run `\S+ agents login demo` in a terminal; try again: \S+ say fails /retry", shown
    )
    silent = r"wordless  its last turn ended without a word \(t\d+, [\d:]+\); try again: \S+ say wordless /retry"
    assert re.search(silent, shown), shown
    told = (
        r"\nturns +retries \(t\d+, since [\d:]+\): the agent said at [\d:]+: Reconnecting\.\.\. 1/5 The server is busy"
    )
    assert re.search(told, shown), shown
    later = r"again \(t\d+\) failed, and is tried again at [\d:]+ \(attempt \d\): .*overloaded"
    assert re.search(later, shown), shown
    assert re.search(r"\nagents +demo: \d live, \d busy\n +gone: command not found", shown), "a line for each"
    assert "channels  hook denied since" in shown and "can neither send nor receive" in shown
    # On a machine where Semel is a system service, the advice names the command.
    advice = (
        r"restart the gateway, which reads settings and tokens at its start only(: sudo systemctl .*)?\. By itself "
    )
    assert re.search(advice, shown) and "tries every ten minutes (next at " in shown, shown
    cli("say", "fails", "hello")
    until(lambda: len(cli.json("status")["attention"]) == 4, "the next turn")
    cli("say", "retries", "/stop")
    cli("say", "again", "/stop")
    end(process)
    silent = cli.json("status")
    assert silent["running"] is False
    assert [found["session"] for found in silent["attention"] if found["why"] == "question"] == ["asks"]


def test_without_a_gateway_the_files_tell_what_they_can(cli: Cli) -> None:
    process = cli.up()
    cli("say", "main", "hello", "--wait")
    running = cli("status").stdout.splitlines()
    end(process)
    assert running[-2].startswith("backup    none was made yet; make one: ") and running[-2].endswith("semel backup")
    assert running[0].startswith("gateway   Semel ") and " at http://127.0.0.1:" in running[0]
    assert f", process {process.pid}, up " in running[0]
    cli("backup", str(cli.home / "copies"))
    lines = cli("status").stdout.splitlines()
    assert lines[0] == "gateway   not running; start it with: semel up"
    assert [line.split()[0] for line in lines] == ["gateway", "sessions", "outbox", "disk", "backup", "books"]
    assert f"ago, in {cli.home}/copies/" in lines[4]
    assert "nothing waits" in lines[2]


@pytest.mark.parametrize(("count", "words"), [(0, ""), (1, " over 1 entry"), (1234, " over 1,234 entries")])
def test_the_books_count_entries_if_there_are_some(count: int, words: str) -> None:
    assert _count_entries(count) == words


def test_a_gateway_that_was_killed_is_told_from_one_that_was_stopped(cli: Cli) -> None:
    process = cli.up()
    cli("say", "main", "slow")
    until(lambda: "One word" in cli("show", "main").stdout, "the agent's text")
    process.kill()
    assert cli.json("status")["killed"] is True, "it is told while the process still waits for its parent"
    process.wait()
    killed = cli("status").stdout.splitlines()[0]
    assert killed.startswith("gateway   not running: the last one was killed, ") and killed.endswith(
        "start it with: semel up"
    )
    assert "no gateway is running: the last one was killed" in cli("sessions").stderr
    process = cli.up()
    until(lambda: "t1: lost: the gateway ended before it\n" in cli("why", "e1").stdout, "the turn is settled")
    cli("say", "main", "/stop")
    end(process)
    assert cli("status").stdout.splitlines()[0] == "gateway   not running; start it with: semel up"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells who holds a lock")
def test_a_gateway_that_starts_or_stops_is_not_said_to_be_away(cli: Cli) -> None:
    end(cli.up())
    lock = lock_ledger(cli.data / "ledger.db")  # as a gateway does first, long before it answers
    line = f"gateway   process {os.getpid()} holds the ledger: a gateway that starts or stops, "
    assert cli("status").stdout.splitlines()[0].startswith(line)
    lock.release()
    assert cli("status").stdout.splitlines()[0] == "gateway   not running; start it with: semel up"


def test_before_the_first_start_it_says_so(cli: Cli) -> None:
    assert "There is no ledger at" in cli("status", rc=1).stderr


def test_a_wrong_configuration_is_told_before_a_missing_ledger(cli: Cli) -> None:
    file = cli.home / "semel.toml"
    file.write_text('[gateway]\ncheck_agents = "yes"\n[ledger]\nurl = "postgres://x"\n')
    said = cli("status", rc=2).stderr
    assert f"the configuration is wrong: {file} has 2 mistakes; see: " in said and "no ledger" not in said
    assert "no ledger was examined: " in cli("doctor", rc=1).stdout
    end(cli.up("--config", "/dev/null"))
    file.write_text("[gateway]\nliste = 1\n")
    shown = cli("status").stdout.splitlines()[0]
    assert shown.startswith(f"gateway   not running; {file} has 1 mistake; see: ") and shown.endswith("config check")


def test_a_file_that_was_changed_beside_a_running_gateway_is_told(cli: Cli) -> None:
    file = cli.home / "semel.toml"
    file.write_text(SCRIPTED)
    process = cli.up()
    assert cli.json("status")["configuration"] is None
    file.write_text(SCRIPTED + "# a remark\n")
    changed = f"          {file} was changed since the gateway started: restart it to use the change"
    assert cli("status").stdout.splitlines()[1] == changed
    file.write_text(SCRIPTED + "[gateway]\nliste = 1\n")
    shown = cli("status").stdout.splitlines()[1]
    assert shown.startswith(f"          {file} has 1 mistake; see: ") and shown.endswith("config check")
    file.write_text("this is not TOML")
    assert "has 1 mistake; see: " in cli("status").stdout.splitlines()[1]
    assert cli("say", "main", "hello", "--wait").stdout, "the file is not needed to find the gateway"
    file.unlink()
    assert cli.json("status")["configuration"] == f"{file} is gone: the gateway would not start again"
    end(process)


def test_a_file_that_came_after_a_start_without_one_is_told(cli: Cli) -> None:
    process = cli.up()
    assert cli.json("status")["configuration"] is None
    file = cli.home / "semel.toml"
    file.write_text(SCRIPTED)
    told = cli.json("status")["configuration"]
    assert told.startswith(
        f"{file} is not used: the gateway was started without a configuration file. Restart it with: "
    )
    assert f"{file} is not used: " in cli("status").stdout
    file.write_text('[gateway]\ndata_dir = "elsewhere"\n')
    assert cli.json("status", "--data-dir", str(cli.data))["configuration"] is None, "the file of another gateway"
    end(process)


def test_a_variable_that_this_shell_lacks_hides_no_kill_and_is_no_mistake_of_the_file(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = cli.home / "semel.toml"
    file.write_text(SCRIPTED + '[nodes.ci]\ntoken = "env:CI_TOKEN"\nsessions = ["main"]\n')
    lacks = f"this shell lacks CI_TOKEN, which {file} needs; set it as the gateway has it"
    assert cli("status", rc=2).stderr == f"semel: {lacks}\n"
    with monkeypatch.context() as service:
        service.setenv("CI_TOKEN", "0123456789abcdef")
        process = cli.up()
    process.kill()
    process.wait()
    shown = cli("status").stdout.splitlines()[0]
    fate = "the last one was killed, and the next one resumes or ends what ran"
    assert shown == f"gateway   not running: {fate}; {lacks}"
    file.write_text(file.read_text() + "[gateway]\nliste = 1\n")
    assert f"which {file} needs; besides, {file} has 1 mistake; see: " in cli("status").stdout.splitlines()[0]
    doctor = cli("doctor", rc=1).stdout
    assert "The file may be right: this shell lacks CI_TOKEN. " in doctor
    assert "warning  gateway        none is running, and the last one did not end cleanly" in doctor
    assert "to do: start it: semel up (it resumes or ends the turns that ran" in doctor


def test_the_data_of_another_user_are_said_to_be_theirs(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *more: object, **options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    end(cli.up())
    monkeypatch.setattr(trusted_files, "read_file", refuse)  # this test may run as root, whom nothing is closed to
    for command in (("status",), ("doctor",), ("say", "main", "hello"), ("show", "main")):
        said = cli(*command, rc=1).stderr
        assert said.startswith(f"semel: {cli.data} cannot be read by this user. Run this as the user who runs the ")
    monkeypatch.undo()
    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(LedgerUnreadable, match="cannot be read by this user"):
        check_readable(cli.data / "ledger.db", 1)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.00463, "5 ms"), (0.01, "0.01 s"), (4.2, "4.2 s"), (65, "1 min 5 s"), (3 * 3600 + 12 * 60, "3 h 12 min"),
        (3600, "1 h"), (2 * 86400, "2 d"), (90 * 86400 + 7210, "90 d 2 h"),
    ],
)  # fmt: skip
def test_a_duration_has_its_two_largest_units(seconds: float, told: str) -> None:
    assert format_duration(seconds) == told


GB = 1_000_000_000


@pytest.mark.parametrize(
    ("free", "growth", "level", "told"),
    [
        (
            67 * GB,
            None,
            "ok",
            "67 GB free; the ledger takes 1.0 GB, stored files 0 B, their growth is known after a day",
        ),
        (67 * GB, 12_000_000, "ok", "growing by 12 MB a day"),
        (67 * GB, -5, "ok", "not growing"),
        (5 * GB, GB, "warning", "growing by 1.0 GB a day: the disk is full in about 5 days"),
        (GB // 2, 1, "warning", "500 MB free"),
        (GB // 100, 1, "broken", "10 MB free"),
    ],
)
def test_the_disk_is_judged_by_what_is_free_and_how_fast_it_fills(
    free: int, growth: int | None, level: str, told: str
) -> None:
    finding = examine_disk({"free": free, "ledger": GB, "files": 0, "growth": growth})
    assert finding.level == level and told in finding.text
    assert ("free some space" in finding.remedy) == (level != "ok")


def test_the_check_that_a_silent_turn_proposes_can_be_pasted() -> None:
    notice = {"session": "main", "turn": "t1", "at": 0, "silent": "my-agent"}
    [line] = _list_agent_notices({"agent_notices": [notice]})
    assert str(line).endswith("agents check my-agent --prompt 'Say hello.'")


def test_how_an_agent_is_logged_in_is_told_once_and_its_failed_sessions_point_there() -> None:
    reason, advice = "agent 'out' is not logged in (no key): ", "run `semel agents login out` in a terminal"
    check = {"level": "broken", "text": reason + advice, "remedy": ""}
    error = f"it could not be started: {reason}{advice}"
    failed = {"session": "s", "why": "failed", "turn": "t1", "at": 0, "error": error}
    overview = {"configured": ["out"], "agents": [], "checks": {"out": check}}
    told = _list_login_advice({**overview, "running": True})
    assert f": it could not be started: {reason}see agents above; try again: " in _describe_need(failed, told)
    for shows_none in ({**overview, "running": False}, {**overview, "running": True, "agents": [{"agent": "out"}]}):
        assert advice in _describe_need(failed, _list_login_advice(shows_none))
