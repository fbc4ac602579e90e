"""`[ledger] url = "postgresql://..."`: a gateway keeps everything in a database, across its kills and the server's."""

from __future__ import annotations

import base64
import os
import signal
import threading
import tomllib
from pathlib import Path

import pytest
from cli_house import SCRIPTED, Cli, end, until
from python_process import Process
from store_house import openclaw_event, openclaw_folder

from proof.postgres_server import PostgresServer
from semel.faces.client import Client, RequestRefused
from semel.faces.health.database import examine_database
from semel.ledger.file_pieces import PIECE_BYTES
from semel.ledger.storage.location import DatabaseUrl

LONG_TEXT = " ".join(f"word{n}" for n in range(3000))


COMMANDS: dict[str, tuple[str, ...]] = {
    "show": ("show", "main"),
    "search": ("search", "kettle"),
    "why": ("why", "main#1"),
    "outbox": ("outbox", "list"),
}


def kill(process: Process) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def states(cli: Cli) -> dict[str, str]:
    return {session["key"]: session["state"] for session in cli.json("sessions")}


def texts(cli: Cli, session: str, role: str) -> list[str]:
    return [entry["text"] for entry in cli.json("show", session) if entry["role"] == role]


def test_what_was_said_is_in_the_database_and_read_without_a_gateway(cli: Cli) -> None:
    told = cli("status", rc=1).stderr
    assert "There is no ledger in the database postgresql://" in told and "It is made by the first" in told
    process = cli.up()
    cli("say", "main", "the kettle is on", "--wait")
    with_gateway = {name: cli.json(*command) for name, command in COMMANDS.items()}
    keys = set(states(cli))
    end(process)
    assert {path.name for path in cli.data.iterdir()} & {"ledger.db", "ledger.db-wal"} == set()
    assert {name: cli.json(*command) for name, command in COMMANDS.items()} == with_gateway
    assert set(states(cli)) == keys == {"main"}
    status = cli.json("status")
    assert status["database"].startswith("postgresql://") and status["disk"]["ledger"] > 1_000_000
    assert "database  postgresql://" in cli("status").stdout and "semel backup" not in cli("status").stdout
    assert cli.json("doctor", "--laws")["ok"]


def test_another_systems_conversation_grows_in_the_database_once(cli: Cli, tmp_path: Path) -> None:
    process = cli.up()
    events = [openclaw_event(1, "user", "first question"), openclaw_event(2, "assistant", "first answer")]
    command = ("import", "--from", "openclaw", str(openclaw_folder(tmp_path / "store", events)))
    (first,) = cli.json(*command)["sessions"]
    cli("say", first["session"], "between", "--wait")
    events += [openclaw_event(3, "user", "second question"), openclaw_event(4, "assistant", "second answer")]
    openclaw_folder(tmp_path / "store", events)
    statuses = [cli.json(*command)["sessions"][0]["status"] for _ in range(2)]
    assert [first["status"], *statuses] == ["imported", "grown", "known"]
    assert texts(cli, first["session"], "user") == ["first question", "between", "second question"]
    assert cli.json("doctor", "--laws")["ok"]
    end(process)


def test_a_database_has_one_gateway(cli: Cli) -> None:
    process = cli.up()
    other = Cli(cli.home, cli.home / "other")
    told = other("up", "--listen", "127.0.0.1:0", rc=1).stderr
    assert "belongs to a running gateway" in told and "One ledger has one gateway" in told
    assert "belongs to a running gateway" in cli("restore", "--here", rc=1).stderr
    end(process)


def test_backups_are_those_of_the_database(cli: Cli) -> None:
    end(cli.up())
    for command in (("backup",), ("restore", str(cli.home))):
        told = cli(*command, rc=1).stderr
        assert "pg_dump" in told and "files of its messages" in told and "restore --here" in told
    assert cli("restore", "--here").stdout.startswith("postgresql://")
    end(cli.up())
    assert "the ledger was restored from a copy" in cli("logs").stdout


def test_a_dump_is_restored_without_sending_on_a_guess(cli: Cli, server: PostgresServer, tmp_path: Path) -> None:
    process = cli.up()
    cli("say", "main", "before the dump", "--wait")
    config, dump = cli.home / "semel.toml", str(server.folder / "semel.dump")
    content = os.urandom(PIECE_BYTES + 1)
    block = {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": base64.b64encode(content).decode()}}
    with Client(cli.data) as client:
        client.post("/v1/sessions/files/messages", {"blocks": [block]})
    server.run("pg_dump", "--format=custom", f"--file={dump}", read_url(config))
    end(process)
    restored = server.url(server.create_database())
    server.run("pg_restore", "--no-owner", f"--dbname={restored}", dump)
    config.write_text(f'{SCRIPTED}[ledger]\nurl = "{restored}"\n')
    assert cli("restore", "--here").stdout.startswith("postgresql://")
    process = cli.up()
    cli("say", "main", "after the restore", "--wait")
    assert texts(cli, "main", "user") == ["before the dump", "after the restore"]
    assert len(texts(cli, "main", "notice")) == 1, "people are told once what may be missing"
    (file,) = next(entry["files"] for entry in cli.json("show", "files") if entry["role"] == "user")
    with Client(cli.data) as client:
        assert client.read_file(file["id"]) == content, "the dump holds the files"
    assert cli.json("doctor", "--laws")["ok"]
    end(process)


def read_url(config: Path) -> str:
    url: str = tomllib.loads(config.read_text())["ledger"]["url"]
    return url


def test_doctor_names_the_server(cli: Cli) -> None:
    config = cli.home / "semel.toml"
    config.write_text(f'[gateway]\nlisten = "127.0.0.1:0"\n{config.read_text()}')  # the default port may be in use
    findings = {finding["subject"]: finding for finding in cli.json("doctor")["findings"]}
    assert findings["database"]["level"] == "ok" and findings["database"]["text"].startswith("PostgreSQL 1")
    assert "no ledger" in findings["books"]["text"]
    assert "backup" not in findings


def test_doctor_warns_of_what_will_go_wrong_at_the_server(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from semel.ledger.postgres import server as module

    facts = module.ServerFacts(
        "18.4", standbys=1, confirming=0, oldest_s=3600, connections=95, most=100, queue_percent=60, has_settings=1
    )
    monkeypatch.setattr(module, "read_facts", lambda *_: facts)
    findings = examine_database(DatabaseUrl(server.url(server.create_database())))
    warnings = [finding.text for finding in findings if finding.level == "warning"]
    for text, words in zip(warnings, ("no standby confirms", "3,600 s", "95 of 100", "60% full"), strict=True):
        assert words in text


def test_a_gateway_that_is_killed_goes_on_at_its_next_start(cli: Cli) -> None:
    process = cli.up()
    for n in range(3):
        cli("say", f"s{n}", LONG_TEXT)
        kill(process)
        process = cli.up()
    for n in range(3):
        until(lambda n=n: states(cli)[f"s{n}"] == "idle", f"the end of s{n}")
        assert texts(cli, f"s{n}", "user") == [LONG_TEXT]
    assert cli.json("doctor", "--laws")["ok"]
    end(process)


def test_a_server_that_is_killed_loses_and_doubles_nothing(cli: Cli, server: PostgresServer) -> None:
    """The messages have no keys: what was accepted is there once, and what was refused is not there."""
    process = cli.up()
    accepted, refused, stop = list[str](), list[str](), threading.Event()

    def talk() -> None:
        with Client(cli.data) as client:
            for n in range(10_000):
                try:
                    client.post("/v1/sessions/main/messages", {"text": f"text {n}"})
                    accepted.append(f"text {n}")
                except RequestRefused:
                    refused.append(f"text {n}")
                if stop.is_set():
                    return

    talker = threading.Thread(target=talk)
    talker.start()
    try:
        for _ in range(3):
            wait_for_more(accepted)
            server.kill()
            server.start()
        wait_for_more(accepted)
    finally:
        stop.set()
        talker.join()
    until(lambda: states(cli)["main"] == "idle", "the end of the turns")
    assert texts(cli, "main", "user") == accepted, refused
    assert cli.json("doctor", "--laws")["ok"]
    end(process)


def wait_for_more(accepted: list[str]) -> None:
    before = len(accepted)
    until(lambda: len(accepted) > before + 3, "messages that are accepted")
