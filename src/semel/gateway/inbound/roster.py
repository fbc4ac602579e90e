"""The owner's operations on people: list people and refused senders, add and remove accounts, create pairing codes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from semel.gateway.clock import Clock
from semel.gateway.errors import BadRequest, Conflict, NotFound
from semel.gateway.inbound.pairing import Pairing
from semel.gateway.inbound.strangers import RefusalLog, Strangers
from semel.gateway.record import LedgerAccess
from semel.gateway.settings import GatewaySettings
from semel.law import access as law
from semel.ledger import people as rows
from semel.text.json_types import Json

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
MAX_ACCOUNT_CHARS = 500  # characters of a platform's id
MAX_LISTED_CODES = 20


class Roster:
    """The operations on people that the CLI and the HTTP API call. Base of `AccountDirectory`.

    They raise BadRequest, NotFound and Conflict.
    """

    def __init__(self, record: LedgerAccess, settings: GatewaySettings, clock: Clock) -> None:
        self.record = record
        self.settings = settings
        self.clock = clock
        self.strangers = Strangers()
        self.refusals = RefusalLog()
        self.pairing = Pairing(record, clock, frozenset(settings.people))
        self.accounts: dict[tuple[str, str], rows.PersonAccount] = {}

    def _set_accounts(self, accounts: Collection[rows.PersonAccount]) -> None:
        self.accounts = {(account.channel, account.id): account for account in accounts}

    def list_people(self) -> list[Json]:
        """Return all people, sorted by name: {"name", "role", "accounts": [{"account", "origin"}]}.

        An account's origin is "config", "added" or "paired".
        """
        people: dict[str, Json] = {
            person.name: {"name": person.name, "role": person.role, "accounts": []}
            for person in self.settings.people.values()
        }
        for account in self.accounts.values():
            listed = people.setdefault(account.name, {"name": account.name, "role": account.role, "accounts": []})
            listed["accounts"].append({"account": f"{account.channel}:{account.id}", "origin": account.origin})
        return [people[name] for name in sorted(people)]

    def refused(self) -> Json:
        """Return {"strangers": the latest refused senders, newest first, "refused": counts by channel and reason}.

        Times are in ms since the epoch.
        """
        latest = [
            {
                "account": f"{stranger.channel}:{stranger.id}", "channel": stranger.channel, "id": stranger.id,
                "name": stranger.name, "first": stranger.first, "last": stranger.last, "times": stranger.times,
            }
            for stranger in self.strangers.list_latest()
        ]  # fmt: skip
        counts = sorted(self.strangers.refused.items())
        return {
            "strangers": latest,
            "refused": [{"channel": channel, "reason": reason, "times": n} for (channel, reason), n in counts],
        }

    async def add(self, account: str, name: str | None = None, role: str | None = None) -> Json:
        """Add or change an account. Return its person in the form of `list_people`.

        `account`: CHANNEL:ID. `name`: None keeps the account's present name or, for a new account, makes one from the
        refused sender's name or the id. `role`: None takes the role of the person's other accounts, or else member; one
        more account of an owner needs it, because a mistyped id would make a stranger the owner.
        """
        channel, _, id = account.partition(":")
        self._check_channel(channel)
        if not id or len(id) > MAX_ACCOUNT_CHARS:
            raise BadRequest(f"account: {account[:80]!r} should be CHANNEL:ID, like matrix:@ada:example.org")
        existing = self.accounts.get((channel, id))
        if existing is not None and existing.origin == "config":
            raise Conflict(f"{account} is listed in semel.toml, as {existing.name}: change it there")
        if name is None:
            name = existing.name if existing is not None else self._name_refused_sender(channel, id)
        chosen_role = self._choose_role(name, role)
        if role is None and chosen_role == "owner" and (existing is None or existing.name != name):
            raise Conflict(
                f"{name} is an owner: to make {account} one more account of theirs, say so: --role owner; "
                "for somebody else, choose another name"
            )
        role = chosen_role
        self._set_accounts(
            await self.record.write(rows.save_account, rows.PersonAccount(channel, id, name, role, "added"))
        )
        self.strangers.forget(channel, id)
        return next(person for person in self.list_people() if person["name"] == name)

    def _name_refused_sender(self, channel: str, id: str) -> str:
        shown_name = next(
            (
                stranger.name
                for stranger in self.strangers.list_latest()
                if (stranger.channel, stranger.id) == (channel, id)
            ),
            "",
        )
        taken = {account.name for account in self.accounts.values()} | set(self.settings.people)
        return law.make_unique_name(shown_name or id, taken)

    async def remove(self, account: str) -> None:
        """Remove an account (CHANNEL:ID). From then on, its messages are those of a stranger."""
        channel, _, id = account.partition(":")
        try:
            accounts = await self.record.write(rows.remove_account, channel, id)
        except rows.AccountConfigured:
            raise Conflict(
                f"{account} is listed in semel.toml: remove it from its [people.NAME] there, and restart the gateway"
            ) from None
        if accounts is None:
            near = difflib.get_close_matches(account, [f"{c}:{i}" for c, i in self.accounts], 1)
            raise NotFound(f"{account!r} is nobody's account{f'; did you mean {near[0]!r}?' if near else ''}")
        self._set_accounts(accounts)

    async def pair(self, channel: str, name: str | None = None, role: str | None = None) -> Json:
        """Create a pairing code. Return {"code", "channel", "name", "role", "expires" (ms)}.

        The code is never shown again. `name`: the name for the person who will use it; None takes their name on the
        platform. `role`: None takes the role of that person's other accounts, or else member.
        """
        self._check_channel(channel)
        checked_role = self._choose_role(name, role) if name is not None else self._check_role(role or "member")
        code = await self.pairing.show(channel, name or "", checked_role)
        return {
            "code": code.code, "channel": code.channel, "name": code.name or None, "role": code.role,
            "expires": code.expires,
        }  # fmt: skip

    async def pairings(self) -> list[Json]:
        """Return the newest pairing codes with their state (open, used, expired or void), but without their text."""
        now = self.clock.now()
        return [
            {
                "channel": row.channel, "name": row.name or None, "role": row.role,
                "at": row.at, "expires": row.expires,
                "state": "expired" if row.state == "open" and row.expires <= now else row.state,
                "account": f"{row.channel}:{row.account}" if row.account is not None else None,
            }
            for row in await self.record.read(rows.list_pairings, MAX_LISTED_CODES)
        ]  # fmt: skip

    # ------------------------------------------------------------ checking arguments

    def _check_channel(self, channel: str) -> None:
        names = sorted(self.settings.channels)
        if channel not in names:
            near = difflib.get_close_matches(channel, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(names)}"
            hint = hint if names else f"add [channels.{channel[:80]}] to semel.toml, and restart the gateway"
            raise BadRequest(f"channel: {channel[:80]!r} is not configured; {hint}")
        if not self.settings.channels[channel].people:
            raise BadRequest(f"channel: {channel!r} has no people of its own; whoever knows its secret may speak")

    def _choose_role(self, name: str, role: str | None) -> law.Role:
        """Check the name and the requested role. Return the role for an account of this person.

        It is the requested `role`, or else the role of the person's other accounts, or else member.
        """
        if not NAME_PATTERN.fullmatch(name) or name in law.ROLES:
            example = law.make_unique_name(name, ())
            kind = f"letters, digits, - and _, and not the name of a role; such as {example!r}"
            raise BadRequest(f"name: {name[:80]!r} should be {kind}")
        listed = self.settings.people.get(name)
        if listed is not None and role not in (None, listed.role):
            raise Conflict(f"{name} is {listed.role} in semel.toml: change the role there, or choose another name")
        current_role = next((account.role for account in self.accounts.values() if account.name == name), None)
        return self._check_role(role or (listed.role if listed is not None else current_role) or "member")

    @staticmethod
    def _check_role(role: str) -> law.Role:
        for name in law.ROLE_NAMES:
            if role == name:
                return name
        raise BadRequest(f"role: {role[:80]!r} is not one of {', '.join(law.ROLE_NAMES)}")
