"""`semel logs`: the gateway's log is kept in bounded private files, and is filtered and followed."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
import typer
from cli_house import PATIENCE, Cli, end, heard, until

from semel.faces.cli.app import parse_time
from semel.faces.log import KEPT_LOGS
from semel.faces.log_reader import LogFilter, list_log_files, read_log

SECRET_TEXT = "an unmistakable sentence"


class RefusingHandler(BaseHTTPRequestHandler):
    """A receiver of webhooks that takes none."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_error(400, "not here")

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """An installation whose gateway has run two turns and one attempt to send, and is stopped."""
    home = tmp_path_factory.mktemp("home")
    refusing = ThreadingHTTPServer(("127.0.0.1", 0), RefusingHandler)
    threading.Thread(target=refusing.serve_forever).start()
    (home / "semel.toml").write_text(
        '[channels.hook]\nkind = "webhook"\nurl = "https://127.0.0.1.invalid/"\n'
        f'[channels.refused]\nkind = "webhook"\nallow_private = true\nurl = "http://127.0.0.1:{refusing.server_port}"\n'
    )
    cli = Cli(home, home / "data")
    process = cli.up("--log", "json")
    try:
        cli("say", "main", SECRET_TEXT, "--wait")
        cli("say", "demo:hook:team", f"send: {SECRET_TEXT}", "--wait")
        until(lambda: "attempt ended" in cli("logs").stdout, "the attempt to send")
        cli("say", "demo:refused:team", f"send: {SECRET_TEXT}", "--wait")
        until(lambda: "part rejected" in cli("logs").stdout, "the refused message")
        stderr = end(process)
    finally:
        cli.leave()
        refusing.shutdown()
        refusing.server_close()
    assert "ready" in stderr and "turn began" not in stderr, "stderr is for what a person watches"
    return cli


def test_lines_are_filtered_by_session_turn_part_and_level(spoken: Cli) -> None:
    lines = [json.loads(line) for line in spoken("logs", "--json").stdout.splitlines()]
    assert {"ready", "turn began", "turn ended", "attempt ended"} <= {line["event"] for line in lines}
    of_main = [json.loads(line) for line in spoken("logs", "--session", "main", "--json").stdout.splitlines()]
    assert {line["session"] for line in of_main} == {"main"} and len(of_main) >= 3
    of_chats = [json.loads(line) for line in spoken("logs", "-s", "demo:*:team", "--json").stdout.splitlines()]
    assert {line["session"] for line in of_chats} == {"demo:hook:team", "demo:refused:team"}
    turn = of_main[0]["turn"]
    of_turn = spoken("logs", "--turn", f"t{turn}").stdout.splitlines()
    assert len(of_turn) == 2 and "turn began  session=main" in of_turn[0] and "outcome=done" in of_turn[1]
    of_part = spoken("logs", "--part", "p1").stdout.splitlines()
    assert of_part and all("part=p1" in line and "session=demo:hook:team" in line for line in of_part)
    assert 'outcome="not sent"  why=' in of_part[0]
    assert spoken("logs", "-n", "1").stdout.count("\n") == 1
    warnings = spoken("logs", "--level", "warning").stdout.splitlines()
    assert all(" info " not in line for line in warnings)
    assert any("part rejected" in line and "part=p2" in line and "why=" in line for line in warnings), warnings
    assert "is not an id like t5" in spoken("logs", "--turn", "x5", rc=2).stderr
    assert "--since is 'soon': say 2h, 7d, 18:12, 2026-11-22 or " in spoken("logs", "--since", "soon", rc=2).stderr
    assert "no line of the log is like that" in spoken("logs", "--since", "2100-01-01").stderr


def test_a_filter_that_no_line_passes_is_explained(spoken: Cli) -> None:
    unknown = spoken("logs", "--session", "nosuch", rc=1)
    assert unknown.stdout == ""
    assert unknown.stderr == "semel: there is no session 'nosuch'; known: demo:hook:team, demo:refused:team, main\n"
    assert "there is no session 'nosuch:*'" in spoken("logs", "--session", "nosuch:*", rc=1).stderr
    assert "there is no session 'mian'; did you mean \"main\"?" in spoken("logs", "--session", "mian", rc=1).stderr
    assert spoken("logs", "--turn", "t999", rc=1).stderr == "semel: there is no turn t999\n"
    assert spoken("logs", "--session", "main", "--part", "p999", rc=1).stderr == "semel: there is no part p999\n"
    for options in (("--session", "main", "--part", "p1"), ("--level", "error")):
        silent = spoken("logs", *options)
        assert silent.stdout == "" and "no line of the log is like that" in silent.stderr


def test_lines_older_than_an_age_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    times = ("2026-01-01T10:00:00Z", "2026-01-01T12:00:00.5Z", "no time")
    lines = [json.dumps({"timestamp": time, "number": number}) for number, time in enumerate(times)]
    (tmp_path / "logs" / "gateway.jsonl").write_text("\n".join(lines) + "\n")
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()
    assert [line["number"] for line in read_log(tmp_path, 9, LogFilter(since=noon))] == [1]


def test_a_clock_time_is_the_last_one_of_today_or_yesterday() -> None:
    now = datetime.now().astimezone()
    for text, form in (("%H:%M", "minutes"), ("%H:%M:%S", "seconds")):
        past, coming = now - timedelta(minutes=2), now + timedelta(minutes=2)
        for moment, days in ((past, 0), (coming, 1)):
            exact = moment.replace(second=moment.second if form == "seconds" else 0, microsecond=0)
            expected = (exact - timedelta(days=days)).timestamp()
            assert parse_time("--since", moment.strftime(text)) == round(expected * 1000), (moment, form)
    assert parse_time("--since", "9:05") == parse_time("--since", "09:05")
    for wrong in ("25:00", "18:60", "18:1", "1812"):
        with pytest.raises(typer.BadParameter):
            parse_time("--since", wrong)


def test_the_log_is_private_and_holds_no_texts_of_messages(spoken: Cli) -> None:
    [file] = list_log_files(spoken.data)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert SECRET_TEXT not in file.read_text()
    assert (spoken.data / "owner.token").read_text().strip() not in file.read_text()


def test_followed_lines_come_as_they_are_written_until_ctrl_c(cli: Cli) -> None:
    gateway = cli.up()
    followed = cli.start("logs", "-f", "--session", "main")
    for turn in (1, 2):
        cli("say", "main", "hello", "--wait")
        heard(followed, f"turn ended  session=main  turn=t{turn}")
    followed.send_signal(signal.SIGINT)
    followed.communicate(timeout=PATIENCE)
    assert followed.returncode == 0
    end(gateway)


def test_what_was_asked_and_decided_and_what_waits_for_a_limit_is_logged(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text("[limits.session]\nturns = 1\n")
    gateway = cli.up()
    cli("say", "main", "permission")
    until(lambda: cli.json("status")["attention"], "the request")
    cli("say", "main", "/approve 1", "--sender", "ann", "--wait")
    cli("say", "asked", "ask", "--wait")
    for _ in range(3):
        refused = httpx2.get(f"{cli.address(gateway.pid)}/v1/sessions", headers={"Authorization": "Bearer wrong"})
        assert refused.status_code == 401
    cli("say", "main", SECRET_TEXT)
    until(lambda: "turn waits" in cli("logs").stdout, "the message that waits")
    end(gateway)
    lines = [line.partition("semel.activity: ")[2] for line in cli("logs").stdout.splitlines()]
    for line in (
        "permission asked  session=main  turn=t1  agent=demo",
        "permission answered  session=main  outcome=allow  by=ann",
        'turn waits  session=main  why="today\'s limit of 1 turn for the session main is used up"',
    ):
        assert line in lines, lines
    wrong = 'sender refused  channel=api  by=127.0.0.1  why="a token that is not one of this gateway"'
    assert lines.count(wrong) == 1, lines
    log = cli("logs").stdout
    assert "semel.up: stopping  turns=0\n" in log and log.endswith("semel.up: stopped\n"), log
    assert SECRET_TEXT not in log


def test_without_a_log_it_is_said_who_writes_it(cli: Cli) -> None:
    assert "`semel up` writes it" in cli("logs", rc=1).stderr


WRITER = """
import sys
from pathlib import Path
import structlog
from semel.faces import log
log.MAX_LOG_BYTES = 2000
log.configure_logging("json")
logger = structlog.get_logger("semel.test")
with log.keep_log_file(Path(sys.argv[1])):
    for line in sys.stdin:
        logger.info("a line", number=int(line))
        print(line, end="", flush=True)
"""


@pytest.fixture
def writer(tmp_path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def write(writer: subprocess.Popen[str], numbers: range) -> None:
    assert writer.stdin is not None and writer.stdout is not None
    for number in numbers:
        print(number, file=writer.stdin, flush=True)
        assert writer.stdout.readline() == f"{number}\n"


def test_full_files_are_rotated_and_the_oldest_is_dropped(tmp_path: Path, writer: subprocess.Popen[str]) -> None:
    write(writer, range(1))
    followed: list[int] = []
    follower = threading.Thread(target=collect, args=(tmp_path, followed), daemon=True)
    follower.start()
    until(lambda: followed, "the first line")
    write(writer, range(1, 20))  # into a second file
    until(lambda: followed[-1] == 19, "the followed lines")
    assert followed == list(range(20)) and len(list_log_files(tmp_path)) == 2
    write(writer, range(20, 300))
    writer.communicate(timeout=PATIENCE)
    files = list_log_files(tmp_path)
    assert len(files) == KEPT_LOGS + 1
    assert all(file.stat().st_size <= 2000 and stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    numbers = [line["number"] for line in read_log(tmp_path, 1000, LogFilter())]
    assert numbers == list(range(numbers[0], 300)) and numbers[0] > 0


def collect(data_dir: Path, numbers: list[int]) -> None:
    for line in read_log(data_dir, 10, LogFilter(), is_followed=True):
        numbers.append(line["number"])


FULL_DISK = """
import sys
from pathlib import Path
import structlog
from semel.faces import log
log.configure_logging("json")
log._make_private = lambda path: path.symlink_to("/dev/full")
with log.keep_log_file(Path(sys.argv[1])):
    structlog.get_logger("semel.test").warning("said")
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is missing: it exists on Linux only")
def test_a_full_disk_costs_lines_of_the_file_and_nothing_else(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    [line] = done.stderr.splitlines()
    assert json.loads(line)["event"] == "said"


def test_a_log_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK.replace("log._make", "unused = log._make"), str(tmp_path)],
        capture_output=True, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    assert [json.loads(line)["event"].partition(":")[0] for line in done.stderr.splitlines()] == [
        "no log file is kept", "said",
    ]  # fmt: skip
