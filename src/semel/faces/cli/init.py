"""`semel init`: write a short semel.toml, after a dialogue on a terminal, and try what it configures."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semel.faces.cli.app import app
from semel.faces.cli.init_channel import NO_CHANNEL, add_channel
from semel.faces.cli.init_model import add_model, find_missing_packages
from semel.faces.cli.init_questions import Choice, Options, ask_choice, ask_yes_or_no, exit_wrong_usage, read_settings
from semel.faces.cli.printing import name_command, print_error, print_remark
from semel.text.visible import visible

if TYPE_CHECKING:
    from semel.faces.config.setup import Setup

MODEL, DEMO = "model", "demo"
MODEL_PROMPT = "Answer with the single word: ready"
"""The prompt that is sent once to a model behind an API, because only a request shows whether its key is accepted."""


@app.command()
def init(
    path: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write it.")] = Path("semel.toml"),
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            metavar="NAME",
            help='The agent: a known one, such as claude or codex; "model" for a model behind an API; or "demo".',
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="PROVIDER:NAME",
            help="The model, with --agent model. With --base-url, its name at that server is enough.",
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url",
            metavar="URL",
            help="The address of a server that speaks OpenAI's API, such as Ollama's http://127.0.0.1:11434/v1.",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="REFERENCE", help="Where the model's API key is: env:NAME or file:PATH."),
    ] = None,
    channel: Annotated[
        str | None,
        typer.Option(
            "--channel",
            metavar="KIND",
            help="A channel: telegram, slack, signal, discord, whatsapp, teams, matrix, mattermost, xmpp, irc, email; "
            "or none.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of the channel; may be repeated. A secret is env:NAME or file:PATH.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The channel's owner. Default: your login name.")
    ] = None,
    account: Annotated[
        str | None,
        typer.Option("--account", metavar="ID", help="The owner's account there. Default: paired later, with a code."),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Ask nothing: the first agent that is installed, else the demo; no channel."),
    ] = False,
    print_all: Annotated[
        bool, typer.Option("--print", help="Print a semel.toml with every setting and its default; write nothing.")
    ] = False,
) -> None:
    """Write a short semel.toml: an agent, and a channel with its owner if you want one. Then try the agent.

    On a terminal it asks for what the options do not say. Secrets that you type go into files beside semel.toml that
    only you can read. It overwrites no file without asking. Exits with 1 if the agent cannot be used yet.
    """
    from semel.faces.config.template import build_template

    if print_all:
        print(build_template(), end="")
        return
    asks = sys.stdin.isatty() and sys.stdout.isatty() and not yes
    options = Options(agent, model, base_url, key, channel, read_settings(setting), name, account, asks)
    if agent is None and not asks and not yes:
        exit_wrong_usage("name the agent with --agent NAME, or take the defaults with --yes")
    _check_options(options)
    _check_target(path, asks)
    setup, section = _build_setup(path, options)
    _write_files(path, setup, asks)
    _try_agent(path, section, setup.pairing)


def _build_setup(path: Path, options: Options) -> tuple[Setup, str]:
    """Return what is to be written, and the name of the agent's section."""
    from semel.faces.config.setup import Setup

    setup = Setup(path.absolute().parent)
    section = _add_agent(setup, options)
    add_channel(setup, options)
    return setup, section


def _check_options(options: Options) -> None:
    """Refuse options that would have no effect."""
    of_model = options.model or options.base_url or options.key
    if of_model and options.agent != MODEL and not (options.asks and options.agent is None):
        exit_wrong_usage("--model, --base-url and --key belong to --agent model")
    of_channel = options.settings or options.name or options.account
    if of_channel and options.channel in (None, NO_CHANNEL) and not options.asks:
        exit_wrong_usage(
            "--set, --name and --account belong to a channel: name it with --channel KIND. A model's API key is --key"
        )


def _check_target(path: Path, asks: bool) -> None:
    """Exit unless the file may be written: it does not exist, or its owner agrees to lose it."""
    if not path.absolute().parent.is_dir():
        exit_wrong_usage(f"{path} cannot be written: {path.parent} is not a directory")
    if path.exists() and not (asks and path.is_file() and ask_yes_or_no(f"{path} exists. Replace it?", default=False)):
        print_error(
            f"{path} exists, and was left as it is: edit it, remove it first, or name another file: semel init FILE"
        )
        raise typer.Exit(1)


# ---------------------------------------------------------------- the agent


def _add_agent(setup: Setup, options: Options) -> str:
    """Add the agent's section, and return its name. Asks again if a person's choice cannot be used."""
    from semel.agents.known import find_known

    while True:
        name = options.agent or _choose_agent(options.asks)
        if name == DEMO:
            setup.add_section("agents.demo", {"kind": "demo"})
            return DEMO
        if name == MODEL:
            add_model(setup, options)
            return "main"
        if (known := find_known(name)) is None:
            exit_wrong_usage(f"no known agent is named {name!r}: {', '.join([*_known_names(), MODEL, DEMO])}")
        if _is_installed(name, options.asks):
            setup.sections.append(known.config_lines)
            return name
        if not options.asks:
            raise typer.Exit(1)
        options.agent = None


def _known_names() -> list[str]:
    from semel.agents.known import KNOWN_AGENTS

    return list(dict.fromkeys(agent.name for agent in KNOWN_AGENTS))


def _choose_agent(asks: bool) -> str:
    from semel.agents.known import find_agents_on_path, find_agents_without_adapter

    installed = [Choice(agent["name"], f"{agent['command'][0]} is installed") for agent in find_agents_on_path()]
    if not asks:
        return installed[0].name if installed else DEMO
    without_adapter = [
        Choice(known.name, f"{known.cli} is installed; its adapter is not: {shlex.join(known.install_command)}")
        for known in find_agents_without_adapter()
    ]
    names = _known_names()
    choices = [*installed, *without_adapter, *_list_other_choices()]
    absent = [name for name in names if name not in {choice.name for choice in choices}]
    none_line = "" if installed or without_adapter else " None was found on this machine."
    others_line = f"\nTo install another one, type its name: {', '.join(absent)}." if absent else ""
    return ask_choice(f"Which agent?{none_line}{others_line}", choices, names)


def _list_other_choices() -> list[Choice]:
    """Return the choices that are no program. A model whose packages are missing comes last, so it is no default."""
    model = "a model behind an API, such as Anthropic's, OpenAI's or Ollama's"
    demo = Choice(DEMO, "needs no model and no network")
    if command := find_missing_packages():
        return [demo, Choice(MODEL, f"{model}; needs packages first: {command}")]
    return [Choice(MODEL, model), demo]


def _is_installed(name: str, asks: bool) -> bool:
    """Whether the agent's program is on PATH; a person is asked whether to install it."""
    from semel.agents.known import find_known
    from semel.faces.cli.agents import install_agent

    known = find_known(name)
    assert known is not None
    if shutil.which(known.command[0]) is not None:
        return True
    if asks and not known.install_command:
        print_error(f"{known.command[0]} is not installed; install {name} as its own documentation says")
        return False
    install = asks and ask_yes_or_no(f"Install {name} now, with `{shlex.join(known.install_command)}`?")
    try:
        if install or not asks:
            install_agent(known, install)
            return True
    except typer.Exit:
        if not asks:
            raise
    return False


# ---------------------------------------------------------------- writing and trying


def _write_files(path: Path, setup: Setup, asks: bool) -> None:
    if asks:
        print(f"\n{visible(setup.text)}")
    for other in setup.list_existing(path):
        if other != path and not (asks and ask_yes_or_no(f"{other.name} exists. Replace it?", default=False)):
            print_error(f"{other} exists, and nothing was written; move it away first")
            raise typer.Exit(1)
    if asks and not ask_yes_or_no(f"Write this to {path}?"):
        print_error("nothing was written")
        raise typer.Exit(1)
    try:
        setup.write(path.absolute())
    except OSError as error:
        print_error(f"{error.filename or path} cannot be written: {error.strerror}")
        raise typer.Exit(1) from None
    files = [str(path), *(f"{name} (only you can read it)" for name in setup.secrets)]
    print_remark(f"wrote {' and '.join(files)}")


def _try_agent(path: Path, section: str, pairing: str) -> None:
    """Try the agent, and name the next commands. Exits with 1 if the agent cannot be used.

    `pairing`: the arguments of `semel pair` for the channel's owner, if nobody may talk there yet.
    """
    from semel.faces.agent_check import check_agent
    from semel.faces.cli.agents import load_agents, print_check
    from semel.faces.config.paths import find_config_file
    from semel.faces.service.installation import advise_restart

    print_remark(f"trying {section} ...")
    [agent] = load_agents([section], path, None)
    check = asyncio.run(check_agent(agent, None if agent.process else MODEL_PROMPT))
    print_check(check)
    default_file = find_config_file(None, os.environ)
    option = "" if default_file is not None and default_file.samefile(path) else f" --config {shlex.quote(str(path))}"
    is_logged_out = "is not logged in" in check.problem and agent.process
    prompt = "" if agent.process else ' --prompt "Say hello."'  # without one, nothing is sent to a model
    retry = f"agents login {section}" if is_logged_out else f"agents check {section}{prompt}"
    running = _find_running(path)
    following = retry if check.problem else "up"
    correct = f"correct {path}, then " if check.problem and not is_logged_out else ""
    start = f", then semel up{option}" if is_logged_out else ""
    if running is None:
        print(name_command(f"\nNext: {correct}semel {following}{option}{start}"))
    else:
        first = f"{correct}semel {following}{option}, then " if check.problem else ""
        print(name_command(f"\nNext: {first}{advise_restart()}"))
        print_remark(f"process {running} is the gateway, and goes on without what was written")
    if pairing:
        then = "Then, while it runs" if not check.problem else "Once it runs"
        print(name_command(f"{then}: semel pair {pairing}{option} (nobody may talk on that channel before)"))
    _print_other_agents(check.command, option)
    if check.problem:
        raise typer.Exit(1)


def _find_running(path: Path) -> int | None:
    """Return the process id of the gateway that runs in the data directory of a configuration; None if none does."""
    from semel.faces.config import ConfigError, locate_running
    from semel.tools.address import NoGateway, find_pid, find_running_config

    with contextlib.suppress(ConfigError, NoGateway):
        data = locate_running(path, None)
        find_running_config(data)  # raises if the gateway does not answer
        return find_pid(data)
    return None


def _print_other_agents(command: Sequence[str], option: str) -> None:
    """Print how to add the agents found on PATH besides the one that was written, whose command is `command`."""
    from semel.faces.cli.start_screen import list_add_commands

    if lines := list_add_commands(command[:1], option):
        print("\nAlso found on this machine. To add one:")
        for line in lines:
            print(f"  {' '.join(filter(None, line))}")
