"""`semel drain`."""

from __future__ import annotations

import threading

import pytest
from cli_house import SCRIPTED, Cli, heard, until

from semel.testing.scripted_agent import prompt


@pytest.mark.parametrize("is_stopping", [False, True])
def test_drain_waits_until_the_gateway_and_its_turns_have_ended(cli: Cli, is_stopping: bool) -> None:
    (cli.home / "semel.toml").write_text(SCRIPTED)
    process = cli.up()
    cli("say", "main", prompt("begun", {"sleep": 2.0}, " and done"))
    until(lambda: cli.json("status")["turns"] == 1, "the turn runs")
    reaper = threading.Thread(target=process.wait)
    reaper.start()
    if is_stopping:
        process.terminate()
        heard(process, "stopping")
    drained = cli("drain")
    reaper.join()
    assert process.poll() == 0
    assert drained.stderr.splitlines() == ["the gateway stops; its running turns have time to end", "it has ended"]
    assert "begun and done" in cli("show", "main").stdout
    assert "no gateway is running" in cli("drain", rc=1).stderr
