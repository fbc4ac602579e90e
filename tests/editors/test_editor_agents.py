"""Commands of editors that the gateway keeps as agents: their names, whose command counts, and what is refused."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from semel.faces.config import ConfigError
from semel.faces.config.editor_agents import (
    MAX_EDITOR_AGENTS,
    describe_editor_agent,
    find_agent,
    is_kept,
    keep_editor_agent,
    name_agent,
    read_editor_agents,
)
from semel.faces.config.load import GatewayConfig, load_config
from semel.faces.config.problems import ProblemList
from semel.faces.editor_commands import EditorCommands
from semel.faces.health.agents import examine_agents
from semel.gateway.errors import BadRequest
from semel.gateway.settings import AgentSettings

PATH = os.environ["PATH"]
CLUSTER = '[ledger]\nurl = "postgresql://semel@db.example.org/semel"\n[cluster]\nname = "alpha"\n'


def load(folder: Path, text: str = "") -> GatewayConfig:
    (folder / "semel.toml").write_text(text)
    return load_config(folder / "semel.toml", folder, env={"HOME": str(folder)})


def keep(folder: Path, *command: str, path: str = PATH) -> AgentSettings:
    made = describe_editor_agent(command, path, folder, load(folder).gateway.agents)
    keep_editor_agent(made, folder)
    return made


async def find_or_make(config: GatewayConfig, command: Sequence[str], path: str) -> tuple[AgentSettings, Any]:
    """As the gateway does; a new command is not tried."""

    async def start(agent: Any, folder: str | None) -> None:
        assert not (config.gateway.data_dir / "editor-agents").exists(), "it was kept before it was tried"

    return await EditorCommands(config, {}, start).find_or_make_agent(command, path)


def test_a_name_stands_for_one_command_and_begins_as_its_program() -> None:
    commands = (
        ["claude-agent-acp"], ["npx", "@agentclientprotocol/claude-agent-acp@1.0"], ["/opt/My Agent.py"], ["a", "b c"],
        ["a", "b", "c"], ["/opt/x/" + "long" * 50], ["/opt/.py"],
    )  # fmt: skip
    names = [name_agent(command) for command in commands]
    assert [name.rpartition("-")[0] for name in names] == [
        "claude", "claude", "My-Agent", "a", "a", "long" * 10, "py",
    ]  # fmt: skip
    assert len(set(names)) == len(names) and names == [name_agent(command) for command in commands]


def test_the_next_gateway_has_the_command_after_the_configured_agents(tmp_path: Path) -> None:
    made = keep(tmp_path, sys.executable, "-m", "my_agent")
    settings = load(tmp_path, "[agents.b]\ncommand = ['x']\n").gateway
    assert list(settings.agents) == ["b", made.name] and settings.default_agent == "b"
    assert settings.agents[made.name] == made and made.cwd.is_dir() and is_kept(made, PATH, tmp_path)
    assert settings.configured_agents.max_attempts(made.name) == 3
    (file,) = (tmp_path / "editor-agents").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_configuration_comes_first(tmp_path: Path) -> None:
    """An agent with the same command is used instead, and a section with the same name replaces what was kept."""
    made = keep(tmp_path, "/bin/sh", "-c", "true")
    same = load(tmp_path, "[agents.mine]\ncommand = ['sh', '-c', 'true']\n").gateway.agents
    found = find_agent(made.command, same)
    assert found is not None and found.name == "mine"
    text = f"[agents.{made.name}]\ncommand = ['/bin/sh', '-c', 'true']\npermissions = 'allow'\n"
    named = load(tmp_path, text).gateway.agents
    assert list(named) == [made.name] and named[made.name].permissions == "allow"
    assert find_agent(made.command, named) == named[made.name]


def test_a_program_in_another_folder_is_another_agent_unless_it_is_configured(tmp_path: Path) -> None:
    made = keep(tmp_path, "/bin/sh", "x")
    assert find_agent(("/usr/bin/sh", "x"), {made.name: made}) is None
    configured = made.model_copy(update={"is_of_editor": False})
    assert find_agent(("/usr/bin/sh", "x"), {made.name: configured}) == configured


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((), "names no program"), (("",), "names no program"), (("no-such-program",), "command not found"),
        (("./here",), "no absolute path"), (("sh", "a\0b"), "NUL"), (("sh", "\udc80"), "UTF-8"),
        (("sh", "x" * 20_000), "bytes together"), (("codex",), "does not speak ACP"),
        (("claude-agent-acp",), "npm install"),
    ],
)  # fmt: skip
def test_what_cannot_be_started_is_not_kept(tmp_path: Path, command: Sequence[str], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        describe_editor_agent(command, "/bin:/usr/bin", tmp_path, {})
    assert not (tmp_path / "editor-agents").exists()


def test_an_error_names_the_first_folders_of_a_long_path_alone(tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as error:
        describe_editor_agent(["no-such-program"], ":".join(f"/opt/{n}" for n in range(100)), tmp_path, {})
    assert "'/opt/0:/opt/1:/opt/2' and 97 more folders" in str(error.value) and len(str(error.value)) < 200


def test_a_name_that_the_configuration_has_for_another_command_is_refused(tmp_path: Path) -> None:
    other = AgentSettings(name=name_agent(["sh", "y"]), command=("x",))
    with pytest.raises(BadRequest, match="rename"):
        describe_editor_agent(["sh", "y"], PATH, tmp_path, {other.name: other})


def test_kept_commands_are_bounded(tmp_path: Path) -> None:
    agents = {
        f"a-{number}": AgentSettings(name=f"a-{number}", command=("a", str(number)), is_of_editor=True)
        for number in range(MAX_EDITOR_AGENTS)
    }
    with pytest.raises(BadRequest, match="remove some"):
        describe_editor_agent(["sh"], PATH, tmp_path, agents)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"command": [7], "path": ""}', '{"command": ["b"], "path": ""}'])
def test_a_file_that_semel_did_not_write_is_named_with_what_to_do(tmp_path: Path, text: str) -> None:
    made = keep(tmp_path, "sh", "x")
    (tmp_path / "editor-agents" / f"{made.name}.json").write_text(text)
    with pytest.raises(ConfigError, match=r"(?s)editor-agents/sh-.*Remove the file"):
        load(tmp_path)


async def test_a_cluster_finds_configured_commands_and_keeps_none(tmp_path: Path) -> None:
    config = load(tmp_path, f"[agents.a]\ncommand = ['sh', 'x']\n{CLUSTER}")
    settings, agent = await find_or_make(config, ["/bin/sh", "x"], PATH)
    assert settings.name == "a" and agent is None
    with pytest.raises(BadRequest, match="on each machine"):
        await find_or_make(config, ["sh", "y"], PATH)
    assert not (tmp_path / "editor-agents").exists()


async def test_another_path_and_a_removed_file_are_written_when_the_command_is_named_again(tmp_path: Path) -> None:
    made = keep(tmp_path, "sh", "x")
    config = load(tmp_path)
    assert await find_or_make(config, made.command, PATH) == (made, None)
    moved, agent = await find_or_make(config, made.command, f"/bin:{PATH}")
    assert agent is not None and moved.env["PATH"] == f"/bin:{PATH}"
    (file,) = (tmp_path / "editor-agents").iterdir()
    assert json.loads(file.read_text())["path"] == f"/bin:{PATH}"
    file.unlink()
    assert (await find_or_make(config, made.command, PATH))[1] is not None and file.exists()


async def test_a_command_that_does_not_work_is_a_warning_that_says_how_to_remove_it(tmp_path: Path) -> None:
    made = keep(tmp_path, "true")
    (warning,) = [one for one in await examine_agents(load(tmp_path)) if one.level != "ok"]
    assert warning.level == "warning" and f"editor-agents/{made.name}.json" in warning.remedy


def test_what_is_no_command_is_refused_before_an_agent_is_looked_for(tmp_path: Path) -> None:
    for command in ([], [""], ["agent", "a\0b"]):
        with pytest.raises(BadRequest, match="command: "):
            find_agent(command, {})


def test_a_data_directory_that_cannot_be_one_keeps_no_commands(tmp_path: Path) -> None:
    found = ProblemList()
    assert read_editor_agents(tmp_path / ("9" * 300), found) == {} and not found.problems
