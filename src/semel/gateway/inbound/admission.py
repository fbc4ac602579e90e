"""Access control: decide whether the sender of an event may speak, before the event is accepted (docs/people.md).

A sender is known if the configuration lists them, the owner added them, or they redeemed a pairing code. Everybody else
is a stranger. The gateway counts strangers by channel and reason, and lists them in memory for the owner and in the
log, but never writes a row about them. If a channel or group admits strangers as guests, they may send a limited number
of messages per hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from semel.gateway.clock import Clock
from semel.gateway.inbound.pairing import RedeemResult
from semel.gateway.inbound.roster import Roster
from semel.gateway.inbound.strangers import HourlyLimit
from semel.gateway.ports import Incoming, Person
from semel.gateway.record import LedgerAccess
from semel.gateway.settings import ChannelSettings, GatewaySettings
from semel.law import access as law
from semel.ledger import people as rows

MAX_GUEST_MESSAGES_PER_HOUR = 20  # of one guest
MAX_CHANNEL_GUEST_MESSAGES_PER_HOUR = 600  # of all guests of a channel together
MAX_UNREADABLE_PER_HOUR = 200  # unreadable events without a sender, per channel: anybody may have sent them

log = structlog.get_logger("semel.people")


@dataclass(frozen=True)
class Verdict:
    """The access decision for one event.

    `refused`: the reason, as a metric label, if the event is refused and not recorded; else None. `wakes`: False if the
    event neither wakes the agent nor counts as a command; None decides by its kind. `command`: the (name, argument) of
    the command as which the event is recorded, or None.
    """

    refused: str | None = None
    role: law.Role = "guest"
    person: str = ""  # the configured or paired name; "" if unknown
    wakes: bool | None = None
    command: tuple[str, str] | None = None
    text: str = ""  # if not "", recorded instead of the written text: pairing codes must not be in the ledger


class AccountDirectory(Roster):
    """All known accounts, cached in memory. They are loaded at the start, and changed only through this class."""

    def __init__(self, record: LedgerAccess, settings: GatewaySettings, clock: Clock) -> None:
        super().__init__(record, settings, clock)
        self._guest_limits: dict[str, HourlyLimit] = {}
        self._unreadable_limits: dict[str, HourlyLimit] = {}

    def __repr__(self) -> str:
        return f"<People {len(self.accounts)} accounts known, {self.strangers!r}>"

    async def start(self) -> None:
        """Load the known accounts and apply the configuration. Call it before any event is accepted."""
        listed = [
            rows.PersonAccount(account.partition(":")[0], account.partition(":")[2], person.name, person.role, "config")
            for person in self.settings.people.values()
            for account in person.accounts
        ]
        roles = {name: person.role for name, person in self.settings.people.items()}
        self._set_accounts(await self.record.write(rows.replace_configured, listed, roles))
        await self.pairing.start()
        for name in self.settings.channels:
            if self.is_closed(name):
                log.warning("nobody may talk on a channel", channel=name, what=f"`semel pair {name}` lets somebody in")

    async def load(self) -> None:
        """Load the known accounts as they are: the active gateway applies the configuration."""
        self._set_accounts(await self.record.read(rows.list_accounts))

    def _channel_settings(self, channel: str) -> ChannelSettings:
        return self.settings.channels.get(channel) or ChannelSettings(name=channel, kind="")

    def is_closed(self, name: str) -> bool:
        """Return whether nobody may talk on a channel: it refuses strangers, and no account on it is known."""
        channel_settings = self._channel_settings(name)
        return (
            channel_settings.people
            and channel_settings.strangers == "refuse"
            and all(channel != name for channel, _ in self.accounts)
        )

    # ------------------------------------------------------------ judging

    async def judge(self, channel: str, event: Incoming) -> Verdict:
        """Decide whether an event is accepted. A repeat of the event gets the same verdict.

        The ledger is written only if the event redeems or voids a pairing code.
        """
        if event.kind in ("echo", "failed"):  # about a message of our own, so there is no sender to judge
            return Verdict()
        if event.kind == "unreadable" and event.sender is None:
            limit = self._unreadable_limits.setdefault(
                channel, HourlyLimit(MAX_UNREADABLE_PER_HOUR, MAX_UNREADABLE_PER_HOUR)
            )
            return self._count_within(limit, channel, event, "unreadable") or Verdict()
        account = self.accounts.get((channel, event.sender.id)) if event.sender is not None else None
        code, is_pair_command = law.read_pairing_message(event.text) if event.kind == "message" else (None, False)
        verdict = None
        if event.sender is not None and (code is not None or is_pair_command):
            verdict = await self._judge_code(channel, event, code, is_pair_command, account)
        return verdict or self._judge_sender(channel, event, account, is_code=code is not None and not event.group)

    def _judge_sender(
        self, channel: str, event: Incoming, account: rows.PersonAccount | None, is_code: bool
    ) -> Verdict:
        channel_settings = self._channel_settings(channel)
        room = channel_settings.room(event.address) if event.group else None
        if account is None:
            open_to = channel_settings.strangers if room is None else room.strangers
            if open_to != "guest" or event.sender is None:
                return self._refuse(channel, event, "code" if is_code else "stranger")
        wakes = None
        if room is not None:
            wakes_agent = law.decide_group_wake(room.policy or channel_settings.groups, event.mentioned)
            if wakes_agent is None:
                return self._refuse(channel, event, "group", is_known=account is not None)
            wakes = None if wakes_agent else False
        if account is not None:
            return Verdict(role=account.role, person=account.name, wakes=wakes)
        limit = self._guest_limits.setdefault(
            channel, HourlyLimit(MAX_GUEST_MESSAGES_PER_HOUR, MAX_CHANNEL_GUEST_MESSAGES_PER_HOUR)
        )
        return self._count_within(limit, channel, event, "limit") or Verdict(wakes=wakes)

    def _count_within(self, limit: HourlyLimit, channel: str, event: Incoming, reason: str) -> Verdict | None:
        """Count the event and return None; but if the limit is reached, return a refusal for `reason` instead.

        A repeat of a counted event is neither refused nor counted again.
        """
        name, now = event.sender.id if event.sender is not None else "", self.clock.now()
        if limit.is_counted(name, event.key):
            return None
        if limit.is_full(name, now):
            return self._refuse(channel, event, reason)
        limit.count(name, event.key, now)
        return None

    def _refuse(self, channel: str, event: Incoming, reason: str, is_known: bool = False) -> Verdict:
        self.strangers.count(channel, reason)
        if event.sender is not None and not is_known:
            now = self.clock.now()
            self.strangers.remember(channel, event.sender, now)
            self.refusals.note(channel, event.sender, law.REASONS[reason], now)
        return Verdict(refused=reason)

    # ------------------------------------------------------------ codes

    async def _judge_code(
        self, channel: str, event: Incoming, code: str | None, is_pair_command: bool, account: rows.PersonAccount | None
    ) -> Verdict | None:
        """Return the verdict on a message that may be a pairing code; None if it must be judged like any other message.

        `code`: the text read as a code, or None. `is_pair_command`: the text begins with /pair. `account`: the sender's
        account; None if unknown. A text from a known sender is a code only after /pair, in a repeat of the message that
        paired them, or if it is a code that this gateway made. A code that is sent in a group is voided.
        """
        if event.group:
            if code is not None and await self.pairing.void_code(channel, event, code):
                self.strangers.count(channel, "shown")
            return None
        if account is not None and (repeated := await self.pairing.find_repeat(channel, event)):
            return _admit_paired(repeated)
        is_code = is_pair_command or (code is not None and self.pairing.is_own_code(channel, code))
        if account is not None and not is_code:
            return None
        result = await self.pairing.redeem(channel, event, code) if code is not None else RedeemResult("none")
        if result.outcome == "paired":
            self._set_accounts(result.people)
            self.strangers.forget(channel, event.sender.id if event.sender else "")
            return _admit_paired(result)
        if account is None:
            return self._refuse(channel, event, "codes") if result.outcome == "limited" else None
        text = f"You are already known here, as {account.name} ({account.role})."
        return Verdict(role=account.role, person=account.name, command=("pair", text), text="/pair")

    # ------------------------------------------------------------ queries

    async def may_speak(self, channel: str, sender: Person, group: str = "") -> bool:
        """Return whether this person may speak on the channel.

        `group`: the address of the group where they want to speak; "" for a direct conversation.
        """
        channel_settings = self._channel_settings(channel)
        strangers = channel_settings.room(group).strangers if group else channel_settings.strangers
        return (channel, sender.id) in self.accounts or strangers == "guest"

    async def may_invite(self, channel: str, sender: Person) -> bool:
        """Return whether to accept this person's invitation: they may speak, or a pairing code waits on the channel."""
        return self.pairing.has_open_code(channel) or await self.may_speak(channel, sender)

    def role_of(self, source: str) -> law.Role:
        """Return the role of a program that reports events with this source.

        For a configured channel, it is the channel's setting `role`; for any other source, it is owner.
        """
        kind, _, name = source.partition(":")
        channel = self.settings.channels.get(name) if kind == "channel" else None
        return "owner" if channel is None else channel.role

    async def approvals(self, sessions: Sequence[str]) -> frozenset[str]:
        """Return the roles and names that may answer permission requests in all of these sessions."""
        agents = [self.settings.agents.get(name) for name in await self.record.read(rows.find_agents, sessions)]
        allowed = [frozenset(agent.approvals if agent is not None else ()) for agent in agents]
        return frozenset.intersection(*allowed) if allowed else frozenset()

    def count_refusal(self, source: str, reason: str) -> None:
        """Count a command or answer that a known sender was not allowed to give."""
        self.strangers.count(source.removeprefix("channel:") if source.startswith("channel:") else "api", reason)

    def note_wrong_token(self, address: str) -> None:
        """Log that a request from this address showed a token that is not one of this gateway."""
        self.refusals.note("api", Person(address), "a token that is not one of this gateway", self.clock.now())

    def metrics(self) -> dict[str, float]:
        """Return the number of refusals by channel and reason, as metrics for Prometheus."""
        counts = {
            (channel, "stranger"): 0
            for channel, channel_settings in self.settings.channels.items()
            if channel_settings.people
        }
        counts |= self.strangers.refused
        return {
            f'semel_refused_total{{channel="{channel}",reason="{reason}"}}': float(count)
            for (channel, reason), count in counts.items()
        }


def _admit_paired(result: RedeemResult) -> Verdict:
    text = f"You are paired as {result.name} ({result.role}). Say something; /help lists what you can do here."
    return Verdict(role=result.role, person=result.name, command=("pair", text), text="/pair")
