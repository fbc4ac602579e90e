"""People in memory, for tests of the HTTP face."""

from __future__ import annotations

import time
from typing import Any

from semel.gateway.errors import BadRequest, Conflict, NotFound

Json = dict[str, Any]


class MemoryPeople:
    """One person, and whoever is added; the shapes are those of `semel.gateway.inbound.roster`."""

    def __init__(self) -> None:
        self.accounts = {"matrix:@ada:example.org": ("ada", "owner", "config")}
        self.strangers = {"matrix:@eve": "Eve"}
        self.codes = [self._code(None, "member", 2)]

    def everybody(self) -> list[Json]:
        names = sorted({name for name, _, _ in self.accounts.values()})
        return [self._person(name) for name in names]

    def _person(self, name: str) -> Json:
        mine = {account: one for account, one in self.accounts.items() if one[0] == name}
        role = next(iter(mine.values()))[1]
        accounts = [{"account": account, "origin": origin} for account, (_, _, origin) in mine.items()]
        return {"name": name, "role": role, "accounts": accounts}

    def refused(self) -> Json:
        strangers = [
            {"account": account, "channel": "matrix", "id": account.partition(":")[2], "name": name, "first": 1,
             "last": 2, "times": 2}
            for account, name in self.strangers.items()
        ]  # fmt: skip
        return {"strangers": strangers, "refused": [{"channel": "matrix", "reason": "stranger", "times": 2}]}

    async def pairings(self) -> list[Json]:
        return self.codes

    @staticmethod
    def _code(name: str | None, role: str, expires: int) -> Json:
        told = {"channel": "matrix", "name": name, "role": role, "state": "open", "account": None}
        return {**told, "at": 1, "expires": expires}

    async def add(self, account: str, name: str | None = None, role: str | None = None) -> Json:
        if self.accounts.get(account, ("", "", ""))[2] == "config":
            raise Conflict(f"{account} is listed in semel.toml")
        name = name or "somebody"
        self.accounts[account] = (name, role or "member", "added")
        self.strangers.pop(account, None)
        return self._person(name)

    async def remove(self, account: str) -> None:
        if self.accounts.pop(account, None) is None:
            raise NotFound(f"{account!r} is nobody's account")

    async def pair(self, channel: str, name: str | None = None, role: str | None = None) -> Json:
        if channel != "matrix":
            raise BadRequest(f"channel: {channel!r} is not configured")
        made = self._code(name, role or "member", int(time.time() * 1000) + 600_000)
        self.codes = [made, *self.codes]
        return {"code": "ABCD-2345", **{key: made[key] for key in ("channel", "name", "role", "expires")}}
