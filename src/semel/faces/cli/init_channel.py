"""The channel of `semel init` and `semel channel add`: ask for its settings, and try the account at its platform."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import getpass
import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin, get_type_hints

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
    from semel.gateway.ports import Channel

NO_CHANNEL = "none"
QUESTIONS = {
    "telegram": ("token",),
    "slack": ("bot_token",),
    "signal": ("account",),
    "discord": ("token",),
    "whatsapp": ("phone_number_id", "token", "app_secret", "verify_token"),
    "teams": ("app_id", "tenant", "client_secret"),
    "matrix": ("homeserver",),
    "mattermost": ("url", "token"),
    "xmpp": ("jid", "password"),
    "irc": ("server", "nick"),
    "email": ("address", "imap", "smtp", "password", "authserv"),
}
"""Kind of channel -> the settings that are asked for. For other kinds: those that have no default."""


OPTIONAL_QUESTIONS = {"irc": ("channels", "password"), "webhook": ("url", "secret", "session")}
"""Kind of channel -> further settings that a person is asked for, and may leave out."""


class Way(NamedTuple):
    """One of the ways in which a kind of channel can be set up. `settings`: those that this way alone needs."""

    name: str
    remark: str
    settings: tuple[str, ...]


WAYS = {
    "slack": (
        Way("Socket Mode", "this machine need not be reachable; an app-level token, xapp-...", ("app_token",)),
        Way("HTTP", "Slack posts to your public address with TLS; the app's signing secret", ("signing_secret",)),
    ),
    "matrix": (
        Way("password", "the account's user id and its password", ("user", "password")),
        Way("token", "an access token of a device that nothing else uses", ("token",)),
    ),
}
"""Kind of channel -> its ways, of which a person chooses one."""
WAY_QUESTIONS = {
    "slack": "How is Slack to reach this gateway?",
    "matrix": "How does the bot's account log in?",
}
CHANNEL_REMARKS = {
    "telegram": "a bot of your own, made with @BotFather",
    "slack": "an app of your own in a workspace",
    "signal": "a phone number of its own, or yours, over signal-cli",
    "discord": "a bot of your own, made in the Developer Portal",
    "whatsapp": "a business phone number in an app of your own at Meta, and a public address with TLS",
    "teams": "a bot of your own in a Microsoft 365 organisation, and a public address with TLS",
    "matrix": "an account on a homeserver",
    "mattermost": "a bot account on a Mattermost server",
    "xmpp": "an account on an XMPP (Jabber) server",
    "irc": "a nick on an IRC network, best with an account there",
    "email": "a mail account of its own",
    "webhook": "a url to send; a secret and a session to receive",
}
FIRST_STEPS = {
    "slack": "Make the app first: https://api.slack.com/apps, From a manifest; `semel docs slack` shows the manifest.",
    "mattermost": "Make the bot account first, and add it to a team: `semel docs mattermost` shows how.",
    "signal": "Install signal-cli and link or register the account first: `semel docs signal` shows how.",
    "whatsapp": "Make the app and its token first: https://developers.facebook.com/apps (`semel docs whatsapp`).",
    "teams": "Register the bot first: `semel docs teams` shows how, and has the app's manifest.",
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

    references = configure_channel(setup, kind, kind, options, "n: choose another chat, or none")
    if references is None:
        return False
    setup.add_section(f"channels.{kind}", {"kind": kind, **references})
    if channels.kinds()[kind].people:
        _add_owner(setup, kind, channels.kinds()[kind], options)
    return True


def configure_channel(
    setup: Setup,
    name: str,
    kind: str,
    options: Options,
    otherwise: str = "n: write nothing",
    owners: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any] | None:
    """Ask for a channel's settings until its platform accepts the account; `setup` keeps the secrets.

    What the platform has not refused is kept, and not asked for again.

    Returns the settings, with references to the secrets; None if the person gives up, or a package is missing. `name`:
    of the channel's section. `otherwise`: what happens if the person gives up. `owners`: the channel that has each
    account of this kind. Exits with 1 if nobody can be asked, and a package is missing or the account is refused.
    """
    from semel import channels

    declared = channels.kinds()[kind]
    _refuse_unknown_settings(kind, declared, options)
    if options.asks and kind in FIRST_STEPS:
        print_remark(FIRST_STEPS[kind])
    asked = (*_list_questions(kind, declared), *_choose_way(kind, options))
    if missing := declared.find_missing_packages({*asked, *options.settings}):
        print_error(f"{kind}: {missing}")
        if not options.asks:
            raise typer.Exit(1)
        return None
    before = dict(setup.secrets)
    references = _read_options(setup, declared, options)
    optional = OPTIONAL_QUESTIONS.get(kind, ()) if options.asks else ()
    left_out: set[str] = set()
    answers: dict[str, str] = {}
    while True:
        missing_keys = [key for key in asked if key not in references]
        references |= _ask_settings(setup, name, kind, declared, options, missing_keys, answers)
        for key in (key for key in optional if key not in references and key not in left_out):
            answer = _ask_optional(setup, name, declared, key)
            references |= {key: answer} if answer else {}
            left_out |= set() if answer else {key}
        check = _check_channel(setup, name, kind, references, owners)
        if not check.problem:
            _name_secret_files(setup, name)
            return references
        print_error(f"{kind}: {check.problem}")
        if not options.asks and check.refused:
            raise typer.Exit(1)
        if not options.asks:
            print_remark("The channel is configured all the same; `semel up` tries it again.")
            return references
        if not check.refused and ask_yes_or_no("Keep these settings all the same?", default=False, hidden=True):
            return references
        wrong = [key for key in (*asked, *optional) if key in check.settings and key not in left_out]
        if not wrong and (mistaken := [key for key in check.settings if key in options.settings]):
            print_error(f"correct {' and '.join(f'--set {key}' for key in mistaken)}")
            raise typer.Exit(1)
        wrong = wrong or list(asked or optional)
        again = f"Enter the {' and the '.join(wrong)} again? ({otherwise})"
        if not wrong or not ask_yes_or_no(again, hidden=True):
            setup.discard(setup.secrets.keys() - before.keys())
            return None
        left_out -= set(wrong)
        for key in wrong:
            references.pop(key, None)
            setup.discard({f"{name}.{key}"} & setup.secrets.keys())


def _refuse_unknown_settings(kind: str, declared: Kind, options: Options) -> None:
    """Exit with 2 if an option names a setting that the kind has not, before anything is asked."""
    from semel.faces.config.problems import suggest_nearest
    from semel.gateway.settings import ChannelSettings
    from semel.gateway.settings.tables import list_keys

    known = {field.name for field in dataclasses.fields(declared.settings)} | list_keys(ChannelSettings).keys()
    for key in options.settings.keys() - known:
        exit_wrong_usage(f"--set {key}: {kind} has no such setting{suggest_nearest(key, sorted(known))}")


def _choose_way(kind: str, options: Options) -> tuple[str, ...]:
    """Return the settings of the way that is chosen, by an option or by a person; () if the kind has but one way."""
    ways = WAYS.get(kind, ())
    given = [way for way in ways if options.settings.keys() & set(way.settings)]
    if len(given) > 1:
        exit_wrong_usage(f"{kind} takes {' or '.join(map(_name_options, ways))}, not both")
    if not ways or given:
        return given[0].settings if given else ()
    if not options.asks:
        needed = ", or ".join(f"{_name_options(way, '=...')} ({way.name}: {way.remark})" for way in ways)
        exit_wrong_usage(f"{kind} needs {needed}")
    chosen = ask_choice(WAY_QUESTIONS[kind], [Choice(way.name, way.remark) for way in ways])
    return next(way.settings for way in ways if way.name == chosen)


def _name_options(way: Way, value: str = "") -> str:
    """Return the options that give a way's settings."""
    return " ".join(f"--set {setting}{value}" for setting in way.settings)


def _name_secret_files(setup: Setup, name: str) -> None:
    """Say in which files the channel's secrets will be kept. `name`: of the channel."""
    for secret in setup.secrets:
        if secret.startswith(f"{name}."):
            setting, file = secret.removeprefix(f"{name}."), setup.folder / secret
            print_remark(f"the {setting} will be kept in {file}, which only you can read; to change it, write it there")


def _read_options(setup: Setup, declared: Kind, options: Options) -> dict[str, Any]:
    """Return the settings that were given as options; secrets as references."""
    secret_names = _list_secrets(declared)
    for key in secret_names & options.settings.keys():
        check_reference(f"--set {key}", options.settings[key])
    return {
        key: setup.keep_secret(key, text) if key in secret_names else _read_value(declared, key, text)
        for key, text in options.settings.items()
    }


def _read_value(declared: Kind, key: str, text: str) -> Any:
    """Return the value of a setting: the text if the setting takes text; otherwise the text read as a TOML value.

    The words of a list may also be given as in a shell. What cannot be read stays text, which is refused later.
    """
    from pydantic import TypeAdapter, ValidationError

    from semel.gateway.settings import ChannelSettings
    from semel.gateway.settings.tables import list_keys

    types = get_type_hints(declared.settings)
    common = get_type_hints(ChannelSettings, include_extras=True)
    types |= {name: common[field] for name, field in list_keys(ChannelSettings).items()}
    try:
        TypeAdapter(types.get(key, str)).validate_python(text, strict=True)
        return text
    except ValidationError:
        pass
    with contextlib.suppress(ValueError):
        return tomllib.loads(f"value = {text}")["value"]
    with contextlib.suppress(ValueError):
        takes_list = any(get_origin(option) is list for option in (types[key], *get_args(types[key])))
        return shlex.split(text) if takes_list else text
    return text


def _ask_settings(
    setup: Setup, name: str, kind: str, declared: Kind, options: Options, keys: Sequence[str], answers: dict[str, str]
) -> dict[str, str]:
    """Ask for settings and return the answers; secrets as references. Exits with 2 if nobody can be asked.

    `answers`: those given before, which are offered again unless they are secrets. The new ones are added.
    """
    from semel.faces.config.template import read_descriptions

    descriptions = read_descriptions(declared.settings)
    references = {}
    for key in keys:
        if not options.asks:
            exit_wrong_usage(f"{kind} needs --set {key}=...: {descriptions.get(key, key)}")
        question = f"{key} ({descriptions.get(key, '').removesuffix('.')})"
        if key in _list_secrets(declared):
            references[key] = setup.keep_secret(f"{name}.{key}", ask_text(question, hidden=True))
        else:
            references[key] = answers[key] = ask_text(question, default=answers.get(key))
    return references


def _ask_optional(setup: Setup, name: str, declared: Kind, key: str) -> Any:
    """Ask for a setting that may be left out. Return its value, a secret as a reference; "" if it is left out."""
    from semel.faces.config.template import read_descriptions

    is_secret = key in _list_secrets(declared)
    question = f"{key} ({read_descriptions(declared.settings)[key].removesuffix('.')}; Enter: none)"
    answer = ask_text(question, default="", hidden=is_secret)
    if not answer:
        return ""
    return setup.keep_secret(f"{name}.{key}", answer) if is_secret else _read_value(declared, key, answer)


def _list_secrets(declared: Kind) -> set[str]:
    return {field.name for field in dataclasses.fields(declared.settings) if not field.repr}


def _list_questions(kind: str, declared: Kind) -> tuple[str, ...]:
    """Return the settings of a kind of channel that are asked for, whichever way is chosen."""
    required = [
        field.name
        for field in dataclasses.fields(declared.settings)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    return QUESTIONS.get(kind, tuple(required))


def make_channel(setup: Setup, name: str, kind: str, references: Mapping[str, Any]) -> Channel:
    """Create the channel of these settings. Raises ConfigError or ChannelError."""
    from pydantic import ValidationError

    from semel.channels import make
    from semel.faces.config.channel_options import check_options
    from semel.faces.config.file import ConfigFile, ConfigSource
    from semel.faces.config.problems import explain_validation_error
    from semel.gateway.settings import ChannelSettings
    from semel.gateway.settings.tables import read_table

    source = ConfigSource(setup.folder, "", name, os.environ)
    values = {key: setup.reveal(value) if isinstance(value, str) else value for key, value in references.items()}
    try:
        section = read_table(ChannelSettings, {"kind": kind, **values}, source.resolvers)
    except ValidationError as error:
        details = error.errors(include_url=False)
        for problem in details:
            problem["loc"] = ("channels", name, *problem["loc"])
        raise explain_validation_error(details, ConfigFile, source.text, source.name) from None
    section = section.model_copy(update={"name": name})
    return make(section.model_copy(update={"options": check_options(section, source)}))


def _check_channel(
    setup: Setup, name: str, kind: str, references: Mapping[str, Any], owners: Mapping[str, str]
) -> ChannelCheck:
    """Try the account at its platform, as `semel up` would. `owners`: the channel that has each account."""
    from semel.channels import ChannelError, describe_shared_account, find_account, kinds
    from semel.faces.channel_check import CHECK_TIMEOUT_S, ChannelCheck, check_channel
    from semel.faces.config import ConfigError

    try:
        channel = make_channel(setup, name, kind, references)
    except (ConfigError, ChannelError) as error:
        problems = [line.removeprefix(f"{name}: [channels.{name}]").lstrip(" :") for line in str(error).splitlines()]
        return ChannelCheck("; ".join(problems), refused=True, settings=_name_settings(kind, problems))
    account = find_account(channel)
    if account is not None and account in owners:
        return ChannelCheck(f"{describe_shared_account(owners[account], account)}: give this one another", refused=True)
    if not kinds()[kind].people:  # it has no account to try
        warning = getattr(getattr(channel, "settings", None), "warning", "")
        return ChannelCheck(f"it {warning}" if warning else "", refused=True)
    print_remark(f"trying the account at {kind} (up to {CHECK_TIMEOUT_S:g} s) ...")
    check = asyncio.run(check_channel(channel))
    if not check.problem:
        print_remark(f"{kind} accepts the account.")
    return check


def _name_settings(kind: str, problems: Iterable[str]) -> tuple[str, ...]:
    """Return the settings that problems are about: each begins with its name. () if one is about none of them."""
    from semel.channels import kinds

    names = {field.name for field in dataclasses.fields(kinds()[kind].settings)}
    words = {word for problem in problems for word in re.findall(r"\w+", problem)[:1]}
    return tuple(words) if words <= names else ()


def _get_login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # the user has none
        return "owner"


def _add_owner(setup: Setup, kind: str, declared: Kind, options: Options) -> None:
    from semel.law.access import ROLES, make_unique_name

    login = re.sub(r"[^A-Za-z0-9_-]", "-", _get_login_name())
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
