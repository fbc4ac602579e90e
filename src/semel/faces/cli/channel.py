"""`semel channel`: add a channel to semel.toml, after trying it; or write one for another platform."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semel.faces.cli.app import Config, app
from semel.faces.cli.config_lines import append_config, read_config
from semel.faces.cli.init_channel import CHANNEL_REMARKS, configure_channel, make_channel
from semel.faces.cli.init_questions import Options, ask_text, exit_wrong_usage, read_settings
from semel.faces.cli.printing import print_error, print_remark

if TYPE_CHECKING:
    from semel.faces.config.setup import Setup
    from semel.gateway.ports import Channel

SECTION_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
PAGES = {
    "telegram": "https://t.me/BotFather",
    "slack": "https://api.slack.com/apps",
    "signal": "https://github.com/AsamK/signal-cli",
    "discord": "https://discord.com/developers/applications",
    "whatsapp": "https://developers.facebook.com/apps",
    "teams": "https://dev.teams.microsoft.com/bots",
    "matrix": "https://matrix.org/ecosystem/servers/",
    "mattermost": "https://docs.mattermost.com/developers/integrations/bot-accounts",
    "xmpp": "https://providers.xmpp.net/",
}
"""Kind of channel -> the page where its account is made."""
EXAMPLE_ADDRESSES = {
    "telegram": "your user id, 123456789",
    "slack": "C0123ABCDEF of a channel, U0123ABCDEF of a person",
    "signal": "+4915112345678",
    "discord": "80351110224678912 of a channel, @80351110224678913 of a person",
    "whatsapp": "16505551234",
    "teams": "19:...@thread.tacv2 of a channel, @ and the object id of a person",
    "matrix": "!room:example.org",
    "mattermost": "kd6aogbxmbgb9nmdrtjcxkr4sw of a channel",
    "xmpp": "ada@example.org",
    "irc": "#semel, or the account of a person",
    "email": "ada@example.org",
    "webhook": "builds",
}
"""Kind of channel -> how an address of a test message is written there."""
HOOK_SETTINGS = {"slack": "signing_secret", "whatsapp": "verify_token", "teams": "app_id"}
"""Kind of channel -> the setting with which its platform posts to the gateway."""

channel = typer.Typer(help="Add a channel, or write one for another platform.", no_args_is_help=True)
app.add_typer(channel, name="channel")


@channel.callback()
def group() -> None:
    """Add a channel, or write one for a platform that Semel does not know."""


@channel.command()
def add(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="telegram, slack, signal, discord, whatsapp, teams, matrix, mattermost, xmpp, irc, email, webhook, "
            "or a package's kind.",
        ),
    ],
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A setting; may be repeated. A secret is env:NAME or file:PATH."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="The channel's name. Default: its kind.")
    ] = None,
    test: Annotated[
        str | None,
        typer.Option("--test", metavar="ADDRESS", help="Send one test message to this address of the platform."),
    ] = None,
    config: Config = None,
) -> None:
    """Add a channel to semel.toml: ask for what it needs, try the account at its platform, offer a test message.

    On a terminal it asks for what the options do not say. Secrets that you type go into files beside semel.toml that
    only you can read. If the platform refuses the account, nothing is written, and the refusal names what is missing.
    """
    from semel import channels
    from semel.faces.config.problems import suggest_nearest
    from semel.faces.config.setup import Setup

    kinds = channels.kinds()
    if kind not in kinds:
        exit_wrong_usage(f"there is no channel {kind!r}{suggest_nearest(kind, kinds)}; there is {', '.join(kinds)}")
    name = name or kind
    if not SECTION_NAME.fullmatch(name):
        exit_wrong_usage(f"--as {name}: write letters, digits, - and _, at most 60")
    path, text, raw = read_config(config)
    if not text:
        print_error(f"there is no {path}: semel init writes one, with a channel if you want")
        raise typer.Exit(1)
    if name in raw.get("channels", {}):
        print_error(f"{path} has [channels.{name}] already, and was left as it is; another name: --as {name}-2")
        raise typer.Exit(1)
    asks = sys.stdin.isatty() and sys.stdout.isatty()
    options = Options(None, None, None, None, kind, read_settings(setting), None, None, asks)
    setup = Setup(path.absolute().parent)
    _describe_kind(kind)
    references = configure_channel(setup, name, kind, options, owners=_list_accounts(path, kind))
    if references is None:
        print_error("nothing was written")
        raise typer.Exit(1)
    _check_secret_files(setup)
    setup.add_section(f"channels.{name}", {"kind": kind, **references})
    _write(setup, path, text)
    print_remark(f"added [channels.{name}] to {path}; a running gateway needs a restart")
    if HOOK_SETTINGS.get(kind) in references:
        print_remark(f"{kind} posts to https://YOUR-ADDRESS/v1/hooks/{name}: enter it there (semel docs {kind})")
    can_send = kinds[kind].people or "url" in references
    has_arrived = _try_test(setup, name, kind, references, test, asks and can_send)
    if kinds[kind].people:
        print_remark(
            f"next: semel up, then semel pair {name} --role owner, whose code you send to it (semel docs people)"
        )
    if not has_arrived:
        raise typer.Exit(1)


def _list_accounts(path: Path, kind: str) -> dict[str, str]:
    """Return the channel that has each account of this kind, by account. Sections that cannot be read are left out."""
    from semel.channels import ChannelError, find_account, make
    from semel.faces.config import ConfigError
    from semel.faces.config.load import load_config

    owners: dict[str, str] = {}
    with contextlib.suppress(ConfigError):
        for name, section in load_config(path).gateway.channels.items():
            with contextlib.suppress(ChannelError):
                if section.kind == kind and (account := find_account(make(section))) is not None:
                    owners.setdefault(account, name)
    return owners


def _describe_kind(kind: str) -> None:
    """Say what is needed, where it is made, and where that is described step by step."""
    if kind in CHANNEL_REMARKS:
        page = f": {PAGES[kind]}" if kind in PAGES else ""
        docs = "channels" if kind == "webhook" else kind  # which has no page of its own
        print_remark(f"{kind} needs {CHANNEL_REMARKS[kind]}{page} (step by step: semel docs {docs})")


def _check_secret_files(setup: Setup) -> None:
    """Exit if writing would replace a secret's file."""
    if existing := [str(setup.folder / name) for name in setup.secrets if (setup.folder / name).exists()]:
        print_error(f"nothing was written: {' and '.join(existing)} would be replaced; remove it, or take --as NAME")
        raise typer.Exit(1)


def _write(setup: Setup, path: Path, text: str) -> None:
    from semel.faces.config import ConfigError
    from semel.faces.config.load import load_config

    try:
        setup.write_secrets()
    except OSError as error:
        print_error(f"the files of the secrets cannot be written to {setup.folder}: {error.strerror}")
        raise typer.Exit(1) from None
    section = "\n\n".join(setup.sections)
    append_config(path, text, f"{'' if text.endswith(chr(10)) else chr(10)}\n{section}\n")
    try:
        load_config(path)
    except ConfigError as error:
        print_error(f"the channel was added to {path}, which has a mistake:", *error.problems)
        raise typer.Exit(1) from None


def _try_test(setup: Setup, name: str, kind: str, references: dict[str, Any], address: str | None, asks: bool) -> bool:
    """Send a test message to the address. On a terminal (`asks`), ask for one, and for another until one arrives.

    Returns False if the last one was not confirmed.
    """
    if address is None and asks:
        example = f", such as {EXAMPLE_ADDRESSES[kind]}" if kind in EXAMPLE_ADDRESSES else ""
        address = ask_text(f"Send a test message? An address there{example} (Enter: no)", default="")
        address = "" if _is_no(address) else address
    while address:
        if _send_test(make_channel(setup, name, kind, references), address):
            return True
        address = ask_text("Try another address? (Enter: no)", default="") if asks else ""
        if not address or _is_no(address):
            return False
    return True


def _is_no(answer: str) -> bool:
    return answer.lower() in ("n", "no")


def _send_test(tested: Channel, address: str) -> bool:
    """Send a test message and say what became of it. Returns whether the platform confirmed it."""
    from semel.faces.channel_check import describe_test, send_test_message

    print_remark(f"sending a test message to {address} ({describe_test(tested)}) ...")
    result = asyncio.run(send_test_message(tested, address))
    if not result.receipt:
        print_error(f"the test message: {result.problem}")
        return False
    read_back = " and read back" if result.was_read_back else ""
    print_remark(f"the test message was confirmed{read_back}: message {result.receipt}")
    if result.problem:
        print_remark(f"it could not be read back: {result.problem}")
    return True


@channel.command()
def new(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="The new kind, as in `kind = KIND`: lower-case letters, digits and hyphens."
        ),
    ],
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="Where to write it. Default: ./semel-KIND.")
    ] = None,
) -> None:
    """Write a Python package with a channel of a new kind, which works and passes the conformance suite.

    It talks to a message board over HTTP; put your platform in its place. `semel docs write-a-channel` says how.
    """
    from semel.channels.new_package import CannotWrite, write_package

    target = folder or Path(f"semel-{kind}")
    try:
        written = write_package(kind, target)
    except CannotWrite as error:
        print_error(str(error))
        raise typer.Exit(1) from None
    for path in written:
        print(path)
    print_remark(f"next: cd {target}, pip install -e '.[test]' where Semel is installed, pytest")
