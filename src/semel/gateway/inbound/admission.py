"""Access control: decide whether the sender of an event may speak, before the event is accepted (docs/people.md).

A sender is known if the configuration lists them, the owner added them, or they redeemed a pairing code. Everybody else
is a stranger: counted by channel and reason and listed in memory for the owner, but never a row in the ledger. If a
channel or group admits strangers as guests, they may send a limited number of messages per hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from semel.gateway.clock import Clock
from semel.gateway.inbound.pairing import Pairing, RedeemResult
from semel.gateway.inbound.roster import Roster
from semel.gateway.inbound.unknown_senders import Strangers
from semel.gateway.metric import format_labelled_metric
from semel.gateway.ports import Incoming, Person
from semel.gateway.rate_limit import HourlyLimit
from semel.gateway.settings import ChannelSettings, GatewaySettings
from semel.gateway.transactions import Record
from semel.law import access as law
from semel.ledger import people as rows
from semel.ledger.people import seen

__all__ = ["People", "Verdict", "seen"]

MAX_GUEST_MESSAGES_PER_HOUR = 20  # per hour and guest
MAX_CHANNEL_GUEST_MESSAGES_PER_HOUR = 600  # per hour, of all guests of a channel together
MAX_UNREADABLE_PER_HOUR = 200  # unreadable events without a sender, per hour and channel: anybody may have sent them

Json = dict[str, Any]
log = structlog.get_logger("semel.people")


@dataclass(frozen=True)
class Verdict:
    """The access decision for one event.

    refused: the reason as a metric label; nothing is recorded then. wakes: False if the event neither wakes the agent
    nor counts as a command, None if its kind decides. command: record the event as the command of this name, with this
    argument.
    """

    refused: str | None = None
    role: law.Role = "guest"
    person: str = ""  # the configured or paired name; "" if unknown
    wakes: bool | None = None
    command: tuple[str, str] | None = None
    text: str = ""  # recorded instead of the written text, because pairing codes must not be in the ledger


class People(Roster):
    """All known accounts, cached in memory. Loaded at the start and changed only through this class."""

    def __init__(self, record: Record, settings: GatewaySettings, clock: Clock) -> None:
        self.record = record
        self.settings = settings
        self.clock = clock
        self.strangers = Strangers()
        self.pairing = Pairing(record, clock, frozenset(settings.people))
        self._known = {}
        self._guests: dict[str, HourlyLimit] = {}
        self._nobodys: dict[str, HourlyLimit] = {}

    def __repr__(self) -> str:
        return f"<People {len(self._known)} accounts known, {self.strangers!r}>"

    async def start(self) -> None:
        """Load the known accounts and apply the configuration. Call it before any event is accepted."""
        listed = [
            rows.Account(account.partition(":")[0], account.partition(":")[2], person.name, person.role, "config")
            for person in self.settings.people.values()
            for account in person.accounts
        ]
        self._learn(await self.record.write(rows.configure, listed, self._roles()))
        await self.pairing.start()
        for name, own in self.settings.channels.items():
            if own.people and own.strangers == "refuse" and all(channel != name for channel, _ in self._known):
                log.warning("nobody may talk on a channel", channel=name, what=f"`semel pair {name}` lets somebody in")

    def _roles(self) -> dict[str, str]:
        return {name: person.role for name, person in self.settings.people.items()}

    def _own(self, channel: str) -> ChannelSettings:
        return self.settings.channels.get(channel) or ChannelSettings(channel, "")

    # ------------------------------------------------------------ judging

    async def judge(self, channel: str, what: Incoming) -> Verdict:
        """Decide about one event; the same event gets the same verdict. Writes only if a code is redeemed or voided."""
        if what.kind in ("echo", "failed"):  # about a message of our own, so there is no sender to judge
            return Verdict()
        if what.kind == "unreadable" and what.sender is None:
            return (
                self._within(
                    self._nobodys, channel, what, MAX_UNREADABLE_PER_HOUR, MAX_UNREADABLE_PER_HOUR, "unreadable"
                )
                or Verdict()
            )
        who = self._known.get((channel, what.sender.id)) if what.sender is not None else None
        code, asked = law.read_pairing_message(what.text) if what.kind == "message" else (None, False)
        verdict = None
        if what.sender is not None and (code is not None or asked):
            verdict = await self._code(channel, what, code, asked, who)
        return verdict or self._judged(channel, what, who, guessed=code is not None and not what.group)

    def _judged(self, channel: str, what: Incoming, who: rows.Account | None, guessed: bool) -> Verdict:
        own = self._own(channel)
        room = own.room(what.address) if what.group else None
        if who is None:
            open_to = own.strangers if room is None else room.strangers
            if open_to != "guest" or what.sender is None:
                return self._refuse(channel, what, "code" if guessed else "stranger")
        wakes = None
        if room is not None:
            heard = law.decide_group_wake(room.policy, what.mentioned)
            if heard is None:
                return self._refuse(channel, what, "group", known=who is not None)
            wakes = None if heard else False
        if who is not None:
            return Verdict(role=who.role, person=who.name, wakes=wakes)
        over = self._within(
            self._guests, channel, what, MAX_GUEST_MESSAGES_PER_HOUR, MAX_CHANNEL_GUEST_MESSAGES_PER_HOUR, "limit"
        )
        return over or Verdict(wakes=wakes)

    def _within(
        self, of: dict[str, HourlyLimit], channel: str, what: Incoming, each: int, all: int, reason: str
    ) -> Verdict | None:
        """The refusal if an hourly limit is reached; otherwise count the event (not a repeat) and return None."""
        limit = of.setdefault(channel, HourlyLimit(each, all))
        name, now = what.sender.id if what.sender is not None else "", self.clock.now()
        if limit.counted(name, what.key):
            return None
        if limit.full(name, now):
            return self._refuse(channel, what, reason)
        limit.count(name, what.key, now)
        return None

    def _refuse(self, channel: str, what: Incoming, reason: str, known: bool = False) -> Verdict:
        self.strangers.count(channel, reason)
        if what.sender is not None and not known:
            self.strangers.met(channel, what.sender, self.clock.now())
        return Verdict(refused=reason)

    # ------------------------------------------------------------ codes

    async def _code(
        self, channel: str, what: Incoming, code: str | None, asked: bool, who: rows.Account | None
    ) -> Verdict | None:
        """The verdict for a message that may be a pairing code; None if it is an ordinary message.

        For a known sender it is a code only after `/pair`, or if it is a repeat of the message that paired them.
        """
        if what.group:
            if code is not None and await self.pairing.burn(channel, what, code):
                self.strangers.count(channel, "shown")
            return None
        if who is not None and (again := await self.pairing.repeated(channel, what)):
            return _paired(again)
        if who is not None and not asked:
            return None
        tried = await self.pairing.redeem(channel, what, code) if code is not None else RedeemResult("none")
        if tried.outcome == "paired":
            self._learn(tried.people)
            self.strangers.forget(channel, what.sender.id if what.sender else "")
            return _paired(tried)
        if who is None:
            return self._refuse(channel, what, "codes") if tried.outcome == "limited" else None
        text = f"You are known here already, as {who.name} ({who.role})."
        return Verdict(role=who.role, person=who.name, command=("pair", text), text="/pair")

    # ------------------------------------------------------------ asking

    async def known(self, channel: str, sender: Person, group: str = "") -> bool:
        """Whether this person may speak on the channel at all, or in its group with that address."""
        own = self._own(channel)
        open_to = own.room(group).strangers if group else own.strangers
        return (channel, sender.id) in self._known or open_to == "guest"

    async def role_of(self, source: str, sender_id: str | None = None) -> law.Role:
        """The role of an event's author: that of their account, that of the channel's secret, or else the owner."""
        kind, _, name = source.partition(":")
        channel = self.settings.channels.get(name) if kind == "channel" else None
        if channel is None:
            return "owner"
        if sender_id is None:
            return channel.role
        who = self._known.get((name, sender_id))
        return who.role if who is not None else "guest"

    async def approvals(self, sessions: Sequence[str]) -> frozenset[str]:
        """The roles and names that may answer permission requests in all of these sessions."""
        agents = [self.settings.agents.get(name) for name in await self.record.read(rows.agents_of, sessions)]
        named = [frozenset(agent.approvals if agent is not None else ()) for agent in agents]
        return frozenset.intersection(*named) if named else frozenset()

    def not_allowed(self, source: str, reason: str) -> None:
        """Count something that a known sender was not allowed to do."""
        self.strangers.count(source.removeprefix("channel:") if source.startswith("channel:") else "api", reason)

    def metrics(self) -> dict[str, float]:
        """The number of refusals by channel and reason, for Prometheus."""
        counts = {(channel, "stranger"): 0 for channel, own in self.settings.channels.items() if own.people}
        counts |= self.strangers.refused
        name = "semel_refused_total"
        return {
            format_labelled_metric(name, channel=channel, reason=why): float(n) for (channel, why), n in counts.items()
        }


def _paired(tried: RedeemResult) -> Verdict:
    text = f"You are paired as {tried.name} ({tried.role}). Say something; /help lists what you can do here."
    return Verdict(role=tried.role, person=tried.name, command=("pair", text), text="/pair")
