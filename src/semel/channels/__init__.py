"""Channel adapters, one package per platform, and the entry point for third-party ones.

A channel kind is a settings dataclass and a function that makes a channel from such settings. A third-party package
adds a kind through the entry point group `semel.channels`; the entry point's name is the `kind` in semel.toml:

    [project.entry-points."semel.channels"]
    carrier-pigeon = "pigeons:KIND"        # KIND = Kind(PigeonSettings, PigeonChannel)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

from semel.channels import discord, email, irc, matrix, mattermost, signal, slack, teams, telegram, whatsapp, xmpp
from semel.channels.webhook_settings import WebhookSettings
from semel.gateway.ports import Caps, Channel
from semel.gateway.settings import ChannelSettings

GROUP = "semel.channels"
RESERVED = frozenset({"web", "terminal"})
"""Reserved channel names. The web page and the terminal read the ledger: for them the commit is the delivery."""

__all__ = ["GROUP", "RESERVED", "ChannelError", "Kind", "kinds", "make", "make_all"]


class ChannelError(Exception):
    """A channel cannot be created from its settings. The message says what to change."""


@dataclass(frozen=True)
class Kind:
    """One kind of channel, as an entry point provides it.

    - `settings`: a dataclass whose fields are the keys of `[channels.NAME]`. It raises ValueError for a bad value; the
      text is shown to the user. A field with `field(repr=False)` is a secret and never reaches an agent. An optional
      property `account` (str) names the platform account: no two sections of one kind may share it, because two
      readers of one account would take each other's messages. An optional property `warning` (str) says what a channel
      with these settings cannot do, like "can neither send nor receive"; "" if there is nothing to say.
    - `make(name, settings)`: returns the channel without any I/O; the network is used only by `run` and `send`.
    - `people`: True if senders have accounts on the platform and access is checked per account; False if whoever
      presents the channel's secret may speak.
    - `person`: the format of an account id on the platform, as (regular expression, example).
    - `find_missing_packages(settings)`: what has to be installed before a channel that has these settings (names) can
      be made, in words for people; "" if nothing is missing. `make` then raises ValueError with the same words.
    """

    settings: type[Any]
    make: Callable[[str, Any], Channel]
    people: bool = True
    person: tuple[str, str] | None = None
    find_missing_packages: Callable[[Collection[str]], str] = lambda settings: ""


def _make_webhook(name: str, settings: WebhookSettings) -> Channel:
    from semel.channels.webhook import WebhookChannel

    return WebhookChannel(name, settings)


_OWN = {
    "webhook": Kind(WebhookSettings, _make_webhook, people=False),
    "discord": Kind(
        discord.DiscordSettings,
        discord.make,
        person=(r"[0-9]{1,20}", "80351110224678912"),
        find_missing_packages=discord.find_missing_packages,
    ),
    "email": Kind(email.EmailSettings, email.make, find_missing_packages=email.find_missing_packages),
    "irc": Kind(irc.IrcSettings, irc.make, person=(irc.ACCOUNT_ID, irc.EXAMPLE_ID)),
    "matrix": Kind(matrix.MatrixSettings, matrix.make),
    "mattermost": Kind(
        mattermost.MattermostSettings,
        mattermost.make,
        person=(r"[a-z0-9]{26}", "kd6aogbxmbgb9nmdrtjcxkr4sw"),
        find_missing_packages=mattermost.find_missing_packages,
    ),
    "signal": Kind(signal.SignalSettings, signal.make, person=(signal.ACCOUNT_ID, signal.EXAMPLE_ID)),
    "slack": Kind(
        slack.SlackSettings,
        slack.make,
        person=(r"[UW][A-Z0-9]{1,40}", "U0123ABCDEF"),
        find_missing_packages=slack.find_missing_packages,
    ),
    "teams": Kind(
        teams.TeamsSettings,
        teams.make,
        person=(teams.ACCOUNT_ID, teams.EXAMPLE_ID),
        find_missing_packages=teams.find_missing_packages,
    ),
    "telegram": Kind(telegram.TelegramSettings, telegram.make, person=(r"-?[0-9]{1,19}", "123456789")),
    "whatsapp": Kind(
        whatsapp.WhatsAppSettings, whatsapp.make, person=(r"[0-9]{5,20}|[A-Z]{2}\.[A-Za-z0-9.]{1,128}", "16505551234")
    ),
    "xmpp": Kind(xmpp.XmppSettings, xmpp.make, find_missing_packages=xmpp.find_missing_packages),
}


@cache
def kinds() -> Mapping[str, Kind]:
    """Return all kinds by name: the built-in ones and those of installed packages.

    Raises ChannelError if a package's kind cannot be used.
    """
    known = dict(_OWN)
    for entry in metadata.entry_points(group=GROUP):
        package = f"the package {entry.dist.name}" if entry.dist else "a package"
        if entry.name in known:
            raise ChannelError(f"{package} brings the channel kind {entry.name!r}, which exists: remove it")
        try:
            kind = entry.load()
        except Exception as error:
            raise ChannelError(f"the channel kind {entry.name!r} of {package} cannot be loaded: {error}") from error
        if not isinstance(kind, Kind) or not dataclasses.is_dataclass(kind.settings):
            raise ChannelError(f"{entry.value} of {package} should be a Kind with a settings dataclass")
        known[entry.name] = kind
    return known


def make(settings: ChannelSettings) -> Channel:
    """Create the channel of one `[channels.NAME]` section. Raises ChannelError if its settings are wrong."""
    section = f"[channels.{settings.name}]"
    if settings.name in RESERVED:
        raise ChannelError(f"{section}: the name is taken by the {settings.name} itself; choose another")
    if ":" in settings.name:
        raise ChannelError(f"{section}: a channel's name may contain no colon; in CHANNEL:ADDRESS, it ends the name")
    all_kinds = kinds()
    if settings.kind not in all_kinds:
        raise ChannelError(f"{section}: there is no kind {settings.kind!r}; there is {', '.join(sorted(all_kinds))}")
    kind = all_kinds[settings.kind]
    try:
        channel = kind.make(settings.name, kind.settings(**settings.options))
    except (ValueError, TypeError) as error:
        raise ChannelError(f"{section}: {error}") from None
    if channel.name != settings.name or not isinstance(channel.caps, Caps):
        raise ChannelError(f"{section}: the kind {settings.kind!r} made an object that is not this channel")
    if settings.stream and not (channel.caps.edits and channel.caps.deletes):
        raise ChannelError(
            f"{section}: stream = true needs a platform where messages can be edited and deleted, "
            f"and {settings.kind} has none; leave the setting out"
        )
    if "reserve" in settings.model_fields_set and not channel.caps.can_reserve:
        raise ChannelError(
            f"{section}: reserve is for platforms that neither fold repeats nor tell what they have, and where every "
            f"reader sees edits; {settings.kind} does without; leave the setting out"
        )
    return channel


def make_all(settings: Mapping[str, ChannelSettings]) -> dict[str, Channel]:
    """Create all configured channels, by name. Raises ChannelError if one cannot be created or two share an account."""
    channels, problems = try_all(settings)
    if problems:
        raise ChannelError(problems[0])
    return channels


def try_all(settings: Mapping[str, ChannelSettings]) -> tuple[dict[str, Channel], list[str]]:
    """Create the configured channels. Return those that can be created, by name, and why the others cannot."""
    channels: dict[str, Channel] = {}
    problems: list[str] = []
    owners: dict[tuple[str, str], str] = {}
    for name, section in settings.items():
        try:
            channels[name] = make(section)
        except ChannelError as error:
            problems.append(str(error))
            continue
        account = find_account(channels[name])
        if account is not None and (owner := owners.setdefault((section.kind, account), name)) != name:
            problems.append(
                f"[channels.{name}]: {describe_shared_account(owner, account)}: remove one, or give it an account of "
                "its own"
            )
    return channels, problems


def find_account(channel: Channel) -> str | None:
    """Return the platform account of a channel, which no other channel of its kind may have; None if it has none."""
    account: str | None = getattr(getattr(channel, "settings", None), "account", None)
    return account


def describe_shared_account(owner: str, account: str) -> str:
    """Say why a second section may not have the account of `[channels.OWNER]`."""
    return f"[channels.{owner}] has the same account, {account}, so each message would reach only one of them"
