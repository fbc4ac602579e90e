"""The channel of `semel init`, with its owner: ask for its settings, and try the account at its platform."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from semel.faces.cli.init_questions import (
    Choice,
    Options,
    ask_choice,
    ask_text,
    ask_yes_or_no,
    check_reference,
    exit_wrong_usage,
)
from semel.faces.cli.printing import print_error, print_remark

if TYPE_CHECKING:
    from semel.channels import Kind
    from semel.faces.channel_check import ChannelCheck
    from semel.faces.config.setup import Setup

NO_CHANNEL = "none"
QUESTIONS = {
    "telegram": ("token",),
    "slack": ("bot_token", "app_token"),
    "discord": ("token",),
    "matrix": ("homeserver", "token"),
    "xmpp": ("jid", "password"),
    "email": ("address", "imap", "smtp", "password", "authserv"),
}
"""Kind of channel -> the settings that are asked for. For other kinds: those that have no default."""
CHANNEL_REMARKS = {
    "telegram": "a bot of your own, made with @BotFather",
    "slack": "an app of your own in a workspace",
    "discord": "a bot of your own, made in the Developer Portal",
    "matrix": "an account on a homeserver",
    "xmpp": "an account on an XMPP (Jabber) server",
    "email": "a mail account of its own",
}
FIRST_STEPS = {
    "slack": "Make the app first: https://api.slack.com/apps, From a manifest; `semel docs slack` shows the manifest.",
}
"""Kind of channel -> what a person does at the platform before its settings can be answered."""
NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def add_channel(setup: Setup, options: Options) -> None:
    """Add a channel and its owner, after trying the account at its platform. Add nothing if no channel is chosen."""
    while (kind := _choose_channel(options)) != NO_CHANNEL and not _add_channel(setup, kind, options):
        options.channel = None


def _choose_channel(options: Options) -> str:
    """Return the kind of the channel, or "none"."""
    from semel import channels
    from semel.faces.config.problems import suggest_nearest

    kinds = channels.kinds()
    if options.channel is not None and options.channel not in (*kinds, NO_CHANNEL):
        exit_wrong_usage(
            f"there is no channel {options.channel!r}{suggest_nearest(options.channel, [*kinds, NO_CHANNEL])}"
        )
    if options.channel is not None or not options.asks:
        return options.channel or NO_CHANNEL
    choices = [Choice(NO_CHANNEL, "the page and the terminal only"), *map(_describe_kind, QUESTIONS)]
    others = [kind for kind in kinds if kind not in QUESTIONS]
    return ask_choice("Where else do you want to reach it?", choices, others)


def _describe_kind(kind: str) -> Choice:
    return Choice(kind, CHANNEL_REMARKS[kind])


def _add_channel(setup: Setup, kind: str, options: Options) -> bool:
    """Add a channel of this kind and its owner. Returns False if the person wants to choose another kind."""
    from semel import channels

    before = dict(setup.secrets)
    if options.asks and kind in FIRST_STEPS:
        print_remark(FIRST_STEPS[kind])
    while True:
        references = _ask_settings(setup, kind, channels.kinds()[kind], options)
        check = _check_channel(setup, kind, references)
        if not check.problem:
            print_remark(f"{kind} accepts the account.")
            _name_secret_files(setup, kind)
            break
        print_error(f"{kind}: {check.problem}")
        if not options.asks and check.refused:
            raise typer.Exit(1)
        if not options.asks:
            print_remark("The channel is configured all the same; `semel up` tries it again.")
            break
        if not check.refused and ask_yes_or_no("Keep these settings all the same?", default=False, hidden=True):
            break
        setup.discard(setup.secrets.keys() - before.keys())
        asked = _list_questions(kind)
        again = f"Enter the {' and the '.join(asked)} again? (n: choose another chat, or none)"
        if not ask_yes_or_no(again, hidden=True):
            return False
        options.settings = {key: value for key, value in options.settings.items() if key not in asked}
    setup.add_section(f"channels.{kind}", {"kind": kind, **references})
    if channels.kinds()[kind].people:
        _add_owner(setup, kind, channels.kinds()[kind], options)
    return True


def _name_secret_files(setup: Setup, kind: str) -> None:
    """Say in which files the channel's secrets will be kept."""
    for name in setup.secrets:
        if name.startswith(f"{kind}."):
            setting, file = name.removeprefix(f"{kind}."), setup.folder / name
            print_remark(f"the {setting} will be kept in {file}, which only you can read; to change it, write it there")


def _ask_settings(setup: Setup, kind: str, declared: Kind, options: Options) -> dict[str, str]:
    """Return the channel's settings; secrets as references."""
    from semel.faces.config.template import read_descriptions

    secret_names = {field.name for field in dataclasses.fields(declared.settings) if not field.repr}
    descriptions = read_descriptions(declared.settings)
    references = dict(options.settings)
    for name in secret_names & references.keys():
        check_reference(f"--set {name}", references[name])
    for name in _list_questions(kind):
        if name not in references and not options.asks:
            exit_wrong_usage(f"{kind} needs --set {name}=...: {descriptions.get(name, name)}")
        if name not in references:
            question = f"{name} ({descriptions.get(name, '').removesuffix('.')})"
            references[name] = ask_text(question, hidden=name in secret_names)
    for name in secret_names & references.keys():
        references[name] = setup.keep_secret(f"{kind}.{name}", references[name])
    return references


def _list_questions(kind: str) -> tuple[str, ...]:
    """Return the settings of a kind of channel that are asked for."""
    from semel import channels

    fields = dataclasses.fields(channels.kinds()[kind].settings)
    required = [
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    return QUESTIONS.get(kind, tuple(required))


def _check_channel(setup: Setup, kind: str, references: Mapping[str, str]) -> ChannelCheck:
    """Try the account at its platform, as `semel up` would."""
    from semel.channels import ChannelError, make
    from semel.faces.channel_check import ChannelCheck, check_channel
    from semel.faces.config import ConfigError
    from semel.faces.config.channel_options import check_options
    from semel.faces.config.file import ConfigSource
    from semel.gateway.settings import ChannelSettings

    source = ConfigSource(setup.folder, "", kind, os.environ)
    values: dict[str, Any] = {key: setup.reveal(value) for key, value in references.items()}
    section = ChannelSettings(name=kind, kind=kind).model_copy(update={"options": values})
    try:
        channel = make(section.model_copy(update={"options": check_options(section, source)}))
    except (ConfigError, ChannelError) as error:
        problems = [line.removeprefix(f"{kind}: [channels.{kind}]").lstrip(" :") for line in str(error).splitlines()]
        return ChannelCheck("; ".join(problems), refused=True)
    print_remark(f"trying the account at {kind} ...")
    return asyncio.run(check_channel(channel))


def _add_owner(setup: Setup, kind: str, declared: Kind, options: Options) -> None:
    from semel.faces.cli.talk import get_login_name
    from semel.law.access import ROLES, make_unique_name

    login = re.sub(r"[^A-Za-z0-9_-]", "-", get_login_name())
    name, account = options.name, options.account
    if name is None:
        name = ask_text("\nWho are you? A name, by which it knows you", default=login) if options.asks else login
    while not NAME.fullmatch(name) or name in ROLES:
        example = make_unique_name(name, ())
        print_error(f"{name!r} should be letters, digits, - and _, and not {', '.join(ROLES)}; such as {example!r}")
        if not options.asks:
            raise typer.Exit(2)
        name = ask_text("Who are you?", default=example)
    if account is None and options.asks:
        example = f", such as {declared.person[1]}" if declared.person else ""
        account = ask_text(f"Your own account on {kind}{example} (Enter: be paired with a code)", default="")
    while account and declared.person and not re.fullmatch(declared.person[0], account, re.ASCII):
        print_error(f"{account!r} is not an account of {kind}, like {declared.person[1]}")
        if not options.asks:
            raise typer.Exit(2)
        account = ask_text(f"Your own account on {kind} (Enter: be paired with a code)", default="")
    setup.add_section(f"people.{name}", {"role": "owner", "accounts": [f"{kind}:{account}"] if account else None})
    setup.pairing = "" if account else f"{kind} --name {name}"
