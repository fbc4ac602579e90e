"""The owner's operations on people: list known and refused senders, add and remove accounts, create pairing codes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from typing import Any

from semel.gateway.clock import Clock
from semel.gateway.errors import BadRequest, Conflict, NotFound
from semel.gateway.inbound.pairing import Pairing
from semel.gateway.inbound.unknown_senders import Strangers
from semel.gateway.settings import GatewaySettings
from semel.gateway.transactions import Record
from semel.law import access as law
from semel.ledger import people as rows

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
ACCOUNT_LENGTH = 500  # characters of a platform's id
MAX_LISTED_CODES = 20

Json = dict[str, Any]


class Roster:
    """The part of `People` that the CLI and the HTTP API call. Raises BadRequest, NotFound and Conflict."""

    record: Record
    settings: GatewaySettings
    clock: Clock
    strangers: Strangers
    pairing: Pairing
    _known: dict[tuple[str, str], rows.Account]

    def _learn(self, accounts: Collection[rows.Account]) -> None:
        self._known = {(one.channel, one.id): one for one in accounts}

    def everybody(self) -> list[Json]:
        """Each person: {"name", "role", "accounts": [{"account", "origin"}]}, by name.

        `origin`: how the account became known: "config", "added" or "paired".
        """
        people: dict[str, Json] = {
            one.name: {"name": one.name, "role": one.role, "accounts": []} for one in self.settings.people.values()
        }
        for one in self._known.values():
            person = people.setdefault(one.name, {"name": one.name, "role": one.role, "accounts": []})
            person["accounts"].append({"account": f"{one.channel}:{one.id}", "origin": one.origin})
        return [people[name] for name in sorted(people)]

    def refused(self) -> Json:
        """{"strangers": the latest refused senders, newest first; "refused": counts by channel and reason}. In ms."""
        latest = [
            {
                "account": f"{one.channel}:{one.id}", "channel": one.channel, "id": one.id, "name": one.name,
                "first": one.first, "last": one.last, "times": one.times,
            }
            for one in self.strangers.latest()
        ]  # fmt: skip
        counts = sorted(self.strangers.refused.items())
        return {
            "strangers": latest,
            "refused": [{"channel": channel, "reason": reason, "times": n} for (channel, reason), n in counts],
        }

    async def add(self, account: str, name: str | None = None, role: str | None = None) -> Json:
        """Add or change an account. Without a name, use that of the refused sender, or else the id."""
        channel, _, id = account.partition(":")
        self._check_channel(channel)
        if not id or len(id) > ACCOUNT_LENGTH:
            raise BadRequest(f"account: {account[:80]!r} should be CHANNEL:ID, like matrix:@ada:example.org")
        known = self._known.get((channel, id))
        if known is not None and known.origin == "config":
            raise Conflict(f"{account} is listed in semel.toml, as {known.name}: change it there")
        if name is None:
            name = known.name if known is not None else self._called(channel, id)
        role = self._role(name, role)
        self._learn(await self.record.write(rows.put, rows.Account(channel, id, name, role, "added")))
        self.strangers.forget(channel, id)
        return self._person(name)

    def _called(self, channel: str, id: str) -> str:
        met = next((one.name for one in self.strangers.latest() if (one.channel, one.id) == (channel, id)), "")
        return law.make_unique_name(met or id, self._taken())

    async def remove(self, account: str) -> None:
        """Remove an account; its messages are then those of a stranger."""
        channel, _, id = account.partition(":")
        try:
            left = await self.record.write(rows.remove, channel, id)
        except rows.Listed:
            raise Conflict(
                f"{account} is listed in semel.toml: remove it from its [people.NAME] there, and restart the gateway"
            ) from None
        if left is None:
            near = difflib.get_close_matches(account, [f"{c}:{i}" for c, i in self._known], 1)
            raise NotFound(f"{account!r} is nobody's account{f'; did you mean {near[0]!r}?' if near else ''}")
        self._learn(left)

    async def pair(self, channel: str, name: str | None = None, role: str | None = None) -> Json:
        """Create a pairing code, which is shown only here: {"code", "channel", "name", "role", "expires" (ms)}.

        Without a name, the person who uses it is named as on the platform.
        """
        self._check_channel(channel)
        told = self._role(name, role) if name is not None else self._checked(role or "member")
        made = await self.pairing.show(channel, name or "", told)
        return {
            "code": made.code, "channel": made.channel, "name": made.name or None, "role": made.role,
            "expires": made.expires,
        }  # fmt: skip

    async def pairings(self) -> list[Json]:
        """The newest codes with their state (open, used, expired or void), without the codes themselves."""
        now = self.clock.now()
        return [
            {
                "channel": row.channel, "name": row.name or None, "role": row.role,
                "at": row.at, "expires": row.expires,
                "state": "expired" if row.state == "open" and row.expires <= now else row.state,
                "account": f"{row.channel}:{row.account}" if row.account is not None else None,
            }
            for row in await self.record.read(rows.pairings, MAX_LISTED_CODES)
        ]  # fmt: skip

    # ------------------------------------------------------------ what is asked for

    def _person(self, name: str) -> Json:
        return next(one for one in self.everybody() if one["name"] == name)

    def _taken(self) -> set[str]:
        return {one.name for one in self._known.values()} | set(self.settings.people)

    def _check_channel(self, channel: str) -> None:
        known = sorted(self.settings.channels)
        if channel not in known:
            near = difflib.get_close_matches(channel, known, 1)
            there = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(known) or 'none'}"
            raise BadRequest(f"channel: {channel[:80]!r} is not configured; {there}")
        if not self.settings.channels[channel].people:
            raise BadRequest(f"channel: {channel!r} has no people of its own; whoever knows its secret may speak")

    def _role(self, name: str, role: str | None) -> law.Role:
        """The role for an account of that person: the requested one, else that of their other accounts, else member."""
        if not NAME.fullmatch(name) or name in law.ROLES:
            raise BadRequest(f"name: {name[:80]!r} should be letters, digits, - and _, and not the name of a role")
        listed = self.settings.people.get(name)
        if listed is not None and role not in (None, listed.role):
            raise Conflict(f"{name} is {listed.role} in semel.toml: change the role there, or choose another name")
        has = next((one.role for one in self._known.values() if one.name == name), None)
        return self._checked(role or (listed.role if listed is not None else has) or "member")

    @staticmethod
    def _checked(role: str) -> law.Role:
        for known in law.ROLE_NAMES:
            if role == known:
                return known
        raise BadRequest(f"role: {role[:80]!r} is not one of {', '.join(law.ROLE_NAMES)}")
