"""Another user of the machine takes a dead gateway's port, or makes what `semel` reads: nothing of ours goes there."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cli_house import Cli

from semel.faces.client import GatewayNotTrusted
from semel.faces.run import CannotStart, read_owner_token
from semel.tools import trusted_files
from semel.tools.address import find_socket
from semel.tools.exec import reporter
from semel.tools.exec.output import OutputRecorder
from semel.tools.exec.reporter import Target
from semel.tools.exec.runner import report_lost_run
from semel.tools.exec.spool import LOST, OUTPUTS_KEPT, Spool

NOBODY = 65534
SECRET = "the-owners-token-0123456789"


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """A home whose gateway was killed: its address and the token are still there."""
    cli = Cli(tmp_path, tmp_path / "data")
    cli.data.mkdir(mode=0o700)
    announce(cli.data, 1)
    yield cli
    cli.leave()


def address_of(data: Path, port: int) -> dict[str, Any]:
    return {"url": f"http://127.0.0.1:{port}", "socket": str(data / "gateway.sock"), "pid": 1 << 22}


def announce(data: Path, port: int) -> None:
    for name, text in (
        ("gateway.json", json.dumps(address_of(data, port))),
        ("owner.token", SECRET),
    ):
        (data / name).write_text(text)
        (data / name).chmod(0o600)


@pytest.fixture
def catcher() -> Iterator[tuple[int, list[bytes]]]:
    """A port of ours, and what came there, connection by connection."""
    got: list[bytes] = []

    def catch(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                there, _ = listening.accept()
                with there:
                    got.append(there.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=catch, args=(listening,), daemon=True).start()
        yield listening.getsockname()[1], got
        listening.shutdown(socket.SHUT_RDWR)


# ---------------------------------------------------------------- who took the port


def test_what_took_the_port_of_a_dead_gateway_gets_neither_token_nor_report(
    cli: Cli, catcher: tuple[int, list[bytes]]
) -> None:
    """Nothing of ours goes to a port that was found by itself: commands speak on the socket in the data directory."""
    port, got = catcher
    announce(cli.data, port)
    (cli.data / "export.jsonl").write_text("{}\n")
    for args in (
        ("say", "main", "hello"), ("sessions",), ("export", "main"),
        ("import", str(cli.data / "export.jsonl")),
    ):  # fmt: skip
        assert "no gateway is running" in " ".join(cli(*args, rc=1).stderr.split()), args
    assert "the gateway is away" in cli("chat", "--plain").stderr
    told = cli("exec", "-s", "main", "--name", "box", "--wait", "0", "--", "true").stderr
    assert "not taken yet: no gateway is running" in " ".join(told.split())
    told = cli("exec", "--flush", "--wait", "0", rc=1).stderr
    assert "not taken yet: no gateway is running" in " ".join(told.split())
    assert not got
    assert len(list((cli.data / "exec/box").glob("*/exec.finished.json"))) == 1, "the report is kept"


def test_a_report_goes_to_a_port_only_if_its_url_was_named(cli: Cli, catcher: tuple[int, list[bytes]]) -> None:
    """A token file alone names no address, and the owner's token goes nowhere."""
    port, got = catcher
    announce(cli.data, port)
    node = cli.home / "node.token"
    node.write_text("the-token-of-a-node")
    node.chmod(0o600)
    url = f"http://127.0.0.1:{port}"
    with httpx2.Client(trust_env=False) as http:
        for to in (Target(cli.data), Target(cli.data, None, node)):
            verdict = reporter.post_report(http, to, "main", {"key": "k"})
            assert verdict.outcome == "later" and "no gateway is running" in verdict.reason
        assert not got
        reporter.post_report(http, Target(cli.data, url), "main", {"key": "k"})
        report = got.pop()
        assert report.startswith(b"POST /v1/sessions/main/events") and b"Authorization" not in report
        reporter.post_report(http, Target(cli.data, url, node), "main", {"key": "k"})
    assert b"Bearer the-token-of-a-node" in got[-1]


# ---------------------------------------------------------------- who made what we read


def another_users(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def plant(place: Path, to: dict[str, str]) -> Path:
    """A run that another user would have us report: its directory."""
    place.mkdir(mode=0o700, parents=True)
    about = {"node": "ci", "session": "main", "command": ["x"], "cwd": "/", "at": 1.0, "to": to}
    (place / "run.json").write_text(json.dumps(about))
    (place / "exec.finished.json").write_text(json.dumps({"kind": "exec.finished", "key": "k"}))
    return place


@pytest.mark.root
def test_a_data_directory_of_another_user_has_no_run_reported_and_none_begun(
    cli: Cli, catcher: tuple[int, list[bytes]]
) -> None:
    """Its runs could say that a token of ours goes to an address of theirs."""
    theirs = cli.home / "theirs"
    to = {
        "data_dir": str(cli.data),
        "token_file": str(cli.data / "owner.token"),
        "url": f"http://127.0.0.1:{catcher[0]}",
    }
    run = plant(theirs / "exec/ci" / ("1" * 32), to)
    for path in (theirs, *theirs.rglob("*")):
        another_users(path)
    mark = cli.home / "ran"
    command = ("-s", "main", "--name", "ci", "--", "touch", str(mark))
    for args, rc in ((("--flush",), 1), (("--flush", "--name", "ci"), 1), (command, 125)):
        told = " ".join(cli("exec", "--data-dir", str(theirs), "--wait", "0", *args, rc=rc).stderr.split())
        assert f"{theirs} belongs to another user (nobody, uid {NOBODY}) and is not used" in told
        assert "Run this as that user (sudo -H -u nobody ...)" in told and "chown -R 0" in told
    assert not catcher[1] and not mark.exists() and (run / "exec.finished.json").exists()


ROOTS = [pytest.param(doing, marks=pytest.mark.root) for doing in ("run", "run.json", "exec.finished.json")]


@pytest.mark.parametrize("doing", [*ROOTS, "link", "file link", "writable"])
def test_a_run_that_others_could_have_made_is_named_and_not_reported(
    cli: Cli, catcher: tuple[int, list[bytes]], doing: str
) -> None:
    to = {
        "data_dir": str(cli.data),
        "token_file": str(cli.data / "owner.token"),
        "url": f"http://127.0.0.1:{catcher[0]}",
    }
    run = plant(cli.data / "exec/ci" / ("1" * 32), to)
    if doing == "link":
        run = run.rename(cli.home / "elsewhere")
        (cli.data / "exec/ci" / ("1" * 32)).symlink_to(run)
    elif doing == "file link":
        (run / "run.json").rename(cli.home / "run.json")
        (run / "run.json").symlink_to(cli.home / "run.json")
    elif doing == "writable":
        (run / "run.json").chmod(0o666)
    else:
        another_users(run / doing if doing != "run" else run)
    told = " ".join(cli("exec", "--flush", "--wait", "0", rc=1).stderr.split())
    assert "is not used" in told and "then remove it" in told
    assert not catcher[1] and (run / "exec.finished.json").exists()


@pytest.mark.parametrize("folder", ["exec", "exec/ci", "exec/ci/outputs"])
def test_no_folder_of_the_spool_may_be_a_link(cli: Cli, folder: str) -> None:
    """Old outputs are removed there."""
    docs = cli.home / "docs"
    (docs / "ci/outputs").mkdir(parents=True)
    for n in range(OUTPUTS_KEPT + 5):
        (docs / f"{n:032}.txt").write_text("mine")
    (cli.data / folder).parent.mkdir(parents=True, exist_ok=True)
    (cli.data / folder).symlink_to(docs)
    told = " ".join(cli("exec", "-s", "main", "--name", "ci", "--wait", "0", "--", "true", rc=125).stderr.split())
    assert f"{cli.data / folder} is a link and is not used" in told and "was not started" in told
    assert len(list(docs.glob("*.txt"))) == OUTPUTS_KEPT + 5 and not list(docs.glob("ci/*/*"))


def test_only_outputs_of_runs_are_ever_removed(tmp_path: Path) -> None:
    outputs = tmp_path / "ci/outputs"
    outputs.mkdir(parents=True)
    names = [f"note-{n}.txt" for n in range(30)] + ["0" * 32, "0" * 31 + ".txt", "g" * 32 + ".txt"]
    for name in names:
        (outputs / name).write_text("mine")
    for n in range(OUTPUTS_KEPT + 3):
        (outputs / f"{n:032}.txt").write_text("old")
        os.utime(outputs / f"{n:032}.txt", (n + 100, n + 100))
    link = outputs / ("f" * 32 + ".txt")
    link.symlink_to(outputs / names[0])
    Spool(tmp_path, "ci").begin("a" * 32, {"at": 1.0}, 0).close()
    left = {path.name for path in outputs.iterdir()}
    assert left == {*names, link.name, *(f"{n:032}.txt" for n in range(3, OUTPUTS_KEPT + 3))}
    assert (outputs / names[0]).read_text() == "mine"


def test_an_output_is_neither_written_nor_told_through_a_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("untouched")
    run = Spool(tmp_path, "ci").begin("a" * 32, {"node": "", "command": ["x"], "at": 1.0, "cwd": "/"}, 0)
    run.output.symlink_to(secret)
    output = OutputRecorder(run.output, 0, 100)
    output.take("out", b"overwritten")
    output.end()
    assert secret.read_text() == "untouched" and output.incomplete_reason
    report_lost_run(run)
    (report,) = run.reports
    assert report.kind == LOST and "untouched" not in json.dumps(report.body)
    run.close()


def test_the_process_that_others_name_is_not_ours_to_end(tmp_path: Path) -> None:
    run = Spool(tmp_path, "jobs").begin("job-1", {"at": 1.0}, 0)
    run.record_process(os.getpid(), "born", 1.0)
    assert run.process is not None
    (run.folder / "process.json").chmod(0o666)
    assert run.process is None
    run.close()


def test_every_folder_that_exec_makes_is_closed_to_others(cli: Cli) -> None:
    fresh = cli.home / "fresh"
    (cli.home / "loose/exec/ci").mkdir(parents=True, mode=0o755)
    old = os.umask(0)
    try:
        for data in (fresh, cli.home / "loose"):
            cli("exec", "--data-dir", str(data), "-s", "main", "--name", "ci", "--wait", "0", "--", "true")
    finally:
        os.umask(old)
    folders = [path for path in fresh.rglob("*") if path.is_dir()]
    assert {path.name for path in folders} > {"exec", "ci", "outputs"}
    loose = [cli.home / "loose/exec", cli.home / "loose/exec/ci"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (fresh, *folders, *loose)} == {0o700}


@pytest.mark.root
@pytest.mark.parametrize("doing", ["all", "gateway.json"])
def test_an_address_that_another_user_made_is_not_believed(
    cli: Cli, catcher: tuple[int, list[bytes]], doing: str
) -> None:
    theirs = cli.home / "theirs"
    theirs.mkdir(mode=0o755)
    announce(theirs, catcher[0])
    for path in (theirs, *theirs.iterdir()) if doing == "all" else (theirs / doing,):
        another_users(path)
    for args in (("say", "main", "hello"), ("sessions",), ("doctor",), ("chat", "--plain")):
        told = " ".join(cli(*args, "--data-dir", str(theirs), rc=1).stderr.split())
        assert "belongs to another user (nobody" in told, args
    assert not catcher[1]


@pytest.mark.parametrize("doing", ["writable directory", "writable address", "linked address", "socket elsewhere"])
def test_an_address_that_others_could_have_written_is_not_believed(cli: Cli, doing: str) -> None:
    address = cli.data / "gateway.json"
    assert find_socket(cli.data) == cli.data / "gateway.sock"
    if doing == "writable directory":
        cli.data.chmod(0o770)
    elif doing == "writable address":
        address.chmod(0o622)
    elif doing == "linked address":
        address.rename(cli.home / "told")
        address.symlink_to(cli.home / "told")
    else:
        (cli.home / "open").mkdir()
        (cli.home / "open").chmod(0o777)
        address.write_text(json.dumps({**address_of(cli.data, 1), "socket": str(cli.home / "open/gateway.sock")}))
    with pytest.raises(GatewayNotTrusted, match="is not used"):
        find_socket(cli.data)


def test_a_link_to_the_own_data_directory_is_followed(cli: Cli) -> None:
    (cli.home / "way").symlink_to(cli.data)
    assert find_socket(cli.home / "way") == cli.data / "gateway.sock"


def test_a_token_file_that_others_can_write_is_not_shown_to_anybody(cli: Cli) -> None:
    node = cli.home / "node.token"
    node.write_text("the-token-of-a-node")
    node.chmod(0o622)
    assert "node.token" in cli("exec", "--wait", "0", "-s", "s", "--token-file", str(node), "--", "true", rc=2).stderr
    with pytest.raises(ValueError, match="chmod go-w"):
        reporter.read_token(node)
    os.mkfifo(cli.home / "pipe", 0o600)
    with pytest.raises(trusted_files.UntrustedFile, match="not a regular file"):
        trusted_files.read_file(cli.home / "pipe")


@pytest.mark.root
def test_a_gateway_does_not_start_with_a_token_that_another_user_made(tmp_path: Path) -> None:
    read_owner_token(tmp_path)
    another_users(tmp_path / "owner.token")
    with pytest.raises(CannotStart, match="belongs to another user"):
        read_owner_token(tmp_path)
