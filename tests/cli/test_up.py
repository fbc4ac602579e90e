"""`semel up`: a start that says what is wrong, and an end that loses nothing."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import platform
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cli_house import PATIENCE, SCRIPTED, Cli, end, heard, until

from semel.faces.cli import talk
from semel.faces.client import wait_for_answer
from semel.faces.config.load import load_config
from semel.faces.run import CannotStart, open_gateway, read_owner_token

SLOW = '[[script [{"text": "One word after the other. One word after the other.", "chunks": 20, "delay": 60}]]]'


def speaks(cli: Cli) -> bool:
    return any(entry["role"] == "agent" and entry["text"] for entry in cli.json("show", "main"))


def test_the_gateway_says_where_it_is_and_ends_with_ctrl_c(cli: Cli) -> None:
    process = cli.up("--log", "json")
    token = cli.data / "owner.token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert stat.S_IMODE(cli.data.stat().st_mode) == 0o700
    assert cli("sessions").rc == 0
    lines = [json.loads(line) for line in end(process).splitlines()]
    ready = next(line for line in lines if line["event"] == "ready")
    assert ready["url"].startswith("http://127.0.0.1:")
    assert process.returncode == 0
    assert not (cli.data / "gateway.json").exists()


def test_sigterm_ends_it_cleanly_too(cli: Cli) -> None:
    process = cli.up()
    process.terminate()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "did not stop properly" not in end(cli.up())


def test_what_was_said_before_a_kill_is_answered_after_the_next_start(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cli.up()

    async def wait_and_lose_it(*args: Any, **options: Any) -> Any:
        await asyncio.to_thread(until, lambda: speaks(cli), "the beginning of the answer")
        first.kill()
        first.communicate()
        return await wait_for_answer.wait_for_answer(*args, **options)

    monkeypatch.setattr(wait_for_answer, "RECONNECT_TIMEOUT_S", 0.0)
    monkeypatch.setattr(talk, "wait_for_answer", wait_and_lose_it)
    told = cli("say", "main", "slow", "--wait", rc=1).stderr.splitlines()
    assert told[0].startswith("semel: the message is recorded (e1): do not send it again. Its turn goes on when")
    assert "no gateway is running on" in told[1] and told[2].endswith("semel show main")
    second = cli.up()
    until(lambda: cli.json("sessions")[0]["state"] == "idle", "the end of the turn")
    entries = cli.json("show", "main")
    assert [entry["role"] for entry in entries].count("user") == 1
    assert entries[-1]["role"] in ("agent", "notice") and not entries[-1].get("live")
    assert cli.json("doctor", "--laws")["ok"]
    said = end(second)
    assert "did not stop properly" in said and "unfinished" in said


def test_a_second_ctrl_c_leaves_the_running_turn_to_the_next_start(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text('[gateway]\ngrace = "10m"\n' + SCRIPTED)
    process = cli.up()
    cli("say", "main", SLOW)
    until(lambda: speaks(cli), "the beginning of the answer")
    process.send_signal(signal.SIGINT)
    heard(process, "stopping")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=PATIENCE)  # well inside the grace
    assert process.returncode == 0, said
    assert cli("doctor", "--laws").stdout.splitlines()[-1] == "all laws hold"


def test_a_gateway_imports_nothing_of_semel_testing(cli: Cli) -> None:
    with (cli.home / "imports").open("w") as imports:
        command = [sys.executable, "-X", "importtime", "-m", "semel", "up", "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(
            command, env=cli.env, cwd=cli.home, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=imports
        )
    cli.started.append(process)
    until(lambda: cli.address(process.pid), "the gateway's start")
    assert cli("say", "main", "send: hello", "--wait").stdout == "hello\n"
    end(process)
    modules = {line.rpartition("|")[2].strip() for line in (cli.home / "imports").read_text().splitlines()}
    assert {"semel.gateway", "semel.faces.http"} <= modules
    assert not [module for module in modules if module.startswith("semel.testing")]


def test_a_second_gateway_on_the_same_data_is_refused(cli: Cli) -> None:
    process = cli.up()
    refused = cli("up", "--listen", "127.0.0.1:0", rc=1).stderr
    assert f"belongs to a running gateway (pid {process.pid})" in refused
    assert cli("sessions").rc == 0  # the first one goes on, and is still found
    end(process)


def test_a_taken_port_is_one_line_and_starts_nothing(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = cli("up", "--listen", f"127.0.0.1:{port}", rc=1).stderr
    assert f"port {port} on 127.0.0.1 is in use" in refused and f" --listen 127.0.0.1:{port + 1}`" in refused
    assert refused.count("semel:") == 1
    end(cli.up())  # the ledger was let go


def test_a_wrong_configuration_is_wrong_usage(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text('[agents.main]\ncomand = ["x"]\n')
    assert 'has no setting "comand"; did you mean "command"?' in cli("up", rc=2).stderr
    assert "should be host:port" in cli("up", "--listen", "8420", "--config", "/dev/null", rc=2).stderr


def test_a_newer_ledger_is_left_alone(cli: Cli) -> None:
    end(cli.up())
    ledger = cli.data / "ledger.db"
    subprocess.run(
        ["python3", "-c", f"import sqlite3; sqlite3.connect({str(ledger)!r}).execute('PRAGMA user_version = 9999')"],
        check=True,
    )
    assert "Run the newer Semel" in cli("up", "--listen", "127.0.0.1:0", rc=1).stderr
    assert "Run the newer Semel" in cli("doctor", rc=1).stdout


def test_a_place_that_cannot_be_written_is_named(cli: Cli) -> None:
    (cli.home / "file").write_text("")
    refused = cli("up", "--data-dir", str(cli.home / "file" / "data"), rc=2).stderr
    assert "is not a directory: move it away, or name another" in refused


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    token = read_owner_token(tmp_path)
    assert read_owner_token(tmp_path) == token
    (tmp_path / "owner.token").chmod(0o644)
    with pytest.raises(CannotStart, match="chmod 600"):
        read_owner_token(tmp_path)


def test_the_token_is_made_on_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)  # as on exFAT, which a test cannot mount
    token = read_owner_token(tmp_path)
    assert len(token) >= 32 and read_owner_token(tmp_path) == token
    assert [path.name for path in tmp_path.iterdir()] == ["owner.token"]


def test_beyond_loopback_everyone_needs_the_token(cli: Cli) -> None:
    process = cli.start("up", "--listen", "0.0.0.0:0")
    url = until(lambda: cli.address(process.pid), "the gateway's start")
    assert cli("sessions").rc == 0, "the command line comes by the unix socket"
    assert httpx2.get(f"{url}/v1/sessions", trust_env=False).status_code == 401
    token = (cli.data / "owner.token").read_text().strip()
    shown = {"Authorization": f"Bearer {token}"}
    assert httpx2.get(f"{url}/v1/sessions", headers=shown, trust_env=False).status_code == 200
    assert url.startswith("http://127.0.0.1:")
    end(process)


def test_agents_found_on_path_are_named_and_not_started(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = cli.home / "bin"
    tools.mkdir()
    (tools / "codex-acp").write_text(f"#!/bin/sh\ntouch {cli.home}/started\n")
    (tools / "claude").write_text("#!/bin/sh\n")
    for name in ("codex-acp", "claude"):
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    said = in_terminal(cli, "up", "--listen", "127.0.0.1:0")
    assert "demo (the bundled demo agent)" in said
    assert "Found on this machine" in said
    assert "agents add codex" in said and "agents add claude --install" in said
    assert not (cli.home / "started").exists()


def in_terminal(cli: Cli, *args: str) -> str:
    """What the command prints on a terminal until Ctrl-C is typed once it is up."""
    import pty
    import sys

    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cli.home)
        os.execve(sys.executable, [sys.executable, "-m", "semel", *args], {**cli.env, "PATH": os.environ["PATH"]})
    until(lambda: cli.address(pid), "the gateway's start")
    said = b""
    while b"Ctrl-C ends it" not in said:
        said += os.read(terminal, 65536)
    os.write(terminal, b"\x03")
    try:
        while more := os.read(terminal, 65536):
            said += more
    except OSError:  # the other side of the terminal is closed
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return said.decode()


async def test_the_whole_house_opens_in_a_program_too(tmp_path: Path) -> None:
    config = load_config(data_dir=tmp_path, listen="127.0.0.1:0", env={"HOME": str(tmp_path)})
    async with open_gateway(config) as house:
        heard = await house.gateway.say("main", "hello")
        assert heard.status == "accepted"
    assert not (tmp_path / "gateway.json").exists()


COUNT_HEAPS = """
import ctypes, sys, tempfile, threading
import httpx2
import pytest
from semel.faces.cli import up
from semel.faces.config import ConfigError, load

def enough(*_):
    raise ConfigError("enough")

def allocate():
    begun.wait()
    blocks = [bytes(5_000) for _ in range(100)]
    begun.wait()

if sys.argv[1] == "up":
    load.load_config = enough
    with pytest.raises(ConfigError):
        up.up(None, None, False, None, None)
begun = threading.Barrier(4)
threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as told:
    file = ctypes.c_void_p(libc.fopen(told.name.encode(), b"w"))
    libc.malloc_info(0, file)
    libc.fclose(file)
    print(told.read().count(b"<heap nr="))
"""


@pytest.mark.long
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other heaps")
def test_all_threads_of_a_gateway_share_one_heap() -> None:
    """What one thread made and another dropped leaves room that every thread can use."""
    heaps = {
        how: int(subprocess.run([sys.executable, "-c", COUNT_HEAPS, how], capture_output=True, check=True).stdout)
        for how in ("up", "plain")
    }
    assert heaps["up"] == 1 < heaps["plain"]
