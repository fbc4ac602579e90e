"""Where no gateway runs, the commands that only read take what they show from the ledger itself, and change nothing."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import signal
from pathlib import Path

import apsw
import pytest
from cli_house import SCRIPTED, Cli, end, until

from semel.faces.cli.offline import OfflineLedger
from semel.faces.config import ConfigError, locate_to_read

COMMANDS = (
    ("sessions",),
    ("sessions", "--json"),
    ("show", "demo:web:1"),
    ("show", "demo:web:1", "-n", "2", "--json"),
    ("search", "needle"),
    ("search", "needle", "--json", "-n", "1"),
    ("export", "demo:web:1"),
    ("export", "demo:web:1", "-f", "jsonl"),
    ("export", "demo:web:1", "-f", "html"),
    ("why", "e1"),
    ("why", "demo:web:1#1", "--json"),
    ("limits",),
    ("limits", "--json"),
    ("outbox", "list"),
    ("jobs", "list", "demo:web:1", "--json"),
    ("schedules", "list"),
    ("schedules", "show", "morning"),
    ("schedules", "show", "now", "--json"),
    ("why", "now"),
)


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, ...], str]]:
    """The home of a gateway that was killed, and what the commands printed before."""
    home = tmp_path_factory.mktemp("home")
    (home / "semel.toml").write_text(SCRIPTED)
    cli = Cli(home, home / "data")
    process = cli.up()
    for text in ("say: a needle", "say: another needle"):
        cli("say", "demo:web:1", text, "--wait")
    cli("say", "demo:web:old", "say: hay", "--wait")
    cli("session", "archive", "demo:web:old")
    cli("schedules", "add", "morning", "Good morning", "--cron", "30 7 * * *", "--session", "demo:web:1")
    cli("schedules", "add", "now", "say: now", "--every", "9w", "--session", "demo:web:1")
    cli("schedules", "run", "now")
    until(lambda: '"done"' in cli("schedules", "show", "now", "--json").stdout, "its turn is done")
    printed = {command: read(cli, *command)[0] for command in COMMANDS}
    process.send_signal(signal.SIGKILL)
    cli.leave()
    return home, printed


@pytest.fixture
def killed(cli: Cli, dead: tuple[Path, dict[tuple[str, ...], str]]) -> dict[tuple[str, ...], str]:
    """A copy of that home, and what the commands printed."""
    home, printed = dead
    shutil.copytree(home, cli.home, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
    return printed


def read(cli: Cli, *command: str) -> tuple[str, str]:
    """What a command prints and remarks, without the time of an export, and the folders that only a gateway knows."""
    done = cli(*command)
    return re.sub(r',\n *"workspace": "[^"]*"', "", withhold_time(done.stdout)), done.stderr


def withhold_time(text: str) -> str:
    return re.sub(r'"exported":\d+|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d', "TIME", text)


def digests(data: Path) -> dict[str, str]:
    names = [path for path in data.iterdir() if path.name.startswith("ledger.db") and not path.name.endswith("-shm")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in names}


def test_a_copy_of_the_data_directory_does_not_lead_to_the_running_gateway(cli: Cli) -> None:
    process = cli.up()
    cli("say", "demo:web:1", "hello", "--wait")
    copy = cli.home / "copy"
    shutil.copytree(cli.data, copy, ignore=shutil.ignore_patterns("*.sock"))
    cli("say", "demo:web:2", "said after the copy was made", "--wait")
    done = cli("sessions", "--data-dir", str(copy))
    assert f"read from {copy}" in done.stderr and "demo:web:1" in done.stdout and "demo:web:2" not in done.stdout
    assert f"no gateway is running on {copy}" in cli("say", "main", "hello", "--data-dir", str(copy), rc=1).stderr
    end(process)


def test_without_a_gateway_the_same_is_read_from_the_ledger_and_nothing_is_written(
    cli: Cli, killed: dict[tuple[str, ...], str]
) -> None:
    before = digests(cli.data)
    for command, stdout in killed.items():
        read_stdout, remarks = read(cli, *command)
        assert read_stdout == stdout, command
        assert f"no gateway is running; read from {cli.data / 'ledger.db'}" in remarks
    assert "demo:web:old" in cli("sessions", "--archived").stdout
    assert digests(cli.data) == before

    # The index may be missing, or damaged: then a copy is made from the ledger.
    for content in (None, b"no database"):
        index = cli.data / "ledger.db-search"
        index.unlink()
        if content:
            index.write_bytes(content)
        assert cli("search", "needle").stdout == killed["search", "needle"]
        assert index.exists() == bool(content)
        index.touch()


def test_a_file_that_is_not_toml_keeps_nobody_from_reading_a_data_directory_that_is_named(
    cli: Cli, killed: dict[tuple[str, ...], str]
) -> None:
    (cli.home / "semel.toml").write_text(f"{SCRIPTED}\n[gateway\n")
    line = SCRIPTED.count("\n") + 2
    for command in (("sessions",), ("show", "demo:web:1"), ("search", "needle"), ("why", "e1")):
        read_stdout, remarks = read(cli, *command)
        assert read_stdout == killed[command], command
        assert f"semel.toml:{line}: this is not TOML" in remarks and "the file is not used" in remarks
    assert "semel.toml has 1 mistake" in cli("status").stdout
    assert cli("logs").stdout
    with pytest.raises(ConfigError, match=rf"semel.toml:{line}: this is not TOML.*name the data directory: --data-dir"):
        locate_to_read(cli.home / "semel.toml", None, {})


def test_a_firing_whose_time_passes_while_no_gateway_runs_is_overdue(
    cli: Cli, killed: dict[tuple[str, ...], str]
) -> None:
    assert "overdue" not in killed["schedules", "list"]
    with apsw.Connection(str(cli.data / "ledger.db")) as db:
        db.execute("UPDATE schedule SET due = 1000, downtime = iif(name = 'now', 'skip', 'once')")
    assert "\t1970-01-01 00:00 UTC, overdue\t" in cli("schedules", "list").stdout
    told = {
        name: f"schedule {name} was due at 1970-01-01 00:00:01 UTC; when a gateway starts, {fate}"
        for name, fate in {
            "morning": "one firing runs for all that were missed (downtime = once)",
            "now": "only the newest firing runs, if it is at most 60 s late (downtime = skip)",
        }.items()
    }
    assert f"{told['morning']}; it has not fired before" in cli("why", "morning", rc=1).stderr
    assert told["now"] in cli("why", "now").stdout
    status, findings = cli("status").stdout, cli("doctor").stdout
    for text in told.values():
        assert f"  {text}\n" in status and f"schedules      {text}\n" in findings
    assert "schedules 2 overdue\n" in status and "to do: start a gateway: semel up" in findings


def test_it_is_told_why_a_job_was_not_started(cli: Cli, killed: dict[tuple[str, ...], str]) -> None:
    with apsw.Connection(str(cli.data / "ledger.db")) as db:
        db.execute(
            "INSERT INTO job(run, session, agent, command, name, seconds, state, error, at, ended)"
            " SELECT 'job-1', id, agent, 'make', '', 60, 'failed', 'the spool cannot be written', 1, 2"
            " FROM session WHERE key = 'demo:web:1'"
        )
    listed = cli("jobs", "list", "demo:web:1")
    assert listed.stdout.startswith("job-1\tfailed\t")
    assert "job-1 was not started: the spool cannot be written" in listed.stderr


def test_what_is_not_there_or_needs_a_gateway_is_refused_as_before(
    cli: Cli, killed: dict[tuple[str, ...], str]
) -> None:
    for command in (("show", "none"), ("export", "none")):
        assert "there is no session 'none'" in cli(*command, rc=1).stderr
    assert "nothing is known of 'e99'" in cli("why", "e99", rc=1).stderr
    assert "there is no schedule 'x'" in cli("schedules", "show", "x", rc=1).stderr
    assert "give the `next` of the page before" in cli("search", "x", "--after", "nonsense", rc=2).stderr
    assert "'x' is not one of queued" in cli("outbox", "list", "--state", "x", rc=2).stderr
    assert "no gateway is running" in cli("say", "demo:web:1", "hi", rc=1).stderr
    nowhere = cli("sessions", "--data-dir", str(cli.home / "nowhere"), rc=1)
    assert "semel up" in nowhere.stderr and not (cli.home / "nowhere").exists()


def test_a_ledger_of_another_version_is_neither_read_nor_migrated(cli: Cli, killed: dict[tuple[str, ...], str]) -> None:
    with apsw.Connection(str(cli.data / "ledger.db")) as db:
        db.execute("PRAGMA user_version = 99")
    done = cli("sessions", rc=1)
    assert "version" in done.stderr and "Traceback" not in done.stderr
    with apsw.Connection(str(cli.data / "ledger.db")) as db:
        db.execute("PRAGMA user_version = 1")
    done = cli("backup", str(cli.home / "backups"), rc=1)
    assert "run the command 'backup' of the older Semel that wrote it" in " ".join(done.stderr.split())


async def test_a_gateway_may_start_while_the_ledger_is_read(cli: Cli, killed: dict[tuple[str, ...], str]) -> None:
    reader = await asyncio.to_thread(OfflineLedger, cli.data / "ledger.db", cli.data)
    pieces = reader.export("demo:web:1")
    first = await anext(pieces)
    process = await asyncio.to_thread(cli.up)
    await asyncio.to_thread(cli, "say", "demo:web:1", "say: meanwhile", "--wait")
    document = first + b"".join([piece async for piece in pieces])
    assert withhold_time(document.decode()) == killed["export", "demo:web:1", "-f", "jsonl"]
    assert [e["text"] for e in await reader.list_entries("demo:web:1")][-1] == "meanwhile"
    reader.close()
    end(process)
    report = await asyncio.to_thread(cli.json, "doctor")
    assert report["ok"]
