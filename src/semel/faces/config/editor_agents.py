"""The agents whose command came from an editor (`semel acp -- COMMAND`), each in a file of the data directory.

The next gateway has to start the same program, because it goes on with the turn that was lost. So a command is kept
before its first session is made, and after its program was tried (`faces.editor_commands`). What semel.toml says comes
first: an agent that has the command there, or the name.

The name of such an agent follows from its command alone, so that it never stands for another command, not even if its
file was removed in the meantime (docs/decisions/ad-hoc-agents.md).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from semel.agents.known import explain_plain_program, recognise_command
from semel.faces.config.problems import ConfigError, ProblemList
from semel.gateway.errors import BadRequest, GatewayUnavailable
from semel.gateway.settings import AgentSettings
from semel.ledger.storage.atomic_files import sync_folder, write_atomically

FOLDER = "editor-agents"
MAX_EDITOR_AGENTS = 100
MAX_COMMAND_BYTES = 16_000  # of a command and its PATH together
SHOWN_FOLDERS, MAX_SHOWN_PATH_CHARS = 3, 120  # of a PATH, in an error
MAX_PROGRAM_CHARS = 40  # of a program's name, in the name of its agent


def name_agent(command: Sequence[str]) -> str:
    """Return the name of the agent with this command: what is known of its program, and a digest of all words."""
    known = recognise_command(command)
    program = known[0].name if known else re.sub(r"[^A-Za-z0-9]+", "-", Path(command[0]).stem).strip("-")
    digest = hashlib.blake2b("\0".join(command).encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    return f"{program[:MAX_PROGRAM_CHARS] or 'agent'}-{digest}"


def read_editor_agents(data_dir: Path, found: ProblemList) -> dict[str, AgentSettings]:
    """Return the agents that are kept in this data directory, by name. Files that are wrong are added to `found`."""
    agents: dict[str, AgentSettings] = {}
    try:
        files = sorted((data_dir / FOLDER).glob("*.json"))
    except OSError:  # the data directory cannot be one, which the start says
        return agents
    for file in files:
        with found.collect():
            agents[file.stem] = _read_file(file)
    return agents


def find_agent(command: Sequence[str], agents: Mapping[str, AgentSettings]) -> AgentSettings | None:
    """Return the agent with this command; None if there is none.

    In the command of a configured agent, the program's folder does not count: `/usr/bin/codex-acp` is `codex-acp`. A
    known agent may also be started in another way, such as by npx. Raises BadRequest if this is no command.
    """
    _check_words(command)
    configured = {name: agent for name, agent in agents.items() if agent.command and not agent.is_of_editor}
    bare_command = _without_folder(command)
    for agent in configured.values():
        if _without_folder(agent.command) == bare_command:
            return agent
    for known in recognise_command(command):
        if known.name in configured:
            return configured[known.name]
    kept = agents.get(name_agent(command))
    return kept if kept is not None and kept.command == tuple(command) else None


def describe_editor_agent(
    command: Sequence[str], path: str, data_dir: Path, agents: Mapping[str, AgentSettings]
) -> AgentSettings:
    """Return the settings of the agent with an editor's command. Nothing is written. Raises BadRequest.

    `path`: the PATH of the editor, on which the program is looked up at every start.
    """
    _check_command(command, path)
    name = name_agent(command)
    if name in agents and agents[name].command != tuple(command):
        raise BadRequest(f"command: [agents.{name}] of the configuration has another command; rename that section")
    if sum(agent.is_of_editor for agent in agents.values()) >= MAX_EDITOR_AGENTS and name not in agents:
        raise BadRequest(
            f"command: {MAX_EDITOR_AGENTS} commands of editors are kept already; remove some of the files in {FOLDER} "
            "in the data directory and restart the gateway, or configure the agent (semel docs use-an-agent)"
        )
    return _build_settings(command, path).model_copy(update={"cwd": data_dir / "workspaces" / name})


def keep_editor_agent(agent: AgentSettings, data_dir: Path) -> None:
    """Keep an editor's agent for the next gateway, and make its workspace. Raises GatewayUnavailable.

    When this returns, the agent's file survives a power failure.
    """
    try:
        agent.cwd.mkdir(mode=0o700, parents=True, exist_ok=True)
        (data_dir / FOLDER).mkdir(mode=0o700, exist_ok=True)
        content = {"command": list(agent.command), "path": agent.env["PATH"]}
        write_atomically(_find_file(data_dir, agent.name), json.dumps(content, indent=2) + "\n")
        sync_folder(data_dir / FOLDER)
        sync_folder(data_dir)
    except OSError as error:
        raise GatewayUnavailable(f"the command cannot be kept: {error.filename}: {error.strerror}") from None


def is_kept(agent: AgentSettings, path: str, data_dir: Path) -> bool:
    """Whether the next gateway will have the agent with this PATH; True for an agent of the configuration."""
    return not agent.is_of_editor or (agent.env["PATH"] == path and _find_file(data_dir, agent.name).exists())


def _find_file(data_dir: Path, name: str) -> Path:
    return data_dir / FOLDER / f"{name}.json"


def _build_settings(command: Sequence[str], path: str) -> AgentSettings:
    known = recognise_command(command)
    variables = dict(known[0].env) if known else {}
    variables["PATH"] = path
    return AgentSettings(name=name_agent(command), command=tuple(command), env=variables, is_of_editor=True)


def _read_file(file: Path) -> AgentSettings:
    """Return the agent that this file keeps. Raises ConfigError."""
    try:
        content = json.loads(file.read_text())
        command, path = content["command"], content["path"]
        if name_agent(command) == file.stem and isinstance(path, str):
            return _build_settings(command, path)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        pass
    raise ConfigError(
        f"{file}: this is not what Semel wrote for an editor's agent. Remove the file; the sessions of this agent then "
        "go on with another one, until an editor names the command again"
    )


def _check_command(command: Sequence[str], path: str) -> None:
    """Raise BadRequest unless this is the command of a program that can be started."""
    words = [*command, path]
    _check_words(command)
    if "\0" in path or not _is_unicode(path):
        raise BadRequest("command: PATH is text in UTF-8, without NUL")
    if sum(len(os.fsencode(word)) for word in words) > MAX_COMMAND_BYTES:
        raise BadRequest(f"command: it and its PATH may have {MAX_COMMAND_BYTES} bytes together")
    if "/" in command[0] and not Path(command[0]).is_absolute():
        raise BadRequest(f"command: {command[0]!r} is no absolute path, and the agent works in another folder")
    if (reason := explain_plain_program(command)) is not None:
        raise BadRequest(f"{reason} as the command")
    if shutil.which(command[0], path=path) is None:
        installers = (known.install_command for known in recognise_command(command) if known.command[0] == command[0])
        installer = shlex.join(next(installers, ()))
        install = f". Install it with `{installer}`" if installer else ""
        place = "" if "/" in command[0] else f", on the PATH of the editor: {_shorten_path(path)}"
        raise BadRequest(f"command not found: {command[0]!r}{place}{install}")


def _shorten_path(path: str) -> str:
    """Return the first folders of a PATH, and how many more it has."""
    folders = path.split(os.pathsep)
    shown = os.pathsep.join(folders[:SHOWN_FOLDERS])[:MAX_SHOWN_PATH_CHARS]
    return f"{shown!r} and {len(folders) - SHOWN_FOLDERS} more folders" if len(folders) > SHOWN_FOLDERS else repr(shown)


def _check_words(command: Sequence[str]) -> None:
    if not command or not command[0]:
        raise BadRequest("command: it names no program")
    if any("\0" in word or not _is_unicode(word) for word in command):
        raise BadRequest("command: each word is text in UTF-8, without NUL")


def _is_unicode(word: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in word)


def _without_folder(command: Sequence[str]) -> list[str]:
    return [Path(command[0]).name, *command[1:]]
