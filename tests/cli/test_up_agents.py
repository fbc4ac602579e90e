"""`semel up` tries its agents once it runs, and says which of them cannot be used."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
from pathlib import Path

import pytest
from cli_house import PATIENCE, SCRIPTED, Cli, end, heard, until

from semel.faces.config.load import load_config
from semel.faces.health import agents
from semel.faces.run import open_gateway
from semel.testing.scripted_agent import command


def children(pid: int) -> list[str]:
    """The command lines of a process's descendants."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [Path(f"/proc/{child}/cmdline").read_text().replace("\0", " "), *children(int(child))]
    return found


def test_what_the_background_check_finds_is_logged_and_in_the_status_until_a_turn_ends_well(cli: Cli) -> None:
    program = cli.home / "not-here"
    bad = f"[agents.bad]\ncommand = {json.dumps([str(program)])}\n"
    (cli.home / "semel.toml").write_text(SCRIPTED.replace("demo", "good") + bad)
    process = cli.up("--log", "json")
    found = sorted((json.loads(heard(process, "agent can")) for _ in range(2)), key=lambda line: line["event"])
    assert [(line["event"], line["agent"], line["level"]) for line in found] == [
        ("agent can be used", "good", "info"),
        ("agent cannot be used", "bad", "warning"),
    ]
    assert f"command not found: '{program}'" in found[1]["why"]
    assert re.search(r"agents +good: not in use\n +bad: command not found", cli("status").stdout)
    program.write_text(f"#!/bin/sh\nexec {shlex.join(command())}\n")
    program.chmod(0o755)
    cli("say", "bad:x", "say: hello", "--wait")
    check = cli.json("status")["checks"]["bad"]
    assert (check["level"], check["text"]) == ("ok", "its last turn ended well")
    check_agent_that_is_added_meanwhile(cli)
    end(process)


def check_agent_that_is_added_meanwhile(cli: Cli) -> None:
    """The running gateway does not know it: whoever adds it is told."""
    with (cli.home / "semel.toml").open("a") as file:
        file.write(SCRIPTED.replace("demo", "late"))
    todo = {row["name"]: row["todo"] for row in cli.json("agents", "list")}
    unknown = "the running gateway does not know it yet: restart the gateway"
    assert unknown in todo["late"] and "semel agents check late" in todo["late"] and unknown not in todo["good"]
    notes = {check["name"]: "; ".join(check["notes"]) for check in cli.json("agents", "check", "good", "late")}
    assert unknown in notes["late"] and unknown not in notes["good"]
    findings = [finding for finding in cli.json("doctor")["findings"] if finding["subject"] == "agent late"]
    assert [finding["level"] for finding in findings] == ["ok", "warning"]
    assert "restart the gateway" in findings[1]["remedy"]
    other = cli.home / "other.toml"
    other.write_text(SCRIPTED.replace("demo", "third"))
    [row] = cli.json("agents", "list", "--config", str(other), "--data-dir", str(cli.data))
    assert f"it has read {cli.home}/semel.toml, and not {other}" in row["todo"]
    other.write_text("")
    said = cli("agents", "list", "--config", str(other), "--data-dir", str(cli.data)).stderr.replace("\n", "")
    assert f"the running gateway has the agents good, bad; --config {cli.home}/semel.toml lists them" in said


def test_a_stop_ends_the_check_and_its_process(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text('[agents.slow]\ncommand = ["sleep", "600.5"]\n')
    process = cli.up()
    until(lambda: any("sleep 600.5" in line for line in children(process.pid)), "the start of the agent")
    end(process)
    assert process.returncode == 0
    assert not [place for place in Path("/proc").iterdir() if place.name.isdigit() and "600.5" in read_command(place)]


def read_command(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""


async def test_an_agent_that_a_session_uses_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "START_DELAY_S", 0.0)
    starter = f"echo x >> {tmp_path / 'starts'}; exec {shlex.join(command())}"
    (tmp_path / "semel.toml").write_text(f"[agents.main]\ncommand = {json.dumps(['sh', '-c', starter])}\n")
    config = load_config(tmp_path / "semel.toml", tmp_path / "data", "127.0.0.1:0", env={"HOME": str(tmp_path)})
    async with open_gateway(config) as running:
        await running.gateway.say("main", "hello")
        async with asyncio.timeout(PATIENCE):
            async for _ in running.gateway.watch("main"):
                if running.gateway.spawns.status():
                    break
        await agents.check_agents_in_background(running)
        assert running.agent_checks == {}
    assert (tmp_path / "starts").read_text() == "x\n"


def test_agents_are_not_tried_if_the_configuration_says_so(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text("[gateway]\ncheck_agents = false\n" + SCRIPTED)
    process = cli.up()
    time.sleep(agents.START_DELAY_S + 0.5)
    assert "agent can" not in end(process)
