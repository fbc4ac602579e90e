"""Settings of channels, of the people and groups on them, and of destinations."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from semel.gateway.settings.tables import Duration, NamedTable, Strings, Table, list_keys
from semel.law.access import Policy, Role, Strangers

Narration = Literal["last", "all"]


class PersonSettings(NamedTable):
    """The table `[people.NAME]`: a known person."""

    role: Role = "member"
    """What the person may do: owner, member or guest (`semel docs people`)."""
    accounts: Strings = Field(default=(), examples=[["matrix:@ada:example.org"]])
    """The person's accounts as CHANNEL:ID, like "matrix:@ada:example.org" or "telegram:12345". More can be added by
    pairing."""


class GroupSettings(Table):
    """The table `[channels.NAME.group."ADDRESS"]`: a group on a channel."""

    policy: Policy | None = Field(default=None, examples=["always"])
    """Which messages wake the agent there: mention, always, or never. Default: the channel's `groups`."""
    strangers: Strangers = "refuse"
    """How unknown senders are treated there: refuse, or guest (`semel docs people`)."""


class ChannelSettings(NamedTable):
    """The table `[channels.NAME]`: the settings that channels of every kind have.

    `options` are the settings of the channel's own kind. In semel.toml they stand beside the others; `semel.channels`
    checks them.
    """

    kind: str = Field(examples=["webhook"])
    """The platform: "telegram", "slack", "signal", "discord", "whatsapp", "teams", "matrix", "mattermost", "xmpp",
    "irc", "email", "webhook", or that of a package."""
    options: Mapping[str, Any] = Field(default_factory=dict, validation_alias="(options)", repr=False)
    narration: Narration = "last"
    """Which text of a turn is delivered: last (only the closing text), or all (every block of text)."""
    stream: bool = False
    """Show an answer while it is written, by editing one message. Needs a platform where messages can be edited and
    deleted."""
    resend_unknown: bool = False
    """If it is unknown whether a message arrived and the platform would not recognise a repeat: send it again,
    visibly marked, instead of holding it until a person decides."""
    reserve: bool = True
    """On a platform that neither folds repeats nor tells what it has, but edits messages: post "…" and edit it into the
    text, so that a lost answer holds nothing. With false, a message is posted whole, which notifications then show."""
    agent: str | None = Field(default=None, examples=["main"])
    """The agent of this channel's sessions. Default: the gateway's default agent."""
    strangers: Strangers = "refuse"
    """How unknown senders are treated in direct conversations: refuse, or guest: everybody may talk
    (`semel docs people`)."""
    groups: Policy = "mention"
    """Which messages in groups wake the agent: mention (the agent reads the others with its next turn), always, or
    never (messages in groups are ignored)."""
    group: Mapping[str, GroupSettings] = Field(default_factory=dict)
    """Settings of single groups, by address or a pattern like "-100*"."""
    retain_s: Duration | None = Field(default=None, examples=["90d"])
    """How long the content of this channel's sessions is kept (`semel docs retention`). Default: for ever."""
    people: bool = Field(default=True, validation_alias="(people)")  # False: callers have no accounts, but a secret
    role: Role = "member"
    """On a channel without user accounts (a webhook): the role of everybody who knows its secret."""

    @model_validator(mode="before")
    @classmethod
    def _collect_options(cls, section: Any, info: ValidationInfo) -> Any:
        if info.context is None or not isinstance(section, Mapping):
            return section
        common = {key: section[key] for key in section if key in list_keys(cls)}
        return common | {"(options)": {key: value for key, value in section.items() if key not in common}}

    def room(self, address: str) -> GroupSettings:
        """Return the settings of the group at an address.

        An entry for the address itself comes first, then the first pattern that matches, then the default.
        """
        patterns = (
            settings for pattern, settings in self.group.items() if "*" in pattern and fnmatchcase(address, pattern)
        )
        group = self.group.get(address) or next(patterns, GroupSettings())
        return group if group.policy is not None else group.model_copy(update={"policy": self.groups})


class DestinationSettings(NamedTable):
    """The table `[destinations.NAME]`: a destination that agents may name in `<message to="NAME">`."""

    channel: str = Field(examples=["hook"])
    """The name of a channel in this file."""
    address: str = Field(min_length=1, examples=["team"])
    """The address on that channel, in the platform's own form."""
    allow: Strings = Field(default=(), examples=[["main:*"]])
    """The sessions that may send there, as patterns like "main:*". Default: none."""

    @property
    def resolved(self) -> str:
        """The destination in the form that claims and parts record: `channel:address`."""
        return f"{self.channel}:{self.address}"

    def allows(self, session: str) -> bool:
        return any(fnmatchcase(session, pattern) for pattern in self.allow)
