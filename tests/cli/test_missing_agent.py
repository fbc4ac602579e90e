"""A session whose agent is not configured any more goes on with another agent, through restarts and `kill -9`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cli_house import PERMISSION, Cli, end, until

from semel.testing.scripted_agent import command, prompt, read_prompts

OTHER_SAYS = "Here I am."
REPLACED = "The agent 'demo' is not configured any more. 'other' answers here from now on"


def configure(cli: Cli, name: str) -> Path:
    """Make `name` the only agent. Returns the file with the prompts that it gets."""
    log = cli.home / f"{name}.prompts"
    argv = json.dumps(command(state=cli.home / name, log=log))
    (cli.home / "semel.toml").write_text(f"[gateway]\ncheck_agents = false\n[agents.{name}]\ncommand = {argv}\n")
    return log


def kill(process: Any) -> None:
    process.kill()
    process.wait()


def texts(cli: Cli, session: str, role: str) -> list[str]:
    return [entry["text"] for entry in cli.json("show", session) if entry["role"] == role]


def test_sessions_of_an_agent_that_is_gone_go_on_with_the_default_one_once(cli: Cli) -> None:
    configure(cli, "demo")
    process = cli.up()
    cli("say", "main", prompt("My name is demo."), "--wait")
    cli("say", "new", prompt("Old words."), "--wait")
    cli("say", "busy", PERMISSION)
    until(lambda: cli.json("status")["attention"], "the turn that will be cut off")
    cli("say", "busy", prompt(OTHER_SAYS))  # it waits
    kill(process)

    log = configure(cli, "other")
    told = "3 sessions belong to the agent 'demo', which is not configured any more (busy, new, main)"
    assert told in cli("config", "check").stdout and "goes on with 'other'" in cli("config", "check").stdout
    assert told in " ".join(cli("status").stdout.split())
    assert told in {finding["text"][: len(told)] for finding in cli.json("doctor")["findings"]}

    process = cli.up()
    until(lambda: texts(cli, "busy", "agent")[-1:] == [OTHER_SAYS], "the answer of the other agent")
    cut_off, replaced = texts(cli, "busy", "notice")[-2:]
    assert cut_off.startswith("The agent's turn failed") and "'demo' is not configured any more" in cut_off
    assert replaced == f"{REPLACED}, and is given the conversation so far."
    assert (
        "Agent: demo\nThe agent 'demo' is not configured any more; 'other'"
        in cli("say", "main", "/status", "--wait").stdout
    )

    cli("say", "main", prompt(OTHER_SAYS))
    until(lambda: texts(cli, "main", "agent") == ["My name is demo.", OTHER_SAYS], "the other agent's answer")
    kill(process)
    process = cli.up()
    cli("say", "main", prompt("Still here."), "--wait")
    assert [text for text in texts(cli, "main", "notice") if text.startswith(REPLACED)] == [
        f"{REPLACED}, and is given the conversation so far."
    ]
    prompts = [heard.text for heard in read_prompts(log)]
    assert sum("My name is demo." in text for text in prompts if OTHER_SAYS in text and "Still" not in text) == 1
    assert {row["key"]: row["agent"] for row in cli.json("sessions")} == {
        "main": "other", "busy": "other", "new": "demo",
    }  # fmt: skip

    cli("say", "new", "/new", "--wait")  # nothing of the old chapter is given to the new agent
    cli("say", "new", prompt("A new chapter."), "--wait")
    assert texts(cli, "new", "notice")[-1] == f"{REPLACED}."
    assert not any("Old words." in heard.text for heard in read_prompts(log))
    assert cli.json("status")["missing_agents"] == []
    assert cli.json("doctor", "--laws")["ok"]
    end(process)
