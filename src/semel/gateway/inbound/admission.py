"""Who may talk: each thing that a channel hears is judged before it is heard (docs/people.md).

Known are those whom the configuration lists, whom the owner added, and who showed a code. Everybody else is a
stranger: counted by channel and reason, listed in memory for the owner, never a row. Where a channel is open to
strangers, they talk as guests, so many messages an hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from semel.gateway.clock import Clock
from semel.gateway.inbound.pairing import Pairing, Tried
from semel.gateway.inbound.roster import Roster
from semel.gateway.inbound.unknown_senders import Strangers
from semel.gateway.metric import labelled
from semel.gateway.ports import Incoming, Person
from semel.gateway.rate_limit import Hourly
from semel.gateway.settings import ChannelSettings, GatewaySettings
from semel.gateway.transactions import Record
from semel.law import access as law
from semel.ledger import people as rows
from semel.ledger.people import seen

__all__ = ["People", "Verdict", "seen"]

GUEST_MESSAGES = 20  # an hour, of one stranger where strangers are guests
GUESTS_MESSAGES = 600  # an hour, of all of them on one channel
UNREADABLE = 200  # an hour, of what cannot be read and names nobody: anybody may have sent it

Json = dict[str, Any]
log = structlog.get_logger("semel.people")


@dataclass(frozen=True)
class Verdict:
    """What becomes of something that was heard.

    refused: a word for the metric; nothing is recorded. wakes: False: heard without a wake, and no command; None: by
    its kind. command: it is heard as a command of this name, with this argument, and answered there.
    """

    refused: str | None = None
    role: law.Role = "guest"
    person: str = ""  # the name people configured or paired; "": none
    wakes: bool | None = None
    command: tuple[str, str] | None = None
    text: str = ""  # what is recorded instead of what was written: a code stands in no ledger


class People(Roster):
    """Everybody who is known, by account; loaded at the start, changed only through this."""

    def __init__(self, record: Record, settings: GatewaySettings, clock: Clock) -> None:
        self.record = record
        self.settings = settings
        self.clock = clock
        self.strangers = Strangers()
        self.pairing = Pairing(record, clock, frozenset(settings.people))
        self._known = {}
        self._guests: dict[str, Hourly] = {}
        self._nobodys: dict[str, Hourly] = {}

    def __repr__(self) -> str:
        return f"<People {len(self._known)} accounts known, {self.strangers!r}>"

    async def start(self) -> None:
        """What the configuration lists holds. Before anything is heard."""
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
        """May be asked again about the same thing: the verdict is the same. Writes only a code that was redeemed."""
        if what.kind in ("echo", "failed"):  # it is about what we said: no sender is to be judged
            return Verdict()
        if what.kind == "unreadable" and what.sender is None:
            return self._within(self._nobodys, channel, what, UNREADABLE, UNREADABLE, "unreadable") or Verdict()
        who = self._known.get((channel, what.sender.id)) if what.sender is not None else None
        code, asked = law.given_code(what.text) if what.kind == "message" else (None, False)
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
            heard = law.in_group(room.policy, what.mentioned)
            if heard is None:
                return self._refuse(channel, what, "group", known=who is not None)
            wakes = None if heard else False
        if who is not None:
            return Verdict(role=who.role, person=who.name, wakes=wakes)
        over = self._within(self._guests, channel, what, GUEST_MESSAGES, GUESTS_MESSAGES, "limit")
        return over or Verdict(wakes=wakes)

    def _within(
        self, of: dict[str, Hourly], channel: str, what: Incoming, each: int, all: int, reason: str
    ) -> Verdict | None:
        """A refusal, where there was as much of this as may be in an hour; else it is counted."""
        limit = of.setdefault(channel, Hourly(each, all))
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
        """The verdict about a message that may be a code; None: it is a message like any other.

        What somebody writes who is known is one only if `/pair` stands before it, or if it is the message by which they
        became known, told again.
        """
        if what.group:
            if code is not None and await self.pairing.burn(channel, what, code):
                self.strangers.count(channel, "shown")
            return None
        if who is not None and (again := await self.pairing.repeated(channel, what)):
            return _paired(again)
        if who is not None and not asked:
            return None
        tried = await self.pairing.redeem(channel, what, code) if code is not None else Tried("none")
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
        """Whether they may speak there, in the group of that address, at all."""
        own = self._own(channel)
        open_to = own.room(group).strangers if group else own.strangers
        return (channel, sender.id) in self._known or open_to == "guest"

    async def role_of(self, source: str, sender_id: str | None = None) -> law.Role:
        """The role of whoever reports from there: an account of a channel, or who has shown a channel's secret, or
        the owner's token."""
        kind, _, name = source.partition(":")
        channel = self.settings.channels.get(name) if kind == "channel" else None
        if channel is None:
            return "owner"
        if sender_id is None:
            return channel.role
        who = self._known.get((name, sender_id))
        return who.role if who is not None else "guest"

    async def approvals(self, sessions: Sequence[str]) -> frozenset[str]:
        """Whom the agents of all of these sessions let answer their requests: roles, and names of people."""
        agents = [self.settings.agents.get(name) for name in await self.record.read(rows.agents_of, sessions)]
        named = [frozenset(agent.approvals if agent is not None else ()) for agent in agents]
        return frozenset.intersection(*named) if named else frozenset()

    def not_allowed(self, source: str, reason: str) -> None:
        """Something that somebody who is known may not: it is counted."""
        self.strangers.count(source.removeprefix("channel:") if source.startswith("channel:") else "api", reason)

    def metrics(self) -> dict[str, float]:
        """How often something was refused, by channel and reason."""
        counts = {(channel, "stranger"): 0 for channel, own in self.settings.channels.items() if own.people}
        counts |= self.strangers.refused
        name = "semel_refused_total"
        return {labelled(name, channel=channel, reason=why): float(n) for (channel, why), n in counts.items()}


def _paired(tried: Tried) -> Verdict:
    text = f"You are paired as {tried.name} ({tried.role}). Say something; /help lists what you can do here."
    return Verdict(role=tried.role, person=tried.name, command=("pair", text), text="/pair")
